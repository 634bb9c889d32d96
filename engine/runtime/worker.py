"""The engine thread: the only thread that uses MLX, from import to exit.

Requests enter through a queue, and immutable events leave through another; only plain Python values cross.
`engine.runtime.interface` lists the requests.

The thread is a daemon, so a hanging computation cannot block the exit of the program. An exit handler closes an engine that is
still open, so that no computation is cut off.
"""

from __future__ import annotations

import atexit
import contextlib
import queue
import threading
from collections import deque
from collections.abc import Callable, Generator
from typing import Any

from engine.decode.run_control import Clock
from engine.files.logs import explain
from engine.machine import garbage
from engine.machine.macos import activity
from engine.runtime.interface import EngineLike
from engine.runtime.mlx_backend import MlxBackend
from engine.serving.answer import answer
from engine.serving.backend import Backend
from engine.serving.jobs import LongTask, Run
from engine.serving.model_slots import EVERY, Closing, ModelSlots
from engine.serving.prompt import PromptCounter
from engine.serving.time_sharing import SampleTask, take_turns
from engine.tools.bench.job import BenchTask
from engine.tools.proof.job import ProofTask
from engine.tools.training.job import TrainTask
from engine.types import EngineFailed, Event, LoadFailed, LoadStarted, ProveRequest, RunFailed, RunFinished, TaskEnd, TaskFailed
from engine.values.errors import DraftlightError
from engine.values.requests.bench import BenchRequest
from engine.values.requests.commands import (
    CheckDrafter,
    Close,
    Command,
    Compare,
    CountPrompt,
    IgnoreMemory,
    Load,
    Perform,
    Stop,
    Submit,
    Task,
    Update,
)
from engine.values.requests.compare import SampleRequest
from engine.values.requests.train import TrainRequest

_POLL_INTERVAL = 0.1
"""Polling interval in seconds: how often an engine that waits for memory checks whether it is closed."""
_DONE = object()
"""Marks that all measurements are done."""


_Job = Run | LongTask[Any]
_Work = Load | CheckDrafter | tuple[Run, ...] | LongTask[Any]
"""Work for the thread. Several runs in one entry take turns."""


