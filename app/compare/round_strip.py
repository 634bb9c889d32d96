"""The rounds of one column on a time axis shared by all columns: how far each column came, and what was accepted."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from PySide6.QtCore import QEvent, QLineF, QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QMouseEvent, QPainter, QPaintEvent, QPen, QPixmap, QResizeEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from app.compare.comparison import Column
from app.look import theme as themes
from app.look.marks import faded
from app.look.theme import DARK, Theme
from app.session.cursor import Cursor, Place
from engine.types import Round
from engine.values.wording import amount

NARROW = 2.5
"""Width of a round in pixels below which its cells are drawn without gaps."""
NEAR = 4.0
"""Pixels beside the axis that still count as its ends."""


class RoundBar(NamedTuple):
    """The bar of a round: times in seconds, and counts of accepted, rejected and unjudged proposals."""

    start: float
    seconds: float
    counts: tuple[int, int, int]


def bar_of(round_: Round) -> RoundBar:
    """Returns the bar of a round; milliseconds become seconds."""
    counts = (round_.accepted, round_.rejected, round_.unjudged)
    return RoundBar(round_.started / 1e3, round_.milliseconds.total / 1e3, counts)


class RoundStrip(QWidget):
    """One bar per round. Its width is the round's time; it has one cell per proposal: accepted filled, rejected hatched, unjudged
    outlined.

    Call `set_range` and `touch` after rounds were added.
    """

    def __init__(self, cursor: Cursor) -> None:
        super().__init__()
        self.setObjectName("roundStrip")
        self.run: Column | None = None
        self.theme: Theme = DARK
        self.cursor_place = cursor
        self._scale = 1.0
        self._seconds = 1.0
        self._cells = 1
        self._starts: list[float] = []
        self._bars: list[RoundBar] = []
        self._picture: QPixmap | None = None  # cached drawing of the rounds so far
        self._drawn = 0
        self.setMouseTracking(True)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setToolTip(
            "<p>One bar per round; its width is the time it took, on a time axis that all columns share. "
            "Its cells are the proposals: filled = accepted, hatched = rejected, outlined = unjudged. "
            "The dash above them is the target's own token. Time spent on other columns is left out.</p>"
        )
        cursor.moved.connect(self._moved)

    def show_run(self, run: Column | None) -> None:
        """Clears the strip for another column; the next `touch` adds its rounds. None leaves it empty."""
        self.run, self._starts, self._bars = run, [], []
        self.setAccessibleName("Rounds")
        self._forget()

    def _forget(self) -> None:
        """Discards the cached drawing."""
        self._picture, self._drawn = None, 0
        self.update()

    def set_look(self, theme: Theme, scale: float) -> None:
        """Applies colours and height and discards the cached drawing."""
        self.theme, self._scale = theme, scale
        self.setFixedHeight(self.sizeHint().height())
        self._forget()

    def set_room(self, height: int) -> None:
        """Makes the strip a little taller in a tall column."""
        self.setFixedHeight(max(self.sizeHint().height(), min(round(130 * self._scale), height // 10)))

    def sizeHint(self) -> QSize:
        return QSize(200, round(66 * self._scale))

    def set_range(self, seconds: float, cells: int) -> None:
        """Sets the shared time axis, and the number of cells in a bar of full height; a bar with more cells has lower ones."""
        wanted = (max(0.05, seconds), max(1, cells))
        if wanted != (self._seconds, self._cells):
            self._seconds, self._cells = wanted
            self._forget()

    def touch(self) -> None:
        """Adds the new rounds."""
        if self.run is None:
            return
        fresh = [bar_of(round_) for round_ in self.run.answer.rounds[len(self._bars) :]]
        self._bars += fresh
        self._starts += [bar.start for bar in fresh]
        summary = self.run.answer.tally.summary
        self.setAccessibleDescription(
            f"{amount(summary.rounds, 'round')} in {summary.seconds:.1f} seconds: "
            f"{amount(summary.accepted, 'proposal')} accepted, "
            f"{summary.rejected:,} rejected, {summary.unjudged:,} unjudged."
        )
        self.update()

    # Painting.

    @property
    def _area(self) -> QRectF:
        """Rectangle of the bars; the axis is below it."""
        return QRectF(12, 4, self.width() - 24, self.height() - 4 - 17 * self._scale)

    def _x(self, seconds: float) -> float:
        return self._area.left() + self._area.width() * seconds / self._seconds

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._forget()

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        if self.run is not None:
            painter.drawPixmap(0, 0, self._bars_drawn())
        self._paint_axis(painter)
        self._paint_pointed(painter)
        painter.end()

    def _bars_drawn(self) -> QPixmap:
        """Returns the cached drawing after adding the new rounds."""
        picture = self._picture
        if picture is None:
            ratio = self.devicePixelRatioF()
            picture = self._picture = QPixmap(self.size() * ratio)
            picture.setDevicePixelRatio(ratio)
            picture.fill(Qt.GlobalColor.transparent)
        if self._drawn < len(self._bars):
            painter = QPainter(picture)
            self._paint_bars(painter, self._bars[self._drawn :])
            painter.end()
            self._drawn = len(self._bars)
        return picture

    def _paint_axis(self, painter: QPainter) -> None:
        area = self._area
        painter.setPen(QPen(QColor(self.theme.line), 1))
        painter.drawLine(QPointF(area.left(), area.bottom() + 1), QPointF(area.right(), area.bottom() + 1))
        painter.setFont(themes.mono_font(self._scale, 10.5))
        painter.setPen(QColor(self.theme.faint))
        step = _step(self._seconds)
        metrics = painter.fontMetrics()
        for index in range(int(self._seconds / step) + 1):
            words = f"{index * step:g} s"
            x = self._x(index * step)
            left = max(0.0, min(self.width() - metrics.horizontalAdvance(words) - 2.0, x - metrics.horizontalAdvance(words) / 2))
            painter.drawText(QPointF(left, self.height() - 4.0), words)

    def _paint_bars(self, painter: QPainter, bars: Sequence[RoundBar]) -> None:
        theme, area = self.theme, self._area
        accepted: list[QRectF] = []
        rejected: list[QRectF] = []
        unjudged: list[QRectF] = []
        own: list[QRectF] = []
        by_status = (accepted, rejected, unjudged)
        start, bottom, tallest, pixels = area.left(), area.bottom(), area.height(), area.width() / self._seconds
        for bar in bars:
            left, whole = start + bar.start * pixels, bar.seconds * pixels
            width = max(1.0, whole - (1.0 if whole > NARROW else 0.0))
            proposals = sum(bar.counts)
            height = tallest / (max(self._cells, proposals) + 1)
            gap = 1.0 if height > 3 else 0.0
            apart = gap and width > NARROW  # indistinguishable cells are drawn as one
            y = bottom
            for many, cells in zip(bar.counts, by_status, strict=True):
                for _ in range(many if apart else min(many, 1)):
                    tall = height if apart else height * many
                    y -= tall
                    cells.append(QRectF(left, y, width, tall - gap))
            own.append(QRectF(left, y - height / 2 - 1, min(width, 4.0), 2))
        painter.setPen(Qt.PenStyle.NoPen)
        _fill(painter, accepted, QColor(theme.accepted))
        _fill(painter, rejected, faded(theme.rejected, 70))
        _fill(painter, own, QColor(theme.dim))
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.setPen(QPen(QColor(theme.rejected), 1))
        painter.drawLines([QLineF(cell.bottomLeft(), cell.topRight()) for cell in rejected if cell.width() > NARROW])
        painter.setPen(QPen(faded(theme.unjudged, 150), 1))
        painter.drawRects([cell.adjusted(0.5, 0.5, -0.5, -0.5) for cell in unjudged if cell.width() > NARROW])

    def _paint_pointed(self, painter: QPainter) -> None:
        """Paints a frame around the highlighted round."""
        pointed, area = self.cursor_place.place, self._area
        if self.run is None or pointed is None or pointed.round >= len(self._starts):
            return
        bar = self._bars[pointed.round]
        left, right = self._x(bar.start), self._x(bar.start + bar.seconds)
        painter.setPen(QPen(QColor(self.theme.text), 1))
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.drawRect(QRectF(left - 1.5, area.top() - 2, max(3.0, right - left + 2), area.height() + 2))

    # Pointing.

    def round_at(self, x: float) -> int | None:
        """Returns the index of the round at an x coordinate; None before the first and after the last."""
        if self.run is None or not self._starts:
            return None
        if not -NEAR <= x - self._area.left() <= self._area.width() + NEAR:
            return None
        seconds = (x - self._area.left()) / self._area.width() * self._seconds
        index = max(0, bisect_right(self._starts, seconds) - 1)
        bar = self._bars[index]
        return index if seconds <= bar.start + bar.seconds + 0.01 * self._seconds else None

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        index = self.round_at(event.position().x())
        self.cursor_place.point(None if index is None else Place(0, index))

    def mousePressEvent(self, event: QMouseEvent) -> None:
        if event.button() == Qt.MouseButton.LeftButton and (index := self.round_at(event.position().x())) is not None:
            self.cursor_place.pin(Place(0, index))

    def leaveEvent(self, event: QEvent) -> None:
        self.cursor_place.leave()

    def _moved(self, place: Place | None) -> None:
        self.update()


def _fill(painter: QPainter, cells: list[QRectF], colour: QColor) -> None:
    painter.setBrush(colour)
    painter.drawRects(cells)


def _step(seconds: float) -> float:
    """Returns a step in seconds, 1, 2 or 5 times a power of ten, that divides the axis into at most seven parts."""
    step = 10.0**-2
    while True:
        for factor in (1, 2, 5):
            if seconds / (step * factor) <= 7:
                return step * factor
        step *= 10
