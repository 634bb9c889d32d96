"""A small SVG writer for shapes and text. It needs no display and escapes all text."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from html import escape

FONT = "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif"
MONO = "ui-monospace, 'SF Mono', Menlo, 'DejaVu Sans Mono', monospace"
CAPTION = 10.5
"""Font size of the lines below a picture."""
Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Palette:
    """Colours of a picture: the window's own or, in an HTML page that follows the reader's dark or light theme, CSS variables.

    Three sets of colours have one meaning each and no other use: the state of a token (`accepted` to `bonus`), the phases of a
    round's time (`time_`) and the rules (`rule_`). `tests/app/look/test_colours.py` measures how different they look, also to
    colour-blind readers.

    Attributes:
        accent: things that can be selected or are selected, and measured curves outside the three sets.
        accepted_tint: the background of accepted tokens, already mixed with `background`.
        ghost: rejected tokens within a text: fainter than `rejected`, so that the answer stands out.
        time_draft, time_verify: also for drafter and target in a comparison of the two.
    """

    background: str
    panel: str
    line: str
    text: str
    dim: str
    accent: str
    accepted: str
    accepted_tint: str
    rejected: str
    ghost: str
    unjudged: str
    correction: str
    bonus: str
    time_draft: str
    time_verify: str
    time_judge: str
    time_other: str
    time_unsplit: str
    rule_match: str
    rule_rejection: str
    rule_gumbel: str
    rule_block: str

    def time(self, phase: str) -> str:
        """Returns the colour of a phase of a round: "draft", "verify", "judge", "other" or "unsplit"."""
        return str(getattr(self, f"time_{phase}"))

    def rule(self, rule: str) -> str:
        """Returns the colour of a rule by its name."""
        return str(getattr(self, f"rule_{rule}"))


DARK = Palette(
    background="#14161b",
    panel="#1a1d24",
    line="#2e3440",
    text="#e7e9ee",
    dim="#a3abba",
    accent="#56b4e9",
    accepted="#71c7a0",
    accepted_tint="#233430",
    rejected="#dc6426",
    ghost="#b17b64",
    unjudged="#8a949f",
    correction="#e99f04",
    bonus="#9ce88a",
    time_draft="#bde2ff",
    time_verify="#5c679f",
    time_judge="#66b9be",
    time_other="#8d91ff",
    time_unsplit="#818283",
    rule_match="#d4bfe4",
    rule_rejection="#cc385b",
    rule_gumbel="#7a53dc",
    rule_block="#a481c2",
)
LIGHT = Palette(
    background="#f6f6f4",
    panel="#ffffff",
    line="#dcdfe5",
    text="#1c2027",
    dim="#535c6b",
    accent="#0072b2",
    accepted="#006845",
    accepted_tint="#d9ece4",
    rejected="#a32e05",
    ghost="#946350",
    unjudged="#6a7180",
    correction="#9d7106",
    bonus="#7d9267",
    time_draft="#518fe0",
    time_verify="#1d2d53",
    time_judge="#08628d",
    time_other="#4842ea",
    time_unsplit="#7a8279",
    rule_match="#53116c",
    rule_rejection="#5d0021",
    rule_gumbel="#6840ce",
    rule_block="#6f5076",
)
VARIABLES = Palette(**{field.name: f"var(--{field.name.replace('_', '-')})" for field in fields(Palette)})


class Drawing:
    """A picture under construction, in logical pixels from the top left.

    Attributes:
        name: makes the ids of its patterns unique among the pictures of a page.
    """

    def __init__(self, name: str, width: float, height: float, palette: Palette, words: str) -> None:
        """Creates an empty picture; `words` describe it to screen readers."""
        self.name, self.width, self.height, self.palette, self.words = name, width, height, palette, words
        self._parts: list[str] = []
        self._hatches: dict[str, str] = {}

    def rect(
        self,
        x: float,
        y: float,
        width: float,
        height: float,
        fill: str = "none",
        stroke: str = "none",
        opacity: float = 1.0,
        radius: float = 0.0,
        title: str = "",
    ) -> None:
        """Draws a box, given its top left corner and its size; a negative size counts as 0.

        `radius` rounds the corners; `title` is its tooltip.
        """
        inside = f"<title>{_written(title)}</title>" if title else ""
        self._parts.append(
            f'<rect x="{_n(x)}" y="{_n(y)}" width="{_n(max(0.0, width))}" height="{_n(max(0.0, height))}" fill="{fill}"'
            f"{_attributes(stroke=stroke, opacity=opacity, rx=radius)}" + (f">{inside}</rect>" if inside else "/>")
        )

    def line(self, start: Point, end: Point, stroke: str, width: float = 1.0, dash: str = "") -> None:
        """Draws a straight line; `dash` is SVG's stroke-dasharray, "" for a solid line."""
        self._parts.append(
            f'<line x1="{_n(start[0])}" y1="{_n(start[1])}" x2="{_n(end[0])}" y2="{_n(end[1])}" stroke="{stroke}" '
            f'stroke-width="{_n(width)}"{_attributes(dash=dash)}/>'
        )

    def curve(self, points: Iterable[Point], stroke: str, width: float = 1.5, dash: str = "") -> None:
        """Draws a line through the points, with gaps at points that are not finite. An isolated point becomes a dot."""
        for part in _unbroken(points):
            if len(part) == 1:
                self._parts.append(f'<circle cx="{_n(part[0][0])}" cy="{_n(part[0][1])}" r="{_n(width)}" fill="{stroke}"/>')
                continue
            self._parts.append(
                f'<polyline points="{_points(part)}" fill="none" stroke="{stroke}" stroke-width="{_n(width)}" '
                f'stroke-linejoin="round"{_attributes(dash=dash)}/>'
            )

    def band(self, above: Sequence[Point], below: Sequence[Point], fill: str, opacity: float) -> None:
        """Fills the area between two lines with the same x values; leaves out points where either is not finite."""
        pairs = [(high, low) for high, low in zip(above, below, strict=True) if math.isfinite(high[1] + low[1])]
        if len(pairs) > 1:
            around = [high for high, _ in pairs] + [low for _, low in reversed(pairs)]
            self._parts.append(f'<polygon points="{_points(around)}" fill="{fill}"{_attributes(opacity=opacity)}/>')

    def text(
        self,
        x: float,
        y: float,
        words: str,
        fill: str = "",
        size: float = 11,
        anchor: str = "start",
        bold: bool = False,
        mono: bool = False,
        length: float = 0.0,
    ) -> None:
        """Draws words on a baseline; `anchor` is start, middle or end. A `length` other than 0 fixes their width in any font."""
        family = f' font-family="{MONO}"' if mono else ""
        weight = ' font-weight="600"' if bold else ""
        fixed = f' textLength="{_n(length)}" lengthAdjust="spacingAndGlyphs"' if length else ""
        self._parts.append(
            f'<text x="{_n(x)}" y="{_n(y)}" fill="{fill or self.palette.dim}" font-size="{_n(size)}" '
            f'text-anchor="{anchor}"{weight}{family}{fixed}>{_written(words)}</text>'
        )

    def begin_group(self, title: str) -> None:
        """Opens a group with a tooltip; `end_group` closes it."""
        self._parts.append(f"<g><title>{_written(title)}</title>")

    def end_group(self) -> None:
        """Closes the group that `begin_group` opened."""
        self._parts.append("</g>")

    def place(self, other: Drawing, x: float, y: float) -> None:
        """Draws another drawing, which must have another name, with its top left corner at (x, y)."""
        self._parts.append(f'<g transform="translate({_n(x)} {_n(y)})">{other._definitions()}{"".join(other._parts)}</g>')

    def hatch(self, colour: str) -> str:
        """Returns a fill of slanted lines."""
        self._hatches.setdefault(colour, f"{self.name}-hatch{len(self._hatches)}")
        return f"url(#{self._hatches[colour]})"

    def inline(self, prefix: str = "") -> str:
        """Returns the picture for an HTML page, as wide as its container. `prefix` makes the ids of its patterns unique."""
        content = f"{self._definitions()}{''.join(self._parts)}".replace(f"{self.name}-hatch", f"{prefix}{self.name}-hatch")
        label = _written(self.words)
        return f'<svg viewBox="0 0 {_n(self.width)} {_n(self.height)}" role="img" aria-label="{label}">{content}</svg>'

    def document(self, title: str = "", up: str = "", below: Sequence[str] = (), bare: bool = False) -> str:
        """Returns the picture as an SVG file with a background.

        Args:
            title: heading above the picture.
            up: label of the vertical axis.
            below: lines below the picture.
            bare: leave out all margins.
        """
        head, left = (34.0 if title else 0.0 if bare else 8.0), (26.0 if up else 0.0 if bare else 8.0)
        right = 0.0 if bare else 8.0
        foot = right + 15.0 * len(below) + (6.0 if below else 0.0)
        width, height = self.width + left + right, self.height + head + foot
        palette, middle = self.palette, head + self.height / 2
        words = (
            [f'<text x="16" y="24" fill="{palette.text}" font-size="14" font-weight="600">{_written(title)}</text>']
            if title
            else []
        )
        if up:
            words.append(
                f'<text x="20" y="{_n(middle)}" transform="rotate(-90 20 {_n(middle)})" fill="{palette.dim}" font-size="11" '
                f'text-anchor="middle">{_written(up)}</text>'
            )
        words += [
            f'<text x="16" y="{_n(head + self.height + 16 + 15 * line)}" fill="{palette.dim}" font-size="{CAPTION}">'
            f"{_written(text)}</text>"
            for line, text in enumerate(below)
        ]
        return (
            '<?xml version="1.0" encoding="UTF-8"?>\n'
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{_n(width)}" height="{_n(height)}" '
            f'viewBox="0 0 {_n(width)} {_n(height)}" role="img" font-family="{FONT}">'
            f"<title>{_written(title or self.words)}</title><desc>{_written(self.words)}</desc>{self._definitions()}"
            f'<rect width="{_n(width)}" height="{_n(height)}" fill="{palette.panel}"/>{"".join(words)}'
            f'<g transform="translate({_n(left)} {_n(head)})">{"".join(self._parts)}</g></svg>\n'
        )

    def _definitions(self) -> str:
        if not self._hatches:
            return ""
        patterns = "".join(
            f'<pattern id="{name}" width="4" height="4" patternUnits="userSpaceOnUse">'
            f'<path d="M-1 1 L1 -1 M0 4 L4 0 M3 5 L5 3" stroke="{colour}" stroke-width="1.3"/></pattern>'
            for colour, name in self._hatches.items()
        )
        return f"<defs>{patterns}</defs>"


