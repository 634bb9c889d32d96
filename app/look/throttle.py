"""Throttles repaints and other reactions to changes. The slower a repaint, the longer its interval."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from functools import partial

from PySide6.QtCore import QObject, QTimer, Slot

DEFERRAL_CHECK_MS = 3
"""Milliseconds between two checks of whether a deferred frame can run."""
MAX_DEFERRAL = 0.03
"""Longest deferral of a frame, in seconds."""
PAINTED_MS = 25
"""Milliseconds after which Qt has laid out and painted a frame's changes: it waits for the screen, and elsewhere 5 ms."""


class Throttle(QObject):
    """Throttles frames: a slow frame lengthens the interval, so that painting uses at most `share` of one CPU core.

    While changes arrive, a frame runs at least every `max_interval` seconds. The first frame after a pause runs at once, or
    `min_interval` seconds after the change, so that one frame shows all changes that arrive together. A frame is deferred while
    `should_defer` returns True, by at most `MAX_DEFERRAL` seconds.

    The cost of a frame is the CPU time of the window's thread until the frame is painted; waiting does not count.
    """

    def __init__(
        self,
        frame: Callable[[], None],
        share: float,
        min_interval: float,
        max_interval: float,
        parent: QObject,
        should_defer: Callable[[], bool] = lambda: False,
        *,
        immediate: bool = True,
        goes_on: Callable[[], bool] = lambda: False,
    ) -> None:
        """Args:
        frame: updates what is to be painted.
        share: of one CPU core. min_interval, max_interval: seconds between two frames.
        should_defer: returns whether a frame would disturb other work now, which ends soon.
        immediate: whether the first frame after a pause comes at once.
        goes_on: returns whether another frame is to follow without a change.
        """
        super().__init__(parent)
        self._frame, self._share, self._min_interval, self._max_interval = frame, share, min_interval, max_interval
        self._should_defer, self._immediate, self._goes_on = should_defer, immediate, goes_on
        self._last_start, self._interval = -math.inf, 0.0
        self._due_since: float | None = None
        self._timer = QTimer(self, singleShot=True)
        self._timer.timeout.connect(self._run)

    @property
    def is_scheduled(self) -> bool:
        """Whether a frame is scheduled for changes that are not shown yet."""
        return self._timer.isActive()

    def touch(self) -> None:
        """Runs a frame now, or schedules it for the end of the interval."""
        if self.is_scheduled:
            return
        wait = self._last_start + self._interval - time.perf_counter()
        if not self._immediate:
            wait = max(wait, self._min_interval)
        self._timer.start(math.ceil(1000 * wait)) if wait > 0 else self._run()

    def stop(self) -> None:
        """Cancels the scheduled frame."""
        self._timer.stop()
        self._due_since = None

    @Slot()
    def _run(self) -> None:
        now = time.perf_counter()
        self._due_since = now if self._due_since is None else self._due_since
        if now - self._due_since < MAX_DEFERRAL and self._should_defer():
            self._timer.start(DEFERRAL_CHECK_MS)
            return
        self._due_since = None
        self._last_start, self._interval = now, self._min_interval
        cpu_start = time.thread_time()
        self._frame()
        QTimer.singleShot(PAINTED_MS, self, partial(self._update_interval, cpu_start))

    def _update_interval(self, cpu_start: float) -> None:
        cost = time.thread_time() - cpu_start
        self._interval = min(self._max_interval, max(self._min_interval, cost / self._share))
        if self._goes_on():
            self.touch()


def trailing_throttle(act: Callable[[], None], seconds: float, parent: QObject) -> Throttle:
    """Returns a throttle that acts a fixed time after the first of several changes; call `touch` after each."""
    return Throttle(act, 1.0, seconds, seconds, parent, immediate=False)
