"""Following a long task on the engine thread to its end, for the commands that run one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from app.cli.chat import interruptions
from app.cli.progress import ProgressBar
from engine.interface import EngineLike
from engine.types import BenchFinished, Event, TaskFailed, TaskFinished, TrainingFinished

_TICK = 0.1
End = TypeVar("End", BenchFinished, TaskFinished, TrainingFinished)


def _nothing(*_: object) -> None:
    """What is done where a command has nothing of its own to do."""


def until_end(
    engine: EngineLike,
    submit: Callable[[], int],
    progress: ProgressBar,
    kind: type[End],
    take: Callable[[Event], None] = _nothing,
    between: Callable[[], None] = _nothing,
    stopping: str = "",
) -> End | TaskFailed:
    """The event that ends the task. The first Ctrl-C stops it, a second interrupts as usual.

    Args:
        submit: queues the task and gives its id.
        kind: how it ends unless it fails.
        take: what is done with each event, after its progress was shown.
        between: called after each batch of events, and now and then without one.
        stopping: said when the task is stopped.
    """
    stopped = False
    with interruptions() as interrupted:  # before the task begins, or a Ctrl-C in between would be lost
        task_id = submit()
        while True:
            if interrupted() and not stopped:
                stopped = True
                engine.stop(task_id)
                if stopping:
                    progress.say(stopping)
            engine.wait(_TICK)
            end: End | TaskFailed | None = None
            for event in engine.events():
                progress.take(event)
                take(event)
                if isinstance(event, (kind, TaskFailed)) and event.task_id == task_id:
                    end = event
            between()
            if end is not None:
                return end
