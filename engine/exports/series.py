"""The series of an answer (`engine.lens.tally`) as pictures draw them: round by round, in bins where that would be too many."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from engine.lens.bins import bin_size, broken, means, spreads, unmixed
from engine.lens.tally import Floats, Tally

MOST = 96
"""Columns that can be told apart in a picture."""


@dataclass(frozen=True, slots=True)
class RoundGroup:
    """The mean counts of the rounds of a bin, of one round in a short answer."""

    first: int
    last: int
    accepted: float
    rejected: float
    unjudged: float

    @property
    def proposals(self) -> float:
        """Mean proposals of a round: the height of the column."""
        return self.accepted + self.rejected + self.unjudged


def columns(tally: Tally, most: int = MOST) -> list[RoundGroup]:
    """Verdicts over the rounds."""
    size = bin_size(tally.rounds, most)
    return [
        RoundGroup(place * size, min((place + 1) * size, tally.rounds) - 1, *counts)
        for place, counts in enumerate(means(tally.statuses.rows, size).tolist())
    ]


def places(tally: Tally, most: int = MOST) -> Floats:
    """(bins,): where the columns stand across; round 1 stands at 1."""
    size = bin_size(tally.rounds, most)
    return np.arange(0, tally.rounds, size, dtype=np.float64) + 1 + (size - 1) / 2


def curve(rows: Floats, tally: Tally) -> tuple[Floats, Floats]:
    """Places across and means of a line that looks back or predicts, broken where the rule or the drafter changed."""
    size, firsts = bin_size(tally.rounds, MOST), [stretch.first for stretch in tally.stretches[1:]]
    values = unmixed(means(rows, size), 0, size, firsts)
    return broken(places(tally), values, [index + 0.5 for index in firsts])


def column_spreads(rows: Floats, tally: Tally) -> Floats:
    """(bins, 2): between which values 80 % of each bin lie; (0, 2) where columns are rounds."""
    size = bin_size(tally.rounds, MOST)
    return spreads(rows, size) if size > 1 else np.empty((0, 2))
