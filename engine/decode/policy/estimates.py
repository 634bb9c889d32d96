"""Estimates of one drafter for an adaptive policy: its acceptance rate, and the cost of its proposals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.types import Proposal

PRIOR_ALPHA, PRIOR_WEIGHT = 0.5, 4.0
"""Prior mean of an unknown drafter's acceptance rate, and its pseudo-count in verdicts."""
KNOWN_WEIGHT = 8.0
"""Pseudo-count, in verdicts, of an acceptance rate that earlier answers have shown. The next question may be of another kind, so
this is less than the ten to twenty verdicts that the real variation between texts would suggest."""
DECAY = 0.97
"""Decay factor of older rounds' weight, per round that is learned from."""
FADE = 0.99
"""Decay factor of older rounds' weight, per round in which the drafter is paused."""
HIGHEST = 0.98
"""Upper limit of estimated probabilities: otherwise a drafter that seems never to fail would draft without end."""
PRIOR_COST = 0.15
"""Prior cost of one more proposal, in plain rounds."""
COST_WEIGHT = 3.0
"""Pseudo-count, in rounds, of the stored cost relative to this answer's rounds."""
LEAST_FACTOR = 0.5
"""Lower limit of a proposal's cost, as a share of the stored cost. Times are noisy, and a proposal that seemed to be free would
be followed by others without end."""
OUTLIER = 3.0
"""A round that took more than this many times as long as expected was disturbed; its time is clipped to that."""
Extra = Callable[..., Any]
"""Returns the cost of a number of proposals beyond a plain round, in plain rounds. The second argument is the number of the
drafter's passes; by default as many as there are proposals. Both may be arrays."""


def first_choices(proposals: Sequence[Proposal], with_copies: bool = True) -> list[bool]:
    """Returns the verdicts on the drafter's first choice for each judged position of a round: of a tree, an accepted proposal of
    a higher rank stands for a wrong first choice."""
    judged = [each for each in proposals if each.status != "unjudged" and (with_copies or not each.copied)]
    return [each.status == "accepted" and not each.rank for each in judged]


class Acceptance:
    """Decaying Beta estimate of a drafter's acceptance rate, and a correction factor for the probabilities that it reports.

    Args:
        alpha: acceptance rate in earlier answers; None if unknown.

    Attributes:
        has_verdicts: whether any verdict on this drafter is known.
    """

    def __init__(self, alpha: float | None) -> None:
        mean, weight = (PRIOR_ALPHA, PRIOR_WEIGHT) if alpha is None else (alpha, KNOWN_WEIGHT)
        self._accepted, self._rejected = mean * weight, (1 - mean) * weight
        self._right = self._reported = KNOWN_WEIGHT / 2
        self.has_verdicts = alpha is not None

    @property
    def alpha(self) -> float:
        """Probability that a proposal is accepted, given that those before it were."""
        return min(self._accepted / (self._accepted + self._rejected), HIGHEST)

    def corrected(self, chance: float) -> float:
        """Returns the acceptance probability of a token for which the drafter reports this probability."""
        return min(chance * self._right / self._reported, HIGHEST)

    def learn(self, proposals: Sequence[Proposal], samples: bool) -> None:
        """Learns from the verdicts on one round's proposals; unjudged ones have none.

        Args:
            samples: whether the drafter samples; the acceptance rate is then that of sampled tokens, without copies.
        """
        counted = first_choices(proposals, with_copies=not samples)
        if counted:
            self.has_verdicts = True
            self._accepted = self._accepted * DECAY + sum(counted)
            self._rejected = self._rejected * DECAY + len(counted) - sum(counted)

    def correct(self, right: int, reported: float) -> None:
        """Learns that the target followed the proposals at `right` positions of a round, of which the estimates have the sum
        `reported`."""
        if reported:
            self._right = self._right * DECAY + right
            self._reported = self._reported * DECAY + reported

    def fade(self) -> None:
        """Reduces the weight of old verdicts relative to new ones."""
        self._accepted *= FADE
        self._rejected *= FADE


def _prior_cost(proposals: Any, passes: Any = None) -> Any:
    """Returns the `Extra` of an unknown machine."""
    return PRIOR_COST / 2 * (proposals + (proposals if passes is None else passes))


class Cost:
    """Cost of a drafter's proposals in plain rounds: the stored cost times a correction factor from this answer's rounds.

    Args:
        extra: the stored cost on this machine; None if nothing was measured.
    """

    def __init__(self, extra: Extra | None) -> None:
        self._extra: Extra = extra or _prior_cost
        # Decaying sums over rounds, of expected x observed and of expected x expected. Their ratio is the least-squares factor,
        # on which rounds with an expected cost of 0 have no effect. They begin with rounds of two proposals, a typical number.
        self._fitted = self._weight = COST_WEIGHT * self._extra(2) ** 2

    @property
    def _factor(self) -> float:
        return max(self._fitted / self._weight, LEAST_FACTOR) if self._weight > 0 else 1.0

    def of(self, proposals: int, passes: int | None = None) -> float:
        """Returns the cost of a number of proposals beyond a plain round, in plain rounds. `passes`: of the drafter; as many as
        there are proposals, by default."""
        return float(self._factor * self._extra(proposals, passes))

    def of_all(self, proposals: NDArray[np.int_], passes: NDArray[np.int_]) -> NDArray[np.float64]:
        """Returns the costs of several numbers of proposals and passes."""
        return np.asarray(self._factor * self._extra(proposals, passes))

    def learn(self, proposals: int, relative: float, passes: int | None = None) -> None:
        """Learns that a round took `relative` plain rounds. The others as in `of`."""
        expected = self._extra(proposals, passes)
        seen = min(max(relative, 1.0), OUTLIER * (1 + expected)) - 1
        self._fitted = self._fitted * DECAY + expected * seen
        self._weight = self._weight * DECAY + expected * expected


def speed(chances: Sequence[float], cost: Cost, catching_up: float = 0.0) -> list[float]:
    """Returns the expected speeds, in tokens per plain round, of drafts of 1 to `len(chances)` proposals that are accepted with
    these probabilities, each given those before it. `catching_up`: cost, in plain rounds, of reading missed tokens first."""
    speeds, tokens, reached = list[float](), 1.0, 1.0
    for length, chance in enumerate(chances, start=1):
        reached *= chance
        tokens += reached
        speeds.append(tokens / (1 + cost.of(length) + catching_up))
    return speeds
