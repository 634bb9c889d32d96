"""The acceptance rules: how a round's proposals are judged against the target.

Every rule is a function of (p, q, proposals, noise) that takes arrays and returns arrays, so that one lazy graph holds drafting,
verifying and judging. Each operation that takes a pass over the vocabulary is a method of `Distribution`, which also has a numpy
implementation. Under every rule, the emitted text follows the target's distribution exactly.

Sources: `match` is mlx-lm's `speculative_generate_step`; `rejection` is Leviathan et al. 2023 (arXiv 2211.17192) and
Chen et al. 2023 (arXiv 2302.01318); `gumbel` is the coupling of Daliri, Musco and Suresh (arXiv 2408.07978); `block` is
Sun et al., "Block Verification Accelerates Speculative Decoding" (ICLR 2025).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import mlx.core as mx

from engine.noise.source import NO_TOKEN, NoiseSource
from engine.target.distribution import Distribution, OneHot
from engine.types import Rule

Draft = Distribution | OneHot


class RoundNoise:
    """Randomness of one round: a noise source bound to the position of the round's first token."""

    def __init__(self, source: NoiseSource, position: int) -> None:
        self.source = source
        self.position = position

    def shared(self, rows: Distribution, first: int = 0) -> mx.array:
        """Returns (rows,) ids drawn with the `shared` noise of consecutive positions, from the round's `first`-th one on."""
        return self.shared_and_margins(rows, first)[0]

    def shared_and_margins(self, rows: Distribution, first: int = 0) -> tuple[mx.array, mx.array]:
        """Returns the ids of `shared`, and the distance of each draw's best score from the second best, (rows,) float32."""
        return self.shared_at(rows, range(first, first + rows.rows))

    def draft(self, rows: Distribution, first: int = 0) -> mx.array:
        """Returns (rows,) ids drawn with the `draft` noise of this round, from its `first`-th position on."""
        return rows.drawn(self.source, self._at(range(first, first + rows.rows)), "draft", self.position)[0]

    def coins(self, count: int) -> mx.array:
        """Returns (count,) float32, uniform on multiples of 2^-24 in [0, 1)."""
        return self.source.coins(self._at(range(count)), self.position)

    def shared_at(self, rows: Distribution, depths: Sequence[int]) -> tuple[mx.array, mx.array]:
        """Returns (rows,) ids drawn with the `shared` noise of each row's depth, counted from the round's first position, and the
        margins of their scores."""
        return rows.drawn(self.source, self._at(depths), "shared", self.position)

    def first_draws(self, rows: Distribution, depths: Sequence[int], domain: str, count: int) -> tuple[mx.array, mx.array]:
        """Returns (rows, count) ids, for each row drawn without replacement with the noise of its depth in a domain."""
        return rows.first_draws(self.source, self._at(depths), domain, self.position, count)

    def rank_coins(self, depths: Sequence[int], ranks: int) -> mx.array:
        """Returns (depths, ranks) float32 coins: one for each rank at each depth."""
        return self.source.rank_coins(self._at(depths), self.position, ranks)

    def residual_at(self, rows: Distribution, depths: Sequence[int]) -> mx.array:
        """Returns (rows,) ids drawn with the `residual` noise of each row's depth."""
        return rows.drawn(self.source, self._at(depths), "residual", self.position)[0]

    def _at(self, depths: Sequence[int]) -> list[int]:
        return [self.position + depth for depth in depths]

    def residual(self, row: Distribution, index: mx.array) -> mx.array:
        """Returns a (1,) id drawn with the `residual` noise of the round's `index`-th position; the index is in the lazy
        graph."""
        position = (index.astype(mx.uint32) + self.position).reshape(1)
        return row.drawn(self.source, position, "residual", self.position)[0]


