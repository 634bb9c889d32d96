"""Throttles repaints and other reactions to changes. The slower a repaint, the longer its interval."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from functools import partial

from PySide6.QtCore import QObject, QTimer, Slot

LOOK_MS = 3
"""Milliseconds between two checks of whether a deferred frame can run."""
LONGEST_PUT_OFF = 0.03
"""Longest deferral of a frame, in seconds."""
PAINTED_MS = 25
"""Milliseconds after which Qt has laid out and painted a frame's changes: it waits for the screen, and elsewhere 5 ms."""


class Pacer(QObject):
    """Throttles frames: a slow frame lengthens the interval, so that painting uses at most `share` of one CPU core.

    While changes arrive, a frame runs at least every `most` seconds. The first frame after a pause runs at once, or `least`
    seconds after the change, so that one frame shows all changes that arrive together. A frame is deferred while `is_in_the_way`
    returns True, by at most `LONGEST_PUT_OFF` seconds.

    The cost of a frame is the CPU time of the window's thread until the frame is painted; waiting does not count.
    """

    def __init__(
        self,
        frame: Callable[[], None],
        share: float,
        least: float,
        most: float,
        parent: QObject,
        is_in_the_way: Callable[[], bool] = lambda: False,
        *,
        at_once: bool = True,
    ) -> None:
        """Args:
        frame: updates what is to be painted.
        share: of one CPU core. least, most: seconds between two frames.
        is_in_the_way: returns whether a frame would disturb other work now, which ends soon.
        at_once: whether the first frame after a pause comes at once.
        """
        super().__init__(parent)
        self._frame, self._share, self._least, self._most = frame, share, least, most
        self._is_in_the_way, self._at_once = is_in_the_way, at_once
        self._began, self._pause = -math.inf, 0.0
        self._due: float | None = None
        self._timer = QTimer(self, singleShot=True)
        self._timer.timeout.connect(self._run)

    @property
    def waits(self) -> bool:
        """Whether a frame is scheduled for changes that are not shown yet."""
        return self._timer.isActive()

    def touch(self) -> None:
        """Runs a frame now, or schedules it for the end of the interval."""
        if self.waits:
            return
        wait = self._began + self._pause - time.perf_counter()
        if not self._at_once:
            wait = max(wait, self._least)
        self._timer.start(math.ceil(1000 * wait)) if wait > 0 else self._run()

    def stop(self) -> None:
        """Cancels the scheduled frame."""
        self._timer.stop()
        self._due = None

    @Slot()
    def _run(self) -> None:
        now = time.perf_counter()
        self._due = now if self._due is None else self._due
        if now - self._due < LONGEST_PUT_OFF and self._is_in_the_way():
            self._timer.start(LOOK_MS)
            return
        self._due = None
        self._began, self._pause = now, self._least
        computed = time.thread_time()
        self._frame()
        QTimer.singleShot(PAINTED_MS, self, partial(self._painted, computed))

    def _painted(self, computed: float) -> None:
        cost = time.thread_time() - computed
        self._pause = min(self._most, max(self._least, cost / self._share))


def after_changes(act: Callable[[], None], seconds: float, parent: QObject) -> Pacer:
    """Returns a throttle that acts a fixed time after the first of several changes; call `touch` after each."""
    return Pacer(act, 1.0, seconds, seconds, parent, at_once=False)
