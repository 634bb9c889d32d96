"""The painted parts of the verdict card: lines of figures with bars, and the buttons of the alternatives."""

from __future__ import annotations

from dataclasses import dataclass

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QColor, QFont, QFontMetricsF, QKeyEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import QPushButton, QWidget

from app.look.theme import DARK, Theme, mono_font
from app.verdict.verdict import Alternative, Figure, Side, probability


@dataclass(frozen=True, slots=True)
class Look:
    """Theme and text scale of the card's parts."""

    theme: Theme
    scale: float

    def px(self, size: float) -> int:
        """A size in pixels at normal text scale, as whole pixels at this one."""
        return round(size * self.scale)

    def colour_of(self, side: Side) -> QColor:
        """The colour that stands for the draft, the target, or (side "") neither of them."""
        colours = {"draft": self.theme.rejected, "target": self.theme.accent, "": self.theme.dim}
        return QColor(colours[side])


class Rows(QWidget):
    """Figures in three columns: name, value, and a bar or what the value means."""

    def __init__(self) -> None:
        super().__init__()
        self._figures: tuple[Figure, ...] = ()
        self._look = Look(DARK, 1.0)

    def show_figures(self, figures: tuple[Figure, ...], look: Look) -> None:
        """Shows one line for each figure, and takes no room where there are none."""
        self._figures, self._look = figures, look
        self.setVisible(bool(figures))
        self.setFixedHeight(len(figures) * look.px(20))
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        look, theme = self._look, self._look.theme
        mono, small = mono_font(look.scale, 12), QFont(self.font())
        small.setPixelSize(look.px(11))
        value_right, rest = look.px(172), look.px(184)
        for place, figure in enumerate(self._figures):
            row = QRectF(0, place * look.px(20), self.width(), look.px(20))
            middle = Qt.AlignmentFlag.AlignVCenter
            painter.setFont(self.font())
            painter.setPen(QColor(theme.dim))
            painter.drawText(row, Qt.AlignmentFlag.AlignLeft | middle, figure.name)
            painter.setFont(mono)
            painter.setPen(QColor(theme.text))
            painter.drawText(QRectF(0, row.top(), value_right, row.height()), Qt.AlignmentFlag.AlignRight | middle, figure.words)
            left = float(rest)
            if figure.share is not None:
                left = self._bar(painter, figure, row, rest)
            if figure.note:
                painter.setFont(small)
                painter.setPen(QColor(theme.faint))
                room = QRectF(left, row.top(), self.width() - left, row.height())
                words = QFontMetricsF(small).elidedText(figure.note, Qt.TextElideMode.ElideRight, room.width())
                painter.drawText(room, Qt.AlignmentFlag.AlignLeft | middle, words)
        painter.end()

    def _bar(self, painter: QPainter, figure: Figure, row: QRectF, left: float) -> float:
        """Draws a bar and returns where the note may begin."""
        look = self._look
        noted = any(row.note and row.share is not None for row in self._figures)
        length = look.px(72) if noted else self.width() - left  # one length, so that bars can be compared
        track = QRectF(left, row.center().y() - look.px(3), length, look.px(6))
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor(look.theme.line))
        painter.drawRoundedRect(track, look.px(3), look.px(3))
        painter.setBrush(look.colour_of(figure.side))
        width = max(look.px(2), track.width() * min(1.0, max(0.0, figure.share or 0.0)))
        painter.drawRoundedRect(QRectF(track.left(), track.top(), width, track.height()), look.px(3), look.px(3))
        return track.right() + look.px(8)


class AlternativeButton(QPushButton):
    """One likely token; a click branches the answer with it."""

    def __init__(self) -> None:
        super().__init__()
        self.setObjectName("alternativeButton")
        self.setAutoDefault(True)  # Enter chooses as Space does
        self._look = Look(DARK, 1.0)
        self._side: Side = ""
        self.alternative: Alternative | None = None

    def show_alternative(self, alternative: Alternative, side: Side, look: Look) -> None:
        """Shows another token, marked in the colour of the side whose alternative it is."""
        self.alternative, self._side, self._look = alternative, side, look
        self.setMinimumHeight(look.px(22))
        self.updateGeometry()
        self.update()

    def allow(self, allowed: bool) -> None:
        """Whether a click branches; what stands in the text already cannot be chosen."""
        assert self.alternative is not None
        self.setEnabled(allowed and "in the text" not in self.alternative.marks)
        words = f"{self.alternative.token}, {probability(self.alternative.probability)}"
        marks = f" ({', '.join(self.alternative.marks)})" if self.alternative.marks else ""
        self.setAccessibleName(f"{'Branch with' if self.isEnabled() else 'Alternative'} {words}{marks}")
        self.setCursor(Qt.CursorShape.PointingHandCursor if self.isEnabled() else Qt.CursorShape.ArrowCursor)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """A key that is held, perhaps the Enter that led here, chooses nothing."""
        if not event.isAutoRepeat():
            super().keyPressEvent(event)

    def sizeHint(self) -> QSize:
        return QSize(self._look.px(150), self._look.px(22))

    def minimumSizeHint(self) -> QSize:
        return QSize(self._look.px(60), self._look.px(22))

    def paintEvent(self, event: QPaintEvent) -> None:
        if self.alternative is None:
            return
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        look, theme = self._look, self._look.theme
        area = QRectF(self.rect()).adjusted(0.5, 0.5, -0.5, -0.5)
        if self.isEnabled() and (self.underMouse() or self.hasFocus()):
            painter.setPen(QColor(theme.accent if self.hasFocus() else theme.faint))
            painter.setBrush(QColor(theme.raised))
            painter.drawRoundedRect(area, 5, 5)
        pad = look.px(3)
        bar = QRectF(pad, area.bottom() - look.px(4), (area.width() - 2 * pad) * self.alternative.probability, look.px(2))
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(look.colour_of(self._side))
        painter.drawRoundedRect(bar, 1, 1)
        mono, small = mono_font(look.scale, 12), QFont(self.font())
        small.setPixelSize(look.px(10))
        metrics, middle = QFontMetricsF(mono), Qt.AlignmentFlag.AlignVCenter
        inner = area.adjusted(pad, 0, -pad, -look.px(3))
        value = probability(self.alternative.probability)
        painter.setFont(mono)
        painter.setPen(QColor(theme.dim))
        painter.drawText(inner, Qt.AlignmentFlag.AlignRight | middle, value)
        marks = ", ".join({"proposed": "drafted", "in the text": "in text"}[mark] for mark in self.alternative.marks)
        room = inner.width() - metrics.horizontalAdvance(value) - look.px(8)
        beside = QFontMetricsF(small).horizontalAdvance(marks) + look.px(6) if marks else 0.0
        token = metrics.elidedText(self.alternative.token, Qt.TextElideMode.ElideRight, room - beside)
        painter.setPen(QColor(theme.text))
        painter.drawText(inner, Qt.AlignmentFlag.AlignLeft | middle, token)
        if marks:
            painter.setFont(small)
            painter.setPen(QColor(theme.faint))
            left = inner.left() + metrics.horizontalAdvance(token) + look.px(6)
            painter.drawText(
                QRectF(left, inner.top(), inner.right() - left, inner.height()), Qt.AlignmentFlag.AlignLeft | middle, marks
            )
        painter.end()
