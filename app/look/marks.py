"""Drawing helpers of painted views: text and boxes in a colour, the bracket over a token, the focus frame."""

from __future__ import annotations

from PySide6.QtCore import QPoint, QPointF, QRect, QRectF, Qt
from PySide6.QtGui import QColor, QPaintDevice, QPainter, QPainterPath, QPen

from app.look.theme import Theme

Filling = QColor | None
Edge = QColor | QPen | Qt.PenStyle
NARROWEST_BRACKET = 9
"""Minimum width in pixels; over a comma a narrower bracket would not be recognisable."""


def faded(colour: QColor | str, alpha: int) -> QColor:
    """Returns the colour with this opacity, from 0 (transparent) to 255 (opaque)."""
    result = QColor(colour)
    result.setAlpha(alpha)
    return result


def smooth_painter(device: QPaintDevice) -> QPainter:
    """Returns a painter with antialiasing."""
    painter = QPainter(device)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    return painter


def write(painter: QPainter, colour: QColor | str, at: QPoint | QPointF, words: str) -> None:
    """Draws text in a colour, with its baseline beginning at a point."""
    painter.setPen(QColor(colour))
    painter.drawText(at, words)


def write_in(
    painter: QPainter, colour: QColor | str, area: QRect | QRectF, alignment: Qt.AlignmentFlag | Qt.TextFlag | int, words: str
) -> None:
    """Draws text in a colour, aligned in an area by Qt's flags."""
    painter.setPen(QColor(colour))
    painter.drawText(area, int(alignment), words)


def rounded(painter: QPainter, box: QRect | QRectF, radius: float, filling: Filling, edge: Edge = Qt.PenStyle.NoPen) -> None:
    """Draws a box with rounded corners. Pen and brush stay set."""
    painter.setPen(edge)
    painter.setBrush(Qt.BrushStyle.NoBrush if filling is None else filling)
    painter.drawRoundedRect(box, radius, radius)


def fragment(box: QRectF, radius: float, open_left: bool, open_right: bool) -> QPainterPath:
    """Returns the outline of a box with rounded corners, open at the sides where its content continues on another line."""
    path = QPainterPath()
    if not (open_left or open_right):
        path.addRoundedRect(box, radius, radius)
        return path
    left, right, top, bottom, across = box.left(), box.right(), box.top(), box.bottom(), 2 * radius
    path.moveTo(right if open_right else right - radius, top)
    if open_left:
        path.lineTo(left, top)
        path.moveTo(left, bottom)
    else:
        path.lineTo(left + radius, top)
        path.arcTo(QRectF(left, top, across, across), 90, 90)
        path.lineTo(left, bottom - radius)
        path.arcTo(QRectF(left, bottom - across, across, across), 180, 90)
    if open_right:
        path.lineTo(right, bottom)
        return path
    path.lineTo(right - radius, bottom)
    path.arcTo(QRectF(right - across, bottom - across, across, across), 270, 90)
    path.lineTo(right, top + radius)
    path.arcTo(QRectF(right - across, top, across, across), 0, 90)
    return path


def bracket_over(painter: QPainter, box: QRectF, theme: Theme) -> None:
    """Draws the bracket over a token that another rule would judge differently; no verdict uses that mark."""
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
    """Draws the focus frame of a painted view."""
    painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)
    painter.setBrush(Qt.BrushStyle.NoBrush)
    painter.setPen(QPen(QColor(theme.accent), 1))
    painter.drawRect(area)
