"""Measures how long the window's thread is busy between two events, which a person feels as a late frame."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass

from PySide6.QtCore import QObject, Qt, QTimer, Slot

TICK_MS = 5
LATE_MS = 50.0


@dataclass(frozen=True, slots=True)
class Stretch:
    """Milliseconds in which the window answered to nothing, and how many of them its thread was computing.

    The rest was waiting: for the interpreter while another thread had it, or for a processor.
    """

    length: float
    computing: float


class Frames(QObject):
    """Times the gaps between ticks that come every 5 ms while the window has nothing to do.

    The ticks themselves take a processor 200 times a second and ask for Python's lock; without them only `share` is measured.

    Attributes:
        ticking: whether there are ticks.
        stretches: gaps in which something else was done, oldest first.
        share: of one processor that the window's thread took, from `start` to `stop`.
    """

    def __init__(self) -> None:
        super().__init__()
        self.stretches: list[Stretch] = []
        self.share = 0.0
        self.ticking = True
        self._began = self._last = (time.perf_counter(), time.thread_time())
        self._timer = QTimer(self, interval=TICK_MS, timerType=Qt.TimerType.PreciseTimer)
        self._timer.timeout.connect(self._tick)

    def start(self) -> None:
        """Begins anew."""
        self.stretches = []
        self._began = self._last = (time.perf_counter(), time.thread_time())
        if self.ticking:
            self._timer.start()

    def stop(self) -> list[Stretch]:
        """Ends, and gives what was measured."""
        self._timer.stop()
        self.share = (time.thread_time() - self._began[1]) / (time.perf_counter() - self._began[0])
        return self.stretches

    @Slot()
    def _tick(self) -> None:
        now = (time.perf_counter(), time.thread_time())
        length, computing = ((now[i] - self._last[i]) * 1000 for i in (0, 1))
        if computing > 1 or length > 2 * TICK_MS:
            self.stretches.append(Stretch(max(0.0, length - TICK_MS if computing < TICK_MS else length), computing))
        self._last = now


def quantile(values: Iterable[float], share: float) -> float:
    """The value that this share does not exceed; 0 of nothing."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0


def summary(stretches: list[Stretch]) -> str:
    """In words: how long the frames took, and what of it was the window's own work."""
    lengths, own = [stretch.length for stretch in stretches], [stretch.computing for stretch in stretches]
    late = [stretch for stretch in stretches if stretch.length > LATE_MS]
    busy = sum(stretch.computing > LATE_MS for stretch in late)
    return (
        f"median {quantile(lengths, 0.5):5.1f}, 99 % {quantile(lengths, 0.99):5.1f}, longest {max(lengths, default=0.0):5.1f} ms "
        f"(computing {quantile(own, 0.5):.1f}, {quantile(own, 0.99):.1f}, {max(own, default=0.0):.1f}); "
        f"{len(late)} of {len(stretches)} over {LATE_MS:.0f} ms, {busy} of them computing so long"
    )
