"""The proposals of a round that were not accepted, in a strip above the text: shown while the round is pointed at."""

from __future__ import annotations

from dataclasses import dataclass

from PySide6.QtCore import QPointF, QRect, QRectF
from PySide6.QtGui import QColor, QFont, QFontMetricsF, QPainter, QPen

from app.look.marks import draw_rounded, draw_text
from app.look.theme import Theme
from engine.lens.pieces import Kind, visible
from engine.types import Round

PAD, GAP = 6.0, 5.0
MOST = 12
"""Maximum number of proposals in a strip; the others are counted."""
Tokens = tuple[tuple[str, Kind], ...]


def draft_strip(round_: Round) -> Tokens:
    """Returns the text and kind of the proposals that were not accepted, in the order of the record, the rejected one first. Of a
    tree, only the choices for the position that ended the path; "+3 not reached" stands for the others."""
    ghosts = [each for each in round_.proposals if each.status != "accepted"]
    if round_.is_tree:
        ghosts = [*round_.choices(round_.accepted)] or ghosts
    shown: list[tuple[str, Kind]] = [
        (visible(each.text, each.bytes, within_text=True).strip() or "·", "rejected" if each.status == "rejected" else "unjudged")
        for each in ghosts[:MOST]
    ]
    if others := sum(each.status != "accepted" for each in round_.proposals) - len(shown):
        shown.append((f"+{others}{' not reached' * round_.is_tree}", "unjudged"))
    return tuple(shown)


@dataclass(frozen=True, slots=True)
class DraftStrip:
    """A strip with its place in the viewport: its tokens, each with the left edge of its text."""

    rect: QRectF
    tokens: tuple[tuple[float, str, Kind], ...]
    font: QFont

    @classmethod
    def placed(cls, tokens: Tokens, font: QFont, at: QPointF, column: QRect) -> DraftStrip:
        """Returns a strip whose text begins at a point, the bottom left of the first token; it moves to stay in the column, and
        leaves out tokens that do not fit."""
        metrics, x, kept = QFontMetricsF(font), 0.0, list[tuple[float, str, Kind]]()
        for text, kind in tokens:
            width = metrics.horizontalAdvance(text)
            if kept and x + width > column.width() - 2 * PAD:
                break
            kept.append((x, text, kind))
            x += width + GAP
        width = x - GAP
        left = max(column.left() + PAD, min(at.x(), column.left() + column.width() - width - PAD))
        rect = QRectF(left - PAD, at.y() - metrics.height() - 1, width + 2 * PAD, metrics.height() + 2)
        return cls(rect, tuple((left + offset, text, kind) for offset, text, kind in kept), font)

    def paint(self, painter: QPainter, theme: Theme) -> None:
        """Paints the strip over what is there: the rejected token struck out, the unjudged ones faint."""
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        draw_rounded(painter, self.rect.adjusted(0.5, -0.5, -0.5, 0.5), 4, QColor(theme.raised), QPen(QColor(theme.line), 1))
        painter.setFont(self.font)
        metrics = QFontMetricsF(self.font)
        baseline = self.rect.top() + 1 + metrics.ascent()
        for left, text, kind in self.tokens:
            draw_text(painter, theme.rejected if kind == "rejected" else theme.dim, QPointF(left, baseline), text)
            if kind == "rejected":
                middle = baseline - metrics.xHeight() / 2
                painter.drawLine(QPointF(left - 1, middle), QPointF(left + metrics.horizontalAdvance(text) + 1, middle))
        painter.restore()
