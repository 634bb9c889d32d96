"""The base class of the window's charts: a plot, its marker, and its mouse and key handling.

Items are created once and then only get new data. Ranges are fixed and grow in steps, so that nothing jumps. A chart may have a
strip below its plot, with the same x axis and its own y axis; labels are in a line above the plot.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyqtgraph as pg
from PySide6.QtCore import QEvent, QLineF, QObject, QPoint, QPointF, QRectF, QSize, Qt, QTimer, Signal
from PySide6.QtGui import (
    QColor,
    QContextMenuEvent,
    QFocusEvent,
    QFont,
    QFontMetricsF,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPen,
    QResizeEvent,
    QWheelEvent,
)
from PySide6.QtWidgets import QGraphicsGridLayout, QLabel, QSizePolicy, QStackedLayout, QWidget

from app.charts.data import EDGE, Material, Words, empty_words
from app.look.marks import smooth_painter
from app.look.theme import Theme, mono_font
from app.look.widgets import named
from engine.lens.chart_kinds import CHARTS, ChartName
from engine.lens.tally import Floats, Tally

KEYS = {Qt.Key.Key_Left: -1, Qt.Key.Key_Right: 1, Qt.Key.Key_PageUp: -10, Qt.Key.Key_PageDown: 10}
FAR = 10**9
ENDS = {Qt.Key.Key_Home: -FAR, Qt.Key.Key_End: FAR}


KEYS_IN_WORDS = (
    "Left and Right move between rounds; with Shift they scroll. Enter pins a round, Escape unpins it, plus and minus zoom."
)


@dataclass(frozen=True, slots=True)
class Label:
    """A label above the plot: centred on its x position, or on the "side" of it that has room."""

    place: float
    words: str
    stands: Literal["middle", "side"] = "middle"


@dataclass(frozen=True, slots=True)
class Fitted:
    """A label with the x position of its left end."""

    left: float
    words: str


def fit_labels(labels: Sequence[Label], x: tuple[float, float], width: float, measure: Callable[[str], float]) -> list[Fitted]:
    """Returns the labels that fit; earlier ones take precedence.

    Args:
        x: range of the plot, in rounds. width: the same in pixels. measure: returns the width of a text in pixels.
    """
    if width <= 0:
        return []
    a_pixel = (x[1] - x[0]) / width
    taken: list[tuple[float, float]] = []
    found: list[Fitted] = []
    for label in labels:
        long = (measure(label.words) + 8) * a_pixel
        sides = (label.place - 4 * a_pixel, label.place - long + 4 * a_pixel) if label.stands == "side" else ()
        for left in sides or (min(max(label.place - long / 2, x[0]), x[1] - long),):
            free = all(left + long <= other or left >= until for other, until in taken)
            if x[0] - 6 * a_pixel <= left and left + long <= x[1] + 6 * a_pixel and free:
                taken.append((left, left + long))
                found.append(Fitted(left, label.words))
                break
    return found


NOTCH = 120
"""Angle between two notches of a wheel, in eighths of a degree; a trackpad sends much smaller ones, many times a second."""
AXIS, MARGIN = 38, 12
"""Pixels at the left of a plot at text scale 1, and at its right."""


def width_around(scale: float) -> int:
    """Returns the part of a chart's width that is not plot, in pixels: frame, axis and margin."""
    return 4 + round(AXIS * scale) + MARGIN


