"""What each chart shows, as numbers and words. No Qt: the window's charts and the pictures are drawn from the same."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from engine.lens.chart_kinds import SPEED_WINDOW, ChartKind
from engine.lens.tally import Floats, Tally

Words = tuple[str, str]
"""The same words with and without mark-up."""

SHOWN_ROUNDS = 60
"""Rounds that show unless the user asks for more."""
MOST_COLUMNS = 240
"""More columns than that are not told apart; then a column is the mean of several rounds."""


@dataclass(frozen=True, slots=True)
class Span:
    """The rounds that show: `first` up to before `last`, `each` of them in a column. `room` rounds have a place across.

    Indices count from 0. Places across are numbers for people, which count from 1.
    """

    first: int
    last: int
    each: int
    room: int

    def column(self, place: float) -> int | None:
        """The first round of the column at a place across; None beside the columns."""
        index = self.first + self.each * math.floor((place - 0.5 - self.first) / self.each)
        return index if self.first <= index < self.last else None

    def centre(self, round_: int) -> float | None:
        """Where a round is across; None if it does not show."""
        if not self.first <= round_ < self.last:
            return None
        return 1 + round_ - (round_ - self.first) % self.each + (self.each - 1) / 2


def span_of(rounds: int, shown: int | None = SHOWN_ROUNDS, end: int | None = None) -> Span:
    """The rounds that show of an answer.

    Args:
        shown: how many; None for all.
        end: the round behind the last one; None follows the newest, ten rounds at a time, because moving an axis with every
            round costs more than drawing all columns.
    """
    if shown is None:
        step = 20 * rounds_in_a_column(rounds)
        first, room = 0, max(SHOWN_ROUNDS, step * math.ceil(rounds / step))
        each = rounds_in_a_column(room)
    else:
        room, each = shown, rounds_in_a_column(shown)
        step = max(10, each)
        newest = step * math.ceil(max(0, rounds - shown) / step)
        first = newest if end is None else max(0, min(end, rounds) - shown)
    first -= first % each
    return Span(first, min(rounds, first + room), each, room)


def rounds_in_a_column(rounds: int) -> int:
    """1, 2, 5, 10, 20, 50, ...: the fewest with which so many rounds have a column each."""
    power = 1
    while True:
        for factor in (1, 2, 5):
            if factor * power * MOST_COLUMNS >= rounds:
                return factor * power
        power *= 10


def step_above(value: float) -> float:
    """The smallest of 1, 1.5, 2, 3, 4, 6, 8, 10, 15, ... at or above a value: a range that does not change with every round."""
    power = 10.0 ** math.floor(math.log10(max(value, 1e-3)))
    return next(factor * power for factor in (1, 1.5, 2, 3, 4, 6, 8, 10) if factor * power >= value * (1 - 1e-9))


def columns(rows: Floats, span: Span) -> tuple[Floats, Floats]:
    """Places across and values of the columns: the rounds themselves, or the mean of what is known in each column.

    rows: (rounds,) or (rounds, k). Returns (columns,) and (columns,) or (columns, k); NaN where nothing is known.
    """
    part = rows[span.first : span.last]
    if span.each == 1:
        return np.arange(span.first + 1, span.last + 1, dtype=np.float64), part
    starts = np.arange(0, len(part), span.each)
    x = np.asarray(span.first + 1 + starts + (span.each - 1) / 2, dtype=np.float64)
    if not len(part):
        return x, part
    known = np.isfinite(part)
    counts = np.add.reduceat(known.astype(float), starts, axis=0)
    sums = np.add.reduceat(np.where(known, part, 0.0), starts, axis=0)
    with np.errstate(invalid="ignore"):
        return x, sums / counts


def proposals_shown(judged: Floats, proposals: Floats) -> float:
    """How many proposals a column has room for: every judged one, and all that were drafted in 19 of 20 columns.

    One far longer draft would leave nothing to see of the others, and what is cut off of it was never judged.

    judged, proposals: (columns,); at least one column.
    """
    return max(1.0, float(judged.max()), float(np.percentile(proposals, 95, method="higher")))


@dataclass(frozen=True, slots=True)
class Material:
    """What the charts of one answer are drawn from.

    Attributes:
        changes: rounds from which other settings were in force.
        plain: measured throughput without a drafter, None if nobody measured it; `plain_fits` tells whether
            for this prompt under these settings.
    """

    tally: Tally
    span: Span
    changes: Sequence[int] = field(default=())
    plain: float | None = None
    plain_fits: bool = True


def column_words(span: Span) -> str:
    """What a column is, where it is not one round."""
    return "" if span.each == 1 else f"each column: mean of {span.each} rounds"


def span_words(span: Span, rounds: int) -> str:
    """Which of so many rounds are in view, counted from 1, and what a column stands for; empty while there are no rounds."""
    if not rounds:
        return ""
    shown = f"Rounds {span.first + 1:,} to {span.last:,}" if span.last - span.first < rounds else f"All {rounds:,} rounds"
    return ", ".join(filter(None, (shown, column_words(span))))


def empty_words(kind: ChartKind, tally: Tally | None) -> str:
    """Why a chart has nothing to show; empty if it has."""
    if tally is None or tally.rounds < kind.fewest_rounds:
        return kind.waiting
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
