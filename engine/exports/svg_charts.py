"""Draws any `ChartSpec` as SVG, and the charts of an answer.

Besides its colour, each state of a proposal has its own fill: solid, hatched or outlined.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import assert_never

from engine.exports import captions
from engine.exports.formats import ExportOptions
from engine.exports.svg import CAPTION, DARK, LIGHT, Drawing, Frame, Palette, number, ticks
from engine.exports.tables import dividers_of
from engine.lens.bins import RoundSpan, bin_size
from engine.lens.chart_kinds import CHARTS, ChartKind, ChartName
from engine.lens.chart_spec import Area, Bars, ChartSpec, Dash, Fill, Key, Level, Line, Mark, Note, Panel, Whiskers, highest
from engine.lens.charts import Material, spec_of
from engine.lens.tally import Tally
from engine.rounds.trace import Trace
from engine.values.errors import DraftlightError

WIDTH, HEIGHT = 480.0, 218.0
LEFT, RIGHT, TOP, BOTTOM = 40.0, 472.0, 36.0, 184.0
BETWEEN = 18.0
"""Pixels between two panels."""
MIN_PANEL_HEIGHT = 46.0
"""Minimum height of the panels below the first, in pixels."""
MAX_COLUMNS = 96
"""Most columns that can be told apart in a picture."""
MIN_CELL_HEIGHT = 6.0
"""Minimum height of a cell in pixels; lower cells could not be counted."""
DASHES: dict[Dash, str] = {"line": "", "dash": "6 4", "dot": "2 3", "dashdot": "8 3 2 3"}
GAP = 11.0
"""Pixels between two parts of a legend."""
Span = tuple[float, float]
"""Left and right end, in pixels."""


def draw(name: str, spec: ChartSpec, palette: Palette, heights: Sequence[float] = (1,), across: str = "") -> Drawing:
    """Returns a chart as a drawing.

    Args:
        heights: relative heights of the panels. across: name of the x axis.
    """
    drawing = Drawing(name, WIDTH, HEIGHT, palette, spec.empty or spec.words)
    if spec.empty:
        drawing.rect(LEFT, TOP, RIGHT - LEFT, BOTTOM - TOP, stroke=palette.line, radius=6)
        drawing.text((LEFT + RIGHT) / 2, (TOP + BOTTOM) / 2 + 4, spec.empty, anchor="middle")
        return drawing
    x, top = (spec.across.low, spec.across.high), TOP
    free_height = BOTTOM - TOP - BETWEEN * (len(spec.panels) - 1)
    below = [max(MIN_PANEL_HEIGHT, height / sum(heights) * free_height) for height in heights[1:]]
    for panel, height in zip(spec.panels, (free_height - sum(below), *below), strict=True):
        frame = Frame(LEFT, top, RIGHT, top + height, x, (panel.up.low, panel.up.high))
        top = frame.bottom + BETWEEN
        ticks_ = 4 if len(spec.panels) == 1 else 2
        for value, label in panel.up.ticks or [(value, number(value)) for value in ticks(*frame.y, ticks_)]:
            drawing.line((LEFT, frame.up(value)), (RIGHT, frame.up(value)), palette.line)
            drawing.text(LEFT - 6, frame.up(value) + 4, label, anchor="end")
        for mark in panel.marks:
            _mark(drawing, frame, mark, spec)
        _numbers(drawing, frame, panel)
    integers = [(value, number(value)) for value in ticks(*x, 6) if value == round(value)]
    for value, label in integers if spec.across.ticks is None else spec.across.ticks:
        drawing.text(frame.across(value), BOTTOM + 15, label, anchor="middle")
    if spec.span is not None and spec.span.each > 1:
        across += f"; in bins of {spec.span.each:,}: their mean, and as a band or whisker their 10% to 90%"
    drawing.text(RIGHT, BOTTOM + 30, across, anchor="end")
    _labels(drawing, frame, spec)
    _legend(drawing, spec.notes)
    return drawing


def _mark(drawing: Drawing, frame: Frame, mark: Mark, spec: ChartSpec) -> None:
    palette = drawing.palette
    match mark:
        case Line():
            colour = getattr(palette, mark.role)
            points = [frame.at(x, y) for x, y in zip(mark.x.tolist(), mark.y.tolist(), strict=True)]
            drawing.curve(points, colour, mark.width, DASHES[mark.dash])
            for point in points if mark.dots else ():
                drawing.curve([point], colour, mark.dots)
        case Area():
            low, high = (
                [frame.at(x, y) for x, y in zip(mark.x.tolist(), end.tolist(), strict=True)] for end in (mark.low, mark.high)
            )
            drawing.band(high, low, getattr(palette, mark.role), 0.235)
        case Level():
            y = frame.up(mark.y)
            drawing.line((LEFT, y), (RIGHT, y), getattr(palette, mark.role), mark.width, DASHES[mark.dash])
        case Whiskers():
            colour = getattr(palette, mark.role)
            for x, low, high in zip(mark.x.tolist(), mark.low.tolist(), mark.high.tolist(), strict=True):
                if math.isfinite(low):
                    middle = frame.across(x)
                    drawing.line((middle, frame.up(low)), (middle, frame.up(high)), colour)
                    for y in (frame.up(low), frame.up(high)):
                        drawing.line((middle - 2.5, y), (middle + 2.5, y), colour)
        case Bars():
            _bars(drawing, frame, mark, spec)
        case _:
            assert_never(mark)


def _bars(drawing: Drawing, frame: Frame, mark: Bars, spec: ChartSpec) -> None:
    """Draws each bar as a group, whose title browsers show as the bar's tooltip."""
    across, up = frame.across(1) - frame.across(0), frame.up(0) - frame.up(1)
    width = min(2 * mark.half_width, mark.max_width / across)
    cells = mark.cells and up >= MIN_CELL_HEIGHT
    for index, x in enumerate(mark.x.tolist()):
        one = slice(index, index + 1)
        bar = Bars(mark.x[one], mark.values[one], mark.parts, mark.half_width, max_height=mark.max_height)
        title = mark.titles[index] if mark.titles else spec.readout(-1 if spec.span is None else spec.span.column(x) or 0)
        drawing.begin_group(title[:1].upper() + title[1:])
        for part, boxes in zip(mark.parts, bar.boxes(width, cells, 2 / up if cells else 0.0), strict=True):
            for left, low, wide, height in boxes:
                high = frame.up(low + height)
                colour = getattr(drawing.palette, part.role)
                _box(drawing, frame.across(left), high, wide * across, frame.up(low) - high, part.fill, colour)
        drawing.end_group()


