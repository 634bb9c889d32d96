"""Clock of one answer that leaves out the turns of other answers."""

from __future__ import annotations

import time
from collections.abc import Callable


class Clock:
    """Counts the seconds of one answer, from an arbitrary moment on."""

    def __init__(self) -> None:
        self._away = 0.0
        self.waited = 0.0  # seconds spent for the next round so far

    def __call__(self) -> float:
        return time.perf_counter() - self._away

    def exclude(self, since: float) -> None:
        """Leaves out the time since `since`, a reading of this clock."""
        self._away += self() - since

    def wait(self, finish_queued: Callable[[], None]) -> None:
        """Waits for the work that the answer has queued for its next round, before other answers have their turn."""
        began = self()
        finish_queued()
        self.carry_over(self() - began)

    def carry_over(self, seconds: float) -> None:
        """Adds time that the next round's pass, queued by the previous round, took before the next round began."""
        self.waited += seconds

    def pop_carry_over(self) -> float:
        """Returns the seconds that were spent for the round before it began, and resets them to 0. The round's timer adds
        them."""
        waited, self.waited = self.waited, 0.0
        return waited
