"""Exports any traces and reads exports back: the entry point of `engine.exports`.

- JSON (`draftlight.metrics/1`): one document with settings, `Summary`, rounds and proposals of every answer.
- CSV and Parquet: a table of rounds, one of proposals, one of answers and one of stretches. Parquet needs the extra `parquet`.
- HTML: one file for people, with figures, charts, the coloured answer and all provenance; it loads nothing.
- SVG: one chart of an answer.

JSON, CSV and Parquet preserve the rounds: those that `read_export` returns have the same `Summary` as the traces.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from engine.exports.csv_files import csv_texts
from engine.exports.formats import FORMATS, ExportFormat, ExportOptions, named_as
from engine.exports.json_file import to_json, total
from engine.exports.report import to_html
from engine.exports.svg_charts import chart_svg
from engine.files.whole_file import write_together
from engine.lens.chart_kinds import CHARTS
from engine.lens.pieces import Ghosts
from engine.rounds.metrics import RoundCounts
from engine.rounds.trace import Trace, read
from engine.values.errors import DraftlightError

__all__ = [
    "CHARTS",
    "FORMATS",
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
    """Reads the traces at these paths. Raises DraftlightError like `engine.rounds.trace.read`."""
    return tuple(read(path) for path in paths)


def write(
    traces: Sequence[Trace],
    form: str | ExportFormat,
    path: Path,
    chart: str = "proposals",
    theme: str = "light",
    ghosts: Ghosts | None = None,
    compared: bool = False,
    may_replace: Callable[[list[Path]], bool] = lambda existing: True,
    verdict: tuple[str, ...] = (),
) -> tuple[Path, ...]:
    """Writes an export and returns the written files, that of `path` first.

    A single file keeps the name of `path`. If the export has several files, all of them get the format's ending.

    Args:
        form: one of `FORMATS` or its name.
        chart, theme, ghosts, compared, verdict: see `engine.exports.formats.ExportOptions`.
        may_replace: called with the files that exist already, if any; nothing is written if it returns False.

    Raises:
        DraftlightError: a file cannot be written, and none has changed; or Parquet is not available.
    """
    known = FORMATS[form] if isinstance(form, str) else form
    made = known.maker()(traces, ExportOptions(chart, theme, ghosts, path.suffix.lower(), compared, verdict))
    first, *further = made
    ending = path.suffix if path.suffix.lower() in known.endings else next(iter(known.endings))
    if further:
        path = named_as(path, ending)
    files = {path: made[first], **{path.with_name(f"{path.stem}-{part}{ending}"): made[part] for part in further}}
    existing = [file for file in files if os.path.isfile(file)]
    if existing and not may_replace(existing):
        return ()
    write_together(files)
    return tuple(files)


def read_export(path: Path) -> dict[str, tuple[RoundCounts, ...]]:
    """Returns the rounds of every answer in an export, by the name of its trace.

    Raises:
        DraftlightError: the file is not an export, was truncated or damaged, or its format cannot be read back.
    """
    readable = {ending: formats for formats in FORMATS.values() if formats.read for ending in formats.endings}
    reader = readable.get(path.suffix.lower())
    if reader is None:
        raise DraftlightError(f"{path} cannot be read back: only {', '.join(readable)} files can.")
    return reader.reader()(path)
