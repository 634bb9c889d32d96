"""`draftlight bench`: runs a benchmark on the engine thread, shows how far it is, and leaves a table and a file."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from app.cli.bench_table import rendered
from app.cli.engine_run import carry_out
from app.cli.progress import ProgressBar
from app.cli.shared_options import INTERRUPTED
from engine.bench.report import Results, document, text_of
from engine.cluster.hosts import Cluster
from engine.errors import DraftlightError
from engine.exports.bench_report import to_html
from engine.files.whole_file import write_whole
from engine.requests.bench import BenchRequest
from engine.types import BenchFinished, BenchSkipped, BenchStarted, Event, TaskFailed

SAVE_EVERY = 30.0
"""Seconds between two versions of the JSON file, so that others can look at it meanwhile."""


def bench(
    request: BenchRequest,
    json_path: Path | None = None,
    html_path: Path | None = None,
    *,
    anyway: bool = False,
    cluster: Cluster | None = None,
) -> int:
    """Measure and print which drafter to use, and the table; returns the exit status: 0, or 130 if it was interrupted.

    Args:
        cluster: over which the target is split.

    Raises:
        DraftlightError: why it could not go on. What was measured before is printed and written all the same.
    """
    results = Results(request)
    saved = time.perf_counter()

    def save_now_and_then() -> None:
        """Writes the rows measured so far to the JSON file, at most once every `SAVE_EVERY` seconds."""
        nonlocal saved
        due = results.rows and not results.complete and time.perf_counter() - saved > SAVE_EVERY
        if json_path is not None and due:
            write_whole(json_path, text_of(document(results, summary=False)))
            saved = time.perf_counter()

    def take(event: Event, progress: ProgressBar) -> None:
        """Takes the event into the results, and says what is not measured as it was asked for."""
        results.take(event)
        match event:
            case BenchStarted(_, setup):
                for note in setup.notes:
                    progress.say(note)
            case BenchSkipped(_, message):
                progress.say(message)

    end = carry_out(
        lambda engine: engine.bench(request),
        BenchFinished,
        anyway=anyway,
        cluster=cluster,
        take=take,
        between=save_now_and_then,
    )
    if results.rows or not isinstance(end, TaskFailed):
        print(rendered(results))
    if json_path is not None and results.setup is not None:
        write_whole(json_path, text_of(document(results)))
    if html_path is not None and results.setup is not None:
        write_whole(html_path, to_html(results))
    if isinstance(end, TaskFailed):
        raise DraftlightError(end.message)
    if not results.complete:
        why = "the time is over" if results.out_of_time else "stopped"
        print(f"draftlight: {why}; run the same command again to go on with the rest", file=sys.stderr)
    return 0 if results.complete or results.out_of_time else INTERRUPTED
