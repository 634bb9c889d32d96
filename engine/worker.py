"""The engine thread: the one thread that ever touches MLX, from import to exit.

Requests go in through a queue, immutable events come out of another; only plain Python values cross. What can be asked is in
`engine.interface`.

The thread is a daemon, so a computation that hangs can never hang the exit of the program; so that it is not cut off in
the middle of a computation, the program's exit closes an engine that is still open.
"""

from __future__ import annotations

import atexit
import contextlib
import itertools
import queue
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from typing import Any

from engine import garbage
from engine.bench.job import BenchTask
from engine.clock import Clock
from engine.drafter_kinds import NO_DRAFTER
from engine.errors import DraftlightError
from engine.files.logs import explain
from engine.interface import EventQueue
from engine.macos import activity
from engine.mlx_backend import MlxBackend
from engine.proof.job import ProofTask
from engine.requests.bench import BenchRequest
from engine.requests.compare import CompareRequest, SampleRequest
from engine.requests.train import TrainRequest
from engine.serving.answer import answer
from engine.serving.backend import Backend
from engine.serving.jobs import LongTask, Run
from engine.serving.model_slots import EVERY, Closing, ModelSlots
from engine.serving.prompt import PromptCounter
from engine.serving.time_sharing import SampleTask, take_turns
from engine.training.job import TrainTask
from engine.types import (
    DecodingOptions,
    EngineFailed,
    Event,
    Gamma,
    LoadFailed,
    LoadStarted,
    ProveRequest,
    Request,
    Rule,
    RunFailed,
    RunFinished,
    TaskEnd,
    TaskFailed,
)


@dataclass(frozen=True, slots=True)
class _Load:
    target: str
    drafter: str


@dataclass(frozen=True, slots=True)
class _Check:
    drafter: str


class _Close:
    """The last entry of the queue."""


_LOOK = 0.1
"""Seconds between two looks whether an engine that still waits is closed."""
_DONE = object()
"""Nothing is left to be measured."""


_Job = Run | LongTask[Any]
_Command = _Load | _Check | tuple[Run, ...] | LongTask[Any] | _Close
"""Several runs in one command take turns."""


