"""The rules: how a round's proposals are judged against the target.

Every rule is a function of (p, q, proposals, noise) that takes arrays and returns arrays, so that one lazy graph holds
drafting, verifying and judging. Whatever the rule, the emitted text follows the target's distribution exactly.

Sources: `match` is mlx-lm's `speculative_generate_step`; `rejection` is Leviathan et al. 2023 (arXiv 2211.17192) and
Chen et al. 2023 (arXiv 2302.01318); `gumbel` is the coupling of Daliri, Musco and Suresh (arXiv 2408.07978); `block` is
Sun et al., "Block Verification Accelerates Speculative Decoding" (ICLR 2025).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import mlx.core as mx
import numpy as np
import numpy.typing as npt

from engine.host import computes_on_host, on_host
from engine.noise import NO_TOKEN, NoiseSource
from engine.noise_reference import Stream, draw_below
from engine.target.distribution import Distribution, Floats, HostRow, HostRows, OneHot
from engine.types import MAX_GAMMA, Rule

Float = np.float32
Ids = npt.NDArray[np.int64]

Draft = Distribution | OneHot


class RoundNoise:
    """The randomness of one round: a noise source bound to the position of the round's first token."""

    def __init__(self, source: NoiseSource, position: int, lazy: bool = False, reach: float = 0.0) -> None:
        """`lazy`: the shared draws are left in the graph, so that more can be queued behind them. `reach`: how far the margins of
        `shared_until` are told apart; 0 for nothing."""
        self.source = source
        self.position = position
        self.lazy = lazy
        self.reach = reach
        self._tossed: mx.array | None = None
        self._latest: tuple[Distribution, int, mx.array, mx.array] | None = None

    def shared(self, rows: Distribution, first: int = 0) -> mx.array:
        """(rows,) ids drawn with the `shared` noise of consecutive positions, from the round's `first`-th one on."""
        if not self.lazy and rows.host is not None:  # there margins take time, and are left for later
            return self._on_host(rows.host, rows.inverse_temperature, "shared", first)
        return self._drawn(rows, first)[0]

    def shared_until(self, rows: Distribution, drafted: list[int]) -> tuple[list[int], list[np.float32]] | None:
        """As `shared`, row by row until a draw is not what was drafted there, and margins; None where they are drawn together."""
        if self.lazy or rows.host is None:
            return None
        draws: list[int] = []
        margins: list[np.float32] = []
        for index, row in enumerate(rows.host.rows):
            drawn, margin = self._row_on_host(row, rows.inverse_temperature, "shared", index, self.reach)
            draws.append(drawn)
            margins.append(margin)
            if draws[index:] != drafted[index : index + 1]:
                break
        return draws, margins

    def margins(self, rows: Distribution) -> mx.array:
        """(rows,) float32: how far the best score of each `shared` draw is above the second best."""
        return self._drawn(rows, 0)[1]

    def shared_streams(self, count: int) -> list[Stream]:
        """The `shared` noise of the round's first positions, for whoever draws from it later."""
        return self.source.streams([self.position + index for index in range(count)])

    def _drawn(self, rows: Distribution, first: int) -> tuple[mx.array, mx.array]:
        """Ids and margins; the latest are kept, since a draw and its margin are asked for one after the other."""
        if self._latest is None or self._latest[0] is not rows or self._latest[1] != first:
            positions = [self.position + first + index for index in range(rows.rows)]
            drawn = self.source.argmax_and_margin(rows.logits, rows.inverse_temperature, positions, lazy=self.lazy)
            self._latest = (rows, first, *drawn)
        return self._latest[2:]

    def prepare(
        self, domain: Literal["shared", "draft"], first: int, count: int, logits: mx.array, stage: Literal["draft", "verify"]
    ) -> None:
        """Where numpy makes the noise: makes what `count` positions of the round, from its `first`-th on, will need, while the
        logits that are to meet it are being computed. What is drawn in the graph takes all of it; else it is not made where
        it would be ready later than the logits of this stage are."""
        if not computes_on_host():
            return

        def make() -> None:
            """While the logits are computed."""
            mx.async_eval(logits)
            self.source.prepare([self.position + first + index for index in range(count)], domain, self.position)

        if self.lazy:
            make()
        else:
            needed = stage == "draft" and self.source.wants_all(domain, count)
            self.source.meanwhile[stage].make(make, lambda: mx.eval(logits), needed)

    def search(self, domain: Literal["shared", "draft"], index: int) -> None:
        """Of noise that was prepared: what can be looked for before there are logits, of one position of the round."""
        self.source.search(self.position + index, domain, self.position)

    def draft(self, rows: Distribution, first: int = 0) -> mx.array:
        """(rows,) ids drawn with the `draft` noise of this round, from its `first`-th position on."""
        if rows.host is not None:
            return self._on_host(rows.host, rows.inverse_temperature, "draft", first)
        positions = [self.position + first + index for index in range(rows.rows)]
        return self.source.argmax(rows.logits, rows.inverse_temperature, positions, "draft", self.position)

    def _on_host(self, rows: HostRows, inverse_temperature: float, domain: str, first: int) -> mx.array:
        """(rows,) ids, by numpy."""
        drawn = [self._row_on_host(row, inverse_temperature, domain, first + index)[0] for index, row in enumerate(rows.rows)]
        return mx.array(drawn, mx.int32)

    def _row_on_host(
        self, row: HostRow, inverse_temperature: float, domain: str, index: int, reach: float = 0.0
    ) -> tuple[int, np.float32]:
        return self.source.draw_on_host(
            row.logits, inverse_temperature, self.position + index, domain, self.position, row.likeliest, reach
        )

    def coins(self, count: int) -> mx.array:
        """(count,) float32, uniform on multiples of 2^-24 in [0, 1)."""
        if self._tossed is None or self._tossed.shape[0] != count:
            self._tossed = self.source.coins([self.position + index for index in range(count)], self.position)
        return self._tossed

    def residual(self, row: Distribution, index: mx.array) -> mx.array:
        """(1,) id drawn with the `residual` noise of the round's `index`-th position, an index in the lazy graph."""
        known = on_host(index)
        positions = (index.astype(mx.uint32) + self.position).reshape(1) if known is None else [self.position + int(known)]
        return self.source.argmax(row.logits, row.inverse_temperature, positions, "residual", self.position)

    def residual_of(self, logarithms: Floats, index: int) -> mx.array:
        """() the same from (vocab,) logarithms of weights, where numpy has them."""
        return mx.array(self.source.draw_on_host(logarithms, 1.0, self.position + index, "residual", self.position)[0])

    def residual_below(self, bounds: Floats, logarithms_of: Callable[[Ids], Floats], index: int) -> mx.array | None:
        """() the same from `reference.draw_below`."""
        (stream,) = self.source.streams([self.position + index], "residual", self.position)
        drawn = draw_below(bounds, logarithms_of, stream)
        return None if drawn is None else mx.array(drawn)


