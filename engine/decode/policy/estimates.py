"""The estimates of one drafter in an adaptive policy: its acceptance rate, and the cost of its proposals."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from engine.types import Proposal

PRIOR_ALPHA, PRIOR_WEIGHT = 0.5, 4.0
"""Acceptance rate supposed of an unknown drafter, and the number of verdicts that this counts for."""
KNOWN_WEIGHT = 8.0
"""The same where earlier answers have shown the acceptance rate. The next question may be of another kind, so this is fewer than
the ten to twenty verdicts by which it really varies from text to text."""
DECAY = 0.97
"""Factor on the weight of older rounds with each round that is learned from."""
FADE = 0.99
"""The same with each round in which the drafter rests."""
HIGHEST = 0.98
"""No chance is believed to be higher: a drafter that seems never to fail would draft without end."""
PRIOR_COST = 0.15
"""Share of a plain round that one more proposal costs, until measured."""
COST_WEIGHT = 3.0
"""Rounds that the stored cost counts for beside those of this answer."""
LEAST_FACTOR = 0.5
"""A proposal is never believed to cost less than this share of what was stored: times are noisy, and a proposal that seemed to be
free would be followed by others without end."""
OUTLIER = 3.0
"""A round that took this many times as long as expected was disturbed, and counts as this long."""

Extra = Callable[[int], float]
"""Cost of a number of proposals, in plain rounds, beyond the plain round itself."""


class Acceptance:
    """A decaying Beta estimate of a drafter's acceptance rate, and of how far the chances that it reports are off.

    Args:
        alpha: the acceptance rate in earlier answers; None if unknown.

    Attributes:
        has_verdicts: whether anything is known of this drafter.
    """

    def __init__(self, alpha: float | None) -> None:
        mean, weight = (PRIOR_ALPHA, PRIOR_WEIGHT) if alpha is None else (alpha, KNOWN_WEIGHT)
        self._accepted, self._rejected = mean * weight, (1 - mean) * weight
        self._right = self._reported = KNOWN_WEIGHT / 2
        self.has_verdicts = alpha is not None

    @property
    def alpha(self) -> float:
        """The probability that a proposal is accepted, given that those before it were."""
        return min(self._accepted / (self._accepted + self._rejected), HIGHEST)

    def corrected(self, chance: float) -> float:
        """Returns the probability that a token is accepted to which the drafter gave this chance."""
        return min(chance * self._right / self._reported, HIGHEST)

    def learn(self, proposals: Sequence[Proposal], chances: Sequence[float], samples: bool) -> None:
        """Takes in the verdicts on one round's proposals; unjudged ones say nothing.

        Args:
            chances: reported for the first of them.
            samples: whether the drafter samples; the acceptance rate is then that of sampled tokens, copies left out.
        """
        judged = [proposal for proposal in proposals if proposal.status != "unjudged"]
        counted = [proposal.status == "accepted" for proposal in judged if not (samples and proposal.copied)]
        if counted:
            self.has_verdicts = True
            self._accepted = self._accepted * DECAY + sum(counted)
            self._rejected = self._rejected * DECAY + len(counted) - sum(counted)
        if judged and chances:
            pairs = list(zip(judged, chances, strict=False))
            self._right = self._right * DECAY + sum(proposal.status == "accepted" for proposal, _ in pairs)
            self._reported = self._reported * DECAY + sum(chance for _, chance in pairs)

    def fade(self) -> None:
        """Has old verdicts count less beside those to come."""
        self._accepted *= FADE
        self._rejected *= FADE


class Cost:
    """The cost of a drafter's proposals in plain rounds: the stored one, times a factor that this answer's rounds show.

    Args:
        extra: stored on this machine; None if nothing was measured.
    """

    def __init__(self, extra: Extra | None) -> None:
        self._extra: Extra = extra or (lambda length: PRIOR_COST * length)
        # Decaying sums over rounds, of expected x seen and of expected x expected. Their ratio is the factor by least squares, in
        # which rounds that are expected to cost nothing do not count. They begin with rounds of two proposals, a usual number.
        self._fitted = self._weight = COST_WEIGHT * self._extra(2) ** 2

    @property
    def _factor(self) -> float:
        return max(self._fitted / self._weight, LEAST_FACTOR) if self._weight > 0 else 1.0

    def of(self, length: int) -> float:
        """Returns the cost of this many proposals beyond a plain round."""
        return self._factor * self._extra(length)

    def learn(self, length: int, relative: float) -> None:
        """Takes in that a round of this many proposals took `relative` plain rounds."""
        expected = self._extra(length)
        seen = min(max(relative, 1.0), OUTLIER * (1 + expected)) - 1
        self._fitted = self._fitted * DECAY + expected * seen
        self._weight = self._weight * DECAY + expected * expected


def speed(chances: Sequence[float], cost: Cost, catching_up: float = 0.0) -> list[float]:
    """Returns the expected tokens in the time of a plain round for one proposal, for two, up to all of those that are accepted
    with these chances, each given those before it. `catching_up`: plain rounds that the drafter needs before."""
    speeds, tokens, reached = list[float](), 1.0, 1.0
    for length, chance in enumerate(chances, start=1):
        reached *= chance
        tokens += reached
        speeds.append(tokens / (1 + cost.of(length) + catching_up))
    return speeds
