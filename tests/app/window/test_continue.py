"""An answer that ended early has a button that goes on with it, beside its other buttons."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QToolButton
from pytestqt.qtbot import QtBot

from app.window.window import Window
from engine.types import Finish, RoundFinished, RunFailed
from tests.app.driving import Open, answered, ask, wait_for_answer
from tests.app.fakes import STORY, make_round, story_rounds


def continues(window: Window) -> list[QToolButton]:
    return [button for button in window.transcript.buttons.continues.widgets if button.isVisible()]


@pytest.mark.parametrize("finish", ["length", "cancelled", "eos", "stop"])
def test_only_a_cut_or_stopped_answer_can_be_continued(qtbot: QtBot, share_window: Open, finish: Finish) -> None:
    window, engine = share_window(story_rounds(finish=finish))
    ask(qtbot, window)
    assert not continues(window), "not while it is under way"
    wait_for_answer(qtbot, window)
    if finish in ("eos", "stop"):
        assert not continues(window)
        return
    (button,) = continues(window)
    others = (window.transcript.buttons.copy, window.transcript.buttons.regenerate, *window.transcript.tools.more.widgets)
    assert not any(button.geometry().intersects(other.geometry()) for other in others if other.isVisible())
    assert abs(button.y() - window.transcript.buttons.copy.y()) <= 1, "in line with the other buttons"
    ids = window.session.turns[0].answer.ids
    qtbot.mouseClick(button, Qt.MouseButton.LeftButton)
    assert engine.requests[-1].given == ids and engine.requests[-1].options.seed == 4242
    wait_for_answer(qtbot, window)


def test_an_answer_that_an_error_broke_off_offers_to_go_on(qtbot: QtBot, share_window: Open) -> None:
    window, engine = share_window()
    engine.hold = True
    ask(qtbot, window)
    run = engine.runs[0]
    engine.say(RoundFinished(run, make_round(0, ["Half", " an"], " answer")), RunFailed(run, "The process was killed."))
    qtbot.waitUntil(window.banner.isVisible)
    qtbot.mouseClick(continues(window)[0], Qt.MouseButton.LeftButton)
    assert engine.requests[-1].given == (9, 9, 9)
    engine.hold = False
    wait_for_answer(qtbot, window)


def test_a_full_context_continues_without_the_oldest_turns(qtbot: QtBot, share_window: Open) -> None:
    window, engine = share_window(story_rounds(finish="context"), overflow="stop")
    answered(qtbot, window, "One")
    assert not continues(window) and "no earlier turn" in window.actions_by_id["continueAction"].toolTip()
    answered(qtbot, window, "Two")
    (button,) = continues(window)
    assert "without the oldest turns" in button.toolTip()
    qtbot.mouseClick(button, Qt.MouseButton.LeftButton)
    assert engine.requests[-1].overflow == window.settings.overflow == "drop"
    assert "left out from now on" in window.banner.label.text()
    wait_for_answer(qtbot, window)


def test_earlier_answers_have_their_own_button(qtbot: QtBot, share_window: Open) -> None:
    window, engine = share_window(story_rounds("A short one."[:12], finish="length"))
    for prompt in ("One", "Two"):
        answered(qtbot, window, prompt)
    first, second = sorted(continues(window), key=QToolButton.y)
    assert first.y() < second.y()
    qtbot.mouseClick(first, Qt.MouseButton.LeftButton)
    assert [message.content for message in engine.requests[-1].messages] == ["One"]
    wait_for_answer(qtbot, window)


def test_an_answer_whose_trace_is_gone_goes_on_from_its_text(qtbot: QtBot, share_window: Open, tmp_path: Path) -> None:
    window, engine = share_window(story_rounds(finish="length"))
    answered(qtbot, window)
    answer = window.session.turns[0].answer
    answer.request, answer.rounds = None, []  # as `TraceReader` leaves one that it cannot read
    window.transcript.wanted.emit("continue", 0, False)
    asked = engine.requests[-1]
    assert (asked.given, asked.given_text) == ((), STORY)
    assert replace(asked.options, max_tokens=window.settings.max_tokens) == asked.options
    wait_for_answer(qtbot, window)