@dataclass(frozen=True, slots=True)
class Frame:
    """The plot area of a chart: maps values to pixels of the drawing.

    Attributes:
        left, top, right, bottom: its edges in the drawing. x, y: the values at its edges.
    """

    left: float
    top: float
    right: float
    bottom: float
    x: tuple[float, float]
    y: tuple[float, float]

    def at(self, x: float, y: float) -> Point:
        """Returns the pixel at which a point is drawn."""
        return self.across(x), self.up(y)

    def across(self, x: float) -> float:
        """Returns the value `x` as pixels from the left edge of the drawing; values beyond the edges are not clamped."""
        low, high = self.x
        return self.left + (x - low) / ((high - low) or 1.0) * (self.right - self.left)

    def up(self, y: float) -> float:
        """Returns the value `y` as pixels from the top of the drawing, clamped to the edges; NaN if it is not finite."""
        low, high = self.y
        if not math.isfinite(y):
            return math.nan
        return self.bottom - (min(max(y, low), high) - low) / ((high - low) or 1.0) * (self.bottom - self.top)


def ticks(low: float, high: float, max_ticks: int = 5) -> list[float]:
    """Returns round numbers from `low` to `high`, about `max_ticks` of them at most."""
    span = high - low
    if not span > 0:
        return [low]
    rough = span / max_ticks
    unit = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * unit for factor in (1, 2, 5, 10) if factor * unit >= rough)
    first = math.ceil(low / step - 1e-9)
    return [index * step for index in range(first, math.floor(high / step + 1e-9) + 1)]


