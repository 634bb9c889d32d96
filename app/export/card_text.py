"""Lays out tokens as lines of text for a picture: measures them, keeps words whole, marks a cut with an ellipsis. No Qt."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

Measure = Callable[[str, float], float]
"""A function that returns the width of a text in pixels at a font size."""

CODE = 0.9
"""Font size of code relative to the text around it."""
_NARROW = "ijl'|!.,:;`"
_WIDTHS = {
    " ": 0.278, "f": 0.29, "t": 0.29, "r": 0.345, "I": 0.29, "-": 0.345, "(": 0.345, ")": 0.345, "[": 0.3, "]": 0.3, "/": 0.3,
    "m": 0.85, "w": 0.75, "M": 0.86, "W": 0.97, "@": 1.02, "%": 0.91, "…": 1.0, "—": 1.0, "·": 0.3, "⏎": 0.8,
}  # fmt: skip


def estimated(text: str, size: float) -> float:
    """Estimates the width of a text in a common sans-serif font when no font can be measured; wide enough for most fonts."""
    return 1.1 * size * sum(map(_width, text))


def code_width(text: str, size: float) -> float:
    """Returns the width of a text in a fixed-width font of `CODE` times the size, with two cells for each wide character."""
    cells = sum(
        2 if unicodedata.east_asian_width(letter) in "WF" else 0 if unicodedata.combining(letter) else 1 for letter in text
    )
    return 0.6 * CODE * size * cells


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
    tokens: Iterable[tuple[str, str] | tuple[str, str, bool]], width: float, most: int, size: float, measure: Measure
) -> tuple[list[TextRun], bool]:
    """Returns the text in lines of at most `width` pixels, and whether all of it fitted.

    Args:
        tokens: (text, state) in reading order, or (text, state, whether it is code).
        most: maximum number of lines; the text after them is replaced by "…".
    """
    runs: list[TextRun] = []

    def wide(text: str, code: bool) -> float:
        """Returns the width of a text in its font."""
        return code_width(text, size) if code else measure(text, size)

    x, line = 0.0, 0
    breaks, begins, before = False, True, ""  # before: blanks of tokens that consist of blanks only
    for word in _words(tokens):
        breaks = breaks or (word[0].new_line and bool(runs))
        begins = begins or word[0].new_line
        before = "" if word[0].new_line else before
        if not any(part.text for part in word):
            before += "".join(part.blank for part in word)
            continue  # empty lines are left out
        word[0], before = replace(word[0], blank=before + word[0].blank), ""
        if breaks:
            x, line, breaks = 0.0, line + 1, False
        needed = sum(wide(part.blank + part.text, part.code) for part in word)
        if x > 0 and x + needed > width:
            x, line = 0.0, line + 1
        if line >= most:
            return _ended(runs, most, width, size, measure), False
        for part in word:
            for piece in _fitting(part, width, wide):
                if runs and runs[-1].line == line and x > 0 and x + wide(piece.blank + piece.text, piece.code) > width:
                    x, line = 0.0, line + 1
                    if line >= most:
                        return _ended(runs, most, width, size, measure), False
                blank = "" if x == 0 and not begins else piece.blank
                begins = False
                indent = wide(blank, piece.code) if blank else 0.0
                taken = indent + wide(piece.text, piece.code)
                runs.append(TextRun(piece.text, piece.state, x, taken, indent, line, piece.code))
                x += taken
    return runs, True


def _words(tokens: Iterable[tuple[str, str] | tuple[str, str, bool]]) -> Iterator[list[_Part]]:
    """Yields the parts of each word; a word begins at a blank or a line break."""
    word: list[_Part] = []
    for text, state, *more in tokens:
        code = bool(more and more[0])
        for index, segment in enumerate(text.replace("\r\n", "\n").replace("\t", "    ").split("\n")):
            shown = _clean(segment)
            blank = shown[: len(shown) - len(shown.lstrip(" "))]
            starts = index > 0
            if (starts or blank or not word) and word:
                yield word
                word = []
            if shown.strip(" ") or starts or blank:
                before = word[-1] if word else None
                if before is not None and not before.text and not starts:
                    word[-1] = _Part(shown[len(blank) :], state, before.blank + blank, before.new_line, code)
                else:
                    word.append(_Part(shown[len(blank) :], state, blank, starts, code))
    if word:
        yield word


def _clean(text: str) -> str:
    """Removes characters that are invisible or not allowed in XML."""
    return "".join(letter for letter in text if letter in " \u200d" or not unicodedata.category(letter).startswith(("C", "Z")))


def _fitting(part: _Part, width: float, wide: Callable[[str, bool], float]) -> Iterator[_Part]:
    """Yields a part in pieces no wider than a line."""
    rest = part
    while rest.text and wide(rest.text, rest.code) > width:
        end = max(1, int(len(rest.text) * width / wide(rest.text, rest.code)) - 1)
        yield replace(rest, text=rest.text[:end])
        rest = replace(rest, text=rest.text[end:], blank="", new_line=False)
    yield rest


def _ended(runs: list[TextRun], most: int, width: float, size: float, measure: Measure) -> list[TextRun]:
    """Returns the runs with "…" at the end of the last line, leaving out words that leave no space for it."""
    dots = measure(" …", size)
    kept = list(runs)
    while kept and kept[-1].line == most - 1 and kept[-1].left + kept[-1].width + dots > width:
        last = kept.pop()
        if last.left == 0:  # a word as long as the line is cut
            text = last.text
            while text and measure(text, size) + last.indent + dots > width:
                text = text[:-1]
            kept.append(replace(last, text=text, width=last.indent + measure(text, size)))
            break
    end = kept[-1].left + kept[-1].width if kept and kept[-1].line == most - 1 else 0.0
    return [*kept, TextRun("…", "more", end, dots, measure(" ", size) if end else 0.0, most - 1)]
