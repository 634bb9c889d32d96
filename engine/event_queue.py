"""Events between the thread that reports them and the one that takes them."""

from __future__ import annotations

import threading
import time
from collections import deque

from engine.events import Event


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
        """As `engine.interface.EngineLike.events`."""
        until = None if budget is None else time.perf_counter() + budget
        taken: list[Event] = []
        while (limit is None or len(taken) < limit) and (until is None or time.perf_counter() < until):
            try:
                taken.append(self._events.popleft())
            except IndexError:
                break
        return taken

    def wait(self, timeout: float) -> bool:
        """As `engine.interface.EngineLike.wait`."""
        with self._news:
            return self._news.wait_for(lambda: bool(self._events), timeout)
