"""Lays out text that grows at its end, in the token view: finished lines are never laid out again.

A `Flow` holds chunks of at most `MAX_LINES` lines, each one QTextLayout. Appending changes only the last chunk. When that has too
many lines, it is split at the start of a line, where greedy line breaking gives the same lines again. So the cost of a round does
not depend on the length of the answer.

Offsets count UTF-16 units, as Qt does.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from itertools import islice

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QFont, QFontMetricsF, QPainter, QTextLayout, QTextLine

from app.conversation.chunks import (
    Box,
    Chunk,
    CodeScroll,
    DividerLine,
    GhostAbove,
    LineBoxes,
    PieceRun,
    PlacedDivider,
    boxes_on,
    cut,
    joined_boxes,
    joined_chunk,
    line_at,
    lines_of,
    prefix,
    slice_units,
    span_of,
    split_units,
    x_of,
)
from app.conversation.letter_formats import Style, unbroken
from app.conversation.line_formats import LineFormat, LineFormatter, units
from app.conversation.markdown_source import Code, link_in, shown
from app.look.theme import sized
from engine.lens.pieces import GHOSTS, Piece, Spot

END = Spot(2**62, True, 0)
"""A spot after every token."""
MAX_LINES = 6
KEPT_LINES = 2
CODE_LINE = 1000
"""Longest line of code that is not wrapped, in characters: a token costs more in a longer line."""
CODE_LINES = 3
"""`MAX_LINES` for chunks of code that is not wrapped."""
INSET = 12.0
"""Pixels between the edges of a block of code and its letters."""
BUTTON = 2.2
"""Width of the button that copies code, relative to the text size."""
EDGE = 2.0
"""Width of the line on the left of a block of code, in pixels."""
BAR = 10.0
"""Height of the scroll bar below a block of code, in pixels."""
REVEALED = 40.0
"""Pixels kept between a position that is scrolled into view and the edge of its code block."""
GHOST_SIZE = 0.72
"""Size of a ghost above the text, relative to the text."""
UNDERLINE = 3.0
"""Pixels below a line for the marks under its letters, if the rest of its free height is above it."""
SMALLEST_GHOST = 10
"""Smallest size of a ghost above the text, in pixels; smaller letters cannot be read behind their line."""
GHOST_GAP = 5.0
"""Minimum distance between two ghosts above a line, in pixels."""
GHOST_SINK = 0.14
"""Part of its line's height by which a ghost extends into the line, whose letters leave that much free at its top."""
BATCH = 400
"""Maximum number of pieces added between two layouts: each piece copies the text of the open chunk, which must stay short."""