class Chart(QWidget):
    """A plot, or a line of text while there is nothing to draw.

    Signals:
        pointed: (x or None) the mouse is over it.
        picked: (x or None) clicked there, or Return was pressed, which gives None.
        dragged: (rounds) the content moves to the right by a number of rounds.
        zoomed: (steps) above 0 shows more rounds.
        stepped: (rounds) the keyboard moves the cursor.
        menu_wanted: (global position) the chart's context menu was requested.
    """

    pointed = Signal(object)
    picked = Signal(object)
    dragged = Signal(float)
    zoomed = Signal(int)
    stepped = Signal(int)
    menu_wanted = Signal(QPoint)

    def __init__(self, name: ChartName, object_name: str, height: int, strip: int = 0) -> None:
        """Args:
        height: minimum height of the plot, in pixels at text scale 1. strip: the same for the strip, 0 for none.
        """
        super().__init__()
        self.kind = CHARTS[name]
        named(self, object_name, self.kind.title)
        self._height, self._strip_height = height, strip
        self._theme: Theme | None = None
        self._scale, self._font = 1.0, QFont()
        # assembled by hand: a PlotItem creates menus without a parent window, which leak
        self.plot = pg.GraphicsView()
        self.plot.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.head, self.view, self.strip = (pg.ViewBox(enableMouse=False, enableMenu=False) for _ in range(3))
        self.axes = {"left": pg.AxisItem("left"), "bottom": pg.AxisItem("bottom"), "strip": pg.AxisItem("left")}
        whole = pg.GraphicsWidget()
        grid = self._grid = QGraphicsGridLayout(whole)
        grid.setContentsMargins(0, 7, MARGIN, 0)
        grid.setSpacing(0)
        grid.addItem(self.head, 0, 1)
        grid.addItem(self.axes["left"], 1, 0)
        grid.addItem(self.view, 1, 1)
        if strip:
            grid.addItem(self.axes["strip"], 2, 0)
            grid.addItem(self.strip, 2, 1)
        grid.addItem(self.axes["bottom"], 3, 1)
        self.views = (self.view, self.strip) if strip else (self.view,)
        for view in (self.head, *self.views):
            view.disableAutoRange()
        self.axes["left"].linkToView(self.view)
        self.axes["bottom"].linkToView(self.view)
        self.axes["strip"].linkToView(self.strip)
        self.plot.setCentralItem(whole)
        self._ticks: dict[str, list[tuple[float, str]]] = {}
        self._span: tuple[tuple[float, float], ...] | None = None
        self._labels: Sequence[Label] = ()
        self._texts: list[pg.TextItem] = []
        self._dividers: list[list[pg.InfiniteLine]] = [[] for _ in self.views]
        self._pressed: QPointF | None = None
        self._drawn_to: float | None = None
        self._turned = 0
        self.empty = named(QLabel(alignment=Qt.AlignmentFlag.AlignCenter, wordWrap=True), "plotEmpty")
        self._stack = QStackedLayout(self)
        self._stack.setContentsMargins(2, 2, 2, 2)
        self._stack.addWidget(self.empty)
        self._stack.addWidget(self.plot)
        self._markers = [pg.InfiniteLine(angle=90) for _ in self.views]
        for view, marker in zip(self.views, self._markers, strict=True):
            marker.setZValue(10)
            marker.hide()
            view.addItem(marker)
        self.marker = self._markers[0]
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)
        if self.kind.per_round:
            self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
            self.setAccessibleDescription(KEYS_IN_WORDS)
        self.plot.viewport().setMouseTracking(True)
        self.plot.viewport().installEventFilter(self)

    # Content.

    def show_material(self, material: Material | None) -> bool:
        """Draws the chart or, if there is nothing to draw, shows why; returns whether it was drawn."""
        words = empty_words(self.kind, material.tally, material.never) if material else self.kind.waiting
        if words != self.empty.text():
            self.empty.setText(words)
        self._stack.setCurrentIndex(0 if words else 1)
        if words or material is None:
            return False
        self.draw(material)
        return True

    def draw(self, material: Material) -> None:
        """Sets the data of the items."""
        raise NotImplementedError

    # Texts.

    def notes(self, material: Material, theme: Theme) -> tuple[Words, ...]:
        """Returns the legend beside the title in several wordings, from the longest to the shortest."""
        return () if empty_words(self.kind, material.tally) else self.legends(material, theme)

    @classmethod
    def readout(cls, material: Material, round_: int) -> tuple[str, str]:
        """Returns the chart's values for one round, or for the column that contains it: with the round's number, and alone."""
        span = material.span
        first = span.first + (round_ - span.first) // span.each * span.each
        last = min(first + span.each, span.last)
        where = f"round {round_ + 1:,}" if span.each == 1 else f"rounds {first + 1:,} to {last:,}"
        values = cls.reading(material.tally, first, last) or "no data"
        return f"{where}: {values}", values

    @staticmethod
    def legends(material: Material, theme: Theme) -> tuple[Words, ...]:
        """Returns the wordings of `notes` if something is drawn."""
        return ()

    @staticmethod
    def reading(tally: Tally, first: int, last: int) -> str:
        """Returns the values of the rounds from `first` up to before `last`, for a chart by round; empty if unknown."""
        return ""

    @staticmethod
    def place_across(tally: Tally, round_: int, proposal: int | None) -> float | None:
        """Returns the x position of a round, or of one of its proposals, in an aggregated chart; None if it has none."""
        return None

    def mark(self, place: float | None) -> None:
        """Moves the marker line to an x position; None hides it."""
        for marker in self._markers:
            if place is not None:
                marker.setValue(place)
            if marker.isVisible() == (place is None):
                marker.setVisible(place is not None)

    def set_ticks(self, side: str, ticks: list[tuple[float, str]]) -> None:
        """Sets (position, label) pairs, if they differ from the current ones: a new layout is costly."""
        if self._ticks.get(side) != ticks:
            self._ticks[side] = ticks
            self.axes[side].setTicks([ticks])

    def set_range(self, x: tuple[float, float], *y: tuple[float, float]) -> None:
        """Sets the ranges of the axes, `y` for plot and strip, if they differ from the current ones."""
        if self._span != (x, *y):
            self._span = (x, *y)
            self.head.setRange(xRange=x, yRange=(0, 1), padding=0)
            for view, up in zip(self.views, y, strict=True):
                view.setRange(xRange=x, yRange=up, padding=0)

    def set_rounds(self, material: Material, *tops: float, labels: Sequence[Label] = ()) -> None:
        """Sets the axes of a chart by round, each from 0 to its top, with a labelled divider where settings changed.

        `labels`: further labels; those of the dividers take precedence.
        """
        span = material.span
        self.set_range((span.first + 0.5 - EDGE, span.first + span.room + 0.5 + EDGE), *((0, top) for top in tops))
        shown = [(index + 0.5, words) for index, words in material.dividers if span.first < index < span.last]
        for view, lines in zip(self.views, self._dividers, strict=True):
            while len(lines) < len(shown):
                lines.append(line := pg.InfiniteLine(angle=90))
                line.setZValue(9)
                view.addItem(line)
                self._paint_divider(line)
            for place, line in enumerate(lines):
                line.setVisible(place < len(shown))
                if place < len(shown):
                    line.setValue(shown[place][0])
        self._show_labels([*(Label(place, words, "side") for place, words in shown), *labels])

    def _show_labels(self, labels: Sequence[Label]) -> None:
        """Shows the labels above the plot that fit; without any, the plot uses their space."""
        if labels == self._labels:
            return
        self._labels = labels
        self._fit_labels()

    def _fit_labels(self) -> None:
        height = round(15 * self._scale) if self._labels else 0
        if self.head.maximumHeight() != height:
            self.head.setMinimumHeight(height)
            self.head.setMaximumHeight(height)
        if not self._labels or self._span is None or self._theme is None:
            fitting: list[Fitted] = []
        else:
            metrics = QFontMetricsF(self._font)
            fitting = fit_labels(self._labels, self._span[0], self.view.width(), metrics.horizontalAdvance)
        while len(self._texts) < len(fitting):
            self._texts.append(text := pg.TextItem(anchor=(0, 0.5)))
            self.head.addItem(text)
        for place, text in enumerate(self._texts):
            text.setVisible(place < len(fitting))
            if place < len(fitting) and self._theme is not None:
                text.setFont(self._font)
                text.setText(fitting[place].words, QColor(self._theme.dim))
                text.setPos(fitting[place].left, 0.5)

    def _paint_divider(self, line: pg.InfiniteLine) -> None:
        if self._theme is not None:
            line.setPen(cosmetic(self._theme.dim, Qt.PenStyle.DashLine))

    def sizeHint(self) -> QSize:
        return QSize(200, self.minimumHeight())

    def set_look(self, theme: Theme, scale: float) -> None:
        """Applies the theme to plot, axes and marker, and `scale`, the window's text scale, to fonts, margins and height."""
        self._theme, self._scale = theme, scale
        height = self._height + self._strip_height
        self.setMinimumHeight(round(height * scale))
        self.setMaximumHeight(round(2.2 * height * scale))
        self.plot.setBackground(theme.panel)
        font = self._font = mono_font(scale, 10)
        for axis in self.axes.values():
            axis.setStyle(tickFont=font, tickLength=0, tickTextOffset=5, hideOverlappingLabels=False)
            axis.enableAutoSIPrefix(False)
            axis.setPen(cosmetic(theme.line))
            axis.setTextPen(QColor(theme.faint))
        for side in ("left", "strip"):
            self.axes[side].setWidth(round(AXIS * scale))
        if self._strip_height:
            self._grid.setRowFixedHeight(2, round(self._strip_height * scale))
            self._grid.setRowSpacing(1, round(15 * scale))
        for line in (line for lines in self._dividers for line in lines):
            self._paint_divider(line)
        if not self.kind.per_round:  # the charts by round share an x axis, which the page labels once
            self.axes["bottom"].setLabel(self.kind.across, **{"color": theme.faint, "font-size": f"{round(10 * scale)}px"})
        self.axes["bottom"].setHeight(round((18 if self.kind.per_round else 32) * scale))
        for marker in self._markers:
            marker.setPen(cosmetic(theme.text))
        self._fit_labels()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        if self._labels:
            QTimer.singleShot(0, self, self._fit_labels)  # the plot gets its new width only then

    # Mouse and keys.

    def place_at(self, position: QPointF) -> float:
        """Returns the x position at a point of the plot's viewport."""
        return float(self.view.mapSceneToView(self.plot.mapToScene(position.toPoint())).x())

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Bypasses pyqtgraph's own mouse handling, which does a hit test of every item per move."""
        kind = event.type()
        if kind == QEvent.Type.Wheel and isinstance(event, QWheelEvent):
            return self._wheel(event)
        if not self.kind.per_round:
            return False
        if kind == QEvent.Type.Leave:
            self.pointed.emit(None)
        elif isinstance(event, QMouseEvent):
            if kind == QEvent.Type.MouseMove:
                self._move(event)
            elif event.button() == Qt.MouseButton.LeftButton:
                self._button(event)
            return kind != QEvent.Type.MouseButtonPress or event.button() == Qt.MouseButton.LeftButton
        return False

    def _move(self, event: QMouseEvent) -> None:
        if self._pressed is None or not event.buttons() & Qt.MouseButton.LeftButton:
            self.pointed.emit(self.place_at(event.position()))
            return
        if self._drawn_to is None and abs(event.position().x() - self._pressed.x()) > 5:
            self._drawn_to = self._pressed.x()
            self.plot.viewport().setCursor(Qt.CursorShape.ClosedHandCursor)
        if self._drawn_to is not None:
            a_round = float(self.view.viewPixelSize()[0]) or 1.0
            rounds = round((event.position().x() - self._drawn_to) * a_round)
            if rounds:
                self._drawn_to += rounds / a_round
                self.dragged.emit(float(rounds))

    def _button(self, event: QMouseEvent) -> None:
        if event.type() == QEvent.Type.MouseButtonPress:
            self._pressed, self._drawn_to = event.position(), None
            self.setFocus(Qt.FocusReason.MouseFocusReason)
        elif event.type() == QEvent.Type.MouseButtonRelease:
            if self._pressed is not None and self._drawn_to is None:
                self.picked.emit(self.place_at(event.position()))
            self._pressed = self._drawn_to = None
            self.plot.viewport().unsetCursor()

    def _wheel(self, event: QWheelEvent) -> bool:
        """Scrolls the page on a vertical turn; the rounds on a horizontal one, or with Shift; zooms with Ctrl."""
        down, across = event.angleDelta().y(), event.angleDelta().x()
        if event.modifiers() & Qt.KeyboardModifier.ControlModifier:
            self._turned += down
            while abs(self._turned) >= NOTCH:
                step = 1 if self._turned < 0 else -1
                self._turned += step * NOTCH
                self.zoomed.emit(step)
        elif event.modifiers() & Qt.KeyboardModifier.ShiftModifier or abs(across) > abs(down):
            self.dragged.emit((across or down) / 24)
        else:
            event.ignore()
        return True

    def keyPressEvent(self, event: QKeyEvent) -> None:
        moves = {**KEYS, **ENDS}
        key = Qt.Key(event.key())
        if key in moves and event.modifiers() & Qt.KeyboardModifier.ShiftModifier:
            self.dragged.emit(-10.0 * moves[key])
        elif key in moves:
            self.stepped.emit(moves[key])
        elif key in (Qt.Key.Key_Plus, Qt.Key.Key_Minus):
            self.zoomed.emit(-1 if key == Qt.Key.Key_Plus else 1)
        elif key in (Qt.Key.Key_Return, Qt.Key.Key_Enter, Qt.Key.Key_Space):
            self.picked.emit(None)
        else:
            super().keyPressEvent(event)

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        self.menu_wanted.emit(event.globalPos())

    def focusInEvent(self, event: QFocusEvent) -> None:
        self.update()

    def focusOutEvent(self, event: QFocusEvent) -> None:
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        if self.hasFocus() and self._theme is not None:
            painter = smooth_painter(self)
            painter.setPen(QPen(QColor(self._theme.accent), 2))
            painter.drawRoundedRect(QRectF(self.rect()).adjusted(1, 1, -1, -1), 5, 5)
            painter.end()


