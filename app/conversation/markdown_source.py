"""A lossless Markdown reader: every part of the rendered text knows its position in the source.

markdown-it does the parsing. It records no positions of inline markup, so its inline parser is extended to record where each
token begins and ends. The lines of a block are located by matching them with the ends of source lines. HTML is text, images are
links to their address, and mathematics (`$a$`, `$$a$$`, `\\(a\\)`, `\\[a\\]`) is parsed before the backslash can escape anything.

Offsets count Python characters of the source as it is shown (`shown`). No Qt here.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import IntFlag
from functools import cache
from typing import TYPE_CHECKING, Literal, NamedTuple

from app.conversation.tex import unicode_of

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

HIGHLIGHTED = 20_000
"""Longest code that is coloured, in characters; for that length, the lexer takes about 50 ms."""
LINE_BREAK = "\u2028"
"""A line break inside a part: Qt's line separator."""


class Flag(IntFlag):
    """The text style of a letter."""

    BOLD = 1
    ITALIC = 2
    STRUCK = 4
    CODE = 8
    MATH = 16
    LINK = 32
    QUOTED = 64
    SYNTAX = 128


PLAIN = Flag(0)
PartKind = Literal["text", "heading", "code", "row", "rule", "math"]


class Segment(NamedTuple):
    """Rendered text and the part of the source that it comes from.

    If the two are equally long, their letters correspond one to one. Otherwise (an entity, mathematics) offsets are interpolated.

    Attributes:
        ink: the lexer's class of code: "keyword", "string" ... or "".
        href: the target of a link.
    """

    text: str
    start: int
    end: int
    flags: Flag = PLAIN
    ink: str = ""
    href: str = ""

    def source_of(self, at: int) -> int:
        """Returns the source offset of the letter at an index of the text."""
        return self.start + (at if len(self.text) == self.end - self.start else at * (self.end - self.start) // len(self.text))


class Pair(NamedTuple):
    """Markup around a stretch of the source: [open_start, open_end) text [close_start, close_end)."""

    open_start: int
    open_end: int
    close_start: int
    close_end: int


@dataclass(frozen=True, slots=True)
class Code:
    """A code block: its lines in the source (fences included, `last` excluded), its language and its text.

    Attributes:
        closed: whether a fence ends it.
    """

    first: int
    last: int
    fenced: bool
    closed: bool
    language: str
    text: str


@dataclass(frozen=True, slots=True)
class Part:
    """A rendered row: a paragraph, a heading, a line of code, a row of a table.

    Attributes:
        first, last: its lines in the source, the last one excluded.
        nesting: its containers from the outside: "q" for a quote, "l" for a list item.
        marker: the marker of the list item that begins with this part.
        group: code and tables only: parts of one block have the same number.
        cells: rows only: the segments and the alignment of each cell.
    """

    kind: PartKind
    first: int
    last: int
    segments: tuple[Segment, ...] = ()
    nesting: str = ""
    marker: str = ""
    level: int = 0
    group: int = -1
    head: bool = False
    code: Code | None = None
    cells: tuple[tuple[tuple[Segment, ...], str], ...] = ()

    @property
    def all_segments(self) -> Iterator[Segment]:
        """All segments; in a row, cell by cell."""
        yield from self.segments
        for segments, _ in self.cells:
            yield from segments


@dataclass(frozen=True, slots=True)
class Document:
    """A source and its rendered parts; `pairs` are sorted by their start."""

    source: str
    parts: tuple[Part, ...]
    pairs: tuple[Pair, ...]


def shown(text: str) -> str:
    """Returns the text of a token as a flow shows it: tabs expanded, other line breaks and control characters of Qt replaced."""
    text = text.replace("\r\n", "\n").replace("\t", "    ").replace("\x00", "\N{REPLACEMENT CHARACTER}")
    return text.replace("\u2028", " ").replace("\u2029", " ")


def read(source: str, references: bool = True) -> Document:
    """Parses a whole source that `shown` has processed.

    Args:
        references: whether to resolve links defined elsewhere in the text ("[name]: address"); this needs the whole text.
    """
    return _Reader(source).read(_parser(references))


def blocks_of(source: str) -> list[Token]:
    """Returns markdown-it's tokens of the blocks of a source, without those of the text in them; this is much faster."""
    tokens: list[Token] = []
    parser = _parser(references=False)
    parser.block.parse(source, parser, {}, tokens)
    return tokens


def link_in(line: str, at: int) -> str:
    """Returns the address of the link at an index of a line, brackets and address of the link included; empty if there is
    none."""
    document = read(line, references=False)
    around = [pair for pair in document.pairs if pair.open_start <= at < pair.close_end]
    for part in document.parts:
        for segment in part.all_segments:
            inside = (pair.open_end <= segment.start and segment.end <= pair.close_start for pair in around)
            if segment.href and (segment.start <= at < segment.end or any(inside)):
                return segment.href
    return ""


class _Reader:
    """Converts markdown-it's tokens to parts."""

    def __init__(self, source: str) -> None:
        self.source = source.replace("\r", " ")
        self.lines = self.source.split("\n")
        self.starts = [0]
        for line in self.lines:
            self.starts.append(self.starts[-1] + len(line) + 1)
        self.parts: list[Part] = []
        self.pairs: list[Pair] = []
        self.nesting = ""
        self.marker = ""
        self.group = 0

    def read(self, parser: MarkdownIt) -> Document:
        """Parses the source with this parser."""
        level, head, align, cursor = 0, False, "", 0
        row: list[tuple[tuple[Segment, ...], str]] | None = None
        for token in parser.parse(self.source):
            match token.type:
                case "blockquote_open":
                    self.nesting += "q"
                case "list_item_open":
                    self.nesting += "l"
                    self.marker = f"{token.info}{token.markup}" if token.info else "•"
                    item = token
                case "list_item_close":
                    if self.marker:  # an empty item still shows its marker
                        self._add("text", item)
                    self.nesting = self.nesting[:-1]
                case "blockquote_close":
                    self.nesting = self.nesting[:-1]
                case "heading_open":
                    level = int(token.tag[1])
                case "heading_close":
                    level = 0
                case "hr":
                    self._add("rule", token)
                case "fence" | "code_block":
                    self._code(token)
                case "math_block":
                    self._math(token)
                case "table_open":
                    self.group += 1
                case "thead_open" | "tbody_open":
                    head = token.type == "thead_open"
                case "tr_open":
                    row, cursor, opening = [], 0, token
                case "th_open" | "td_open":
                    align = str(token.attrs.get("style", "")).removeprefix("text-align:")
                case "tr_close" if row is not None:
                    self.parts.append(replace(self._part("row", opening), cells=tuple(row), group=self.group, head=head))
                    row = None
                case "inline" if row is not None:
                    offsets, cursor = self._cell(token, cursor)
                    row.append((self._inline(token, offsets, Flag.BOLD if head else PLAIN), align))
                case "inline":
                    offsets = self._heading(token) if level and token.map and token.map[1] - token.map[0] == 1 else None
                    segments = self._inline(token, offsets or self._offsets(token), PLAIN)
                    self.parts.append(replace(self._part("heading" if level else "text", token), segments=segments, level=level))
        return Document(self.source, tuple(self.parts), tuple(sorted(self.pairs)))

    def _part(self, kind: PartKind, token: Token) -> Part:
        """Returns an empty part at a token's lines; the first part of a list item takes its marker."""
        first, last = token.map or [0, 0]
        marker, self.marker = self.marker, ""
        return Part(kind, first, last, nesting=self.nesting, marker=marker)

    def _add(self, kind: PartKind, token: Token) -> None:
        self.parts.append(self._part(kind, token))

    # Where the text of a token stands in the source

    def _offsets(self, token: Token) -> list[int] | None:
        """Returns the source offset of each letter of a token's content, and of its end; None if its lines cannot be located."""
        first = (token.map or [0, 0])[0]
        found: list[int] = []
        for number, text in enumerate(token.content.split("\n"), first):
            line = self.lines[number] if number < len(self.lines) else ""
            whole = line if line.endswith(text) else line.rstrip()
            if not whole.endswith(text):
                return None
            start = self.starts[number] + len(whole) - len(text)
            found += range(start, start + len(text) + 1)
        return found

    def _heading(self, token: Token) -> list[int] | None:
        """Returns the source offsets of a heading's content, which may have marks on both sides; None if it cannot be located."""
        number = (token.map or [0, 0])[0]
        line = self.lines[number]
        at = line.find(token.content, line.find("#") + 1 if "#" in line else 0)
        start = self.starts[number] + at
        return None if at < 0 or "#" not in line else list(range(start, start + len(token.content) + 1))

    def _cell(self, token: Token, cursor: int) -> tuple[list[int] | None, int]:
        """Returns the source offsets of a cell's content, None if unknown, and where in its line the next cell begins."""
        number = (token.map or [0, 0])[0]
        line = self.lines[number]
        if cursor == 0 and (prefix := _ROW_START.match(line)):
            cursor = prefix.end()
        needle = token.content.replace("|", "\\|")
        border = _BORDER.search(line, cursor)
        at = line.find(needle, cursor) if needle else cursor
        if at < 0 or (border is not None and at + len(needle) > border.start()):
            return None, border.end() if border else len(line)
        start = self.starts[number] + at
        escapes = {found.start() for found in re.finditer(r"\\(?=\|)", needle)}
        offsets = [start + index for index in range(len(needle)) if index not in escapes]
        return [*offsets, start + len(needle)], border.end() if border else len(line)

    # Text

    def _inline(self, token: Token, offsets: list[int] | None, flags: Flag) -> tuple[Segment, ...]:
        if not token.content:
            return ()
        if offsets is None or len(offsets) <= len(token.content):  # unformatted, because the positions of its letters are unknown
            first, last = token.map or [0, 0]
            text = "\n".join(self.lines[first:last]).strip()
            start = self.source.find(text, self.starts[first])
            return (Segment(text.replace("\n", LINE_BREAK), start, start + len(text), flags),) if text else ()
        if "q" in self.nesting:
            flags |= Flag.QUOTED
        return tuple(self._linked(self._merged(self._children(token.children or [], offsets, flags))))

    def _children(self, children: Sequence[Token], offsets: list[int], flags: Flag) -> Iterator[Segment]:
        """Yields a segment for every token with letters. Markup around them is recorded as a pair."""
        open_: list[tuple[Flag, str, int, int]] = []
        href = ""
        for child in children:
            start, end = _span(child)
            now = flags
            for flag, *_ in open_:
                now |= flag
            kind = child.type.rpartition("_")
            if kind[0] in _FLAGS and kind[2] == "open":
                wide = 1 if kind[0] == "strong" else 0  # the parser leaves the first star as an empty text
                if kind[0] == "link":
                    href = str(child.attrs.get("href", ""))
                open_.append((_FLAGS[kind[0]], href, start - wide, end))
            elif kind[0] in _FLAGS and kind[2] == "close" and open_:
                wide = 1 if kind[0] == "strong" else 0
                _, _, first, behind = open_.pop()
                href = "" if kind[0] == "link" else href
                self._pair(offsets, first, behind, start, end + wide)
            elif child.type in ("softbreak", "hardbreak"):
                yield Segment(LINE_BREAK, offsets[start], offsets[start] + 1, now & ~Flag.LINK)
            elif child.type == "code_inline":
                marks = len(child.markup)
                spare = (end - start - 2 * marks - len(child.content)) // 2
                first, last = start + marks + spare, end - marks - spare
                self._pair(offsets, start, first, last, end)
                yield Segment(child.content, offsets[first], offsets[last - 1] + 1, now | Flag.CODE, "", href)
            elif child.type == "math_inline":
                first, last = start + len(child.markup), end - len(child.markup)
                self._pair(offsets, start, first, last, end)
                yield Segment(unicode_of(child.content), offsets[first], offsets[last - 1] + 1, now | Flag.MATH, "", href)
            elif child.type == "image":
                address = str(child.attrs.get("src", ""))
                words = child.content.replace("\n", " ") or address or "image"
                first, last = (start + 2, start + 2 + len(child.content)) if child.content else (start, end)
                yield Segment(words, offsets[first], offsets[last - 1] + 1, now | Flag.LINK, "", href or address)
            elif child.content and end > start:
                yield Segment(child.content, offsets[start], offsets[end - 1] + 1, now, "", href)

    def _pair(self, offsets: list[int], *edges: int) -> None:
        self.pairs.append(Pair(*(offsets[edge] for edge in edges)))

    def _merged(self, segments: Iterable[Segment]) -> Iterator[Segment]:
        """Merges adjacent texts: the parser makes a token of each star that is not markup."""
        last: Segment | None = None
        for segment in segments:
            if last is not None and last.end == segment.start and last[3:] == segment[3:] and self._literal(last, segment):
                last = Segment(last.text + segment.text, last.start, segment.end, *segment[3:])
                continue
            if last is not None:
                yield last
            last = segment
        if last is not None:
            yield last

    def _literal(self, *segments: Segment) -> bool:
        return all(segment.text == self.source[segment.start : segment.end] for segment in segments)

    def _linked(self, segments: Iterable[Segment]) -> Iterator[Segment]:
        """Turns addresses in the text into links."""
        for segment in segments:
            at = 0
            if (
                not segment.href
                and not segment.flags & (Flag.CODE | Flag.MATH)
                and "://" in segment.text
                and self._literal(segment)
            ):
                for found in _ADDRESS.finditer(segment.text):
                    address = _without_marks(found[0])
                    end = found.start() + len(address)
                    if found.start() > at:
                        yield _slice(segment, at, found.start())
                    yield _slice(segment, found.start(), end)._replace(flags=segment.flags | Flag.LINK, href=address)
                    at = end
            if at < len(segment.text):
                yield _slice(segment, at, len(segment.text)) if at else segment

    # Code and mathematics

    def _code(self, token: Token) -> None:
        first, last = token.map or [0, 0]
        fenced = token.type == "fence"
        language = token.info.strip().split(" ")[0] if fenced else ""
        texts = token.content.removesuffix("\n").split("\n") if token.content else []
        closed = fenced and last - first == len(texts) + 2
        code = Code(first, last, fenced, closed, language, "\n".join(texts))
        inks = _inks(code.text, language)
        self.group += 1
        part = replace(self._part("code", token), group=self.group, code=code)
        start = 0
        for index, text in enumerate(texts):
            number = first + fenced + index
            line = self.lines[number] if number < len(self.lines) else ""
            at = self.starts[number] + max(0, len(line) - len(text))
            pieces = _inked(inks, start, start + len(text)) if inks else [(0, len(text), "")]
            segments = tuple(Segment(text[a:b], at + a, at + b, Flag.CODE, ink) for a, b, ink in pieces if b > a)
            self.parts.append(
                replace(part, first=number, last=number + 1, segments=segments, marker=part.marker if not index else "")
            )
            start += len(text) + 1
        if closed and texts:
            opening, closing = self.starts[first], self.starts[last - 1]
            self.pairs.append(Pair(opening, self.starts[first + 1], closing - 1, closing + len(self.lines[last - 1])))
        if not texts:
            self.parts.append(replace(part, first=first, last=first + 1))

    def _math(self, token: Token) -> None:
        first, last = token.map or [0, 0]
        start, end = self.starts[first], self.starts[last - 1] + len(self.lines[last - 1])
        block = self.source[start:end]
        inner = block.strip()[2:-2]
        at = start + block.index(inner, block.index(block.strip()) + 2)
        lines = [line for line in unicode_of(inner).split("\n") if line.strip()]
        text = LINE_BREAK.join(line.strip() for line in lines)
        segments = (Segment(text, at, at + len(inner), Flag.MATH),) if text and inner else ()
        self.pairs.append(Pair(start, at, at + len(inner), end))
        self.parts.append(replace(self._part("math", token), segments=segments))


_FLAGS = {"strong": Flag.BOLD, "em": Flag.ITALIC, "s": Flag.STRUCK, "link": Flag.LINK}
_ADDRESS = re.compile(r"\bhttps?://[^\s<>`|\u2028]+")
_ROW_START = re.compile(r"[\s>]*(?:(?:[-*+]|\d{1,9}[.)])\s+)*[\s>]*\|?")
_BORDER = re.compile(r"(?<!\\)\|")


def _without_marks(address: str) -> str:
    """Returns an address without trailing punctuation and without closing parentheses that it does not open."""
    unopened, end = address.count(")") - address.count("("), len(address)
    while address[end - 1] in ".,;:!?'\"*_~" or (address[end - 1] == ")" and unopened > 0):
        unopened -= address[end - 1] == ")"
        end -= 1
    return address[:end]


def _slice(segment: Segment, start: int, end: int) -> Segment:
    return segment._replace(text=segment.text[start:end], start=segment.start + start, end=segment.start + end)


def _span(token: Token) -> tuple[int, int]:
    start, end = token.meta.get("span", (0, 0))
    return start, end


# Colours of code


@cache
def _lexer(language: str) -> object:
    from pygments.lexers import get_lexer_by_name
    from pygments.util import ClassNotFound

    try:
        return get_lexer_by_name(language, stripnl=False, ensurenl=False) if language else None
    except ClassNotFound:
        return None


INKS = {
    "Keyword.Type": "name",
    "Keyword": "keyword",
    "Operator.Word": "keyword",
    "Comment": "comment",
    "Literal.String": "string",
    "Literal.Number": "number",
    "Keyword.Constant": "number",
    "Name.Function": "name",
    "Name.Class": "name",
    "Name.Decorator": "name",
    "Name.Tag": "keyword",
    "Name.Attribute": "name",
    "Name.Builtin": "name",
    "Generic.Inserted": "string",
    "Generic.Deleted": "number",
    "Generic.Heading": "keyword",
}
"""The ink of each Pygments token type, without "Token."; a subtype has the ink of its nearest listed parent."""


@cache
def _ink(kind: str) -> str:
    while kind:
        if kind in INKS:
            return INKS[kind]
        kind = kind.rpartition(".")[0]
    return ""


def _inks(text: str, language: str) -> list[tuple[int, str]]:
    """Returns where each ink begins; empty if no lexer knows the language, or the code is too long."""
    from pygments.lexer import Lexer

    lexer = _lexer(language.lower().strip("{}."))
    if not isinstance(lexer, Lexer) or len(text) > HIGHLIGHTED:
        return []
    found: list[tuple[int, str]] = []
    at = 0
    for kind, words in lexer.get_tokens(text):
        ink = _ink(str(kind).removeprefix("Token."))
        if not found or found[-1][1] != ink:
            found.append((at, ink))
        at += len(words)
    return found if at == len(text) else []  # a lexer that changes the text cannot colour it


def _inked(inks: list[tuple[int, str]], start: int, end: int) -> Iterator[tuple[int, int, str]]:
    """Yields the inks of one line, as (start, end, ink) within it."""
    index = max(0, bisect_right(inks, start, key=lambda ink: ink[0]) - 1)
    while index < len(inks) and inks[index][0] < end:
        behind = inks[index + 1][0] if index + 1 < len(inks) else end
        yield max(0, inks[index][0] - start), min(end, behind) - start, inks[index][1]
        index += 1


# The parser


@cache
def _parser(references: bool) -> MarkdownIt:
    from app.conversation.markdown_parser import make

    return make(references)
