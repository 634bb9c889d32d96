"""Choosing gamma while decoding: the draft length that the rounds so far, and the drafter's own confidence, say pays most."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Sequence
from itertools import pairwise

from engine.types import Round

LARGEST_AUTO = 8
"""Chains longer than this seldom pay for a drafter that is not copying; a copying drafter sets its own length."""

CHANCES = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.97)
"""Bounds of the classes in which a drafter's chances are held against what became of its proposals."""
CLASS_WEIGHT = 4.0

PRIOR_ALPHA, PRIOR_WEIGHT = 0.5, 8.0
DECAY = 0.97
REMEMBERED = 64
PRIOR_SLOPE = 0.15
"""What one more proposal costs relative to a plain round, until measured."""
SLOPE_WEIGHT = 12.0
"""How much that counts beside what was measured: as much as so many rounds that are one proposal off the mean."""


class FixedGamma:
    """The gamma that the user chose."""

    def __init__(self, gamma: int) -> None:
        self.gamma = gamma

    def choose(self) -> int:
        """How many proposals to ask for: always the same number."""
        return self.gamma

    def observe(self, finished: Round, chances: Sequence[float] = ()) -> None:
        """A fixed gamma learns nothing."""


class AutoGamma:
    """Maximises tau(gamma) / time(gamma), before a round (`choose`) or token by token (`goes_on`).

    tau is the closed form for the decayed censored alpha; time is a line through the times of recent rounds over their number
    of proposals. A drafter that asks after each token goes on while the chance that everything so far and one more is accepted
    is worth the time that one more takes, at the tokens per millisecond of late. What the drafter's chances are worth is learned
    from what became of its proposals.

    The choice depends on past rounds and on what was drawn in this one, never on a verdict to come, so every rule stays exact;
    under match and gumbel the text does not depend on it, while under rejection and block it may differ between two runs, as
    their rounds do.
    """

    def __init__(self) -> None:
        self._accepted = PRIOR_ALPHA * PRIOR_WEIGHT
        self._rejected = (1 - PRIOR_ALPHA) * PRIOR_WEIGHT
        self._times: deque[tuple[int, float, int]] = deque(maxlen=REMEMBERED)
        bounds = (0.0, *CHANCES, 1.0)
        middles = [(low + high) / 2 for low, high in pairwise(bounds)]
        self._classes = [[CLASS_WEIGHT * middle, CLASS_WEIGHT] for middle in middles]  # accepted, judged

    def choose(self) -> int:
        """How many proposals to ask for of a drafter that does not ask itself."""
        cost = self._cost()
        return max(range(1, LARGEST_AUTO + 1), key=lambda gamma: _tau(self._alpha, gamma) / cost(gamma))

    def goes_on(self, chances: Sequence[float]) -> bool:
        """Whether a further proposal pays after those to which the drafter gave these chances."""
        reached = self._alpha
        for chance in chances:
            accepted, judged = self._classes[bisect_right(CHANCES, chance)]
            reached *= accepted / judged
        cost = self._cost()
        spent = sum(time for _, time, _ in self._times)
        if len(self._times) < 4 or spent <= 0:
            return reached >= PRIOR_SLOPE
        return reached >= (cost(1) - cost(0)) * sum(emitted for _, _, emitted in self._times) / spent

    def observe(self, finished: Round, chances: Sequence[float] = ()) -> None:
        """Learns from a round; `chances` are those that the drafter gave to the first of its proposals."""
        self._accepted = self._accepted * DECAY + finished.accepted
        self._rejected = self._rejected * DECAY + finished.rejected
        self._times.append((len(finished.proposals), finished.milliseconds.total, len(finished.emitted)))
        for chance, proposal in zip(chances, finished.proposals, strict=False):
            if proposal.status == "unjudged":
                break
            counts = self._classes[bisect_right(CHANCES, chance)]
            counts[0] += proposal.status == "accepted"
            counts[1] += 1

    @property
    def _alpha(self) -> float:
        return self._accepted / (self._accepted + self._rejected)

    def _cost(self) -> Callable[[int], float]:
        """Milliseconds of a round by gamma, up to a constant factor."""
        if not self._times:
            return lambda gamma: 1 + PRIOR_SLOPE * gamma
        count = len(self._times)
        mean_gamma = sum(gamma for gamma, _, _ in self._times) / count
        mean_time = sum(time for _, time, _ in self._times) / count
        spread = sum((gamma - mean_gamma) ** 2 for gamma, _, _ in self._times)
        together = sum((gamma - mean_gamma) * (time - mean_time) for gamma, time, _ in self._times)
        supposed = PRIOR_SLOPE * mean_time / (1 + PRIOR_SLOPE * mean_gamma)
        slope = (together + SLOPE_WEIGHT * supposed) / (spread + SLOPE_WEIGHT)
        # Times are noisy. A proposal that seemed to cost nothing would be followed by others without end.
        slope = max(slope, supposed / 2)
        start = max(mean_time - slope * mean_gamma, mean_time * 0.1)
        return lambda gamma: start + slope * gamma


def _tau(alpha: float, gamma: int) -> float:
    if alpha > 1 - 1e-9:
        return gamma + 1.0
    return float((1 - alpha ** (gamma + 1)) / (1 - alpha))
