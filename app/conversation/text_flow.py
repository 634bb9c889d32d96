"""Line breaking for text that grows at its end: what is laid out once stays laid out.

A `Flow` holds chunks of at most `MAX_LINES` lines, each one QTextLayout. Appending touches only the last chunk; when it
grows too tall it is split at a line start, where greedy line breaking gives the same lines again. So the cost of a
round does not depend on the length of the answer.

Offsets count UTF-16 units, as Qt does.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import islice, pairwise

from PySide6.QtCore import QPointF, QRectF
from PySide6.QtGui import QColor, QFont, QFontMetricsF, QPainter, QTextCharFormat, QTextLayout, QTextLine, QTextOption

from app.conversation.line_looks import NO_LOOK, LineLooks, Look, Span
from app.conversation.line_looks import units as units
from app.conversation.markdown_source import Code, Flag, link_in, shown
from app.look.code_colours import code_inks
from app.look.theme import Theme
from engine.lens.pieces import GHOSTS, NOWHERE, Kind, Piece, Spot

MAX_LINES = 12
KEPT_LINES = 3
BATCH = 400
"""Pieces that are added before they are laid out: an open chunk must not get long, because every piece copies its text."""
NEWLINE = 6.0
"""Width of a newline's mark in pixels. It stands behind the last letter even where the line is full, outside the flow's width."""
HANGING = 3.0
"""Pixels that a token takes whose blanks hang over the end of a full line; at most twice as much is taken by all."""
HEADINGS = (1.4, 1.25, 1.12, 1.0, 1.0, 1.0)
"""The size of a heading of each level, as a factor on that of the text."""


@dataclass(frozen=True, slots=True)
class Style:
    """Fonts and colours of one flow.

    Attributes:
        line_height: a factor on the font's own.
        lit: the kind of tokens that is lit up while all others step back; None for all alike.
    """

    theme: Theme
    text: QFont
    code: QFont
    line_height: float = 1.45
    lit: Kind | None = None


@dataclass(frozen=True, slots=True)
class PieceRun:
    """One piece inside a chunk: its place in the chunk's text, in UTF-16 units.

    Attributes:
        blanks: blanks before its letters, which its mark leaves out; 0 where it is all blank.
    """

    start: int
    length: int
    kind: Kind
    spot: Spot = NOWHERE
    blanks: int = 0

    @property
    def end(self) -> int:
        """Offset just behind the run in the chunk's text, in UTF-16 units."""
        return self.start + self.length


@dataclass(frozen=True, slots=True)
class Box:
    """Where one run stands on one line, relative to the chunk."""

    rect: QRectF
    baseline: float
    kind: Kind
    spot: Spot = NOWHERE


@dataclass(frozen=True, slots=True)
class Divider:
    """Something changed at a place of the text: a line across it with words, in a colour as #rrggbb. No part of the text."""

    words: str
    colour: str


@dataclass(frozen=True, slots=True)
class Seam:
    """Where a divider stands, relative to the chunk: its line at `top` across the text, and down to `bottom` at `x`, left of the
    first token behind it."""

    divider: Divider
    x: float
    top: float
    bottom: float


@dataclass(slots=True)
class Chunk:
    """A few lines, laid out once.

    Attributes:
        start: offset of the chunk's first character in the flow; a chunk that ends a paragraph counts its newline.
        newline: how the newline token behind this chunk is marked, and `newline_spot` which token it belongs to; None where no
            paragraph ends.
        number: of its line in the text, and `into`: where in that line it begins, without ghosts.
        look: how the line is set.
        seams: the dividers in it.
    """

    start: int
    top: float
    text: str = ""
    runs: list[PieceRun] = field(default_factory=list)
    newline: Kind | None = None
    newline_spot: Spot = NOWHERE
    number: int = 0
    into: int = 0
    look: Look = NO_LOOK
    height: float = 0.0
    hang: float = 0.0
    layout: QTextLayout | None = None
    seams: list[Seam] = field(default_factory=list)
    boxes: list[Box] | None = None
    whole_boxes: list[Box] | None = None

    @property
    def length(self) -> int:
        """How much of the flow's text the chunk takes, in UTF-16 units, a newline behind it included."""
        return units(self.text) + (self.newline is not None)

    @property
    def code(self) -> bool:
        """Whether it stands in a block of code, fences included."""
        return self.look.kind in ("code", "fence")

    @property
    def committed(self) -> int:
        """The length of its text without ghosts."""
        return sum(run.length for run in self.runs if run.kind not in GHOSTS)

    @property
    def spans(self) -> tuple[Span, ...]:
        """What is set differently in it, in units of its text without ghosts."""
        return self.look.within(self.into, self.into + self.committed)

    @property
    def first_spot(self) -> Spot | None:
        """The token that the chunk begins with; None in the empty chunk at the end."""
        return self.runs[0].spot if self.runs else None if self.newline is None else self.newline_spot