class Band(pg.GraphicsObject):
    """The area between two lines, with gaps where either is unknown."""

    def __init__(self) -> None:
        super().__init__()
        self._parts: list[list[QPointF]] = []
        self._colour = QColor()

    def set_data(self, x: Any, low: Any, high: Any) -> None:
        """Sets the data. x, low, high: (columns,); NaN is unknown."""
        self._parts = []
        part: list[tuple[float, float, float]] = []
        for across, bottom, top in zip(x.tolist(), low.tolist(), high.tolist(), strict=True):
            if bottom == bottom and top == top:
                part.append((across, bottom, top))
            elif part:
                self._close(part)
                part = []
        if part:
            self._close(part)
        self.update()

    def _close(self, part: list[tuple[float, float, float]]) -> None:
        there = [QPointF(across, top) for across, _, top in part]
        self._parts.append(there + [QPointF(across, bottom) for across, bottom, _ in reversed(part)])

    def set_colour(self, colour: QColor) -> None:
        """Sets the fill colour, translucent so that items below stay visible."""
        self._colour = colour
        self.update()

    def boundingRect(self) -> QRectF:
        return QRectF(-1, -1, 1e7, 1e4)

    def paint(self, painter: QPainter, *_: Any) -> None:
        """Fills one polygon per contiguous run of known values."""
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(self._colour)
        for part in self._parts:
            painter.drawPolygon(part)


