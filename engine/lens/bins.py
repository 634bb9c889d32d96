"""Groups consecutive rounds into bins of one size, so that a long answer can be drawn: the mean and the spread of each bin."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from engine.lens.tally import Floats
from engine.rounds.metrics import Stretch

SPREAD_QUANTILES = (0.1, 0.9)
"""Quantiles of a bin's rounds that bound its spread."""
EDGE = 0.1
"""Margin in rounds beside the first and the last column of the window's charts, so that lines do not end on the plot's frame."""


def bin_size(rounds: int, max_bins: int) -> int:
    """Returns the smallest of 1, 2, 5, 10, 20, 50, ... rounds per bin with which all rounds fit into at most `max_bins` bins."""
    power = 1
    while True:
        for factor in (1, 2, 5):
            if factor * power * max_bins >= rounds:
                return factor * power
        power *= 10


def bin_means(rows: Floats, size: int) -> Floats:
    """Returns the mean of the known values in each bin, (rounds[, k]) to (bins[, k]); NaN if none is known."""
    if size == 1 or not len(rows):
        return rows
    starts = np.arange(0, len(rows), size)
    known = np.isfinite(rows)
    counts = np.add.reduceat(known.astype(float), starts, axis=0)
    sums = np.add.reduceat(np.where(known, rows, 0.0), starts, axis=0)
    with np.errstate(invalid="ignore"):
        result: Floats = sums / counts
    return result


def bin_quantiles(rows: Floats, size: int) -> Floats:
    """Returns the `SPREAD_QUANTILES` quantiles of the known values in each bin, (rounds,) to (bins, 2); NaN if none is known."""
    bins = -(-len(rows) // size)
    padded = np.full(bins * size, np.nan)
    padded[: len(rows)] = rows
    ordered = np.sort(padded.reshape(bins, size), axis=1)  # NaN is sorted last
    last = np.isfinite(ordered).sum(axis=1) - 1
    result = np.full((bins, 2), np.nan)
    known = last >= 0
    for column, quantile in enumerate(SPREAD_QUANTILES):
        ranks = np.rint(quantile * last[known]).astype(int)
        result[known, column] = ordered[known, ranks]
    return result


def break_at_dividers(x: Floats, values: Floats, dividers: list[float]) -> tuple[Floats, Floats]:
    """Inserts NaN at each divider, so that a line is interrupted there.

    x: (bins,); values: (bins,) or (bins, k); dividers: x positions between two rounds, ascending. A bin that contains a divider
    mixes rounds of both sides; `mask_mixed_bins` must have removed its value.
    """
    if not dividers:
        return x, values
    insertion_points = np.searchsorted(x, dividers)
    return np.insert(x, insertion_points, dividers), np.insert(values, insertion_points, np.nan, axis=0)


def mask_mixed_bins(values: Floats, first: int, size: int, stretches: list[int]) -> Floats:
    """Returns a copy of the bins' values, with NaN in bins that contain rounds of two stretches.

    Args:
        values: (bins,) or (bins, k). first: index of the first round of the first bin.
        stretches: index of the first round of each stretch.
    """
    mixed_bins = [
        index_ for index in stretches if (index - first) % size and 0 <= (index_ := (index - first) // size) < len(values)
    ]
    if not mixed_bins:
        return values
    result = values.copy()
    result[mixed_bins] = np.nan
    return result


def proposals_axis_limit(judged: Floats, proposals: Floats) -> float:
    """Returns the height of the proposals axis: all judged proposals fit, and all drafted ones in 9 of 10 columns.

    A few far longer drafts would make the other columns unreadable. Only unjudged proposals are cut off, and a number gives the
    length of a draft that is cut off.

    judged, proposals: (columns,); at least one column.
    """
    return max(1.0, float(judged.max()), float(np.percentile(proposals, 90, method="higher")))


@dataclass(frozen=True, slots=True)
class RoundSpan:
    """The visible rounds: from `first` to `last` - 1, `each` of them per column. The x axis has room for `room` rounds.

    Indices count from 0, positions on the x axis from 1.
    """

    first: int
    last: int
    each: int
    room: int

    def column(self, x: float) -> int | None:
        """Returns the first round of the column at an x position, the plot's margin included; None beside the columns."""
        index = self.first + self.each * math.floor((x - 0.5 - self.first) / self.each)
        if self.first - EDGE - 1e-6 <= x - 0.5 < self.first:
            index = self.first
        elif self.last <= x - 0.5 <= self.last + EDGE + 1e-6:
            index = self.column_start(self.last - 1)
        return index if self.first <= index < self.last else None

    def column_start(self, round_: int) -> int:
        """Returns the first round of the column that contains a round."""
        return round_ - (round_ - self.first) % self.each

    def centre(self, round_: int) -> float | None:
        """Returns the x position of a round; None if it is not visible."""
        if not self.first <= round_ < self.last:
            return None
        return 1 + self.column_start(round_) + (self.each - 1) / 2


def column_positions(span: RoundSpan) -> Floats:
    """Returns the x positions of the columns, (columns,)."""
    starts = np.arange(span.first, span.last, span.each, dtype=np.float64)
    return np.asarray(starts + 1 + (span.each - 1) / 2, dtype=np.float64)


def columns(rows: Floats, span: RoundSpan) -> tuple[Floats, Floats]:
    """Returns x positions and values of the columns: the rounds themselves, or the mean of the known values in each bin.

    rows: (rounds,) or (rounds, k). Returns (columns,) and (columns,) or (columns, k); NaN if unknown.
    """
    return column_positions(span), bin_means(rows[span.first : span.last], span.each)


def interrupted_columns(rows: Floats, span: RoundSpan, stretches: Sequence[Stretch]) -> tuple[Floats, Floats]:
    """Returns `columns` for a line with a rolling window or a prediction. The line is interrupted where rule or drafter changed;
    bins that would mix both sides are NaN."""
    x, values = columns(rows, span)
    firsts = [stretch.first for stretch in stretches if span.first < stretch.first < span.last]
    values = mask_mixed_bins(values, span.first, span.each, firsts)
    return break_at_dividers(x, values, [index + 0.5 for index in firsts])


def column_quantiles(rows: Floats, span: RoundSpan) -> Floats:
    """Returns the 10 % and 90 % quantiles of each bin, (rounds,) to (columns, 2); (0, 2) if columns are single rounds."""
    return bin_quantiles(rows[span.first : span.last], span.each) if span.each > 1 else np.empty((0, 2))
