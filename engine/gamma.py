"""Choosing gamma while decoding: the draft length that the rounds so far say pays most."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from engine.types import Round

LARGEST_AUTO = 8
"""Chains longer than this seldom pay for a drafter that is not copying; a copying drafter sets its own length."""

PRIOR_ALPHA, PRIOR_WEIGHT = 0.5, 8.0
DECAY = 0.97
REMEMBERED = 64
PRIOR_SLOPE = 0.15
"""What one more proposal costs relative to a plain round, until measured."""


class FixedGamma:
    """The gamma that the user chose."""

    def __init__(self, gamma: int) -> None:
        self.gamma = gamma

    def choose(self) -> int:
        return self.gamma

    def observe(self, finished: Round) -> None:
        """A fixed gamma learns nothing."""


class AutoGamma:
    """Maximises tau(gamma) / time(gamma).

    tau is the closed form for the decayed censored alpha; time is a line through the times of recent rounds over their number
    of proposals. The choice depends on past rounds only, so every rule stays exact; under match and gumbel the text does not
    depend on it, while under rejection and block it may differ between two runs, as their rounds do.
    """

    def __init__(self) -> None:
        self._accepted = PRIOR_ALPHA * PRIOR_WEIGHT
        self._rejected = (1 - PRIOR_ALPHA) * PRIOR_WEIGHT
        self._times: deque[tuple[int, float]] = deque(maxlen=REMEMBERED)

    def choose(self) -> int:
        alpha = self._accepted / (self._accepted + self._rejected)
        cost = self._cost()
        return max(range(1, LARGEST_AUTO + 1), key=lambda gamma: _tau(alpha, gamma) / cost(gamma))

    def observe(self, finished: Round) -> None:
        self._accepted = self._accepted * DECAY + finished.accepted
        self._rejected = self._rejected * DECAY + finished.rejected
        self._times.append((len(finished.proposals), finished.milliseconds.total))

    def _cost(self) -> Callable[[int], float]:
        """Milliseconds of a round by gamma, up to a constant factor."""
        count = len(self._times)
        if count < 4:
            return lambda gamma: 1 + PRIOR_SLOPE * gamma
        mean_gamma = sum(gamma for gamma, _ in self._times) / count
        mean_time = sum(time for _, time in self._times) / count
        spread = sum((gamma - mean_gamma) ** 2 for gamma, _ in self._times)
        if spread < 1e-9:
            plain = mean_time / (1 + PRIOR_SLOPE * mean_gamma)
            return lambda gamma: plain * (1 + PRIOR_SLOPE * gamma)
        slope = sum((gamma - mean_gamma) * (time - mean_time) for gamma, time in self._times) / spread
        slope = max(slope, 0.0)
        start = max(mean_time - slope * mean_gamma, mean_time * 0.1)
        return lambda gamma: start + slope * gamma


def _tau(alpha: float, gamma: int) -> float:
    if alpha > 1 - 1e-9:
        return gamma + 1.0
    return float((1 - alpha ** (gamma + 1)) / (1 - alpha))