def draw_whiskers(painter: QPainter, whiskers: Sequence[tuple[float, Sequence[float]]], colour: str, across: float) -> None:
    """Draws vertical lines from low to high values, each with short caps; `across` is pixels per round."""
    foot = 2.5 / across
    lines = [
        line
        for x, (low, high) in whiskers
        if low == low
        for line in (
            QLineF(x, low, x, high),
            QLineF(x - foot, low, x + foot, low),
            QLineF(x - foot, high, x + foot, high),
        )
    ]
    painter.setPen(cosmetic(colour))
    painter.drawLines(lines)


SMOOTH_COLUMNS = 120


def smooth(x: Any) -> bool:
    """Returns whether a line is drawn antialiased: only a short one, since it takes several times as long."""
    return len(x) <= SMOOTH_COLUMNS


def set_line(item: pg.PlotDataItem, x: Floats, y: Floats) -> None:
    """Sets the points of a line; a single point, as in the first round, is drawn as a dot."""
    alone = int(np.isfinite(y).sum()) == 1
    looks = {"antialias": smooth(x), "symbol": "o" if alone else None, "symbolBrush": pg.mkPen(item.opts["pen"]).color()}
    if all(item.opts[name] == look for name, look in looks.items()):
        item.setData(x, y)  # takes half the time
    else:
        item.setData(x, y, symbolSize=5, symbolPen=None, **looks)


def cosmetic(colour: str | QColor, style: Qt.PenStyle = Qt.PenStyle.SolidLine, width: float = 1) -> QPen:
    """Returns a pen with its width in pixels, independent of the axes."""
    pen = QPen(QColor(colour), width, style)
    pen.setCosmetic(True)
    return pen
