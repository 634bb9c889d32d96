"""Draws any `ChartSpec` with pyqtgraph: panels, marker, and mouse and key handling.

Items are created once and then only get new marks. Ranges are fixed and grow in steps, so that nothing jumps. Panels lie one
below the other, with the same x axis; labels are in a line above the first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import pyqtgraph as pg
from PySide6.QtCore import QEvent, QObject, QPoint, QPointF, QRectF, QSize, Qt, QTimer, Signal
from PySide6.QtGui import (
    QColor,
    QContextMenuEvent,
    QFocusEvent,
    QFont,
    QFontMetricsF,
    QKeyEvent,
    QMouseEvent,
    QPaintEvent,
    QPen,
    QResizeEvent,
    QWheelEvent,
)
from PySide6.QtWidgets import QGraphicsGridLayout, QLabel, QSizePolicy, QStackedLayout, QWidget

from app.charts.items import ITEMS, Item, cosmetic
from app.look.marks import smooth_painter
from app.look.theme import Theme, mono_font
from app.look.widgets import named
from engine.lens.bins import EDGE
from engine.lens.chart_kinds import ChartKind
from engine.lens.chart_spec import Bars, ChartSpec, Panel

STEP_KEYS = {Qt.Key.Key_Left: -1, Qt.Key.Key_Right: 1, Qt.Key.Key_PageUp: -10, Qt.Key.Key_PageDown: 10}
ALL_ROUNDS = 10**9
END_KEYS = {Qt.Key.Key_Home: -ALL_ROUNDS, Qt.Key.Key_End: ALL_ROUNDS}


KEYS_TEXT = (
    "Left and Right move between rounds; with Shift they scroll. Enter pins a round, Escape unpins it, plus and minus zoom."
)


@dataclass(frozen=True, slots=True)
class Label:
    """A label above the plot: centred on its x position, or on the "side" of it that has room."""

    x: float
    text: str
    anchor: Literal["middle", "side"] = "middle"


@dataclass(frozen=True, slots=True)
class PlacedLabel:
    """A label with the x position of its left end."""

    left: float
    text: str


def fit_labels(
    labels: Sequence[Label], x: tuple[float, float], width: float, measure: Callable[[str], float]
) -> list[PlacedLabel]:
    """Returns the labels that fit; earlier ones take precedence.

    Args:
        x: range of the plot, in rounds. width: the same in pixels. measure: returns the width of a text in pixels.
    """
    if width <= 0:
        return []
    units_per_pixel = (x[1] - x[0]) / width
    occupied: list[tuple[float, float]] = []
    placed: list[PlacedLabel] = []
    for label in labels:
        length = (measure(label.text) + 8) * units_per_pixel
        sides = (label.x - 4 * units_per_pixel, label.x - length + 4 * units_per_pixel) if label.anchor == "side" else ()
        for left in sides or (min(max(label.x - length / 2, x[0]), x[1] - length),):
            is_free = all(left + length <= start or left >= end for start, end in occupied)
            if x[0] - 6 * units_per_pixel <= left and left + length <= x[1] + 6 * units_per_pixel and is_free:
                occupied.append((left, left + length))
                placed.append(PlacedLabel(left, label.text))
                break
    return placed


WHEEL_NOTCH = 120
"""Angle of one wheel notch, in eighths of a degree. A trackpad sends many smaller angles per second."""
OBJECT_NAMES = {"proposals": "acceptancePlot", "positions": "positionPlot", "times": "timePlot"}
"""Object names other than the chart's name with "Plot" appended."""
AXIS_WIDTH, MARGIN = 38, 12
"""Pixels at the left of a plot at text scale 1, and at its right."""


def width_beside_plot(scale: float) -> int:
    """Returns the part of a chart's width that is not plot, in pixels: frame, axis and margin."""
    return 4 + round(AXIS_WIDTH * scale) + MARGIN


