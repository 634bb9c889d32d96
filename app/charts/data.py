"""The content of each chart as numbers and words. No Qt: the window and the image export use the same data."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from engine.lens.bins import bin_size, broken, means, spreads, unmixed
from engine.lens.chart_kinds import SPEED_WINDOW, ChartKind
from engine.lens.tally import Floats, Tally
from engine.values.wording import amount

Words = tuple[str, str]
"""The same words with and without mark-up."""

SHOWN_ROUNDS = 60
"""Number of rounds shown by default."""
EDGE = 0.1
"""Margin in rounds beside the first and the last column, so that lines do not end on the plot's frame."""
STEP = 20
"""Number of rounds by which the axis of a short answer grows."""
USUAL_WIDTH = 400
LEAST_COLUMN, LEAST_BIN = 4, 6
"""Pixels. Rounds narrower than `LEAST_COLUMN` are grouped into bins of at least `LEAST_BIN`, drawn as mean and spread."""


@dataclass(frozen=True, slots=True)
class RoundSpan:
    """The visible rounds: `first` up to before `last`, with `each` of them per column. The x axis has room for `room` rounds.

    Indices count from 0. Positions on the x axis are shown to people and count from 1.
    """

    first: int
    last: int
    each: int
    room: int

    def column(self, place: float) -> int | None:
        """Returns the first round of the column at an x position, the plot's margin included; None beside the columns."""
        index = self.first + self.each * math.floor((place - 0.5 - self.first) / self.each)
        if self.first - EDGE - 1e-6 <= place - 0.5 < self.first:
            index = self.first
        elif self.last <= place - 0.5 <= self.last + EDGE + 1e-6:
            index = self.first + (self.last - 1 - self.first) // self.each * self.each
        return index if self.first <= index < self.last else None

    def centre(self, round_: int) -> float | None:
        """Returns the x position of a round; None if it is not visible."""
        if not self.first <= round_ < self.last:
            return None
        return 1 + round_ - (round_ - self.first) % self.each + (self.each - 1) / 2


def span_of(rounds: int, shown: int | None = SHOWN_ROUNDS, end: int | None = None, width: int = USUAL_WIDTH) -> RoundSpan:
    """Returns the visible rounds of an answer.

    Args:
        shown: their number; None for all.
        end: index after the last one; None follows the newest in steps of ten rounds, because moving an axis with every round
            costs more than drawing all columns.
        width: of the plot, in pixels.
    """
    if shown is None:
        step = STEP * rounds_in_a_column(rounds, width)
        first, room = 0, max(STEP, step * math.ceil(rounds / step))
        each = rounds_in_a_column(room, width)
    else:
        each = rounds_in_a_column(shown, width)
        step = max(10, each)
        newest = step * math.ceil(max(0, rounds - shown) / step)
        first = newest if end is None else max(0, min(end, rounds) - shown)
        room = min(shown, max(STEP, STEP * math.ceil(rounds / STEP)))
    first -= first % each
    return RoundSpan(first, min(rounds, first + room), each, room)


