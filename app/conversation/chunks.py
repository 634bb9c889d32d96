"""Chunks: a few lines of text that are laid out once, with the boxes of their tokens; and code blocks that scroll sideways."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import NamedTuple

from PySide6.QtCore import QPointF, QRectF
from PySide6.QtGui import QTextLayout, QTextLine

from app.conversation.line_formats import PLAIN_LINE, LineFormat, Span, units
from engine.lens.pieces import GHOSTS, NOWHERE, Kind, Spot

NEWLINE = 6.0
"""Width of the mark of a newline token in pixels. It follows the last letter; on a full line it extends beyond the flow."""
_RIGHT_TO_LEFT = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\U00010800-\U00010fff\U0001e800-\U0001efff]")
"""Hebrew, Arabic and other scripts that are written from right to left."""
HANGING = 3.0
"""Width in pixels of a token whose blanks extend beyond a full line; all such tokens of a line take at most twice that."""


@dataclass(frozen=True, slots=True)
class PieceRun:
    """The part of a piece that lies in a chunk: start and length in the chunk's text, in UTF-16 units.

    Attributes:
        blanks: number of leading blanks, which only a tint covers; 0 if the piece has nothing but blanks.
        continues_after, continues_before: whether letters of the piece are in the next chunk and in the previous one.
    """

    start: int
    length: int
    kind: Kind
    spot: Spot = NOWHERE
    blanks: int = 0
    continues_after: bool = False
    continues_before: bool = False

    @property
    def end(self) -> int:
        """Offset of the end of the run in the chunk's text, in UTF-16 units."""
        return self.start + self.length


class Box(NamedTuple):
    """The area of one run on one line, relative to the chunk.

    Attributes:
        open_left, open_right: its letters continue on another line at that end.
        is_blank: it has no letters, but the run has some on another line.
    """

    rect: QRectF
    baseline: float
    kind: Kind
    spot: Spot = NOWHERE
    open_left: bool = False
    open_right: bool = False
    is_blank: bool = False

    def united(self, other: Box) -> Box:
        """Returns the union of this box and one beside it on the same line."""
        left, right = (self, other) if self.rect.left() <= other.rect.left() else (other, self)
        return self._replace(rect=left.rect.united(right.rect), open_left=left.open_left, open_right=right.open_right)


class GhostAbove(NamedTuple):
    """A rejected token above the text, relative to the chunk; its text may be elided."""

    rect: QRectF
    baseline: float
    text: str
    spot: Spot


@dataclass(frozen=True, slots=True)
class DividerLine:
    """A line across the text that marks a change of settings, with words and a colour (#rrggbb). It is not part of the text."""

    words: str
    colour: str


@dataclass(frozen=True, slots=True)
class PlacedDivider:
    """The position of a divider relative to the chunk: a line across the text at `top`, and a stroke down to `bottom` at `x`,
    left of the first token after it."""

    divider: DividerLine
    x: float
    top: float
    bottom: float


@dataclass(slots=True)
class LineBoxes:
    """A cache of the boxes of the first `lines` lines of a chunk."""

    lines: int = 0
    boxes: list[Box] = field(default_factory=list)

    def above(self, lines: int, y: float) -> LineBoxes:
        """Returns the boxes of at most `lines` lines, whose lower edge is at `y`."""
        return self if self.lines <= lines else LineBoxes(lines, [box for box in self.boxes if box.rect.top() < y])


@dataclass(slots=True)
class CodeScroll:
    """The sideways scrolling of one block of code whose lines are not wrapped. Coordinates are the flow's, in pixels.

    Attributes:
        line: number of the block's first line in the text.
        left, right: the edges of the area that shows its letters.
        button: width of the copy button at the right end of its first line.
        extent: right end of the widest line before scrolling, including a margin as on the left.
        offset: distance by which its letters are moved to the left.
        first, last: its first and its last chunk.
    """

    line: int
    left: float
    right: float
    button: float
    first: Chunk
    last: Chunk
    extent: float = 0.0
    offset: float = 0.0

    @property
    def limit(self) -> float:
        """The largest offset; 0 if every line fits."""
        spare = self.extent - self.right
        return spare if spare >= 1 else 0.0

    @property
    def top(self) -> float:
        """Upper edge of the block."""
        return self.first.top

    @property
    def bottom(self) -> float:
        """Lower edge of the block, including its scroll bar."""
        return self.last.top + self.last.height

    def move(self, offset: float) -> bool:
        """Scrolls to an offset, clamped to the valid range; returns whether the offset changed."""
        before, self.offset = self.offset, min(max(0.0, offset), self.limit)
        return self.offset != before