class Flow:
    """Pieces laid out at one width.

    Args:
        markdown: sets the letters as Markdown says, and keeps all of them; otherwise only fenced code is told apart.

    Attributes:
        chunks: in reading order; never empty.
        width: in logical pixels.
        changed_top: where the part begins that the last `append` or `finish` has laid out.
    """

    def __init__(self, style: Style, width: float, markdown: bool = False) -> None:
        self.style = style
        self.width = max(40.0, width)
        self.chunks: list[Chunk] = [Chunk(0, 0.0)]
        self.changed_top = 0.0
        self._dividers: dict[int, Divider] = {}  # by the offset in the text before which they stand
        self._looks = LineLooks(markdown)
        self._lay_out_from(0)

    @property
    def height(self) -> float:
        """Height of all chunks together, in logical pixels."""
        last = self.chunks[-1]
        return last.top + last.height

    @property
    def length(self) -> int:
        """Length of the whole text in UTF-16 units, the unit of offsets into it."""
        last = self.chunks[-1]
        return last.start + last.length

    @property
    def natural_width(self) -> float:
        """The width the widest line really takes."""
        widths = [line.naturalTextWidth() for chunk in self.chunks for line in lines_of(chunk)]
        return max(widths, default=0.0)

    def append(self, pieces: Iterable[Piece]) -> None:
        """Adds pieces at the end and lays out what they touched."""
        left = iter(pieces)
        self.changed_top = self.chunks[-1].top
        while batch := list(islice(left, BATCH)):
            first = len(self.chunks) - 1
            for piece in batch:
                if piece.ghost:
                    self._add(piece.text, piece)
                    continue
                head, *rest = piece.text.replace("\r\n", "\n").split("\n")
                self._add(head, piece)
                for part in rest:
                    self._end_paragraph(piece)
                    self._add(part, piece)
            self.chunks[first].layout = None
            self._lay_out_from(min(first, self._take_looks()))

    def divide(self, words: str, colour: str) -> None:
        """Puts a divider before whatever is added next."""
        self._dividers[self.length] = Divider(words, colour)

    def finish(self) -> None:
        """Nothing more comes: what was still open is set like the rest."""
        self.changed_top = self.height
        self._looks.finish()
        if (first := self._take_looks()) < len(self.chunks):
            self._lay_out_from(first)

    @property
    def codes(self) -> list[tuple[float, float, Code]]:
        """The blocks of code that are closed, each with its top and its bottom."""
        found = []
        for code in self._looks.codes:
            first = self.chunks[self._first_of_line(code.first)]
            behind = self._first_of_line(code.last)
            bottom = self.chunks[behind].top if behind < len(self.chunks) else self.height
            found.append((first.top, bottom, code))
        return found

    def _add(self, text: str, piece: Piece) -> None:
        if not text:
            return
        text = shown(text)
        chunk = self.chunks[-1]
        blanks = len(text) - len(text.lstrip(" ")) if piece.kind != "accepted" and text.strip() else 0
        chunk.runs.append(PieceRun(units(chunk.text), units(text), piece.kind, piece.spot, blanks))
        chunk.text += text
        if not piece.ghost:
            self._looks.add(text)

    def _end_paragraph(self, piece: Piece) -> None:
        chunk = self.chunks[-1]
        chunk.newline, chunk.newline_spot = piece.kind, piece.spot
        self._looks.end_line()
        self.chunks.append(Chunk(0, 0.0, number=chunk.number + 1))

    def _take_looks(self) -> int:
        """Gives lines the looks that they have now; returns the first chunk that is to be laid out, or how many there are."""
        first = len(self.chunks)
        for number, look in sorted(self._looks.changes().items(), reverse=True):
            first = min(first, self._restyle(number, look))
        return first

    def _first_of_line(self, number: int) -> int:
        return bisect_left(self.chunks, number, key=lambda chunk: chunk.number)

    def _restyle(self, number: int, look: Look) -> int:
        """A line's chunks from the first that looks different on become one again, because they are broken differently."""
        start = self._first_of_line(number)
        end = self._first_of_line(number + 1)
        chunks = self.chunks[start:end]
        changed = len(chunks)
        for index, chunk in enumerate(chunks):
            before, chunk.look = (chunk.look, chunk.spans), look
            same = (before[0].kind, before[0].level, before[0].hang) == (look.kind, look.level, look.hang)
            if changed == len(chunks) and not (same and before[1] == chunk.spans):
                changed = index
        if changed == len(chunks):
            return len(self.chunks)
        first = max(0, changed - 1)  # whose last line may have room for a narrower word
        self.chunks[start + first : end] = [_joined_chunk(chunks[first:])]
        return start + first

    def _lay_out_from(self, first: int) -> None:
        """Lays out what has no layout yet, and places the rest below it."""
        index = first
        changed = False
        while index < len(self.chunks):
            chunk = self.chunks[index]
            if index:
                before = self.chunks[index - 1]
                chunk.start, chunk.top = before.start + before.length, before.top + before.height
            if chunk.layout is None:
                if not changed:
                    changed, self.changed_top = True, min(self.changed_top, chunk.top)
                self._lay_out(chunk)
                lines = lines_of(chunk)
                if len(lines) > MAX_LINES:
                    firsts = range(MAX_LINES - KEPT_LINES, len(lines) - KEPT_LINES + 1, MAX_LINES - KEPT_LINES)
                    self.chunks[index : index + 1] = _cut(chunk, [lines[line].textStart() for line in firsts])
                    self.chunks[index].start, self.chunks[index].top = chunk.start, chunk.top
                    self._lay_out(self.chunks[index])
            index += 1

    def _lay_out(self, chunk: Chunk) -> None:
        font = self._font(chunk.look)
        metrics = QFontMetricsF(font)
        inset = 12.0 if chunk.code else 0.0
        pitch = metrics.height() * (1.3 if inset else self.style.line_height)
        layout = QTextLayout(chunk.text, font)
        option = QTextOption()
        option.setWrapMode(QTextOption.WrapMode.WrapAtWordBoundaryOrAnywhere)
        layout.setTextOption(option)
        layout.setFormats(self._formats(chunk, font))
        layout.setCacheEnabled(True)
        hang = metrics.horizontalAdvance(_prefix(chunk)) if chunk.look.hang and not chunk.into else chunk.hang
        chunk.hang = min(hang, self.width / 3)
        layout.beginLayout()
        y = 0.0
        dividers, placed = self._dividers_in(chunk), list[tuple[int, Divider, float, QTextLine]]()
        while (line := layout.createLine()).isValid():
            left = inset + (chunk.hang if line.textStart() or chunk.into else 0.0)
            line.setLineWidth(self.width - inset - left)
            end = line.textStart() + line.textLength()
            while dividers and (dividers[0][0] < end or end == units(chunk.text)):
                offset, divider = dividers.pop(0)
                placed.append((offset, divider, y, line))
                y += self.divider_room
            line.setPosition(QPointF(left, y + max(0.0, (pitch - line.height()) / 2)))
            y += max(pitch, line.height())
        layout.endLayout()
        chunk.seams = [
            Seam(divider, _x(line, offset), top, line.y() + max(line.height(), pitch) - 3)
            for offset, divider, top, line in placed
        ]
        blank = not chunk.text and chunk.newline is not None
        chunk.height = round(pitch * 0.55) if blank and not chunk.code else max(y, pitch)
        chunk.layout, chunk.boxes, chunk.whole_boxes = layout, None, None

    @property
    def divider_font(self) -> QFont:
        """The font of a divider's words."""
        font = QFont(self.style.text)
        font.setPixelSize(max(9, round(font.pixelSize() * 0.8)))
        return font

    @property
    def divider_room(self) -> float:
        """Pixels that a divider's line takes above that of its place."""
        return round(QFontMetricsF(self.divider_font).height() + 5)

    def _dividers_in(self, chunk: Chunk) -> list[tuple[int, Divider]]:
        """The dividers before letters of a chunk, with their offsets in it; before the blanks of a word, at the word."""
        if not self._dividers:
            return []
        found = []
        for at, divider in self._dividers.items():
            if chunk.start <= at < chunk.start + max(chunk.length, 1):
                before, rest = split_units(chunk.text, at - chunk.start)
                blanks = len(rest) - len(rest.lstrip(" "))
                found.append((units(before) + (blanks if blanks < len(rest) else 0), divider))
        return found

    def _font(self, look: Look) -> QFont:
        if look.kind in ("code", "fence", "table"):
            return self.style.code
        if look.kind != "heading":
            return self.style.text
        font = QFont(self.style.text)
        font.setPixelSize(round(font.pixelSize() * HEADINGS[look.level - 1]))
        font.setWeight(QFont.Weight.DemiBold)
        return font

    def _formats(self, chunk: Chunk, font: QFont) -> list[QTextLayout.FormatRange]:
        theme = self.style.theme
        formats = []
        if chunk.look.kind == "fence":
            formats.append(format_range(0, units(chunk.text), _look(theme.faint, font)))
        looks = {kind: self._ghost_look(kind, font) for kind in GHOSTS}
        back = _look(theme.muted, font)
        spans, at = iter(chunk.spans), 0
        span = next(spans, None)
        for run in chunk.runs:
            if (look := looks.get(run.kind)) is not None:
                formats.append(format_range(run.start, run.length, look))
                continue
            while span is not None and span.start < at + run.length:
                start, end = max(span.start, at), min(span.end, at + run.length)
                if start < end:
                    formats.append(format_range(run.start + start - at, end - start, letters(span, font, self.style)))
                if span.end > at + run.length:
                    break
                span = next(spans, None)
            at += run.length
            if self.style.lit not in (None, run.kind):
                formats.append(format_range(run.start, run.length, back))
        return formats

    def _ghost_look(self, kind: Kind, font: QFont) -> QTextCharFormat:
        """How rejected or unjudged tokens are written: dimmer and smaller than the answer, unless they are lit up."""
        theme, lit = self.style.theme, self.style.lit
        back = lit is not None and kind != lit
        if kind == "rejected":
            colour = theme.muted if back else theme.ghost if lit is None else theme.rejected
            return _look(colour, font, struck=True, factor=0.88)
        return _look(theme.muted if back else theme.faint if lit is None else theme.text, font, factor=0.8)

    def boxes(self, chunk: Chunk) -> list[Box]:
        """Where every run of a chunk stands, computed when first painted."""
        if chunk.boxes is None:
            chunk.boxes = _joined(_boxes_on(chunk))
        return chunk.boxes

    def whole_boxes(self, chunk: Chunk) -> list[Box]:
        """The same for finding tokens: blanks are theirs too, and none is joined to another."""
        if chunk.whole_boxes is None:
            chunk.whole_boxes = list(_boxes_on(chunk, with_blanks=True))
        return chunk.whole_boxes

    def chunk_at(self, y: float) -> int:
        """Index of the chunk at a height, the nearest one outside."""
        return max(0, bisect_right(self.chunks, y, key=lambda chunk: chunk.top) - 1)

    def offset_at(self, point: QPointF, on_letter: bool = False) -> int:
        """The border between letters that is nearest to a point, as an offset; or the letter that is under it."""
        chunk = self.chunks[self.chunk_at(point.y())]
        lines = lines_of(chunk)
        if not lines:
            return chunk.start
        line = line_at(lines, QPointF(point.x(), point.y() - chunk.top), 1.25) or lines[-1]
        on = QTextLine.CursorPosition.CursorOnCharacter if on_letter else QTextLine.CursorPosition.CursorBetweenCharacters
        return chunk.start + line.xToCursor(point.x(), on)

    def link_at(self, offset: int) -> str:
        """Where the link leads that stands at an offset; empty where there is none. It is read when asked for."""
        index = max(0, bisect_right(self.chunks, offset, key=lambda chunk: chunk.start) - 1)
        number, at = self.chunks[index].number, 0
        line = []
        for place in range(self._first_of_line(number), self._first_of_line(number + 1)):
            chunk = self.chunks[place]
            for run in chunk.runs:
                if run.kind not in GHOSTS:
                    text = slice_units(chunk.text, run.start, run.end)
                    line.append(text)
                    before = min(max(0, offset - chunk.start - run.start), run.length)
                    at += len(split_units(text, before)[0])
        return link_in("".join(line), at)

    def paint_under(self, painter: QPainter, chunk: Chunk) -> None:
        """What lies behind a chunk's letters and marks."""
        if chunk.code:
            painter.fillRect(QRectF(0, chunk.top, self.width, chunk.height), QColor(self.style.theme.code))
            painter.fillRect(QRectF(0, chunk.top, 2, chunk.height), QColor(self.style.theme.line))

    def word_at(self, offset: int) -> tuple[int, int]:
        """Start and end of the word around an offset."""
        chunk = next((chunk for chunk in reversed(self.chunks) if chunk.start <= offset), self.chunks[0])
        layout, inside = chunk.layout, offset - chunk.start
        if layout is None or not chunk.text:
            return offset, offset
        mode = QTextLayout.CursorMode.SkipWords
        end = layout.nextCursorPosition(min(inside, units(chunk.text)), mode)
        start = layout.previousCursorPosition(end, mode)
        word = slice_units(chunk.text, start, end)
        return chunk.start + start, chunk.start + start + units(word.rstrip())

    def text_between(self, first: int, last: int, keep_ghosts: bool = False) -> str:
        """The text of a range; what was only proposed is left out."""
        parts = []
        for chunk in self.chunks:
            if chunk.start >= last or chunk.start + chunk.length <= first:
                continue
            for run in chunk.runs:
                start = max(first - chunk.start, run.start)
                end = min(last - chunk.start, run.start + run.length)
                if start < end and (keep_ghosts or run.kind not in ("rejected", "unjudged")):
                    parts.append(slice_units(chunk.text, start, end))
            if chunk.newline is not None and first <= chunk.start + chunk.length - 1 < last:
                parts.append("\n")
        return "".join(parts)


