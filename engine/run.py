"""A submitted request as the threads share it."""

from __future__ import annotations

import threading
import time
from typing import Any

from engine.types import Request


class Stoppable:
    """What decodes at another thread's wish, and ends at its wish.

    Attributes:
        stopped: whether `stop` was called.
    """

    def __init__(self) -> None:
        self.stopped = False
        self._lock = threading.Lock()
        self._control: Any = None

    def stop(self) -> None:
        """End within a round or a chunk of a prompt. Any thread."""
        with self._lock:
            self.stopped = True
            if self._control is not None:
                self._control.stop()

    def attach(self, control: Any) -> None:
        """From now on `stop` reaches this decoding."""
        with self._lock:
            self._control = control
            if self.stopped:
                control.stop()


class Run(Stoppable):
    """A submitted request, and what other threads ask of it meanwhile: to stop, or to change its settings."""

    def __init__(self, run_id: int, request: Request) -> None:
        super().__init__()
        self.id = run_id
        self.request = request
        self.submitted = time.perf_counter()
        self._changes: dict[str, Any] = {}

    def change(self, changes: dict[str, Any]) -> None:
        """Wish for another rule, gamma or drafter; the latest wish of each counts. Any thread."""
        with self._lock:
            self._changes.update(changes)

    def take_changes(self) -> dict[str, Any]:
        """The wishes since the last call."""
        with self._lock:
            changes, self._changes = self._changes, {}
        return changes
