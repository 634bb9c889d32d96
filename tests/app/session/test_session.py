"""The session is what its events say, whatever the window does."""

from __future__ import annotations

import math

import pytest

from app.session.session import Session
from engine.lens.chart_kinds import EXPECTED_WINDOW
from engine.lens.tally import Tally
from engine.rounds.metrics import summarise
from engine.types import (
    DecodingOptions,
    Expected,
    LoadFinished,
    LoadProgress,
    LoadStarted,
    Message,
    PrefillProgress,
    RoundFinished,
    RunChanged,
    RunFailed,
    RunFinished,
    RunStarted,
)
from tests.app.fakes import MODEL, make_round, story_rounds

OPTIONS = DecodingOptions(seed=1)


def started(clock: list[float] | None = None) -> Session:
    session = Session(clock=(lambda: clock[0]) if clock else lambda: 0.0)
    session.add_turn("Hello", OPTIONS, "builtin-draft").run_id = 1
    session.apply(RunStarted(1, OPTIONS, 10, "builtin-draft", "trace.jsonl"))
    return session


def test_an_answer_goes_through_its_states() -> None:
    clock = [10.0]
    session = Session(clock=lambda: clock[0])
    answer = session.add_turn("Hello", OPTIONS, "none")
    answer.run_id = 1
    assert answer.state == "waiting"
    session.apply(RunStarted(1, OPTIONS, 10, "none", None))
    session.apply(PrefillProgress(1, 4, 10))
    assert (answer.state, answer.prefill) == ("reading", (4, 10))
    clock[0] = 36.0  # others that it is compared with had their turns before
    session.apply(RoundFinished(1, make_round(0, [], "Hi"), 0.5))
    assert (answer.state, answer.seconds_to_first_token) == ("generating", 0.5)
    session.apply(RunFinished(1, "eos", "Hi", 1, 0.06, 0.1, 0.4, None))
    assert (answer.state, answer.seconds_to_first_token) == ("finished", 0.4)
    assert session.running is None


def test_events_of_another_run_change_nothing() -> None:
    session = started()
    session.apply(RoundFinished(99, make_round(0, [], "stale")))
    session.apply(RunFailed(99, "stale"))
    assert session.running is not None
    assert session.running.text.text == ""


def test_a_failed_answer_keeps_its_text() -> None:
    session = started()
    session.apply(RoundFinished(1, make_round(0, ["a"], "b")))
    session.apply(RunFailed(1, "Out of memory."))
    assert session.turns[0].answer.state == "failed"
    assert session.turns[0].answer.text.text == "ab"


def test_a_request_holds_the_whole_conversation() -> None:
    session = started()
    session.apply(RoundFinished(1, make_round(0, ["Hi"], " you")))
    session.add_turn("And now?", OPTIONS, "none")
    assert session.messages("Be brief.") == (
        Message("system", "Be brief."),
        Message("user", "Hello"),
        Message("assistant", "Hi you"),
        Message("user", "And now?"),
    )
    assert session.messages("  ")[0].role == "user"


def test_a_text_is_invariant_only_while_the_rule_stays_match_or_gumbel() -> None:
    session = started()
    answer = session.turns[0].answer
    session.apply(RoundFinished(1, make_round(0, ["a"], "b", rule="match")))
    assert answer.invariant
    session.apply(RunChanged(1, 1, "rejection", 4, "builtin-draft"))
    session.apply(RoundFinished(1, make_round(1, ["a"], "b", rule="gumbel")))
    assert not answer.invariant


def test_a_loaded_target_is_known_by_the_name_it_was_asked_for() -> None:
    session = Session()
    session.apply(LoadStarted("/models/big"))
    session.apply(LoadProgress("/models/big", "weights", 0.5))
    assert session.loading is not None and (session.loading.name, session.loading.fraction) == ("/models/big", 0.5)
    session.apply(LoadFinished(MODEL, 1.0))
    assert (session.target, session.loading) == ("/models/big", None)


def test_running_figures_are_those_of_the_whole_answer() -> None:
    rounds = story_rounds()
    tally = Tally()
    for round_ in rounds:
        tally.add(round_)
    assert tally.summary == summarise(rounds)
    assert tally.staged is rounds[3]


def test_expected_curves_use_each_rules_mean_probability_of_late() -> None:
    tally = Tally()
    tally.add(make_round(0, [], "x"))
    assert all(math.isnan(value) for value in tally.expected[0])
    for index in range(1, EXPECTED_WINDOW + 3):
        round_ = make_round(index, ["a"], "b", ["c"])
        tally.add(_with(round_, Expected(0.5, 0.6, 1.0)))
    assert tally.expected[-1] == pytest.approx((0.5 + 0.25, 0.6 + 0.36, 2.0))


def test_expected_curves_forget_what_left_the_window() -> None:
    tally = Tally()
    tally.add(_with(make_round(0, ["a"], "b", ["c"]), Expected(1.0, 1.0, 1.0)))
    for index in range(1, EXPECTED_WINDOW + 1):
        tally.add(_with(make_round(index, ["a"], "b", ["c"]), Expected(0.0, 0.0, 0.0)))
    assert tally.expected[-1] == pytest.approx((0.0, 0.0, 0.0))
    assert tally.expected[-2][0] > 0


def _with(round_, expected):  # type: ignore[no-untyped-def]
    from dataclasses import replace

    return replace(round_, expected=(expected,) * len(round_.expected))
