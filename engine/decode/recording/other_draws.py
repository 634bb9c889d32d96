"""Draws that `match` and `gumbel` would compare in a round, under any rule: recorded so that the round can be judged again.

There are two implementations, equal bit for bit. A device draws in the lazy graph of the round (`other_draws`). If numpy draws,
it is deferred (`HostDraws`), because the next token does not wait for it and each draw costs a pass over the vocabulary; draws
that no rule could reach are skipped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import mlx.core as mx
import numpy as np

from engine.acceptance import Judgement, RoundNoise
from engine.drafters.draft import DraftTree
from engine.noise import reference
from engine.noise.reference import NO_TOKEN, Floats, Words
from engine.target.distribution import Distribution, OneHot
from engine.types import Rule

Ids = list[int]


class OtherIds(NamedTuple):
    """Ids of one round's draws, one entry for each proposal; None if no rule could reach it, or if no logit is finite. See
    `HostDraws`."""

    target: Sequence[int | None]
    coupled: Sequence[int | None]
    independent: Sequence[int | None]


class _Side(NamedTuple):
    """Draws of target or drafter from the first position on, as far as known, with the noise domain and the rows for further
    draws."""

    ids: Ids
    domain: str
    logits: Floats | None
    scale: float


@dataclass(frozen=True)
class HostDraws:
    """Draws of a round that are known, and the data for drawing the rest: draws that are None are drawn on demand. The proposed
    ids are known, one for each proposal, including the unjudged ones.

    Attributes:
        rule: of the round.
        vocab_size, seed, position: of the round's noise.
        shared: words of the `shared` noise that have been used, by position.
        target: the target's draws with `shared` noise, at least up to the first one that differs from its proposal.
        coupled: the drafter's draws from its q with `shared` noise, which it proposes under gumbel.
        independent: its draws with `draft` noise, which it proposes under the other rules.
    """

    rule: Rule
    vocab_size: int
    seed: int
    position: int
    shared: Mapping[int, Words]
    target: Ids | None
    coupled: Ids | None
    independent: Ids | None

    def drawn(self, p: Floats, p_scale: float, q: Floats | None, q_scale: float) -> OtherIds:
        """Returns the draws that judging the round again can use.

        Under match and gumbel a proposal is accepted if it is the target's draw. So the result has no draws after the first
        proposal that differs from the target's draw, nor draws of the drafter after the first one that differs from its proposal.
        An exception is a round judged by match: its accepted tokens are also gumbel's text, and rounds that begin elsewhere
        continue there.

        Args:
            p, q: (at least gamma, vocab) and (gamma, vocab) float32 logits; q is None if all of its draws are known.
            p_scale, q_scale: inverse temperatures.
        """
        proposed, known, domain = (
            (self.coupled, self.independent, "draft") if self.rule == "gumbel" else (self.independent, self.coupled, "shared")
        )
        assert proposed is not None
        target, other = _Side(list(self.target or []), "shared", p, p_scale), _Side(list(known or []), domain, q, q_scale)
        told = told_other = 0
        same = True
        for index, proposal in enumerate(proposed):
            told = index + 1
            self._draw(target, index)
            if same or self.rule == "match":
                told_other = told
                self._draw(other, index)
            if target.ids[index] != proposal:
                break
            same = same and other.ids[index] == proposal
        first, second = (
            [*(None if id == NO_TOKEN else id for id in side.ids[:count]), *[None] * (len(proposed) - count)]
            for side, count in ((target, told), (other, told_other))
        )
        return OtherIds(first, proposed, second) if self.rule == "gumbel" else OtherIds(first, second, proposed)

    def _draw(self, side: _Side, index: int) -> None:
        """Draws the id at an index, if it is the next one that is missing."""
        if len(side.ids) > index:
            return
        position = self.position + index
        words = self.shared.get(position) if side.domain == "shared" else None
        if words is None:
            words = reference.words(reference.stream_key(self.seed, position, side.domain, self.position), self.vocab_size)
        assert side.logits is not None, "draws are missing"
        side.ids.append(reference.draw(side.logits[index], side.scale, words)[0])


@dataclass(frozen=True)
class OtherDraws:
    """Counterpart of `HostDraws` in the lazy graph: all (gamma,) int32 draws of each kind."""

    rule: Rule
    target: mx.array
    coupled: mx.array
    independent: mx.array

    @property
    def arrays(self) -> list[mx.array]:
        """All arrays that the host reads."""
        return [self.target, self.coupled, self.independent]

    def on_host(self) -> HostDraws:
        """Returns the draws as plain values. The caller has evaluated the arrays."""
        return HostDraws(self.rule, 0, 0, 0, {}, *map(_ids, self.arrays))


def other_draws(rule: Rule, p: Distribution, proposals: DraftTree, judgement: Judgement, noise: RoundNoise) -> OtherDraws:
    """Returns the draws of a round judged by `rule` at a temperature above 0, reusing those that the round has already made. A
    proposal that was placed instead of drawn (q = 1) is its own draw under any noise.

    Args:
        p: (gamma + 1, vocab), each given the proposals before it.
    """
    target = noise.shared(p.first(proposals.size)) if judgement.draws is None else judgement.draws[: proposals.size]
    if isinstance(proposals.q, OneHot):
        return OtherDraws(rule, target, proposals.drafted, proposals.drafted)
    if rule == "gumbel":
        return OtherDraws(rule, target, proposals.drafted, noise.draft(proposals.q))
    return OtherDraws(rule, target, noise.shared(proposals.q), proposals.drafted)


def later_draws(rule: Rule, proposals: DraftTree, judgement: Judgement, noise: RoundNoise) -> HostDraws:
    """Returns the same as `other_draws` for a round that has been evaluated: its draws, and the data for drawing the rest."""
    drafted = _ids(proposals.drafted)
    placed = isinstance(proposals.q, OneHot)
    return HostDraws(
        rule=rule,
        vocab_size=noise.source.vocab_size,
        seed=noise.source.seed,
        position=noise.position,
        shared=noise.source.cached_rows(),
        target=None if judgement.draws is None else _ids(judgement.draws)[: len(drafted)],
        coupled=drafted if placed or rule == "gumbel" else None,
        independent=drafted if placed or rule != "gumbel" else None,
    )


def _ids(array: mx.array) -> Ids:
    return [int(value) for value in np.asarray(array).reshape(-1)]
