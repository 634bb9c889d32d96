"""The clock of one answer, on which the turns of others take no time."""

from __future__ import annotations

import time
from collections.abc import Callable


class Clock:
    """Seconds of one answer's own, from an arbitrary moment on."""

    def __init__(self) -> None:
        self._away = 0.0
        self.waited = 0.0  # seconds, for the next round, so far

    def __call__(self) -> float:
        return time.perf_counter() - self._away

    def leave_out(self, since: float) -> None:
        """What happened since that reading counts for others."""
        self._away += self() - since

    def wait(self, finish_queued: Callable[[], None]) -> None:
        """Waits, before others have their turn, for what the answer has queued for its next round."""
        began = self()
        finish_queued()
        self.count_ahead(self() - began)

    def count_ahead(self, seconds: float) -> None:
        """What the next round would have waited for: its pass, queued by the one before."""
        self.waited += seconds

    def take_waited(self) -> float:
        """How long was waited for the next round before it began, told once: it counts for that one."""
        waited, self.waited = self.waited, 0.0
        return waited
