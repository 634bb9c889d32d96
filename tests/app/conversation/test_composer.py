"""The message field: a click anywhere on it writes, and Send stays whole in a small window."""

from __future__ import annotations

from itertools import pairwise

import pytest
from PySide6.QtCore import QPoint, QRect, Qt
from PySide6.QtWidgets import QApplication, QWidget
from pytestqt.qtbot import QtBot

from tests.app.driving import Open, answered, settle
from tests.crossings import crossed


def test_a_click_beside_the_text_writes_in_the_field(qtbot: QtBot, open_window: Open) -> None:
    window, _ = open_window()
    window.activateWindow()
    frame, edit = window.composer.frame, window.composer.edit
    hint = window.composer.hint
    for target, place in (
        (frame, QPoint(3, 3)),
        (frame, QPoint(frame.width() - 4, frame.height() - 4)),
        (hint, hint.rect().center()),
    ):
        window.transcript.setFocus()
        window.header.gamma.setFocus()
        assert not edit.hasFocus()
        qtbot.mouseClick(target, Qt.MouseButton.LeftButton, pos=place)
        assert QApplication.focusWidget() is edit


def test_a_click_beside_a_value_in_the_header_edits_it(qtbot: QtBot, open_window: Open) -> None:
    window, _ = open_window()
    window.activateWindow()
    for control in (window.header.gamma, window.header.temperature, window.header.seed):
        chip = control.parentWidget()
        qtbot.mouseClick(chip, Qt.MouseButton.LeftButton, pos=QPoint(3, chip.height() // 2))
        assert QApplication.focusWidget() is control


def test_what_is_being_written_goes_along_into_a_new_chat_where_the_one_before_is_not_kept(
    qtbot: QtBot, open_window: Open
) -> None:
    window, _ = open_window()
    half, other = "Half a message", "Tell me two."
    for waiting, rewritten, left in ((half, "", half), (half, other, f"{half}\n\n{other}"), ("", "", ""), ("", other, other)):
        window.composer.set_text("")
        answered(qtbot, window)
        window.composer.set_text(waiting)
        window.messages.edit_last()
        if rewritten:
            window.composer.set_text(rewritten)
        window.new_chat()
        assert (window.composer.text, window.messages.editing.at) == (left, None)
        assert not window.composer.edit_note.isVisible()


def whole(widget: QWidget, window: QWidget) -> bool:
    """Whether a widget is all inside everything that it is in."""
    inside, parent = widget.rect(), widget.parentWidget()
    area = QRect(widget.mapTo(window, inside.topLeft()), inside.size())
    while parent is not None and parent is not window:
        if not QRect(parent.mapTo(window, QPoint(0, 0)), parent.size()).contains(area):
            return False
        parent = parent.parentWidget()
    return window.rect().contains(area)


@pytest.mark.usefixtures("fonts")
@pytest.mark.parametrize(
    ("text", "scale"), crossed(["", "One line", "\n".join("abcdefghijkl")], [1.0, 1.4, 1.8], together=1), ids=repr
)
def test_send_is_whole_in_the_smallest_window(qtbot: QtBot, open_window: Open, text: str, scale: float) -> None:
    window, _ = open_window(text_scale=scale)
    window.resize(window.minimumSize())
    answered(qtbot, window)
    window.messages.edit_last()
    window.composer.set_text(text)
    composer = window.composer
    parts = (composer.send, composer.edit, composer.edit_note, composer.hint)
    qtbot.waitUntil(lambda: all(whole(part, window) for part in parts))
    qtbot.waitUntil(
        lambda: window.column.stack.height() > 1.5 * composer.edit.fontMetrics().lineSpacing()
    )  # the conversation's room
    bars = window.header.strip.bars
    qtbot.waitUntil(lambda: whole(bars, window))
    settle()  # the field grows with its text
    for part in parts:
        assert part.height() >= part.minimumSizeHint().height() or part is composer.edit
    areas = [QRect(part.mapTo(window, QPoint(0, 0)), part.size()) for part in (composer.edit_note, composer.edit, composer.send)]
    assert not any(above.intersects(below) for above, below in pairwise(areas))
