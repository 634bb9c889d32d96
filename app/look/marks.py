"""The base class of views that paint their own content, and helpers for drawing: text and boxes in a colour, the bracket over a
token, the focus frame."""

from __future__ import annotations

from PySide6.QtCore import QPoint, QPointF, QRect, QRectF, Qt
from PySide6.QtGui import QColor, QFocusEvent, QPaintDevice, QPainter, QPainterPath, QPen
from PySide6.QtWidgets import QAbstractScrollArea, QFrame, QWidget

from app.look.theme import Theme

Fill = QColor | None
Edge = QColor | QPen | Qt.PenStyle
MIN_BRACKET_WIDTH = 9
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


def draw_text(painter: QPainter, colour: QColor | str, at: QPoint | QPointF, text: str) -> None:
    """Draws text in a colour, with its baseline beginning at a point."""
    painter.setPen(QColor(colour))
    painter.drawText(at, text)


def draw_text_in(
    painter: QPainter, colour: QColor | str, area: QRect | QRectF, alignment: Qt.AlignmentFlag | Qt.TextFlag | int, text: str
) -> None:
    """Draws text in a colour, aligned in an area by Qt's flags."""
    painter.setPen(QColor(colour))
    painter.drawText(area, int(alignment), text)


def draw_rounded(painter: QPainter, box: QRect | QRectF, radius: float, fill: Fill, edge: Edge = Qt.PenStyle.NoPen) -> None:
    """Draws a box with rounded corners. Pen and brush stay set."""
    painter.setPen(edge)
    painter.setBrush(Qt.BrushStyle.NoBrush if fill is None else fill)
    painter.drawRoundedRect(box, radius, radius)


def open_box_path(box: QRectF, radius: float, open_left: bool, open_right: bool) -> QPainterPath:
    """Returns the outline of a box with rounded corners, open at the sides where its content continues on another line."""
    path = QPainterPath()
    if not (open_left or open_right):
        path.addRoundedRect(box, radius, radius)
        return path
    left, right, top, bottom, diameter = box.left(), box.right(), box.top(), box.bottom(), 2 * radius
    path.moveTo(right if open_right else right - radius, top)
    if open_left:
        path.lineTo(left, top)
        path.moveTo(left, bottom)
    else:
        path.lineTo(left + radius, top)
        path.arcTo(QRectF(left, top, diameter, diameter), 90, 90)
        path.lineTo(left, bottom - radius)
        path.arcTo(QRectF(left, bottom - diameter, diameter, diameter), 180, 90)
    if open_right:
        path.lineTo(right, bottom)
        return path
    path.lineTo(right - radius, bottom)
    path.arcTo(QRectF(right - diameter, bottom - diameter, diameter, diameter), 270, 90)
    path.lineTo(right, top + radius)
    path.arcTo(QRectF(right - diameter, top, diameter, diameter), 0, 90)
    return path


def draw_bracket(painter: QPainter, box: QRectF, theme: Theme) -> None:
    """Draws the bracket over a token that another rule would judge differently; no verdict uses that mark."""
    painter.save()
    painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)
    colour = QColor(theme.text)
    width = max(MIN_BRACKET_WIDTH, round(box.width()))
    top, left = round(box.top()) - 3, round(box.center().x() - width / 2)
    painter.fillRect(left, top, width, 2, colour)
    painter.fillRect(left, top, 2, 5, colour)
    painter.fillRect(left + width - 2, top, 2, 5, colour)
    painter.restore()


def draw_focus_frame(painter: QPainter, area: QRect, theme: Theme) -> None:
    """Draws the focus frame of a painted view."""
    painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)
    painter.setBrush(Qt.BrushStyle.NoBrush)
    painter.setPen(QPen(QColor(theme.accent), 1))
    painter.drawRect(area)


KEYBOARD_REASONS = (Qt.FocusReason.TabFocusReason, Qt.FocusReason.BacktabFocusReason, Qt.FocusReason.ShortcutFocusReason)
"""Reasons for which the focus frame is shown: focus by keyboard. After a click no frame is needed."""


class PaintedView(QAbstractScrollArea):
    """A scroll area that paints its own content.

    Attributes:
        has_keyboard_focus: whether it got the focus by keyboard, which shows a focus frame (`marks.draw_focus_frame`).
    """

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.has_keyboard_focus = False
        self.setFrameShape(QFrame.Shape.NoFrame)

    def focusInEvent(self, event: QFocusEvent) -> None:
        super().focusInEvent(event)
        self.has_keyboard_focus = event.reason() in KEYBOARD_REASONS
        self.viewport().update()

    def focusOutEvent(self, event: QFocusEvent) -> None:
        super().focusOutEvent(event)
        self.has_keyboard_focus = False
        self.viewport().update()
