"""The figures follow the definitions of speculative decoding, and running sums equal sums over everything."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import replace

import pytest
from scipy import stats

from engine.rounds.metrics import (
    PositionCounts,
    Rolling,
    RoundCounts,
    TimeShares,
    Totals,
    counts,
    expected_emitted,
    summarise,
    violations,
    wilson_interval,
)
from engine.types import Emitted, Finish, Milliseconds, Proposal, Round, Rule, Status
from tests.trees import SECOND_CHOICE, TO_A_LEAF, TREE_RULES, tree_options, tree_round, tree_rounds


def make_round(
    statuses: str,
    index: int = 0,
    *,
    rule: Rule = "gumbel",
    started: float = 0.0,
    total: float = 10.0,
    emitted: int | None = None,
    finish: Finish | None = None,
    phases: tuple[float, float, float, float] | None = None,
) -> Round:
    """Returns a round with these verdicts: "aaru" is two accepted, one rejected, one unjudged."""
    names: dict[str, Status] = {"a": "accepted", "r": "rejected", "u": "unjudged"}
    many = statuses.count("a") + 1 if emitted is None else emitted
    return Round(
        index=index,
        position=0,
        drafter="ngram" if statuses else "none",
        rule=rule,
        proposals=tuple(Proposal(1, "x", b"x", names[letter]) for letter in statuses),
        emitted=tuple(Emitted(1, "x", b"x", "plain") for _ in range(many)),
        expected=(),
        milliseconds=Milliseconds(total, *(phases or ())),
        rows=len(statuses) + 1,
        cache_length=0,
        started=started,
        finish=finish,
    )


def random_rounds(seed: int, many: int) -> list[Round]:
    chance = random.Random(seed)
    rounds = []
    clock = 0.0
    for index in range(many):
        gamma = chance.randrange(6)
        accepted = chance.randint(0, gamma)
        statuses = "a" * accepted + ("r" + "u" * gamma)[: gamma - accepted]
        total = chance.uniform(5, 90)
        phases = tuple(chance.uniform(0, 20) for _ in range(4)) if index % 3 == 0 else None
        rounds.append(make_round(statuses, index, started=clock, total=total, phases=phases))  # type: ignore[arg-type]
        clock += total + chance.uniform(0, 5)
    return rounds


def test_a_run_worked_out_by_hand() -> None:
    rounds = [
        make_round("aaaa", 0, started=0, total=50),
        make_round("aruu", 1, started=50, total=50, phases=(10, 30, 5, 5)),
        make_round("ruuu", 2, started=100, total=40),
        make_round("", 3, started=150, total=50, finish="length"),
    ]
    found = summarise(rounds)
    assert (found.rounds, found.emitted, found.proposals) == (4, 5 + 2 + 1 + 1, 12)
    assert (found.accepted, found.rejected, found.unjudged) == (5, 2, 5)
    assert found.alpha == 5 / 7
    assert found.draft_yield == 5 / 12
    assert found.tau == 9 / 4
    alpha = 5 / 7
    assert found.predicted_tau == pytest.approx((3 * (1 - alpha**5) / (1 - alpha) + 1) / 4, rel=1e-12)
    assert found.seconds == pytest.approx(0.2)
    assert found.throughput == pytest.approx(45)
    assert found.shares == TimeShares(0.2, 0.6, 0.1, 0.1, 1)
    times = Milliseconds(50, 10, 30, 5, 5, communication=15)
    assert summarise([*rounds, replace(rounds[1], milliseconds=times)]).shares == TimeShares(0.2, 0.6, 0.1, 0.1, 2, 0.15)
    assert found.by_position == (
        PositionCounts(1, 3, 2, 1),
        PositionCounts(2, 3, 1, 1),
        PositionCounts(3, 3, 1, 0),
        PositionCounts(4, 3, 1, 0),
    )
    assert [place.conditional for place in found.by_position] == [2 / 3, 1 / 2, 1, 1]
    assert [place.unconditional for place in found.by_position] == [2 / 3, 1 / 3, 1 / 3, 1 / 3]


def test_nothing_is_claimed_before_anything_happened() -> None:
    found = summarise([])
    assert (found.rounds, found.emitted, found.seconds, found.by_position) == (0, 0, 0.0, ())
    for name in ("alpha", "alpha_low", "alpha_high", "draft_yield", "tau", "predicted_tau", "throughput", "shares"):
        assert getattr(found, name) is None


def test_a_plain_run_has_tau_one_and_no_alpha() -> None:
    found = summarise([make_round("", index, started=10 * index) for index in range(5)])
    assert found.tau == 1
    assert found.alpha is None
    assert found.predicted_tau is None


def test_the_predicted_tau_is_that_of_a_drafter_with_independent_verdicts() -> None:
    """In a simulation with independent verdicts, tau equals the prediction within four standard errors."""
    chance = random.Random(11)
    rounds = []
    for index in range(4000):
        gamma = chance.choice([0, 2, 5])
        accepted = 0
        while accepted < gamma and chance.random() < 0.6:
            accepted += 1
        rounds.append(make_round("a" * accepted + ("r" + "u" * gamma)[: gamma - accepted], index))
    found = summarise(rounds)
    assert found.tau is not None
    assert found.predicted_tau is not None
    lengths = [len(round.emitted) for round in rounds]
    mean = sum(lengths) / len(lengths)
    error = math.sqrt(sum((length - mean) ** 2 for length in lengths)) / len(lengths)
    assert abs(found.tau - found.predicted_tau) < 4 * error
    # The uncensored estimate does not predict it: it counts unjudged proposals as failures.
    assert found.draft_yield is not None
    naive = sum(expected_emitted(found.draft_yield, len(round.proposals)) for round in rounds) / len(rounds)
    assert abs(found.tau - naive) > 4 * error


def test_a_joint_verdict_predicts_no_tau() -> None:
    sound = [make_round("ar", 0), make_round("", 1, rule="block")]
    assert summarise(sound).predicted_tau is not None
    assert summarise([*sound, make_round("ar", 2, rule="block")]).predicted_tau is None


def test_acceptance_of_everything_predicts_gamma_plus_one() -> None:
    assert summarise([make_round("aaaa"), make_round("aa")]).predicted_tau == 4
    assert expected_emitted(1.0, 4) == 5
    assert expected_emitted(0.0, 4) == 1


@pytest.mark.parametrize("accepted, judged", [(0, 1), (1, 1), (0, 30), (30, 30), (7, 30), (4321, 9000)])
def test_the_interval_is_scipys_wilson_interval(accepted: int, judged: int) -> None:
    theirs = stats.binomtest(accepted, judged).proportion_ci(0.95, method="wilson")
    assert wilson_interval(accepted, judged) == pytest.approx((theirs.low, theirs.high), abs=1e-12)


def test_the_summary_carries_the_interval_of_its_alpha() -> None:
    found = summarise([make_round("aaru")])
    assert (found.alpha_low, found.alpha_high) == wilson_interval(2, 3)


def test_running_totals_equal_the_summary_at_every_round() -> None:
    rounds = random_rounds(3, 60)
    totals = Totals()
    for many, round in enumerate(rounds, start=1):
        totals.add(round)
        assert totals.summary() == summarise(rounds[:many])


def test_counts_stand_for_their_round() -> None:
    rounds = random_rounds(4, 60)
    assert summarise([counts(round) for round in rounds]) == summarise(rounds)


def test_shares_add_up_and_leave_out_rounds_without_times() -> None:
    found = summarise(random_rounds(5, 30)).shares
    assert found is not None
    assert found.rounds == 10
    assert found.draft + found.verify + found.judge + found.other == pytest.approx(1)


@pytest.mark.parametrize("window", [1, 4, 100])
def test_the_rolling_figures_are_those_of_the_latest_rounds(window: int) -> None:
    rounds = random_rounds(6, 50)
    rolling = Rolling(window)
    assert rolling.alpha is None
    assert rolling.throughput is None
    for many, round in enumerate(rounds, start=1):
        rolling.add(round)
        latest = rounds[max(0, many - window) : many]
        assert rolling.alpha == summarise(latest).alpha
        seconds = (latest[-1].started + latest[-1].milliseconds.total - latest[0].started) / 1000
        assert rolling.throughput == pytest.approx(sum(len(round.emitted) for round in latest) / seconds)


def test_a_window_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="window"):
        Rolling(0)


def test_sound_rounds_break_no_identity() -> None:
    rounds: Sequence[Round | RoundCounts] = random_rounds(8, 40)
    assert violations(rounds) == ()
    # A stop may cut off tokens of a round, but only of the last one.
    assert violations([make_round("aaaa", emitted=2, finish="eos")]) == ()
    # ... and a verdict on the whole block looks like any other.
    assert violations([make_round("aaru", rule="block")]) == ()


@pytest.mark.parametrize(
    "broken",
    [
        make_round("aaaa", emitted=2),
        make_round("ar", emitted=3, finish="eos"),
        make_round("arr"),
        make_round("au"),
        make_round("ra"),
        RoundCounts(0, "ngram", "gumbel", 4, 1, 1, 1, 2, 0.0, Milliseconds(1.0)),
    ],
)
def test_a_round_that_breaks_an_identity_is_named(broken: Round | RoundCounts) -> None:
    assert violations([broken])
    assert "Round 1" in violations([broken])[0]


def test_a_tree_counts_each_level_of_the_path_once() -> None:
    summary = summarise([SECOND_CHOICE, TO_A_LEAF])
    assert (summary.proposals, summary.accepted, summary.rejected, summary.unjudged, summary.emitted) == (9, 2, 1, 6, 4)
    assert summary.alpha == 2 / 3, "two levels accepted, one rejected; choices that were passed over say nothing"
    places = [(place.position, place.proposed, place.accepted, place.rejected) for place in summary.by_position]
    assert places == [(1, 2, 2, 0), (2, 1, 0, 1), (3, 1, 0, 0)], "a position is proposed once a round, whatever its choices"
    assert summary.predicted_tau == pytest.approx((expected_emitted(2 / 3, 3) + expected_emitted(2 / 3, 1)) / 2), "of the levels"
    assert summary.tau == 2 and violations([SECOND_CHOICE, TO_A_LEAF]) == ()


def test_acceptance_by_rank_and_coverage_of_the_first_choices() -> None:
    ranks = summarise([SECOND_CHOICE, TO_A_LEAF]).by_rank
    assert [(found.rank, found.offered, found.accepted, found.covered) for found in ranks] == [
        (0, 3, 1, 1),
        (1, 3, 1, 2),
        (2, 1, 0, 1),
    ]
    assert ranks[1].coverage == 2 / 3 and ranks[1].interval == wilson_interval(2, 3)
    assert summarise([make_round("aaru")]).by_rank == (), "chains offer no choice"


@pytest.mark.parametrize("rule", TREE_RULES)
def test_figures_of_decoded_trees_follow_from_their_paths(rule: Rule) -> None:
    rounds = tree_rounds(tree_options(rule))
    summary = summarise(rounds)
    assert violations(rounds) == ()
    trees = [current for current in rounds if current.is_tree]
    levels = [  # walked down from the root, without looking at the order of the record
        [token for token in current.proposals if token.parent == at - 1]
        for current in trees
        for at in range(current.accepted + 1)
    ]
    judged = [level for level in levels if level]
    for found in summary.by_rank:
        offered = [level for level in judged if len(level) > found.rank]
        taken = [token.rank for level in offered for token in level if token.status == "accepted"]
        assert (found.offered, found.accepted) == (len(offered), taken.count(found.rank))
        assert found.covered == sum(rank <= found.rank for rank in taken)
    assert summary.by_rank[-1].rank == 2
    assert summary.accepted + summary.rejected == len(judged) + sum(
        current.accepted + current.rejected for current in rounds if not current.is_tree
    )
    first = summary.by_position[0]
    assert first.proposed == first.accepted + first.rejected == sum(bool(current.proposals) for current in rounds)


IMPOSSIBLE: dict[str, tuple[tuple[int, int, Status], ...]] = {
    "follows": ((-1, 0, "accepted"), (2, 0, "rejected"), (0, 1, "unjudged")),
    "not one path": ((-1, 0, "accepted"), (-1, 1, "accepted"), (1, 0, "rejected")),
    "first choice": ((-1, 0, "accepted"), (0, 1, "rejected"), (0, 0, "unjudged")),
    "nothing was rejected": ((-1, 0, "accepted"), (0, 0, "unjudged")),
    "same rank": ((-1, 0, "rejected"), (-1, 1, "unjudged"), (-1, 1, "unjudged")),
    "rejected and": ((-1, 0, "rejected"), (0, 0, "rejected")),
    "comes after": ((-1, 0, "rejected"), (0, 0, "accepted")),
}


@pytest.mark.parametrize("words", IMPOSSIBLE)
def test_an_impossible_tree_is_a_violation(words: str) -> None:
    assert any(words in found for found in violations([tree_round(*IMPOSSIBLE[words])]))
