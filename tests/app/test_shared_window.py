"""The window that tests share is found as a new one would be, whatever the test before did with it."""

from __future__ import annotations

from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from app.conversation.screen_reader import plain_text
from app.session.cursor import Place
from tests.app.driving import ask, status, wait_for_answer
from tests.app.fakes import FakeEngine
from tests.app.shared_window import SharedWindow


def test_a_shared_window_is_as_good_as_new(qtbot: QtBot, window_of_module: SharedWindow) -> None:
    shared = window_of_module
    window, engine = shared.open(qtbot)
    settings = window.settings
    shared.leave(qtbot)
    window, engine = shared.open(qtbot, appearance="light", ghosts="none", rule="block", drafter="ngram", size=(900, 700))
    ask(qtbot, window)
    wait_for_answer(qtbot, window)
    window.cursor_place.pin(Place(0, 3))
    window.open_page("charts")
    window.panel.charts.sections["alpha"].fold.click()
    window.banner.show_message("Something went wrong.")
    window.find_in_chat()
    window.header.temperature.setValue(0)
    window.header.show_drawn_seed(7)
    qtbot.keyClicks(window.composer.edit, "half a message")
    engine.hold = True
    window.messages.regenerate()
    window.pages.open_compare()
    window.open_settings()
    window.slow_motion.toggle()
    window.show_tour()
    shared.leave(qtbot)
    window, again = shared.open(qtbot)
    assert again is engine and engine.requests == FakeEngine().requests and engine.runs == []
    assert status(window) == "Ready" and plain_text(window.transcript) == "" and window.focusWidget() is window.composer.edit
    assert window.settings == settings
    parts = (window.pages.compare, window.tour, window.column.find_bar, window.column.steps, window.banner, window.verdicts.card)
    assert not any(part is not None and part.isVisible() for part in parts)
    qtbot.keyClick(window.composer.edit, Qt.Key.Key_Return)
    assert not engine.requests, "nothing is left in the message field"
    shared.leave(qtbot)
