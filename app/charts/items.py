"""Draws the marks of a `ChartSpec` with pyqtgraph. Each mark has a graphics item, which is created once and then updated."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import pyqtgraph as pg
from PySide6.QtCore import QLineF, QPointF, QRectF, Qt
from PySide6.QtGui import QBrush, QColor, QPainter, QPen

from app.look.marks import faded
from app.look.theme import Theme
from engine.lens.chart_spec import Area, Bars, Dash, Fill, Level, Line, Mark, Whiskers

MIN_CELL_HEIGHT = 4
"""Minimum height of a cell in pixels; the outlines of lower cells would merge."""
SMOOTH_COLUMNS = 120
"""Maximum number of points of a line that is drawn antialiased, which takes several times as long."""
STYLES: dict[Dash, Qt.PenStyle] = {
    "line": Qt.PenStyle.SolidLine,
    "dash": Qt.PenStyle.DashLine,
    "dot": Qt.PenStyle.DotLine,
    "dashdot": Qt.PenStyle.DashDotLine,
}


class Item(Protocol):
    """An item that draws marks of one kind."""

    def set_mark(self, mark: Any, theme: Theme, ratio: float) -> None:
        """Draws another mark, in a theme, with lines `ratio` times as wide."""


def cosmetic(colour: str | QColor, style: Qt.PenStyle = Qt.PenStyle.SolidLine, width: float = 1) -> QPen:
    """Returns a pen with its width in pixels, independent of the axes."""
    pen = QPen(QColor(colour), width, style)
    pen.setCosmetic(True)
    return pen


class LineItem(pg.PlotDataItem):
    """Draws a `Line`."""

    def __init__(self) -> None:
        super().__init__(connect="finite")
        self._look: tuple[object, ...] = ()

    def set_mark(self, mark: Line, theme: Theme, ratio: float) -> None:
        """As in `Item`."""
        colour = getattr(theme, mark.role)
        if self._look != (look := (colour, mark.dash, mark.width, ratio)):
            self._look = look
            self.setPen(cosmetic(colour, STYLES[mark.dash], mark.width * ratio))
        dotted = bool(mark.dots) or np.count_nonzero(np.isfinite(mark.y)) == 1
        options = {"antialias": len(mark.x) <= SMOOTH_COLUMNS, "symbol": "o" if dotted else None, "symbolBrush": QColor(colour)}
        if all(self.opts[name] == look for name, look in options.items()):
            self.setData(mark.x, mark.y)  # half the cost of passing the looks as well
        else:
            self.setData(mark.x, mark.y, symbolSize=2 * mark.dots or 5, symbolPen=None, **options)


class LevelItem(pg.InfiniteLine):
    """Draws a `Level`."""

    def __init__(self) -> None:
        super().__init__(angle=0)

    def set_mark(self, mark: Level, theme: Theme, ratio: float) -> None:
        """As in `Item`."""
        self.setPen(cosmetic(getattr(theme, mark.role), STYLES[mark.dash], mark.width * ratio))
        self.setValue(mark.y)


class PaintedItem(pg.GraphicsObject):
    """Base class of items that paint themselves; their bounding box covers any plot."""

    def __init__(self) -> None:
        super().__init__()
        self._mark: Any = None
        self._theme: Theme | None = None
        self._ratio = 1.0

    def set_mark(self, mark: Any, theme: Theme, ratio: float) -> None:
        """As in `Item`."""
        self._mark, self._theme, self._ratio = mark, theme, ratio
        self.update()

    def boundingRect(self) -> QRectF:
        return QRectF(-1, -1, 1e7, 1e7)

    def paint(self, painter: QPainter, *_: Any) -> None:
        """Paints the mark, if it is set."""
        transform = painter.worldTransform()
        x_scale, y_scale = abs(transform.m11()), abs(transform.m22())
        if self._theme is not None and x_scale > 0 and y_scale > 0:
            self.paint_mark(painter, self._theme, x_scale, y_scale)

    def paint_mark(self, painter: QPainter, theme: Theme, x_scale: float, y_scale: float) -> None:
        """Paints the mark; `x_scale` and `y_scale` are pixels per unit."""
        raise NotImplementedError


class AreaItem(PaintedItem):
    """Draws an `Area`: a polygon for each contiguous run of known values."""

    def set_mark(self, mark: Area, theme: Theme, ratio: float) -> None:
        """As in `Item`."""
        super().set_mark(mark, theme, ratio)
        self._runs: list[list[QPointF]] = []
        run: list[tuple[float, float, float]] = []
        for x, low, high in [*zip(mark.x.tolist(), mark.low.tolist(), mark.high.tolist(), strict=True), (0.0, np.nan, np.nan)]:
            if low == low and high == high:
                run.append((x, low, high))
            elif run:
                above = [QPointF(x, high) for x, _, high in run]
                self._runs.append(above + [QPointF(x, low) for x, low, _ in reversed(run)])
                run = []

    def paint_mark(self, painter: QPainter, theme: Theme, x_scale: float, y_scale: float) -> None:
        """As in `PaintedItem`."""
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(faded(getattr(theme, self._mark.role), 60))
        for run in self._runs:
            painter.drawPolygon(run)


class WhiskersItem(PaintedItem):
    """Draws `Whiskers`."""

    def paint_mark(self, painter: QPainter, theme: Theme, x_scale: float, y_scale: float) -> None:
        """As in `PaintedItem`."""
        mark, foot = self._mark, 2.5 / x_scale
        lines = []
        for x, low, high in zip(mark.x.tolist(), mark.low.tolist(), mark.high.tolist(), strict=True):
            if low == low:
                lines += [QLineF(x, low, x, high), *(QLineF(x - foot, y, x + foot, y) for y in (low, high))]
        painter.setPen(cosmetic(getattr(theme, mark.role)))
        painter.drawLines(lines)


class BarsItem(PaintedItem):
    """Draws `Bars`. A bar that is cut off has a mark at its top."""

    def paint_mark(self, painter: QPainter, theme: Theme, x_scale: float, y_scale: float) -> None:
        """As in `PaintedItem`."""
        mark = self._mark
        cells = mark.cells and y_scale >= MIN_CELL_HEIGHT
        width = min(2 * mark.half_width, mark.max_width / x_scale)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)
        for part, boxes in zip(mark.parts, mark.boxes(width, cells, 3 / y_scale if cells and y_scale > 6 else 0.0), strict=True):
            self._paint_part(painter, part.fill, QColor(getattr(theme, part.role)), [QRectF(*box) for box in boxes])
        half, height = max(3.0, mark.half_width * x_scale) / x_scale, 5 / y_scale
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor(theme.text))
        for x, _ in mark.cut_off():
            painter.drawPolygon(
                [QPointF(x - half, mark.max_height), QPointF(x + half, mark.max_height), QPointF(x, mark.max_height + height)]
            )

    def _paint_part(self, painter: QPainter, fill: Fill, colour: QColor, boxes: list[QRectF]) -> None:
        painter.setPen(cosmetic(colour))
        painter.setBrush(Qt.BrushStyle.NoBrush)
        match fill:
            case "fill":
                painter.setBrush(colour)
                if self._mark.cells:
                    painter.setPen(Qt.PenStyle.NoPen)  # keeps the gap between cells
            case "light":
                painter.setBrush(faded(colour, 90))
                painter.setPen(cosmetic(faded(colour, 90)))
            case "hatch":
                painter.setPen(Qt.PenStyle.NoPen)
                painter.setBrush(faded(colour, 70))
                painter.drawRects(boxes)
                hatch = QBrush(colour, Qt.BrushStyle.BDiagPattern)
                hatch.setTransform(painter.worldTransform().inverted()[0])  # hatching does not scale with the zoom
                painter.setBrush(hatch)
                painter.setPen(cosmetic(colour))
            case "outline":
                painter.setPen(cosmetic(faded(colour, 150)))
            case "dashed":
                painter.setPen(cosmetic(colour, Qt.PenStyle.DashLine, 1.4 * self._ratio))
            case "top":
                painter.drawLines([QLineF(box.left(), box.bottom(), box.right(), box.bottom()) for box in boxes])
                return
        painter.drawRects(boxes)


ITEMS: dict[type[Mark], type[Any]] = {
    Line: LineItem,
    Area: AreaItem,
    Level: LevelItem,
    Whiskers: WhiskersItem,
    Bars: BarsItem,
}
