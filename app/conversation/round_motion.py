"""The newest rounds of a growing answer, whose verdicts appear one after the other. Only paint: the text is complete at once.

A round that arrives has its proposals in grey. The verdicts sweep over them in reading order, and the target's own token drops
into its place. Times are those of the last frame, so that one frame shows one moment.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

from engine.lens.pieces import Spot
from engine.types import Round

SECONDS = 0.24
"""Time from the arrival of a round to its last change, in seconds: long enough to see, shorter than most pauses in reading."""
SWEEP = 0.2, 0.8
"""The part of that time in which the verdicts appear."""
JUMP = 8
"""More rounds than this that arrive together appear at once: a position chosen in a replay, or rounds too fast to watch."""


class RoundMotion:
    """Tells how far the appearance of each round has come.

    Args:
        clock: monotonic clock in seconds.

    Attributes:
        newest: the round that arrived last, whether it moves or not; None before the first.
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._now = 0.0
        self._arrivals: deque[tuple[Round, float]] = deque()  # (round, when), oldest first
        self.newest: Round | None = None

    def __bool__(self) -> bool:
        return bool(self._arrivals)

    @property
    def first(self) -> int | None:
        """The oldest round that still moves, by its index; None if none does."""
        return self._arrivals[0][0].index if self._arrivals else None

    def step(self, arrived: list[Round]) -> None:
        """Begins a frame, with the rounds that have arrived since the last one."""
        self._now = self._clock()
        while self._arrivals and self._now - self._arrivals[0][1] >= SECONDS:
            self._arrivals.popleft()
        if len(arrived) <= JUMP:
            self._arrivals.extend((round_, self._now) for round_ in arrived if round_.proposals)
        self.newest = arrived[-1] if arrived else self.newest

    def settle(self) -> None:
        """Ends all motion."""
        self._arrivals.clear()

    def _progress(self, index: int) -> tuple[Round | None, float]:
        """Returns the round of this index if it moves, and how far it has come, from 0 at its arrival to 1."""
        found = next(((round_, when) for round_, when in self._arrivals if round_.index == index), None)
        return (None, 1.0) if found is None else (found[0], min(1.0, (self._now - found[1]) / SECONDS))

    def is_judged(self, spot: Spot) -> bool:
        """Returns whether the verdict on a token is shown yet."""
        round_, progress = self._progress(spot.round)
        start, end = SWEEP
        place = 1.0 if round_ is None or spot.own else (spot.at + 1) / len(round_.proposals)
        return progress >= start + (end - start) * place

    def drop(self, index: int) -> float:
        """Returns how far the target's own token of a round is still above its place, from 1 to 0; it slows down."""
        return (1 - self._progress(index)[1]) ** 2
