"""The interface of engines, on a thread (`engine.runtime.worker`) or in a process (`engine.runtime.process`): a method for each
request, which sends it as a command through the one method that takes commands; and the queue of events between the thread that
reports them and the one that takes them."""

from __future__ import annotations

import itertools
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator
from typing import TypeVar

from engine.types import Event, Gamma, ProveRequest, Request, Rule
from engine.values.drafter_kinds import NO_DRAFTER
from engine.values.requests.bench import BenchRequest
from engine.values.requests.commands import (
    CheckDrafter,
    Command,
    Compare,
    CountPrompt,
    IgnoreMemory,
    Load,
    Perform,
    Stop,
    Submit,
    Update,
)
from engine.values.requests.compare import CompareRequest, SampleRequest
from engine.values.requests.train import TrainRequest

Asked = TypeVar("Asked")


class Requests:
    """Each request as a method that sends its command. Here alone answers, tasks and counts get their numbers.

    Attributes:
        numbers: gives the next one. Engines that follow each other behind one `send` get numbers that no two share.
    """

    numbers: Iterator[int]

    def send(self, command: Command) -> None:
        """Has a command carried out. May be called from any thread and never waits for a computation.

        Raises:
            DraftlightError: the engine is closed, and the command asks for something.
        """
        raise NotImplementedError

    def load(self, target: str, drafter: str = NO_DRAFTER) -> None:
        """Load a target, unless it is the current one, and then a drafter for it.

        Reported by LoadStarted, LoadProgress, and LoadFinished or LoadFailed; then DrafterReady or DrafterRefused.
        """
        self.send(Load(target, drafter))

    def check_drafter(self, name: str) -> None:
        """Say by a DrafterChecked event whether a model on this machine can draft for the loaded target, without loading it."""
        self.send(CheckDrafter(name))

    def ignore_memory(self, *names: str) -> None:
        """From now on load these models even if they will probably exhaust the memory; without a name, every model."""
        self.send(IgnoreMemory(names))

    def submit(self, request: Request) -> int:
        """Queue a request and return its run id. The answer ends with one RunFinished or RunFailed event."""
        return self._numbered(Submit, request)

    def count_prompt(self, request: Request) -> int:
        """Count what the loaded target would read for a request, and return the id of the PromptCounted event that will say it.

        It is counted at once, also while an answer is under way. Of counts that wait only the newest is made.
        """
        return self._numbered(CountPrompt, request)

    def compare(self, request: CompareRequest) -> tuple[int, ...]:
        """Queue answers that take turns, and return their run ids in the order of the requests.

        Each ends with one RunFinished or RunFailed event of its own, and is changed and stopped by its own id.
        """
        numbers = tuple(next(self.numbers) for _ in request.requests)
        self.send(Compare(numbers, request))
        return numbers

    def prove(self, request: ProveRequest) -> int:
        """Queue checks of a pair and return their task id. They end with one TaskFinished or TaskFailed event."""
        return self._numbered(Perform, request)

    def bench(self, request: BenchRequest) -> int:
        """Queue a benchmark and return its task id. It ends with one BenchFinished or TaskFailed event."""
        return self._numbered(Perform, request)

    def train(self, request: TrainRequest) -> int:
        """Queue the training of a draft head and return its task id. It ends with one TrainingFinished or TaskFailed event."""
        return self._numbered(Perform, request)

    def sample(self, request: SampleRequest) -> int:
        """Queue short answers to be drawn many times, and return their task id. They end with one SamplingFinished or
        TaskFailed event."""
        return self._numbered(Perform, request)

    def update(self, run_id: int, *, rule: Rule | None = None, gamma: Gamma | None = None, drafter: str | None = None) -> None:
        """Change a queued or running answer from its next round on; None leaves a setting as it is. Without effect once it has
        ended.

        Raises:
            ValueError: an impossible rule or gamma.
        """
        self.send(Update(run_id, rule, gamma, drafter))

    def stop(self, run_id: int) -> None:
        """End a queued or running answer or task within a round or a chunk of the prompt; without effect once it has ended."""
        self.send(Stop(run_id))

    def _numbered(self, command: Callable[[int, Asked], Command], request: Asked) -> int:
        number = next(self.numbers)
        self.send(command(number, request))
        return number


class EventQueue:
    """Keeps the order. Every method may be called from any thread."""

    def __init__(self) -> None:
        self._events: deque[Event] = deque()
        self._news = threading.Condition()

    def put(self, *events: Event) -> None:
        """Adds events and wakes whoever waits."""
        with self._news:
            self._events.extend(events)
            self._news.notify_all()

    def take(self, limit: int | None = None, budget: float | None = None) -> list[Event]:
        """As `EngineLike.events`."""
        until = None if budget is None else time.perf_counter() + budget
        taken: list[Event] = []
        while (limit is None or len(taken) < limit) and (until is None or time.perf_counter() < until):
            try:
                taken.append(self._events.popleft())
            except IndexError:
                break
        return taken

    def wait(self, timeout: float) -> bool:
        """As `EngineLike.wait`."""
        with self._news:
            return self._news.wait_for(lambda: bool(self._events), timeout)


class EngineLike(Requests, ABC):
    """Loads models and carries out commands one after the other; says what comes of it in events, in the order in which it
    happened.

    The methods may be called from any thread and never wait for a computation, except `close` and `wait`, which have a limit.
    """

    def __init__(self) -> None:
        self.numbers = itertools.count(1)
        self._events = EventQueue()

    @abstractmethod
    def send(self, command: Command) -> None:
        """As in `Requests`."""

    def events(self, limit: int | None = None, budget: float | None = None) -> list[Event]:
        """The events since the last call, oldest first, without waiting.

        Args:
            limit: at most so many; the others stay for the next call.
            budget: seconds after which no further event is taken.
        """
        return self._events.take(limit, budget)

    def wait(self, timeout: float) -> bool:
        """Wait until there are events, at most `timeout` seconds; whether there are. Not for the window's thread."""
        return self._events.wait(timeout)

    @property
    def is_computing(self) -> bool:
        """Whether a thread of this process is between two passes of an answer's target, so that work in Python on another thread
        would hold it up. That lasts some milliseconds, with a slow drafter some tens; what is not urgent may wait as long.

        Never of an engine in another process, which has a lock of its own.
        """
        return False

    @abstractmethod
    def close(self, timeout: float = 5.0) -> bool:
        """Stop every answer, end the engine, and wait for it at most `timeout` seconds; whether it has ended.

        Answers under way end as cancelled, with whole traces. Call it again to wait longer.
        """
