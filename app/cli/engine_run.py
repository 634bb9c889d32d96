"""Runs the engine for a command: starts it, follows a run or task to its end, and closes it."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TypeVar

from app.cli.progress import ProgressBar
from engine.cluster.companions import launch_for
from engine.cluster.hosts import Cluster
from engine.runtime.interface import EngineLike
from engine.runtime.process.client import ProcessEngine
from engine.runtime.worker import Engine
from engine.types import BenchFinished, Event, RunFailed, RunFinished, TaskFailed, TaskFinished, TrainingFinished
from engine.values.events import RunEvent

TICK = 0.1
"""Seconds between two checks for an interruption by the user."""
End = TypeVar("End", BenchFinished, RunFinished, TaskFinished, TrainingFinished)
Failure = TypeVar("Failure", RunFailed, TaskFailed)


@contextmanager
def running_engine(anyway: bool = False, cluster: Cluster | None = None, closing: float = 5.0) -> Iterator[EngineLike]:
    """Yields an engine and closes it at the end.

    Args:
        anyway: loads models even if they will probably exhaust the memory.
        cluster: machines to split the target over; None uses this machine alone.
        closing: seconds that closing may take.
    """
    engine: EngineLike = Engine() if cluster is None else ProcessEngine(launch_for(cluster))
    try:
        if anyway:
            engine.ignore_memory()
        yield engine
    finally:
        engine.close(closing)


@contextmanager
def interruptions() -> Iterator[Callable[[], bool]]:
    """Yields a function that returns whether Ctrl-C was pressed; a second Ctrl-C raises KeyboardInterrupt."""
    count = 0

    def note(number: int, frame: FrameType | None) -> None:
        """Handles SIGINT: counts the signals and raises KeyboardInterrupt from the second one on."""
        nonlocal count
        count += 1
        if count > 1:
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, note)
    try:
        yield lambda: count > 0
    finally:
        signal.signal(signal.SIGINT, before)


def _nothing(*_: object) -> None:
    """Does nothing; the default callback."""


def follow(
    engine: EngineLike,
    number: int,
    ends: tuple[type[End], type[Failure]],
    take: Callable[[Event], None],
    interrupted: Callable[[], bool] = lambda: False,
    stopping: Callable[[], None] = _nothing,
    between: Callable[[], None] = _nothing,
) -> End | Failure:
    """Passes the engine's events to `take` until a run or task has ended, and returns its last event. An interruption stops it
    and waits for its end.

    Args:
        number: id of the run or task.
        ends: the events that end it.
        stopping: called once when it is stopped.
        between: called after each batch of events, and periodically without one.
    """
    stopped = False
    while True:
        if interrupted() and not stopped:
            stopped = True
            engine.stop(number)
            stopping()
        engine.wait(TICK)
        end: End | Failure | None = None
        for event in engine.events():
            take(event)
            if isinstance(event, ends) and number == (event.run_id if isinstance(event, RunEvent) else event.task_id):
                end = event
        between()
        if end is not None:
            return end


def carry_out(
    submit: Callable[[EngineLike], int],
    kind: type[End],
    *,
    anyway: bool,
    cluster: Cluster | None = None,
    take: Callable[[Event, ProgressBar], None] = _nothing,
    between: Callable[[], None] = _nothing,
    stopping: str = "",
    closing: float = 5.0,
) -> End | TaskFailed:
    """Runs a long task with a progress display, and returns the event that ends it. The first Ctrl-C stops it, a second one
    interrupts as usual.

    Args:
        submit: queues the task and returns its id.
        kind: the event that ends it successfully.
        anyway, cluster, closing: as in `running_engine`.
        take: handles each event, after its progress was shown.
        between: as in `follow`.
        stopping: printed when the task is stopped.
    """
    progress = ProgressBar()

    def show(event: Event) -> None:
        """Shows the progress, then passes the event on."""
        progress.take(event)
        take(event, progress)

    with running_engine(anyway, cluster, closing) as engine:
        try:
            with interruptions() as interrupted:  # before the task starts, else a Ctrl-C in between is lost
                say = (lambda: progress.say(stopping)) if stopping else _nothing
                return follow(engine, submit(engine), (kind, TaskFailed), show, interrupted, say, between)
        finally:
            progress.clear()
