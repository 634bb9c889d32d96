"""The reading view of an answer: its Markdown rendered, without syntax, ghosts and marks.

It is a `Flow` like the token view, so every letter still knows its token. Pointing, pinning and selecting work in both views, and
switching between them keeps the position. Copying yields the selected Markdown with its markup completed: half a bold phrase is
bold, and a part of one link or one code block is just its text.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QFont, QFontMetricsF, QPainter, QPen

from app.conversation.chunks import Chunk, LineBoxes, PieceRun, lines_of, slice_units, span_of
from app.conversation.letter_formats import Style, unbroken
from app.conversation.line_formats import LineFormat, Span, units
from app.conversation.markdown_source import LINE_BREAK, Code, Document, Flag, Part, Segment, read, shown
from app.conversation.text_flow import BUTTON, INSET, Flow
from app.look.theme import sized
from engine.lens.pieces import NOWHERE, Piece, Spot

# Distances, in heights of the text's letters
CELL = 0.65
"""Margin on both sides of a cell's text."""
CODE_HEAD = 1.9
"""Space above the first line of code for its language and the copy button."""
CODE_EDGE = 0.6
"""Space above code without a language, and below any code."""
TASKS = {"[ ] ": "☐ ", "[x] ": "☑ ", "[X] ": "☑ "}


@dataclass(slots=True)
class Rendered(Chunk):
    """A chunk that renders one part of the document.

    Attributes:
        above: space above its first line.
        segments: the segments, each with the offset of its first letter in the chunk's text.
        columns: left edges of a row's cells, and the right edge of the last one.
        first, last: whether it is the first or last part of its code block or table.
    """

    part: Part = field(default_factory=lambda: Part("text", 0, 0))
    segments: list[tuple[int, Segment]] = field(default_factory=list)
    cells: list[int] = field(default_factory=list)
    columns: list[float] = field(default_factory=list)
    marker: str = ""
    left: float = 0.0
    above: float = 0.0
    first: bool = False
    last: bool = False
    quotes_kept: int = 0


