"""Figures of an answer are separated where rule or drafter change: verdicts of one rule never count for another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from engine.lens.dividers import dividers
from engine.lens.shared_wording import stretch_title
from engine.lens.tally import Tally
from engine.rounds.metrics import counts, expected_emitted, stretches, summarise, wilson_interval
from engine.types import Round, Rule
from tests.app.fakes import make_round

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


def test_a_label_names_what_changed_and_says_once_that_the_text_depends_on_the_drafter() -> None:
    parts: list[Part] = [
        ("gumbel", "head", ["a"]),
        ("match", "head", ["a"]),
        ("rejection", "head", ["a"]),
        ("rejection", "ngram", ["a"]),
        ("block", "builtin-draft", ["a"]),
        ("gumbel", "builtin-draft", ["a"]),
        ("gumbel", "none", [""]),
    ]
    found = stretches(answer(*parts))
    assert [divider.label for divider in dividers(found, 4, [])] == [
        "Match from here",
        "Rejection from here; the text now depends on the drafter",
        "N-gram from here",
        "Block, Small draft model from here",
        "Gumbel from here",
        "No drafter from here",
    ]
    assert dividers(found, 4, [], greedy=True)[1].label == "Rejection from here"
    assert stretch_title(found[0]) == "Gumbel"
