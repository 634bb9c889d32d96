"""Formats the Markdown of an answer line by line while it grows, for the token view, which shows every letter of the source.

The same parser reads a growing text and a finished one. A block that no later line can change is parsed once. Only the last
block is open: it is parsed again when a span or a block in it may have ended. So the cost of a token does not depend on the text
before it. Code is coloured when its fence closes. Offsets count UTF-16 units, as Qt does. No Qt.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import accumulate, groupby, pairwise
from typing import Literal, NamedTuple

from app.conversation.markdown_source import PLAIN, Code, Document, Flag, blocks_of, read
from app.conversation.tex import MATH_ENDS

LONG_OPEN = 2000
"""Longest open block that is parsed while it grows, in characters: about 5 ms."""
LONG_BLOCK = 20_000
"""Longest block that is parsed as a whole, in characters: the worst case of that length takes a second. A longer one keeps the
formats that its lines had so far."""
LineKind = Literal["text", "heading", "code", "fence", "table"]


class Span(NamedTuple):
    """A run of equally formatted letters: [start, end) in UTF-16 units of the line without ghosts."""

    start: int
    end: int
    flags: Flag
    ink: str = ""


@dataclass(frozen=True, slots=True)
class LineFormat:
    """The format of one line.

    Attributes:
        level: of a heading.
        hang: length of its list or quote marker in UTF-16 units; its wrapped lines are indented by the marker's width.
    """

    kind: LineKind = "text"
    level: int = 0
    hang: int = 0
    spans: tuple[Span, ...] = ()

    def within(self, start: int, end: int) -> tuple[Span, ...]:
        """Returns the spans of a part of the line, relative to that part."""
        cut = (span._replace(start=max(span.start, start) - start, end=min(span.end, end) - start) for span in self.spans)
        return tuple(span for span in cut if span.start < span.end)


PLAIN_LINE = LineFormat()
CODE = LineFormat("code")
FENCE = LineFormat("fence")


class LineFormatter:
    """Parses a growing text, and returns the lines whose format has changed.

    Args:
        markdown: False recognises fenced code only, as for prompts and for the columns of a comparison.

    Attributes:
        finished: the number of lines whose formats are final.
    """

    def __init__(self, markdown: bool) -> None:
        self.markdown = markdown
        self.finished = 0
        self._codes: list[Code] = []
        self._open_codes: list[Code] = []
        self._lines = [""]  # the lines of the open block; the last one is not complete
        self._formats = [PLAIN_LINE]
        self._changed: dict[int, LineFormat] = {}
        # lines of the open block that have their format; the open line is not counted unless it is the only one
        self._formatted = 0
        self._in_fence = False  # whether the open block is code
        self._stale = False  # whether formats may have changed
        self._may_end = False  # whether the open block may have ended
        self._is_whole = True  # whether nothing came after the last `finish`

    @property
    def codes(self) -> list[Code]:
        """The closed code blocks, by their lines in the text."""
        return [*self._codes, *self._open_codes]

    def add(self, text: str) -> None:
        """Appends text without line breaks."""
        before = self._lines[-1]
        self._lines[-1] = before + text
        self._is_whole = False
        self._stale = self._stale or len(before.lstrip()) < 8 or not _CLOSERS.isdisjoint(text)

    def end_line(self) -> None:
        """Completes the open line and opens another one."""
        self._is_whole, self._stale = False, True
        # not after each row of a table: a long table would cost more and more
        self._may_end = self._may_end or "|" not in self._lines[-1] or self._size <= LONG_OPEN
        self._lines.append("")
        self._formats.append(PLAIN_LINE)

    def finish(self) -> None:
        """Parses the open block as the end of the text. The block stays open in case more follows after all."""
        if self.markdown and not self._is_whole:
            self._is_whole, self._stale = True, False
            self._close_blocks()
            self._open_codes = self._settle(0, len(self._lines))

    def changes(self) -> dict[int, LineFormat]:
        """Returns the formats that have changed since the last call, by line number in the text."""
        if self._stale and self.markdown:
            self._close_blocks()
            self._parse_open()
        elif self._stale:
            self._find_fences()
        self._stale = False
        changed, self._changed = self._changed, {}
        return changed

    @property
    def _size(self) -> int:
        """Length of the open block in characters."""
        return sum(map(len, self._lines)) + len(self._lines) - 1

    def _set(self, index: int, line_format: LineFormat) -> None:
        if line_format != self._formats[index]:
            self._formats[index] = line_format
            self._changed[self.finished + index] = line_format

    def _drop(self, count: int) -> None:
        self.finished += count
        del self._lines[:count], self._formats[:count]

    def _find_fences(self) -> None:
        """Formats a text without Markdown: a fence opens code, and the next one closes it."""
        for index, line in enumerate(self._lines):
            is_fence = line.lstrip().startswith("```")
            self._set(index, FENCE if is_fence else CODE if self._in_fence else PLAIN_LINE)
            if index < len(self._lines) - 1:
                self._in_fence ^= is_fence
        self._drop(len(self._lines) - 1)

    def _close_blocks(self) -> None:
        """Finds blocks that have ended, and gives them their final formats."""
        if not self._may_end:
            return
        self._may_end = False
        edges, self._in_fence = _outline(self._lines[:-1])
        for first, last in pairwise(edges):
            self._codes += self._settle(first, last)
        if edges[-1]:
            self._drop(edges[-1])
            self._formatted, self._open_codes = 0, []

    def _settle(self, first: int, last: int) -> list[Code]:
        """Formats the lines of whole blocks; returns the code blocks in them."""
        source = "\n".join(self._lines[first:last]) + ("\n" if last < len(self._lines) else "")
        if len(source) > LONG_BLOCK and not source.lstrip(" ").startswith(("```", "~~~")):
            return []
        document = read(source, references=False)
        for index, line_format in zip(range(first, last), formats_in(document), strict=False):
            self._set(index, line_format)
        return self._placed(codes_in(document), first)

    def _placed(self, codes: list[Code], line: int = 0) -> list[Code]:
        """Returns code blocks with line numbers of the text instead of a source, which begins at `line` of the open block."""
        by = self.finished + line
        return [replace(code, first=code.first + by, last=code.last + by) for code in codes]

    def _parse_open(self) -> None:
        """Formats the open block as if the text ended here. Beyond `LONG_OPEN`, new lines continue the table or code above
        them."""
        size, lines = self._size, self._lines
        if self._in_fence:
            self._set(0, FENCE)
            self._formatted = max(1, self._formatted)
        elif size <= LONG_OPEN or (not self._formatted and size <= LONG_BLOCK):
            document = read("\n".join(lines), references=False)
            formats = formats_in(document)
            if _UNDERLINE.fullmatch(lines[-1]) and len(lines) > 1 and formats[-2].kind == "heading":
                document = read("\n".join(lines[:-1]), references=False)  # a list item may begin here as well
                formats = formats_in(document)
            codes = codes_in(document)
            for code in codes:
                if not code.closed:  # it is coloured when it closes
                    formats[code.first + code.fenced : code.last] = [CODE] * (code.last - code.first - code.fenced)
            for index, line_format in enumerate(formats):
                self._set(index, LineFormat("table") if line_format.kind == "text" and _ROW.match(lines[index]) else line_format)
            self._open_codes = self._placed([code for code in codes if code.closed])
            self._formatted = len(formats)
        for index in range(max(1, self._formatted), len(lines)):
            above = self._formats[index - 1].kind
            continues_after = above == "code" or (above == "table" and lines[index].strip())
            self._set(index, CODE if self._in_fence else LineFormat(above) if continues_after else PLAIN_LINE)
        self._formatted = max(1, len(lines) - 1)


_CLOSERS = frozenset("*_`)$~]")
_ROW = re.compile(r" {0,3}\|")
"""A line that may be the first row of a table; the next line, a row of dashes, would make it one."""
_UNDERLINE = re.compile(r"\s*(?:-+|=+)\s*")
"""An open line that would make the text above it a heading."""
_PREFIX = re.compile(r"(?:\s*>)*\s*(?:(?:[-*+]|\d{1,9}[.)])\s+(?:\[[ xX]\]\s+)?)*")


def _outline(lines: list[str]) -> tuple[list[int], bool]:
    """Returns the borders (line numbers) of the blocks that are final, and whether the rest is code.

    The first border is 0; others are the first lines of top-level blocks and of list items. A block is final once another one
    follows it, code once its fence closes. Exceptions: open mathematics makes one block of all lines up to its end, and the first
    line of a list item is no border if it has a bar, because it may be the head of a table.
    """
    edges, line, in_math, closed_at = [0], 0, False, -1
    in_fence = False
    for token in blocks_of("\n".join([*lines, ""])):
        if token.map is None or not (token.level == 0 or (token.level == 1 and token.type == "list_item_open")):
            continue
        first, last = token.map
        for above in lines[line:first]:
            in_math = bool(above.strip()) and (in_math or above.lstrip(" ")[:2] in MATH_ENDS)
        line = first
        if first > edges[-1] and not in_math and (token.level == 0 or "|" not in lines[first]):
            edges.append(first)
        in_fence = token.type == "fence" and first == edges[-1]
        closed_at = last if in_fence and last - first == token.content.count("\n") + 2 else -1
    return (edges, in_fence) if closed_at < 0 else ([*edges, closed_at], False)


# From a document to the formats of its lines


def codes_in(document: Document) -> list[Code]:
    """Returns the code blocks of a document, each once."""
    return list(dict.fromkeys(part.code for part in document.parts if part.code is not None))


def formats_in(document: Document) -> list[LineFormat]:
    """Returns the formats of a document's lines. Letters that are not rendered count as syntax."""
    source = document.source
    styles: list[tuple[Flag, str] | None] = [_SYNTAX] * len(source)
    lines = source.split("\n")
    kinds: list[tuple[LineKind, int]] = [("text", 0)] * len(lines)
    for part in document.parts:
        if part.code is not None and part.code.fenced:
            for edge in {part.code.first, part.code.last - 1}:
                kinds[edge] = ("fence", 0)
    for part in document.parts:
        if part.kind in _LINE_KINDS and not (part.code is not None and part.first == part.code.first and part.code.fenced):
            for number in range(part.first, part.last):
                kinds[number] = (_LINE_KINDS[part.kind], part.level)
        for segment in part.all_segments:
            flags = Flag.CODE if part.kind == "code" else segment.flags
            plain = part.kind == "code" and not segment.ink
            style = None if plain or (flags, segment.ink) == (PLAIN, "") else (flags, segment.ink)
            styles[segment.start : segment.end] = [style] * (segment.end - segment.start)
    for table in {part.group: part for part in document.parts if part.kind == "row" and part.head}.values():
        kinds[min(table.last, len(lines) - 1)] = ("table", 0)
    found, start = [], 0
    for (kind, level), line in zip(kinds, lines, strict=True):
        spans = () if kind == "fence" else tuple(_spans(styles[start : start + len(line)], line))
        hang = units(_PREFIX.match(line)[0]) if kind == "text" else 0  # type: ignore[index]  # matches anything
        found.append(LineFormat(kind, level, hang, spans))
        start += len(line) + 1
    return found


_SYNTAX = (Flag.SYNTAX, "")
_LINE_KINDS: dict[str, LineKind] = {"heading": "heading", "code": "code", "row": "table"}


def _spans(styles: list[tuple[Flag, str] | None], line: str) -> Iterator[Span]:
    edges = None if line.isascii() else [0, *accumulate(units(letter) for letter in line)]
    for style, group in groupby(enumerate(styles), key=lambda numbered: numbered[1]):
        if style is not None:
            places = [place for place, _ in group]
            first, last = places[0], places[-1]
            if line[first : last + 1].strip():
                yield Span(first if edges is None else edges[first], last + 1 if edges is None else edges[last + 1], *style)


def units(text: str) -> int:
    """Returns the length of a text in UTF-16 units."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2