@dataclass(frozen=True)
class Judgement:
    """What became of a round's proposals.

    Attributes:
        accepted: () int32, how many of the first proposals are kept.
        token: () int32, the token emitted after them: the correction, or the bonus when all were kept. An id outside the
            vocabulary says that a row had no finite logit.
        chances: `acceptance`, or a function that makes at least the first so many of it: that may take sums over the vocabulary
            which the verdict itself does not need.
        coins: (gamma,) float32 that were compared under rejection and block, else None.
        draws: int32, the target's own draws under match, gumbel and greedy, else None: (gamma + 1,), or where numpy draws only
            those that were compared, (accepted + 1,).
        margins: (accepted + 1,) float32 of these, as far as the round's noise was asked for them; None where they are not known.
    """

    accepted: mx.array
    token: mx.array
    chances: mx.array | Callable[[int], mx.array]
    coins: mx.array | None = None
    draws: mx.array | None = None
    margins: Floats | None = None

    @cached_property
    def acceptance(self) -> mx.array:
        """(gamma,) float32, the probability that this rule accepts the proposal, given the context and the proposal (under
        `block`: given the block)."""
        return self.first_chances(self.coins.shape[0] if self.coins is not None else MAX_GAMMA)

    def first_chances(self, count: int) -> mx.array:
        """At least the first so many of `acceptance`."""
        return self.chances if isinstance(self.chances, mx.array) else self.chances(count)


