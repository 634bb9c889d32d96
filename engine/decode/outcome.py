"""Result of a round in the decode loop: its verdict, and a function that adds its analysis."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from engine.types import Round


@dataclass(frozen=True)
class RoundOutcome:
    """The outcome of one round.

    Attributes:
        round: the round with its verdict. If `complete` is not None, it lacks probabilities, alternatives and closed forms.
        complete: analyses the round and returns it in full. It does not call MLX, so any thread may call it, at any time, once.
            None if there is nothing to analyse.
    """

    round: Round
    complete: Callable[[], Round] | None = None

    def whole(self) -> Round:
        """Returns the complete round."""
        return self.round if self.complete is None else self.complete()

    def whole_at_once(self, clock: Callable[[], float]) -> Round:
        """Returns the complete round, and adds the time of its analysis to the round's, because the next round waits for it."""
        if self.complete is None:
            return self.round
        began = clock()
        whole = self.complete()
        spent, times = (clock() - began) * 1e3, whole.milliseconds
        other = None if times.other is None else times.other + spent
        return replace(whole, milliseconds=replace(times, total=times.total + spent, other=other))