def number(value: float) -> str:
    """Returns a short number for an axis."""
    return f"{value:,.0f}" if abs(value) >= 10 or value == round(value) else f"{value:.2g}"


_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def _written(words: str) -> str:
    """Escapes words for XML and leaves out characters that XML cannot contain, such as control characters."""
    return escape(_NOT_IN_XML.sub("", words))


def _unbroken(points: Iterable[Point]) -> list[list[Point]]:
    parts: list[list[Point]] = [[]]
    for point in points:
        if math.isfinite(point[0]) and math.isfinite(point[1]):
            parts[-1].append(point)
        elif parts[-1]:
            parts.append([])
    return [part for part in parts if part]


def _points(points: Iterable[Point]) -> str:
    return " ".join(f"{_n(x)},{_n(y)}" for x, y in points)


def _attributes(stroke: str = "none", opacity: float = 1.0, rx: float = 0.0, dash: str = "") -> str:
    return (
        (f' stroke="{stroke}"' if stroke != "none" else "")
        + (f' opacity="{_n(opacity)}"' if opacity != 1.0 else "")
        + (f' rx="{_n(rx)}"' if rx else "")
        + (f' stroke-dasharray="{dash}"' if dash else "")
    )


def _n(value: float) -> str:
    """Formats a number with at most two decimals, without trailing zeros."""
    return f"{value:.2f}".rstrip("0").rstrip(".")