@dataclass(slots=True)
class Chunk:
    """A few lines, laid out once. Its layout, its dividers and the boxes of its runs have coordinates of their own: `inside` and
    `outside` convert points and rectangles between them and the flow's.

    Attributes:
        start: offset of the chunk's first character in the flow; a chunk that ends a paragraph counts its newline.
        newline: kind of the newline token at its end, whose spot is `newline_spot`; None if it ends no paragraph.
        number: number of its line in the text. into: offset of its start in that line, without ghosts.
        line_format: the format of its line.
        placed_dividers: the dividers in it.
        extent: right end of its widest line in the flow before scrolling, including a margin; 0 if lines are wrapped.
        scroll: the sideways scrolling of its code block; None outside code.
        below: part of its height that is reserved for the scroll bar of the code block that ends with it.
        boxes: the boxes of its runs for painting marks. whole_boxes: the same for hit testing.
    """

    start: int
    top: float
    text: str = ""
    runs: list[PieceRun] = field(default_factory=list)
    newline: Kind | None = None
    newline_spot: Spot = NOWHERE
    number: int = 0
    into: int = 0
    line_format: LineFormat = PLAIN_LINE
    height: float = 0.0
    hang: float = 0.0
    layout: QTextLayout | None = None
    placed_dividers: list[PlacedDivider] = field(default_factory=list)
    boxes: LineBoxes = field(default_factory=LineBoxes)
    whole_boxes: LineBoxes = field(default_factory=LineBoxes)
    extent: float = 0.0
    scroll: CodeScroll | None = None
    below: float = 0.0

    @property
    def offset(self) -> float:
        """Horizontal scroll offset of its letters, in pixels."""
        return 0.0 if self.scroll is None else self.scroll.offset

    @property
    def window(self) -> tuple[float, float] | None:
        """The x range of the flow in which its letters are visible; None if it does not scroll."""
        scroll = self.scroll
        if scroll is None or not scroll.limit:
            return None
        return scroll.left, scroll.right - (scroll.button if scroll.first is self else 1.0)

    def inside(self, point: QPointF) -> QPointF:
        """Converts a point of the flow to the chunk's coordinates. A point beside the window is moved to its edge."""
        x, window = point.x(), self.window
        return QPointF((x if window is None else min(max(x, window[0]), window[1])) + self.offset, point.y() - self.top)

    def outside(self, rect: QRectF) -> QRectF:
        """Converts a rectangle of the chunk to the flow's coordinates, whether it is visible or not."""
        return rect.translated(-self.offset, self.top)

    def leave_room(self, below: float) -> None:
        """Reserves `below` pixels below its last line for a scroll bar."""
        self.height += below - self.below
        self.below = below

    @property
    def length(self) -> int:
        """Length of the chunk in the flow's text, in UTF-16 units, including a newline at its end."""
        return units(self.text) + (self.newline is not None)

    @property
    def code(self) -> bool:
        """Whether it is part of a code block, fences included."""
        return self.line_format.kind in ("code", "fence")

    @property
    def committed(self) -> int:
        """The length of its text without ghosts."""
        return sum(run.length for run in self.runs if run.kind not in GHOSTS)

    @property
    def spans(self) -> tuple[Span, ...]:
        """The formatted spans in it, in UTF-16 units of its text without ghosts."""
        return self.line_format.within(self.into, self.into + self.committed)

    @property
    def first_spot(self) -> Spot | None:
        """The first token of the chunk; None in the empty chunk at the end."""
        return self.runs[0].spot if self.runs else None if self.newline is None else self.newline_spot


