"""The result of a round in the decode loop: its verdict, and a function that adds its analysis."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from engine.types import Round


@dataclass(frozen=True)
class RoundOutcome:
    """The outcome of one round.

    Attributes:
        round: as the verdict leaves it. Probabilities, alternatives and closed forms are lacking where `complete` adds them.
        complete: analyses the round and returns the whole of it. It calls nothing of MLX, so that any thread may call it, at any
            time, once. None if there is nothing to analyse.
    """

    round: Round
    complete: Callable[[], Round] | None = None

    def whole(self) -> Round:
        """Returns the complete round."""
        return self.round if self.complete is None else self.complete()

    def whole_at_once(self, clock: Callable[[], float]) -> Round:
        """Returns the complete round, and counts the time of its analysis as the round's: the next one waits for it."""
        if self.complete is None:
            return self.round
        began = clock()
        whole = self.complete()
        spent, times = (clock() - began) * 1e3, whole.milliseconds
        other = None if times.other is None else times.other + spent
        return replace(whole, milliseconds=replace(times, total=times.total + spent, other=other))