@dataclass(frozen=True)
class Judgement:
    """Verdict on a round's proposals.

    Attributes:
        accepted: () int32, number of accepted proposals.
        token: () int32, the token emitted after them: the correction, or the bonus if all were accepted. An id outside the
            vocabulary means that a row had no finite logit.
        chances: `acceptance`, or a function that returns it, since it may need sums over the vocabulary that the verdict does not
            need.
        coins: (gamma,) float32, the coins that were compared under rejection and block, else None.
        draws: int32, the target's own draws under match, gumbel and greedy, else None: (gamma + 1,), or with numpy only those
            that were compared, (accepted + 1,).
        margins: float32, the margin of each draw's score over the second best; None if unknown.
    """

    accepted: mx.array
    token: mx.array
    chances: mx.array | Callable[[], mx.array]
    coins: mx.array | None = None
    draws: mx.array | None = None
    margins: mx.array | None = None

    @cached_property
    def acceptance(self) -> mx.array:
        """(gamma,) float32, the probability that this rule accepts the proposal, given the context and the proposal (under
        `block`: given the block)."""
        return self.chances if isinstance(self.chances, mx.array) else self.chances()


def match(p: Distribution | mx.array, q: Draft | mx.array, proposals: mx.array | Sequence[int], noise: RoundNoise) -> Judgement:
    """Judges independent draws of target and drafter: a proposal is accepted if both drew the same token.

    Args:
        p: (gamma + 1, vocab) the target's distributions, each given the proposals before it.
        q: (gamma, vocab) the distributions that the proposals were drawn from.
        proposals: (gamma,) token ids.
        noise: the round's randomness.
    """
    p, q, proposals = _as_rows(p, q, proposals)
    return _drawn(p, proposals, noise, lambda: p.first(q.rows).probability_of(proposals))


def gumbel(p: Distribution | mx.array, q: Draft | mx.array, proposals: mx.array | Sequence[int], noise: RoundNoise) -> Judgement:
    """Judges proposals like `match`, if they were drawn with the same `shared` noise as the target's draws. Arguments as in
    `match`."""
    p, q, proposals = _as_rows(p, q, proposals)
    return _drawn(p, proposals, noise, lambda: _coupled_probability(p.first(q.rows), q, proposals))


def greedy(p: Distribution | mx.array, q: Draft | mx.array, proposals: mx.array | Sequence[int], noise: RoundNoise) -> Judgement:
    """Judges a round at temperature 0, under any rule: a proposal is accepted if it is the target's arg-max. Arguments as in
    `match`."""
    p, q, proposals = _as_rows(p, q, proposals)
    draws = likeliest(p)
    return _compared(draws, None, proposals, lambda: (draws[:-1] == proposals).astype(mx.float32))


def rejection(
    p: Distribution | mx.array, q: Draft | mx.array, proposals: mx.array | Sequence[int], noise: RoundNoise
) -> Judgement:
    """A proposal x is accepted with probability min(1, p(x) / q(x)); the first rejected one is replaced by a draw from the
    normalised (p - q)+, or from p if that is empty. Arguments as in `match`; the proposals must not have been drawn with noise
    that this round's coins or residual draw use."""
    p, q, proposals = _as_rows(p, q, proposals)
    gamma = q.rows
    coins = noise.coins(gamma)
    ratio = p.first(gamma).probability_of(proposals) / q.probability_of(proposals)
    accepted = _leading(coins < ratio)
    token = _residual_or_bonus(p, q, accepted, mx.array(1.0), noise)
    return Judgement(accepted, token, mx.minimum(ratio, 1.0), coins=coins)


