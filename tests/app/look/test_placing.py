"""Windows stay on the screen, together with the frame around them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import QMargins, QRect
from PySide6.QtGui import QScreen
from PySide6.QtWidgets import QLabel, QWidget
from pytestqt.qtbot import QtBot

from app.look.command import ShortcutSheet
from app.look.placing import FRAME, fit_into, frame_of, visible_part
from app.session.settings import Settings
from app.window.window import Window
from tests.app.fakes import FakeEngine

TITLE_BAR = QMargins(1, 20, 1, 5)


@pytest.mark.parametrize("room", [QRect(0, 0, 1440, 900), QRect(0, 0, 1280, 800), QRect(64, 28, 1216, 772)])
@pytest.mark.parametrize("wanted", [QRect(0, 0, 1440, 900), QRect(700, 500, 1000, 700), QRect(-50, -50, 300, 200)])
def test_a_window_and_its_frame_fit_onto_the_screen(room: QRect, wanted: QRect) -> None:
    placed = fit_into(wanted, room, TITLE_BAR)
    assert room.contains(placed.marginsAdded(TITLE_BAR))
    assert placed.width() == min(wanted.width(), room.width() - 2)
    assert placed.height() == min(wanted.height(), room.height() - 25)


def test_a_window_that_fits_stays_where_it_is() -> None:
    wanted = QRect(100, 80, 900, 600)
    assert fit_into(wanted, QRect(0, 0, 1440, 900), TITLE_BAR) == wanted


@pytest.fixture
def geometry() -> tuple[int, ...]:
    return ()


@pytest.fixture
def window(geometry: tuple[int, ...], qtbot: QtBot, home: Path) -> Iterator[Window]:
    window = Window(FakeEngine(), Settings(appearance="dark", geometry=geometry))
    qtbot.addWidget(window)
    window.show()
    with qtbot.waitSignal(window.first_painted):
        pass
    yield window
    window.close()


@pytest.mark.parametrize("geometry", [(), (0, 0, 3000, 2000), (500, 500, 700, 500)])
def test_the_first_window_is_on_the_screen_with_its_frame(window: Window) -> None:
    assert not frame_of(window).isNull(), "this platform draws no frame, so this test cannot fail"
    assert window.screen().availableGeometry().contains(window.frameGeometry())


@pytest.mark.usefixtures("fonts")
def test_on_a_low_screen_the_whole_window_is_visible(qtbot: QtBot, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """1280 by 800 at scale 2."""
    room = QRect(0, 0, 640, 400)
    monkeypatch.setattr(QScreen, "availableGeometry", lambda _: room)
    window = Window(FakeEngine(), Settings(appearance="dark"))
    qtbot.addWidget(window)
    with qtbot.waitSignal(window.first_painted):
        window.show()
    assert room.contains(window.frameGeometry())
    send, status = window.composer.send, window.status
    assert send.isVisible() and _in_view(send, window.column) and _in_view(status, window)
    assert status.mapTo(window, status.rect().topLeft()).y() >= send.mapTo(window, send.rect().bottomLeft()).y()
    window.close()


@pytest.mark.parametrize("geometry", [(), (0, 0, 3000, 2000)])
def test_the_sheet_of_shortcuts_is_on_the_screen_and_scrolls(window: Window, qtbot: QtBot) -> None:
    window.show_shortcuts()
    sheet = window.findChild(ShortcutSheet)
    assert isinstance(sheet, ShortcutSheet)
    room = window.screen().availableGeometry()
    assert sheet.height() <= room.marginsRemoved(FRAME).height()
    assert sheet.width() <= room.width()
    body = sheet.area.widget()
    assert body.width() >= body.minimumSizeHint().width(), "nothing is cut off at the right"
    assert sheet.area.verticalScrollBar().maximum() > 0, "this screen is too low for all keys"
    last = max(body.findChildren(QLabel), key=lambda label: label.mapTo(body, label.rect().bottomLeft()).y())
    assert not _in_view(last, sheet.area.viewport())
    sheet.area.ensureWidgetVisible(last)
    assert _in_view(last, sheet.area.viewport())
    sheet.close()


def _in_view(widget: QWidget, view: QWidget) -> bool:
    return view.rect().contains(QRect(widget.mapTo(view, widget.rect().topLeft()), widget.size()))


def test_cards_use_only_the_visible_part_of_a_window(qtbot: QtBot) -> None:
    window = QWidget()
    qtbot.addWidget(window)
    screen = window.screen().availableVirtualGeometry()
    window.show()
    for left, top in ((300, 300), (-100, 0), (0, -100), (0, 0)):
        window.setGeometry(screen.left() + left, screen.top() + top, screen.width(), screen.height())
        inside = visible_part(window)
        assert (inside.left(), inside.top()) == (max(0, -left), max(0, -top))
        assert (inside.width(), inside.height()) == (screen.width() - abs(left), screen.height() - abs(top))
    window.setGeometry(screen.right() - 20, screen.top(), 600, 400)
    assert visible_part(window) == window.rect(), "a sliver is no room"


def test_the_sampling_options_shrink_again_with_the_text(window: Window) -> None:
    def size() -> tuple[int, int]:
        window.open_options()
        found = window.options.width(), window.options.height()
        window.options.close()
        return found

    usual = size()
    window.chat.preferences.set(text_scale=1.8)
    assert size() > usual
    window.actions_by_id["normalAction"].trigger()
    assert size() == usual


def test_popovers_do_not_stay_behind_when_the_window_changes_its_size(window: Window) -> None:
    window.open_options()
    window.resize(600, 500)
    assert window.options.isHidden()
    window.panel.explainer.explain("tau", window.mapToGlobal(window.rect().center()))
    assert window.panel.explainer.popover.isVisible()
    window.resize(640, 520)
    assert window.panel.explainer.popover.isHidden()
