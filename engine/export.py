"""Exports of a session, that is of any traces, and the way back: the door to `engine.exports`.

- JSON (`draftlight.metrics/1`): one document with settings, `Summary`, rounds and proposals of every answer.
- CSV and Parquet: a table of rounds, one of proposals and one of answers. Parquet needs the extra `parquet`.
- HTML: one file for people, with figures, charts, the coloured answer and all provenance; it loads nothing.
- SVG: one chart of an answer.

What JSON, CSV and Parquet say is what the traces say: `read_export` gives rounds with the same `Summary`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from engine.errors import DraftlightError
from engine.exports import captions
from engine.exports.charts import draw
from engine.exports.csv_files import csv_files, csv_texts, read_rounds_csv
from engine.exports.drawing import CAPTION, DARK, LIGHT
from engine.exports.forms import FORMS, Form
from engine.exports.json_file import read_json_export, to_json, total
from engine.exports.parquet_files import parquet_files, read_rounds_parquet
from engine.exports.report import to_html
from engine.files.whole_file import write_together
from engine.lens.chart_kinds import CHARTS
from engine.lens.pieces import Ghosts
from engine.lens.tally import Tally
from engine.metrics import RoundCounts
from engine.trace import Trace, read

__all__ = [
    "CHARTS",
    "FORMS",
    "Form",
    "chart_svg",
    "csv_texts",
    "read_export",
    "read_traces",
    "to_html",
    "to_json",
    "total",
    "write",
]


def read_traces(paths: Iterable[str | os.PathLike[str]]) -> tuple[Trace, ...]:
    """The traces at these paths. Raises DraftlightError like `engine.trace.read`."""
    return tuple(read(path) for path in paths)


def write(
    traces: Sequence[Trace], form: Form, path: Path, chart: str = "proposals", theme: str = "light", ghosts: Ghosts = "all"
) -> tuple[Path, ...]:
    """Write an export; returns the files that are there now, `path` first.

    Args:
        chart, theme: of an SVG: a name of `CHARTS`, and "dark" or "light". It shows the last answer.
        ghosts: which of them an HTML report opens with.

    Raises:
        DraftlightError: it cannot be written, and nothing has changed; or Parquet is not available.
    """
    files: dict[Path, str] | dict[Path, bytes]
    match form:
        case "json":
            files = {path: to_json(traces) + "\n"}
        case "csv":
            files = csv_files(traces, path)
        case "parquet":
            files = parquet_files(traces, path)
        case "html":
            files = {path: to_html(traces, ghosts)}
        case "svg":
            files = {path: chart_svg(traces, chart, theme)}
    write_together(files)
    return tuple(files)


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


def read_export(path: Path) -> dict[str, tuple[RoundCounts, ...]]:
    """The rounds of every answer in an export, by the name of its trace.

    Raises:
        DraftlightError: the file is none, was cut or damaged, or its kind holds no rounds to read back.
    """
    readers = {".json": read_json_export, ".csv": read_rounds_csv, ".parquet": read_rounds_parquet}
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise DraftlightError(f"{path} cannot be read back: only {', '.join(readers)} files can.")
    return reader(path)