def match(p: Distribution | mx.array, q: Draft | mx.array, proposals: mx.array | Sequence[int], noise: RoundNoise) -> Judgement:
    """Target and drafter draw independently; a proposal stands if both drew the same token.

    Args:
        p: (gamma + 1, vocab) the target's distributions, each given the proposals before it.
        q: (gamma, vocab) the distributions that the proposals were drawn from.
        proposals: (gamma,) token ids.
        noise: the round's randomness.
    """
    p, q, proposals = _as_rows(p, q, proposals)
    return _drawn(p, proposals, noise, lambda _: p.first(q.rows).probability_of(proposals))


def gumbel(p: Distribution | mx.array, q: Draft | mx.array, proposals: mx.array | Sequence[int], noise: RoundNoise) -> Judgement:
    """As `match`, for proposals drawn with the same `shared` noise as the target's draws. Arguments as there."""
    p, q, proposals = _as_rows(p, q, proposals)
    return _drawn(p, proposals, noise, lambda _: _coupled_probability(p.first(q.rows), q, proposals))


def greedy(p: Distribution | mx.array, q: Draft | mx.array, proposals: mx.array | Sequence[int], noise: RoundNoise) -> Judgement:
    """Temperature 0, whatever the rule: a proposal stands if it is the target's arg-max. Arguments as in `match`."""
    p, q, proposals = _as_rows(p, q, proposals)
    draws = likeliest(p)
    return _compared(draws, proposals, lambda _: (draws[:-1] == proposals).astype(mx.float32))


def rejection(
    p: Distribution | mx.array, q: Draft | mx.array, proposals: mx.array | Sequence[int], noise: RoundNoise
) -> Judgement:
    """A proposal x stands with probability min(1, p(x) / q(x)); the first that falls is replaced by a draw from the
    normalised (p - q)+, or from p where that is empty. Arguments as in `match`; the proposals must not have been drawn
    with noise that this round's coins or residual draw use."""
    p, q, proposals = _as_rows(p, q, proposals)
    gamma = q.rows
    coins = noise.coins(gamma)
    known = _HostRound.of(p, q, proposals)
    if known is not None:
        return known.rejection(coins, noise)
    ratio = p.first(gamma).probability_of(proposals) / q.probability_of(proposals)
    accepted = _leading(coins < ratio)
    token = _residual_or_bonus(p, q, accepted, mx.array(1.0), noise)
    return Judgement(accepted, token, mx.minimum(ratio, 1.0), coins=coins)


def block(p: Distribution | mx.array, q: Draft | mx.array, proposals: mx.array | Sequence[int], noise: RoundNoise) -> Judgement:
    """Judges the block jointly: the longest prefix whose own coin passes is kept, so a later success can save earlier
    tokens. Never accepts fewer in expectation than `rejection`. Arguments and conditions as there."""
    p, q, proposals = _as_rows(p, q, proposals)
    gamma = q.rows
    coins = noise.coins(gamma)
    known = _HostRound.of(p, q, proposals)
    if known is not None:
        return known.block(coins, noise)
    ratio = p.first(gamma).probability_of(proposals) / q.probability_of(proposals)
    weights = [mx.array(1.0)]  # weights[i]: the paper's P_i, the capped likelihood ratio of the first i proposals
    for index in range(gamma):
        weights.append(mx.minimum(weights[-1] * ratio[index], 1.0))
    weight = mx.stack(weights)
    passing = weight[gamma:]
    if gamma > 1:
        # After i < gamma proposals, what p still has over q at the next position decides.
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


def make_for_verdict(q: Draft, noise: RoundNoise) -> None:
    """Makes what `rejection` and `block` need besides p, while the target computes that. Where a proposal is rejected, some of it
    is in vain, which costs nothing as long as p would have been waited for."""
    noise.coins(q.rows)
    if isinstance(q, Distribution):
        q.weigh()


Judge = Callable[[Distribution | mx.array, Draft | mx.array, mx.array | Sequence[int], RoundNoise], Judgement]
JUDGES: dict[Rule, Judge] = {"match": match, "rejection": rejection, "gumbel": gumbel, "block": block}


