"""Marks that painted views share: the bracket over a token, the frame of the keyboard's focus."""

from __future__ import annotations

from PySide6.QtCore import QRect, QRectF, Qt
from PySide6.QtGui import QColor, QPainter, QPen

from app.look.theme import Theme

NARROWEST_BRACKET = 9
"""In pixels; over a comma a narrower one would be a blot."""


def bracket_over(painter: QPainter, box: QRectF, theme: Theme) -> None:
    """The mark of a token that another rule would have judged otherwise: a bracket lying over it, which no verdict has."""
    painter.save()
    painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)
    colour = QColor(theme.text)
    wide = max(NARROWEST_BRACKET, round(box.width()))
    top, left = round(box.top()) - 3, round(box.center().x() - wide / 2)
    painter.fillRect(left, top, wide, 2, colour)
    painter.fillRect(left, top, 2, 5, colour)
    painter.fillRect(left + wide - 2, top, 2, 5, colour)
    painter.restore()


def frame_focus(painter: QPainter, area: QRect, theme: Theme) -> None:
    """The frame of a painted view that was reached by key."""
    painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)
    painter.setBrush(Qt.BrushStyle.NoBrush)
    painter.setPen(QPen(QColor(theme.accent), 1))
    painter.drawRect(area)