def cut(chunk: Chunk, cuts: list[int]) -> list[Chunk]:
    """Splits a chunk at these offsets; the parts have no positions and no layouts."""
    edges = [0, *cuts, units(chunk.text)]
    texts = [slice_units(chunk.text, start, end) for start, end in pairwise(edges)]
    parts = [Chunk(0, 0.0, text, number=chunk.number, line_format=chunk.line_format, hang=chunk.hang) for text in texts]
    parts[-1].newline, parts[-1].newline_spot = chunk.newline, chunk.newline_spot
    part = 0
    for run in chunk.runs:
        start, end, blanks = run.start, run.end, run.blanks
        while start < end:
            while start >= edges[part + 1]:
                part += 1
            stop, letters = min(end, edges[part + 1]), run.start + run.blanks
            continues = run.continues_after or letters < stop < end, run.continues_before or start > letters
            blanks = min(blanks, stop - start)
            parts[part].runs.append(PieceRun(start - edges[part], stop - start, run.kind, run.spot, blanks, *continues))
            start, blanks = stop, 0
    into = chunk.into
    for piece in parts:
        piece.into = into
        into += piece.committed
    return parts


def joined_chunk(chunks: list[Chunk]) -> Chunk:
    """Joins chunks that `cut` made, without position or layout."""
    first, last = chunks[0], chunks[-1]
    whole = Chunk(first.start, first.top, number=first.number, into=first.into, line_format=first.line_format, hang=first.hang)
    whole.newline, whole.newline_spot = last.newline, last.newline_spot
    for chunk in chunks:
        shift = units(whole.text)
        for run in chunk.runs:
            before = whole.runs[-1] if whole.runs else None
            if before is not None and not run.start and (before.kind, before.spot) == (run.kind, run.spot):
                whole.runs[-1] = replace(before, length=before.length + run.length, continues_after=run.continues_after)
            else:
                whole.runs.append(replace(run, start=shift + run.start))
        whole.text += chunk.text
    return whole


def prefix(chunk: Chunk) -> str:
    """Returns the marker of a list item or a quote, without ghosts."""
    parts: list[str] = []
    left = chunk.line_format.hang
    for run in chunk.runs:
        if left <= 0:
            break
        if run.kind not in GHOSTS:
            parts.append(slice_units(chunk.text, run.start, run.start + min(left, run.length)))
            left -= run.length
    return "".join(parts)


def lines_of(chunk: Chunk) -> list[QTextLine]:
    """Returns the lines of a chunk from top to bottom; empty until it is laid out."""
    layout = chunk.layout
    return [] if layout is None else [layout.lineAt(index) for index in range(layout.lineCount())]


def line_at(lines: list[QTextLine], point: QPointF, reach: float) -> QTextLine | None:
    """Returns the line at a point relative to the chunk, or in a table the nearest cell. A line extends down by `reach` times its
    height."""
    first = next((line for line in lines if point.y() < line.y() + line.height() * reach), None)
    if first is None:
        return None
    beside = [line for line in lines if abs(line.y() - first.y()) < first.height() / 2]
    return next((line for line in reversed(beside) if line.x() <= point.x()), beside[0])


