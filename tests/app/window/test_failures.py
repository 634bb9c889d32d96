"""What becomes of prompt and answer when something fails, and of a message that was being written."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from engine.types import EngineFailed, LoadStarted, ModelsUnloaded, RoundFinished, RunFailed, RunFinished
from tests.app.driving import Open, answered, ask, status, wait_for_answer
from tests.app.fakes import STORY, make_round


def test_a_failure_before_the_first_token_restores_the_prompt(qtbot: QtBot, share_window: Open) -> None:
    window, engine = share_window()
    engine.hold = True
    ask(qtbot, window, "A long question")
    engine.say(RunFailed(engine.runs[0], "The model needs more memory. Close something and try again."))
    qtbot.waitUntil(window.banner.isVisible)
    assert "Close something" in window.banner.label.text()
    assert window.composer.text == "A long question"
    assert window.session.turns == []
    qtbot.mouseClick(window.banner.dismiss, Qt.MouseButton.LeftButton)
    assert not window.banner.isVisible()


def test_a_failure_never_overwrites_a_draft(qtbot: QtBot, share_window: Open) -> None:
    window, engine = share_window()
    engine.hold = True
    ask(qtbot, window, "First")
    qtbot.keyClicks(window.composer.edit, "Second")
    engine.say(RunFailed(engine.runs[0], "No."))
    qtbot.waitUntil(window.banner.isVisible)
    assert window.composer.text == "Second"
    assert window.session.turns[0].prompt == "First"


def test_editing_and_examples_keep_the_draft(qtbot: QtBot, share_window: Open) -> None:
    window, _ = share_window()
    window.composer.set_text("my own words")
    window.column.welcome.cards[1].click()
    wait_for_answer(qtbot, window)
    assert window.composer.text == "my own words"
    window.messages.edit_last()
    assert window.composer.text == window.column.welcome.cards[1].prompt
    qtbot.keyClick(window.composer.edit, Qt.Key.Key_Escape)
    assert window.composer.text == "my own words"
    window.messages.edit_last()
    window.messages.edit_last()
    qtbot.keyClick(window.composer.edit, Qt.Key.Key_Return)
    wait_for_answer(qtbot, window)
    assert window.composer.text == "my own words"


@pytest.mark.parametrize("edited", [False, True])
def test_an_answer_stays_when_nothing_can_take_its_place(qtbot: QtBot, share_window: Open, edited: bool) -> None:
    window, engine = share_window()
    answered(qtbot, window, "Tell me a story.")
    engine.hold = True
    if edited:
        window.messages.edit_last()
        window.composer.edit.insertPlainText(" A long one.")
        qtbot.keyClick(window.composer.edit, Qt.Key.Key_Return)
    else:
        window.messages.regenerate()
    engine.say(RunFailed(engine.runs[1], "There is no memory left."))
    qtbot.waitUntil(window.banner.isVisible)
    assert [(turn.prompt, turn.answer.text.text) for turn in window.session.turns] == [("Tell me a story.", STORY)]
    assert window.composer.text == ("Tell me a story. A long one." if edited else "")
    assert window.composer.edit_note.isVisible() == edited


def test_a_failure_during_an_answer_keeps_the_text_and_can_be_retried(qtbot: QtBot, share_window: Open) -> None:
    window, engine = share_window()
    engine.hold = True
    ask(qtbot, window)
    engine.say(RoundFinished(engine.runs[0], make_round(0, ["Half", " an"], " answer")), RunFailed(engine.runs[0], "It broke."))
    qtbot.waitUntil(window.banner.isVisible)
    assert window.session.turns[0].answer.text.text == "Half an answer"
    engine.hold = False
    window.messages.regenerate()
    wait_for_answer(qtbot, window)
    assert window.session.turns[0].answer.text.text == STORY


def test_a_trace_that_could_not_be_written_is_noted(qtbot: QtBot, share_window: Open) -> None:
    window, engine = share_window()
    engine.pause_after = 2
    ask(qtbot, window)
    qtbot.waitUntil(lambda: "Generating, round 2" in status(window))
    words = "The trace is incomplete: No space left on device."
    engine.say(RunFinished(engine.runs[0], "eos", "", 3, 0.1, 0.1, 0.2, None, words))
    qtbot.waitUntil(window.banner.isVisible)
    assert "No space left on device" in window.banner.label.text()
    assert window.banner.frame.property("tone") == "note"
    window.banner.dismiss.click()
    assert not window.banner.isVisible()


def test_an_engine_failure_is_shown(qtbot: QtBot, share_window: Open) -> None:
    window, engine = share_window()
    qtbot.waitUntil(lambda: status(window) == "Ready")
    engine.say(EngineFailed("The engine could not start: no memory."))
    qtbot.waitUntil(window.banner.isVisible)
    assert "no memory" in window.banner.label.text() and status(window) == "Ready"
    engine.say(ModelsUnloaded(), EngineFailed("The process that runs models was killed."))
    qtbot.waitUntil(lambda: status(window).startswith("No model loaded"))
    assert "was killed" in window.banner.label.text()
    answered(qtbot, window, "and on")


def test_a_process_that_dies_during_an_answer_leaves_no_ready_model(qtbot: QtBot, share_window: Open) -> None:
    window, engine = share_window()
    engine.pause_after = 2
    ask(qtbot, window)
    qtbot.waitUntil(lambda: "round 2" in status(window))
    answer = window.session.answer
    assert answer is not None and answer.run_id is not None
    engine.say(LoadStarted("builtin"), ModelsUnloaded(), RunFailed(answer.run_id, "The process was killed."))
    qtbot.waitUntil(lambda: status(window) == "Stopped by an error")
    assert window.banner.isVisible() and window.banner.action.isHidden(), "loading the model again would not bring the answer"
    window.new_chat()
    assert status(window).startswith("No model loaded")


def test_the_last_prompt_can_be_edited_or_left_as_it_was(qtbot: QtBot, share_window: Open) -> None:
    window, engine = share_window()
    answered(qtbot, window, "First")
    qtbot.keyClick(window.composer.edit, Qt.Key.Key_Up)
    assert window.composer.text == "First"
    assert window.composer.edit_note.isVisible()
    qtbot.keyClick(window.composer.edit, Qt.Key.Key_Escape)
    assert window.composer.text == ""
    assert [turn.prompt for turn in window.session.turns] == ["First"]
    qtbot.keyClick(window.composer.edit, Qt.Key.Key_Up)
    qtbot.keyClicks(window.composer.edit, ", changed")
    qtbot.keyClick(window.composer.edit, Qt.Key.Key_Return)
    wait_for_answer(qtbot, window)
    assert [turn.prompt for turn in window.session.turns] == ["First, changed"]
    assert len(engine.requests[1].messages) == 1
