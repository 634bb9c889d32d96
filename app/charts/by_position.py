"""Charts aggregated over all rounds: acceptance by position in a round, and number of accepted proposals per round."""

from __future__ import annotations

import math

import numpy as np
import pyqtgraph as pg
from PySide6.QtCore import Qt
from PySide6.QtGui import QColor

from app.charts.chart import Chart, cosmetic
from app.charts.data import Material, Words, legend, said, step_above
from app.look.marks import faded
from app.look.theme import Theme
from engine.lens.tally import Tally


class PositionChart(Chart):
    """Acceptance rate at each position in a round: of the judged proposals, and of all drafted ones."""

    def __init__(self) -> None:
        super().__init__("positions", "positionPlot", 98)
        self.judged = pg.BarGraphItem(x0=[], x1=[], height=[])
        self.drafted = pg.BarGraphItem(x0=[], x1=[], height=[])
        self.view.addItem(self.judged)
        self.view.addItem(self.drafted)
        self.set_ticks("left", [(0, "0"), (0.5, ".5"), (1, "1")])

    def set_look(self, theme: Theme, scale: float) -> None:
        """Fills both sets of bars in the colour of accepted tokens, fainter for the share of all drafted."""
        super().set_look(theme, scale)
        light = faded(theme.accepted, 90)
        self.judged.setOpts(brush=QColor(theme.accepted), pen=cosmetic(theme.accepted))
        self.drafted.setOpts(brush=light, pen=cosmetic(light))

    def draw(self, material: Material) -> None:
        """Draws one pair of bars per position."""
        places = material.tally.judged_positions()
        x = np.array([place.position for place in places], dtype=float)
        self.judged.setOpts(x0=x - 0.3, x1=x - 0.02, height=[place.conditional or 0.0 for place in places])
        self.drafted.setOpts(x0=x + 0.02, x1=x + 0.3, height=[place.unconditional or 0.0 for place in places])
        self.set_range((0.4, max(4, len(places)) + 0.6), (0, 1))
        step = max(1, math.ceil(len(places) / 16))
        self.set_ticks("bottom", [(place, str(place)) for place in range(1, len(places) + 1, step)])

    @staticmethod
    def legends(material: Material, theme: Theme) -> tuple[Words, ...]:
        """As in `Chart`."""
        return (
            legend("share accepted of", (theme.accepted, "█", "judged"), (theme.accepted, "▒", "drafted")),
            legend("", (theme.accepted, "█", "of judged"), (theme.accepted, "▒", "of drafted")),
        )

    @staticmethod
    def place_across(tally: Tally, round_: int, proposal: int | None) -> float | None:
        """Returns the proposal's position in its round, from 1."""
        return None if proposal is None else proposal + 1.0


class LengthsChart(Chart):
    """Number of rounds that accepted 0, 1, 2, ... proposals, and the number expected if each is accepted independently with
    probability alpha."""

    def __init__(self) -> None:
        super().__init__("lengths", "lengthsPlot", 104)
        self.counted = pg.BarGraphItem(x0=[], x1=[], height=[])
        self.expected = pg.BarGraphItem(x0=[], x1=[], height=[])
        self.view.addItem(self.counted)
        self.view.addItem(self.expected)

    def set_look(self, theme: Theme, scale: float) -> None:
        """Fills the counted bars with the accent colour and outlines the expected ones with a dashed line."""
        super().set_look(theme, scale)
        self.counted.setOpts(brush=faded(theme.accent, 205), pen=cosmetic(theme.accent))
        pen = cosmetic(theme.dim, Qt.PenStyle.DashLine, 1.4 * self.devicePixelRatioF())
        self.expected.setOpts(brush=QColor(0, 0, 0, 0), pen=pen)

    def draw(self, material: Material) -> None:
        """Draws the numbers of rounds; expected bars only if alpha is known."""
        counted, expected = material.tally.length_bars()
        x = np.arange(len(counted), dtype=float)
        self.counted.setOpts(x0=x - 0.28, x1=x + 0.28, height=counted)
        known = x[: len(expected)]
        self.expected.setOpts(x0=known - 0.4, x1=known + 0.4, height=expected)
        top = step_above(max(1.0, *counted, *expected))
        self.set_range((-0.6, max(4, len(counted) - 1) + 0.6), (0, top))
        self.set_ticks("left", [(value, f"{value:g}") for value in (0, top / 2, top)])
        step = max(1, math.ceil(len(counted) / 16))
        self.set_ticks("bottom", [(place, str(place)) for place in range(0, len(counted), step)])

    @staticmethod
    def legends(material: Material, theme: Theme) -> tuple[Words, ...]:
        """As in `Chart`."""
        tally, alpha = material.tally, material.tally.summary.alpha
        if alpha is None or tally.jointly_judged:
            return (said("rounds by accepted proposals"),)
        at = f"expected at alpha {alpha:.2f}" if len(tally.stretches) == 1 else "expected at the alpha of each rule"
        return legend("", (theme.dim, "╍╍", at)), said("outline: expected")

    @staticmethod
    def place_across(tally: Tally, round_: int, proposal: int | None) -> float | None:
        """Returns how many proposals the round accepted; None if it had none."""
        accepted, *others = tally.statuses[round_].tolist()
        return accepted if accepted or any(others) else None
