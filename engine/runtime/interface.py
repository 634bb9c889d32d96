"""Interface of engines, on a thread (`engine.runtime.worker`) or in a process (`engine.runtime.process`).

Each request is a method that sends a command through one `send` method. Events come back through a queue, from the engine's
thread to the reader's.
"""

from __future__ import annotations

import itertools
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator
from typing import TypeVar

from engine.types import Event, Gamma, Request, Rule
from engine.values.drafter_kinds import NO_DRAFTER
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
    Task,
    Update,
)
from engine.values.requests.compare import CompareRequest

RequestT = TypeVar("RequestT")


class Requests:
    """A method for each request to the engine, which sends the matching command. The ids of answers, long tasks and token counts
    are assigned only here.

    Attributes:
        numbers: iterator of new ids. Engines that replace each other in one window share it, so that ids stay unique.
    """

    numbers: Iterator[int]

    def send(self, command: Command) -> None:
        """Sends a command to the engine. May be called from any thread and never waits for a computation.

        Raises:
            DraftlightError: the engine is closed, and the command requests something.
        """
        raise NotImplementedError

    def load(self, target: str, drafter: str = NO_DRAFTER) -> None:
        """Loads a target, unless it is the current one, and then a drafter for it.

        Reported by LoadStarted, LoadProgress, and LoadFinished or LoadFailed; then by DrafterReady or DrafterRefused.
        """
        self.send(Load(target, drafter))

    def check_drafter(self, name: str) -> None:
        """Checks without loading it whether a model on this machine can draft for the target; reported by DrafterChecked."""
        self.send(CheckDrafter(name))

    def ignore_memory(self, *names: str) -> None:
        """Allows these models to load even if they will probably exhaust the memory; without a name, allows every model."""
        self.send(IgnoreMemory(names))

    def submit(self, request: Request) -> int:
        """Queues a request and returns its run id. The answer ends with one RunFinished or RunFailed event."""
        return self._numbered(Submit, request)

    def count_prompt(self, request: Request) -> int:
        """Counts the tokens that the target would read for a request; returns the id of the PromptCounted event with the
        result.

        The count does not wait for a running answer. Of several pending counts only the newest is carried out.
        """
        return self._numbered(CountPrompt, request)

    def compare(self, request: CompareRequest) -> tuple[int, ...]:
        """Queues answers that take turns, and returns their run ids in the order of the requests.

        Each ends with its own RunFinished or RunFailed event, and is updated and stopped by its own id.
        """
        numbers = tuple(next(self.numbers) for _ in request.requests)
        self.send(Compare(numbers, request))
        return numbers

    def perform(self, request: Task) -> int:
        """Queues a long task and returns its id. It ends with one event: TaskFinished (checks of a pair), BenchFinished,
        TrainingFinished, SamplingFinished, or TaskFailed."""
        return self._numbered(Perform, request)

    def update(self, run_id: int, *, rule: Rule | None = None, gamma: Gamma | None = None, drafter: str | None = None) -> None:
        """Changes a queued or running answer from its next round on; None leaves a setting unchanged. No effect after its end.

        Raises:
            ValueError: an invalid rule or gamma.
        """
        self.send(Update(run_id, rule, gamma, drafter))

    def stop(self, run_id: int) -> None:
        """Stops a queued or running answer or task within a round or a prompt chunk; no effect after its end."""
        self.send(Stop(run_id))

    def _numbered(self, command: Callable[[int, RequestT], Command], request: RequestT) -> int:
        number = next(self.numbers)
        self.send(command(number, request))
        return number


class EngineLike(Requests, ABC):
    """An engine: loads models and carries out commands one after another, and reports results as events in chronological order.

    The methods may be called from any thread and never wait for a computation, except `close` and `wait`, which have a timeout.
    """

    def __init__(self) -> None:
        self.numbers = itertools.count(1)
        self._events: deque[Event] = deque()
        self._news = threading.Condition()

    @abstractmethod
    def send(self, command: Command) -> None:
        """As in `Requests`."""

    def put(self, *events: Event) -> None:
        """Adds events, in order, and wakes a waiting reader. The engine calls it, from any of its threads."""
        with self._news:
            self._events.extend(events)
            self._news.notify_all()

    def events(self, limit: int | None = None, budget: float | None = None) -> list[Event]:
        """Returns the events since the last call, oldest first, without waiting.

        Args:
            limit: maximum number; further events stay for the next call.
            budget: seconds after which no further event is taken.
        """
        until = None if budget is None else time.perf_counter() + budget
        taken: list[Event] = []
        while self._events and (limit is None or len(taken) < limit) and (until is None or time.perf_counter() < until):
            taken.append(self._events.popleft())
        return taken

    def wait(self, timeout: float) -> bool:
        """Waits at most `timeout` seconds for events; returns whether there are any. Not for the window's thread."""
        with self._news:
            return self._news.wait_for(lambda: bool(self._events), timeout)

    @property
    def is_computing(self) -> bool:
        """Whether a thread of this process is between two passes of an answer's target, when Python code on another thread
        would delay it. That lasts some milliseconds, or some tens with a slow drafter; work that is not urgent can be deferred.

        Always False for an engine in another process, which has its own interpreter lock.
        """
        return False

    @abstractmethod
    def close(self, timeout: float = 5.0) -> bool:
        """Stops every answer, ends the engine, and waits at most `timeout` seconds; returns whether it has ended.

        Running answers end as cancelled, with complete traces. May be called again to wait longer.
        """
