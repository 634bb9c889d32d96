"""`draftlight export`: answers from their traces, for other programs and for people. Needs neither a model nor a display."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from engine.errors import DraftlightError
from engine.exports.forms import FORMS
from engine.exports.tables import TABLES
from engine.lens.chart_kinds import CHARTS
from engine.trace import Trace

HELP = "export answers from their traces, as data or as a report"
DESCRIPTION = (
    "Export answers from their traces. json writes one document. csv and parquet write a table of rounds, plus the proposals, "
    "the answers and their stretches (rounds under one rule and drafter) as NAME-proposals, NAME-answers and NAME-stretches. "
    "html writes one self-contained report with figures, charts, the answer and its provenance; it loads nothing else. svg and "
    "png write one chart, and card a picture to share (.png or .svg), each of the last answer. Parquet needs the package "
    "pyarrow: pip install 'draftlight[parquet]'."
)
FORMATS: tuple[str, ...] = (*FORMS, "png", "card")
_FILES_ONLY = ("parquet", "png", "card")
_ENDINGS: dict[str, tuple[str, ...]] = {form: (form,) for form in FORMATS} | {"card": ("png", "svg")}
"""What the name of a file of each format ends in."""
_KNOWN = {ending for endings in _ENDINGS.values() for ending in endings}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument("traces", metavar="TRACE", nargs="+", type=Path, help="a trace, or a folder of traces")
    parser.add_argument("--format", choices=FORMATS, help="default: from the extension of --output, else json")
    parser.add_argument("--output", metavar="PATH", type=_output, help="a file or an existing folder (default: standard output)")
    parser.add_argument(
        "--table", choices=TABLES, default="rounds", help="which CSV table to print to standard output (default: %(default)s)"
    )
    parser.add_argument(
        "--chart",
        choices=tuple(CHARTS),
        default="proposals",
        help="which chart to draw as svg or png (default: %(default)s)",
    )
    parser.add_argument(
        "--theme", choices=("light", "dark"), default="light", help="colours of svg, png and card (default: %(default)s)"
    )


def run(arguments: argparse.Namespace) -> int:
    """The command, with the arguments of `add_arguments`. Raises DraftlightError."""
    from engine import export  # numpy comes with it, which help and version do without

    output: Path | None = arguments.output
    form = _form_of(arguments)
    if output is None and form in _FILES_ONLY:
        arguments.error(f"{form} cannot go to standard output: add --output FILE")
    traces = export.read_traces(trace_files(arguments.traces))
    for trace in traces:
        if trace.missing:
            print(f"draftlight: {trace.path}: {trace.missing}", file=sys.stderr)
    if output is None:
        sys.stdout.buffer.write(_text(traces, form, arguments).encode("utf-8", errors="backslashreplace"))
        return 0
    path = output / f"{traces[0].path.stem}.{_ENDINGS[form][0]}" if os.path.isdir(output) else output
    if any(os.path.realpath(path) == os.path.realpath(trace.path) for trace in traces):
        raise DraftlightError(f"{path} is one of the traces to export and would be overwritten. Choose another name.")
    for written in _write(traces, form, path, arguments):
        print(written)
    return 0


def _write(traces: Sequence[Trace], form: str, path: Path, arguments: argparse.Namespace) -> tuple[Path, ...]:
    from app.export import (
        pictures,
        share_card,  # what they need would slow every command down
    )
    from engine import export  # numpy comes with it, which help and version do without

    match form:
        case "png":
            return (pictures.save(pictures.chart_svg(traces[-1], arguments.chart, arguments.theme), path),)
        case "card":
            return (share_card.write(traces[-1], path, arguments.theme),)
    return export.write(traces, next(known for known in FORMS if known == form), path, arguments.chart, arguments.theme)


def trace_files(paths: Sequence[Path]) -> list[Path]:
    """The files, folders replaced by the traces in them. Raises DraftlightError for a folder without any."""
    files: list[Path] = []
    for path in paths:
        found = sorted(path.glob("*.jsonl")) if path.is_dir() else [path]
        if not found:
            raise DraftlightError(f"There are no traces (*.jsonl) in {path}.")
        files += found
    return files


def _output(text: str) -> Path:
    """The argument of --output. A name that ends as a folder's does must be one, else it would become a file without ending."""
    if not text:
        raise argparse.ArgumentTypeError("the name is empty")
    if text.endswith((os.sep, os.altsep or os.sep)) and not os.path.isdir(text):
        raise argparse.ArgumentTypeError(f"the folder {text} does not exist; create it first, or give a file name")
    return Path(text)


def _form_of(arguments: argparse.Namespace) -> str:
    """The format asked for, or else the one that the name ends in; a usage error where the name says something else."""
    output: Path | None = arguments.output
    form: str | None = arguments.format
    is_name = output is not None and not os.path.isdir(output)
    ending = output.suffix.lower().lstrip(".") if output is not None and is_name else ""
    if form is None:
        if ending and ending not in _KNOWN:
            arguments.error(f"unknown extension .{ending}: add --format, or use .{', .'.join(sorted(_KNOWN))}")
        return ending or "json"
    fitting = _ENDINGS[form]
    if ending not in fitting and (ending in _KNOWN or (is_name and form in ("png", "card"))):
        arguments.error(f"--format {form} needs a file name ending in .{' or .'.join(fitting)}")
    return form


def _text(traces: Sequence[Trace], form: str, arguments: argparse.Namespace) -> str:
    from engine import export  # numpy comes with it, which help and version do without

    match form:
        case "csv":
            return export.csv_texts(traces)[arguments.table]
        case "html":
            return export.to_html(traces)
        case "svg":
            return export.chart_svg(traces, arguments.chart, arguments.theme)
    return export.to_json(traces) + "\n"
