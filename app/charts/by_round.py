"""Charts by round: proposals and their verdicts, recent alpha, and cumulative tau."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyqtgraph as pg
from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QBrush, QColor, QPainter

from app.charts.chart import Band, Chart, Label, cosmetic, set_line
from app.charts.data import Material, Words, column_spreads, columns, curves, legend, mean_of, said, step_above
from app.look.marks import faded
from app.look.theme import Theme
from app.look.wording import RULE_TITLES
from engine.lens.bins import proposals_shown
from engine.lens.tally import Floats, Tally
from engine.types import EXPECTED_RULES

LEAST_CELL = 4
"""Pixels; outlines of lower cells would run together."""
DASHES = {"accepted": "━━", "match": "┈┈", "gumbel": "━┈", "rejection": "╍╍"}
"""The line styles of the strip below the proposals, as characters."""
NAMES = {"accepted": "accepted"} | {str(rule): title for rule, title in RULE_TITLES.items()}


class RoundCells(pg.GraphicsObject):
    """Draws one column per round and one cell per proposal: accepted filled, rejected hatched, unjudged outlined.

    A bin of several rounds is drawn as bars of the mean counts; so is a round whose cells would be too low to tell apart. A
    column that exceeds the axis has a mark at its top.
    """

    def __init__(self) -> None:
        super().__init__()
        self._columns: list[tuple[float, list[float]]] = []
        self._rows = 4.0
        self._each = 1
        self._theme: Theme | None = None

    def set_data(self, x: Floats, counts: Floats, rows: float, each: int) -> None:
        """Sets the data. x: (columns,); counts: (columns, 3) accepted, rejected, unjudged; `rows`: height of the axis in
        cells."""
        if rows != self._rows:
            self.prepareGeometryChange()
        self._columns = list(zip(x.tolist(), counts.tolist(), strict=True))
        self._rows, self._each = rows, each
        self.update()

    def set_theme(self, theme: Theme) -> None:
        """Paints the cells in another theme; before the first call nothing is painted."""
        self._theme = theme
        self.update()

    def boundingRect(self) -> QRectF:
        return QRectF(-1, -1, 1e7, self._rows + 2)

    def paint(self, painter: QPainter, *_: Any) -> None:
        """Draws the cells, with hatching that does not scale with the zoom, then the marks of columns that are cut off."""
        if self._theme is None:
            return
        theme = self._theme
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)
        across, up = abs(painter.worldTransform().m11()), abs(painter.worldTransform().m22())
        cells = self._cells(across, up)
        # hatching is drawn in device pixels, so the brush must invert the view's scale
        undo = painter.worldTransform().inverted()[0]
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(faded(theme.accepted, 205))
        painter.drawRects(cells["accepted"])
        painter.setBrush(faded(theme.rejected, 70))
        painter.drawRects(cells["rejected"])
        hatch = QBrush(QColor(theme.rejected), Qt.BrushStyle.BDiagPattern)
        hatch.setTransform(undo)
        painter.setBrush(hatch)
        painter.setPen(cosmetic(theme.rejected))
        painter.drawRects(cells["rejected"])
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.setPen(cosmetic(faded(theme.unjudged, 150)))
        painter.drawRects(cells["unjudged"])
        if across > 0 and up > 0:
            half, tall = max(3.0, 0.38 * self._each * across) / across, 5 / up
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(QColor(theme.text))
            for x in (x for x, counts in self._columns if sum(counts) > self._rows + 1e-9):
                painter.drawPolygon([QPointF(x - half, self._rows), QPointF(x + half, self._rows), QPointF(x, self._rows + tall)])

    def _cells(self, across: float, up: float) -> dict[str, list[QRectF]]:
        """Returns rectangles by status, clipped at the top of the axis; `across` and `up` are pixels per unit."""
        single = self._each == 1 and up >= LEAST_CELL
        gap = 3 / up if up > 6 and single else 0.0
        width = min(0.76 * self._each, 14 / across) if across > 0 else 0.76
        cells: dict[str, list[QRectF]] = {"accepted": [], "rejected": [], "unjudged": []}
        for x, counts in self._columns:
            row = 0.0
            for status, count in zip(cells, counts, strict=True):
                count = min(count, self._rows - row)
                if single:
                    cells[status] += [QRectF(x - width / 2, row + i + gap / 2, width, 1 - gap) for i in range(round(count))]
                elif count > 0:
                    cells[status].append(QRectF(x - width / 2, row, width, count))
                row += count
        return cells


class ProposalsChart(Chart):
    """The verdicts on the proposals of each round; in the strip below, recent acceptance and what each rule would accept."""

    def __init__(self) -> None:
        super().__init__("proposals", "acceptancePlot", 150, strip=58)
        self.cells = RoundCells()
        self.view.addItem(self.cells)
        self.band = Band()
        self.strip.addItem(self.band)
        self.curves = {name: pg.PlotDataItem(connect="finite") for name in (*EXPECTED_RULES, "accepted")}
        for curve in self.curves.values():
            self.strip.addItem(curve)

    def set_look(self, theme: Theme, scale: float) -> None:
        """Applies the theme to the cells, and colour and dashes to each curve."""
        super().set_look(theme, scale)
        self.cells.set_theme(theme)
        self.band.set_colour(faded(theme.accepted, 60))
        for name, (colour, style) in curve_styles(theme).items():
            self.curves[name].setPen(cosmetic(colour, style, (2.2 if name == "accepted" else 1.6) * self.devicePixelRatioF()))

    def draw(self, material: Material) -> None:
        """Draws the visible rounds as cells, and below them the accepted tokens, actual and expected."""
        tally, span = material.tally, material.span
        x, counts = columns(tally.statuses.rows, span)
        proposals = counts.sum(axis=1)
        most = proposals_shown(counts[:, :2].sum(axis=1), proposals) if span.each == 1 else max(1.0, proposals.max())
        top = float(math.ceil(most - 1e-9))
        self.cells.set_data(x, counts, top, span.each)
        at, accepted = curves(tally.accepted.rows, material)
        _, expected = curves(tally.expected.rows, material)
        spreads = column_spreads(tally.accepted.rows, span)
        self.band.set_data(x[: len(spreads)], spreads[:, 0], spreads[:, 1])
        below = step_above(max(1.0, *(float(np.nanmax(part, initial=0.0)) for part in (accepted, expected, spreads))))
        cut = [
            Label(place, f"{many:.0f}") for place, many in zip(x.tolist(), proposals.tolist(), strict=True) if many > top + 1e-9
        ]
        self.set_rounds(material, 1.04 * top + 0.1, below, labels=cut)
        step = next(step for step in (1, 2, 5, 10, 20) if 5 * step >= top)
        self.set_ticks("left", [(value, str(value)) for value in range(0, int(top) + 1, step)])
        self.set_ticks("strip", [(value, f"{value:g}") for value in (0, below)])
        set_line(self.curves["accepted"], at, accepted)
        for place, rule in enumerate(EXPECTED_RULES):
            set_line(self.curves[rule], at, expected[:, place])

    @staticmethod
    def legends(material: Material, theme: Theme) -> tuple[Words, ...]:
        """As in `Chart`."""
        accepted, *expected = ((colour, DASHES[line], NAMES[line]) for line, (colour, _) in curve_styles(theme).items())
        lines = legend("below:", accepted), legend("expected:", *expected)
        short = legend("", *((colour, sign[0], line) for colour, sign, line in (accepted, *expected)))
        both = (f"{lines[0][0]} &nbsp;{lines[1][0]}", f"{lines[0][1]}  {lines[1][1]}")
        return both, legend("", accepted, *expected), short

    @staticmethod
    def reading(tally: Tally, first: int, last: int) -> str:
        """As in `Chart`."""
        counts = tally.statuses.rows[first:last].mean(axis=0)
        accepted, rejected, unjudged = (f"{value:.{int(last - first > 1)}f}" for value in counts)
        return f"{accepted} accepted, {rejected} rejected, {unjudged} unjudged"


def curve_styles(theme: Theme) -> dict[str, tuple[str, Qt.PenStyle]]:
    """Returns colour and dash of each curve of the strip."""
    return {
        "accepted": (theme.accepted, Qt.PenStyle.SolidLine),
        "match": (theme.rule_match, Qt.PenStyle.DotLine),
        "gumbel": (theme.rule_gumbel, Qt.PenStyle.DashDotLine),
        "rejection": (theme.rule_rejection, Qt.PenStyle.DashLine),
    }


class AlphaChart(Chart):
    """Alpha over the latest rounds, with its 95 % interval as a band."""

    def __init__(self) -> None:
        super().__init__("alpha", "alphaPlot", 84)
        self.band = Band()
        self.curve = pg.PlotDataItem(connect="finite")
        self.view.addItem(self.band)
        self.view.addItem(self.curve)
        self.set_ticks("left", [(0, "0"), (0.5, ".5"), (1, "1")])

    def set_look(self, theme: Theme, scale: float) -> None:
        """Applies the colour of accepted tokens to the curve and, fainter, to the band."""
        super().set_look(theme, scale)
        self.band.set_colour(faded(theme.accepted, 60))
        self.curve.setPen(cosmetic(theme.accepted, width=1.6 * self.devicePixelRatioF()))

    def draw(self, material: Material) -> None:
        """Draws alpha and its interval on an axis from 0 to 1, with gaps where they are unknown."""
        x, alphas = curves(material.tally.alphas.rows, material)
        self.band.set_data(x, alphas[:, 1], alphas[:, 2])
        set_line(self.curve, x, alphas[:, 0])
        self.set_rounds(material, 1.0)

    @staticmethod
    def legends(material: Material, theme: Theme) -> tuple[Words, ...]:
        """As in `Chart`."""
        return said("band: 95% interval"), said("95%")

    @staticmethod
    def reading(tally: Tally, first: int, last: int) -> str:
        """As in `Chart`."""
        mean = mean_of(tally.alphas.rows[first:last])
        return "" if mean is None else f"{mean[0]:.2f}, interval {mean[1]:.2f} to {mean[2]:.2f}"


class TauChart(Chart):
    """Cumulative tau, and the tau expected from the cumulative alpha; both restart where rule or drafter changed."""

    def __init__(self) -> None:
        super().__init__("tau", "tauPlot", 84)
        self.measured = pg.PlotDataItem(connect="finite")
        self.expected = pg.PlotDataItem(connect="finite")
        self.view.addItem(self.expected)
        self.view.addItem(self.measured)

    def set_look(self, theme: Theme, scale: float) -> None:
        """Applies the accent colour to the measured curve, and dashes to the expected one."""
        super().set_look(theme, scale)
        ratio = self.devicePixelRatioF()
        self.measured.setPen(cosmetic(theme.accent, width=1.6 * ratio))
        self.expected.setPen(cosmetic(theme.dim, Qt.PenStyle.DashLine, 1.6 * ratio))

    def draw(self, material: Material) -> None:
        """Draws both curves in tokens per round, on an axis up to the next integer above them."""
        x, taus = curves(material.tally.taus.rows, material)
        set_line(self.measured, x, taus[:, 0])
        set_line(self.expected, x, taus[:, 1])
        top = float(math.ceil(np.nanmax(taus, initial=1.0) * 1.05))
        self.set_rounds(material, top)
        step = max(1, math.ceil(top / 4))
        self.set_ticks("left", [(value, str(value)) for value in range(0, int(top) + 1, step)])

    @staticmethod
    def legends(material: Material, theme: Theme) -> tuple[Words, ...]:
        """As in `Chart`."""
        lines = [(theme.accent, "━━", "measured")]
        if not math.isnan(material.tally.taus[-1][1]):
            lines.append((theme.dim, "╍╍", "expected"))
        return (legend("", *lines),)

    @staticmethod
    def reading(tally: Tally, first: int, last: int) -> str:
        """As in `Chart`."""
        mean = mean_of(tally.taus.rows[first:last])
        if mean is None:
            return ""
        return f"{mean[0]:.2f}" if math.isnan(mean[1]) else f"{mean[0]:.2f}, expected {mean[1]:.2f}"
