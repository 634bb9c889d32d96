"""A submitted request as the threads share it: an answer, or a long task."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import ClassVar, Generic, TypeVar

from engine.decode.run_control import Control
from engine.files.logs import explain
from engine.serving.backend import Backend
from engine.serving.model_slots import Closing, ModelSlots
from engine.types import Event, Request, TaskEnd, TaskFailed, TaskProgress

REPORT_EVERY = 0.25
"""Seconds between two reports of one step."""

Wanted = TypeVar("Wanted")


class Run(Control):
    """A submitted request, and what other threads ask of it meanwhile: to stop, or to change its settings, drafters by name."""

    def __init__(self, run_id: int, request: Request) -> None:
        super().__init__()
        self.id = run_id
        self.request = request
        self.submitted = time.perf_counter()


class Stopped(Exception):
    """Breaks a task off where it stands, because it was told to stop."""


class LongTask(Control, Generic[Wanted]):
    """A submitted request that is neither an answer nor a load: a proof, a benchmark, samples, a training.

    A kind of task says what it is called, what it does, and how it ends early; queue, thread and command line treat all alike.

    Attributes:
        purpose: what a failure interrupts, as a participle ("benchmarking").
    """

    purpose: ClassVar[str]

    def __init__(self, task_id: int, request: Wanted) -> None:
        super().__init__()
        self.id = task_id
        self.request = request
        self._told = ("", 0.0)

    def work(self, backend: Backend, slots: ModelSlots, emit: Callable[[Event], None]) -> TaskEnd:
        """Do it, and return the event that ends it. Raises Stopped, or Closing, to be broken off."""
        raise NotImplementedError

    def cut_off(self) -> TaskEnd:
        """The event that ends it when it was stopped."""
        raise NotImplementedError

    def carry_out(self, backend: Backend, slots: ModelSlots, emit: Callable[[Event], None]) -> None:
        """Do it, or report why that cannot be. Ends with one event in any case, and raises nothing but Closing."""
        try:
            self.proceed()
            end: Event = self.work(backend, slots, emit)
        except Stopped:
            end = self.cut_off()
        except Closing:
            emit(self.cut_off())
            raise
        except Exception as error:
            slots.forget_drafters()
            end = TaskFailed(self.id, explain(error, self.purpose))
        emit(end)

    def proceed(self) -> None:
        """Go on, unless the task was stopped: then Stopped is raised."""
        if self.stopped:
            raise Stopped

    def report(self, emit: Callable[[Event], None], step: str, fraction: float) -> None:
        """Progress, told when a new step begins and a few times a second within one; figures in `step` follow a comma."""
        self.proceed()
        kind, now = step.partition(",")[0], time.perf_counter()
        if kind != self._told[0] or now - self._told[1] >= REPORT_EVERY:
            self._told = kind, now
            emit(TaskProgress(self.id, step, fraction))
