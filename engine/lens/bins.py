"""Neighbouring rounds put together in bins of one size, so that a long answer can be drawn: the mean and the spread of each."""

from __future__ import annotations

import numpy as np

from engine.lens.tally import Floats

SPREAD = (0.1, 0.9)
"""Between these shares of the rounds of a bin lies its spread."""


def bin_size(rounds: int, most: int) -> int:
    """1, 2, 5, 10, 20, 50, ...: the fewest rounds in a bin with which so many rounds need at most so many bins."""
    power = 1
    while True:
        for factor in (1, 2, 5):
            if factor * power * most >= rounds:
                return factor * power
        power *= 10


def means(rows: Floats, size: int) -> Floats:
    """The mean of what is known in each bin, (rounds,) to (bins,) or (rounds, k) to (bins, k); NaN where nothing is."""
    if size == 1 or not len(rows):
        return rows
    starts = np.arange(0, len(rows), size)
    known = np.isfinite(rows)
    counts = np.add.reduceat(known.astype(float), starts, axis=0)
    sums = np.add.reduceat(np.where(known, rows, 0.0), starts, axis=0)
    with np.errstate(invalid="ignore"):
        result: Floats = sums / counts
    return result


def spreads(rows: Floats, size: int) -> Floats:
    """(rounds,) to (bins, 2): between which values the middle 80 % of what is known in each bin lie; NaN where nothing is."""
    bins = -(-len(rows) // size)
    padded = np.full(bins * size, np.nan)
    padded[: len(rows)] = rows
    ordered = np.sort(padded.reshape(bins, size), axis=1)  # what is not known comes last
    newest = np.isfinite(ordered).sum(axis=1) - 1
    result = np.full((bins, 2), np.nan)
    known = newest >= 0
    for place, share in enumerate(SPREAD):
        at = np.rint(share * newest[known]).astype(int)
        result[known, place] = ordered[known, at]
    return result


def broken(x: Floats, values: Floats, dividers: list[float]) -> tuple[Floats, Floats]:
    """A line that does not go on from one stretch to the next: nothing is known at a divider.

    x: (bins,); values: (bins,) or (bins, k); dividers: places across between two rounds, rising. A bin that holds a divider holds
    rounds of both sides, so its value is taken out by `unmixed` before.
    """
    if not dividers:
        return x, values
    places = np.searchsorted(x, dividers)
    return np.insert(x, places, dividers), np.insert(values, places, np.nan, axis=0)


def unmixed(values: Floats, first: int, size: int, stretches: list[int]) -> Floats:
    """The values of bins, without those that hold rounds of two stretches: a copy with NaN there.

    Args:
        values: (bins,) or (bins, k). first: index of the first round of the first bin.
        stretches: index of the first round of each stretch.
    """
    mixed = [place for index in stretches if (index - first) % size and 0 <= (place := (index - first) // size) < len(values)]
    if not mixed:
        return values
    result = values.copy()
    result[mixed] = np.nan
    return result


def proposals_shown(judged: Floats, proposals: Floats) -> float:
    """How many proposals a column has room for: every judged one, and all that were drafted in 9 of 10 columns.

    A few far longer drafts would leave nothing to see of the others. What is cut off of them was never judged, and a number says
    how long they were.

    judged, proposals: (columns,); at least one column.
    """
    return max(1.0, float(judged.max()), float(np.percentile(proposals, 90, method="higher")))
