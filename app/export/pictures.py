"""Pictures of charts and answers as SVG or PNG. An SVG needs no Qt; a PNG needs Qt but no display.

`chart_svg` and `app.export.share_card.card_svg` make an SVG; `save` writes it as SVG or PNG, depending on the file's ending.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from app.session.session import Answer, Turn
from engine.exports import export
from engine.exports.formats import ExportOptions
from engine.files.whole_file import write_together
from engine.machine.provenance import version
from engine.rounds.codec import options_to_json
from engine.rounds.codec import plain as as_json
from engine.rounds.trace import PlainRun, Trace, read
from engine.types import Message
from engine.values.errors import DraftlightError

PNG_FACTOR = 2.0
"""Pixels of a PNG per unit of the drawing."""
ENDINGS = (".png", ".svg")


def chart_svg(trace: Trace, name: str, theme: str = "light") -> str:
    """Returns a chart as in the report, with title, axes and provenance. Raises DraftlightError if there is no such chart."""
    return export.chart_svg([trace], name, theme)


def make(traces: Sequence[Trace], wanted: ExportOptions) -> dict[str, bytes]:
    """Returns a chart of the last answer as PNG, as in `engine.exports.formats.Make`."""
    return {"chart": content(export.chart_svg(traces, wanted.chart, wanted.theme), ".png")}


def save(svg: str, path: Path) -> Path:
    """Writes a picture as PNG if the name ends in ".png", else as SVG.

    Raises:
        DraftlightError: it cannot be written; nothing has changed then.
    """
    write_together({path: content(svg, path.suffix)})
    return path


def content(svg: str, ending: str) -> bytes:
    """Returns the content of a picture's file."""
    if ending.lower() == ".png":
        from app.export.raster import to_png  # only this needs Qt

        return to_png(svg, PNG_FACTOR)
    return svg.encode("utf-8", errors="backslashreplace")


def save_charts(
    trace: Trace, folder: Path, theme: str = "light", may_replace: Callable[[list[Path]], bool] = lambda existing: True
) -> tuple[Path, ...]:
    """Writes every chart of an answer as SVG and as PNG, all or none; returns the files.

    Args:
        may_replace: called with the files that exist already, if any; nothing is written if it returns False.

    Raises:
        DraftlightError: they cannot be written; nothing has changed then.
    """
    files: dict[Path, bytes] = {}
    for name in export.CHARTS:
        svg = chart_svg(trace, name, theme)
        for ending in ENDINGS:
            files[folder / f"{trace.path.stem}-{name}{ending}"] = content(svg, ending)
    existing = [file for file in files if os.path.isfile(file)]
    if existing and not may_replace(existing):
        return ()
    write_together(files)
    return tuple(files)


def trace_of(turn: Turn, plain: PlainRun | None = None) -> Trace:
    """Returns the trace of an answer. Header and end are read from its file, if there is one; the rounds are those in the window.

    `plain` is the measured plain run that the answer is compared with.
    """
    answer = turn.answer
    stored = _read_trace(answer)
    header = stored.header if stored is not None else _header(turn)
    path = Path(answer.trace_path) if answer.trace_path else Path("answer.jsonl")
    changes = tuple(
        {"index": change.index, "rule": change.rule, "gamma": change.gamma, "drafter": change.drafter}
        for change in answer.changes
    )
    return Trace(path, header, tuple(answer.rounds), changes, None if stored is None else stored.summary, None, plain)


def _read_trace(answer: Answer) -> Trace | None:
    try:
        return None if answer.trace_path is None else read(answer.trace_path)
    except DraftlightError:
        return None


def _header(turn: Turn) -> dict[str, object]:
    answer = turn.answer
    messages: Sequence[Message] = (Message("user", turn.prompt),) if answer.request is None else answer.request.messages
    return {
        "versions": {"draftlight": version()},
        "target": {"name": answer.model},
        "drafter": {"name": answer.drafter},
        "options": options_to_json(answer.options),
        "seed": answer.options.seed,
        "prompt": {"messages": as_json(tuple(messages)), "ids": []},
    }