def _as_rows(
    p: Distribution | mx.array, q: Draft | mx.array, proposals: mx.array | Sequence[int]
) -> tuple[Distribution, Draft, mx.array]:
    """Plain probability arrays are welcome: they become distributions."""
    p_rows = p if isinstance(p, Distribution) else Distribution.from_probabilities(p)
    q_rows = q if isinstance(q, (Distribution, OneHot)) else Distribution.from_probabilities(q)
    ids = proposals.astype(mx.int32) if isinstance(proposals, mx.array) else mx.array(list(proposals), dtype=mx.int32)
    if q_rows.rows != ids.shape[0] or p_rows.rows != q_rows.rows + 1:
        raise ValueError(f"p needs one row more than q and the proposals: {p_rows.rows}, {q_rows.rows}, {ids.shape[0]}")
    if q_rows.vocab_size != p_rows.vocab_size:
        raise ValueError(f"p and q need the same vocabulary: {p_rows.vocab_size}, {q_rows.vocab_size}")
    return p_rows, q_rows, ids


def likeliest(p: Distribution) -> mx.array:
    """(rows,) int32: the arg-max of each row, ties to the lowest id; NO_TOKEN where no logit is finite."""
    finite = mx.max(p.logits, axis=-1) > -mx.inf
    return mx.where(finite, mx.argmax(p.logits, axis=-1).astype(mx.int32), NO_TOKEN)


def _leading(kept: mx.array) -> mx.array:
    """() int32: how many entries hold before the first that does not."""
    return mx.cumprod(kept.astype(mx.int32)).sum().astype(mx.int32)


def _drawn(p: Distribution, proposals: mx.array, noise: RoundNoise, acceptance: Callable[[int], mx.array]) -> Judgement:
    drafted = on_host(proposals)
    drawn = None if drafted is None else noise.shared_until(p, drafted.tolist())
    if drawn is None:
        return _compared(noise.shared(p).astype(mx.int32), proposals, acceptance)
    draws, margins = drawn
    known = np.array(margins) if noise.reach else None
    return Judgement(mx.array(len(draws) - 1), mx.array(draws[-1]), acceptance, draws=mx.array(draws), margins=known)


def _compared(draws: mx.array, proposals: mx.array, acceptance: Callable[[int], mx.array]) -> Judgement:
    accepted = _leading(draws[:-1] == proposals)
    return Judgement(accepted, mx.take(draws, accepted), acceptance, draws=draws)


def _coupled_probability(p: Distribution, q: Draft, proposals: mx.array) -> mx.array:
    """(gamma,): P(the target draws x | the drafter drew x) under shared noise: p(x) / sum_j max(p_j q(x), q_j p(x))."""
    p_x = p.probability_of(proposals)
    if isinstance(q, OneHot):
        return p_x
    q_x = q.probability_of(proposals)
    overlap = mx.maximum(p.probabilities * q_x[:, None], q.probabilities * p_x[:, None]).sum(axis=-1)
    return mx.where(p_x > 0, p_x / overlap, 0.0)


def _residual_or_bonus(p: Distribution, q: Draft, accepted: mx.array, scale: mx.array, noise: RoundNoise) -> mx.array:
    """() int32: a draw from the normalised (scale * p - q)+ after a rejection, from p after a whole block."""
    gamma = q.rows
    rejected = mx.minimum(accepted, gamma - 1)
    p_row = p.row(rejected).probabilities
    excess = mx.maximum(scale * p_row - q.row(rejected).probabilities, 0.0)
    residual = mx.where(excess.sum() == 0, p_row, excess)  # what is not a number stays so, and no token is drawn
    correction = noise.residual(Distribution.from_probabilities(residual), rejected)
    bonus = noise.shared(p.row(gamma), first=gamma)
    return mx.where(accepted == gamma, bonus.astype(mx.int32), correction.astype(mx.int32)).reshape(())


def _rows_after(q: Draft, first: int) -> Draft:
    if isinstance(q, OneHot):
        return OneHot(q.ids[first:], q.vocab_size)
    return q.part(first, q.rows)


CLOSE = 1e-3
"""Coins that differ from what they are compared with by less than this share are compared with that to the last bit. Sums over a
vocabulary in float32 are far better than that."""
LEAST_LOGARITHM = -80.0
"""Below it exponentials in float32 lose digits, and at last are 0."""


