"""One chart of an answer as an SVG document."""

from __future__ import annotations

from collections.abc import Sequence

from engine.errors import DraftlightError
from engine.exports import captions
from engine.exports.charts import draw
from engine.exports.drawing import CAPTION, DARK, LIGHT
from engine.exports.formats import Wanted
from engine.lens.chart_kinds import CHARTS
from engine.lens.tally import Tally
from engine.trace import Trace


def make(traces: Sequence[Trace], wanted: Wanted) -> dict[str, str]:
    """As in `engine.exports.formats.Make`."""
    return {"chart": chart_svg(traces, wanted.chart, wanted.theme)}


def chart_svg(traces: Sequence[Trace], chart: str, theme: str = "light") -> str:
    """One chart of the last answer as an SVG document, with its title, its axes and where it comes from.

    Raises:
        DraftlightError: an unknown chart, or no answer.
    """
    kind = next((kind for kind in CHARTS.values() if kind.name == chart), None)
    if kind is None:
        raise DraftlightError(f"There is no chart {chart!r}. Choose one of {', '.join(CHARTS)}.")
    if not traces:
        raise DraftlightError("There is no answer to draw.")
    palette, trace = DARK if theme == "dark" else LIGHT, traces[-1]
    drawing = draw(kind.name, trace, Tally.of(trace.rounds), palette)
    return drawing.document(kind.title, kind.up, captions.lines(captions.provenance(trace), drawing.width, CAPTION))
