"""Choosing gamma while decoding: the draft length that the rounds so far, and the drafter's own confidence, say pays most."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
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
BACK_WEIGHT = 4.0
"""How much the supposition counts that taking tokens back costs nothing: as `SLOPE_WEIGHT`, in rounds."""


@dataclass(frozen=True, slots=True)
class _Costs:
    """Milliseconds of a round, up to a constant factor: `start`, `proposal` for each, and `back` for each time that tokens are
    taken back."""

    start: float
    proposal: float
    back: float

    def of(self, gamma: int, alpha: float) -> float:
        """What is to be expected of a round of so many proposals, each accepted with this probability."""
        return self.start + self.proposal * gamma + self.back * (1 - alpha**gamma)


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

    tau is the closed form for the decayed censored alpha; time is fitted to the times of recent rounds over their number of
    proposals and over whether the round before took tokens back. A recurrent layer reads what it is to keep once more, with the
    next pass, so a rejection is paid for a round later: without that second term it would look like a price of every round, which
    speaks for longer drafts.

    A drafter that asks after each token goes on while the chance that everything so far and one more is accepted is worth the
    time that one more takes, at the tokens per millisecond of late: that of a proposal, and that of taking tokens back if the
    one more were the first to be rejected. What the drafter's chances are worth is learned from what became of its proposals.

    The choice depends on past rounds and on what was drawn in this one, never on a verdict to come, so every rule stays exact;
    under match and gumbel the text does not depend on it, while under rejection and block it may differ between two runs, as
    their rounds do.
    """

    def __init__(self) -> None:
        self._accepted = PRIOR_ALPHA * PRIOR_WEIGHT
        self._rejected = (1 - PRIOR_ALPHA) * PRIOR_WEIGHT
        self._times: deque[tuple[int, float, int, bool]] = deque(maxlen=REMEMBERED)
        self._took_back = False
        bounds = (0.0, *CHANCES, 1.0)
        middles = [(low + high) / 2 for low, high in pairwise(bounds)]
        self._classes = [[CLASS_WEIGHT * middle, CLASS_WEIGHT] for middle in middles]  # accepted, judged

    def choose(self) -> int:
        """How many proposals to ask for of a drafter that does not ask itself."""
        costs = self._costs()
        return max(range(1, LARGEST_AUTO + 1), key=lambda gamma: _tau(self._alpha, gamma) / costs.of(gamma, self._alpha))

    def goes_on(self, chances: Sequence[float]) -> bool:
        """Whether a further proposal pays after those to which the drafter gave these chances."""
        stands = 1.0
        for chance in chances:
            accepted, judged = self._classes[bisect_right(CHANCES, chance)]
            stands *= accepted / judged
        reached = stands * self._alpha
        spent = sum(time for _, time, _, _ in self._times)
        if len(self._times) < 4 or spent <= 0:
            return reached >= PRIOR_SLOPE
        costs = self._costs()
        tokens_per_millisecond = sum(emitted for _, _, emitted, _ in self._times) / spent
        return reached >= (costs.proposal + costs.back * (stands - reached)) * tokens_per_millisecond

    def observe(self, finished: Round, chances: Sequence[float] = ()) -> None:
        """Learns from a round; `chances` are those that the drafter gave to the first of its proposals."""
        self._accepted = self._accepted * DECAY + finished.accepted
        self._rejected = self._rejected * DECAY + finished.rejected
        self._times.append((len(finished.proposals), finished.milliseconds.total, len(finished.emitted), self._took_back))
        self._took_back = finished.accepted < len(finished.proposals)
        for chance, proposal in zip(chances, finished.proposals, strict=False):
            if proposal.status == "unjudged":
                break
            counts = self._classes[bisect_right(CHANCES, chance)]
            counts[0] += proposal.status == "accepted"
            counts[1] += 1

    @property
    def _alpha(self) -> float:
        return self._accepted / (self._accepted + self._rejected)

    def _costs(self) -> _Costs:
        """Least squares over the remembered rounds, drawn towards what is supposed of them."""
        if not self._times:
            return _Costs(1.0, PRIOR_SLOPE, 0.0)
        count = len(self._times)
        mean_gamma = sum(gamma for gamma, _, _, _ in self._times) / count
        mean_time = sum(time for _, time, _, _ in self._times) / count
        mean_back = sum(back for _, _, _, back in self._times) / count
        off = [(gamma - mean_gamma, back - mean_back, time - mean_time) for gamma, time, _, back in self._times]
        supposed = PRIOR_SLOPE * mean_time / (1 + PRIOR_SLOPE * mean_gamma)
        gammas = sum(gamma * gamma for gamma, _, _ in off) + SLOPE_WEIGHT
        backs = sum(back * back for _, back, _ in off) + BACK_WEIGHT
        both = sum(gamma * back for gamma, back, _ in off)
        by_gamma = sum(gamma * time for gamma, _, time in off) + SLOPE_WEIGHT * supposed
        by_back = sum(back * time for _, back, time in off)
        determinant = gammas * backs - both * both  # positive: the weights are
        # Times are noisy. A proposal that seemed to cost nothing would be followed by others without end.
        slope = max((by_gamma * backs - by_back * both) / determinant, supposed / 2)
        back = max((by_back * gammas - by_gamma * both) / determinant, 0.0)
        return _Costs(max(mean_time - slope * mean_gamma - back * mean_back, mean_time * 0.1), slope, back)


def _tau(alpha: float, gamma: int) -> float:
    if alpha > 1 - 1e-9:
        return gamma + 1.0
    return float((1 - alpha ** (gamma + 1)) / (1 - alpha))
