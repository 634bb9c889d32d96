"""What the charts have in common: the field with its axes, bars that tell their state without colour, and legends."""

from __future__ import annotations

from collections.abc import Sequence

from engine.exports.drawing import Drawing, Frame, Palette, number, ticks
from engine.lens.dividers import Divider

WIDTH, HEIGHT = 480.0, 218.0
LEFT, RIGHT, TOP, BOTTOM = 40.0, 472.0, 36.0, 184.0
Span = tuple[float, float]
"""From where to where across."""


def begin(
    name: str, palette: Palette, words: str, x: tuple[float, float], y: tuple[float, float], below: str, bottom: float = BOTTOM
) -> tuple[Drawing, Frame]:
    """A drawing with axes; `below` names the horizontal one. The field ends at `bottom`, to leave room for a `strip`."""
    drawing = Drawing(name, WIDTH, HEIGHT, palette, words)
    frame = Frame(LEFT, TOP, RIGHT, bottom, x, y)
    _grid(drawing, frame, ticks(*y, 4))
    for value in ticks(*x, 6):
        if value == round(value):
            drawing.text(frame.across(value), BOTTOM + 15, number(value), anchor="middle")
    drawing.text(RIGHT, BOTTOM + 30, below, anchor="end")
    return drawing, frame


def strip(drawing: Drawing, frame: Frame, high: float) -> Frame:
    """A second field below the first one of a drawing, with the same places across and an axis of its own, from 0 up."""
    result = Frame(LEFT, frame.bottom + 18, RIGHT, BOTTOM, frame.x, (0, high))
    _grid(drawing, result, ticks(0, high, 2))
    return result


def _grid(drawing: Drawing, frame: Frame, values: Sequence[float]) -> None:
    for value in values:
        height = frame.up(value)
        drawing.line((LEFT, height), (RIGHT, height), drawing.palette.line)
        drawing.text(LEFT - 6, height + 4, number(value), anchor="end")


def dividers(drawing: Drawing, frame: Frame, found: Sequence[Divider], marks: Sequence[Span] = ()) -> list[Span]:
    """A dashed line through all fields before the first round of each, with its words above, on the side that has more room.

    `marks`: what else stands above the field. Returns what the words take there; a mark that they meet gives way.
    """
    places = [frame.across(divider.first + 0.5) for divider in found]
    taken: list[Span] = []
    for x, divider in zip(places, found, strict=True):
        width = 5.6 * len(divider.title) + 8
        drawing.line((x, TOP - 9), (x, BOTTOM), drawing.palette.dim, 1, "4 3")
        sides = [(left, left + width) for left in (x, x - width) if left >= LEFT and left + width <= RIGHT]
        sides = [side for side in sides if not meets(side, taken)]
        if sides:
            others = [(place, place) for place in places if place != x]
            best = min(sides, key=lambda side: (meets(side, others), meets(side, marks)))
            drawing.text(best[0] + 4, TOP - 2, divider.title, size=10)
            taken.append(best)
    return taken


def meets(one: Span, others: Sequence[Span]) -> bool:
    """Whether it has any room in common with one of the others."""
    return any(one[0] < right and left < one[1] for left, right in others)


def empty(name: str, palette: Palette, words: str) -> Drawing:
    """A frame of the usual size with `words` in its middle, for a chart that has nothing to draw."""
    drawing = Drawing(name, WIDTH, HEIGHT, palette, words)
    drawing.rect(LEFT, TOP, RIGHT - LEFT, BOTTOM - TOP, stroke=palette.line, radius=6)
    drawing.text((LEFT + RIGHT) / 2, (TOP + BOTTOM) / 2 + 4, words, anchor="middle")
    return drawing


def legend(drawing: Drawing, entries: Sequence[tuple[str, str, str]]) -> None:
    """(kind, colour, words) from the left: kind is fill, light, hatch, outline, or the dashes of a line."""
    x = LEFT
    for kind, colour, words in entries:
        if kind in ("fill", "light", "hatch", "outline"):
            bar(drawing, x, 9, 12, 9, kind, colour)
            x += 17
        else:
            drawing.line((x, 14), (x + 18, 14), colour, 2, "" if kind == "solid" else kind)
            x += 23
        drawing.text(x, 18, words)
        x += 5.9 * len(words) + 11


def bar(drawing: Drawing, x: float, y: float, width: float, height: float, kind: str, colour: str, title: str = "") -> None:
    """A filled, light, hatched or outlined box, in pixels from the top left; what `kind` says shows without colour, too.

    `title` is what a pointer held over it is told.
    """
    match kind:
        case "hatch":
            drawing.rect(x, y, width, height, drawing.hatch(colour), title=title)
            drawing.rect(x + 0.5, y + 0.5, width - 1, height - 1, stroke=colour)
        case "outline":
            drawing.rect(x + 0.5, y + 0.5, width - 1, height - 1, stroke=colour, title=title)
        case _:
            drawing.rect(x, y, width, height, colour, opacity=0.4 if kind == "light" else 1.0, title=title)
