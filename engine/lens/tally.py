"""Figures of one answer while it grows: the summary, and the series for the charts on the screen and in pictures. Each round
takes constant time."""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from engine.lens.chart_kinds import ALPHA_WINDOW, EXPECTED_WINDOW, SPEED_WINDOW
from engine.lens.rule_comparison import RuleComparisons
from engine.rounds.metrics import (
    PositionCounts,
    Rolling,
    Stretch,
    Stretches,
    Summary,
    Totals,
    counts,
    expected_emitted,
    wilson_interval,
)
from engine.types import EXPECTED_RULES, PHASES, Round

Floats = NDArray[np.float64]

UNKNOWN = (math.nan, math.nan, math.nan)


class Series:
    """Growing rows of numbers; appending one takes amortised constant time."""

    def __init__(self, width: int = 1) -> None:
        self._width = width
        self._store: Floats = np.empty((64, width) if width > 1 else 64)
        self._length = 0

    def add(self, *values: float) -> None:
        """Appends one row, with as many numbers as the series is wide. Arrays returned earlier keep their values."""
        if self._length == len(self._store):
            self._store = np.concatenate((self._store, np.empty_like(self._store)))
        self._store[self._length] = values if self._width > 1 else values[0]
        self._length += 1

    @property
    def rows(self) -> Floats:
        """(length, width), or (length,) if the width is 1. A view of the series' memory: read-only for callers."""
        return self._store[: self._length]

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: int) -> Floats:
        """Returns a row, or a number if the width is 1; a negative `index` counts from the end."""
        return self.rows[index]