def block(p: Distribution | mx.array, q: Draft | mx.array, proposals: mx.array | Sequence[int], noise: RoundNoise) -> Judgement:
    """Judges the block jointly: the longest prefix whose own coin passes is accepted, so a later success can save earlier tokens.
    Never accepts fewer in expectation than `rejection`. Arguments and conditions as in `rejection`."""
    p, q, proposals = _as_rows(p, q, proposals)
    gamma = q.rows
    coins = noise.coins(gamma)
    ratio = p.first(gamma).probability_of(proposals) / q.probability_of(proposals)
    weights = [mx.array(1.0)]  # weights[i]: the paper's P_i, the capped likelihood ratio of the first i proposals
    for index in range(gamma):
        weights.append(mx.minimum(weights[-1] * ratio[index], 1.0))
    weight = mx.stack(weights)
    passing = weight[gamma:]
    if gamma > 1:
        # After i < gamma proposals, the threshold depends on the excess of p over q at the next position.
        inner = weight[1:gamma]
        following = p.part(1, gamma)
        mass = _rows_after(q, 1).residual_mass(following, inner)
        total = mass + 1.0 - inner
        passing = mx.concatenate([mx.where(total > 0, mass / total, 1.0), passing])
    kept = mx.where(coins < passing, mx.arange(1, gamma + 1), 0)
    accepted = mx.max(kept).astype(mx.int32)
    failing_from = mx.cumprod(1.0 - passing, reverse=True)
    token = _residual_or_bonus(p, q, accepted, mx.take(weight, accepted), noise)
    return Judgement(accepted, token, 1.0 - failing_from, coins=coins)


@dataclass(frozen=True)
class SiblingVerdicts:
    """Verdicts of recursive rejection on the children of some nodes of a tree.

    Attributes:
        accepted: (nodes,) int32, rank of the accepted child; the number of ranks if none was accepted.
        chances: (nodes, ranks) float32, probability that a child is accepted if those before it were not; 0 where there is none.
        residual: (nodes, vocab) probabilities that the replacement is drawn from if no child was accepted.
    """

    accepted: mx.array
    chances: mx.array
    residual: mx.array


def reject_siblings(
    p: mx.array, q: mx.array, children: mx.array, counts: mx.array, placed: mx.array, coins: mx.array
) -> SiblingVerdicts:
    """Judges the children of nodes by recursive rejection sampling without replacement (Jeon et al. 2024, arXiv 2402.14160).

    The children of a node are tried by rank. The first is judged by p / q. After a rejection, p becomes the normalised (p - q)+,
    and q loses the rejected token, since the next child was drawn without it; then the next child is judged in the same way. The
    accepted child, or a draw from the last residual, follows p exactly if the children were drawn without replacement from q and
    each has a coin of its own.

    Args:
        p: (nodes, vocab) probabilities of the target after each node.
        q: (nodes, vocab) probabilities that the children were drawn from.
        children: (nodes, ranks) ids. counts: (nodes,) number of children of each node.
        placed: (nodes, ranks) bool, children that were proposed without a draw: their own q is 1.
        coins: (nodes, ranks) float32.
    """
    ranks = children.shape[1]
    accepted = mx.full(p.shape[:1], ranks, mx.int32)
    chances = []
    ids = mx.arange(p.shape[1])[None]
    for rank in range(ranks):
        token, is_placed, exists = children[:, rank : rank + 1], placed[:, rank : rank + 1], counts[:, None] > rank
        known = mx.maximum(token, 0)
        q_token = mx.where(is_placed, 1.0, mx.take_along_axis(q, known, axis=1))
        exists = exists & (token >= 0) & (q_token > 0)  # nothing that q cannot draw was drawn
        ratio = mx.where(exists, mx.take_along_axis(p, known, axis=1) / mx.where(exists, q_token, 1.0), 0.0)
        passes = coins[:, rank : rank + 1] < ratio
        accepted = mx.minimum(accepted, mx.where(passes[:, 0], rank, ranks))
        chances.append(mx.minimum(ratio, 1.0))
        at = ids == token
        excess = mx.maximum(p - mx.where(is_placed, at.astype(mx.float32), q), 0.0)
        mass = excess.sum(axis=1, keepdims=True)
        p = mx.where(exists & (mass > 0), excess / mx.where(mass > 0, mass, 1.0), p)
        rest = mx.where(at, 0.0, q)
        left = rest.sum(axis=1, keepdims=True)
        q = mx.where(exists & (left > 0), rest / mx.where(left > 0, left, 1.0), mx.where(exists, rest, q))
    return SiblingVerdicts(accepted, mx.concatenate(chances, axis=1), p)


