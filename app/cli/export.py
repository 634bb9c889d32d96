"""`draftlight export`: exports answers from their traces, as data or as a report. Needs neither a model nor a display."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from app.export.kinds import formats
from engine.exports.formats import ExportFormat, ExportOptions
from engine.exports.tables import TABLES
from engine.lens.chart_kinds import CHARTS
from engine.rounds.trace import traces_in
from engine.values.errors import DraftlightError

HELP = "export answers from their traces, as data or as a report"
DESCRIPTION = (
    "Export answers from their traces, for other programs and for people. csv and parquet write a table of rounds, plus the "
    "proposals, the answers and their stretches (rounds under one rule and drafter) as NAME-proposals, NAME-answers and "
    "NAME-stretches. An html report loads nothing else. Parquet needs the package "
    "pyarrow: pip install 'draftlight[parquet]'."
)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options to the command's parser."""
    parser.add_argument("traces", metavar="TRACE", nargs="+", type=Path, help="a trace, or a folder of traces")
    parser.add_argument("--format", choices=tuple(formats()), help="default: from the extension of --output, else json")
    parser.add_argument("--output", metavar="PATH", type=_output, help="a file or an existing folder (default: standard output)")
    parser.add_argument(
        "--table",
        choices=TABLES,
        default="rounds",
        help="which table of csv to print to standard output (default: %(default)s)",
    )
    parser.add_argument(
        "--chart",
        choices=tuple(CHARTS),
        default="proposals",
        help="which chart to draw, as svg or png (default: %(default)s)",
    )
    parser.add_argument("--theme", choices=("light", "dark"), default="light", help="colours of pictures (default: %(default)s)")
    parser.epilog = f"Formats: {', '.join(f'{known.name} ({known.content})' for known in formats().values())}."


def run(arguments: argparse.Namespace) -> int:
    """Runs the command with its options. Raises DraftlightError."""
    from engine.exports import export  # numpy comes with it, which help and version do without
    from engine.lens.shared_wording import all_words
    from engine.rounds.metrics import stretches

    output: Path | None = arguments.output
    form = _format_of(arguments)
    if output is None and not form.printable:
        arguments.error(f"{form.name} cannot go to standard output: add --output FILE")
    traces = export.read_traces(trace_files(arguments.traces))
    for trace in traces:
        if trace.missing:
            print(f"draftlight: {trace.path}: {trace.missing}", file=sys.stderr)
        if told := all_words(stretches(trace.rounds)):
            print(f"draftlight: {trace.path}: rule or drafter changed in this answer. {'; '.join(told)}.", file=sys.stderr)
    if output is None:
        parts = form.maker()(traces, ExportOptions(arguments.chart, arguments.theme))
        text = parts.get(arguments.table) or next(iter(parts.values()))
        sys.stdout.buffer.write(text if isinstance(text, bytes) else text.encode("utf-8", errors="backslashreplace"))
        return 0
    path = output / f"{traces[0].path.stem}{next(iter(form.endings))}" if os.path.isdir(output) else output
    exported = {os.path.realpath(trace.path) for trace in traces}

    def may_replace(existing: list[Path]) -> bool:
        """Asks for confirmation at a terminal; without one, reports what is replaced."""
        for file in existing:
            if os.path.realpath(file) in exported:
                raise DraftlightError(f"{file} is one of the traces to export and would be overwritten. Choose another name.")
        names = " and ".join(map(str, existing))
        if sys.stdin.isatty() and sys.stderr.isatty():
            print(f"draftlight: replace {names}? [y/N] ", end="", file=sys.stderr, flush=True)
            return sys.stdin.readline().strip().lower() in ("y", "yes")
        print(f"draftlight: replacing {names}", file=sys.stderr)
        return True

    written = export.write(traces, form, path, arguments.chart, arguments.theme, may_replace=may_replace)
    for file in written:
        print(file)
    return 0 if written else 1


def trace_files(paths: Sequence[Path]) -> list[Path]:
    """Returns the files, with each folder replaced by the traces in it. Raises DraftlightError for a folder without any."""
    files: list[Path] = []
    for path in paths:
        found = traces_in(path) if path.is_dir() else [path]
        if not found:
            raise DraftlightError(f"There are no traces (*.jsonl) in {path}.")
        files += found
    return files


def _output(text: str) -> Path:
    """Parses --output. A name with a trailing separator must be an existing folder, else it would become a file without
    extension."""
    if not text:
        raise argparse.ArgumentTypeError("the name is empty")
    if text.endswith((os.sep, os.altsep or os.sep)) and not os.path.isdir(text):
        raise argparse.ArgumentTypeError(f"the folder {text} does not exist; create it first, or give a file name")
    return Path(text)


def _format_of(arguments: argparse.Namespace) -> ExportFormat:
    """Returns the requested format, else that of the file name's extension; a contradiction is a usage error."""
    output: Path | None = arguments.output
    is_name = output is not None and not os.path.isdir(output)
    ending = output.suffix.lower() if output is not None and is_name else ""
    known = formats()
    by_ending = {ending: form for form in reversed(known.values()) for ending in form.endings}
    if arguments.format is None:
        if ending and ending not in by_ending:
            arguments.error(f"unknown extension {ending}: add --format, or use {', '.join(sorted(by_ending))}")
        return by_ending.get(ending, known["json"])
    form = known[arguments.format]
    if ending not in form.endings and (ending in by_ending or (is_name and len(form.endings) > 1)):
        arguments.error(f"--format {form.name} needs a file name ending in {' or '.join(form.endings)}")
    return form
