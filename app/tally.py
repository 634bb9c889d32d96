"""The figures of one answer while it grows: the summary, and the series the plots draw. Each round costs the same."""

from __future__ import annotations

import math
from collections import deque

from engine.metrics import Rolling, Summary, Totals, expected_emitted
from engine.types import Round

SPEED_WINDOW = 8
"""Rounds the rolling throughput looks back."""
EXPECTED_WINDOW = 16
"""Rounds the expected curves look back."""
RULES_EXPECTED = ("match", "gumbel", "rejection")
NOTHING = (math.nan, math.nan, math.nan)


class Tally:
    """Sums and series over the rounds of one answer.

    Attributes:
        summary: the figures so far, as `engine.metrics` defines them.
        statuses: per round (accepted, rejected, unjudged).
        expected: per round the accepted tokens to expect under match, gumbel and rejection; NaN where nothing is known.
        times: seconds from the end of reading the prompt to the end of each round.
        speeds: tokens per second over the last `SPEED_WINDOW` rounds, one per round; NaN where no time had passed.
        staged: the newest round whose phases were measured.
    """

    def __init__(self) -> None:
        self.statuses: list[tuple[int, int, int]] = []
        self.expected: list[tuple[float, float, float]] = []
        self.times: list[float] = []
        self.speeds: list[float] = []
        self.staged: Round | None = None
        self._totals = Totals()
        self._rolling = Rolling(SPEED_WINDOW)
        self._judged: deque[tuple[int, float, float, float]] = deque(maxlen=EXPECTED_WINDOW)

    @property
    def summary(self) -> Summary:
        return self._totals.summary()

    @property
    def rounds(self) -> int:
        return len(self.statuses)

    def add(self, round_: Round) -> None:
        """Count one round more."""
        self._totals.add(round_)
        self._rolling.add(round_)
        self.statuses.append((round_.accepted, round_.rejected, round_.unjudged))
        self.times.append((round_.started + round_.milliseconds.total) / 1000)
        speed = self._rolling.throughput
        self.speeds.append(math.nan if speed is None else speed)
        if round_.expected:
            match_, gumbel, rejection = (math.fsum(getattr(place, rule) for place in round_.expected) for rule in RULES_EXPECTED)
            self._judged.append((len(round_.expected), match_, gumbel, rejection))
        self.expected.append(self._expected_accepted(len(round_.proposals)))
        if round_.milliseconds.measured:
            self.staged = round_

    def _expected_accepted(self, gamma: int) -> tuple[float, float, float]:
        """a + a^2 + ... + a^gamma per rule, a being the rule's mean probability at the positions judged lately."""
        judged = sum(entry[0] for entry in self._judged)
        if not judged or not gamma:
            return NOTHING
        match_, gumbel, rejection = (math.fsum(entry[rule] for entry in self._judged) / judged for rule in (1, 2, 3))
        return expected_emitted(match_, gamma) - 1, expected_emitted(gumbel, gamma) - 1, expected_emitted(rejection, gamma) - 1