def rounds_in_a_column(rounds: int, width: int = USUAL_WIDTH) -> int:
    """Returns the number of rounds per column: 1 if a plot of this width in pixels has room for one column per round, else 2, 5,
    10, ..."""
    return 1 if rounds <= max(SHOWN_ROUNDS, width // LEAST_COLUMN) else bin_size(rounds, max(STEP, width // LEAST_BIN))


def step_above(value: float) -> float:
    """Returns the smallest of 1, 1.5, 2, 3, 4, 6, 8, 10, 15, ... at or above a value: an axis end that does not change with every
    round."""
    power = 10.0 ** math.floor(math.log10(max(value, 1e-3)))
    return next(factor * power for factor in (1, 1.5, 2, 3, 4, 6, 8, 10) if factor * power >= value * (1 - 1e-9))


def places(span: RoundSpan) -> Floats:
    """Returns the x positions of the columns, (columns,)."""
    starts = np.arange(span.first, span.last, span.each, dtype=np.float64)
    return np.asarray(starts + 1 + (span.each - 1) / 2, dtype=np.float64)


def columns(rows: Floats, span: RoundSpan) -> tuple[Floats, Floats]:
    """Returns x positions and values of the columns: the rounds themselves, or the mean of the known values in each bin.

    rows: (rounds,) or (rounds, k). Returns (columns,) and (columns,) or (columns, k); NaN if unknown.
    """
    return places(span), means(rows[span.first : span.last], span.each)


def curves(rows: Floats, material: Material) -> tuple[Floats, Floats]:
    """As `columns`, for a line with a window over past rounds or a prediction: it is interrupted where rule or drafter changed,
    and no bin mixes both sides."""
    span = material.span
    x, values = columns(rows, span)
    firsts = [stretch.first for stretch in material.tally.stretches if span.first < stretch.first < span.last]
    values = unmixed(values, span.first, span.each, firsts)
    return broken(x, values, [index + 0.5 for index in firsts])


def column_spreads(rows: Floats, span: RoundSpan) -> Floats:
    """Returns the 10 % and 90 % quantiles of each bin, (rounds,) to (columns, 2); (0, 2) if columns are single rounds."""
    return spreads(rows[span.first : span.last], span.each) if span.each > 1 else np.empty((0, 2))


@dataclass(frozen=True, slots=True)
class Material:
    """The data that the charts of one answer are drawn from.

    Attributes:
        dividers: the rounds from which settings changed, with a description.
        plain: measured throughput without a drafter, None if not measured; `plain_fits` is true if it was measured for this
            prompt under these settings.
        never: why there will be no rounds, if there will be none.
    """

    tally: Tally
    span: RoundSpan
    dividers: Sequence[tuple[int, str]] = field(default=())
    plain: float | None = None
    plain_fits: bool = True
    never: str = ""


def bin_words(span: RoundSpan) -> str:
    """Describes a column that is not a single round."""
    return "" if span.each == 1 else f"Bins of {span.each:,} rounds: their mean, and as a band or whisker their 10% to 90%"


def span_words(span: RoundSpan, rounds: int) -> str:
    """Returns which rounds are visible, counted from 1; empty while there are no rounds."""
    if rounds < 2:
        return "1 round" if rounds else ""
    return f"Rounds {span.first + 1:,} to {span.last:,}" if span.last - span.first < rounds else f"All {amount(rounds, 'round')}"


def spread_words(rows: Floats) -> str:
    """Returns the range of 80 % of the rounds in a bin; empty for a single round."""
    if len(rows) < 2:
        return ""
    low, high = spreads(rows, len(rows))[0]
    return f", 80% from {low:.1f} to {high:.1f}"


def empty_words(kind: ChartKind, tally: Tally | None, never: str = "") -> str:
    """Returns why a chart is empty, or "" if it is not. `never`: why there will be no rounds."""
    if tally is None or tally.rounds < kind.fewest_rounds:
        return never or kind.waiting
    return "Nothing was proposed." if kind.of_proposals and not any(tally.gammas.keys() - {0}) else ""


def said(words: str) -> Words:
    """Returns a note in one colour."""
    return words, words


def legend(before: str, *parts: tuple[str, str, str]) -> Words:
    """Returns a legend; `parts`: (colour, sign, name)."""
    rich = [f'<span style="color:{colour}">{sign}</span>&nbsp;{name.replace(" ", "&nbsp;")}' for colour, sign, name in parts]
    plain = [f"{sign} {name}" for _, sign, name in parts]
    return " &nbsp;".join(filter(None, (before, *rich))), "  ".join(filter(None, (before, *plain)))


def mean_of(rows: Floats) -> Floats | None:
    """Returns the mean of the known rows; None if there are none."""
    known = rows[np.isfinite(rows if rows.ndim == 1 else rows[:, 0])]
    return np.atleast_1d(known.mean(axis=0)) if len(known) else None


def milliseconds(value: float) -> str:
    """Returns a time in milliseconds with its unit, with one decimal below 10 ms."""
    return f"{value:.0f} ms" if value >= 10 else f"{value:.1f} ms"


def speed_note() -> str:
    """Returns the unit of the throughput chart, with the window in rounds of each value."""
    return f"tokens/s, last {SPEED_WINDOW} rounds"