class Tally:
    """Sums and series over the rounds of one answer.

    Windows and predictions stay within one stretch: they start anew with another rule or drafter.

    Attributes:
        statuses: accepted, rejected and unjudged proposals of each round.
        accepted: mean accepted tokens of the last `EXPECTED_WINDOW` rounds with proposals; NaN in a round without any.
        expected: the same as match, gumbel and rejection predict it for those rounds; NaN if unknown, as among trees, for which
            there is no closed form.
        milliseconds: duration of each round.
        phases: index and draft, verify, judge and other milliseconds of each round that was measured in stages.
        speeds: tokens per second over the last `SPEED_WINDOW` rounds, one per round; NaN if no time had passed.
        alphas: alpha over the last `ALPHA_WINDOW` rounds of the same stretch, and the ends of its 95 % interval; NaN without a
            verdict.
        taus: tau since the stretch began, and the tau that its alpha so far predicts; NaN if there is no prediction.
        lengths: number of rounds with proposals, by number of accepted ones.
        staged: the newest round whose phases were measured.
        has_trees: whether any round drafted a tree.
        comparisons: expected acceptance of each rule at the same positions.
    """

    def __init__(self) -> None:
        self.statuses, self.expected, self.alphas = Series(3), Series(3), Series(3)
        self.milliseconds, self.speeds, self.accepted = Series(), Series(), Series()
        self.phases, self.taus = Series(5), Series(2)
        self.lengths: Counter[int] = Counter()
        self.staged: Round | None = None
        self.has_trees = False
        self.comparisons = RuleComparisons()
        self._totals, self._stretches = Totals(), Stretches()
        self._speed, self._alpha = Rolling(SPEED_WINDOW), Rolling(ALPHA_WINDOW)
        self._expected: deque[tuple[int, float, float, float]] = deque(maxlen=EXPECTED_WINDOW)
        # depth, accepted, whether it is a tree
        self._recent_lengths: deque[tuple[int, int, bool]] = deque(maxlen=EXPECTED_WINDOW)

    @classmethod
    def of(cls, rounds: Iterable[Round]) -> Tally:
        """Returns the tally of a whole answer."""
        tally = cls()
        for round_ in rounds:
            tally.add(round_)
        return tally

    @property
    def summary(self) -> Summary:
        """The figures so far, as `engine.rounds.metrics` defines them."""
        return self._totals.summary()

    @property
    def rounds(self) -> int:
        """Number of rounds counted."""
        return len(self.statuses)

    @property
    def stretches(self) -> Sequence[Stretch]:
        """The stretches of the rounds so far, each of one rule and one drafter, in order; the last one grows."""
        return self._stretches.found

    @property
    def gammas(self) -> Counter[int]:
        """Number of rounds, by number of proposals, or by the levels of a tree."""
        return self._totals.gammas

    @property
    def jointly_judged(self) -> bool:
        """Whether `block` judged a round: then there are no predictions, because they need verdicts that are passed one by
        one."""
        return self._totals.jointly_judged

    def add(self, round_: Round) -> None:
        """Adds one round."""
        entry = counts(round_)
        gamma = entry.proposals
        if self._stretches.add(entry):
            self._alpha = Rolling(ALPHA_WINDOW)
            self._expected.clear()
            self._recent_lengths.clear()
        for figures in (self._totals, self._speed, self._alpha):
            figures.add(entry)
        self.comparisons.add(round_)
        self.has_trees |= round_.is_tree
        self.statuses.add(entry.accepted, entry.rejected, entry.unjudged)
        self.milliseconds.add(round_.milliseconds.total)
        self.speeds.add(_known(self._speed.throughput))
        if gamma:
            self.lengths[entry.accepted] += 1
            self._recent_lengths.append((gamma, entry.accepted, round_.is_tree))
        self.accepted.add(
            sum(accepted for _, accepted, _ in self._recent_lengths) / len(self._recent_lengths) if gamma else math.nan
        )
        accepted, judged = self._alpha.accepted, self._alpha.judged
        self.alphas.add(*((accepted / judged, *wilson_interval(accepted, judged)) if judged else UNKNOWN))
        totals = self.stretches[-1].totals
        self.taus.add(_known(totals.tau), _known(totals.predicted_tau))
        if round_.expected:
            match_, gumbel, rejection = (
                math.fsum(getattr(expected, rule) for expected in round_.expected) for rule in EXPECTED_RULES
            )
            self._expected.append((len(round_.expected), match_, gumbel, rejection))
        self.expected.add(*self._expected_accepted(gamma))
        if round_.milliseconds.measured:
            self.staged = round_
            self.phases.add(round_.index, *(getattr(round_.milliseconds, phase) or 0.0 for phase in PHASES))

    def _expected_accepted(self, gamma: int) -> tuple[float, float, float]:
        """Returns the means of a + a^2 + ... + a^gamma over the latest rounds, where a is each rule's mean probability at their
        positions."""
        judged = sum(entry[0] for entry in self._expected)
        if not judged or not gamma or any(is_tree for _, _, is_tree in self._recent_lengths):
            return UNKNOWN
        gammas = Counter(drafted for drafted, _, _ in self._recent_lengths)
        match_, gumbel, rejection = (
            math.fsum(count * (expected_emitted(alpha, drafted) - 1) for drafted, count in gammas.items())
            / len(self._recent_lengths)
            for alpha in (math.fsum(entry[rule] for entry in self._expected) / judged for rule in (1, 2, 3))
        )
        return match_, gumbel, rejection

    @property
    def times_by_phase(self) -> Floats:
        """(rounds, 4): milliseconds of draft, verify, judge and other; NaN in rounds that were not measured in stages."""
        result = np.full((self.rounds, len(PHASES)), np.nan)
        result[self.phases.rows[:, 0].astype(int)] = self.phases.rows[:, 1:]
        return result

    def judged_positions(self) -> tuple[PositionCounts, ...]:
        """Acceptance by position, up to the last judged one: a single far longer draft says nothing about the positions after
        it."""
        by_position = self.summary.by_position
        last = max((entry.position for entry in by_position if entry.accepted + entry.rejected), default=0)
        return by_position[:last]

    def length_bars(self) -> tuple[list[int], tuple[float, ...]]:
        """Returns the number of rounds by accepted proposals from 0 on, and the expected numbers, empty without a prediction.
        Both end with the last length that has a round or an expectation of at least half a round."""
        expected = self.expected_lengths()
        expected_once = (length for length, count in enumerate(expected) if count >= 0.5)
        longest = max((*self.lengths, *expected_once), default=0)
        return [self.lengths[length] for length in range(longest + 1)], expected[: longest + 1]

    def expected_lengths(self) -> tuple[float, ...]:
        """Returns the expected number of rounds for each accepted length 0, 1, ..., as `engine.rounds.metrics` predicts it."""
        return self._totals.expected_lengths()


def _known(value: float | None) -> float:
    return math.nan if value is None else value
