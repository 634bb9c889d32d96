"""Rounds that are completed later, and elsewhere, are the rounds that they would have been at once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from engine.acceptance import JUDGES, RoundNoise
from engine.decode import loop
from engine.decode.context import DecodeContext, RoundOutcome
from engine.decode.decoding import DecodingOptions, decode
from engine.decode.loop import DecodeLoop
from engine.decode.recording.other_draws import HostDraws, later_draws, other_draws
from engine.decode.recording.record import AnalysisInputs
from engine.decode.run_control import Control
from engine.drafters import DraftModel, NGram
from engine.drafters.base import Drafter
from engine.drafters.draft import DraftTree
from engine.noise import reference as noise_reference
from engine.noise.source import NoiseSource
from engine.target.distribution import Distribution, OneHot
from engine.types import RULES, Milliseconds, Round
from engine.values.errors import DraftlightError
from tests.engine.tabular import TabularModel, pair

VOCAB = 12
PROMPT = [1, 2, 3, 1, 2]
OPTIONS = DecodingOptions(seed=3, temperature=0.8, gamma=4, max_tokens=16, phase_every=3)
TABLES = pair("good", VOCAB)


def drafter_of(kind: str) -> Drafter | None:
    makers: dict[str, Callable[[], Any]] = {"model": lambda: DraftModel(TabularModel(TABLES.draft)), "ngram": NGram}
    return makers[kind]() if kind in makers else None


def untimed(rounds: list[Round]) -> list[Round]:
    return [replace(round_, milliseconds=Milliseconds(0.0), started=0.0) for round_ in rounds]


FILTERS = {"top_k": 5, "top_p": 0.9, "min_p": 0.01}


@pytest.mark.parametrize(
    ("rule", "kind", "filters"),
    [
        *((rule, "model", {}) for rule in RULES),
        ("gumbel", "model", {"temperature": 0.0}),
        ("block", "model", FILTERS),
        ("match", "ngram", FILTERS),
        ("rejection", "ngram", {}),
        ("gumbel", "none", FILTERS),
    ],
)
def test_rounds_completed_after_the_answer_on_another_thread_are_those_completed_at_once(
    rule: Any, kind: str, filters: dict[str, Any]
) -> None:
    options = OPTIONS.replace(rule=rule, **filters)
    target = TabularModel(TABLES.target)
    at_once = list(decode(target, PROMPT, drafter_of(kind), options))

    outcomes = list(DecodeLoop(DecodeContext(target, PROMPT, drafter_of(kind), options)).outcomes())
    bare = [outcome.round for outcome in outcomes]
    assert [round_.emitted[0].p for round_ in bare] == [None] * len(bare)
    later: list[Round] = []
    thread = threading.Thread(target=lambda: later.extend(outcome.whole() for outcome in reversed(outcomes)))
    thread.start()
    thread.join()
    assert untimed(later[::-1]) == untimed(at_once)
    assert [round_.milliseconds for round_ in later[::-1]] == [round_.milliseconds for round_ in bare]


@pytest.mark.parametrize("times", [Milliseconds(10.0), Milliseconds(10.0, 1.0, 6.0, 2.0, 1.0)])
def test_an_analysis_that_the_next_round_waits_for_is_time_of_its_round(times: Milliseconds) -> None:
    target = TabularModel(TABLES.target)
    outcome = next(DecodeLoop(DecodeContext(target, PROMPT, None, OPTIONS)).outcomes())
    timed = replace(outcome, round=replace(outcome.round, milliseconds=times))
    seconds = iter([7.0, 7.25])
    whole = replace(timed, complete=lambda: timed.round).whole_at_once(lambda: next(seconds))
    other = None if times.other is None else times.other + 250
    assert whole.milliseconds == replace(times, total=260.0, other=other)
    assert RoundOutcome(timed.round).whole_at_once(lambda: next(seconds)) == timed.round, "no clock is read"


def test_rows_without_a_finite_logit_end_an_answer_only_where_its_text_needs_them() -> None:
    tables = np.array(TABLES.target)
    tables[:, 11] = np.nan
    target = TabularModel(tables)
    ends: set[bool] = set()
    unknown = 0
    for seed in range(20):
        for rule in ("rejection", "block"):
            told: list[list[int] | str] = []
            for analyse in (False, True):
                options = OPTIONS.replace(rule=rule, seed=seed, max_tokens=8, analyse=analyse)
                try:
                    rounds = list(decode(target, PROMPT, drafter_of("model"), options))
                except DraftlightError as error:
                    told.append(str(error))
                else:
                    told.append([token.id for round_ in rounds for token in round_.emitted])
                    every = [proposal for round_ in rounds for proposal in round_.proposals]
                    draws = [drawn for each in every for drawn in (each.target_draw, each.coupled_draw, each.independent_draw)]
                    assert all(drawn is None or drawn.id >= 0 for drawn in draws)
                    behind = [proposal for round_ in rounds for proposal in round_.proposals[round_.accepted + 1 :]]
                    unknown += sum(analyse and proposal.p is None for proposal in behind)
                    assert not any(proposal.p != proposal.p for proposal in behind), "unknown, not NaN"
            assert told[0] == told[1]
            ends.add(isinstance(told[0], str))
    assert ends == {True, False}
    assert unknown


def test_without_analysis_nothing_is_left_to_be_found_out() -> None:
    options = OPTIONS.replace(analyse=False)
    outcomes = list(DecodeLoop(DecodeContext(TabularModel(TABLES.target), PROMPT, drafter_of("model"), options)).outcomes())
    assert outcomes and all(outcome.complete is None and outcome.whole() is outcome.round for outcome in outcomes)


@pytest.mark.parametrize("kind", ["model", "ngram", "none"])
@pytest.mark.parametrize("phase_every", [0, 2])
def test_others_are_told_where_the_target_s_pass_is_waited_for(kind: str, phase_every: int) -> None:
    seen: list[str] = []

    class Seen(TabularModel):
        def __call__(self, *given: Any, **named: Any) -> mx.array:
            seen.append("pass")
            return super().__call__(*given, **named)

    control = Control()
    control.on_wait = lambda: seen.append("wait")
    options = OPTIONS.replace(phase_every=phase_every)
    target = Seen(TABLES.target)
    for _ in DecodeLoop(DecodeContext(target, PROMPT, drafter_of(kind), options, control=control)).outcomes():
        seen.append("round")
    assert seen[-2:] == ["round", "wait"], "nobody asks for another round"
    begun = [seen[: place + 1] for place, what in enumerate(seen) if what == "round"]
    assert len(begun) > 3
    for before in begun:
        last = before[:-1][::-1]
        since = last[: last.index("round")] if "round" in last else last
        assert "wait" in since
        assert kind == "none" or since.index("wait") < since.index("pass"), "it waits for the pass of this round"


@pytest.mark.parametrize("kind", ["model", "ngram", "none"])
def test_it_is_said_whether_the_decoding_thread_computes(kind: str) -> None:
    control, at_waits = Control(), list[bool]()
    control.on_wait = lambda: at_waits.append(control.is_computing)
    assert not control.is_computing
    for _ in decode(TabularModel(TABLES.target), PROMPT, drafter_of(kind), OPTIONS, control=control):
        assert control.is_computing
    assert not control.is_computing
    assert not any(at_waits)
    control.resumes()
    control.clear_callbacks()
    assert not control.is_computing


@pytest.mark.parametrize("kind", ["model", "ngram"])
def test_a_pass_is_waited_for_from_when_it_is_handed_over(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    control, passes, handed_over = Control(), list[bool](), list[bool]()
    queue = mx.async_eval

    class Seen(TabularModel):
        def __call__(self, *given: Any, **named: Any) -> mx.array:
            passes.append(True)
            return super().__call__(*given, **named)

    def queued(*arrays: Any) -> None:
        if passes:
            handed_over.append(control.is_computing)
            passes.clear()
        queue(*arrays)

    monkeypatch.setattr(mx, "async_eval", queued)
    for _ in decode(Seen(TABLES.target), PROMPT, drafter_of(kind), OPTIONS, control=control):
        assert control.is_computing
    assert len(handed_over) > 3
    assert not any(handed_over), "what computes it may hold this thread up until nearly all of it is done"


def test_others_are_told_before_a_drafter_is_loaded() -> None:
    seen: list[str] = []
    control = Control()
    control.on_wait = lambda: seen.append("wait")
    control.on_changes = lambda changes: seen.append("changes") or changes
    control.take_changes()
    assert not seen
    control.update(gamma=3)
    control.take_changes()
    assert seen == ["changes"]
    control.update(drafter="another")
    control.take_changes()
    assert seen == ["changes", "wait", "changes"]


def test_what_is_handed_over_holds_no_array_of_mlx(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[AnalysisInputs] = []
    monkeypatch.setattr(loop, "with_analysis", lambda round_, inputs, options, text_of: seen.append(inputs) or round_)
    for rule in RULES:
        list(decode(TabularModel(TABLES.target), PROMPT, drafter_of("model"), OPTIONS.replace(rule=rule)))
    holders: list[Any] = [*seen, *(sight.others for sight in seen)]
    held = [getattr(holder, field.name) for holder in holders if holder is not None for field in fields(holder)]
    assert len(held) > 50
    assert not any(isinstance(value, mx.array) for value in held)


def both_ways(
    rule: Any, q: Distribution | OneHot, drafted: mx.array, position: int = 70
) -> tuple[HostDraws, HostDraws, np.ndarray]:
    """What other rules would compare in a round of three proposals: drawn in the graph, left for later; the target's logits."""
    p = Distribution(mx.array(TABLES.target[0, :4]), 1.25)
    noise = RoundNoise(NoiseSource(9, VOCAB), position)
    proposals = DraftTree.chain(0, drafted, q)
    judgement = JUDGES[rule](p, q, drafted, noise)
    in_graph = other_draws(rule, p, proposals, judgement, noise)
    return in_graph.on_host(), later_draws(rule, proposals, judgement, noise), np.array(p.logits)


