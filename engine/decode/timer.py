"""Time of one round, and of its phases if they are evaluated one by one."""

from __future__ import annotations

import mlx.core as mx

from engine.decode.run_control import Clock
from engine.types import Milliseconds


class RoundTimer:
    """Measures a round from its construction on.

    A round is one lazy graph, so its phases have no times of their own. In a staged round each phase is evaluated before the next
    one is built, which costs synchronisations but shows how long each takes.

    Attributes:
        is_staged: whether the phases are evaluated one by one.
        began: reading of the clock in seconds, minus the time that was spent for the round before it began.
        prefetching: seconds of this round that were spent on queueing the next round's pass. They count towards the next round.
        communication: milliseconds of the pass that a split target's collectives took.
    """

    def __init__(self, clock: Clock, is_staged: bool) -> None:
        self._clock = clock
        self.is_staged = is_staged
        self.began = clock() - clock.pop_carry_over()
        self.prefetching = 0.0
        self.communication: float | None = None
        self._drafted = self._verified = self._judged = self.began

    def drafted(self, tokens: mx.array) -> None:
        """Marks the end of drafting; not called if nothing was proposed."""
        if self.is_staged:
            mx.eval(tokens)
            self._drafted = self._clock()

    def verified(self, logits: mx.array) -> None:
        """Marks the end of the target's pass."""
        if self.is_staged:
            mx.eval(logits)
            self._verified = self._clock()

    def judged(self) -> None:
        """Marks the moment at which the host knows the verdict."""
        self._judged = self._clock()

    def milliseconds(self) -> Milliseconds:
        """Returns the time so far, with that of the phases in a staged round."""
        total = (self._clock() - self.prefetching - self.began) * 1e3
        if not self.is_staged:
            return Milliseconds(total)
        draft = (self._drafted - self.began) * 1e3
        verify = (self._verified - self._drafted) * 1e3
        judge = (self._judged - self.prefetching - self._verified) * 1e3
        return Milliseconds(total, draft, verify, judge, total - draft - verify - judge, self.communication)
