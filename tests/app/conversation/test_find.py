"""Words are found in what is shown, whatever their case, and never in ghosts."""

from __future__ import annotations

from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from tests.app.driving import Open, ask, wait_for_answer
from tests.app.fakes import STORY


def test_every_occurrence_is_counted_marked_and_reached(qtbot: QtBot, open_window: Open) -> None:
    window, _ = open_window()
    window.send("THE lamp, in 𝓤𝓷𝓲𝓬𝓸𝓭𝓮: the end")
    wait_for_answer(qtbot, window)
    window.actions_by_id["findAction"].trigger()
    bar, transcript = window.column.find_bar, window.transcript
    qtbot.keyClicks(bar.field, "the")
    many = (window.session.turns[0].prompt + STORY).lower().count("the")
    assert bar.count.text() == f"1 of {many}"
    selected = []
    for _ in range(many):
        selected.append(transcript.selected_text())
        qtbot.keyClick(bar.field, Qt.Key.Key_Return)
    assert {text.lower() for text in selected} == {"the"}
    assert bar.count.text() == f"1 of {many}", "behind the last comes the first"
    qtbot.keyClick(bar.field, Qt.Key.Key_Return, Qt.KeyboardModifier.ShiftModifier)
    assert bar.count.text() == f"{many} of {many}"
    assert sum(len(block.found) for block in transcript.blocks) == many


def test_ghosts_are_not_found_and_words_may_stand_around_them(qtbot: QtBot, open_window: Open) -> None:
    window, _ = open_window()
    ask(qtbot, window, "One")
    wait_for_answer(qtbot, window)
    window.find_in_chat()
    window.column.find_bar.field.setText("gull")
    assert window.column.find_bar.count.text() == "Not found"
    window.column.find_bar.field.setText("the last lamp on the point had burned")
    assert window.column.find_bar.count.text() == "1 of 1"
    assert window.transcript.selected_text() == "The last lamp on the point had burned"
    qtbot.keyClick(window.column.find_bar.field, Qt.Key.Key_Escape)
    assert not window.column.find_bar.isVisible()
    assert all(block.found == [] for block in window.transcript.blocks)