def boxes_on(chunk: Chunk, with_blanks: bool = False, from_line: int = 0) -> Iterator[Box]:
    """Yields one box per run and line. Without `with_blanks`, they leave out blanks before a word and at the end of a line."""
    lines = lines_of(chunk)
    mixed = _RIGHT_TO_LEFT.search(chunk.text) is not None
    first, last = 0, 0.0
    for line in lines[from_line:]:
        start, end = line.textStart(), line.textStart() + line.textLength()
        letters = last = line.x() + line.naturalTextWidth()
        margin = max(letters, line.x() + line.width()) + 2 * HANGING
        for index in range(first, len(chunk.runs)):
            run = chunk.runs[index]
            if run.start >= end:
                break
            if run.start + run.length <= start:
                first = index
                continue
            begin, stop = max(start, run.start + (0 if with_blanks or run.kind == "accepted" else run.blanks)), min(end, run.end)
            letters_begin = run.start + run.blanks
            has_letters = max(start, letters_begin) < stop
            at_start = has_letters and (run.continues_before or letters_begin < start)
            at_end = has_letters and (run.continues_after or end < run.end)
            if has_letters and mixed:  # blanks between two writing directions are apart from the letters
                for left, right, backwards in _spans(line, max(begin, letters_begin), stop):
                    opens = (at_end, at_start) if backwards else (at_start, at_end)
                    rect = QRectF(left, line.y(), right - left, line.height())
                    yield Box(rect, line.y() + line.ascent(), run.kind, run.spot, *opens)
                continue
            is_blank = not has_letters and run.blanks > 0
            if is_blank and (mixed or not with_blanks):
                continue
            left, right = span_of(line, begin, max(begin, stop))
            if left > letters - 0.5:  # Qt gives trailing blanks only the rest of the line, which may be 0 wide
                left = max(left, last)
                last = right = min(max(right, left + HANGING), margin)
            if not with_blanks:
                left, right = min(left, letters), min(right, letters)
            if right - left > 0.5:
                rect = QRectF(left, line.y(), right - left, line.height())
                yield Box(rect, line.y() + line.ascent(), run.kind, run.spot, at_start, at_end, is_blank)
    if chunk.newline is not None and lines:
        line = lines[-1]
        height = min(line.height(), chunk.height - line.y())
        baseline = min(line.y() + line.ascent(), chunk.height - 5)
        yield Box(QRectF(last, line.y(), NEWLINE, height), baseline, chunk.newline, chunk.newline_spot)


def joined_boxes(boxes: Iterable[Box]) -> list[Box]:
    """Joins the boxes of adjacent unjudged tokens on a line, because their borders matter little and make the text restless."""
    joined: list[Box] = []
    for box in boxes:
        before = joined[-1] if joined else None
        if before is not None and before.kind == box.kind == "unjudged" and before.baseline == box.baseline:
            joined[-1] = before.united(box)
        else:
            joined.append(box)
    return joined


def span_of(line: QTextLine, start: int, end: int) -> tuple[float, float]:
    """Returns the left and the right end of a range of a line, in pixels from the left of the chunk."""
    first, last = x_of(line, start), x_of(line, end)
    return (first, last) if first <= last else (last, first)


def _spans(line: QTextLine, start: int, end: int) -> list[tuple[float, float, bool]]:
    """Returns the areas of letters on a line with right-to-left text as (left, right, backwards); several if other text is
    between."""
    spans: list[tuple[float, float, bool]] = []
    for run in line.glyphRuns(start, end - start):  # where directions meet, `cursorToX` knows only one of two positions
        advances = run.rawFont().advancesForGlyphIndexes(run.glyphIndexes())
        edges = [(at.x(), at.x() + advance.x()) for at, advance in zip(run.positions(), advances, strict=True)]
        left, right = min(edge[0] for edge in edges), max(edge[1] for edge in edges)
        if spans and left <= spans[-1][1] + 0.5 and right >= spans[-1][0] - 0.5:
            spans[-1] = (min(left, spans[-1][0]), max(right, spans[-1][1]), run.isRightToLeft())
        else:
            spans.append((left, right, run.isRightToLeft()))
    return spans


def x_of(line: QTextLine, offset: int) -> float:
    """Returns the left edge of a letter of a line, in pixels from the left of the chunk."""
    place: tuple[float, int] = line.cursorToX(offset)  # type: ignore[assignment]  # the stubs miss the second value
    return place[0]


def split_units(text: str, at: int) -> tuple[str, str]:
    """Splits a text at a UTF-16 offset."""
    if text.isascii():
        return text[:at], text[at:]
    raw = text.encode("utf-16-le", "surrogatepass")
    return raw[: 2 * at].decode("utf-16-le", "surrogatepass"), raw[2 * at :].decode("utf-16-le", "surrogatepass")


def slice_units(text: str, start: int, end: int) -> str:
    """Returns the text between two offsets in UTF-16 units, which Qt and screen readers count in."""
    return split_units(split_units(text, end)[0], start)[1]
