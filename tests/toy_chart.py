"""Example of an added chart: this file, and the line that `tests/app/test_new_chart.py` puts into the table."""

from __future__ import annotations

from engine.lens.bins import columns
from engine.lens.chart_kinds import ChartKind
from engine.lens.chart_spec import ChartSpec, Key, Line, Panel, axis_limit_above, axis_with_halves, highest
from engine.lens.charts import Material, by_round

KIND = ChartKind(
    "accepts",
    "Accepted proposals",
    "round",
    "accepted",
    "The accepted proposals of each round.",
    "accepted",
    "Accepted proposals appear after the first round.",
    "tests.toy_chart:accepts",
    needs_proposals=True,
)


def accepts(material: Material) -> ChartSpec:
    """The accepted proposals of each round as a line."""
    x, counts = columns(material.tally.statuses.rows, material.span)
    accepted = counts[:, 0]
    line = Line(x, accepted, "accepted", value_format="{:.0f} accepted")
    panel = Panel(axis_with_halves(axis_limit_above(1 + highest(accepted))), (line,))
    return by_round(material, "Accepted proposals.", ((Key("accepted", "line", "accepted"),),), panel)
