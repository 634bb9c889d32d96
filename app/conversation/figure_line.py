"""The words above and below an answer, in several colours and lines: layout, painting and hit testing."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from PySide6.QtCore import QPointF, Qt
from PySide6.QtGui import QFont, QFontMetricsF, QPainter

from app.look.marks import draw_text

Word = tuple[str, str, bool]
"""Text, colour, bold. Two blanks before the text begin a new figure."""


class _Face(NamedTuple):
    """A font in one weight, its metrics, and the width of a blank."""

    font: QFont
    metrics: QFontMetricsF
    blank: float


@dataclass(frozen=True, slots=True)
class Placed:
    """A word with its position: `word` is its index, `text` the part of it that fits."""

    word: int
    text: str
    left: float
    right: float
    face: QFont


def placed(font: QFont, width: float, words: Sequence[Word]) -> Iterator[Placed]:
    """Yields the words that fit, from the left edge on. A figure is left out if its number does not fit; other words are elided
    with "…"."""
    x = 0.0
    faces = _face(font, False), _face(font, True)
    for place, (text, _, bold) in enumerate(words):
        face, metrics, blank = faces[bold]
        if text.startswith("  ") and place + 1 < len(words) and not (figure := words[place + 1])[0].startswith("  "):
            needed = metrics.horizontalAdvance(text) + faces[figure[2]].metrics.horizontalAdvance(" " + figure[0])
            if x + needed > width:
                return
        x += 2 * blank if x and text.startswith("  ") else 0
        shown = text.strip()
        if not shown:
            return
        advance = metrics.horizontalAdvance(shown)
        if advance > width - x:
            shown = metrics.elidedText(shown, Qt.TextElideMode.ElideRight, max(0.0, width - x))
            if shown in ("", "…"):
                return
            advance = metrics.horizontalAdvance(shown)
        yield Placed(place, shown, x, x + advance, face)
        x += advance + 1.4 * blank


def in_lines(font: QFont, width: float, words: Sequence[Word]) -> list[list[Word]]:
    """Wraps the words into as many lines as they need; lines break only between figures."""
    lines: list[list[Word]] = []
    for word in words:
        if not lines or not word[0].startswith("  "):
            lines = lines or [[]]
            lines[-1].append(word)
        elif _needed(font, [*lines[-1], word]) <= width:
            lines[-1].append(word)
        else:
            lines.append([(word[0].strip(), *word[1:])])
    return lines


def _needed(font: QFont, words: Sequence[Word]) -> float:
    return max((word.right for word in placed(font, math.inf, words)), default=0.0)


def paint_words(painter: QPainter, font: QFont, x: float, baseline: float, width: float, words: Sequence[Word]) -> None:
    """Paints the words that fit, from `x` on."""
    for word in placed(font, width, words):
        painter.setFont(word.face)
        draw_text(painter, words[word.word][1], QPointF(x + word.left, baseline), word.text)


def figure_at(font: QFont, x: float, width: float, words: Sequence[Word]) -> tuple[str, ...]:
    """Returns the words of the figure at x (its name and its number); empty beside the figures."""
    figures: list[list[Placed]] = []
    for word in placed(font, width, words):
        if not figures or words[word.word][0].startswith("  "):
            figures.append([])
        figures[-1].append(word)
    for figure in figures:
        if figure[0].left <= x <= figure[-1].right:
            return tuple(words[word.word][0].strip() for word in figure)
    return ()


def _face(font: QFont, bold: bool) -> _Face:
    face = QFont(font)
    face.setWeight(QFont.Weight.DemiBold if bold else QFont.Weight.Normal)
    metrics = QFontMetricsF(face)
    return _Face(face, metrics, metrics.horizontalAdvance(" "))
