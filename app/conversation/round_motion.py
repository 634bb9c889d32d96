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
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._now = 0.0
        self._arrivals: deque[tuple[int, float]] = deque()  # (round, when), oldest first

    def __bool__(self) -> bool:
        return bool(self._arrivals)

    @property
    def first(self) -> int | None:
        """The oldest round that still moves, by its index; None if none does."""
        return self._arrivals[0][0] if self._arrivals else None

    def step(self, arrived: list[Round]) -> None:
        """Begins a frame, with the rounds that have arrived since the last one."""
        self._now = self._clock()
        while self._arrivals and self._now - self._arrivals[0][1] >= SECONDS:
            self._arrivals.popleft()
        if len(arrived) <= JUMP:
            self._arrivals.extend((round_.index, self._now) for round_ in arrived if round_.proposals)

    def settle(self) -> None:
        """Ends all motion."""
        self._arrivals.clear()

    def progress(self, round_: int) -> float:
        """Returns how far a round has come, from 0 at its arrival to 1."""
        arrived = next((when for index, when in self._arrivals if index == round_), None)
        return 1.0 if arrived is None else min(1.0, (self._now - arrived) / SECONDS)

    def is_judged(self, round_: Round, spot: Spot) -> bool:
        """Returns whether the verdict on a token of the round is shown yet."""
        start, end = SWEEP
        place = 1.0 if spot.own else (spot.at + 1) / max(1, len(round_.proposals))
        return self.progress(round_.index) >= start + (end - start) * place

    def drop(self, round_: int) -> float:
        """Returns how far the target's own token of a round is still above its place, from 1 to 0; it slows down."""
        return (1 - self.progress(round_)) ** 2