class Flow:
    """Pieces laid out at one width.

    Args:
        markdown: True formats the text as Markdown, with its syntax, and lets code scroll sideways; False recognises only
            fenced code, and wraps its lines.

    Attributes:
        chunks: in reading order; never empty.
        width: in logical pixels.
        changed_top: top of the area that the last `append` or `finish` laid out.
        in_order: whether each line of a chunk is below the previous one, so that only the visible ones need painting.
    """

    in_order = True

    def __init__(self, style: Style, width: float, markdown: bool = False) -> None:
        self.style = style
        self.width = max(40.0, width)
        self.chunks: list[Chunk] = [Chunk(0, 0.0)]
        self.changed_top = 0.0
        self._dividers: dict[int, DividerLine] = {}  # by the offset of the text after them
        self._added = 0  # length of all text so far; unlike `length`, also before it is laid out
        self._above: list[tuple[int, Piece]] = []  # ghosts above the text, with the offset of the text that replaced them
        self._formats = LineFormatter(markdown)
        self._unwrapped = markdown
        self._scrolls: dict[int, CodeScroll] = {}  # by the number of their first line
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
        """The width of the widest line."""
        widths = [line.naturalTextWidth() for chunk in self.chunks for line in lines_of(chunk)]
        return max(widths, default=0.0)

    def append(self, pieces: Iterable[Piece]) -> None:
        """Appends pieces and lays out the affected chunks."""
        left = iter(pieces)
        self.changed_top = self.height
        while batch := list(islice(left, BATCH)):
            first = len(self.chunks) - 1
            before = _SettledLines(self.chunks[first])
            for piece in batch:
                if piece.kind == "rejected" and self.style.ghosts_above:
                    self._above.append((self._added, piece))
                    continue
                if piece.ghost:
                    self._add(piece.text, piece)
                    continue
                head, *rest = piece.text.replace("\r\n", "\n").split("\n")
                self._add(head, piece)
                for part in rest:
                    self._end_paragraph(piece)
                    self._add(part, piece)
            self.chunks[first].layout = None
            self._lay_out_from(min(first, self._take_formats()), before)

    def divide(self, words: str, colour: str) -> None:
        """Puts a divider before the next piece."""
        self._dividers[self.length] = DividerLine(words, colour)

    def finish(self) -> None:
        """Completes the text: formats the open block."""
        self.changed_top = self.height
        self._formats.finish()
        if (first := self._take_formats()) < len(self.chunks):
            self._lay_out_from(first)

    @property
    def codes(self) -> list[tuple[float, float, Code]]:
        """The closed code blocks, each with its top and its bottom."""
        found = []
        for code in self._formats.codes:
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
        blanks = len(text) - len(text.lstrip(" ")) if text.strip() else 0
        chunk.runs.append(PieceRun(units(chunk.text), units(text), piece.kind, piece.spot, blanks))
        chunk.text += text
        self._added += units(text)
        if not piece.ghost:
            self._formats.add(text)

    def _end_paragraph(self, piece: Piece) -> None:
        chunk = self.chunks[-1]
        chunk.newline, chunk.newline_spot = piece.kind, piece.spot
        self._formats.end_line()
        self._added += 1
        self.chunks.append(Chunk(0, 0.0, number=chunk.number + 1))

    def _take_formats(self) -> int:
        """Applies changed line formats; returns the index of the first chunk to lay out, or the number of chunks."""
        first = len(self.chunks)
        for number, line_format in sorted(self._formats.changes().items(), reverse=True):
            first = min(first, self._restyle(number, line_format))
        return first

    def _first_of_line(self, number: int) -> int:
        return bisect_left(self.chunks, number, key=lambda chunk: chunk.number)

    def _restyle(self, number: int, line_format: LineFormat) -> int:
        """Changes the format of a line. Its chunks are joined from the first changed one on, because they break differently now.
        Returns the index of the first chunk to lay out."""
        start = self._first_of_line(number)
        end = self._first_of_line(number + 1)
        chunks = self.chunks[start:end]
        changed = len(chunks)
        for index, chunk in enumerate(chunks):
            before, chunk.line_format = (chunk.line_format, chunk.spans), line_format
            same = (before[0].kind, before[0].level, before[0].hang) == (line_format.kind, line_format.level, line_format.hang)
            if changed == len(chunks) and not (same and before[1] == chunk.spans):
                changed = index
        if changed == len(chunks):
            return len(self.chunks)
        first = max(0, changed - 1)  # its last line may have room for a word that is narrower now
        scroll = chunks[0].scroll
        self.chunks[start + first : end] = [joined_chunk(chunks[first:])]
        # the widest line of a code block may be narrower now, or no code, so the whole block is measured again
        return start + first if scroll is None else self._first_of_line(scroll.line)

    def _lay_out_from(self, first: int, known: _SettledLines | None = None) -> None:
        """Lays out the chunks from an index on that have no layout, and moves the others.

        Args:
            known: the lines that a chunk had before text was appended to it.
        """
        index = first
        changed = False
        while index < len(self.chunks):
            chunk = self.chunks[index]
            before = self.chunks[index - 1] if index else None
            begins = self._begins_code(chunk, before)
            if before is not None:
                self._close(before, ends=begins or not chunk.code)
                chunk.start, chunk.top = before.start + before.length, before.top + before.height
            if chunk.layout is None:
                self._lay_out(chunk)
                lines = lines_of(chunk)
                if not changed:
                    settled = 0.0 if known is None else known.reach(chunk, lines)
                    changed, self.changed_top = True, min(self.changed_top, chunk.top + settled)
                most = CODE_LINES if chunk.extent else MAX_LINES
                if len(lines) > most:
                    firsts = range(most - KEPT_LINES, len(lines) - KEPT_LINES + 1, most - KEPT_LINES)
                    # trailing blanks are wider on the last line of a chunk
                    self.changed_top = min(self.changed_top, chunk.top + lines[firsts[0] - 1].y())
                    self.chunks[index : index + 1] = cut(chunk, [lines[line].textStart() for line in firsts])
                    self.chunks[index].start, self.chunks[index].top = chunk.start, chunk.top
                    self._lay_out(self.chunks[index])
            self._join(self.chunks[index], before, begins)
            index += 1
        self._close(self.chunks[-1], ends=True)

    # Code that scrolls sideways. A code block is a sequence of chunks, from one that `_begins_code` to the last chunk of code.

    def _begins_code(self, chunk: Chunk, before: Chunk | None) -> bool:
        """Returns whether a code block begins with a chunk."""
        return chunk.code and (before is None or not before.code)

    def _code_line(self, chunk: Chunk) -> int:
        """Returns the number of the code block's first line, which is the same in every view of the same text."""
        return chunk.number

    def _code_left(self, chunk: Chunk) -> float:
        """Returns the left edge of the area for the letters of a chunk's code block."""
        return EDGE

    def _code_button(self, chunk: Chunk) -> float:
        """Returns the width that the copy button takes from the first line of the code, in pixels."""
        return BUTTON * self.style.text.pixelSize()

    def _join(self, chunk: Chunk, before: Chunk | None, begins: bool) -> None:
        """Adds a chunk to the code block that it begins or continues. Forgets a block that began here before."""
        line, scroll = self._code_line(chunk), None
        if begins and self._unwrapped:
            scroll = self._scrolls.get(line) or CodeScroll(
                line, self._code_left(chunk), self.width, self._code_button(chunk), chunk, chunk
            )
            scroll.first, scroll.extent = chunk, 0.0
            self._scrolls[line] = scroll
        elif chunk.code and before is not None:
            scroll = before.scroll
        if scroll is None or scroll.line != line:
            self._scrolls.pop(line, None)
        if scroll is not None:
            scroll.extent = max(scroll.extent, chunk.extent + (scroll.button if scroll.first is chunk else 0.0))
            scroll.last = chunk
        chunk.scroll = scroll

    def _close(self, chunk: Chunk, ends: bool) -> None:
        """Reserves space for a scroll bar below a chunk that ends a code block wider than the flow."""
        scroll = chunk.scroll
        chunk.leave_room(BAR if ends and scroll is not None and scroll.limit else 0.0)
        if ends and scroll is not None:
            scroll.move(scroll.offset)

    @property
    def code_scrolls(self) -> list[CodeScroll]:
        """The code blocks that are too wide for the flow."""
        return [scroll for scroll in self._scrolls.values() if scroll.limit]

    @property
    def code_offsets(self) -> dict[int, float]:
        """The scroll offsets of code blocks, by the number of their first line; without those at 0."""
        return {line: scroll.offset for line, scroll in self._scrolls.items() if scroll.offset}

    def scroll_code(self, offsets: dict[int, float]) -> None:
        """Restores the `code_offsets` of another layout of the same text."""
        for line, offset in offsets.items():
            if line in self._scrolls:
                self._scrolls[line].move(offset)

    def reveal(self, area: QRectF) -> bool:
        """Scrolls a code block sideways as far as needed to show an area of the flow; returns whether it moved."""
        chunk = self.chunks[self.chunk_at(area.center().y())]
        if chunk.scroll is None or chunk.window is None:
            return False
        left, right = chunk.window
        margin = min(REVEALED, (right - left) / 4)
        by = min(max(0.0, area.right() + margin - right), area.left() - margin - left)
        return chunk.scroll.move(chunk.offset + by)

    def area_of(self, first: int, last: int) -> QRectF:
        """Returns the area of the letters between two offsets, on their first line."""
        chunk = self.chunks[self.chunk_of(first)]
        inside = min(first - chunk.start, units(chunk.text))
        if chunk.layout is None or not (line := chunk.layout.lineForTextPosition(inside)).isValid():
            return chunk.outside(QRectF(0, 0, 0, chunk.height))
        left, right = span_of(line, inside, min(last - chunk.start, line.textStart() + line.textLength()))
        return chunk.outside(QRectF(left, line.y(), right - left, line.height()))

    def _extent(self, chunk: Chunk, inset: float) -> float:
        """Returns the right end of a chunk's widest line, including trailing blanks and a margin."""
        lines = lines_of(chunk)
        ends = (max(line.x() + line.naturalTextWidth(), x_of(line, line.textStart() + line.textLength())) for line in lines)
        return max(ends, default=0.0) + inset

    def _line_width(self, chunk: Chunk, room: float, metrics: QFontMetricsF) -> float:
        """Returns the width of a chunk's lines if `room` pixels are available."""
        return max(room, CODE_LINE * metrics.horizontalAdvance("0")) if chunk.code and self._unwrapped else room

    def _lay_out(self, chunk: Chunk) -> None:
        layout, metrics, pitch = unbroken(chunk, self.style)
        inset = INSET if chunk.code else 0.0
        hang = metrics.horizontalAdvance(prefix(chunk)) if chunk.line_format.hang and not chunk.into else chunk.hang
        chunk.hang = min(hang, self.width / 3)
        layout.beginLayout()
        y = 0.0
        dividers, placed = self._dividers_in(chunk), list[tuple[int, DividerLine, float, QTextLine]]()
        while (line := layout.createLine()).isValid():
            left = inset + (chunk.hang if line.textStart() or chunk.into else 0.0)
            line.setLineWidth(self._line_width(chunk, self.width - inset - left, metrics))
            end = line.textStart() + line.textLength()
            while dividers and (dividers[0][0] < end or end == units(chunk.text)):
                offset, divider = dividers.pop(0)
                placed.append((offset, divider, y, line))
                y += self.divider_room
            free = max(0.0, pitch - line.height())
            line.setPosition(QPointF(left, y + (max(0.0, free - UNDERLINE) if self.style.ghosts_above else free / 2)))
            y += line.height() + free
        layout.endLayout()
        below = 0.0 if self.style.ghosts_above else pitch
        chunk.placed_dividers = [
            PlacedDivider(divider, x_of(line, offset), top, line.y() + max(line.height(), below) - 3)
            for offset, divider, top, line in placed
        ]
        blank = not chunk.text and chunk.newline is not None
        chunk.height, chunk.below = round(pitch * 0.55) if blank and not chunk.code else max(y, pitch), 0.0
        chunk.layout, chunk.boxes, chunk.whole_boxes = layout, LineBoxes(), LineBoxes()
        chunk.extent = self._extent(chunk, inset) if chunk.code and self._unwrapped else 0.0

    # Ghosts above the text

    def ghost_font(self, chunk: Chunk) -> QFont:
        """Returns the font of the ghosts above the text of a chunk."""
        font = self.style.code if chunk.line_format.kind in ("code", "fence", "table") else self.style.text
        return sized(font, max(SMALLEST_GHOST, font.pixelSize() * GHOST_SIZE))

    def ghosts_above(self, chunk: Chunk) -> list[GhostAbove]:
        """Returns the ghosts above the lines of a chunk, each where the token begins that replaced it.

        One that would run into the next moves to the left as far as there is room, and is elided if that is not enough.
        """
        first = bisect_left(self._above, chunk.start, key=lambda each: each[0])
        is_last = chunk is self.chunks[-1]
        end = chunk.start + chunk.length + is_last
        found, layout = list[GhostAbove](), chunk.layout
        if first == len(self._above) or self._above[first][0] >= end or layout is None:
            return found
        font = self.ghost_font(chunk)
        metrics = QFontMetricsF(font)
        by_line: dict[int, list[tuple[float, Piece]]] = {}
        for offset, piece in self._above[first : bisect_left(self._above, end, key=lambda each: each[0])]:
            at = _behind_blanks(chunk.text, offset - chunk.start)
            line = layout.lineForTextPosition(at)
            by_line.setdefault(line.lineNumber(), []).append((x_of(line, at), piece))
        for number, placed in sorted(by_line.items()):
            line = layout.lineAt(number)
            taken = line.x()
            edge = max(self.width, line.x() + line.naturalTextWidth()) if chunk.extent else self.width
            for place, (left, piece) in enumerate(placed):
                limit = max(left, placed[place + 1][0] - GHOST_GAP) if place + 1 < len(placed) else edge
                text = piece.text.strip() or piece.text
                left = max(taken, min(left, limit - metrics.horizontalAdvance(text)))
                text = metrics.elidedText(text, Qt.TextElideMode.ElideRight, limit - left)
                rect = QRectF(
                    left,
                    line.y() - metrics.height() + GHOST_SINK * line.height(),
                    metrics.horizontalAdvance(text),
                    metrics.height(),
                )
                found.append(GhostAbove(rect, rect.top() + metrics.ascent(), text, piece.spot))
                taken = rect.right() + GHOST_GAP
        return found

    def ghost_above(self, spot: Spot) -> GhostAbove | None:
        """Returns the ghost above the text that is this token, relative to the flow; None if it is not above the text."""
        at = bisect_left(self._above, spot, key=lambda each: each[1].spot)
        if at == len(self._above) or self._above[at][1].spot != spot:
            return None
        chunk = self.chunks[self.chunk_of(self._above[at][0])]
        found = next((ghost for ghost in self.ghosts_above(chunk) if ghost.spot == spot), None)
        return None if found is None else found._replace(rect=chunk.outside(found.rect), baseline=found.baseline + chunk.top)

    @property
    def divider_font(self) -> QFont:
        """The font of a divider's words."""
        return sized(self.style.text, max(9, self.style.text.pixelSize() * 0.8))

    @property
    def divider_room(self) -> float:
        """Height of a divider's line, in pixels."""
        return round(QFontMetricsF(self.divider_font).height() + 5)

    def _dividers_in(self, chunk: Chunk) -> list[tuple[int, DividerLine]]:
        """Returns the dividers in a chunk with their offsets in it; one before the blanks of a word is moved to the word."""
        if not self._dividers:
            return []
        found = []
        for at, divider in self._dividers.items():
            if chunk.start <= at < chunk.start + max(chunk.length, 1):
                found.append((_behind_blanks(chunk.text, at - chunk.start), divider))
        return found

    def boxes(self, chunk: Chunk) -> list[Box]:
        """Returns the boxes of a chunk's runs for painting, computed on demand."""
        known, lines = chunk.boxes, _lines_in(chunk)
        if known.lines < lines:
            chunk.boxes = known = LineBoxes(lines, [*known.boxes, *joined_boxes(boxes_on(chunk, from_line=known.lines))])
        return known.boxes

    def whole_boxes(self, chunk: Chunk, last: Spot = END) -> list[Box]:
        """Returns the boxes for hit testing, at least those up to `last`: blanks are included, and boxes are not joined."""
        known, lines = chunk.whole_boxes, _lines_in(chunk)
        if known.lines < lines and not (known.boxes and known.boxes[-1].spot > last):
            found = boxes_on(chunk, with_blanks=True, from_line=known.lines)
            chunk.whole_boxes = known = LineBoxes(lines, [*known.boxes, *found])
        return known.boxes

    def chunk_at(self, y: float) -> int:
        """Returns the index of the chunk at a height, or of the nearest one."""
        return max(0, bisect_right(self.chunks, y, key=lambda chunk: chunk.top) - 1)

    def chunk_of(self, offset: int) -> int:
        """Returns the index of the chunk that contains an offset."""
        return max(0, bisect_right(self.chunks, offset, key=lambda chunk: chunk.start) - 1)

    def offset_at(self, point: QPointF, on_letter: bool = False) -> int:
        """Returns the offset of the border between letters nearest to a point, or of the letter under it."""
        chunk = self.chunks[self.chunk_at(point.y())]
        lines = lines_of(chunk)
        if not lines:
            return chunk.start
        inside = chunk.inside(point)
        line = line_at(lines, inside, 1.25) or lines[-1]
        on = QTextLine.CursorPosition.CursorOnCharacter if on_letter else QTextLine.CursorPosition.CursorBetweenCharacters
        return chunk.start + line.xToCursor(inside.x(), on)

    def link_at(self, offset: int) -> str:
        """Returns the address of the link at an offset; empty if there is none. Its line is parsed for that."""
        number, at = self.chunks[self.chunk_of(offset)].number, 0
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
        """Paints the background of a chunk's letters and marks."""
        if chunk.code:
            painter.fillRect(QRectF(0, chunk.top, self.width, chunk.height), QColor(self.style.theme.code))
            painter.fillRect(QRectF(0, chunk.top, EDGE, chunk.height), QColor(self.style.theme.line))

    def word_at(self, offset: int) -> tuple[int, int]:
        """Returns start and end of the word around an offset."""
        chunk = self.chunks[self.chunk_of(offset)]
        layout, inside = chunk.layout, offset - chunk.start
        if layout is None or not chunk.text:
            return offset, offset
        mode = QTextLayout.CursorMode.SkipWords
        end = layout.nextCursorPosition(min(inside, units(chunk.text)), mode)
        start = layout.previousCursorPosition(end, mode)
        word = slice_units(chunk.text, start, end)
        return chunk.start + start, chunk.start + start + units(word.rstrip())

    def text_between(self, first: int, last: int, keep_ghosts: bool = False) -> str:
        """Returns the text of a range, without ghosts unless `keep_ghosts`."""
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


