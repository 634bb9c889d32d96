"""Submitted requests as the threads share them: answers and long tasks."""

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
"""Minimum seconds between two progress reports of one step."""

Wanted = TypeVar("Wanted")


class Run(Control):
    """A submitted request for an answer, and what other threads request of it: a stop, or new settings (drafters by name)."""

    def __init__(self, run_id: int, request: Request) -> None:
        super().__init__()
        self.id = run_id
        self.request = request
        self.submitted = time.perf_counter()


class Stopped(Exception):
    """Raised inside a task that was stopped."""


class LongTask(Control, Generic[Wanted]):
    """A submitted request that is neither an answer nor a load: a proof, a benchmark, samples, a training.

    A subclass defines its name, its work and its end when interrupted; queue, thread and command line treat all alike.

    Attributes:
        purpose: what a failure interrupts, as a participle ("benchmarking").
    """

    purpose: ClassVar[str]

    def __init__(self, task_id: int, request: Wanted) -> None:
        super().__init__()
        self.id = task_id
        self.request = request
        self._last_report = ("", 0.0)

    def work(self, backend: Backend, slots: ModelSlots, emit: Callable[[Event], None]) -> TaskEnd:
        """Does the work, and returns the end event. Raises Stopped or Closing if it is interrupted."""
        raise NotImplementedError

    def cut_off(self) -> TaskEnd:
        """Returns the end event of a task that was stopped."""
        raise NotImplementedError

    def carry_out(self, backend: Backend, slots: ModelSlots, emit: Callable[[Event], None]) -> None:
        """Does the work, or reports why it is not possible. Always emits one end event, and raises nothing but Closing."""
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
        """Raises Stopped if the task was stopped."""
        if self.stopped:
            raise Stopped

    def report(self, emit: Callable[[Event], None], step: str, fraction: float, detail: str = "") -> None:
        """Emits progress when a new step begins, and a few times a second within it. `detail` has the figures of the step."""
        self.proceed()
        now = time.perf_counter()
        if step != self._last_report[0] or now - self._last_report[1] >= REPORT_EVERY:
            self._last_report = step, now
            emit(TaskProgress(self.id, step, fraction, detail))
