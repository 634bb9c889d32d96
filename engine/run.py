"""A submitted request as the threads share it."""

from __future__ import annotations

import threading
import time
from typing import Any

from engine.types import Request


class Run:
    """A submitted request, and what other threads ask of it meanwhile: to stop, or to change its settings."""

    def __init__(self, run_id: int, request: Request) -> None:
        self.id = run_id
        self.request = request
        self.submitted = time.perf_counter()
        self._lock = threading.Lock()
        self._stopped = False
        self._control: Any = None
        self._changes: dict[str, Any] = {}

    @property
    def stopped(self) -> bool:
        """Whether `stop` was called."""
        return self._stopped

    def stop(self) -> None:
        """End the answer at the next round or prompt chunk. Any thread."""
        with self._lock:
            self._stopped = True
            if self._control is not None:
                self._control.stop()

    def change(self, changes: dict[str, Any]) -> None:
        """Wish for another rule, gamma or drafter; the latest wish of each counts. Any thread."""
        with self._lock:
            self._changes.update(changes)

    def attach(self, control: Any) -> None:
        """From now on `stop` reaches the decoding."""
        with self._lock:
            self._control = control
            if self._stopped:
                control.stop()

    def take_changes(self) -> dict[str, Any]:
        """The wishes since the last call."""
        with self._lock:
            changes, self._changes = self._changes, {}
        return changes
