"""Bins of neighbouring rounds, so that a long answer can be drawn: mean and spread of each bin."""

from __future__ import annotations

import numpy as np

from engine.lens.tally import Floats

SPREAD = (0.1, 0.9)
"""Quantiles of a bin's rounds that bound its spread."""


def bin_size(rounds: int, most: int) -> int:
    """Returns the number of rounds in a bin, 1, 2, 5, 10, 20, 50, ...: the smallest with which `rounds` need at most `most`
    bins."""
    power = 1
    while True:
        for factor in (1, 2, 5):
            if factor * power * most >= rounds:
                return factor * power
        power *= 10


def means(rows: Floats, size: int) -> Floats:
    """Returns the mean of the known values in each bin, (rounds,) to (bins,) or (rounds, k) to (bins, k); NaN if there are
    none."""
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
    """Returns the ends of the middle 80 % of the known values in each bin, (rounds,) to (bins, 2); NaN if there are none."""
    bins = -(-len(rows) // size)
    padded = np.full(bins * size, np.nan)
    padded[: len(rows)] = rows
    ordered = np.sort(padded.reshape(bins, size), axis=1)  # unknown values come last
    newest = np.isfinite(ordered).sum(axis=1) - 1
    result = np.full((bins, 2), np.nan)
    known = newest >= 0
    for place, share in enumerate(SPREAD):
        at = np.rint(share * newest[known]).astype(int)
        result[known, place] = ordered[known, at]
    return result


def broken(x: Floats, values: Floats, dividers: list[float]) -> tuple[Floats, Floats]:
    """Returns x and values of a line that is interrupted between stretches: a NaN point is inserted at each divider.

    x: (bins,); values: (bins,) or (bins, k); dividers: ascending x coordinates between two rounds. The value of a bin that
    contains a divider mixes rounds of both sides; `unmixed` removes it beforehand.
    """
    if not dividers:
        return x, values
    places = np.searchsorted(x, dividers)
    return np.insert(x, places, dividers), np.insert(values, places, np.nan, axis=0)


def unmixed(values: Floats, first: int, size: int, stretches: list[int]) -> Floats:
    """Returns a copy of the bins' values with NaN for bins that hold rounds of two stretches.

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
    """Returns the number of proposals that fit in a column: every judged one, and all drafted ones in 9 of 10 columns.

    A few far longer drafts would shrink all others. The part of them that does not fit was never judged, and a number gives their
    length.

    judged, proposals: (columns,); at least one column.
    """
    return max(1.0, float(judged.max()), float(np.percentile(proposals, 90, method="higher")))
