"""Charts of time: throughput beside the measured plain run, and the phases of a round."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyqtgraph as pg
from PySide6.QtCore import QLineF, QRectF, Qt
from PySide6.QtGui import QBrush, QColor, QPainter

from app.charts.chart import Band, Chart, cosmetic, draw_whiskers, set_line
from app.charts.data import (
    Material,
    Words,
    column_spreads,
    columns,
    legend,
    mean_of,
    milliseconds,
    places,
    said,
    speed_note,
    spread_words,
    step_above,
)
from app.look.marks import faded
from app.look.theme import Theme
from engine.lens.tally import Floats, Tally
from engine.types import PHASES


class ThroughputChart(Chart):
    """Tokens per second over the last rounds, and the measured plain throughput as a dashed line."""

    def __init__(self) -> None:
        super().__init__("throughput", "throughputPlot", 84)
        self.curve = pg.PlotDataItem(connect="finite")
        self.band = Band()
        self.plain = pg.InfiniteLine(angle=0)
        self.plain.hide()
        self.view.addItem(self.band)
        self.view.addItem(self.plain)
        self.view.addItem(self.curve)

    def set_look(self, theme: Theme, scale: float) -> None:
        """Applies the accent colour to the curve, and a dim dashed style to the line of the plain run."""
        super().set_look(theme, scale)
        self.band.set_colour(faded(theme.accent, 60))
        self.curve.setPen(cosmetic(theme.accent, width=1.6 * self.devicePixelRatioF()))
        self.plain.setPen(cosmetic(theme.dim, Qt.PenStyle.DashLine, 1.2 * self.devicePixelRatioF()))

    def draw(self, material: Material) -> None:
        """Draws the visible speeds; the line is hidden until a plain run has been measured."""
        x, speeds = columns(material.tally.speeds.rows, material.span)
        set_line(self.curve, x, speeds)
        spreads = column_spreads(material.tally.speeds.rows, material.span)
        self.band.set_data(x[: len(spreads)], spreads[:, 0], spreads[:, 1])
        self.plain.setVisible(material.plain is not None)
        if material.plain is not None:
            self.plain.setValue(material.plain)
        top = throughput_top(speeds if material.span.each == 1 else spreads, material.plain)
        self.set_rounds(material, top)
        self.set_ticks("left", [(value, f"{value:g}") for value in (0, top / 2, top)])

    @staticmethod
    def legends(material: Material, theme: Theme) -> tuple[Words, ...]:
        """As in `Chart`."""
        if not any(material.tally.gammas.keys() - {0}):
            return said(f"{speed_note()}; a plain run"), said(speed_note()), said("")
        if material.plain is None:
            long = f"{speed_note()}; no baseline yet: measure the plain speed"
            return said(long), said("tokens/s; no baseline yet"), said("tokens/s"), said("")
        where = "measured" if material.plain_fits else "measured under other conditions"
        line = (theme.dim, "╍╍", f"plain {material.plain:.1f}, {where}")
        return legend(speed_note(), line), legend("", line), legend("", (theme.dim, "╍╍", f"plain {material.plain:.1f}"))

    @staticmethod
    def reading(tally: Tally, first: int, last: int) -> str:
        """As in `Chart`."""
        rows = tally.speeds.rows[first:last]
        mean = mean_of(rows)
        return "" if mean is None else f"{mean[0]:.1f} tokens/s{spread_words(rows)}"


def throughput_top(speeds: Floats, plain: float | None) -> float:
    """Returns the upper end of the axis of a throughput chart."""
    highest = max(float(np.nanmax(speeds, initial=0.0)), plain or 0.0)
    return step_above(1.05 * highest if highest > 0 else 1.0)


def phase_looks(theme: Theme) -> dict[str, tuple[str, Qt.BrushStyle]]:
    """Returns colour and fill of each phase."""
    return {
        "draft": (theme.time_draft, Qt.BrushStyle.SolidPattern),
        "verify": (theme.time_verify, Qt.BrushStyle.BDiagPattern),
        "judge": (theme.time_judge, Qt.BrushStyle.SolidPattern),
        "other": (theme.time_other, Qt.BrushStyle.Dense5Pattern),
    }


class PhaseBars(pg.GraphicsObject):
    """A stacked bar for each column with rounds whose phases were timed; a short line at the total time for the others."""

    def __init__(self) -> None:
        super().__init__()
        self._bars: list[list[float]] = []
        self._totals: list[list[float]] = []
        self._whiskers: list[tuple[float, list[float]]] = []
        self._each = 1
        self._theme: Theme | None = None

    def set_data(self, bars: Floats, totals: Floats, x: Floats, spreads: Floats, each: int) -> None:
        """Sets the data. bars: (timed columns, 5) x and milliseconds of the four phases; totals: (columns, 2) x and time; x:
        (columns,); spreads: (columns, 2) of the times, or (0, 2) for none."""
        self._bars, self._totals, self._each = bars.tolist(), totals.tolist(), each
        self._whiskers = list(zip(x.tolist(), spreads.tolist(), strict=False))
        self.update()

    def set_theme(self, theme: Theme) -> None:
        """Paints the bars in another theme; before the first call nothing is painted."""
        self._theme = theme
        self.update()

    def boundingRect(self) -> QRectF:
        return QRectF(-1, -1, 1e7, 1e7)

    def paint(self, painter: QPainter, *_: Any) -> None:
        """Stacks the phases of each timed column and draws the other columns as lines; neither is wider than 14 pixels."""
        if self._theme is None:
            return
        across = abs(painter.worldTransform().m11())
        width = min(0.76 * self._each, 14 / across) if across > 0 else 0.76
        undo = painter.worldTransform().inverted()[0]
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)
        painter.setPen(cosmetic(self._theme.time_unsplit))
        painter.drawLines([QLineF(x - width / 2, total, x + width / 2, total) for x, total in self._totals])
        for place, (colour, filling) in enumerate(phase_looks(self._theme).values(), start=1):
            brush = QBrush(QColor(colour), filling)
            brush.setTransform(undo)
            painter.setBrush(brush)
            painter.setPen(cosmetic(colour))
            painter.drawRects([QRectF(bar[0] - width / 2, sum(bar[1:place]), width, bar[place]) for bar in self._bars])
        if across > 0:
            draw_whiskers(painter, self._whiskers, self._theme.dim, across)


class TimesChart(Chart):
    """Time by phase, for the rounds whose phases were timed."""

    def __init__(self) -> None:
        super().__init__("times", "timePlot", 96)
        self.bars = PhaseBars()
        self.view.addItem(self.bars)

    def set_look(self, theme: Theme, scale: float) -> None:
        """Applies the theme to the bars, which paint the phases themselves."""
        super().set_look(theme, scale)
        self.bars.set_theme(theme)

    def draw(self, material: Material) -> None:
        """Draws the visible columns on an axis in milliseconds that ends just above the highest."""
        bars, totals = phase_columns(material)
        spreads = column_spreads(material.tally.milliseconds.rows, material.span)
        self.bars.set_data(bars, totals, places(material.span), spreads, material.span.each)
        highest = max(part.max(initial=0.0) for part in (bars[:, 1:].sum(axis=1), totals[:, 1], spreads))
        top = step_above(max(1.0, 1.05 * highest))
        self.set_rounds(material, top)
        self.set_ticks("left", [(value, f"{value:g}") for value in (0, top / 2, top)])

    @staticmethod
    def legends(material: Material, theme: Theme) -> tuple[Words, ...]:
        """As in `Chart`."""
        looks = phase_looks(theme)
        parts = [(looks[phase][0], "■", phase) for phase in PHASES]
        return legend("ms, bottom to top:", *parts), legend("ms:", *parts), legend("", *parts)

    @staticmethod
    def reading(tally: Tally, first: int, last: int) -> str:
        """As in `Chart`."""
        phases = tally.phases.rows
        staged = phases[(phases[:, 0] >= first) & (phases[:, 0] < last)]
        if len(staged):
            parts = staged[:, 1:].mean(axis=0)
            return ", ".join(f"{part} {milliseconds(value)}" for part, value in zip(PHASES, parts, strict=True))
        return f"{milliseconds(float(tally.milliseconds.rows[first:last].mean()))}; phases not timed"


def phase_columns(material: Material) -> tuple[Floats, Floats]:
    """Returns the data of a chart of times.

    Returns (timed columns, 5): x and mean milliseconds of draft, verify, judge, other; and (other columns, 2): x and mean
    milliseconds of the columns without a timed round.
    """
    tally, span = material.tally, material.span
    x, parts = columns(tally.times_by_phase, span)
    _, totals = columns(tally.milliseconds.rows, span)
    known = np.isfinite(parts[:, 0])
    return np.column_stack((x, parts))[known], np.column_stack((x, totals))[~known]
