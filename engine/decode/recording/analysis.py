"""Analysis of a judged round for display: probabilities, alternatives, margins, closed forms.

Works on host copies with numpy: on the CPU back-end MLX's exponential is many times slower, and the next token does not wait for
anything here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from engine.rounds import near_ties, theory
from engine.target.distribution import Weighed
from engine.types import Candidate, DecodingOptions, Expected

TOP = 5
SORTED = 128
"""Up to this many values are sorted directly."""
IN_PARTS = 16384
"""Above this number of values, the maxima of parts are found first."""
PART = 256
"""Number of values in a part."""

Floats = NDArray[np.float32]


class Row:
    """One position's distribution on the host: weights and their total. Rarely used figures are computed on demand.

    Attributes:
        weights: (vocab,) float32, proportional to the probabilities, the largest 1; empty if `only` is given.
        total: their sum.
        only: the token that has all of the probability, if there is one.
    """

    def __init__(
        self,
        weights: Floats,
        total: float = 1.0,
        only: int | None = None,
        logits: Floats | None = None,
        inverse_temperature: float = 1.0,
    ) -> None:
        """`logits`: (vocab,) from which the weights were made, at that temperature."""
        self.weights = weights
        self.total = total
        self.only = only
        self._logits = logits
        self._inverse_temperature = inverse_temperature

    @property
    def probabilities(self) -> Floats:
        """(vocab,) float32, a new array."""
        return self.weights / np.float32(self.total)

    @cached_property
    def top(self) -> tuple[int, ...]:
        """Ids of the likeliest tokens, likeliest first."""
        if self.only is not None:
            return (self.only,)
        if len(self.likely) < TOP:
            return top_ids(self.weights)
        return tuple(self.likely.take(top_ids(self.weights.take(self.likely))).tolist())

    @cached_property
    def likely(self) -> NDArray[np.intp]:
        """`theory.likely_ids` of the weights."""
        return theory.likely_ids(self.weights, self.total)

    def of(self, token: int) -> float:
        """Returns the probability of one token id."""
        return float(self.weights[token]) / self.total if self.only is None else float(token == self.only)

    def candidates(self, text_of: Callable[[int], str]) -> tuple[Candidate, ...]:
        """Returns the recorded part of the distribution: the likeliest tokens, likeliest first, none of probability 0."""
        chances = ((token, self.of(token)) for token in self.top)
        return tuple(Candidate(token, text_of(token), chance) for token, chance in chances if chance > 0)

    @property
    def entropy(self) -> float:
        """Entropy in nats, within 1e-5: sums are float32."""
        if self._logits is None:
            return 0.0
        scores = self._logits - self._logits.max()
        with np.errstate(invalid="ignore"):
            mean = _inner(scores, self.weights) / self.total
        if math.isnan(mean):  # -inf times a probability of 0
            mean = _inner(np.maximum(scores, np.float32(LEAST / self._inverse_temperature)), self.weights) / self.total
        return max(0.0, math.log(self.total) - mean * self._inverse_temperature)


LEAST = -200.0
"""A logarithm so low that float32's exponential of it is 0."""
SUMMED_AT_ONCE = 512
"""Number of products that are added up in float32 before their sums are added in float64."""


def _inner(first: Floats, second: Floats) -> float:
    """Returns the sum of the products of two rows."""
    whole = len(first) // SUMMED_AT_ONCE * SUMMED_AT_ONCE
    parts = np.vecdot(first[:whole].reshape(-1, SUMMED_AT_ONCE), second[:whole].reshape(-1, SUMMED_AT_ONCE))
    return float(parts.sum(dtype=np.float64)) + float(np.vecdot(first[whole:], second[whole:]))


def row(logits: Floats, inverse_temperature: float, weighed: Weighed | None = None) -> Row:
    """Returns the distribution of (vocab,) float32 logits; -inf is probability 0. Weights that a rule has computed are reused."""
    if weighed is None:
        with np.errstate(over="ignore", invalid="ignore"):  # a row without a finite logit gives NaN
            scores = logits - logits.max()  # before scaling, so that no temperature is too small
            if inverse_temperature != 1.0:
                scores *= np.float32(inverse_temperature)
            weights = np.exp(scores, out=scores)
        weighed = weights, float(weights.sum())
    return Row(*weighed, logits=logits, inverse_temperature=inverse_temperature)


def certain(token: int) -> Row:
    """Returns the distribution of a proposal that was not drawn: 1 at its token id, 0 elsewhere."""
    return Row(np.zeros(0, dtype=np.float32), only=token)


def coupled_acceptance(p: Row, q: Row, token: int) -> float:
    """Returns P(the target draws the token | the drafter drew it) under shared noise: p(x) / sum_j max(p_j q(x), q_j p(x))."""
    p_token, q_token = p.of(token), q.of(token)
    if q.only is not None or p_token == 0:
        return p_token
    overlap = p.weights * np.float32(q_token / p.total)
    np.maximum(overlap, q.weights * np.float32(p_token / q.total), out=overlap)
    return min(1.0, p_token / float(overlap.sum()))


def block_acceptance(p: Sequence[Row], q: Sequence[Row], drafted: Sequence[int]) -> list[float]:
    """Returns the expected acceptance under block verification at each of the gamma positions, from complete rows of p and q.
    Position i is accepted if the coin of any position from i on succeeds (`engine.acceptance.block`).

    Args:
        p, q: gamma rows of the target and of the drafter.
        drafted: (gamma,) ids, each drawn from its row of q.
    """
    passing = []
    weight = 1.0
    for index, token in enumerate(drafted):
        drawn_from = q[index].of(token)
        weight = min(1.0, weight * p[index].of(token) / drawn_from) if drawn_from else 1.0
        if index + 1 == len(drafted):
            passing.append(weight)
            continue
        mass = residual_mass(p[index + 1], q[index + 1], weight)
        rest = mass + 1.0 - weight
        passing.append(mass / rest if rest > 0 else 1.0)
    all_fail = np.cumprod([1.0 - chance for chance in reversed(passing)])
    return [1.0 - float(failing) for failing in reversed(all_fail)]


