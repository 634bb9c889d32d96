"""What each chart shows, as numbers and words. No Qt: the window's charts and the pictures are drawn from the same."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from engine.lens.bins import bin_size, broken, means, spreads, unmixed
from engine.lens.chart_kinds import SPEED_WINDOW, ChartKind
from engine.lens.tally import Floats, Tally
from engine.wording import amount

Words = tuple[str, str]
"""The same words with and without mark-up."""

SHOWN_ROUNDS = 60
"""Rounds that show unless the user asks for more."""
EDGE = 0.1
"""Rounds beside the first and the last column that a plot shows, so that lines do not end on its frame."""
STEP = 20
"""Rounds by which the axis of a short answer grows."""
USUAL_WIDTH = 400
LEAST_COLUMN, LEAST_BIN = 4, 6
"""Pixels. Where a round would be narrower than a column, rounds are put together in bins, whose mean and spread are drawn."""


@dataclass(frozen=True, slots=True)
class RoundSpan:
    """The rounds that show: `first` up to before `last`, `each` of them in a column. `room` rounds have a place across.

    Indices count from 0. Places across are numbers for people, which count from 1.
    """

    first: int
    last: int
    each: int
    room: int

    def column(self, place: float) -> int | None:
        """The first round of the column at a place across, which the edge of the plot belongs to; None beside the columns."""
        index = self.first + self.each * math.floor((place - 0.5 - self.first) / self.each)
        if self.first - EDGE - 1e-6 <= place - 0.5 < self.first:
            index = self.first
        elif self.last <= place - 0.5 <= self.last + EDGE + 1e-6:
            index = self.first + (self.last - 1 - self.first) // self.each * self.each
        return index if self.first <= index < self.last else None

    def centre(self, round_: int) -> float | None:
        """Where a round is across; None if it does not show."""
        if not self.first <= round_ < self.last:
            return None
        return 1 + round_ - (round_ - self.first) % self.each + (self.each - 1) / 2


def span_of(rounds: int, shown: int | None = SHOWN_ROUNDS, end: int | None = None, width: int = USUAL_WIDTH) -> RoundSpan:
    """The rounds that show of an answer.

    Args:
        shown: how many; None for all.
        end: the round behind the last one; None follows the newest, ten rounds at a time, because moving an axis with every
            round costs more than drawing all columns.
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
    """One where so many rounds have a column each in a plot of this width, in pixels; else the size of a bin: 2, 5, 10, ..."""
    return 1 if rounds <= max(SHOWN_ROUNDS, width // LEAST_COLUMN) else bin_size(rounds, max(STEP, width // LEAST_BIN))


def step_above(value: float) -> float:
    """The smallest of 1, 1.5, 2, 3, 4, 6, 8, 10, 15, ... at or above a value: a range that does not change with every round."""
    power = 10.0 ** math.floor(math.log10(max(value, 1e-3)))
    return next(factor * power for factor in (1, 1.5, 2, 3, 4, 6, 8, 10) if factor * power >= value * (1 - 1e-9))


def places(span: RoundSpan) -> Floats:
    """Where the columns stand across, (columns,)."""
    starts = np.arange(span.first, span.last, span.each, dtype=np.float64)
    return np.asarray(starts + 1 + (span.each - 1) / 2, dtype=np.float64)


def columns(rows: Floats, span: RoundSpan) -> tuple[Floats, Floats]:
    """Places across and values of the columns: the rounds themselves, or the mean of what is known in each bin.

    rows: (rounds,) or (rounds, k). Returns (columns,) and (columns,) or (columns, k); NaN where nothing is known.
    """
    return places(span), means(rows[span.first : span.last], span.each)


def curves(rows: Floats, material: Material) -> tuple[Floats, Floats]:
    """The same for a line that looks back or predicts: it is broken where the rule or the drafter changed, and mixes no two."""
    span = material.span
    x, values = columns(rows, span)
    firsts = [stretch.first for stretch in material.tally.stretches if span.first < stretch.first < span.last]
    values = unmixed(values, span.first, span.each, firsts)
    return broken(x, values, [index + 0.5 for index in firsts])


def column_spreads(rows: Floats, span: RoundSpan) -> Floats:
    """(rounds,) to (columns, 2): between which values the middle 80 % of each bin lie; none, (0, 2), where columns are rounds."""
    return spreads(rows[span.first : span.last], span.each) if span.each > 1 else np.empty((0, 2))


@dataclass(frozen=True, slots=True)
class Material:
    """What the charts of one answer are drawn from.

    Attributes:
        dividers: the rounds from which other settings were in force, with what changed.
        plain: measured throughput without a drafter, None if nobody measured it; `plain_fits` tells whether
            for this prompt under these settings.
        never: why there will be no rounds, where there will be none.
    """

    tally: Tally
    span: RoundSpan
    dividers: Sequence[tuple[int, str]] = field(default=())
    plain: float | None = None
    plain_fits: bool = True
    never: str = ""


def bin_words(span: RoundSpan) -> str:
    """What a column is, where it is not one round."""
    return "" if span.each == 1 else f"Bins of {span.each:,} rounds: their mean, and as a band or whisker their 10% to 90%"


def span_words(span: RoundSpan, rounds: int) -> str:
    """Which of so many rounds are in view, counted from 1; empty while there are no rounds."""
    if rounds < 2:
        return "1 round" if rounds else ""
    return f"Rounds {span.first + 1:,} to {span.last:,}" if span.last - span.first < rounds else f"All {amount(rounds, 'round')}"


def spread_words(rows: Floats) -> str:
    """Between which values most of the rounds of a bin lie; nothing of a single round."""
    if len(rows) < 2:
        return ""
    low, high = spreads(rows, len(rows))[0]
    return f", 80% from {low:.1f} to {high:.1f}"


def empty_words(kind: ChartKind, tally: Tally | None, never: str = "") -> str:
    """Why a chart has nothing to show; empty if it has. `never`: why there will be no rounds."""
    if tally is None or tally.rounds < kind.fewest_rounds:
        return never or kind.waiting
    return "Nothing was proposed." if kind.of_proposals and not any(tally.gammas.keys() - {0}) else ""


def said(words: str) -> Words:
    """A note in one colour."""
    return words, words


def legend(before: str, *parts: tuple[str, str, str]) -> Words:
    """A note that says what is drawn how; `parts`: colour, sign, name."""
    rich = [f'<span style="color:{colour}">{sign}</span>&nbsp;{name.replace(" ", "&nbsp;")}' for colour, sign, name in parts]
    plain = [f"{sign} {name}" for _, sign, name in parts]
    return " &nbsp;".join(filter(None, (before, *rich))), "  ".join(filter(None, (before, *plain)))


def mean_of(rows: Floats) -> Floats | None:
    """The mean of the rows that are known; None where none is."""
    known = rows[np.isfinite(rows if rows.ndim == 1 else rows[:, 0])]
    return np.atleast_1d(known.mean(axis=0)) if len(known) else None


def milliseconds(value: float) -> str:
    """A time in milliseconds with its unit, to one decimal below 10 ms and to none above."""
    return f"{value:.0f} ms" if value >= 10 else f"{value:.1f} ms"


def speed_note() -> str:
    """The unit of the throughput chart, with the number of rounds each of its values is taken over."""
    return f"tokens/s, last {SPEED_WINDOW} rounds"