class _HostRound:
    """A round that numpy judges: what the verdict does not need is not computed.

    It gives the verdicts of `rejection` and `block` to the bit of what MLX computes on the same processor, which makes the few
    exponentials of picked tokens and the sums over the vocabulary.
    """

    def __init__(self, p: Distribution, q: Draft, p_rows: HostRows, q_rows: HostRows | None, drafted: list[int]) -> None:
        self.p, self.q = p, q
        self.p_rows, self.q_rows = p_rows, q_rows
        self.drafted = drafted
        self.gamma = len(drafted)
        self._ratios = np.zeros(0, np.float32)

    @classmethod
    def of(cls, p: Distribution, q: Draft, proposals: mx.array) -> _HostRound | None:
        """None where the round stays in the lazy graph."""
        drafted = on_host(proposals)
        q_rows = q.host if isinstance(q, Distribution) else None
        if drafted is None or p.host is None or (q_rows is None and isinstance(q, Distribution)):
            return None
        return cls(p, q, p.host, q_rows, drafted.tolist())

    def rejection(self, coins: mx.array, noise: RoundNoise) -> Judgement:
        """As `rejection`: no row behind the first rejected proposal is looked at."""
        compared = np.asarray(coins)
        accepted = 0
        while accepted < self.gamma and self._stands(accepted, compared[accepted]):
            accepted += 1
        token = self._token(accepted, np.float32(1), noise)

        def chances(count: int) -> mx.array:
            """The first so many, each as it was compared with its coin."""
            return mx.array([min(1.0, float(self._compared_ratio(index))) for index in range(count)])

        return Judgement(mx.array(accepted), token, chances, coins=coins)

    def block(self, coins: mx.array, noise: RoundNoise) -> Judgement:
        """As `block`: the coins are looked at from the last one on, until one passes."""
        compared = np.asarray(coins)
        passing: dict[int, Float] = {}

        def passes(length: int) -> Float:
            """The chance of keeping this length, given that no longer one was kept."""
            if length not in passing:
                weight = self._weights[length]
                passing[length] = weight if length == self.gamma else self._passing(length, weight)
            return passing[length]

        def chances(count: int) -> mx.array:
            """All of them."""
            falling = [np.float32(1) - passes(length) for length in range(1, self.gamma + 1)]
            return mx.array(1 - np.cumprod(falling[::-1], dtype=np.float32)[::-1])

        about = self._about_weights()
        accepted = self.gamma
        while accepted and not self._keeps(accepted, about[accepted], compared[accepted - 1], passes):
            accepted -= 1
        scale = np.float32(1) if accepted == self.gamma or about[accepted] == 1 else self._weights[accepted]
        return Judgement(mx.array(accepted), self._token(accepted, scale, noise), chances, coins=coins)

    def _stands(self, index: int, coin: Float) -> bool:
        """Whether a coin is below the ratio at a proposal, which need not be known to the last bit unless they are close."""
        ratio = self._compared_ratio(index)
        if abs(ratio - coin) > CLOSE * ratio:
            return bool(coin < ratio)
        return bool(coin < self._all_ratios(index + 1)[index])

    def _compared_ratio(self, index: int) -> float:
        """Of p over q at a proposal: to the last bit if that is known or has to be."""
        ratio = None if index < len(self._ratios) else self._about_ratio(index)
        return float(self._all_ratios(index + 1)[index]) if ratio is None else ratio

    def _about_ratio(self, index: int) -> float | None:
        """Of p over q at a proposal, but for the last bits; None where one of them is too small for that."""
        target = self._logarithm(self.p_rows, index)
        drafter = Float(0) if self.q_rows is None else self._logarithm(self.q_rows, index)
        return math.exp(float(target) - float(drafter)) if min(target, drafter) > LEAST_LOGARITHM else None

    def _about_weights(self) -> list[float]:
        """As `_weights`, but for the last bits; what is 1 here is so to the last bit."""
        weights = [1.0]
        for index in range(self.gamma):
            ratio = self._about_ratio(index)
            if ratio is None or abs(weights[-1] * ratio - 1) < CLOSE:
                return [float(weight) for weight in self._weights]
            weights.append(min(weights[-1] * ratio, 1.0))
        return weights

    @cached_property
    def _weights(self) -> list[Float]:
        """The paper's P_i, the capped likelihood ratio of the first i proposals, for i from 0 to gamma."""
        weights = [np.float32(1)]
        for ratio in self._all_ratios(self.gamma):
            weights.append(np.minimum(weights[-1] * ratio, np.float32(1)))
        return weights

    def _keeps(self, length: int, weight: float, coin: Float, passes: Callable[[int], Float]) -> bool:
        """As `_stands` of keeping so many proposals under block, which `passes` tells to the last bit; `weight` but for these."""
        if length == self.gamma and abs(weight - coin) > CLOSE * weight:
            return bool(coin < weight)
        if length < self.gamma and self.q_rows is not None:
            p, q = self.p_rows.rows[length], self.q_rows.rows[length]
            over = p.about(weight)
            over -= q.about(1.0)
            mass = float(np.maximum(over, 0, out=over).sum())
            total = mass + 1 - weight
            unsure = CLOSE * mass + 4 * (p.tolerance + q.tolerance)
            if abs(mass - coin * total) > unsure:
                return bool(coin * total < mass)
        return bool(coin < passes(length))

    def _excess(self, length: int, weight: Float) -> Floats:
        """(vocab,): what the weighted p has over q after so many proposals."""
        assert self.q_rows is not None
        return np.asarray(weight * self.p_rows.rows[length].probabilities - self.q_rows.rows[length].probabilities)

    def _passing(self, length: int, weight: Float) -> Float:
        """What p still has over q after so many proposals, of that and what the weight lacks."""
        if self.q_rows is None:
            mass = weight * (np.float32(1) - self._exponentials([self._logarithm(self.p_rows, length)])[0])
        else:
            mass = np.float32(np.asarray(mx.maximum(mx.array(self._excess(length, weight)), 0.0).sum()))
        total = mass + np.float32(1) - weight
        return np.float32(mass / total if total > 0 else 1)

    def _all_ratios(self, count: int) -> Floats:
        """At least the first `count` of p over q, at the proposals."""
        known = range(len(self._ratios), count)
        if known:
            logarithms = [self._logarithm(rows, index) for rows in (self.p_rows, self.q_rows) if rows for index in known]
            target, drafter = np.split(self._exponentials(logarithms), [len(known)])
            with np.errstate(all="ignore"):
                more = target if self.q_rows is None else target / drafter
            self._ratios = np.concatenate([self._ratios, more])
        return self._ratios

    def _logarithm(self, rows: HostRows, index: int) -> Float:
        """Of the probability of the proposal at an index, in the row of that index."""
        return rows.rows[index].logarithm(self.drafted[index])

    def _exponentials(self, logarithms: Sequence[Float]) -> Floats:
        """As MLX makes them, in one call: each takes as long as a pass over a vocabulary."""
        return np.asarray(mx.exp(mx.array(np.array(logarithms, np.float32))))

    def _token(self, accepted: int, scale: Float, noise: RoundNoise) -> mx.array:
        """As `_residual_or_bonus`, of which only the one that is wanted is drawn."""
        if accepted == self.gamma:
            return mx.array(int(np.asarray(noise.shared(self.p.row(self.gamma), first=self.gamma))[0]))
        p, q = self.p_rows.rows[accepted], None if self.q_rows is None else self.q_rows.rows[accepted]
        drafted = self.drafted[accepted]

        def logarithms_of(tokens: Ids) -> Floats:
            """Of what p has over q at some tokens."""
            over = scale * p.probabilities_of(tokens)
            over -= tokens == drafted if q is None else q.probabilities_of(tokens)
            with np.errstate(divide="ignore"):
                return np.asarray(np.log(np.maximum(over, 0, out=over), out=over))

        bounds = p.about(float(scale) * (1 + p.tolerance))
        if q is None:
            bounds[drafted] -= 1 - p.tolerance
        else:
            bounds -= q.about(1 - q.tolerance)
        token = noise.residual_below(bounds, logarithms_of, accepted)
        if token is not None:
            return token
        logarithms = logarithms_of(np.arange(len(bounds)))
        if logarithms.max() == -np.inf:
            with np.errstate(divide="ignore"):
                logarithms = np.log(p.probabilities)
        return noise.residual_of(logarithms, accepted)
