"""`draftlight bench`: runs a benchmark on the engine thread, shows how far it is, and leaves a table and a file."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from app.bench_table import rendered
from app.cli_chat import interruptions
from app.progress import Progress
from engine.bench.report import Results, document, text_of
from engine.bench.values import BenchRequest
from engine.errors import DraftlightError
from engine.export import write_whole
from engine.types import BenchFinished, BenchMeasured, BenchSkipped, BenchStarted, Event, TaskFailed
from engine.worker import Engine

INTERRUPTED = 130
_TICK = 0.25
SAVE_EVERY = 30.0
"""Seconds between two versions of the file: a benchmark that is killed leaves its rows so far, in a whole file."""


def bench(request: BenchRequest, json_path: Path | None = None) -> int:
    """Measure and print the table; returns the exit status: 0, or 130 if it was interrupted.

    Raises:
        DraftlightError: why it could not go on. What was measured before is printed and written all the same.
    """
    engine = Engine()
    progress = Progress()
    results = Results(request)
    saved = time.perf_counter()
    end: BenchFinished | TaskFailed | None = None
    try:
        task_id = engine.bench(request)
        with interruptions() as interrupted:
            stopping = False
            while end is None:
                if interrupted() and not stopping:
                    stopping = True
                    engine.stop(task_id)
                engine.wait(_TICK)
                for event in engine.events():
                    progress.take(event)
                    _take(results, event, progress)
                    if isinstance(event, (BenchFinished, TaskFailed)) and event.task_id == task_id:
                        end = event
                if json_path is not None and results.rows and time.perf_counter() - saved > SAVE_EVERY:
                    write_whole(json_path, text_of(document(results, summary=False)))
                    saved = time.perf_counter()
    finally:
        progress.clear()
        engine.close()
    results.complete = isinstance(end, BenchFinished) and end.complete
    if results.rows or not isinstance(end, TaskFailed):
        print(rendered(results))
    if json_path is not None and results.setup is not None:
        write_whole(json_path, text_of(document(results)))
    if isinstance(end, TaskFailed):
        raise DraftlightError(end.message)
    if not results.complete:
        print("draftlight: stopped; the figures are of what was measured so far", file=sys.stderr)
        return INTERRUPTED
    return 0


def _take(results: Results, event: Event, progress: Progress) -> None:
    match event:
        case BenchStarted(_, setup):
            results.setup = setup
            for note in setup.notes:
                progress.say(note)
        case BenchMeasured(_, row):
            results.rows.append(row)
        case BenchSkipped(_, message):
            results.messages.append(message)
            progress.say(message)
        case _:
            pass
