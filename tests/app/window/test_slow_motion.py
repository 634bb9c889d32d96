"""Slow motion of a running answer: the window waits at each phase, the engine does not, and nothing is lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from app.replay.phases import PHASES
from app.window.slow_motion import ASK
from app.window.window import Window
from engine.types import Round
from tests.app.driving import Open, answered, ask, hasten
from tests.app.fakes import STORY, story_rounds


def begin(qtbot: QtBot, opens: Open) -> tuple[Window, list[Round]]:
    """A window in slow motion at the draft of its first round."""
    rounds = story_rounds()
    window, _ = opens(rounds, motion="off")
    window.actions_by_id["slowMotionAction"].trigger()
    assert window.column.steps.isVisible() and window.column.steps.caption.text() == ASK
    ask(qtbot, window)
    qtbot.waitUntil(lambda: window.column.steps.picture.round is not None)
    return window, rounds


def text(window: Window) -> str:
    assert window.session.answer is not None
    return window.session.answer.text.text


def end_of_engine(qtbot: QtBot, window: Window) -> None:
    """The engine has said everything, whether it is shown or not."""
    hasten(window)
    qtbot.waitUntil(lambda: not window.chat.link.busy)


def test_a_running_answer_stops_at_four_phases_of_each_round(qtbot: QtBot, share_window: Open) -> None:
    window, rounds = begin(qtbot, share_window)
    steps, committed = window.column.steps, ""
    presses: list[Callable[[], Any]] = [
        steps.forward.click,
        lambda: qtbot.keyClick(steps, Qt.Key.Key_Period),
        window.actions_by_id["phaseAction"].trigger,
        steps.forward.click,
    ]
    for round_ in rounds[:3]:
        for phase, press in zip(PHASES, presses, strict=True):
            assert steps.picture.round is not None
            assert (steps.picture.round.text, steps.picture.phase) == (round_.text, phase)
            if phase == "commit":
                committed += round_.text
                qtbot.waitUntil(steps.forward.isEnabled)
            assert text(window) == committed
            press()
    window.transcript.copy_answer()
    assert text(window) == committed, "copies have the committed text"
    window.actions_by_id["slowMotionAction"].trigger()
    end_of_engine(qtbot, window)
    qtbot.waitUntil(lambda: window.session.running is None)
    assert text(window) == STORY
    assert steps.isHidden()


def test_a_phase_can_be_seen_again_until_it_is_committed(qtbot: QtBot, share_window: Open) -> None:
    window, _ = begin(qtbot, share_window)
    steps = window.column.steps
    for by, phase in ((1, "verify"), (1, "judge"), (-1, "verify"), (-1, "draft"), (-1, "draft")):
        window.slow_motion.step(by)
        assert steps.picture.phase == phase
        assert steps.back.isEnabled() == (phase != "draft")


def test_the_engine_is_not_slowed_down_and_the_end_comes_with_the_last_round(qtbot: QtBot, share_window: Open) -> None:
    window, rounds = begin(qtbot, share_window)

    def shown() -> str | None:
        round_ = window.column.steps.picture.round
        return None if round_ is None else round_.text

    end_of_engine(qtbot, window)
    assert text(window) == "" and window.session.running is not None
    for _ in range(4 * len(rounds) - 1):
        window.slow_motion.step(1)
    assert window.session.running is None and text(window) == STORY
    assert shown() == rounds[-1].text
    assert not window.column.steps.forward.isEnabled()
    window.slow_motion.step(1)
    assert text(window) == STORY
    window.actions_by_id["regenerateAction"].trigger()
    qtbot.waitUntil(lambda: window.column.steps.picture.phase == "draft")
    assert shown() == rounds[0].text, "the next answer begins with its own first draft"


@pytest.mark.parametrize("leave", [Window.stop, Window.close])
def test_stopping_and_closing_keep_what_was_generated(qtbot: QtBot, open_window: Open, leave: Callable[[Window], Any]) -> None:
    window, _ = begin(qtbot, open_window)
    end_of_engine(qtbot, window)
    answer = window.session.answer
    assert answer is not None and not answer.rounds
    leave(window)
    assert answer.text.text == STORY and not answer.running


def test_a_measurement_of_the_plain_speed_is_not_held_back(qtbot: QtBot, share_window: Open) -> None:
    window, _ = share_window(story_rounds(), motion="off")
    answered(qtbot, window)
    window.actions_by_id["slowMotionAction"].trigger()
    window.panel.measurer.measure(window.session.turns[-1].answer)
    qtbot.waitUntil(lambda: window.session.measurement is None)
    assert window.chat.link.next_round is None