def _cut(chunk: Chunk, cuts: list[int]) -> list[Chunk]:
    """The chunk in pieces that begin at these offsets, without places or layouts."""
    edges = [0, *cuts, units(chunk.text)]
    raw = chunk.text.encode("utf-16-le", "surrogatepass")
    parts = [
        Chunk(
            0,
            0.0,
            raw[2 * start : 2 * end].decode("utf-16-le", "surrogatepass"),
            number=chunk.number,
            look=chunk.look,
            hang=chunk.hang,
        )
        for start, end in pairwise(edges)
    ]
    parts[-1].newline, parts[-1].newline_spot = chunk.newline, chunk.newline_spot
    part = 0
    for run in chunk.runs:
        start, end, blanks = run.start, run.start + run.length, run.blanks
        while start < end:
            while start >= edges[part + 1]:
                part += 1
            stop = min(end, edges[part + 1])
            parts[part].runs.append(PieceRun(start - edges[part], stop - start, run.kind, run.spot, min(blanks, stop - start)))
            start, blanks = stop, 0
    into = chunk.into
    for piece in parts:
        piece.into = into
        into += piece.committed
    return parts


def _joined_chunk(chunks: list[Chunk]) -> Chunk:
    """What was cut becomes one again, without place or layout."""
    first, last = chunks[0], chunks[-1]
    whole = Chunk(first.start, first.top, number=first.number, into=first.into, look=first.look, hang=first.hang)
    whole.newline, whole.newline_spot = last.newline, last.newline_spot
    for chunk in chunks:
        shift = units(whole.text)
        for run in chunk.runs:
            before = whole.runs[-1] if whole.runs else None
            if before is not None and not run.start and (before.kind, before.spot) == (run.kind, run.spot):
                whole.runs[-1] = replace(before, length=before.length + run.length)
            else:
                whole.runs.append(replace(run, start=shift + run.start))
        whole.text += chunk.text
    return whole


