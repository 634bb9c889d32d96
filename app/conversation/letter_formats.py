"""The fonts and colours of letters: Markdown, code, and rejected or unjudged tokens, which are dim, small or struck out."""

from __future__ import annotations

from dataclasses import dataclass

from PySide6.QtGui import QColor, QFont, QFontMetricsF, QTextCharFormat, QTextLayout, QTextOption

from app.conversation.chunks import Chunk
from app.conversation.line_formats import LineFormat, Span, units
from app.conversation.markdown_source import Flag
from app.look.colours import code_colours
from app.look.theme import Theme, sized
from engine.lens.pieces import GHOSTS, Kind

HEADINGS = (1.4, 1.25, 1.12, 1.0, 1.0, 1.0)
"""Size of a heading of each level, relative to the text."""
TEXT_WITH_GHOSTS, CODE_WITH_GHOSTS = 1.72, 1.62
"""Height of a line of text and of code with a strip for ghosts above it, relative to the font's own. All lines have it, so that
no line moves when a proposal is rejected."""
LONGEST_WORD = 2000
"""Longest word that is not broken, in characters; a longer one is broken wherever a line is full."""


@dataclass(frozen=True, slots=True)
class Style:
    """Fonts and colours of one flow.

    Attributes:
        line_height: height of a line, relative to the font's own.
        ghosts_above: rejected tokens are not in the line but small in a free strip above it.
        highlighted: the kind of tokens that is highlighted while all others are dim; None if none is.
    """

    theme: Theme
    text: QFont
    code: QFont
    line_height: float = 1.45
    ghosts_above: bool = False
    highlighted: Kind | None = None


def unbroken(chunk: Chunk, style: Style) -> tuple[QTextLayout, QFontMetricsF, float]:
    """Returns the layout of a chunk's letters before line breaking, the metrics of its font, and the height of a line in
    pixels."""
    font = _font_of(chunk.line_format, style)
    layout = QTextLayout(chunk.text, font)
    option = QTextOption()
    at_words, anywhere = QTextOption.WrapMode.WrapAtWordBoundaryOrAnywhere, QTextOption.WrapMode.WrapAnywhere
    option.setWrapMode(anywhere if _has_endless_word(chunk.text) else at_words)
    layout.setTextOption(option)
    layout.setFormats(_formats(chunk, font, style))
    layout.setCacheEnabled(True)
    metrics = QFontMetricsF(font)
    height = (
        (CODE_WITH_GHOSTS if chunk.code else TEXT_WITH_GHOSTS) if style.ghosts_above else 1.3 if chunk.code else style.line_height
    )
    return layout, metrics, metrics.height() * height


def _has_endless_word(text: str) -> bool:
    """Returns whether a word is too long. Qt searches its end once per line, which takes seconds in a long word."""
    return len(text) > LONGEST_WORD and max(map(len, text.split(" "))) > LONGEST_WORD


def _font_of(look: LineFormat, style: Style) -> QFont:
    """Returns the font of a line: that of code, of a heading of its level, or of the text."""
    if look.kind in ("code", "fence", "table"):
        return style.code
    if look.kind != "heading":
        return style.text
    return sized(style.text, style.text.pixelSize() * HEADINGS[look.level - 1], QFont.Weight.DemiBold)


def _formats(chunk: Chunk, font: QFont, style: Style) -> list[QTextLayout.FormatRange]:
    """Returns the formats of a chunk's letters: Markdown, ghosts, and the dimmed rest while a kind of tokens is highlighted."""
    theme = style.theme
    formats = []
    if chunk.line_format.kind == "fence":
        formats.append(format_range(0, units(chunk.text), _format(theme.faint, font)))
    looks = {kind: _ghost_format(kind, font, style) for kind in GHOSTS.intersection(run.kind for run in chunk.runs)}
    back = None if style.highlighted is None else _format(theme.muted, font)
    spans, at = iter(chunk.spans), 0
    span = next(spans, None)
    for run in chunk.runs:
        if (look := looks.get(run.kind)) is not None:
            formats.append(format_range(run.start, run.length, look))
            continue
        while span is not None and span.start < at + run.length:
            start, end = max(span.start, at), min(span.end, at + run.length)
            if start < end:
                formats.append(format_range(run.start + start - at, end - start, letters(span, font, style)))
            if span.end > at + run.length:
                break
            span = next(spans, None)
        at += run.length
        if back is not None and style.highlighted != run.kind:
            formats.append(format_range(run.start, run.length, back))
    return formats


def _ghost_format(kind: Kind, font: QFont, style: Style) -> QTextCharFormat:
    """Returns the format of rejected or unjudged tokens: dimmer and smaller than the answer, unless they are highlighted."""
    theme, highlighted = style.theme, style.highlighted
    back = highlighted is not None and kind != highlighted
    if kind == "rejected":
        colour = theme.muted if back else theme.ghost if highlighted is None else theme.rejected
        return _format(colour, font, struck=True, factor=0.88)
    return _format(theme.muted if back else theme.faint if highlighted is None else theme.text, font, factor=0.8)


def letters(span: Span, font: QFont, style: Style) -> QTextCharFormat:
    """Returns the format of a span on a line of this font."""
    theme, flags = style.theme, span.flags
    look = QTextCharFormat()
    if flags & (Flag.CODE | Flag.MATH) and font.family() != style.code.family():
        look.setFont(sized(style.code, style.code.pixelSize() * font.pixelSize() / style.text.pixelSize(), font.weight()))
    if flags & Flag.BOLD:  # the bundled face has a semibold but no semibold italic, which Qt makes only of the bold
        look.setFontWeight(QFont.Weight.Bold if flags & Flag.ITALIC else QFont.Weight.DemiBold)
    if flags & (Flag.ITALIC | Flag.MATH):
        look.setFontItalic(True)
    if flags & Flag.STRUCK:
        look.setFontStrikeOut(True)
    colour = (
        theme.faint if flags & Flag.SYNTAX else theme.accent if flags & Flag.LINK else theme.dim if flags & Flag.QUOTED else ""
    )
    if colour := code_colours(theme).get(span.ink, colour):
        look.setForeground(QColor(colour))
    return look


def _format(colour: str, font: QFont, struck: bool = False, factor: float = 1.0) -> QTextCharFormat:
    look = QTextCharFormat()
    look.setForeground(QColor(colour))
    if struck:
        look.setFontStrikeOut(True)
    if factor != 1.0:
        smaller = sized(font, max(8, font.pixelSize() * factor))
        smaller.setStrikeOut(struck)
        look.setFont(smaller)
    return look


def format_range(start: int, length: int, look: QTextCharFormat) -> QTextLayout.FormatRange:
    """Returns Qt's format range for `length` letters from `start` on."""
    result = QTextLayout.FormatRange()
    result.start, result.length = start, length
    result.format = look
    return result
