"""Expected acceptance of each rule at the same positions: sums, intervals and the sentences made from them."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import astuple, replace

import numpy as np
import pytest
from scipy import stats

from engine.lens.rule_comparison import (
    BLOCK,
    MIN_ROUNDS,
    RuleComparison,
    RuleComparisons,
    comparison_sentence,
    difference_sentence,
    paired_acceptance,
    positions_words,
    share,
    similarity_reason,
    student_95,
    warmer_would_help,
)
from engine.types import DecodingOptions, Expected, Round, Rule
from tests.app.fakes import make_round, proposal

WARM = DecodingOptions(temperature=0.8)
EASY, HARD = Expected(0.5, 0.8, 0.9), Expected(0.05, 0.1, 0.4)


def judged(
    index: int, accepted: Sequence[Expected], rejected: Expected | None = None, rule: Rule = "gumbel", copied: Sequence[int] = ()
) -> Round:
    """Returns a round whose judged positions have these probabilities; `copied`: indices of copied proposals."""
    verdicts = [proposal("a", "accepted") for _ in accepted]
    if rejected is not None:
        verdicts += [proposal("r", "rejected"), proposal("u", "unjudged")]
    return replace(
        make_round(index, [], "z", rule=rule),
        proposals=tuple(replace(verdict, copied=place in copied) for place, verdict in enumerate(verdicts)),
        expected=(*accepted, *(() if rejected is None else (rejected,))),
    )


def newest(rounds: Sequence[Round]) -> RuleComparison:
    found = RuleComparisons.of(rounds).newest
    assert found is not None
    return found


def test_means_are_over_judged_positions_and_observed_is_the_accepted_share() -> None:
    found = newest([judged(0, [EASY, EASY], HARD), judged(1, [EASY]), judged(2, [], HARD)])
    assert (found.rounds, found.positions, found.copied) == (3, 5, 0)
    assert found.expected == pytest.approx({"match": 1.6 / 5, "gumbel": 2.6 / 5, "rejection": 3.5 / 5})
    assert found.observed == 3 / 5
    assert {rule: gap.value for rule, gap in found.differences.items()} == pytest.approx({"match": -0.2, "rejection": 0.18})
    assert found.observed_minus_expected is not None and found.observed_minus_expected.value == pytest.approx(3 / 5 - 2.6 / 5)


def test_copied_proposals_are_counted_apart() -> None:
    certain = Expected(0.7, 0.7, 0.7)
    found = newest([judged(0, [EASY, certain], certain, copied=(1, 2)), judged(1, [EASY])])
    assert (found.positions, found.copied, found.rounds) == (2, 2, 2)
    assert found.expected == pytest.approx({"match": 0.5, "gumbel": 0.8, "rejection": 0.9}) and found.observed == 1
    assert "Expected of 2 judged tokens: Match 50% · Gumbel 80% · Rejection 90%" in comparison_sentence(found)


def test_one_position_is_counted_as_one() -> None:
    certain = Expected(0.7, 0.7, 0.7)
    assert positions_words(newest([judged(0, [certain], copied=(0,))])) == "1 judged token (copied)"
    found = newest([judged(0, [EASY, certain], copied=(1,))])
    assert positions_words(found) == "1 judged token"


def test_where_all_are_copied_they_are_shown_and_the_reason_is_given() -> None:
    certain = Expected(0.7, 0.7, 0.7)
    found = newest([judged(index, [certain], copied=(0,)) for index in range(3)])
    assert found.all_copied and found.positions == found.copied == 3
    assert "3 judged tokens (all copied)" in comparison_sentence(found)
    assert "copied" in similarity_reason(found, WARM) and not warmer_would_help(found, DecodingOptions(temperature=0.1))


def test_each_rule_and_drafter_has_positions_of_its_own_and_comes_back_to_them() -> None:
    comparisons = RuleComparisons()
    for round_ in (judged(0, [EASY]), judged(1, [], HARD, rule="rejection"), judged(2, [EASY])):
        comparisons.add(round_)
    assert comparisons.newest is not None and comparisons.newest.rule == "gumbel" and comparisons.newest.positions == 2
    assert [(found.rule, found.positions) for found in comparisons.all] == [("gumbel", 2), ("rejection", 1)]
    comparisons.add(make_round(3, [], "z", rule="match"))
    assert comparisons.newest is None, "match is in force, and nothing was judged by it"
    comparisons.add(replace(judged(4, [HARD]), drafter="ngram"))
    assert comparisons.newest.positions == 1, "another drafter"


def test_block_is_compared_by_what_is_expected_alone() -> None:
    found = newest([judged(index, [EASY], HARD, rule="block") for index in range(9)])
    assert found.observed is None and found.observed_minus_expected is None and found.reference == "rejection"
    assert found.accepted == 9 / 18, "one of two in each round"
    assert set(found.differences) == {"match", "gumbel"}
    assert "; Block, which judges jointly and has no expected value, accepted " in comparison_sentence(found)


def test_without_analysis_there_is_nothing_to_compare() -> None:
    assert RuleComparisons().newest is None
    assert RuleComparisons.of([replace(judged(0, [EASY]), expected=())]).newest is None


# Intervals


def simulated(chance: random.Random, rounds: int, gamma: int = 6) -> list[Round]:
    """Returns rounds that are entirely easy or entirely hard: positions within a round are as dependent as possible."""
    result = []
    for index in range(rounds):
        kind = EASY if chance.random() < 0.5 else HARD
        accepted = 0
        while accepted < gamma and chance.random() < kind.gumbel:
            accepted += 1
        result.append(judged(index, [kind] * accepted, kind if accepted < gamma else None))
    return result


def true_difference(gamma: int = 6) -> float:
    """Returns Rejection minus Gumbel per judged position, from the closed form of the number of positions that a round
    judges."""
    reached = [sum(kind.gumbel**place for place in range(gamma)) for kind in (EASY, HARD)]
    gaps = [kind.rejection - kind.gumbel for kind in (EASY, HARD)]
    return sum(many * gap for many, gap in zip(reached, gaps, strict=True)) / sum(reached)


def as_if_positions_were_independent(rounds: Sequence[Round]) -> tuple[float, float]:
    """Mutant: the textbook interval of a mean over positions, which ignores that rounds group them."""
    gaps = np.array([place.rejection - place.gumbel for round_ in rounds for place in round_.expected])
    reach = 1.96 * gaps.std(ddof=1) / math.sqrt(len(gaps))
    return gaps.mean() - reach, gaps.mean() + reach


def test_intervals_cover_the_true_difference_as_often_as_they_say() -> None:
    """600 answers of 40 rounds. The delta method loses some of the 95 % with 40 rounds; the standard error of the coverage is 1
    %. An interval that is narrower by a fifth covers 88 % and fails; the mutant, from positions, covers two thirds."""
    chance, answers, truth = random.Random(3), 600, true_difference()
    covered = covers_observed = mutant = 0
    for _ in range(answers):
        rounds = simulated(chance, 40)
        found = newest(rounds)
        gap, surprise = found.differences["rejection"], found.observed_minus_expected
        assert gap.low is not None and gap.high is not None and surprise is not None
        covered += gap.low <= truth <= gap.high
        covers_observed += surprise.covers_zero
        low, high = as_if_positions_were_independent(rounds)
        mutant += low <= truth <= high
    assert 0.915 <= covered / answers <= 0.98
    assert 0.915 <= covers_observed / answers <= 0.98
    assert mutant / answers < 0.8


def test_the_interval_is_the_delta_methods_over_rounds() -> None:
    """Computed round by round from residuals, with scipy's Student t."""
    rounds = simulated(random.Random(5), 30)
    many = np.array([len(round_.expected) for round_ in rounds])
    gaps = np.array([sum(place.match - place.gumbel for place in round_.expected) for round_ in rounds])
    ratio = gaps.sum() / many.sum()
    spread = ((gaps - ratio * many) ** 2).sum() * 30 / 29 / many.sum() ** 2
    reach = stats.t.ppf(0.975, 29) * math.sqrt(spread)
    found = newest(rounds).differences["match"]
    assert (found.value, found.low, found.high) == pytest.approx((ratio, ratio - reach, ratio + reach), rel=1e-3)


