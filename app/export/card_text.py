"""Lays out tokens as lines of text for a picture: measures them, keeps words whole, marks a cut with an ellipsis. No Qt."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

Measure = Callable[[str, float], float]
"""A function that returns the width of a text in pixels at a font size."""

CODE_SCALE = 0.9
"""Font size of code relative to the text around it."""
_NARROW = "ijl'|!.,:;`"
_WIDTHS = {
    " ": 0.278, "f": 0.29, "t": 0.29, "r": 0.345, "I": 0.29, "-": 0.345, "(": 0.345, ")": 0.345, "[": 0.3, "]": 0.3, "/": 0.3,
    "m": 0.85, "w": 0.75, "M": 0.86, "W": 0.97, "@": 1.02, "%": 0.91, "…": 1.0, "—": 1.0, "·": 0.3, "⏎": 0.8,
}  # fmt: skip


def estimated_width(text: str, size: float) -> float:
    """Estimates the width of a text in a common sans-serif font when no font can be measured; wide enough for most fonts."""
    return 1.1 * size * sum(map(_width, text))


def code_width(text: str, size: float) -> float:
    """Returns the width of a text in a fixed-width font of `CODE_SCALE` times the size, with two cells for each wide
    character."""
    cells = sum(
        2 if unicodedata.east_asian_width(letter) in "WF" else 0 if unicodedata.combining(letter) else 1 for letter in text
    )
    return 0.6 * CODE_SCALE * size * cells


def _width(letter: str) -> float:
    if letter in _WIDTHS:
        return _WIDTHS[letter]
    if letter in _NARROW:
        return 0.25
    if unicodedata.combining(letter) or letter in "\u200b\u200d\ufe0f":
        return 0.0
    if unicodedata.east_asian_width(letter) in "WF":
        return 1.0
    return 0.7 if letter.isupper() else 0.56


@dataclass(frozen=True, slots=True)
class TextRun:
    """Part of a line: the text of one token or of a part of it.

    Attributes:
        left, width: in pixels, including the blanks before the text.
        indent: width of these blanks.
        line: counted from 0.
        code: whether it is set in a fixed-width font.
    """

    text: str
    state: str
    left: float
    width: float
    indent: float
    line: int
    code: bool = False


@dataclass(frozen=True, slots=True)
class _Part:
    text: str
    state: str
    blank: str
    new_line: bool
    code: bool = False


def lay_out(
    tokens: Iterable[tuple[str, str] | tuple[str, str, bool]], width: float, max_lines: int, size: float, measure: Measure
) -> tuple[list[TextRun], bool]:
    """Returns the text in lines of at most `width` pixels, and whether all of it fitted.

    Args:
        tokens: (text, state) in reading order, or (text, state, whether it is code).
        max_lines: maximum number of lines; the text after them is replaced by "…".
    """
    runs: list[TextRun] = []

    def width_of(text: str, code: bool) -> float:
        """Returns the width of a text in its font."""
        return code_width(text, size) if code else measure(text, size)

    x, line = 0.0, 0
    break_pending, starts_line, blanks = False, True, ""  # blanks: those of tokens that consist of blanks only
    for word in _words(tokens):
        break_pending = break_pending or (word[0].new_line and bool(runs))
        starts_line = starts_line or word[0].new_line
        blanks = "" if word[0].new_line else blanks
        if not any(part.text for part in word):
            blanks += "".join(part.blank for part in word)
            continue  # empty lines are left out
        word[0], blanks = replace(word[0], blank=blanks + word[0].blank), ""
        if break_pending:
            x, line, break_pending = 0.0, line + 1, False
        word_width = sum(width_of(part.blank + part.text, part.code) for part in word)
        if x > 0 and x + word_width > width:
            x, line = 0.0, line + 1
        if line >= max_lines:
            return _with_ellipsis(runs, max_lines, width, size, measure), False
        for part in word:
            for piece in _split_to_width(part, width, width_of):
                if runs and runs[-1].line == line and x > 0 and x + width_of(piece.blank + piece.text, piece.code) > width:
                    x, line = 0.0, line + 1
                    if line >= max_lines:
                        return _with_ellipsis(runs, max_lines, width, size, measure), False
                blank = "" if x == 0 and not starts_line else piece.blank
                starts_line = False
                indent = width_of(blank, piece.code) if blank else 0.0
                piece_width = indent + width_of(piece.text, piece.code)
                runs.append(TextRun(piece.text, piece.state, x, piece_width, indent, line, piece.code))
                x += piece_width
    return runs, True


def _words(tokens: Iterable[tuple[str, str] | tuple[str, str, bool]]) -> Iterator[list[_Part]]:
    """Yields the parts of each word; a word begins at a blank or a line break."""
    word: list[_Part] = []
    for text, state, *flags in tokens:
        code = bool(flags and flags[0])
        for index, segment in enumerate(text.replace("\r\n", "\n").replace("\t", "    ").split("\n")):
            cleaned = _clean(segment)
            blank = cleaned[: len(cleaned) - len(cleaned.lstrip(" "))]
            is_new_line = index > 0
            if (is_new_line or blank or not word) and word:
                yield word
                word = []
            if cleaned.strip(" ") or is_new_line or blank:
                previous = word[-1] if word else None
                if previous is not None and not previous.text and not is_new_line:
                    word[-1] = _Part(cleaned[len(blank) :], state, previous.blank + blank, previous.new_line, code)
                else:
                    word.append(_Part(cleaned[len(blank) :], state, blank, is_new_line, code))
    if word:
        yield word


def _clean(text: str) -> str:
    """Removes characters that are invisible or not allowed in XML."""
    return "".join(letter for letter in text if letter in " \u200d" or not unicodedata.category(letter).startswith(("C", "Z")))


def _split_to_width(part: _Part, width: float, width_of: Callable[[str, bool], float]) -> Iterator[_Part]:
    """Yields a part in pieces no wider than a line."""
    rest = part
    while rest.text and width_of(rest.text, rest.code) > width:
        end = max(1, int(len(rest.text) * width / width_of(rest.text, rest.code)) - 1)
        yield replace(rest, text=rest.text[:end])
        rest = replace(rest, text=rest.text[end:], blank="", new_line=False)
    yield rest


def _with_ellipsis(runs: list[TextRun], max_lines: int, width: float, size: float, measure: Measure) -> list[TextRun]:
    """Returns the runs with "…" at the end of the last line, leaving out words that leave no space for it."""
    dots = measure(" …", size)
    shortened = list(runs)
    while shortened and shortened[-1].line == max_lines - 1 and shortened[-1].left + shortened[-1].width + dots > width:
        last = shortened.pop()
        if last.left == 0:  # a word as long as the line is cut
            text = last.text
            while text and measure(text, size) + last.indent + dots > width:
                text = text[:-1]
            shortened.append(replace(last, text=text, width=last.indent + measure(text, size)))
            break
    end = shortened[-1].left + shortened[-1].width if shortened and shortened[-1].line == max_lines - 1 else 0.0
    return [*shortened, TextRun("…", "more", end, dots, measure(" ", size) if end else 0.0, max_lines - 1)]
