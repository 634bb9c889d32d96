"""Theme, text size and room: everything has its place, its name and its key."""

from __future__ import annotations

import sys

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QImage, QPainter
from PySide6.QtWidgets import QAbstractButton, QAbstractSpinBox, QApplication, QComboBox, QPlainTextEdit, QPushButton, QWidget
from pytestqt.qtbot import QtBot

from app.look import theme as themes
from tests.app.driving import Open, answered, settle

NAMES = (
    "composer",
    "sendButton",
    "stopButton",
    "transcript",
    "targetSelector",
    "drafterSelector",
    "ruleSelector",
    "gammaControl",
    "temperatureControl",
    "seedControl",
    "ghostsToggle",
    "statusLine",
    "acceptancePlot",
    "throughputPlot",
    "timePlot",
)


@pytest.mark.usefixtures("fonts")
def test_the_theme_changes_everything_at_once(qtbot: QtBot, share_window: Open) -> None:
    window, _ = share_window()
    answered(qtbot, window)
    for appearance, theme in (("light", themes.LIGHT), ("dark", themes.DARK)):
        window.chat.preferences.set(appearance=appearance)  # type: ignore[arg-type]
        QApplication.processEvents()
        image = window.grab().toImage()
        chat = window.transcript.mapTo(window, QPoint(8, window.transcript.height() - 8))
        assert image.pixelColor(chat).name() == theme.background
        panel = window.panel.mapTo(window, QPoint(window.panel.width() - 4, 4))
        assert image.pixelColor(panel).name() == theme.panel


def test_text_can_be_made_larger_and_back(qtbot: QtBot, share_window: Open) -> None:
    window, _ = share_window()
    answered(qtbot, window)
    height = window.transcript.blocks[1].flow.height
    for _ in range(3):
        qtbot.keyClick(window, Qt.Key.Key_Plus, Qt.KeyboardModifier.ControlModifier)
    assert window.settings.text_scale == pytest.approx(1.3)
    assert window.transcript.blocks[1].flow.height > height
    qtbot.keyClick(window, Qt.Key.Key_0, Qt.KeyboardModifier.ControlModifier)
    assert window.transcript.blocks[1].flow.height == height


def test_a_narrow_window_hides_the_panel(qtbot: QtBot, share_window: Open) -> None:
    window, _ = share_window()
    assert window.panel.isVisible()
    window.resize(640, 700)
    assert not window.panel.isVisible()
    window.resize(1300, 700)
    assert window.panel.isVisible()
    qtbot.keyClick(window, Qt.Key.Key_F3)
    assert not window.panel.isVisible()


@pytest.mark.usefixtures("fonts")
@pytest.mark.parametrize(("width", "height", "scale"), [(560, 460, 1.0), (800, 600, 1.0), (800, 600, 1.8), (1440, 900, 1.5)])
def test_every_named_control_exists(qtbot: QtBot, share_window: Open, width: int, height: int, scale: float) -> None:
    window, _ = share_window(text_scale=scale)
    window.resize(width, height)
    answered(qtbot, window)
    window.panel.show_page("charts")
    settle()
    header, names = window.header, window.panel.charts.sections["proposals"].note
    controls = [header.target, header.drafter, header.rule, header.gamma, header.temperature, header.seed, header.pin]
    lowest = header.strip.y() if header.strip.isVisible() else header.height()
    for control in controls:
        corner = control.mapTo(header, control.rect().bottomRight())
        assert corner.y() < lowest, control.accessibleName()
        assert corner.x() < header.width(), control.accessibleName()
    if window.panel.isVisible():
        assert names.height() >= names.heightForWidth(names.width())
    assert window.width() >= width


def test_everything_can_be_found_by_name_and_is_named_for_screen_readers(qtbot: QtBot, share_window: Open) -> None:
    window, _ = share_window()
    assert all(section.chart for section in window.panel.charts.sections.values()), "those out of sight, too"
    for name in NAMES:
        widget = window.findChild(QWidget, name)
        assert widget is not None, name
        assert widget.accessibleName(), name
    assert window.findChild(type(window.actions_by_id["exportAction"]), "exportAction") is not None
    kinds = (QAbstractButton, QComboBox, QAbstractSpinBox, QPlainTextEdit)
    controls = [control for kind in kinds for control in window.findChildren(kind) if control.isVisible()]
    assert len(controls) > 12
    assert [control for control in controls if not control.accessibleName()] == []


def test_painting_does_not_free_none(qtbot: QtBot) -> None:
    """PySide6 6.12.0 gives back a reference to None with every call that returns nothing: before Python 3.12 it crashes."""
    picture = QImage(8, 8, QImage.Format.Format_ARGB32)
    painter = QPainter(picture)
    before = sys.getrefcount(None)
    for _ in range(100):
        painter.setPen(Qt.PenStyle.NoPen)
    after = sys.getrefcount(None)
    painter.end()
    assert after > before - 50


def test_every_control_can_be_reached_by_tab(qtbot: QtBot, share_window: Open) -> None:
    window, _ = share_window()
    window.activateWindow()
    window.composer.edit.setFocus()
    reached = set()
    for _ in range(60):
        focused = QApplication.focusWidget()
        assert focused is not None
        reached.add(focused.objectName())
        qtbot.keyClick(focused, Qt.Key.Key_Tab)
    wanted = {"composer", "targetSelector", "drafterSelector", "gammaControl", "temperatureControl", "seedControl"}
    assert wanted | {"ghostsToggle", "promptCard", "iconButton"} <= reached
    tile = window.findChildren(QPushButton, "tile")[0]
    looks = []
    for widget in (tile, window.composer.edit):
        widget.setFocus()
        window.setAttribute(Qt.WidgetAttribute.WA_KeyboardFocusChange)  # as a real Tab key does; without, the style has no frame
        look = tile.grab().toImage()
        looks.append((look.pixelColor(look.width() // 2, 0), look.pixelColor(look.width() - 12, look.height() // 2)))
    assert looks[0][0] != looks[1][0], "a frame tells which button has the keyboard"
    assert looks[0][1] == looks[1][1], "and nothing is laid over what is in it"


def test_a_verdict_keeps_the_keyboard_when_the_window_gets_narrower(qtbot: QtBot, share_window: Open) -> None:
    window, _ = share_window()
    answered(qtbot, window)
    window.activateWindow()
    window.transcript.setFocus()
    for key in (Qt.Key.Key_Right, Qt.Key.Key_Right, Qt.Key.Key_Return):
        qtbot.keyClick(window.transcript, key)
    qtbot.waitUntil(lambda: window.verdicts.has_focus)
    shown = window.verdicts.card.geometry()
    window.resize(900, 640)
    qtbot.waitUntil(lambda: window.verdicts.card.geometry() != shown)
    assert window.verdicts.has_focus
