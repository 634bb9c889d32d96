"""What `match` and `gumbel` would compare in a round, whatever rule judges it: recorded so that the round can be judged again."""

from __future__ import annotations

from dataclasses import dataclass

import mlx.core as mx

from engine.acceptance import Judgement, RoundNoise
from engine.drafters.base import Proposals
from engine.target.distribution import Distribution, OneHot
from engine.types import Rule


@dataclass(frozen=True)
class OtherDraws:
    """One entry for each proposal, the unjudged ones too; all lazy.

    Attributes:
        p: (gamma,) float32, the target's probability of the proposal, given the proposals before it.
        target: (gamma,) int32, what the target draws there with `shared` noise.
        coupled: (gamma,) int32, what the drafter draws from its q with `shared` noise: what it proposes under gumbel.
        independent: (gamma,) int32, what it draws with `draft` noise: what it proposes under the other rules.

    At temperature 0 nothing is drawn, and the last three are None.
    """

    p: mx.array
    target: mx.array | None = None
    coupled: mx.array | None = None
    independent: mx.array | None = None

    @property
    def arrays(self) -> list[mx.array]:
        """All that the host will look at."""
        return [array for array in (self.p, self.target, self.coupled, self.independent) if array is not None]


def other_draws(
    rule: Rule, p: Distribution, proposals: Proposals, judgement: Judgement, noise: RoundNoise, greedy: bool
) -> OtherDraws:
    """Of a round judged by `rule`; draws that it has made already are not made again. A proposal that was placed instead of drawn
    (q = 1) is its own draw under any noise.

    Args:
        p: (gamma + 1, vocab), each given the proposals before it.
    """
    rows = p.first(proposals.gamma)
    chances = rows.probability_of(proposals.tokens)
    if greedy:
        return OtherDraws(chances)
    target = noise.shared(rows) if judgement.draws is None else judgement.draws[: proposals.gamma]
    if isinstance(proposals.q, OneHot):
        return OtherDraws(chances, target, proposals.tokens, proposals.tokens)
    if rule == "gumbel":
        return OtherDraws(chances, target, proposals.tokens, noise.draft(proposals.q))
    return OtherDraws(chances, target, noise.shared(proposals.q), proposals.tokens)
