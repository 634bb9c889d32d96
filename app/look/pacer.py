"""How often something is brought up to date that changes all the time: as often as it may cost."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from functools import partial

from PySide6.QtCore import QObject, QTimer, Slot

LOOK_MS = 3
"""How often a frame that would be in somebody's way looks whether it still is."""
LONGEST_PUT_OFF = 0.03
"""Seconds that it is put off at most."""
PAINTED_MS = 25
"""After so long Qt has laid out and painted what a frame has changed: it waits for the screen, and elsewhere 5 ms."""


class Pacer(QObject):
    """Has frames painted one after the other, the dearer the rarer: so that they take at most a share of a processor, yet come at
    least every `most` seconds while there is news. The first one after a pause comes at once. One that would be in somebody's way
    is put off until it no longer is, at most `LONGEST_PUT_OFF` seconds.

    What a frame costs is what the window's thread computes until it is painted. Time that it waits meanwhile counts for nothing.
    """

    def __init__(
        self,
        frame: Callable[[], None],
        share: float,
        least: float,
        most: float,
        parent: QObject,
        is_in_the_way: Callable[[], bool] = lambda: False,
    ) -> None:
        """Args:
        frame: brings up to date what is to be painted.
        share: of one processor. least, most: seconds between two frames.
        is_in_the_way: whether a frame would be now; it ends soon.
        """
        super().__init__(parent)
        self._frame, self._share, self._least, self._most = frame, share, least, most
        self._is_in_the_way = is_in_the_way
        self._began, self._pause = -math.inf, 0.0
        self._due: float | None = None
        self._timer = QTimer(self, singleShot=True)
        self._timer.timeout.connect(self._run)

    @property
    def waits(self) -> bool:
        """Whether there is news that no frame shows yet."""
        return self._timer.isActive()

    def touch(self) -> None:
        """There is news: a frame comes now, or as soon as it may."""
        if self.waits:
            return
        wait = self._began + self._pause - time.perf_counter()
        self._timer.start(math.ceil(1000 * wait)) if wait > 0 else self._run()

    def stop(self) -> None:
        """The frame that waits is not needed any more."""
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