def residual_mass(p: Row, q: Row, weight: float) -> float:
    """Returns the sum over tokens of max(weight * p - q, 0), for a weight of at most 1."""
    if q.only is not None:
        return weight * (1.0 - p.of(q.only))
    over = p.weights * np.float32(weight / p.total)
    over -= q.weights * np.float32(1 / q.total)
    return float(np.maximum(over, 0, out=over).sum())


def top_ids(values: Floats, count: int = TOP) -> tuple[int, ...]:
    """Returns the ids of the largest values, largest first, ties to the lowest id.

    It sorts only values above a limit that at least `count` values reach. For many values, that limit is the `count`-th largest
    maximum of interleaved parts: `count` parts have a maximum of at least the limit, hence at least `count` values reach it, and
    values above it lie in fewer than `count` parts. So at most a few hundred values are sorted, whatever the vocabulary.
    """
    count = min(count, len(values))
    if len(values) <= SORTED:
        best = np.argsort(-values, kind="stable")[:count]
        return tuple(best.tolist())
    parts = len(values) // PART
    largest = values if len(values) <= IN_PARTS else values[: parts * PART].reshape(PART, parts).max(axis=0)
    limit = np.partition(largest, len(largest) - count)[-count]
    above = np.flatnonzero(values > limit)
    best = above[np.argsort(-values[above], kind="stable")][:count]
    if len(best) < count:
        best = np.concatenate([best, np.flatnonzero(values == limit)[: count - len(best)]])
    return tuple(best.tolist())


def margin(scores: Floats) -> float:
    """Returns the gap between the two largest of (vocab,) scores; infinite if only one token is possible."""
    if len(scores) < 2:
        return float("inf")
    first, second = (scores[token] for token in top_ids(scores, 2))
    return float(first - second)


def border(logits: Floats, token: int, options: DecodingOptions) -> float | None:
    """Returns how far logits would have to move against each other for the filters to drop a token that passed them.

    If every logit is wrong by at most e, a difference of two logits is wrong by at most 2 e, and so is the log-odds of any set of
    tokens: the weights of one side grow at most by a factor of exp(e) while those of the other shrink by as much. So a border
    below some limit means the same as a margin below it.

    Args:
        logits: (vocab,) before the filters.
        options: the options whose filters the token passed.

    Returns:
        The smallest such difference over the active filters; None if it is `near_ties.RANGE` or more.
    """
    own, others = float(logits[token]), np.delete(logits, token)
    gaps = [near_ties.RANGE]
    if 0 < options.top_k <= len(others):  # it is dropped when that many others have overtaken it
        gaps.append(own - float(np.partition(others, -options.top_k)[-options.top_k]))
    if options.min_p and len(others):  # it is dropped when it is below that fraction of the best other one
        gaps.append(own - float(others.max()) - math.log(options.min_p))
    if 0 < options.top_p < 1:
        gaps.append(_top_p_border(own, others, options.top_p))
    nearest = max(0.0, min(gaps))
    return nearest if nearest < near_ties.RANGE else None


def _top_p_border(own: float, others: Floats, top_p: float) -> float:
    """Returns the border of top-p, from a token's own logit and those of all others. Top-p keeps a token if those above it have
    less than `top_p` of the mass (mlx-lm's `apply_top_p`). Every token that could overtake it within the gap counts as being
    above."""
    highest = others.max(initial=np.float32(own))
    weights = np.exp(others - highest)
    above = others > own
    overtaking = np.flatnonzero(~above & (others > own - near_ties.RANGE))
    overtaking = overtaking[np.argsort(-others[overtaking])]
    first = np.concatenate([[0.0], np.cumsum(weights[overtaking], dtype=np.float64)])
    mass = weights[above].sum(dtype=np.float64) + first
    overtaken = np.concatenate([[0.0], own - others[overtaking].astype(np.float64)])
    # Summed separately: the difference between the total and the part above would have few digits left if top-p is near 1.
    below = math.exp(own - float(highest)) + weights[~above].sum(dtype=np.float64) - first
    below = np.maximum(below, np.finfo(np.float64).tiny)  # the token itself has some mass, but sums are rounded
    with np.errstate(divide="ignore"):
        shift = math.log(top_p / (1 - top_p)) - np.log(mass / below)
    return float(np.maximum(overtaken, shift).min())


def expected(p: Sequence[Row], q: Sequence[Row], greedy: bool) -> tuple[Expected, ...]:
    """Returns the closed forms of each position. At temperature 0 both sides are their arg-max, so every rule agrees."""
    results = []
    for p_row, q_row in zip(p, q, strict=True):
        if greedy:
            agree = float(p_row.top[0] == q_row.top[0])
            results.append(Expected(agree, agree, agree))
        elif q_row.only is not None:  # every rule accepts it with the probability that the target draws it
            chance = p_row.of(q_row.only)
            results.append(Expected(chance, chance, chance))
        else:
            results.append(closed_forms(p_row, q_row))
    return tuple(results)


def closed_forms(p: Row, q: Row) -> Expected:
    """Returns the acceptance probability of each rule for a token drawn from q."""
    match, gumbel, rejection = theory.expected_of_weights(p.weights, q.weights, p.total, q.total, p.likely, q.likely)
    return Expected(match, gumbel, rejection)