def _prefix(chunk: Chunk) -> str:
    """The letters before the text of an item or a quote, ghosts among them left out."""
    parts: list[str] = []
    left = chunk.look.hang
    for run in chunk.runs:
        if left <= 0:
            break
        if run.kind not in GHOSTS:
            parts.append(slice_units(chunk.text, run.start, run.start + min(left, run.length)))
            left -= run.length
    return "".join(parts)


def letters(span: Span, font: QFont, style: Style) -> QTextCharFormat:
    """How the letters of a span are set on a line of this font."""
    theme, flags = style.theme, span.flags
    look = QTextCharFormat()
    if flags & (Flag.CODE | Flag.MATH) and font.family() != style.code.family():
        mono = QFont(style.code)
        mono.setPixelSize(round(style.code.pixelSize() * font.pixelSize() / style.text.pixelSize()))
        mono.setWeight(font.weight())
        look.setFont(mono)
    if flags & Flag.BOLD:  # the bundled face has a semibold but no semibold italic, which Qt makes only of the bold
        look.setFontWeight(QFont.Weight.Bold if flags & Flag.ITALIC else QFont.Weight.DemiBold)
    if flags & (Flag.ITALIC | Flag.MATH):
        look.setFontItalic(True)
    if flags & Flag.STRUCK:
        look.setFontStrikeOut(True)
    colour = (
        theme.faint if flags & Flag.SYNTAX else theme.accent if flags & Flag.LINK else theme.dim if flags & Flag.QUOTED else ""
    )
    if colour := code_inks(theme).get(span.ink, colour):
        look.setForeground(QColor(colour))
    return look


