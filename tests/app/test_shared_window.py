"""A test finds the shared window as it would find a new one, whatever the test before did."""

from __future__ import annotations

from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from app.conversation.screen_reader import plain_text
from app.session.cursor import Place
from tests.app.driving import answered, status
from tests.app.shared_window import SharedWindow


def test_a_shared_window_is_as_good_as_new(qtbot: QtBot, window_of_module: SharedWindow) -> None:
    shared = window_of_module
    window, _ = shared.open(qtbot)
    settings = window.settings
    shared.leave(qtbot)
    window, engine = shared.open(qtbot, appearance="light", ghosts="none", rule="block", drafter="ngram", size=(900, 700))
    answered(qtbot, window)
    window.cursor_place.pin(Place(0, 3))
    window.open_page("charts")
    window.panel.charts.sections["alpha"].fold.click()
    window.banner.show_message("Something went wrong.")
    window.find_in_chat()
    window.column.find_bar.field.setText("lamp")
    window.transcript.highlight("rejected")
    window.panel.rounds.lanes.set_zoom(2.0)
    window.panel.rules.keep_marks.setChecked(True)
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
    assert again is engine and engine.requests == engine.runs == []
    assert status(window) == "Ready" and plain_text(window.transcript) == "" and window.focusWidget() is window.composer.edit
    assert window.settings == settings
    assert window.transcript.highlighted is None and window.panel.rounds.lanes.zoom == 1.0
    assert not window.panel.rules.keep_marks.isChecked() and not window.cursor_place.marks
    assert window.column.find_bar.field.text() == ""
    parts = (window.pages.compare, window.tour, window.column.find_bar, window.column.steps, window.banner, window.verdicts.card)
    assert not any(part is not None and part.isVisible() for part in parts)
    qtbot.keyClick(window.composer.edit, Qt.Key.Key_Return)
    assert not engine.requests, "nothing is left in the message field"
    shared.leave(qtbot)
