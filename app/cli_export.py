"""`draftlight export`: answers from their traces, for other programs and for people. Needs neither a model nor a display."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from engine import export
from engine.errors import DraftlightError
from engine.exports.tables import TABLES
from engine.trace import Trace

HELP = "answers from their traces, as data or as a report"
DESCRIPTION = (
    "Write answers from their traces. json is one document; csv and parquet are a table of rounds, with the proposals and the "
    "answers beside it as NAME-proposals and NAME-answers; html is one file to read, with figures, charts, the answer and where "
    "it came from, that loads nothing; svg and png are one chart and card a picture to share (.png or .svg), each of the last "
    "answer. Parquet needs the package pyarrow: pip install 'draftlight[parquet]'."
)
FORMATS: tuple[str, ...] = (*export.FORMS, "png", "card")
_FILES_ONLY = ("parquet", "png", "card")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument("traces", metavar="TRACE", nargs="+", type=Path, help="a trace, or a folder of traces")
    parser.add_argument("--format", choices=FORMATS, help="default: as --output ends, else json")
    parser.add_argument("--output", metavar="PATH", type=Path, help="a file, or a folder that exists; default: standard output")
    parser.add_argument(
        "--table", choices=TABLES, default="rounds", help="which CSV table goes to standard output (default: %(default)s)"
    )
    parser.add_argument(
        "--chart", choices=tuple(export.CHARTS), default="proposals", help="which chart svg and png show (default: %(default)s)"
    )
    parser.add_argument("--theme", choices=("light", "dark"), default="light", help="of svg, png and card (default: %(default)s)")


def run(arguments: argparse.Namespace) -> int:
    """The command, with the arguments of `add_arguments`. Raises DraftlightError."""
    output: Path | None = arguments.output
    form: str = arguments.format or _form_of(output)
    if output is None and form in _FILES_ONLY:
        arguments.error(f"{form} needs a file to go to: --output FILE")
    traces = export.read_traces(trace_files(arguments.traces))
    for trace in traces:
        if trace.missing:
            print(f"draftlight: {trace.path}: {trace.missing}", file=sys.stderr)
    if output is None:
        sys.stdout.buffer.write(_text(traces, form, arguments).encode("utf-8", errors="backslashreplace"))
        return 0
    path = output / f"{traces[0].path.stem}.{'png' if form == 'card' else form}" if output.is_dir() else output
    for written in _write(traces, form, path, arguments):
        print(written)
    return 0


def _write(traces: Sequence[Trace], form: str, path: Path, arguments: argparse.Namespace) -> tuple[Path, ...]:
    from app import pictures, share_card  # what they need would slow every command down

    match form:
        case "png":
            return (pictures.save(pictures.chart_svg(traces[-1], arguments.chart, arguments.theme), path),)
        case "card":
            return (share_card.write(traces[-1], path, arguments.theme),)
    return export.write(traces, next(known for known in export.FORMS if known == form), path, arguments.chart, arguments.theme)


def trace_files(paths: Sequence[Path]) -> list[Path]:
    """The files, folders replaced by the traces in them. Raises DraftlightError for a folder without any."""
    files: list[Path] = []
    for path in paths:
        found = sorted(path.glob("*.jsonl")) if path.is_dir() else [path]
        if not found:
            raise DraftlightError(f"There are no traces (*.jsonl) in {path}.")
        files += found
    return files


def _form_of(output: Path | None) -> str:
    ending = "" if output is None else output.suffix.lower().lstrip(".")
    return ending if ending in FORMATS else "json"


def _text(traces: Sequence[Trace], form: str, arguments: argparse.Namespace) -> str:
    match form:
        case "csv":
            return export.csv_texts(traces)[arguments.table]
        case "html":
            return export.to_html(traces)
        case "svg":
            return export.chart_svg(traces, arguments.chart, arguments.theme)
    return export.to_json(traces) + "\n"