class Engine:
    """Loads models and answers requests, one after the other, on a thread of its own.

    Args:
        backend: makes what computes, on the engine thread; other than the default in tests.
        measures: whether it uses the time when nobody asks for anything to measure what rounds cost with the loaded pair.
        ids: gives runs, tasks and counts their numbers; None counts from 1.
        after: set once there is memory for models; requests wait for that. None where there is already.
    """

    def __init__(
        self,
        backend: Callable[[], Backend] = MlxBackend,
        *,
        measures: bool = False,
        ids: Iterator[int] | None = None,
        after: threading.Event | None = None,
    ) -> None:
        self._measures = measures
        self._after = after
        self._commands: queue.SimpleQueue[_Command] = queue.SimpleQueue()
        self._events = EventQueue()
        self._lock = threading.Lock()
        self._runs: dict[int, _Job] = {}
        self._ids = itertools.count(1) if ids is None else ids
        self._closing = threading.Event()
        self._anyway: set[str] = set()
        self._counter = PromptCounter(self._emit)
        self._loads: deque[tuple[float, float]] = deque(maxlen=8)
        self._thread = threading.Thread(target=self._serve, args=(backend,), name="draftlight-engine", daemon=True)
        self._thread.start()
        atexit.register(self.close)

    def load(self, target: str, drafter: str = NO_DRAFTER) -> None:
        """As in `EngineLike`."""
        self._put(_Load(target, drafter))

    def check_drafter(self, name: str) -> None:
        """As in `EngineLike`."""
        self._put(_Check(name))

    def ignore_memory(self, *names: str) -> None:
        """As in `EngineLike`."""
        self._anyway.update(names or (EVERY,))

    def submit(self, request: Request) -> int:
        """As in `EngineLike`."""
        return self._enqueue((Run(next(self._ids), request),))

    def count_prompt(self, request: Request) -> int:
        """As in `EngineLike`."""
        number = next(self._ids)
        self._counter.count(number, request)
        return number

    def prove(self, request: ProveRequest) -> int:
        """As in `EngineLike`."""
        return self._enqueue(ProofTask(next(self._ids), request))

    def bench(self, request: BenchRequest) -> int:
        """As in `EngineLike`."""
        return self._enqueue(BenchTask(next(self._ids), request))

    def train(self, request: TrainRequest) -> int:
        """As in `EngineLike`."""
        return self._enqueue(TrainTask(next(self._ids), request))

    def compare(self, request: CompareRequest) -> tuple[int, ...]:
        """As in `EngineLike`."""
        runs = tuple(Run(next(self._ids), wanted) for wanted in request.requests)
        self._enqueue(runs)
        return tuple(run.id for run in runs)

    def sample(self, request: SampleRequest) -> int:
        """As in `EngineLike`."""
        return self._enqueue(SampleTask(next(self._ids), request))

    def update(
        self,
        run_id: int,
        *,
        rule: Rule | None = None,
        gamma: Gamma | None = None,
        drafter: str | None = None,
    ) -> None:
        """As in `EngineLike`."""
        options = {name: value for name, value in (("rule", rule), ("gamma", gamma)) if value is not None}
        DecodingOptions().replace(**options)
        run = self._find(run_id)
        if isinstance(run, Run):
            run.update(**(options if drafter is None else {**options, "drafter": drafter}))

    def stop(self, run_id: int) -> None:
        """As in `EngineLike`."""
        run = self._find(run_id)
        if run is not None:
            run.stop()

    def events(self, limit: int | None = None, budget: float | None = None) -> list[Event]:
        """As in `EngineLike`."""
        return self._events.take(limit, budget)

    def wait(self, timeout: float) -> bool:
        """As in `EngineLike`."""
        return self._events.wait(timeout)

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
                self._commands.put(_Close())
            runs = list(self._runs.values())
        for run in runs:
            run.stop()
        self._counter.close()
        self._thread.join(timeout)
        ended = not self._thread.is_alive() and self._counter.ended(timeout)
        if ended:
            atexit.unregister(self.close)
        return ended

    def _enqueue(self, command: tuple[Run, ...] | LongTask[Any]) -> int:
        jobs: tuple[_Job, ...] = command if isinstance(command, tuple) else (command,)
        with self._lock:
            self._runs.update({job.id: job for job in jobs})
        try:
            self._put(command)
        except DraftlightError:
            for job in jobs:
                self._forget(job.id)
            raise
        return jobs[0].id

    def _put(self, command: _Load | _Check | tuple[Run, ...] | LongTask[Any]) -> None:
        with self._lock:
            if self._closing.is_set():
                raise DraftlightError("The engine is closed.")
            self._commands.put(command)
            asked_for = command if isinstance(command, tuple) else ()
            measured = [run for run in self._runs.values() if isinstance(run, Run) and run.request.only_measures]
        for run in measured:
            if run not in asked_for:
                run.stop()

    def _find(self, run_id: int) -> _Job | None:
        with self._lock:
            return self._runs.get(run_id)

    def _forget(self, run_id: int) -> None:
        with self._lock:
            self._runs.pop(run_id, None)

    # What follows runs on the engine thread.

    def _emit(self, event: Event) -> None:
        self._events.put(event)
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
        while not (self._after is None or self._after.wait(_LOOK) or self._closing.is_set()):
            pass
        while not isinstance(command := self._next(backend, slots), _Close):
            try:
                with activity("Running a language model", lets_sleep=not isinstance(command, LongTask)):
                    if backend is None or slots is None:
                        with self._left_out():
                            backend = make_backend()
                        slots = ModelSlots(backend, self._emit, self._proceed, self._anyway, self._counter.use)
                    if isinstance(command, LongTask):
                        command.carry_out(backend, slots, self._emit)
                    elif isinstance(command, tuple):
                        self._leave_out_loads(command)
                        if len(command) == 1:
                            answer(command[0], backend, slots, self._emit)
                        else:
                            take_turns(command, backend, slots, self._emit)
                    elif isinstance(command, _Check):
                        slots.check_drafter(command.drafter)
                    elif not self._closing.is_set():
                        with self._left_out():
                            self._load(command, slots)
            except Closing:
                continue
            except BaseException as error:  # whatever it is, the thread has to live: nobody else would tell whoever waits
                self._report(command, explain(error, "starting the engine" if backend is None else "serving a request"))
        del slots
        garbage.collect()
        if backend is not None:
            try:
                backend.close()
            except Exception as error:
                self._emit(EngineFailed(explain(error, "closing the engine")))

    @contextlib.contextmanager
    def _left_out(self) -> Generator[None, None, None]:
        """What is loaded meanwhile is no part of the time that answers have waited."""
        clock = Clock()
        began = clock()
        yield
        self._loads.append((began, clock()))

    def _leave_out_loads(self, runs: tuple[Run, ...]) -> None:
        for run in runs:
            for began, ended in self._loads:
                run.submitted += max(0.0, ended - max(began, run.submitted))

    def _next(self, backend: Backend | None, slots: ModelSlots | None) -> _Command:
        """The next command; until there is one, the costs of the loaded pair are measured, a round at a time, and then a backend
        that shares its target with other processes says now and then that there is nothing to do."""
        if self._measures and backend is not None and slots is not None and self._commands.empty() and (pair := slots.pair):
            try:
                with contextlib.closing(backend.measure(*pair)) as steps:
                    while self._commands.empty() and next(steps, _DONE) is not _DONE:
                        pass
            except Exception as error:  # an answer will say it to whom it concerns
                explain(error, "measuring what rounds cost")
                self._measures = False
        pulse: Callable[[], float] | None = getattr(backend, "pulse", None)
        while pulse is not None:
            with contextlib.suppress(queue.Empty):
                return self._commands.get(timeout=pulse())
        return self._commands.get()

    def _load(self, command: _Load, slots: ModelSlots) -> None:
        try:
            slots.target(command.target, announce=True)
            slots.drafter(command.drafter, announce=True)
        except DraftlightError:  # the events say so
            return

    def _report(self, command: _Load | _Check | tuple[Run, ...] | LongTask[Any], message: str) -> None:
        """Whoever waits for an end gets one, whatever went wrong."""
        self._emit(EngineFailed(message))
        if isinstance(command, LongTask):
            self._emit(TaskFailed(command.id, message))
        elif isinstance(command, tuple):
            for run in command:
                if self._find(run.id) is not None:
                    self._emit(RunFailed(run.id, message))
        elif isinstance(command, _Load):
            self._emit(LoadStarted(command.target))
            self._emit(LoadFailed(command.target, message))
