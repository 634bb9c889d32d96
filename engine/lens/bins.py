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


def columns(rows: Floats, span: RoundSpan) -> tuple[Floats, Floats]:
    """Returns x positions and values of the columns: the rounds themselves, or the mean of the known values in each bin.

    rows: (rounds,) or (rounds, k). Returns (columns,) and (columns,) or (columns, k); NaN if unknown.
    """
    starts = np.arange(span.first, span.last, span.each, dtype=np.float64)
    return starts + 1 + (span.each - 1) / 2, _bin_means(rows[span.first : span.last], span.each)


def interrupted_columns(rows: Floats, span: RoundSpan, stretches: Sequence[Stretch]) -> tuple[Floats, Floats]:
    """Returns `columns` for a line with a rolling window or a prediction. The line is interrupted by NaN where rule or drafter
    changed; bins that would mix both sides are NaN."""
    x, values = columns(rows, span)
    firsts = np.array([stretch.first for stretch in stretches if span.first < stretch.first < span.last], dtype=int)
    if not len(firsts):
        return x, values
    bins, inside = np.divmod(firsts - span.first, span.each)
    values = values.copy()
    values[bins[inside > 0]] = np.nan
    places = np.searchsorted(x, firsts + 0.5)
    return np.insert(x, places, firsts + 0.5), np.insert(values, places, np.nan, axis=0)


def column_quantiles(rows: Floats, span: RoundSpan) -> Floats:
    """Returns the `SPREAD_QUANTILES` quantiles of the known values in each bin, (rounds,) to (columns, 2); NaN if none is known,
    (0, 2) if columns are single rounds."""
    if span.each == 1:
        return np.empty((0, 2))
    rows = rows[span.first : span.last]
    bins = -(-len(rows) // span.each)
    padded = np.full(bins * span.each, np.nan)
    padded[: len(rows)] = rows
    ordered = np.sort(padded.reshape(bins, span.each), axis=1)  # NaN is sorted last
    last = np.isfinite(ordered).sum(axis=1) - 1
    result = np.full((bins, 2), np.nan)
    known = last >= 0
    for column, quantile in enumerate(SPREAD_QUANTILES):
        ranks = np.rint(quantile * last[known]).astype(int)
        result[known, column] = ordered[known, ranks]
    return result


def _bin_means(rows: Floats, size: int) -> Floats:
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
