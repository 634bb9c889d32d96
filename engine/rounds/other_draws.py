"""What `match` and `gumbel` would compare in a round, whatever rule judges it: recorded so that the round can be judged again.

There are two ways to draw it, equal bit for bit. A device draws in the lazy graph of the round (`other_draws`). Where numpy draws
it is left for later (`HostDraws`), since the next token does not wait for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import mlx.core as mx
import numpy as np

from engine import noise_reference as reference
from engine.acceptance import Judgement, RoundNoise
from engine.drafters.base import Proposals
from engine.noise_reference import Floats, Stream
from engine.target.distribution import Distribution, OneHot
from engine.types import Rule

Ids = list[int]


@dataclass(frozen=True)
class HostDraws:
    """One entry for each proposal, the unjudged ones too. What is None is drawn when it is asked for.

    Attributes:
        gamma: how many proposals there are.
        vocab_size, seed, position: of the round's noise.
        shared: streams of the `shared` noise that have been used, by position.
        target: ids that the target draws there with `shared` noise.
        coupled: ids that the drafter draws from its q with `shared` noise: what it proposes under gumbel.
        independent: ids that it draws with `draft` noise: what it proposes under the other rules.
        greedy: at temperature 0 nothing is drawn.
    """

    gamma: int
    vocab_size: int
    seed: int
    position: int
    shared: Mapping[int, Stream]
    target: Ids | None
    coupled: Ids | None
    independent: Ids | None
    greedy: bool = False

    def drawn(self, p: Floats, p_scale: float, q: Floats | None, q_scale: float) -> tuple[Ids, Ids, Ids] | None:
        """Ids of target, coupled and independent; None at temperature 0.

        Args:
            p, q: (at least gamma, vocab) and (gamma, vocab) float32 logits; q None where all of its draws are known.
            p_scale, q_scale: inverse temperatures.
        """
        if self.greedy:
            return None
        target, coupled, independent = self.target, self.coupled, self.independent
        if target is None or (coupled is None and q is not None):
            shared = [self._stream(index, "shared") for index in range(self.gamma)]
            target = _drawn(p[: self.gamma], p_scale, shared) if target is None else target
            coupled = _drawn(q, q_scale, shared) if coupled is None and q is not None else coupled
        if independent is None and q is not None:
            independent = _drawn(q, q_scale, [self._stream(index, "draft") for index in range(self.gamma)])
        assert coupled is not None and independent is not None
        return target, coupled, independent

    def _stream(self, index: int, domain: str) -> Stream:
        position = self.position + index
        if domain == "shared" and position in self.shared:
            return self.shared[position]
        return Stream(reference.stream_key(self.seed, position, domain, self.position), self.vocab_size)


def _drawn(logits: Floats, scale: float, streams: Sequence[Stream]) -> Ids:
    return reference.draw_ids(logits, scale, streams).tolist()


@dataclass(frozen=True)
class OtherDraws:
    """As `HostDraws`, in the lazy graph: (gamma,) int32 each, None at temperature 0."""

    target: mx.array | None = None
    coupled: mx.array | None = None
    independent: mx.array | None = None

    @property
    def arrays(self) -> list[mx.array]:
        """All that the host will look at."""
        return [array for array in (self.target, self.coupled, self.independent) if array is not None]

    def on_host(self) -> HostDraws:
        """The ids, once the arrays have been evaluated."""
        if self.target is None or self.coupled is None or self.independent is None:
            return HostDraws(0, 0, 0, 0, {}, None, None, None, greedy=True)
        target, coupled, independent = (_ids(array) for array in (self.target, self.coupled, self.independent))
        return HostDraws(len(target), 0, 0, 0, {}, target, coupled, independent)


def other_draws(
    rule: Rule, p: Distribution, proposals: Proposals, judgement: Judgement, noise: RoundNoise, greedy: bool
) -> OtherDraws:
    """Of a round judged by `rule`; draws that it has made already are not made again. A proposal that was placed instead of drawn
    (q = 1) is its own draw under any noise.

    Args:
        p: (gamma + 1, vocab), each given the proposals before it.
    """
    if greedy:
        return OtherDraws()
    target = noise.shared(p.first(proposals.gamma)) if judgement.draws is None else judgement.draws[: proposals.gamma]
    if isinstance(proposals.q, OneHot):
        return OtherDraws(target, proposals.tokens, proposals.tokens)
    if rule == "gumbel":
        return OtherDraws(target, proposals.tokens, noise.draft(proposals.q))
    return OtherDraws(target, noise.shared(proposals.q), proposals.tokens)


def later_draws(rule: Rule, proposals: Proposals, judgement: Judgement, noise: RoundNoise, greedy: bool) -> HostDraws:
    """As `other_draws` of a round that has been evaluated: what it has drawn, and what is needed to draw the rest."""
    drafted = _ids(proposals.tokens)
    placed = isinstance(proposals.q, OneHot)
    noise.shared_streams(len(drafted))  # kept from now on: the next round may come by those that were not committed
    return HostDraws(
        gamma=len(drafted),
        vocab_size=noise.source.vocab_size,
        seed=noise.source.seed,
        position=noise.position,
        shared=noise.source.kept(),
        target=None if judgement.draws is None else _ids(judgement.draws)[: len(drafted)],
        coupled=drafted if placed or rule == "gumbel" else None,
        independent=drafted if placed or rule != "gumbel" else None,
        greedy=greedy,
    )


def _ids(array: mx.array) -> Ids:
    return [int(value) for value in np.asarray(array).reshape(-1)]