class ReadingFlow(Flow):
    """A finished answer, rendered at one width."""

    in_order = False  # the cells of a table stand beside each other

    def __init__(self, style: Style, width: float, pieces: Iterable[Piece]) -> None:
        super().__init__(style, width)
        self._unwrapped = True
        kept = [piece for piece in pieces if not piece.ghost and piece.text]
        texts = [shown(piece.text) for piece in kept]
        self.document: Document = read("".join(texts))
        self._starts = [0, *accumulate(len(text) for text in texts)]
        self._spots = [piece.spot for piece in kept]
        lines = self.document.source.split("\n")
        self._lines = [0, *accumulate(len(line) + 1 for line in lines)]
        self._size = style.text.pixelSize()
        self.chunks = [*self._chunks()] or self.chunks
        self._lay_out_from(0)

    # From parts to chunks

    def _chunks(self) -> list[Chunk]:
        parts = self.document.parts
        tables = {part.group for part in parts if part.kind == "row"}
        widths = {group: self._columns([part for part in parts if part.group == group]) for group in tables}
        chunks: list[Chunk] = []
        for index, part in enumerate(parts):
            before = parts[index - 1] if index else None
            behind = parts[index + 1] if index + 1 < len(parts) else None
            chunk = self._chunk(part)
            grouped = part.group >= 0
            chunk.first = grouped and (before is None or before.group != part.group)
            chunk.last = grouped and (behind is None or behind.group != part.group)
            chunk.left = self._left(part)
            chunk.above = self._gap(before, part)
            chunk.quotes_kept = _shared(before.nesting if before is not None else "", part.nesting)
            if part.kind == "row":
                chunk.columns = [chunk.left + edge for edge in widths[part.group]]
            chunks.append(chunk)
        return chunks

    def _chunk(self, part: Part) -> Rendered:
        chunk = Rendered(0, 0.0, part=part, marker=part.marker, newline="plain", number=part.first)
        kind = part.kind if part.kind in ("heading", "code") else "text"
        spans: list[Span] = []
        line = self._lines[part.first]
        groups = [segments for segments, _ in part.cells] or [part.segments]
        for number, segments in enumerate(groups):
            if number:
                chunk.runs.append(
                    PieceRun(units(chunk.text), 1, "plain", chunk.runs[-1].spot if chunk.runs else self._spot(line))
                )
                chunk.text += LINE_BREAK
            chunk.cells.append(units(chunk.text))
            for segment in self._tasks(segments, part):
                start = units(chunk.text)
                chunk.segments.append((start, segment))
                chunk.runs += self._runs(segment, start)
                chunk.text += segment.text
                flags = segment.flags if part.kind != "math" else segment.flags & ~Flag.ITALIC
                if flags or segment.ink:
                    spans.append(Span(start, units(chunk.text), flags, segment.ink))
        end = self._lines[min(part.last, len(self._lines) - 1)] - 1
        chunk.newline_spot = self._spot(max(end, line))
        if chunk.text[:2] in TASKS.values():
            chunk.marker = ""
        if part.kind == "code":
            spans = [span for span in spans if span.ink]
        chunk.line_format = LineFormat(kind, part.level, 0, tuple(spans))
        return chunk

    def _tasks(self, segments: Sequence[Segment], part: Part) -> Iterable[Segment]:
        """Replaces the task marker at the start of a list item by a check box."""
        first = segments[0] if segments else None
        if first is None or not part.marker or first.text[:4] not in TASKS or first.end - first.start != len(first.text):
            return segments
        rest = first._replace(text=first.text[4:], start=first.start + 4)
        return [first._replace(text=TASKS[first.text[:4]], end=first.start + 4), *([rest] if rest.text else []), *segments[1:]]

    def _runs(self, segment: Segment, start: int) -> list[PieceRun]:
        """Returns a segment's letters, grouped by token."""
        runs: list[PieceRun] = []
        for index, letter in enumerate(segment.text):
            spot, length = self._spot(segment.source_of(index)), units(letter)
            if runs and runs[-1].spot == spot:
                runs[-1] = PieceRun(runs[-1].start, runs[-1].length + length, "plain", spot)
            else:
                runs.append(PieceRun(start, length, "plain", spot))
            start += length
        return runs

    def _spot(self, source: int) -> Spot:
        index = bisect_right(self._starts, source) - 1
        return self._spots[min(index, len(self._spots) - 1)] if self._spots else NOWHERE

    # In words

    @cached_property
    def spoken(self) -> list[tuple[str, Spot]]:
        """The text for a screen reader, without Markdown syntax, in parts of one token each. Items begin with their markers,
        cells of a row are separated by commas, and every part of the document is a line."""
        found: list[tuple[str, Spot]] = []
        for index, chunk in enumerate(self.chunks):
            spot = chunk.runs[0].spot if chunk.runs else chunk.newline_spot
            if index:
                found.append(("\n", spot))
            if isinstance(chunk, Rendered) and chunk.marker:
                found.append((f"{chunk.marker} ", spot))
            for run in chunk.runs:
                found.append((slice_units(chunk.text, run.start, run.end).replace(LINE_BREAK, ", "), run.spot))
        return found

    # Places

    def _begins_code(self, chunk: Chunk, before: Chunk | None) -> bool:
        return chunk.code and isinstance(chunk, Rendered) and chunk.first

    def _code_line(self, chunk: Chunk) -> int:
        code = chunk.part.code if isinstance(chunk, Rendered) else None
        return chunk.number if code is None else code.first

    def _code_left(self, chunk: Chunk) -> float:
        return chunk.left + 1 if isinstance(chunk, Rendered) else 0.0

    def _code_button(self, chunk: Chunk) -> float:
        code = chunk.part.code if isinstance(chunk, Rendered) else None
        return 0.0 if code is not None and code.language else super()._code_button(chunk)

    def _indent(self, container: str) -> float:
        return self._size * (1.1 if container == "q" else 1.6)

    def _left(self, part: Part) -> float:
        """Returns the indentation of a part; however deep it is nested, at least half of the width remains."""
        return min(sum(self._indent(container) for container in part.nesting), self.width / 2)

    def _gap(self, before: Part | None, part: Part) -> float:
        line = self._size
        head = 0.0 if part.code is None else self._head(part.code)
        if before is None:
            return head
        if part.group >= 0 and part.group == before.group:
            return 0.0
        if part.kind == "code":
            return line * 0.7 + head
        if part.kind == "heading":
            return line * (1.1 if part.level < 3 else 0.8)
        if "l" in part.nesting and "l" in before.nesting and part.kind == before.kind == "text":
            return line * 0.2
        return line * (0.35 if before.kind == "heading" else 0.7)

    def _head(self, code: Code) -> float:
        return self._size * (CODE_HEAD if code.language else CODE_EDGE)

    def _columns(self, rows: list[Part]) -> list[float]:
        """Returns the edges of a table's columns. Narrow columns get their natural width, wide ones share the rest."""
        bold = QFont(self.style.text)
        bold.setWeight(QFont.Weight.DemiBold)
        metrics, code = QFontMetricsF(bold), QFontMetricsF(self.style.code)

        def advance(segment: Segment) -> float:
            """Width of a part of a cell, in pixels."""
            return (code if segment.flags & (Flag.CODE | Flag.MATH) else metrics).horizontalAdvance(segment.text)

        wanted = [
            max(sum(advance(segment) for segment in cell) for cell, _ in cells) + 2 * CELL * self._size + 2
            for cells in zip(*(row.cells for row in rows), strict=True)
        ]
        room = self.width - max(self._left(row) for row in rows)
        left, narrow = room, sorted(wanted)
        for index, width in enumerate(narrow):
            share = left / (len(narrow) - index)
            if width > share:
                wanted = [min(width, share) for width in wanted]
                break
            left -= width
        return [0.0, *accumulate(wanted)]

    def _lay_out(self, chunk: Chunk) -> None:
        if not isinstance(chunk, Rendered):
            super()._lay_out(chunk)
            return
        layout, metrics, pitch = unbroken(chunk, self.style)
        layout.beginLayout()
        inset = INSET if chunk.code else 0.0
        pad = 5.0 if chunk.columns else 0.0
        y = top = chunk.above + pad
        bottom, cell = y, 0
        while (line := layout.createLine()).isValid():
            left, width = chunk.left + inset, self.width - chunk.left - 2 * inset
            if chunk.columns:
                now = bisect_right(chunk.cells, line.textStart()) - 1
                y, cell = (top, now) if now != cell else (y, cell)
                left = chunk.columns[cell] + CELL * self._size
                width = chunk.columns[cell + 1] - left - CELL * self._size
            line.setLineWidth(max(8.0, self._line_width(chunk, width, metrics)))
            spare = max(0.0, width - line.naturalTextWidth()) if chunk.columns else 0.0
            left += {"center": spare / 2, "right": spare}.get(chunk.part.cells[cell][1], 0.0) if chunk.columns else 0.0
            if chunk.part.kind == "math":
                left += max(0.0, min(2.0 * self._size, width - line.naturalTextWidth()))
            line.setPosition(QPointF(left, y + max(0.0, (pitch - line.height()) / 2)))
            y += max(pitch, line.height())
            bottom = max(bottom, y)
        layout.endLayout()
        if chunk.part.kind == "rule":
            bottom = chunk.above + pitch * 0.5
        chunk.height = max(bottom, chunk.above + (0.0 if chunk.part.kind == "rule" else pitch)) + pad
        if chunk.code and chunk.last:
            chunk.height += CODE_EDGE * self._size
        chunk.layout, chunk.boxes, chunk.whole_boxes = layout, LineBoxes(), LineBoxes()
        chunk.below, chunk.extent = 0.0, self._extent(chunk, inset) if chunk.code else 0.0

    @cached_property
    def codes(self) -> list[tuple[float, float, Code]]:
        """The code blocks, each with its top and its bottom."""
        found: list[tuple[float, float, Code]] = []
        top = 0.0
        for chunk in self.chunks:
            if isinstance(chunk, Rendered) and chunk.part.code is not None:
                top = chunk.top + chunk.above - self._head(chunk.part.code) if chunk.first else top
                if chunk.last:
                    found.append((top, chunk.top + chunk.height, chunk.part.code))
        return found

    # Painting

    def paint_under(self, painter: QPainter, chunk: Chunk) -> None:
        """Paints the bars of quotes, markers of items, boxes of code and lines of tables."""
        if not isinstance(chunk, Rendered):
            super().paint_under(painter, chunk)
            return
        theme, part = self.style.theme, chunk.part
        x = 0.0
        for index, container in enumerate(part.nesting):
            if container == "q":
                top = chunk.top + (0.0 if index < chunk.quotes_kept else chunk.above - 2)
                painter.fillRect(QRectF(x, top, 3, chunk.top + chunk.height - top + 2), QColor(theme.line))
            x = min(x + self._indent(container), self.width / 2)
        if chunk.marker:
            self._paint_marker(painter, chunk)
        if chunk.code:
            self._paint_code(painter, chunk)
        elif part.kind == "rule":
            painter.fillRect(QRectF(chunk.left, chunk.top + chunk.above + 4, self.width - chunk.left, 1), QColor(theme.line))
        elif chunk.columns:
            bottom = chunk.top + chunk.height
            if part.head:
                rect = QRectF(chunk.columns[0], chunk.top + chunk.above, chunk.columns[-1] - chunk.columns[0], bottom)
                rect.setBottom(bottom)
                painter.fillRect(rect, QColor(theme.panel))
            painter.fillRect(QRectF(chunk.columns[0], bottom - 1, chunk.columns[-1] - chunk.columns[0], 1), QColor(theme.line))
        self._paint_inline_code(painter, chunk)

    def _paint_marker(self, painter: QPainter, chunk: Rendered) -> None:
        painter.setFont(self.style.text)
        painter.setPen(QColor(self.style.theme.dim))
        lines = lines_of(chunk)
        metrics = QFontMetricsF(self.style.text)
        y = chunk.top + (lines[0].y() + lines[0].ascent() if lines else chunk.above + metrics.ascent())
        x = chunk.left - 0.45 * self._size - metrics.horizontalAdvance(chunk.marker)
        painter.drawText(QPointF(x, y), chunk.marker)

    def _paint_code(self, painter: QPainter, chunk: Rendered) -> None:
        theme = self.style.theme
        code = chunk.part.code
        head = 0.0 if code is None or not chunk.first else self._head(code)
        top = chunk.top + chunk.above - head
        box = QRectF(chunk.left, top, self.width - chunk.left, chunk.top + chunk.height - top)
        painter.save()
        painter.setClipRect(box)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(QPen(QColor(theme.line), 1))
        painter.setBrush(QColor(theme.code))
        whole = box.adjusted(0.5, 0.5 if chunk.first else -12, -0.5, -0.5 if chunk.last else 12)
        painter.drawRoundedRect(whole, 7, 7)
        if chunk.first and code is not None:
            painter.setFont(sized(self.style.text, max(9, self.style.text.pixelSize() * 0.8)))
            painter.setPen(QColor(theme.dim))
            words = QRectF(box.left() + 12, box.top(), box.width() - 12 - BUTTON * self._size, head)
            painter.drawText(words, int(Qt.AlignmentFlag.AlignVCenter), code.language)
        painter.restore()

    def _paint_inline_code(self, painter: QPainter, chunk: Rendered) -> None:
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor(self.style.theme.raised))
        for span in chunk.line_format.spans if not chunk.code else ():
            if span.flags & Flag.CODE:
                for rect in rects_of(chunk, span.start, span.end):
                    painter.drawRoundedRect(rect.translated(0, chunk.top).adjusted(-2, 0, 2, 0), 4, 4)

    # Links and selections

    def link_at(self, offset: int) -> str:
        """Returns the address of the link at an offset; empty if there is none."""
        found = self._segment_at(offset)
        return "" if found is None else found[2].href

    def _segment_at(self, offset: int) -> tuple[Rendered, int, Segment] | None:
        """Returns the chunk, the index of the letter in the segment, and the segment at an offset."""
        chunk = self.chunks[self.chunk_of(offset)]
        if not isinstance(chunk, Rendered):
            return None
        inside = offset - chunk.start
        index = bisect_right(chunk.segments, inside, key=lambda each: each[0]) - 1
        if index < 0:
            return None
        start, segment = chunk.segments[index]
        letter = _letter(segment.text, inside - start)
        return (chunk, letter, segment) if letter < len(segment.text) else None

    def text_between(self, first: int, last: int, keep_ghosts: bool = False) -> str:
        """Returns the Markdown of a range."""
        if first <= 0 and last >= self.length:
            return self.document.source
        source = self.document.source
        begin, whole = self._source_of(first, last)
        end = self._source_end(last)
        if begin is None or end is None or end <= begin:
            return ""
        before = [pair for pair in self.document.pairs if pair.open_end <= begin < pair.close_start < end]
        behind = [pair for pair in self.document.pairs if begin <= pair.open_start and pair.open_end < end <= pair.close_start]
        opened = "".join(source[pair.open_start : pair.open_end] for pair in before if not whole or pair.open_start < whole[0])
        closed = "".join(source[pair.close_start : pair.close_end] for pair in reversed(behind))
        return opened + source[begin:end] + closed

    def _source_of(self, first: int, last: int) -> tuple[int | None, tuple[int, ...]]:
        """Returns the start of the range in the source. It includes the marker of a line that is selected to its end."""
        for chunk in self.chunks[self.chunk_of(first) :]:
            if not isinstance(chunk, Rendered) or chunk.start >= last:
                break
            inside = max(0, first - chunk.start)
            if inside == 0 and last >= chunk.start + units(chunk.text) and not chunk.code:
                return self._lines[chunk.part.first], (self._lines[chunk.part.first],)
            if inside == 0 and chunk.first and chunk.part.code is not None:
                group = [each for each in self.chunks if isinstance(each, Rendered) and each.part.group == chunk.part.group]
                if last > group[-1].start + group[-1].length:  # the range goes on after the code
                    return self._lines[chunk.part.code.first], (self._lines[chunk.part.code.first],)
            for start, segment in chunk.segments:
                if inside < start + units(segment.text):
                    return segment.source_of(_letter(segment.text, max(0, inside - start))), ()
        return None, ()

    def _source_end(self, last: int) -> int | None:
        """Returns the source offset of the end of the letter before an offset."""
        for chunk in reversed(self.chunks[: bisect_right(self.chunks, last - 1, key=lambda each: each.start)]):
            if not isinstance(chunk, Rendered):
                continue
            inside = min(last - chunk.start, units(chunk.text))
            for start, segment in reversed(chunk.segments):
                if start < inside:
                    letter = _letter(segment.text, inside - start - 1)
                    return segment.end if letter + 1 >= len(segment.text) else segment.source_of(letter + 1)
        return None


def _letter(text: str, at: int) -> int:
    """Returns the index of the letter at a UTF-16 offset."""
    if text.isascii():
        return at
    return len(text.encode("utf-16-le", "surrogatepass")[: 2 * at].decode("utf-16-le", "ignore"))


def _shared(before: str, nesting: str) -> int:
    """Returns the number of leading containers that two parts have in common, by their kind."""
    count = 0
    for one, other in zip(before, nesting, strict=False):
        if one != other:
            break
        count += 1
    return count


def rects_of(chunk: Chunk, start: int, end: int) -> list[QRectF]:
    """Returns the areas of letters, one rectangle per line, relative to the chunk."""
    found = []
    for line in lines_of(chunk):
        first, last = max(start, line.textStart()), min(end, line.textStart() + line.textLength())
        if first < last:
            left, right = span_of(line, first, last)
            found.append(QRectF(left, line.y(), right - left, line.height()))
    return found
