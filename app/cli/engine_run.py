"""Runs the engine for a command: starts it, follows a run or task to its end, and closes it."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, TypeVar

from app.cli.output import ProgressBar
from engine.cluster.hosts import Cluster
from engine.types import BenchFinished, Event, RunFailed, RunFinished, TaskFailed, TaskFinished, TrainingFinished
from engine.values.events import RunEvent

if TYPE_CHECKING:
    from engine.runtime.interface import EngineLike

TICK = 0.1
"""Seconds between two checks for an interruption by the user."""
End = TypeVar("End", BenchFinished, RunFinished, TaskFinished, TrainingFinished)
Failure = TypeVar("Failure", RunFailed, TaskFailed)


@contextmanager
def running_engine(anyway: bool = False, cluster: Cluster | None = None, close_timeout: float = 5.0) -> Iterator[EngineLike]:
    """Yields an engine and closes it at the end.

    Args:
        anyway: loads models even if they will probably exhaust the memory.
        cluster: machines to split the target over; None uses this machine alone.
        close_timeout: seconds that closing may take.
    """
    from engine.cluster.companions import launch_for  # slow to import, and the help of commands does without
    from engine.runtime.process.client import ProcessEngine
    from engine.runtime.worker import Engine

    engine: EngineLike = Engine() if cluster is None else ProcessEngine(launch_for(cluster))
    try:
        if anyway:
            engine.ignore_memory()
        yield engine
    finally:
        engine.close(close_timeout)


@contextmanager
def interruptions() -> Iterator[Callable[[], bool]]:
    """Yields a function that returns whether Ctrl-C was pressed; a second Ctrl-C raises KeyboardInterrupt."""
    count = 0

    def handle_signal(number: int, frame: FrameType | None) -> None:
        """Handles SIGINT: counts the signals and raises KeyboardInterrupt from the second one on."""
        nonlocal count
        count += 1
        if count > 1:
            raise KeyboardInterrupt

    previous = signal.signal(signal.SIGINT, handle_signal)
    try:
        yield lambda: count > 0
    finally:
        signal.signal(signal.SIGINT, previous)


def _do_nothing(*_: object) -> None:
    """Does nothing; the default callback."""


def follow(
    engine: EngineLike,
    number: int,
    ends: tuple[type[End], type[Failure]],
    on_event: Callable[[Event], None],
    interrupted: Callable[[], bool] = lambda: False,
    on_stop: Callable[[], None] = _do_nothing,
    on_poll: Callable[[], None] = _do_nothing,
) -> End | Failure:
    """Passes the engine's events to `on_event` until a run or task has ended, and returns its last event. An interruption stops
    it and waits for its end.

    Args:
        number: id of the run or task.
        ends: the events that end it.
        on_stop: called once when it is stopped.
        on_poll: called after each batch of events, and periodically without one.
    """
    stopped = False
    while True:
        if interrupted() and not stopped:
            stopped = True
            engine.stop(number)
            on_stop()
        engine.wait(TICK)
        end: End | Failure | None = None
        for event in engine.events():
            on_event(event)
            if isinstance(event, ends) and number == (event.run_id if isinstance(event, RunEvent) else event.task_id):
                end = event
        on_poll()
        if end is not None:
            return end


def run_task(
    submit: Callable[[EngineLike], int],
    kind: type[End],
    *,
    anyway: bool,
    cluster: Cluster | None = None,
    on_event: Callable[[Event, ProgressBar], None] = _do_nothing,
    on_poll: Callable[[], None] = _do_nothing,
    stop_message: str = "",
    close_timeout: float = 5.0,
) -> End | TaskFailed:
    """Runs a long task with a progress display, and returns the event that ends it. The first Ctrl-C stops it, a second one
    interrupts as usual.

    Args:
        submit: queues the task and returns its id.
        kind: the event that ends it successfully.
        anyway, cluster, close_timeout: as in `running_engine`.
        on_event: handles each event, after its progress was shown.
        on_poll: as in `follow`.
        stop_message: printed when the task is stopped.
    """
    progress = ProgressBar()

    def show(event: Event) -> None:
        """Shows the progress, then passes the event on."""
        progress.handle(event)
        on_event(event, progress)

    with running_engine(anyway, cluster, close_timeout) as engine:
        try:
            with interruptions() as interrupted:  # before the task starts, else a Ctrl-C in between is lost
                show_stop_message = (lambda: progress.print_line(stop_message)) if stop_message else _do_nothing
                return follow(engine, submit(engine), (kind, TaskFailed), show, interrupted, show_stop_message, on_poll)
        finally:
            progress.clear()