@pytest.mark.parametrize("rule", RULES)
def test_numpy_draws_later_what_a_device_draws_in_the_graph(rule: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn_rows: list[int] = []
    draw = noise_reference.draw
    monkeypatch.setattr(noise_reference, "draw", lambda *row: drawn_rows.append(1) or draw(*row))
    q = Distribution(mx.array(TABLES.draft[0, :3]), 1.25)
    kept = "coupled" if rule == "gumbel" else "independent"
    lengths = set()
    for position in range(70, 150):
        noise = RoundNoise(NoiseSource(9, VOCAB), position)
        drafted = noise.shared(q) if rule == "gumbel" else noise.draft(q)
        in_graph, later, p = both_ways(rule, q, drafted, position)
        wanted = in_graph.drawn(p, 1.25, None, 1.0)
        drawn_rows.clear()
        assert later.drawn(p, 1.25, np.array(q.logits), 1.25) == wanted
        lengths.add(sum(token is not None for token in wanted.target))
        nothing_known = replace(later, shared={}, target=None, coupled=None, independent=None)
        rows_unknown = replace(nothing_known, **{kept: getattr(later, kept)})
        others = wanted.independent if rule == "gumbel" else wanted.coupled
        drawn_rows.clear()
        assert rows_unknown.drawn(p[:3], 1.25, np.array(q.logits), 1.25) == wanted
        assert len(drawn_rows) == sum(token is not None for ids in (wanted.target, others) for token in ids), (
            "nothing else is drawn"
        )
    assert lengths == {1, 2, 3}
    elsewhere = replace(rows_unknown, position=position + 1)
    assert elsewhere.drawn(p[:3], 1.25, np.array(q.logits), 1.25) != wanted


def test_what_was_placed_is_its_own_draw() -> None:
    drafted = mx.array([4, 5, 6])
    in_graph, later, p = both_ways("rejection", OneHot(drafted, VOCAB), drafted)
    assert later.drawn(p, 1.25, None, 1.0) == in_graph.drawn(p, 1.25, None, 1.0)
    assert later.coupled == later.independent == [4, 5, 6]
