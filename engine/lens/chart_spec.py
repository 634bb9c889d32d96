"""A chart as a plain value, without Qt and without SVG: axes, marks, legend and description.

`engine.lens.charts` makes such values from an answer; `app.charts.chart` (pyqtgraph) and `engine.exports.svg_charts` (SVG) draw
any of them. Colours are roles: names of fields of `engine.exports.svg.Palette`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from engine.lens.bins import RoundSpan
from engine.lens.tally import Floats

Dash = Literal["line", "dash", "dot", "dashdot"]
Fill = Literal["fill", "light", "hatch", "outline", "dashed", "top"]
"""Fill of a bar; "top" draws only its upper edge."""
BAR_WIDTH = 14.0
"""Maximum width in pixels of a bar in a chart by round."""


@dataclass(frozen=True, slots=True)
class Axis:
    """Range of an axis, and its ticks as (position, label); if `ticks` is None, the drawing code chooses them."""

    low: float
    high: float
    ticks: tuple[tuple[float, str], ...] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Line:
    """A line through points, interrupted where y is NaN; an isolated point is a dot.

    Attributes:
        x, y: (points,).
        value_format: format of a value in a readout, "" for none.
        dots: radius of a dot at each point, in pixels.
    """

    x: Floats
    y: Floats
    role: str
    dash: Dash = "line"
    width: float = 1.6
    value_format: str = ""
    dots: float = 0.0

    def reading(self, position: float) -> list[str]:
        """Returns the value at an x position in words, if it is known."""
        return _values_in_words(self.x, position, self.y[:, None], [self.value_format])


@dataclass(frozen=True, slots=True, eq=False)
class Area:
    """The translucent area between two lines; x, low, high: (points,)."""

    x: Floats
    low: Floats
    high: Floats
    role: str
    value_format: str = ""

    def reading(self, position: float) -> list[str]:
        """Returns both ends at an x position in words, if they are known."""
        index = _index(self.x, position)
        ends = () if index is None else (self.low[index], self.high[index])
        return [self.value_format.format(*ends)] if self.value_format and ends and math.isfinite(sum(ends)) else []


@dataclass(frozen=True, slots=True)
class Level:
    """A reference line across the whole plot."""

    y: float
    role: str
    dash: Dash = "dash"
    width: float = 1.2

    def reading(self, position: float) -> list[str]:
        """Returns nothing: the value is in the legend."""
        return []


@dataclass(frozen=True, slots=True, eq=False)
class Whiskers:
    """A vertical line with caps from low to high at each x; x, low, high: (points,)."""

    x: Floats
    low: Floats
    high: Floats
    role: str

    def reading(self, position: float) -> list[str]:
        """Returns nothing."""
        return []


@dataclass(frozen=True, slots=True)
class Part:
    """One layer of stacked bars."""

    role: str
    fill: Fill = "fill"
    value_format: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Bars:
    """Stacked bars.

    Attributes:
        x: centres, (bars,).
        values: height of each part, from the bottom, (bars, parts).
        half_width: half the width, in units of x.
        max_width: maximum width in pixels.
        max_height: height at which bars are cut off; a bar that is cut off gets a mark with its height.
        cells: whether each unit of a part is drawn as a cell, if there is room.
        titles: tooltip of each bar.
        numbers: text above each bar, in pictures.
    """

    x: Floats
    values: Floats
    parts: tuple[Part, ...]
    half_width: float
    max_width: float = math.inf
    max_height: float = math.inf
    cells: bool = False
    titles: tuple[str, ...] = ()
    numbers: tuple[str, ...] = ()

    def reading(self, position: float) -> list[str]:
        """Returns the parts of the bar at an x position in words."""
        return _values_in_words(self.x, position, self.values, [part.value_format for part in self.parts])

    def cut_off(self) -> list[tuple[float, float]]:
        """Returns x and height of the bars that are cut off."""
        heights = self.values.sum(axis=1)
        is_cut_off = heights > self.max_height + 1e-9
        return list(zip(self.x[is_cut_off].tolist(), heights[is_cut_off].tolist(), strict=True))

    def boxes(self, width: float, cells: bool, gap: float = 0.0) -> list[list[tuple[float, float, float, float]]]:
        """Returns the boxes (left, bottom, width, height) of each part, cut off at `max_height`.

        Args:
            width: of a bar, in units of x. cells: whether to draw cells, with a `gap` between them in units of y.
        """
        boxes_by_part: list[list[tuple[float, float, float, float]]] = [[] for _ in self.parts]
        for x, values in zip(self.x.tolist(), self.values.tolist(), strict=True):
            low, left = 0.0, x - width / 2
            for boxes, value in zip(boxes_by_part, values, strict=True):
                height = min(value, self.max_height - low)
                if cells:
                    boxes += [(left, low + cell + gap / 2, width, 1 - gap) for cell in range(round(height))]
                elif height > 0 or len(self.parts) == 1:  # a single part of height 0 is drawn as a line
                    boxes.append((left, low, width, height))
                low += height
        return boxes_by_part


Mark = Line | Area | Level | Whiskers | Bars


@dataclass(frozen=True, slots=True)
class Key:
    """An entry of a legend: the look of a mark, and its name."""

    role: str
    sign: Dash | Fill
    name: str


Note = tuple[str | Key, ...]
"""A legend: words and entries in order."""


@dataclass(frozen=True, slots=True, eq=False)
class Panel:
    """A plot with its own y axis; its marks are painted in order."""

    up: Axis
    marks: tuple[Mark, ...]


@dataclass(frozen=True, slots=True, eq=False)
class ChartSpec:
    """Description of a chart.

    Attributes:
        across: x axis of all panels, which are drawn one below the other.
        words: description for screen readers.
        notes: the legend in several wordings, from the longest to the shortest.
        dividers: changes of settings, as (position, label).
        span: the visible rounds, for a chart by round.
        empty: why there is nothing to draw; "" if there is something.
        lower_notes: like `notes`, for the panels below the first; `notes` has the whole legend if this is empty.
    """

    across: Axis = Axis(0, 1)
    panels: tuple[Panel, ...] = ()
    words: str = ""
    notes: tuple[Note, ...] = ()
    dividers: tuple[tuple[float, str], ...] = ()
    span: RoundSpan | None = None
    empty: str = ""
    lower_notes: tuple[Note, ...] = ()

    def readout(self, round_: int) -> str:
        """Returns which round this is, or which rounds the column that contains it has, and their values in words."""
        title, values = self.reading(round_)
        return f"{title}: {values}" if title else ""

    def reading(self, round_: int) -> tuple[str, str]:
        """Returns the two parts of `readout`; the topmost mark comes first. Both are empty if the round is not shown."""
        position = None if self.span is None else self.span.centre(round_)
        if self.span is None or position is None:
            return "", ""
        first = self.span.column_start(round_)
        last = min(first + self.span.each, self.span.last)
        title = f"round {round_ + 1:,}" if self.span.each == 1 else f"rounds {first + 1:,} to {last:,}"
        values = [words for panel in self.panels for mark in reversed(panel.marks) for words in mark.reading(position)]
        return title, ", ".join(values) or "no data"


def axis_limit_above(value: float) -> float:
    """Returns the smallest of 1, 1.5, 2, 3, 4, 6, 8, 10, 15, ... that is at least `value`: an axis limit that seldom changes."""
    power = 10.0 ** math.floor(math.log10(max(value, 1e-3)))
    return next(factor * power for factor in (1, 1.5, 2, 3, 4, 6, 8, 10) if factor * power >= value * (1 - 1e-9))


def highest(*values: Floats) -> float:
    """Returns the maximum of the known values, at least 0."""
    return max(float(np.nanmax(part, initial=0.0)) for part in values)


def axis_with_halves(top: float) -> Axis:
    """Returns an axis from 0 to `top` with ticks at both ends and in the middle."""
    return Axis(0, top, tuple((value, f"{value:,g}") for value in (0, top / 2, top)))


def integer_axis(low: float, high: float, first: int, last: int, max_ticks: int = 16) -> Axis:
    """Returns an axis whose ticks are whole numbers from `first` to `last`, at most `max_ticks` of them."""
    step = max(1, math.ceil((last - first + 1) / max_ticks))
    return Axis(low, high, tuple((value, str(value)) for value in range(first, last + 1, step)))


def _index(x: Floats, position: float) -> int | None:
    index = int(np.searchsorted(x, position))
    return index if index < len(x) and x[index] == position else None


def _values_in_words(x: Floats, position: float, values: Floats, formats: list[str]) -> list[str]:
    index = _index(x, position)
    row = [] if index is None else values[index].tolist()
    return [template.format(value) for template, value in zip(formats, row, strict=False) if template and math.isfinite(value)]
