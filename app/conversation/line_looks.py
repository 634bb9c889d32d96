"""The formats of an answer's lines while it grows, token by token, with every letter of its Markdown kept.

The text is split into blocks. A block that nothing can change any more is parsed as a whole, once, and forgotten. The lines of
the open block are parsed one by one, each when something in it may have closed, so the cost of a token does not depend on
the text before it. Code is coloured when its fence closes. Offsets count UTF-16 units, as Qt does. No Qt here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import accumulate, groupby
from typing import Literal, NamedTuple

from app.conversation.markdown_source import PLAIN, Code, Document, Flag, read
from app.conversation.tex import MATH_ENDS

LONG_LINE = 1000
"""Longest open line that is parsed while it grows, in characters."""
LONG_BLOCK = 20_000
"""Longest block that is parsed as a whole, in characters: the worst case of that length takes a second. A longer one keeps the
formats that its lines got one by one."""
LineKind = Literal["text", "heading", "code", "fence", "table"]


class Span(NamedTuple):
    """A run of equally formatted letters: [start, end) in UTF-16 units of the line without ghosts."""

    start: int
    end: int
    flags: Flag
    ink: str = ""


@dataclass(frozen=True, slots=True)
class Look:
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


NO_LOOK = Look()
CODE = Look("code")
FENCE = Look("fence")


class LineLooks:
    """Parses a growing text and reports the lines whose format has changed.

    Args:
        markdown: False recognises fences only, as in a prompt or beside other answers.

    Attributes:
        finished: the number of lines whose formats are final.
    """

    def __init__(self, markdown: bool) -> None:
        self.markdown = markdown
        self.finished = 0
        self._codes: list[Code] = []
        self._open_codes: list[Code] = []
        self._lines = [""]  # those of the open block; the last one is open
        self._behind: list[str] = []  # the rest of an open line beyond `LONG_LINE`, which every token would copy
        self._looks = [NO_LOOK]
        self._changed: dict[int, Look] = {}
        # The open block's kind; empty before its first letter. In an "unsure" one a line may go on with the text of an item or a
        # quote, or begin a paragraph: only the next blank line tells. A "lost" one has no end that could be told early.
        self._kind = ""
        self._fence = ""  # what opened the code that is open
        self._math = ""  # what will end the mathematics that is open
        self._content = 0  # where the text of the open item of a list begins
        self._after_blank = False
        self._open = False  # something came since the open block was last read as a whole

    @property
    def codes(self) -> list[Code]:
        """The closed code blocks, by their lines in the text."""
        return [*self._codes, *self._open_codes]

    def add(self, text: str) -> None:
        """Appends text without line breaks."""
        self._open = True
        before = self._lines[-1]
        if len(before) > LONG_LINE:
            self._behind.append(text)
            return
        line = self._lines[-1] = before + text
        if len(line) <= LONG_LINE and (len(before.lstrip()) < 8 or not _CLOSERS.isdisjoint(text)):
            self._set(len(self._lines) - 1, self._glance(line))

    def end_line(self) -> None:
        """Completes the open line and opens another one."""
        self._open = True
        line = self._whole_line()
        self._set(len(self._lines) - 1, self._glance(line))
        if self.markdown:
            self._open_codes = []
            self._advance(line)
        else:
            if line.lstrip().startswith("```"):
                self._fence = "" if self._fence else "```"
            self._drop(1)
        self._lines.append("")
        self._looks.append(NO_LOOK)
        self._set(len(self._lines) - 1, self._glance(""))

    def finish(self) -> None:
        """Parses the open block as a whole, because the text is complete. The block stays open in case more follows after all."""
        if self.markdown and self._open:
            self._open = False
            self._whole_line()
            self._open_codes = self._settle("\n".join(self._lines))

    def _whole_line(self) -> str:
        """Joins and returns the open line."""
        if self._behind:
            self._lines[-1] += "".join(self._behind)
            self._behind.clear()
        return self._lines[-1]

    def changes(self) -> dict[int, Look]:
        """Returns the formats that have changed since the last call, by line number in the text."""
        changed, self._changed = self._changed, {}
        return changed

    def _set(self, index: int, look: Look) -> None:
        if look != self._looks[index]:
            self._looks[index] = look
            self._changed[self.finished + index] = look

    def _glance(self, line: str) -> Look:
        """Returns the format of a line parsed by itself."""
        if not self.markdown:
            return FENCE if line.lstrip().startswith("```") else CODE if self._fence else NO_LOOK
        if self._fence:
            return FENCE if _closes(line, self._fence) else CODE
        if _NESTED_FENCE.match(line):
            return FENCE
        if not line.strip() or len(line) > LONG_LINE:
            return NO_LOOK
        if _ROW.match(line):
            return Look("table")
        bare = line.lstrip(" ")
        (look,) = looks_of(bare)
        by = len(line) - len(bare)
        spans = tuple(span._replace(start=span.start + by, end=span.end + by) for span in look.spans)
        return replace(look, spans=spans, hang=look.hang and look.hang + by)

    # Blocks

    def _advance(self, line: str) -> None:
        """Updates the open block after a complete line, which may begin or end a block."""
        blank, depth = not line.strip(), len(line) - len(line.lstrip(" "))
        at = len(self._lines) - 1
        if self._kind == "fence":
            if depth < 4 and _closes(line, self._fence):
                self._finish(at + 1)
            return
        if self._kind == "lost":
            return
        if self._math and (_NESTED_FENCE.match(line) or self._math in line.rstrip().removesuffix(self._math)):
            self._math, self._kind = "", "lost"  # it was none, and what stood in it was taken for it
            return
        if self._math:
            if not blank and not line.rstrip().endswith(self._math):
                return
            self._math = ""
            if blank:
                self._kind = "unsure"
            elif self._kind in ("math", "paragraph"):
                self._finish(at + 1)
            if not blank:
                return
        if self._fence:  # in an item of a list, which a line further left ends
            if blank or depth >= self._content:
                self._fence = "" if _closes(line, self._fence) else self._fence
                return
            self._fence, self._kind = "", "unsure"
        if blank:
            if self._kind == "list" and not self._after_blank and _MARKERS.fullmatch(self._lines[-2] if at else ""):
                self._kind = "unsure"  # an item that begins with a blank line is empty
            self._after_blank = True
            if self._kind in ("paragraph", "quote"):
                self._finish(at + 1)
        elif not self._kind or self._parts(line, depth):
            self._begin(at, line)
        else:
            self._after_blank = False
            if self._kind == "list" and (item := _ITEM.match(line)) and depth < self._content:
                self._content = _content_of(item)
            elif self._kind == "unsure" and _NESTED_FENCE.match(line):
                self._kind = "lost"
            elif (self._kind == "quote" and not line.lstrip(" ").startswith(">")) or (
                self._kind == "list" and depth < self._content
            ):
                self._kind = "unsure"
            self._look_inside(line)

    def _parts(self, line: str, depth: int) -> bool:
        """Returns whether the line cannot belong to the open block."""
        if self._kind == "indented":
            return depth < 4
        if _DELIMITERS.match(line) and (self._kind == "paragraph" or "|" in self._lines[-2]):
            return False  # it may underline a heading or be part of a table
        if self._kind == "unsure":
            return depth == 0 and (self._after_blank or _interrupts(line, "unsure"))
        if self._kind == "list" and "|" in line and _ITEM.match(line):
            return False  # by itself it might be the head of a table
        if self._kind == "list":
            return depth < self._content and (self._after_blank or _interrupts(line, "list"))
        return depth < 4 and _interrupts(line, self._kind)

    def _begin(self, at: int, line: str) -> None:
        """Begins a block with the line."""
        if self._kind:
            self._finish(at)
            at = len(self._lines) - 1
        self._after_blank = False
        bare = line.lstrip(" ")
        if line.startswith("    "):
            self._kind = "indented"
        elif found := _FENCE.match(line):
            self._kind, self._fence = ("fence", found[1]) if "|" not in line else ("lost", "")
        elif _HEADING.match(line) and "|" in line:  # the head of a table, if that is what comes
            self._kind = "unsure"
        elif _HEADING.match(line) or _RULE.match(line):
            self._finish(at + 1)
        elif item := _ITEM.match(line):
            self._kind = "list"
            self._content = _content_of(item)
            self._look_inside(line)
        elif bare.startswith(">"):
            self._kind = "quote"
        else:
            self._kind = "math" if _open_math(line) else "paragraph"
            self._math = _open_math(line)

    def _look_inside(self, line: str) -> None:
        """Detects code or mathematics that begins within another block."""
        self._math = "" if self._kind == "paragraph" and line.startswith("    ") else _open_math(line)
        if self._kind == "list" and (found := _NESTED_FENCE.match(line)):
            self._fence, self._kind = (found[1], "list") if "|" not in line else ("", "lost")

    def _finish(self, count: int) -> None:
        """Closes the open block after its first `count` lines, whose formats are final."""
        self._codes += self._settle("\n".join(self._lines[:count]) + "\n")
        self._drop(count)
        self._kind, self._fence, self._math, self._after_blank = "", "", "", False

    def _settle(self, source: str) -> list[Code]:
        """Parses lines of the open block as a whole; returns the code blocks in them."""
        if len(source) > LONG_BLOCK and self._kind != "fence":
            return []
        document = read(source, references=False)
        for index, look in enumerate(looks_in(document)[: len(self._lines)]):
            self._set(index, look)
        return [replace(code, first=code.first + self.finished, last=code.last + self.finished) for code in codes_in(document)]

    def _drop(self, count: int) -> None:
        self.finished += count
        del self._lines[:count], self._looks[:count]


# Lines that begin or end something. Where two readings are possible, these say no: a block then ends a little later.
_CLOSERS = frozenset("*_`)$~]")
_FENCE = re.compile(r" {0,3}(`{3,}(?=[^`]*$)|~{3,})")
_NESTED_FENCE = re.compile(r"\s*(?:(?:[-*+]|\d{1,9}[.)])\s+)*(`{3,}(?=[^`]*$)|~{3,})")
_HEADING = re.compile(r" {0,3}#{1,6}(?:\s|$)")
_RULE = re.compile(r" {0,3}(?:(?:\*[ ]*){3,}|(?:_[ ]*){3,}|(?:-[ ]*){3,})$")
_ITEM = re.compile(r"( {0,3}(?:[-*+]|\d{1,9}[.)]))( +|$)")
_FIRST_ITEM = re.compile(r" {0,3}(?:[-*+]|1[.)]) +\S")
"""A list item that can interrupt a paragraph: it is not empty, and its number, if any, is 1."""
_ROW = re.compile(r" {0,3}\|")
_DELIMITERS = re.compile(r"[\s|:-]+$")
_MARKERS = re.compile(r"\s*(?:(?:[-*+]|\d{1,9}[.)])\s*)+")
_PREFIX = re.compile(r"(?:\s*>)*\s*(?:(?:[-*+]|\d{1,9}[.)])\s+(?:\[[ xX]\]\s+)?)*")


def _content_of(item: re.Match[str]) -> int:
    """Returns the column in which the text of an item begins, and from which on lines belong to the item."""
    blanks = len(item[2])
    return len(item[1]) + (blanks if 1 <= blanks <= 4 and item.end() < len(item.string) else 1)


def _closes(line: str, fence: str) -> bool:
    marks = line.strip()
    return len(marks) >= len(fence) and not marks.strip(fence[0])


def _interrupts(line: str, kind: str) -> bool:
    """Returns whether a line begins a new block right after a line of a block of this kind, without a blank line between."""
    if _FENCE.match(line) or _HEADING.match(line):
        return True
    if kind == "unsure":
        return False
    item = _FIRST_ITEM if kind == "paragraph" else _ITEM
    return bool(_RULE.match(line) or item.match(line)) or (kind != "quote" and line.lstrip(" ").startswith(">"))


def _open_math(line: str) -> str:
    """Returns the mark that closes the mathematics that a line opens; empty if it opens none, or closes it itself."""
    bare = line.strip()
    end = MATH_ENDS.get(bare[:2], "")
    return "" if end in bare[2:] else end


# From a document to the looks of its lines


def looks_of(source: str) -> list[Look]:
    """Returns the formats of the lines of a source, parsed as a whole."""
    return looks_in(read(source, references=False))


def codes_in(document: Document) -> list[Code]:
    """Returns the code blocks of a document, each once."""
    return list(dict.fromkeys(part.code for part in document.parts if part.code is not None))


def looks_in(document: Document) -> list[Look]:
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
        found.append(Look(kind, level, hang, spans))
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
    """Length in UTF-16 units."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2
