"""The charts of one answer: proposals per round, throughput, and where a round's time goes.

Items are made once and only get new data; ranges are fixed and grow in steps, so nothing jumps.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyqtgraph as pg
from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QBrush, QColor, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QGraphicsGridLayout, QLabel, QSizePolicy, QStackedLayout, QWidget

from app.tally import Tally
from app.theme import Theme, mono_font
from engine.types import RunChanged

SHOWN_ROUNDS = 60
NO_ROUNDS = "Rounds appear here as they are judged."
NO_ROUNDS = "Rounds appear here as they are judged."
NO_PLACES = "Which places hold shows after a few rounds."
CURVES = ("match", "gumbel", "rejection")


class RoundCells(pg.GraphicsObject):
    """One column per round, one cell per proposal: filled accepted, hatched rejected, outlined unjudged."""

    def __init__(self) -> None:
        super().__init__()
        self._columns: list[tuple[int, tuple[int, int, int]]] = []
        self._changes: list[int] = []
        self._rows = 4
        self._theme: Theme | None = None

    def set_data(self, columns: list[tuple[int, tuple[int, int, int]]], changes: list[int], rows: int) -> None:
        """`columns`: (round, (accepted, rejected, unjudged)); `changes`: rounds from which other settings were in force."""
        if rows != self._rows:
            self.prepareGeometryChange()
        self._columns, self._changes, self._rows = columns, changes, rows
        self.update()

    def set_theme(self, theme: Theme) -> None:
        self._theme = theme
        self.update()

    def boundingRect(self) -> QRectF:
        return QRectF(-1, -1, 1e6, self._rows + 2)

    def paint(self, painter: QPainter, *_: Any) -> None:
        if self._theme is None:
            return
        theme = self._theme
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)
        across, up = abs(painter.worldTransform().m11()), abs(painter.worldTransform().m22())
        gap = 3 / up if up > 6 else 0.0
        width = min(0.76, 14 / across)
        cells: dict[str, list[QRectF]] = {"accepted": [], "rejected": [], "unjudged": []}
        for index, counts in self._columns:
            row = 0
            for status, count in zip(cells, counts, strict=True):
                cells[status] += [QRectF(index - width / 2, row + i + gap / 2, width, 1 - gap) for i in range(count)]
                row += count
        # hatching is drawn in device pixels, so the brush must undo the view's scale
        undo = painter.worldTransform().inverted()[0]
        painter.setPen(Qt.PenStyle.NoPen)
        filled = QColor(theme.accent)
        filled.setAlpha(205)
        painter.setBrush(filled)
        painter.drawRects(cells["accepted"])
        faded = QColor(theme.rejected)
        faded.setAlpha(70)
        painter.setBrush(faded)
        painter.drawRects(cells["rejected"])
        hatch = QBrush(QColor(theme.rejected), Qt.BrushStyle.BDiagPattern)
        hatch.setTransform(undo)
        painter.setBrush(hatch)
        painter.setPen(_cosmetic(theme.rejected))
        painter.drawRects(cells["rejected"])
        painter.setBrush(Qt.BrushStyle.NoBrush)
        faded = QColor(theme.faint)
        faded.setAlpha(120)
        painter.setPen(_cosmetic(faded))
        painter.drawRects(cells["unjudged"])
        painter.setPen(_cosmetic(theme.text, Qt.PenStyle.DashLine))
        for index in self._changes:
            painter.drawLine(pg.Point(index - 0.5, 0), pg.Point(index - 0.5, self._rows))


def _cosmetic(colour: str | QColor, style: Qt.PenStyle = Qt.PenStyle.SolidLine, width: float = 1) -> QPen:
    pen = QPen(QColor(colour), width, style)
    pen.setCosmetic(True)
    return pen


class Chart(QWidget):
    """A plot with a calm line of words while there is nothing to draw."""

    def __init__(self, name: str, words: str, empty: str, across: str, height: int) -> None:
        super().__init__()
        self.setObjectName(name)
        self.setAccessibleName(words)
        self._height = height
        # put together from parts: a PlotItem would make menus that belong to no window and stay behind
        self.plot = pg.GraphicsView()
        self.plot.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.view = pg.ViewBox(enableMouse=False, enableMenu=False)
        self.view.disableAutoRange()
        self.axes = {side: pg.AxisItem(side) for side in ("left", "bottom")}
        whole = pg.GraphicsWidget()
        grid = QGraphicsGridLayout(whole)
        grid.setContentsMargins(0, 7, 12, 0)
        grid.setSpacing(0)
        grid.addItem(self.axes["left"], 0, 0)
        grid.addItem(self.view, 0, 1)
        grid.addItem(self.axes["bottom"], 1, 1)
        for axis in self.axes.values():
            axis.linkToView(self.view)
        self.plot.setCentralItem(whole)
        self._across = across
        self._ticks: dict[str, list[tuple[float, str]]] = {}
        self._span: tuple[tuple[float, float], tuple[float, float]] | None = None
        self.empty = QLabel(empty)
        self.empty.setObjectName("plotEmpty")
        self.empty.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self.empty.setWordWrap(True)
        self._stack = QStackedLayout(self)
        self._stack.setContentsMargins(0, 0, 0, 0)
        self._stack.addWidget(self.empty)
        self._stack.addWidget(self.plot)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)

    def show_data(self, there_is_some: bool) -> None:
        self._stack.setCurrentIndex(1 if there_is_some else 0)

    def set_ticks(self, side: str, ticks: list[tuple[float, str]]) -> None:
        """(place, label) pairs; laid out anew only if they differ from those there are."""
        if self._ticks.get(side) != ticks:
            self._ticks[side] = ticks
            self.axes[side].setTicks([ticks])

    def set_range(self, x: tuple[float, float], y: tuple[float, float]) -> None:
        """What the axes span; moved only if it differs, for the same reason."""
        if self._span != (x, y):
            self._span = (x, y)
            self.view.setRange(xRange=x, yRange=y, padding=0)

    def sizeHint(self) -> QSize:
        return QSize(200, self.minimumHeight())

    def set_look(self, theme: Theme, scale: float) -> None:
        self.setMinimumHeight(round(self._height * scale))
        self.plot.setBackground(theme.panel)
        font = mono_font(scale, 10)
        for axis in self.axes.values():
            axis.setStyle(tickFont=font, tickLength=0, tickTextOffset=5, hideOverlappingLabels=False)
            axis.enableAutoSIPrefix(False)
            axis.setPen(_cosmetic(theme.line))
            axis.setTextPen(QColor(theme.faint))
        self.axes["left"].setWidth(round(34 * scale))
        label = {"color": theme.faint, "font-size": f"{round(10 * scale)}px"}
        self.axes["bottom"].setLabel(self._across, **label)
        self.axes["bottom"].setHeight(round(34 * scale))


class AcceptanceChart(Chart):
    """What became of the proposals of the latest rounds, and what each rule would lead one to expect."""

    def __init__(self) -> None:
        super().__init__(
            "acceptancePlot",
            "Accepted, rejected and unjudged proposals per round",
            NO_ROUNDS,
            "round",
            150,
        )
        self.cells = RoundCells()
        self.view.addItem(self.cells)
        self.curves = {rule: pg.PlotDataItem(connect="finite", antialias=True) for rule in CURVES}
        for curve in self.curves.values():
            self.view.addItem(curve)

    def set_look(self, theme: Theme, scale: float) -> None:
        super().set_look(theme, scale)
        self.cells.set_theme(theme)
        for rule, (colour, style) in curve_styles(theme).items():
            ratio = self.devicePixelRatioF()
            self.curves[rule].setPen(_cosmetic(colour, style, 1.8 * ratio))
            self.curves[rule].setShadowPen(_cosmetic(theme.panel, width=4.5 * ratio))  # a rim, to stand out from the cells

    def set_tally(self, tally: Tally | None, changes: list[RunChanged]) -> None:
        """Draws the latest rounds of an answer."""
        rounds = 0 if tally is None else tally.rounds
        most = 0 if tally is None else max((sum(counts) for counts in tally.statuses[-SHOWN_ROUNDS:]), default=0)
        self.show_data(rounds > 0 and most > 0)
        self.empty.setText("Nothing was proposed in the latest rounds." if rounds and not most else NO_ROUNDS)
        if tally is None or not rounds or not most:
            return
        # moves ten rounds at a time: an axis that changes with every round costs more than all the cells
        first = 10 * math.ceil(max(0, rounds - SHOWN_ROUNDS) / 10)
        columns = list(enumerate(tally.statuses[first:], start=first))
        self.cells.set_data(columns, [change.index for change in changes if change.index > first], most)
        self.set_range((first - 0.6, first + SHOWN_ROUNDS - 0.4), (0, most + 0.15))
        step = max(1, math.ceil(most / 5))
        self.set_ticks("left", [(value, str(value)) for value in range(0, most + 1, step)])
        x = np.arange(first, rounds, dtype=float)
        expected = np.array(tally.expected[first:], dtype=float).reshape(-1, 3)
        for place, rule in enumerate(CURVES):
            self.curves[rule].setData(x, expected[:, place])


def curve_styles(theme: Theme) -> dict[str, tuple[str, Qt.PenStyle]]:
    """Each expected curve has its own colour and its own dash."""
    return {
        "match": (theme.match, Qt.PenStyle.DotLine),
        "gumbel": (theme.bonus, Qt.PenStyle.SolidLine),
        "rejection": (theme.correction, Qt.PenStyle.DashLine),
    }


class ThroughputChart(Chart):
    """Tokens per second over the last rounds, and the mean of the answer."""

    def __init__(self) -> None:
        super().__init__(
            "throughputPlot", "Throughput in tokens per second", "Speed appears with the first rounds.", "seconds", 116
        )
        self.curve = pg.PlotDataItem(connect="finite", antialias=True, autoDownsample=True, downsampleMethod="mean")
        self.mean = pg.InfiniteLine(angle=0)
        self.view.addItem(self.mean)
        self.view.addItem(self.curve)

    def set_look(self, theme: Theme, scale: float) -> None:
        super().set_look(theme, scale)
        self.curve.setPen(_cosmetic(theme.accent, width=1.6 * self.devicePixelRatioF()))
        self.mean.setPen(_cosmetic(theme.faint, Qt.PenStyle.DashLine))

    def set_tally(self, tally: Tally | None) -> None:
        """Draws the whole answer; both axes grow in steps."""
        self.show_data(tally is not None and tally.rounds > 1)
        if tally is None or tally.rounds < 2:
            return
        times, speeds = np.array(tally.times), np.array(tally.speeds)
        self.curve.setData(times, speeds)
        self.mean.setValue(tally.summary.throughput or 0.0)
        top = step_above(1.05 * float(np.nanmax(speeds)) if np.isfinite(speeds).any() else 1.0)
        self.set_range((0, step_above(max(2.0, float(times[-1])))), (0, top))
        self.set_ticks("left", [(value, f"{value:g}") for value in (0, top / 2, top)])


def step_above(value: float) -> float:
    """The smallest of 1, 2, 3, 4, 6, 8, 10, 20, ... at or above a value: a range that does not change with every round."""
    power = 10.0 ** math.floor(math.log10(max(value, 1e-3)))
    return next(factor * power for factor in (1, 2, 3, 4, 6, 8, 10) if factor * power >= value * (1 - 1e-9))


class PositionChart(Chart):
    """How likely a proposal is accepted at each place in its round: once it is judged, and of all that were drafted."""

    def __init__(self) -> None:
        super().__init__(
            "positionPlot",
            "Acceptance by position in the round",
            NO_PLACES,
            "position in the round",
            110,
        )
        self.judged = pg.BarGraphItem(x0=[], x1=[], height=[])
        self.drafted = pg.BarGraphItem(x0=[], x1=[], height=[])
        self.view.addItem(self.judged)
        self.view.addItem(self.drafted)
        self.set_ticks("left", [(0, "0"), (0.5, ".5"), (1, "1")])

    def set_look(self, theme: Theme, scale: float) -> None:
        super().set_look(theme, scale)
        light = QColor(theme.accent)
        light.setAlpha(90)
        self.judged.setOpts(brush=QColor(theme.accent), pen=_cosmetic(theme.accent))
        self.drafted.setOpts(brush=light, pen=_cosmetic(light))

    def set_tally(self, tally: Tally | None) -> None:
        """Draws one pair of bars per place."""
        places = () if tally is None else tally.summary.by_position
        self.show_data(bool(places))
        self.empty.setText(NO_PLACES if tally is None or not tally.rounds else "Nothing was proposed yet.")
        if not places:
            return
        x = np.array([place.position for place in places], dtype=float)
        self.judged.setOpts(x0=x - 0.3, x1=x - 0.02, height=[place.conditional or 0.0 for place in places])
        self.drafted.setOpts(x0=x + 0.02, x1=x + 0.3, height=[place.unconditional or 0.0 for place in places])
        self.set_range((0.4, len(places) + 0.6), (0, 1))
        step = max(1, math.ceil(len(places) / 16))
        self.set_ticks("bottom", [(place, str(place)) for place in range(1, len(places) + 1, step)])


class TimeSplit(QWidget):
    """One bar: the shares of drafting, verifying, judging and the rest in the rounds that were measured in stages."""

    PARTS = ("draft", "verify", "judge", "other")

    def __init__(self) -> None:
        super().__init__()
        self.setObjectName("timePlot")
        self.setAccessibleName("Where a round's time goes")
        self._parts: list[tuple[str, float]] = []

    def set_look(self, theme: Theme, scale: float) -> None:
        self._theme, self._scale = theme, scale
        self.setFixedHeight(round(40 * scale))
        self.update()

    def set_tally(self, tally: Tally | None) -> None:
        staged = None if tally is None else tally.staged
        self._parts = []
        if staged is not None:
            times = staged.milliseconds
            self._parts = [(part, float(getattr(times, part) or 0.0)) for part in self.PARTS]
            self.setAccessibleDescription(", ".join(f"{part} {value:.1f} milliseconds" for part, value in self._parts))
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        theme = self._theme
        colours = (theme.accent, theme.faint, theme.correction, theme.bonus)
        bar = QRectF(0, 3, self.width(), round(8 * self._scale))
        whole = sum(value for _, value in self._parts)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor(theme.raised))
        painter.drawRoundedRect(bar, 4, 4)
        font = self.font()
        font.setPixelSize(round(11 * self._scale))
        painter.setFont(font)
        metrics = painter.fontMetrics()
        baseline = bar.bottom() + metrics.ascent() + 7
        if whole <= 0:
            painter.setPen(QColor(theme.faint))
            painter.drawText(0, round(baseline), "Every 16th round is measured in stages.")
            painter.end()
            return
        left, x = 0.0, 0.0
        for (part, value), colour in zip(self._parts, colours, strict=True):
            width = bar.width() * value / whole
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(QColor(colour))
            painter.drawRoundedRect(QRectF(left + 0.5, bar.top(), max(1.0, width - 1), bar.height()), 2, 2)
            left += width
            painter.drawEllipse(QRectF(x, baseline - 7 * self._scale, 6 * self._scale, 6 * self._scale))
            painter.setPen(QColor(theme.dim))
            words = f"{part} {value:.0f} ms" if value >= 10 else f"{part} {value:.1f} ms"
            painter.drawText(round(x + 10 * self._scale), round(baseline), words)
            x += metrics.horizontalAdvance(words) + 24 * self._scale
        painter.end()