@pytest.mark.parametrize("freedom", [4, 7, 12, 40, 1000])
def test_students_quantile_is_scipys(freedom: int) -> None:
    assert student_95(freedom) == pytest.approx(stats.t.ppf(0.975, freedom), rel=0.005)


# Words


def test_with_few_rounds_it_is_too_early_to_tell() -> None:
    found = newest([judged(index, [EASY], HARD) for index in range(MIN_ROUNDS - 1)])
    assert found.has_too_few_rounds and found.significant_rules == ()
    assert difference_sentence(found) == f"Collecting data: {MIN_ROUNDS - 1} of {MIN_ROUNDS} rounds."


def test_significant_difference_is_stated_with_interval_and_direction() -> None:
    found = newest(simulated(random.Random(1), 60))
    assert set(found.significant_rules) == {"match", "rejection"}
    words = difference_sentence(found)
    assert words.startswith("Of the same proposals, Match accepts ") and " points less (" in words
    assert " and Rejection accepts " in words and " points more (" in words and words.endswith(" than Gumbel.")
    assert "(" not in difference_sentence(found, intervals=False)


def test_difference_whose_interval_covers_zero_is_not_stated() -> None:
    """Match and gumbel are equal overall: one is higher in one round and lower in the next."""
    up, down = Expected(0.5, 0.3, 0.9), Expected(0.3, 0.5, 0.9)
    found = newest([judged(index, [up if index % 2 else down]) for index in range(20)])
    assert found.significant_rules == ("rejection",)
    assert difference_sentence(found).endswith("Too few rounds to tell Match from Gumbel.")
    assert difference_sentence(found).startswith("Of the same proposals, Rejection accepts 50 points more")


