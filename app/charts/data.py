"""Which rounds the window's charts show, and their legends as text. No Qt."""

from __future__ import annotations

import math

from engine.exports.svg import Palette
from engine.lens.bins import RoundSpan, bin_size
from engine.lens.chart_spec import Dash, Fill, Key, Note
from engine.values.wording import amount

LegendText = tuple[str, str]
"""A text with mark-up, and the same as plain text."""
SIGNS: dict[Dash | Fill, str] = {
    "line": "━━",
    "dash": "╍╍",
    "dot": "┈┈",
    "dashdot": "━┈",
    "fill": "█",
    "light": "▒",
    "hatch": "▨",
    "outline": "□",
    "dashed": "╍╍",
    "top": "━",
}
"""Characters that stand for the looks of marks."""

DEFAULT_ROUNDS = 60
"""Number of rounds shown by default."""
ROUNDS_STEP = 20
"""Number of rounds by which the axis of a short answer grows."""
DEFAULT_WIDTH = 400
MIN_COLUMN, MIN_BIN = 4, 6
"""Minimum widths in pixels: rounds narrower than `MIN_COLUMN` are grouped into bins of at least `MIN_BIN`, drawn as mean and
spread."""


def span_of(rounds: int, shown: int | None = DEFAULT_ROUNDS, end: int | None = None, width: int = DEFAULT_WIDTH) -> RoundSpan:
    """Returns the visible rounds of an answer.

    Args:
        shown: their number; None for all.
        end: index after the last one; None follows the newest in steps of ten rounds, because moving an axis with every round
            costs more than drawing all columns.
        width: of the plot, in pixels.
    """
    if shown is None:
        step = ROUNDS_STEP * rounds_per_column(rounds, width)
        first, axis_rounds = 0, max(ROUNDS_STEP, step * math.ceil(rounds / step))
        per_column = rounds_per_column(axis_rounds, width)
    else:
        per_column = rounds_per_column(shown, width)
        step = max(10, per_column)
        newest = step * math.ceil(max(0, rounds - shown) / step)
        first = newest if end is None else max(0, min(end, rounds) - shown)
        axis_rounds = min(shown, max(ROUNDS_STEP, ROUNDS_STEP * math.ceil(rounds / ROUNDS_STEP)))
    first -= first % per_column
    return RoundSpan(first, min(rounds, first + axis_rounds), per_column, axis_rounds)


def rounds_per_column(rounds: int, width: int = DEFAULT_WIDTH) -> int:
    """Returns the number of rounds per column: 1 if a plot of this width in pixels has room for one column per round, else 2, 5,
    10, ..."""
    return 1 if rounds <= max(DEFAULT_ROUNDS, width // MIN_COLUMN) else bin_size(rounds, max(ROUNDS_STEP, width // MIN_BIN))


def bin_text(span: RoundSpan) -> str:
    """Describes a column that is not a single round."""
    return "" if span.each == 1 else f"Bins of {span.each:,} rounds: their mean, and as a band or whisker their 10% to 90%"


def span_text(span: RoundSpan, rounds: int) -> str:
    """Returns which rounds are visible, counted from 1; empty while there are no rounds."""
    if rounds < 2:
        return "1 round" if rounds else ""
    return f"Rounds {span.first + 1:,} to {span.last:,}" if span.last - span.first < rounds else f"All {amount(rounds, 'round')}"


def legend_text(note: Note, colours: Palette) -> LegendText:
    """Returns a legend as text."""
    rich, plain = [], []
    for part in note:
        if isinstance(part, Key):
            sign, colour, name = SIGNS[part.sign], getattr(colours, part.role), part.name.replace(" ", "&nbsp;")
            rich.append(f'<span style="color:{colour}">{sign}</span>&nbsp;{name}')
            plain.append(f"{sign} {part.name}")
        else:
            rich.append(part)
            plain.append(part)
    return " &nbsp;".join(rich), "  ".join(plain)
