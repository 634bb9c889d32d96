"""The series of an answer (`engine.lens.tally`), thinned where there are more rounds than a picture can show."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from engine.lens.tally import Floats, Tally


@dataclass(frozen=True, slots=True)
class RoundGroup:
    """The mean counts of neighbouring rounds, one round in a short answer."""

    first: int
    last: int
    accepted: float
    rejected: float
    unjudged: float

    @property
    def proposals(self) -> float:
        """Mean proposals of a round: the height of the column."""
        return self.accepted + self.rejected + self.unjudged


def thinned(count: int, most: int) -> list[range]:
    """`count` places in at most `most` neighbouring groups of about one size."""
    groups = min(count, most)
    return [range(count * group // groups, count * (group + 1) // groups) for group in range(groups)]


def columns(tally: Tally, most: int = 96) -> list[RoundGroup]:
    """Verdicts over the rounds."""
    means = _means(tally.statuses.rows, most).tolist()
    groups = thinned(tally.rounds, most)
    return [RoundGroup(group[0], group[-1], *mean) for group, mean in zip(groups, means, strict=True)]


def phases(tally: Tally, most: int = 60) -> list[tuple[int, tuple[float, ...]]]:
    """Where the time of the rounds measured in stages went: the first round of a group, and its mean milliseconds of draft,
    verify, judge and the rest."""
    rows = tally.phases.rows
    firsts = [int(rows[group[0], 0]) for group in thinned(len(rows), most)]
    return list(zip(firsts, map(tuple, _means(rows[:, 1:], most).tolist()), strict=True))


def latest(rows: Floats, most: int = 240) -> tuple[list[int], Floats]:
    """The last row of each group: (indices), and these rows, (groups,) or (groups, width)."""
    kept = [group[-1] for group in thinned(len(rows), most)]
    return kept, rows[kept]


def _means(rows: Floats, most: int) -> Floats:
    groups = thinned(len(rows), most)
    return np.array([rows[group.start : group.stop].mean(axis=0) for group in groups]).reshape(len(groups), rows.shape[1])
