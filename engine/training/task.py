"""A training from the queue to its end. Runs on the engine thread and imports no MLX itself."""

from __future__ import annotations

import time
from collections.abc import Callable

from engine.backend import Backend
from engine.library import Closing, Library
from engine.logs import explain
from engine.training.request import HeldOut, TrainRequest
from engine.types import Event, TaskFailed, TaskProgress, TrainingFinished, TrainingMeasured, TrainingTold

_REPORT_EVERY = 0.25


class _Stopped(Exception):
    """Breaks off the training."""


class TrainTask:
    """A submitted request, and what other threads ask of it meanwhile: to stop."""

    def __init__(self, task_id: int, request: TrainRequest) -> None:
        self.id = task_id
        self.request = request
        self.stopped = False

    def stop(self) -> None:
        """End within a step, with everything so far on disk. Any thread."""
        self.stopped = True


def carry_out(task: TrainTask, backend: Backend, library: Library, emit: Callable[[Event], None]) -> None:
    """Train, or report why that cannot be. Raises nothing but Closing."""
    told = ("", 0.0)

    def report(step: str, fraction: float) -> None:
        nonlocal told
        if task.stopped:
            raise _Stopped
        now = time.perf_counter()
        kind = step.partition(",")[0]  # what follows a comma are figures
        if kind != told[0] or now - told[1] >= _REPORT_EVERY:
            told = kind, now
            emit(TaskProgress(task.id, step, fraction))

    def tell(line: str) -> None:
        emit(TrainingTold(task.id, line))

    def measured(held_out: HeldOut) -> None:
        emit(TrainingMeasured(task.id, held_out))

    try:
        if task.stopped:
            raise _Stopped
        target = library.target(task.request.target)
        emit(TrainingFinished(task.id, backend.train(target, task.request, tell, report, measured)))
    except (_Stopped, Closing) as error:
        emit(TrainingFinished(task.id, None))
        if isinstance(error, Closing):
            raise
    except Exception as error:
        emit(TaskFailed(task.id, explain(error, "training the drafter")))