Judge = Callable[[Distribution | mx.array, Draft | mx.array, mx.array | Sequence[int], RoundNoise], Judgement]
JUDGES: dict[Rule, Judge] = {"match": match, "rejection": rejection, "gumbel": gumbel, "block": block}


def _as_rows(
    p: Distribution | mx.array, q: Draft | mx.array, proposals: mx.array | Sequence[int]
) -> tuple[Distribution, Draft, mx.array]:
    """Returns p, q and proposals as distributions and ids; plain probability arrays are converted."""
    p_rows = p if isinstance(p, Distribution) else Distribution.from_probabilities(p)
    q_rows = q if isinstance(q, (Distribution, OneHot)) else Distribution.from_probabilities(q)
    ids = proposals.astype(mx.int32) if isinstance(proposals, mx.array) else mx.array(list(proposals), dtype=mx.int32)
    if q_rows.rows != ids.shape[0] or p_rows.rows != q_rows.rows + 1:
        raise ValueError(f"p needs one row more than q and the proposals: {p_rows.rows}, {q_rows.rows}, {ids.shape[0]}")
    if q_rows.vocab_size != p_rows.vocab_size:
        raise ValueError(f"p and q need the same vocabulary: {p_rows.vocab_size}, {q_rows.vocab_size}")
    return p_rows, q_rows, ids


def likeliest(p: Distribution) -> mx.array:
    """Returns (rows,) int32: the arg-max of each row, ties to the lowest id; NO_TOKEN if no logit is finite."""
    finite = mx.max(p.logits, axis=-1) > -mx.inf
    return mx.where(finite, mx.argmax(p.logits, axis=-1).astype(mx.int32), NO_TOKEN)


def _leading(kept: mx.array) -> mx.array:
    """Returns () int32: number of leading True entries."""
    return mx.cumprod(kept.astype(mx.int32)).sum().astype(mx.int32)


def _drawn(p: Distribution, proposals: mx.array, noise: RoundNoise, acceptance: Callable[[], mx.array]) -> Judgement:
    draws, margins = p.drawn_until(proposals, noise.shared_and_margins)
    return _compared(draws.astype(mx.int32), margins, proposals, acceptance)


def _compared(draws: mx.array, margins: mx.array | None, proposals: mx.array, acceptance: Callable[[], mx.array]) -> Judgement:
    accepted = _leading(draws[:-1] == proposals[: draws.shape[0] - 1])
    return Judgement(accepted, mx.take(draws, accepted), acceptance, draws=draws, margins=margins)


def _coupled_probability(p: Distribution, q: Draft, proposals: mx.array) -> mx.array:
    """Returns (gamma,): P(the target draws x | the drafter drew x) under shared noise: p(x) / sum_j max(p_j q(x), q_j p(x))."""
    p_x = p.probability_of(proposals)
    if isinstance(q, OneHot):
        return p_x
    q_x = q.probability_of(proposals)
    overlap = mx.maximum(p.probabilities * q_x[:, None], q.probabilities * p_x[:, None]).sum(axis=-1)
    return mx.where(p_x > 0, p_x / overlap, 0.0)


def _residual_or_bonus(p: Distribution, q: Draft, accepted: mx.array, scale: mx.array, noise: RoundNoise) -> mx.array:
    """Returns () int32: a draw from the normalised (scale * p - q)+ after a rejection, from p if the whole block was accepted."""
    gamma = q.rows

    def bonus() -> mx.array:
        """Draws the bonus token from the row after the block."""
        return noise.shared(p.row(gamma), first=gamma).astype(mx.int32)

    def correction() -> mx.array:
        """Draws the token that replaces the first rejected proposal."""
        rejected = mx.minimum(accepted, gamma - 1)
        return noise.residual(p.residual(q, rejected, scale), rejected).astype(mx.int32)

    return p.either(accepted == gamma, bonus, correction).reshape(())


def _rows_after(q: Draft, first: int) -> Draft:
    if isinstance(q, OneHot):
        return OneHot(q.ids[first:], q.vocab_size)
    return q.part(first, q.rows)
