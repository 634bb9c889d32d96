"""Messages have a place of their own, errors stay, and notes go once there was time to read them or their reason has gone."""

from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtCore import QPoint, QRect
from PySide6.QtWidgets import QApplication, QWidget
from pytestqt.qtbot import QtBot

from app.look.banner import MIN_ACTION_MS, MIN_DISPLAY_MS, Banner
from app.window.window import Window
from engine.types import LoadFailed
from tests.app.driving import Open, answered, ask, settle, wait_for_answer
from tests.app.fakes import STORY, story_rounds
from tests.crossings import crossed


def area(widget: QWidget, window: Window) -> QRect:
    return QRect(widget.mapTo(window, QPoint(0, 0)), widget.size())


def expire(banner: Banner) -> None:
    """The time of a note is over; nothing happens if none is running."""
    if banner.timer.isActive():
        banner.timer.timeout.emit()


@pytest.mark.parametrize(
    ("size", "words"),
    crossed([(1440, 900), (560, 460)], ["A short one.", "The model could not be loaded, for many a reason. " * 16], together=1),
)
def test_a_message_does_not_cover_or_move_the_text(qtbot: QtBot, open_window: Open, size: tuple[int, int], words: str) -> None:
    window, _ = open_window(rounds=story_rounds(STORY * 12))
    window.resize(*size)
    settle()
    answered(qtbot, window)
    settle()
    bar = window.transcript.verticalScrollBar()
    bar.setValue(20)
    settle()
    top = window.transcript.viewport().mapTo(window, QPoint(0, 0)).y()
    window.banner.show_message(words)
    settle()
    shown = area(window.banner.frame, window)
    for other in (window.transcript, window.composer.frame, window.composer.send, window.header, window.status):
        assert not shown.intersects(area(other, window)), other.objectName()
    assert window.transcript.viewport().mapTo(window, QPoint(0, 0)).y() == top
    assert bar.value() == 20, "the lines that are being read stay where they are"
    assert window.transcript.height() > 24
    assert area(window.composer.send, window).bottom() < area(window.status, window).top()
    banner = window.banner
    hidden = banner.label.heightForWidth(banner.area.viewport().width()) - banner.area.height()
    assert hidden <= 1 or banner.area.verticalScrollBar().maximum() > 0, "all of it can be read"


def test_text_beside_a_button_gets_enough_lines(open_window: Open) -> None:
    window, _ = open_window()
    window.resize(900, 600)
    banner = window.banner
    for words in range(6, 16, 2):
        banner.show_message(f"Saved: /data/someone/{'word-' * words}card.png.", "note")
        settle()
        banner.show_action("Show in folder", lambda: None)
        settle()
        assert banner.area.verticalScrollBar().maximum() == 0, "it fits, so nothing has to be scrolled"


def test_a_note_hides_after_its_display_time_and_an_error_stays(qtbot: QtBot, open_window: Open) -> None:
    window, _ = open_window()
    window.activateWindow()
    window.composer.edit.setFocus()
    banner = window.banner
    banner.show_message("Saved.", "note")
    assert banner.timer.interval() == MIN_DISPLAY_MS
    expire(banner)
    assert banner.isHidden()
    banner.show_message("A longer note takes longer to read. " * 20, "note")
    assert banner.timer.interval() > MIN_DISPLAY_MS
    banner.show_message("It went wrong.")
    assert not banner.timer.isActive()
    expire(banner)
    assert banner.isVisible()
    banner.dismiss.click()
    assert banner.isHidden()


def test_a_note_stays_while_it_has_focus_or_the_window_is_inactive(qtbot: QtBot, open_window: Open) -> None:
    window, _ = open_window()
    window.activateWindow()
    banner = window.banner
    banner.show_message("Saved.", "note")
    banner.show_action("Show in folder", lambda: None)
    assert banner.timer.interval() == MIN_ACTION_MS
    banner.action.setFocus()
    expire(banner)
    assert banner.isVisible() and banner.timer.isActive()
    window.composer.edit.setFocus()
    other = QWidget()
    qtbot.addWidget(other)
    other.show()
    other.activateWindow()
    qtbot.waitUntil(other.isActiveWindow)
    expire(banner)
    assert banner.isVisible() and banner.timer.isActive(), "nobody was there to read it"
    window.activateWindow()
    qtbot.waitUntil(window.isActiveWindow)
    expire(banner)
    assert banner.isHidden()


def test_display_time_stops_while_another_page_is_shown(open_window: Open) -> None:
    window, _ = open_window()
    window.banner.show_message("Saved.", "note")
    window.pages.open_compare()
    assert not window.banner.timer.isActive()
    window.pages.open_conversation()
    QApplication.processEvents()
    assert window.banner.isVisible() and window.banner.timer.isActive()


def test_a_message_hides_when_it_is_no_longer_valid(qtbot: QtBot, open_window: Open) -> None:
    window, engine = open_window()
    window.resize(600, 700)
    window.open_page("charts")
    assert "too narrow" in window.banner.label.text() and window.banner.isVisible()
    window.resize(1440, 900)
    assert window.banner.isHidden(), "the panel is there now"
    engine.pause_after = 2
    ask(qtbot, window)
    window.replay_controller.open(Path("some.jsonl"))
    assert "Stop it or let it finish" in window.banner.label.text()
    engine.pause_after = None
    wait_for_answer(qtbot, window)
    qtbot.waitUntil(window.banner.isHidden)


def test_a_new_action_hides_the_message_of_the_previous_one(qtbot: QtBot, open_window: Open) -> None:
    window, engine = open_window()
    engine.say(LoadFailed("missing.gguf", "There is no model at missing.gguf."))
    qtbot.waitUntil(window.banner.isVisible)
    window.header.changed.emit("gamma", 3)
    assert window.banner.isVisible(), "this has nothing to do with it"
    window.header.changed.emit("drafter", "ngram")
    assert window.banner.isHidden()
    window.banner.show_message("Something.")
    window.new_chat()
    assert window.banner.isHidden()