def _numbers(drawing: Drawing, frame: Frame, panel: Panel) -> None:
    """Writes the numbers of bars above the highest bar at each x."""
    bars = [mark for mark in panel.marks if isinstance(mark, Bars)]
    for mark in bars:
        for x, words in zip(mark.x.tolist(), mark.numbers, strict=False):
            top = max(highest(other.values[other.x == x].sum(axis=1)) for other in bars)
            drawing.text(frame.across(x), frame.up(top) - 4, words, anchor="middle")


def _box(drawing: Drawing, x: float, y: float, width: float, height: float, fill: Fill, colour: str) -> None:
    """Draws a box with one of the fills, in pixels from the top left."""
    match fill:
        case "hatch":
            drawing.rect(x, y, width, height, drawing.hatch(colour))
            drawing.rect(x + 0.5, y + 0.5, width - 1, height - 1, stroke=colour)
        case "outline":
            drawing.rect(x + 0.5, y + 0.5, width - 1, height - 1, stroke=colour)
        case "dashed":
            drawing.curve([(x, y + height), (x, y), (x + width, y), (x + width, y + height)], colour, 1.3, "4 3")
        case "top":
            drawing.line((x, y), (x + width, y), colour)
        case _:
            drawing.rect(x, y, width, height, colour, opacity=0.4 if fill == "light" else 1.0)


def _labels(drawing: Drawing, frame: Frame, spec: ChartSpec) -> None:
    """Draws the dividers with their labels above the plot, and in the same line the heights of bars that are cut off.

    A height is written to the right of its mark or, at the end of the plot, to its left; without space only the mark is drawn.
    """
    cut = [
        (frame.across(x), f"{height:.0f}")
        for panel in spec.panels
        for mark in panel.marks
        if isinstance(mark, Bars)
        for x, height in mark.cut_off()
    ]
    wide = [(middle, 5 + 5.5 * len(words)) for middle, words in cut]
    spans = [(middle - 4, middle + width) if middle + width <= RIGHT else (middle - width, middle + 4) for middle, width in wide]
    taken = _dividers(drawing, frame, spec.dividers, spans)
    for (middle, words), span in zip(cut, spans, strict=True):
        if _meets(span, taken):
            drawing.text(middle, TOP + 7, "▲", drawing.palette.text, 7, anchor="middle")
        elif span[1] > middle + 4:
            drawing.text(span[0], TOP - 2, f"▲{words}", drawing.palette.text, 9)
        else:
            drawing.text(span[1], TOP - 2, f"{words}▲", drawing.palette.text, 9, anchor="end")
        taken.append(span)


