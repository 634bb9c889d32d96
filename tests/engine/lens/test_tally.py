"""The series that charts draw equal the engine's metrics of the rounds so far, and never mix two rules or drafters."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from engine.lens.chart_kinds import ALPHA_WINDOW, SPEED_WINDOW
from engine.lens.tally import Series, Tally
from engine.rounds.metrics import (
    Rolling,
    counts,
    expected_emitted,
    expected_lengths,
    stretches,
    summarise,
    wilson_interval,
)
from engine.types import Round, Rule
from tests.app.fakes import STORY, make_round, story_rounds

ROUNDS = story_rounds(STORY * 6)


def test_a_series_keeps_every_row_however_often_it_grows() -> None:
    series, pairs = Series(), Series(2)
    for value in range(1000):
        series.add(value)
        pairs.add(value, -value)
    assert len(series) == len(pairs) == 1000
    assert series.rows.tolist() == list(range(1000))
    assert pairs.rows[:, 1].tolist() == [-value for value in range(1000)]
    assert series[-1] == 999 and pairs[0].tolist() == [0, 0]


def test_tau_so_far_and_its_prediction_are_those_of_the_metrics_after_every_round() -> None:
    tally = Tally()
    for index, round_ in enumerate(ROUNDS):
        tally.add(round_)
        summary = summarise(ROUNDS[: index + 1])
        assert tally.taus[-1] == pytest.approx((summary.tau, summary.predicted_tau))


def test_block_judges_jointly_so_nothing_is_predicted_of_it_nor_of_an_answer_with_it() -> None:
    tally = Tally()
    tally.add(make_round(0, ["a"], "b", ["c"]))
    assert not math.isnan(tally.taus[-1][1])
    tally.add(make_round(1, ["a"], "b", ["c"], rule="block"))
    assert math.isnan(tally.taus[-1][1])
    tally.add(make_round(2, ["a"], "b", ["c"]))
    assert tally.taus[-1].tolist() == tally.taus[0].tolist(), "another rule begins anew"
    assert tally.expected_lengths() == ()
    assert tally.summary.predicted_tau is None


def test_rolling_alpha_counts_the_last_rounds_with_wilsons_interval() -> None:
    tally = Tally.of(ROUNDS)
    for index in (0, ALPHA_WINDOW - 1, ALPHA_WINDOW, len(ROUNDS) - 1):
        window = ROUNDS[max(0, index + 1 - ALPHA_WINDOW) : index + 1]
        accepted = sum(round_.accepted for round_ in window)
        judged = accepted + sum(round_.rejected for round_ in window)
        assert tally.alphas[index] == pytest.approx((accepted / judged, *wilson_interval(accepted, judged)))


def test_without_a_verdict_there_is_no_alpha_and_no_guess() -> None:
    tally = Tally.of([make_round(0, [], "x"), make_round(1, [], "y", started=60.0)])
    assert np.isnan(tally.alphas.rows).all()
    assert tally.taus.rows[:, 0].tolist() == [1.0, 1.0]
    assert np.isnan(tally.taus.rows[:, 1]).all()
    assert tally.lengths == {} and tally.expected_lengths() == ()


def test_speeds_are_the_rolling_throughput() -> None:
    rolling, tally = Rolling(SPEED_WINDOW), Tally()
    for round_ in ROUNDS:
        rolling.add(round_)
        tally.add(round_)
        assert tally.speeds[-1] == pytest.approx(rolling.throughput)


def test_phases_hold_the_staged_rounds_alone() -> None:
    tally = Tally.of(ROUNDS)
    staged = [round_ for round_ in ROUNDS if round_.milliseconds.measured]
    assert tally.phases.rows[:, 0].tolist() == [round_.index for round_ in staged]
    assert tally.phases.rows[0, 1:].sum() == pytest.approx(staged[0].milliseconds.total)
    assert tally.milliseconds.rows.tolist() == [round_.milliseconds.total for round_ in ROUNDS]


def test_expected_lengths_add_up_to_the_rounds_with_proposals() -> None:
    tally = Tally.of(ROUNDS)
    assert sum(tally.expected_lengths()) == pytest.approx(sum(many for gamma, many in tally.gammas.items() if gamma))
    assert sum(tally.lengths.values()) == sum(many for gamma, many in tally.gammas.items() if gamma)


def test_expected_lengths_are_geometric_with_all_that_is_left_at_the_end() -> None:
    assert expected_lengths(0.5, {2: 8, 0: 3}) == pytest.approx((4.0, 2.0, 2.0))
    assert expected_lengths(1.0, {3: 5}) == pytest.approx((0, 0, 0, 5))
    mean = sum(length * many for length, many in enumerate(expected_lengths(0.7, {4: 1})))
    assert mean == pytest.approx(0.7 + 0.7**2 + 0.7**3 + 0.7**4), "tau less the bonus"


# Stretches of one rule and one drafter


Part = tuple[Rule, str, Sequence[str]]


def answer(*parts: Part) -> list[Round]:
    """Returns rounds with these verdicts ("aru" is one accepted, one rejected, one unjudged) under each rule and drafter in
    turn."""
    rounds: list[Round] = []
    for rule, drafter, verdicts in parts:
        for verdict in verdicts:
            index, accepted = len(rounds), verdict.count("a")
            ghosts = ["x"] * (len(verdict) - accepted)
            made = make_round(index, ["a"] * accepted, "z", ghosts, rule=rule, drafter=drafter, started=60.0 * index)
            rounds.append(made)
    return rounds


SWITCHED = answer(("gumbel", "head", ["aa", "ar", "aa", "aa"]), ("rejection", "head", ["ru", "ru", "ar"]))


def test_each_rule_and_drafter_in_turn_is_a_stretch_with_figures_of_its_own() -> None:
    rounds = answer(
        ("gumbel", "head", ["aa", "ar"]),
        ("rejection", "head", ["ru"]),
        ("rejection", "ngram", ["aa"]),
        ("gumbel", "head", ["ar"]),
    )
    found = Tally.of(rounds).stretches
    assert [(stretch.first, stretch.rule, stretch.drafter) for stretch in found] == [
        (0, "gumbel", "head"),
        (2, "rejection", "head"),
        (3, "rejection", "ngram"),
        (4, "gumbel", "head"),
    ]
    edges = [stretch.first for stretch in found] + [len(rounds)]
    for stretch, first, last in zip(found, edges, edges[1:], strict=False):
        alone = summarise(rounds[first:last])
        seconds = sum(round_.milliseconds.total for round_ in rounds[first:last]) / 1000
        assert stretch.summary == replace(
            alone, seconds=pytest.approx(seconds), throughput=pytest.approx(alone.emitted / seconds)
        )


def test_stretches_are_the_same_from_rounds_and_from_their_counts() -> None:
    from_rounds, from_counts = stretches(SWITCHED), stretches([counts(round_) for round_ in SWITCHED])
    assert [(one.first, one.rule, one.summary) for one in from_rounds] == [
        (one.first, one.rule, one.summary) for one in from_counts
    ]


def test_without_a_drafter_a_change_of_rule_begins_no_stretch() -> None:
    assert len(stretches(answer(("gumbel", "none", ["", ""]), ("rejection", "none", [""])))) == 1
    assert stretches([]) == ()


def test_the_predicted_tau_never_mixes_two_rules() -> None:
    """Gumbel accepted 7 of 8, Rejection 1 of 4. A prediction from the pooled alpha of 8 of 12 would differ."""
    tally = Tally.of(SWITCHED)
    by_rule = (4 * expected_emitted(7 / 8, 2) + 3 * expected_emitted(1 / 4, 2)) / 7
    assert tally.summary.predicted_tau == pytest.approx(by_rule)
    assert tally.taus[-1][1] == pytest.approx(expected_emitted(1 / 4, 2)), "the chart begins anew"
    assert abs(by_rule - expected_emitted(8 / 12, 2)) > 0.01
    assert [stretch.summary.predicted_tau for stretch in tally.stretches] == [
        pytest.approx(expected_emitted(7 / 8, 2)),
        pytest.approx(expected_emitted(1 / 4, 2)),
    ]


def test_the_expected_lengths_never_mix_two_rules() -> None:
    expected = Tally.of(SWITCHED).expected_lengths()
    assert expected == pytest.approx((4 / 8 + 3 * 3 / 4, 4 * 7 / 64 + 3 * 3 / 16, 4 * 49 / 64 + 3 / 16))
    assert sum(expected) == pytest.approx(7)


def test_after_block_the_stretches_before_keep_their_predictions() -> None:
    tally = Tally.of([*SWITCHED, *(replace(round_, index=7 + round_.index, rule="block") for round_ in SWITCHED[:2])])
    assert tally.summary.predicted_tau is None
    first, second, block = tally.stretches
    assert first.summary.predicted_tau is not None and second.summary.predicted_tau is not None
    assert block.summary.predicted_tau is None and block.totals.jointly_judged


def test_the_rolling_alpha_starts_afresh_with_a_stretch() -> None:
    tally = Tally.of(SWITCHED)
    assert tally.alphas[3] == pytest.approx((7 / 8, *wilson_interval(7, 8)))
    assert tally.alphas[4] == pytest.approx((0.0, *wilson_interval(0, 1)))
    assert tally.alphas[6] == pytest.approx((1 / 4, *wilson_interval(1, 4)))
    assert not np.isnan(tally.alphas.rows).any()