def _look(colour: str, font: QFont, struck: bool = False, factor: float = 1.0) -> QTextCharFormat:
    look = QTextCharFormat()
    look.setForeground(QColor(colour))
    if struck:
        look.setFontStrikeOut(True)
    if factor != 1.0:
        smaller = QFont(font)
        smaller.setPixelSize(max(8, round(font.pixelSize() * factor)))
        smaller.setStrikeOut(struck)
        look.setFont(smaller)
    return look


def format_range(start: int, length: int, look: QTextCharFormat) -> QTextLayout.FormatRange:
    """A look for `length` letters from `start` on, as Qt wants it."""
    result = QTextLayout.FormatRange()
    result.start, result.length = start, length
    result.format = look
    return result


def lines_of(chunk: Chunk) -> list[QTextLine]:
    """The lines a chunk was broken into, top to bottom; empty until it is laid out."""
    layout = chunk.layout
    return [] if layout is None else [layout.lineAt(index) for index in range(layout.lineCount())]


def line_at(lines: list[QTextLine], point: QPointF, reach: float) -> QTextLine | None:
    """The line at a point relative to the chunk; a line reaches so many times its height down. In a table the nearest cell."""
    first = next((line for line in lines if point.y() < line.y() + line.height() * reach), None)
    if first is None:
        return None
    beside = [line for line in lines if abs(line.y() - first.y()) < first.height() / 2]
    return next((line for line in reversed(beside) if line.x() <= point.x()), beside[0])