def _dividers(drawing: Drawing, frame: Frame, dividers: Sequence[tuple[float, str]], marks: Sequence[Span]) -> list[Span]:
    """Draws a dashed line through all panels at each divider, with its label above, on the side that has more space.

    Returns the spans taken by the labels; marks that overlap them are drawn without text.

    Args:
        marks: spans of the other marks above the plot.
    """
    positions = [frame.across(position) for position, _ in dividers]
    taken: list[Span] = []
    for x, (_, words) in zip(positions, dividers, strict=True):
        width = 5.6 * len(words) + 8
        drawing.line((x, TOP - 9), (x, BOTTOM), drawing.palette.dim, 1, "4 3")
        sides = [(left, left + width) for left in (x, x - width) if left >= LEFT and left + width <= RIGHT]
        sides = [side for side in sides if not _meets(side, taken)]
        if sides:
            others = [(position, position) for position in positions if position != x]
            best = min(sides, key=lambda side: (_meets(side, others), _meets(side, marks)))
            drawing.text(best[0] + 4, TOP - 2, words, size=10)
            taken.append(best)
    return taken


def _meets(one: Span, others: Sequence[Span]) -> bool:
    """Returns whether `one` overlaps any of the others."""
    return any(one[0] < right and left < one[1] for left, right in others)


def _legend(drawing: Drawing, notes: Sequence[Note]) -> None:
    """Draws the longest legend that fits above the plot."""
    note = next((note for note in notes if sum(map(_advance, note)) - GAP <= RIGHT - LEFT + 4), notes[-1] if notes else ())
    x = LEFT
    for part in note:
        if isinstance(part, str):
            drawing.text(x, 18, part)
        else:
            colour = getattr(drawing.palette, part.role)
            match part.sign:
                case "line" | "dash" | "dot" | "dashdot" as dash:
                    drawing.line((x, 14), (x + 18, 14), colour, 2, DASHES[dash])
                case fill:
                    _box(drawing, x, 9, 12, 9, fill, colour)
            drawing.text(x + _sign_width(part), 18, part.name)
        x += _advance(part)


def _sign_width(key: Key) -> float:
    return 23 if key.sign in DASHES else 17


def _advance(part: Key | str) -> float:
    """Returns the width of a part of a legend and of the gap behind it."""
    return (_sign_width(part) + 5.9 * len(part.name) if isinstance(part, Key) else 5.9 * len(part)) + GAP


def picture(kind: ChartKind, trace: Trace, tally: Tally, palette: Palette) -> Drawing:
    """Returns a chart of an answer; `tally` must be that of its rounds."""
    rounds = tally.rounds
    material = Material(
        tally,
        RoundSpan(0, rounds, bin_size(rounds, MAX_COLUMNS), max(1, rounds)),
        [(divider.first, divider.title) for divider in dividers_of(trace)],
        None if trace.plain is None else trace.plain.throughput,
        never="No round was finished.",
        for_export=True,
    )
    return draw(kind.name, spec_of(kind, material), palette, kind.heights, kind.across)


def make(traces: Sequence[Trace], wanted: ExportOptions) -> dict[str, str]:
    """As in `engine.exports.formats.Make`."""
    return {"chart": chart_svg(traces, wanted.chart, wanted.theme)}


def chart_svg(traces: Sequence[Trace], chart: ChartName, theme: str = "light") -> str:
    """Returns a chart of the last answer as an SVG document, with title, axes and provenance.

    Raises:
        DraftlightError: the chart is unknown, or there is no answer.
    """
    kind = CHARTS.get(chart)
    if kind is None:
        raise DraftlightError(f"There is no chart {chart!r}. Choose one of {', '.join(CHARTS)}.")
    if not traces:
        raise DraftlightError("There is no answer to draw.")
    palette, trace = DARK if theme == "dark" else LIGHT, traces[-1]
    drawing = picture(kind, trace, Tally.of(trace.rounds), palette)
    return drawing.document(kind.title, kind.up, captions.lines(captions.provenance(trace), drawing.width, CAPTION))
