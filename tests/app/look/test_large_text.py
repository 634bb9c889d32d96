"""With the largest text and a narrow window, no popover, dialog or page cuts off its words."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from PySide6.QtCore import QPoint, QRect
from PySide6.QtWidgets import QAbstractButton, QLabel, QWidget
from pytestqt.qtbot import QtBot

from app.look.command import ShortcutSheet
from app.look.widgets import ElidedLabel
from app.session.cursor import Place
from app.window.sampling_popover import NUMBERS
from app.window.window import Window
from engine.types import RANGES
from tests.app.driving import Open, answered, settle

pytestmark = pytest.mark.usefixtures("fonts")


@pytest.fixture
def window(qtbot: QtBot, open_window: Open) -> Window:
    window, _ = open_window(text_scale=RANGES["text_scale"].highest)
    window.resize(700, 594)
    answered(qtbot, window)
    settle()
    return window


def cut_off(root: QWidget) -> Iterator[str]:
    """The words in a widget that have less room than they need."""
    for label in root.findChildren(QLabel):
        if label.isVisible() and label.text() and not isinstance(label, ElidedLabel):
            needed = label.heightForWidth(label.width()) if label.wordWrap() else label.sizeHint().height()
            if label.height() < needed or (not label.wordWrap() and label.width() < label.sizeHint().width()):
                yield f"{label.objectName()}: {label.text()}"
    for button in root.findChildren(QAbstractButton):
        if button.isVisible() and button.text() and button.width() < button.minimumSizeHint().width():
            yield f"{button.objectName()}: {button.text()}"


def test_a_cut_off_label_is_detected(qtbot: QtBot) -> None:
    label = QLabel("These words need more room than this.", holder := QWidget())
    qtbot.addWidget(holder)
    holder.show()
    label.setFixedSize(20, 20)
    assert list(cut_off(holder)) == [": These words need more room than this."]


def test_the_sampling_options_are_not_cut_off(window: Window) -> None:
    window.open_options()
    settle()
    assert not list(cut_off(window.options))
    assert window.screen().availableGeometry().contains(window.options.frameGeometry())
    for box in (window.options.fields[name].widget for name in NUMBERS):
        assert box.width() >= box.minimumSizeHint().width()
    window.options.close()


def test_definitions_are_not_cut_off(window: Window) -> None:
    popover = window.panel.explainer.popover
    for key in ("throughput", "alpha", "tau", "draft_yield", "speed_up", "first_token", "invariant"):
        window.panel.explainer.explain_turn(0, key, QPoint(700, 500))
        settle()
        assert not list(cut_off(popover)), key
        assert window.screen().availableGeometry().contains(popover.frameGeometry()), key
        popover.close()


def test_the_verdict_card_is_not_cut_off_or_scrolls(window: Window) -> None:
    for place in (Place(0, 0, 0), Place(0, 1, 0), Place(0, 2, 0), Place(0, 0, None, 2)):
        window.cursor_place.pin(place)
        settle()
        card = window.verdicts.card
        assert card.isVisible()
        assert not list(cut_off(card))
        assert window.rect().contains(QRect(card.pos(), card.size()))


def test_the_shortcut_sheet_is_not_cut_off_or_scrolls(window: Window) -> None:
    window.show_shortcuts()
    sheet = window.findChild(ShortcutSheet)
    assert isinstance(sheet, ShortcutSheet)
    settle()
    assert not list(cut_off(sheet))
    sheet.close()


def test_the_comparison_leaves_room_for_its_columns(window: Window) -> None:
    window.pages.open_compare()
    settle()
    view = window.pages.comparing
    assert view is not None
    assert not list(cut_off(view.bar))
    for control in (view.bar.presets, view.bar.seed, view.bar.longest, view.bar.samples, view.bar.start, view.bar.prompt):
        corner = control.mapTo(view.bar, control.rect().bottomRight())
        assert view.bar.rect().contains(corner), control.accessibleName()
    assert view.bar.height() < 0.55 * window.height()