@pytest.mark.parametrize("options, said, helps", [
    (DecodingOptions(temperature=0.0), "temperature 0 every rule", True),
    (DecodingOptions(temperature=0.0, top_k=1), "temperature 0 every rule", False),
    (DecodingOptions(temperature=0.2), "at temperature 0.2", True),
    (DecodingOptions(temperature=0.2, top_k=1), "at temperature 0.2", False),
    (DecodingOptions(temperature=0.8, top_k=2), "top-k 2 leaves few tokens", False),
    (DecodingOptions(temperature=0.8, top_p=0.3, min_p=0.5), "top-p 0.3 and min-p 0.5 leave few tokens", False),
    (DecodingOptions(temperature=0.8), "nearly certain", False),
])  # fmt: skip
def test_where_the_rules_hardly_differ_the_reason_is_given(options: DecodingOptions, said: str, helps: bool) -> None:
    alike = Expected(0.60, 0.61, 0.62)
    found = newest([judged(index, [alike], alike) for index in range(MIN_ROUNDS)])
    assert found.alike and said in similarity_reason(found, options)
    assert warmer_would_help(found, options) == helps


def test_a_drafter_like_the_target_is_named_as_the_reason() -> None:
    found = newest([judged(index, [Expected(0.96, 0.97, 0.98)]) for index in range(MIN_ROUNDS)])
    assert "nearly identical" in similarity_reason(found, WARM)
    found = newest([judged(index, [], Expected(0.01, 0.01, 0.02)) for index in range(MIN_ROUNDS)])
    assert "hardly ever proposes" in similarity_reason(found, WARM)


def test_no_reason_is_given_where_the_rules_differ_or_it_is_too_early_to_say() -> None:
    assert similarity_reason(newest(simulated(random.Random(1), 60)), DecodingOptions(temperature=0.1)) == ""
    early = newest([judged(0, [Expected(0.6, 0.6, 0.6)])])
    assert similarity_reason(early, DecodingOptions(temperature=0.1)) == ""
    assert "temperature 0" in similarity_reason(early, DecodingOptions(temperature=0.0)), "known beforehand"


def test_shares_are_percentages() -> None:
    assert [share(value) for value in (0.0, 0.456, 0.996, 1.0)] == ["0%", "46%", "100%", "100%"]


def test_rules_are_paired_over_answers_that_share_their_text() -> None:
    """The same answer twice tells as much as once: the interval of blocks does not shrink, that of rounds would."""
    rounds = [replace(round_, position=40 + 3 * index) for index, round_ in enumerate(simulated(random.Random(3), 200))]
    once = paired_acceptance([RuleComparisons.of(rounds)], "gumbel")
    twice = paired_acceptance([RuleComparisons.of(rounds)] * 2, "gumbel")
    assert once is not None and twice is not None and twice.positions == 2 * once.positions
    assert twice.expected == pytest.approx(once.expected) and set(once.differences) == {"match", "rejection"}
    for rule, gap in once.differences.items():
        assert astuple(twice.differences[rule]) == pytest.approx(astuple(gap))
        assert gap.value == pytest.approx(once.expected[rule] - once.expected["gumbel"])
    assert paired_acceptance([RuleComparisons()], "gumbel") is None


def test_the_interval_over_answers_is_that_of_a_ratio_of_block_sums() -> None:
    rounds = [replace(round_, position=40 + 2 * index) for index, round_ in enumerate(simulated(random.Random(5), 150))]
    found = paired_acceptance([RuleComparisons.of(rounds[:90]), RuleComparisons.of(rounds[90:])], "gumbel")
    assert found is not None
    blocks: dict[int, list[float]] = {}
    for round_ in rounds:
        gaps, many = blocks.setdefault(round_.position // BLOCK, [0.0, 0.0])
        for expected in round_.expected:
            gaps, many = gaps + expected.rejection - expected.gumbel, many + 1
        blocks[round_.position // BLOCK] = [gaps, many]
    judged = [entry for entry in blocks.values() if entry[1]]
    share = sum(gaps for gaps, _ in judged) / sum(many for _, many in judged)
    squares = sum((gaps - share * many) ** 2 for gaps, many in judged) * len(judged) / (len(judged) - 1)
    half = student_95(len(judged) - 1) * squares**0.5 / sum(many for _, many in judged)
    assert astuple(found.differences["rejection"]) == pytest.approx((share, share - half, share + half))
    assert found.blocks == len(judged) and found.positions == sum(many for _, many in judged)