class Chart(QWidget):
    """A plot, or a line of text while there is nothing to draw.

    Signals:
        pointed: (x or None) the mouse is over this x position, or has left.
        picked: (x or None) the plot was clicked at this x position; None if Enter or Space was pressed.
        dragged: (rounds) the content was moved to the right by a number of rounds.
        zoomed: (steps) above 0 to show more rounds.
        stepped: (rounds) the keyboard moved the cursor.
        menu_requested: (global position) the chart's context menu was requested.
    """

    pointed = Signal(object)
    picked = Signal(object)
    dragged = Signal(float)
    zoomed = Signal(int)
    stepped = Signal(int)
    menu_requested = Signal(QPoint)

    def __init__(self, kind: ChartKind) -> None:
        super().__init__()
        self.kind = kind
        named(self, OBJECT_NAMES.get(kind.name, f"{kind.name}Plot"), kind.title)
        self.spec = ChartSpec(empty=kind.waiting)
        self._theme: Theme | None = None
        self._scale, self._font = 1.0, QFont()
        # assembled by hand: a PlotItem creates menus without a parent window, which leak
        self.plot = pg.GraphicsView()
        self.plot.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.label_view = pg.ViewBox(enableMouse=False, enableMenu=False)
        self.views = [pg.ViewBox(enableMouse=False, enableMenu=False) for _ in kind.heights]
        self.axes = [pg.AxisItem("left") for _ in kind.heights]
        self.bottom = pg.AxisItem("bottom")
        layout_root = pg.GraphicsWidget()
        grid = self._grid = QGraphicsGridLayout(layout_root)
        grid.setContentsMargins(0, 7, MARGIN, 0)
        grid.setSpacing(0)
        grid.addItem(self.label_view, 0, 1)
        for row, (axis, view) in enumerate(zip(self.axes, self.views, strict=True), start=1):
            grid.addItem(axis, row, 0)
            grid.addItem(view, row, 1)
            axis.linkToView(view)
        grid.addItem(self.bottom, len(self.views) + 1, 1)
        self.bottom.linkToView(self.views[0])
        for view in (self.label_view, *self.views):
            view.disableAutoRange()
        self.plot.setCentralItem(layout_root)
        self._ticks: dict[pg.AxisItem, tuple[tuple[float, str], ...] | None] = {}
        self._span: tuple[tuple[float, float], ...] | None = None
        self._labels: Sequence[Label] = ()
        self._texts: list[pg.TextItem] = []
        self._items: list[list[Item]] = [[] for _ in self.views]
        self._dividers: list[list[pg.InfiniteLine]] = [[] for _ in self.views]
        self._pressed: QPointF | None = None
        self._drag_x: float | None = None
        self._wheel_angle = 0
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
            self.setAccessibleDescription(KEYS_TEXT)
        self.plot.viewport().setMouseTracking(True)
        self.plot.viewport().installEventFilter(self)

    # Content.

    def show_spec(self, spec: ChartSpec) -> None:
        """Draws a description of the chart or, if there is nothing to draw, shows why."""
        self.spec = spec
        if spec.empty != self.empty.text():
            self.empty.setText(spec.empty)
        self._stack.setCurrentIndex(0 if spec.empty else 1)
        if spec.empty or self._theme is None:
            return
        for index, panel in enumerate(spec.panels):
            self._show_marks(index, panel, self._theme)
            self._set_ticks(self.axes[index], panel.up.ticks)
        self._set_ticks(self.bottom, spec.across.ticks)
        across = (spec.across.low - EDGE, spec.across.high + EDGE)
        self._set_range(across, *((panel.up.low, panel.up.high) for panel in spec.panels))
        self._show_dividers()
        cut = [mark.cut_off() for panel in spec.panels for mark in panel.marks if isinstance(mark, Bars)]
        numbers = [Label(index, f"{height:.0f}") for found in cut for index, height in found]
        self._show_labels([*(Label(index, text, "side") for index, text in spec.dividers), *numbers])

    def _show_marks(self, index: int, panel: Panel, theme: Theme) -> None:
        """Passes the marks of a panel to its items; recreates the items if the kinds of marks have changed."""
        wanted = [ITEMS[type(mark)] for mark in panel.marks]
        items, view = self._items[index], self.views[index]
        if [type(item) for item in items] != wanted:
            for item in items:
                view.removeItem(item)
            items[:] = [kind() for kind in wanted]
            for item in items:
                view.addItem(item)
        for item, mark in zip(items, panel.marks, strict=True):
            item.set_mark(mark, theme, self.devicePixelRatioF())

    def mark(self, x: float | None) -> None:
        """Moves the marker line to an x position; None hides it."""
        for marker in self._markers:
            if x is not None:
                marker.setValue(x)
            if marker.isVisible() == (x is None):
                marker.setVisible(x is not None)

    def _set_ticks(self, axis: pg.AxisItem, ticks: tuple[tuple[float, str], ...] | None) -> None:
        """Sets the ticks, if they differ from the current ones: a new layout is costly."""
        if self._ticks.get(axis) != ticks:
            self._ticks[axis] = ticks
            axis.setTicks(None if ticks is None else [list(ticks)])

    def _set_range(self, x: tuple[float, float], *y: tuple[float, float]) -> None:
        """Sets the x range and each panel's y range, if they differ from the current ones."""
        if self._span != (x, *y):
            self._span = (x, *y)
            self.label_view.setRange(xRange=x, yRange=(0, 1), padding=0)
            for view, up in zip(self.views, y, strict=True):
                view.setRange(xRange=x, yRange=up, padding=0)

    def _show_dividers(self) -> None:
        shown = self.spec.dividers
        for view, lines in zip(self.views, self._dividers, strict=True):
            while len(lines) < len(shown):
                lines.append(line := pg.InfiniteLine(angle=90))
                line.setZValue(9)
                view.addItem(line)
                self._paint_divider(line)
            for index, line in enumerate(lines):
                line.setVisible(index < len(shown))
                if index < len(shown):
                    line.setValue(shown[index][0])

    def _show_labels(self, labels: Sequence[Label]) -> None:
        """Shows the labels that fit above the plot; without labels, the plot uses their space."""
        if labels == self._labels:
            return
        self._labels = labels
        self._fit_labels()

    def _fit_labels(self) -> None:
        height = round(15 * self._scale) if self._labels else 0
        if self.label_view.maximumHeight() != height:
            self.label_view.setMinimumHeight(height)
            self.label_view.setMaximumHeight(height)
        if not self._labels or self._span is None or self._theme is None:
            fitting: list[PlacedLabel] = []
        else:
            metrics = QFontMetricsF(self._font)
            fitting = fit_labels(self._labels, self._span[0], self.views[0].width(), metrics.horizontalAdvance)
        while len(self._texts) < len(fitting):
            self._texts.append(text := pg.TextItem(anchor=(0, 0.5)))
            self.label_view.addItem(text)
        for index, text in enumerate(self._texts):
            text.setVisible(index < len(fitting))
            if index < len(fitting) and self._theme is not None:
                text.setFont(self._font)
                text.setText(fitting[index].text, QColor(self._theme.dim))
                text.setPos(fitting[index].left, 0.5)

    def _paint_divider(self, line: pg.InfiniteLine) -> None:
        if self._theme is not None:
            line.setPen(cosmetic(self._theme.dim, Qt.PenStyle.DashLine))

    def sizeHint(self) -> QSize:
        return QSize(200, self.minimumHeight())

    def set_look(self, theme: Theme, scale: float) -> None:
        """Applies the theme to plot, axes and marker, and `scale`, the window's text scale, to fonts, margins and height."""
        self._theme, self._scale = theme, scale
        height = sum(self.kind.heights)
        self.setMinimumHeight(round(height * scale))
        self.setMaximumHeight(round(2.2 * height * scale))
        self.plot.setBackground(theme.panel)
        font = self._font = mono_font(scale, 10)
        for axis in (*self.axes, self.bottom):
            axis.setStyle(tickFont=font, tickLength=0, tickTextOffset=5, hideOverlappingLabels=False)
            axis.enableAutoSIPrefix(False)
            axis.setPen(cosmetic(theme.line))
            axis.setTextPen(QColor(theme.faint))
        for row, (axis, min_height) in enumerate(zip(self.axes, self.kind.heights, strict=True), start=1):
            axis.setWidth(round(AXIS_WIDTH * scale))
            if row > 1:
                self._grid.setRowFixedHeight(row, round(min_height * scale))
                self._grid.setRowSpacing(row - 1, round(15 * scale))
        for line in (line for lines in self._dividers for line in lines):
            self._paint_divider(line)
        if not self.kind.per_round:  # the charts by round share an x axis, which the page labels once
            self.bottom.setLabel(self.kind.across, **{"color": theme.faint, "font-size": f"{round(10 * scale)}px"})
        self.bottom.setHeight(round((18 if self.kind.per_round else 32) * scale))
        for marker in self._markers:
            marker.setPen(cosmetic(theme.text))
        self._fit_labels()
        self.show_spec(self.spec)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        if self._labels:
            QTimer.singleShot(0, self, self._fit_labels)  # after the layout has set the plot's width

    # Mouse and keys.

    def x_at(self, position: QPointF) -> float:
        """Returns the x position at a point of the plot's viewport."""
        return float(self.views[0].mapSceneToView(self.plot.mapToScene(position.toPoint())).x())

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
            self.pointed.emit(self.x_at(event.position()))
            return
        if self._drag_x is None and abs(event.position().x() - self._pressed.x()) > 5:
            self._drag_x = self._pressed.x()
            self.plot.viewport().setCursor(Qt.CursorShape.ClosedHandCursor)
        if self._drag_x is not None:
            a_round = float(self.views[0].viewPixelSize()[0]) or 1.0
            rounds = round((event.position().x() - self._drag_x) * a_round)
            if rounds:
                self._drag_x += rounds / a_round
                self.dragged.emit(float(rounds))

    def _button(self, event: QMouseEvent) -> None:
        if event.type() == QEvent.Type.MouseButtonPress:
            self._pressed, self._drag_x = event.position(), None
            self.setFocus(Qt.FocusReason.MouseFocusReason)
        elif event.type() == QEvent.Type.MouseButtonRelease:
            if self._pressed is not None and self._drag_x is None:
                self.picked.emit(self.x_at(event.position()))
            self._pressed = self._drag_x = None
            self.plot.viewport().unsetCursor()

    def _wheel(self, event: QWheelEvent) -> bool:
        """Scrolls the page on a vertical turn; the rounds on a horizontal one, or with Shift; zooms with Ctrl."""
        vertical, horizontal = event.angleDelta().y(), event.angleDelta().x()
        if event.modifiers() & Qt.KeyboardModifier.ControlModifier:
            self._wheel_angle += vertical
            while abs(self._wheel_angle) >= WHEEL_NOTCH:
                step = 1 if self._wheel_angle < 0 else -1
                self._wheel_angle += step * WHEEL_NOTCH
                self.zoomed.emit(step)
        elif event.modifiers() & Qt.KeyboardModifier.ShiftModifier or abs(horizontal) > abs(vertical):
            self.dragged.emit((horizontal or vertical) / 24)
        else:
            event.ignore()
        return True

    def keyPressEvent(self, event: QKeyEvent) -> None:
        moves = {**STEP_KEYS, **END_KEYS}
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
        self.menu_requested.emit(event.globalPos())

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