def _behind_blanks(text: str, at: int) -> int:
    """Returns the offset behind the blanks at an offset of a text; the offset itself if nothing else follows."""
    rest = split_units(text, at)[1]
    blanks = len(rest) - len(rest.lstrip(" "))
    return at + (blanks if blanks < len(rest) else 0)


def _lines_in(chunk: Chunk) -> int:
    return 0 if chunk.layout is None else chunk.layout.lineCount()


class _SettledLines:
    """The lines of a chunk that appended text cannot change: all but the last two, because a word may outgrow its line."""

    def __init__(self, chunk: Chunk) -> None:
        self._chunk = chunk
        self._lines = [_place(line) for line in lines_of(chunk)[:-2]]
        self._boxes = (chunk.boxes, chunk.whole_boxes)

    def reach(self, chunk: Chunk, lines: list[QTextLine]) -> float:
        """Returns the bottom of these lines in the chunk's new layout, which has `lines`; 0 if any of them has moved. The chunk
        gets the cached boxes of these lines back."""
        many = len(self._lines)
        if chunk is not self._chunk or not 0 < many < len(lines) or [_place(line) for line in lines[:many]] != self._lines:
            return 0.0
        y = lines[many].y()
        chunk.boxes, chunk.whole_boxes = (boxes.above(many, y) for boxes in self._boxes)
        return y


def _place(line: QTextLine) -> tuple[int, float, float]:
    return line.textStart(), line.x(), line.y()