class Engine(EngineLike):
    """Loads models and answers requests, one after another, on its own thread.

    Args:
        backend: creates the backend, on the engine thread; tests pass others.
        measures: whether to measure, while idle, what rounds cost with the loaded pair.
        after: set once there is memory for models; requests wait for that. None if there is no need to wait.
    """

    def __init__(
        self, backend: Callable[[], Backend] = MlxBackend, *, measures: bool = False, after: threading.Event | None = None
    ) -> None:
        super().__init__()
        self._measures = measures
        self._after = after
        self._work: queue.SimpleQueue[_Work | Close] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._runs: dict[int, _Job] = {}
        self._closing = threading.Event()
        self._unchecked: set[str] = set()
        self._counter = PromptCounter(self._emit)
        self._loads: deque[tuple[float, float]] = deque(maxlen=8)
        self._thread = threading.Thread(target=self._serve, args=(backend,), name="draftlight-engine", daemon=True)
        self._thread.start()
        atexit.register(self.close)

    def send(self, command: Command) -> None:
        """As in `EngineLike`. Commands that must take effect during a computation bypass the thread's queue."""
        match command:
            case Load() | CheckDrafter():
                self._put(command)
            case Submit(number, request):
                self._enqueue((Run(number, request),))
            case Compare(numbers, comparison):
                self._enqueue(tuple(map(Run, numbers, comparison.requests)))
            case Perform(number, task):
                self._enqueue(_long_task(number, task))
            case IgnoreMemory(names):
                self._unchecked.update(names or (EVERY,))
            case CountPrompt(number, request):
                self._counter.count(number, request)
            case Update(number):
                run = self._find(number)
                if isinstance(run, Run):
                    run.update(**command.changes)
            case Stop(number):
                if (job := self._find(number)) is not None:
                    job.stop()

    @property
    def is_computing(self) -> bool:
        """As in `EngineLike`."""
        with self._lock:
            return any(job.is_computing for job in self._runs.values())

    def close(self, timeout: float = 5.0) -> bool:
        """As in `EngineLike`."""
        with self._lock:
            if not self._closing.is_set():
                self._closing.set()
                self._work.put(Close())
            runs = list(self._runs.values())
        for run in runs:
            run.stop()
        self._counter.close()
        self._thread.join(timeout)
        ended = not self._thread.is_alive() and self._counter.ended(timeout)
        if ended:
            atexit.unregister(self.close)
        return ended

    def _enqueue(self, work: tuple[Run, ...] | LongTask[Any]) -> None:
        jobs: tuple[_Job, ...] = work if isinstance(work, tuple) else (work,)
        with self._lock:
            self._runs.update({job.id: job for job in jobs})
        try:
            self._put(work)
        except DraftlightError:
            for job in jobs:
                self._forget(job.id)
            raise

    def _put(self, work: _Work) -> None:
        with self._lock:
            if self._closing.is_set():
                raise DraftlightError("The engine is closed.")
            self._work.put(work)
            requested = work if isinstance(work, tuple) else ()
            measured = [run for run in self._runs.values() if isinstance(run, Run) and run.request.only_measures]
        for run in measured:
            if run not in requested:
                run.stop()

    def _find(self, run_id: int) -> _Job | None:
        with self._lock:
            return self._runs.get(run_id)

    def _forget(self, run_id: int) -> None:
        with self._lock:
            self._runs.pop(run_id, None)

    # The following methods run on the engine thread.

    def _emit(self, event: Event) -> None:
        self.put(event)
        if isinstance(event, (RunFinished, RunFailed)):
            self._forget(event.run_id)
        elif isinstance(event, TaskEnd):
            self._forget(event.task_id)

    def _proceed(self) -> None:
        if self._closing.is_set():
            raise Closing

    def _serve(self, make_backend: Callable[[], Backend]) -> None:
        backend: Backend | None = None
        slots: ModelSlots | None = None
        while not (self._after is None or self._after.wait(_POLL_INTERVAL) or self._closing.is_set()):
            pass
        while not isinstance(work := self._next(backend, slots), Close):
            try:
                with activity("Running a language model", lets_sleep=not isinstance(work, LongTask)):
                    if backend is None or slots is None:
                        with self._excluded_from_waiting():
                            backend = make_backend()
                        slots = ModelSlots(backend, self._emit, self._proceed, self._unchecked, self._counter.use)
                    if isinstance(work, LongTask):
                        work.carry_out(backend, slots, self._emit)
                    elif isinstance(work, tuple):
                        self._exclude_loads(work)
                        if len(work) == 1:
                            answer(work[0], backend, slots, self._emit)
                        else:
                            take_turns(work, backend, slots, self._emit)
                    elif isinstance(work, CheckDrafter):
                        slots.check_drafter(work.name)
                    elif not self._closing.is_set():
                        with self._excluded_from_waiting():
                            self._load(work, slots)
            except Closing:
                continue
            except BaseException as error:  # the thread must survive: nothing else could report the error
                self._report(work, explain(error, "starting the engine" if backend is None else "serving a request"))
        del slots
        garbage.collect()
        if backend is not None:
            try:
                backend.close()
            except Exception as error:
                self._emit(EngineFailed(explain(error, "closing the engine")))

    @contextlib.contextmanager
    def _excluded_from_waiting(self) -> Generator[None, None, None]:
        """Excludes the time spent loading from the waiting time of answers."""
        clock = Clock()
        began = clock()
        yield
        self._loads.append((began, clock()))

    def _exclude_loads(self, runs: tuple[Run, ...]) -> None:
        for run in runs:
            for began, ended in self._loads:
                run.submitted += max(0.0, ended - max(began, run.submitted))

    def _next(self, backend: Backend | None, slots: ModelSlots | None) -> _Work | Close:
        """Returns the next work. While the queue is empty, it measures the costs of the loaded pair, one round at a time. After
        that it calls `Backend.pulse`, by which a target that is split over processes keeps the others informed."""
        if self._measures and backend is not None and slots is not None and self._work.empty() and (pair := slots.pair):
            try:
                with contextlib.closing(backend.measure(*pair)) as steps:
                    while self._work.empty() and next(steps, _DONE) is not _DONE:
                        pass
            except Exception as error:  # the answer that runs into it reports it
                explain(error, "measuring what rounds cost")
                self._measures = False
        while True:
            with contextlib.suppress(queue.Empty):
                return self._work.get(timeout=None if backend is None else backend.pulse())

    def _load(self, command: Load, slots: ModelSlots) -> None:
        try:
            slots.target(command.target, announce=True)
            slots.drafter(command.drafter, announce=True)
        except DraftlightError:  # already reported by events
            return

    def _report(self, work: _Work, message: str) -> None:
        """Emits the pending end event of a piece of work that failed."""
        self._emit(EngineFailed(message))
        if isinstance(work, LongTask):
            self._emit(TaskFailed(work.id, message))
        elif isinstance(work, tuple):
            for run in work:
                if self._find(run.id) is not None:
                    self._emit(RunFailed(run.id, message))
        elif isinstance(work, Load):
            self._emit(LoadStarted(work.target))
            self._emit(LoadFailed(work.target, message))


def _long_task(number: int, request: Task) -> LongTask[Any]:
    match request:
        case ProveRequest():
            return ProofTask(number, request)
        case BenchRequest():
            return BenchTask(number, request)
        case TrainRequest():
            return TrainTask(number, request)
        case SampleRequest():
            return SampleTask(number, request)