def _boxes_on(chunk: Chunk, with_blanks: bool = False) -> Iterator[Box]:
    """One box per run and line; marks leave out the blanks before a word and those that hang over the end of a line."""
    lines = lines_of(chunk)
    first, last = 0, 0.0
    for line in lines:
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
            begin = max(start, run.start + (0 if with_blanks else run.blanks))
            left, right = _span(line, begin, max(begin, min(end, run.start + run.length)))
            if left > letters - 0.5:  # Qt gives blanks only the room that is left on the line, which may be none
                left = max(left, last)
                last = right = min(max(right, left + HANGING), margin)
            if not with_blanks:
                left, right = min(left, letters), min(right, letters)
            if right - left > 0.5:
                yield Box(QRectF(left, line.y(), right - left, line.height()), line.y() + line.ascent(), run.kind, run.spot)
    if chunk.newline is not None and lines:
        line = lines[-1]
        height = min(line.height(), chunk.height - line.y())
        baseline = min(line.y() + line.ascent(), chunk.height - 5)
        yield Box(QRectF(last, line.y(), NEWLINE, height), baseline, chunk.newline, chunk.newline_spot)


def _joined(boxes: Iterable[Box]) -> list[Box]:
    """The unjudged tokens of a round in one box per line: it matters little where one ends, and much that the text is calm."""
    joined: list[Box] = []
    for box in boxes:
        before = joined[-1] if joined else None
        if before is not None and before.kind == box.kind == "unjudged" and before.baseline == box.baseline:
            joined[-1] = Box(before.rect.united(box.rect), before.baseline, before.kind, before.spot)
        else:
            joined.append(box)
    return joined


def _span(line: QTextLine, start: int, end: int) -> tuple[float, float]:
    first, last = _x(line, start), _x(line, end)
    return (first, last) if first <= last else (last, first)


def _x(line: QTextLine, offset: int) -> float:
    place: tuple[float, int] = line.cursorToX(offset)  # type: ignore[assignment]  # the stubs miss the second value
    return place[0]


def split_units(text: str, at: int) -> tuple[str, str]:
    """Splits a text at a UTF-16 offset."""
    if text.isascii():
        return text[:at], text[at:]
    raw = text.encode("utf-16-le", "surrogatepass")
    return raw[: 2 * at].decode("utf-16-le", "surrogatepass"), raw[2 * at :].decode("utf-16-le", "surrogatepass")


def slice_units(text: str, start: int, end: int) -> str:
    """The text between two offsets that count UTF-16 units, as Qt and screen readers count."""
    return split_units(split_units(text, end)[0], start)[1]
