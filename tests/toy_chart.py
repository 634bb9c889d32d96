"""A chart as somebody would add one: this file, and the lines that `tests/app/test_new_chart.py` puts into the tables."""

from __future__ import annotations

import pyqtgraph as pg

from app.charts.chart import Chart
from app.charts.data import Material, Words, columns, said
from app.look.theme import Theme
from engine.exports import axes
from engine.exports.charts import Setting
from engine.exports.drawing import Drawing, Palette
from engine.lens.chart_kinds import ChartKind
from engine.lens.tally import Tally

KIND = ChartKind(
    "accepts",
    "Accepted proposals",
    "round",
    "accepted",
    "The accepted proposals of each round.",
    "accepted",
    "Accepted proposals appear after the first round.",
    of_proposals=True,
)


class AcceptsChart(Chart):
    """The accepted proposals of each round as a line."""

    def __init__(self) -> None:
        super().__init__("accepts", "acceptsPlot", 80)
        self.curve = pg.PlotDataItem()
        self.view.addItem(self.curve)

    def draw(self, material: Material) -> None:
        x, counts = columns(material.tally.statuses.rows, material.span)
        self.curve.setData(x, counts[:, 0])
        self.set_rounds(material, 1.0 + float(counts[:, 0].max()))

    @staticmethod
    def legends(material: Material, theme: Theme) -> tuple[Words, ...]:
        return (said("line: accepted"),)

    @staticmethod
    def reading(tally: Tally, first: int, last: int) -> str:
        return f"{tally.statuses.rows[first:last, 0].mean():.0f} accepted"


def accepts_drawing(tally: Tally, palette: Palette, setting: Setting) -> Drawing:
    """The same as a picture."""
    accepted = tally.statuses.rows[:, 0].tolist()
    across, up = (0.5, len(accepted) + 0.5), (0, 1 + max(accepted))
    drawing, frame = axes.begin("accepts", palette, "Accepted proposals.", across, up, "round")
    drawing.curve([frame.at(index, value) for index, value in enumerate(accepted, start=1)], palette.accepted, 1.6)
    axes.dividers(drawing, frame, setting.dividers)
    return drawing
