"""What the acceptance rules should do: their probabilities in closed form, from the two distributions alone.

p is the target's distribution at one position and q the drafter's, both after filters and temperature and on the target's
token ids. The three rules that judge one position at a time have a probability of acceptance each (`match_probability`,
`rejection_probability`, `gumbel_probability`; `expected` for all three at once). `block` judges a drafted block jointly, so its
probabilities are given the block (`block_thresholds`, `block_acceptance`). `predicted_tau` turns an acceptance rate into
tokens per round.

Sources: Leviathan et al. and Chen et al. 2023 (rejection); Daliri, Musco and Suresh 2025 (the coupling by shared Gumbel noise and
its bound (1 - TV) / (1 + TV)); Sun et al., ICLR 2025 (block verification).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]

NEGLIGIBLE = 1e-6
"""The largest total mass, in p and in q each, of the tokens that `gumbel_probability` and `expected` may leave out."""

_EXACT_UP_TO = 1024
"""Vocabularies up to this size are summed completely: there is no time to gain."""

_FIRST_THRESHOLD = 1e-7
_THRESHOLD_STEP = 4.0
_TOTAL_TOLERANCE = 1e-3


def match_probability(p: ArrayLike, q: ArrayLike) -> float:
    """Probability that two independent draws, one from each side, are equal: sum_i p_i q_i.

    p, q: (vocabulary,) probabilities. They are divided by their totals, which float32 rounding may move a little away from 1.
    Raises ValueError if they differ in shape, or are negative, not finite, or no distributions.
    """
    p_row, q_row, p_total, q_total = _checked(p, q)
    return _probability(np.dot(p_row.astype(np.float64), q_row.astype(np.float64)) / (p_total * q_total))


def rejection_probability(p: ArrayLike, q: ArrayLike) -> float:
    """Probability that the ratio test accepts a token drawn from q: sum_i min(p_i, q_i), one minus the total variation.

    p, q: (vocabulary,) probabilities; totals and errors as in `match_probability`.
    """
    p_row, q_row, p_total, q_total = _checked(p, q)
    return _probability(np.minimum(p_row / p_total, q_row / q_total).sum(dtype=np.float64))


def gumbel_probability(p: ArrayLike, q: ArrayLike) -> float:
    """Probability that argmax(log p + G) equals argmax(log q + G) under one Gumbel noise G for both.

    It is sum_i 1 / sum_j max(p_j / p_i, q_j / q_i), computed in O(V log V). In vocabularies above 1,024 tokens those of total
    mass below 1e-6 in p and in q are left out, which moves the result by less than 2e-6: the race among the others is the race
    among all unless a token left out wins on one of the sides, and that has the probability of its mass there.

    p, q: (vocabulary,) probabilities; totals and errors as in `match_probability`.
    """
    return _gumbel(*_survivors(*_checked(p, q)))


def expected(p_row: ArrayLike, q_row: ArrayLike) -> tuple[float, float, float]:
    """The probabilities of match, gumbel and rejection (in this order) at one position, sharing the work.

    p_row, q_row: (vocabulary,) probabilities, float32 or float64. The same tokens as in `gumbel_probability` are left out:
    match and rejection come out too small by less than 1e-6, gumbel is within 2e-6. Errors as in `match_probability`.
    """
    p, q = _survivors(*_checked(p_row, q_row))
    return _probability(np.dot(p, q)), _gumbel(p, q), _probability(np.minimum(p, q).sum())


def block_thresholds(p: ArrayLike, q: ArrayLike, proposals: Sequence[int]) -> tuple[Floats, Floats]:
    """The quantities block verification compares its coins with, for one drafted block X_1 .. X_gamma.

    p: (gamma, vocabulary) or, with the bonus row, (gamma + 1, vocabulary): row i is the target's distribution after X_1 .. X_i.
    q: (gamma, vocabulary): row i is the distribution X_(i+1) was drawn from.
    proposals: the gamma token ids.
    Returns the weights P_0 .. P_gamma, with P_i = min(1, P_(i-1) p(X_i) / q(X_i)), and the thresholds h_1 .. h_gamma. With
    independent coins u_i in [0, 1) the accepted count is the largest i with u_i < h_i, or 0.
    Raises ValueError for impossible shapes or ids, and for a proposal that its q row gives no probability.
    """
    targets, drafts = np.asarray(p, dtype=np.float64), np.asarray(q, dtype=np.float64)
    gamma = len(proposals)
    if targets.ndim != 2 or drafts.ndim != 2 or targets.shape[1] != drafts.shape[1]:
        raise ValueError("p and q must be rows over one vocabulary")
    if len(drafts) != gamma or len(targets) not in (gamma, gamma + 1):
        raise ValueError(f"{gamma} proposals need {gamma} rows of q and {gamma} or {gamma + 1} of p")
    if any(not 0 <= token < drafts.shape[1] for token in proposals):
        raise ValueError("a proposal lies outside the vocabulary")
    weights, thresholds = np.ones(gamma + 1), np.ones(gamma)
    for index, token in enumerate(proposals):
        if not drafts[index, token] > 0:
            raise ValueError(f"proposal {index} has no probability under q")
        weights[index + 1] = min(1.0, weights[index] * targets[index, token] / drafts[index, token])
    for index in range(1, gamma):
        weight = weights[index]
        residual = np.maximum(weight * targets[index] - drafts[index], 0.0).sum()
        denominator = residual + 1.0 - weight
        thresholds[index - 1] = residual / denominator if denominator > 0 else 1.0
    if gamma:
        thresholds[-1] = weights[gamma]
    return weights, thresholds


def block_acceptance(p: ArrayLike, q: ArrayLike, proposals: Sequence[int]) -> Floats:
    """Probability, given the drafted block, that block verification accepts each of its tokens.

    Position i is accepted if the coin of any position from i on succeeds: 1 - prod_(j >= i) (1 - h_j). The sum is the expected
    accepted count. Arguments and errors as in `block_thresholds`; returns (gamma,).
    """
    _, thresholds = block_thresholds(p, q, proposals)
    acceptance, all_fail = np.empty(len(thresholds)), 1.0
    for index in reversed(range(len(thresholds))):
        all_fail *= 1.0 - thresholds[index]
        acceptance[index] = 1.0 - all_fail
    return acceptance


def predicted_tau(alpha: float, gammas: Sequence[int]) -> float:
    """Tokens per round if each proposal were accepted with the same probability, independently.

    The mean over rounds of (1 - alpha^(gamma + 1)) / (1 - alpha), summed as a geometric series so that alpha = 1 (gamma + 1
    tokens) needs no limit; a plain round (gamma 0) counts 1.
    Raises ValueError for an alpha outside 0 to 1, a negative gamma, or no rounds.
    """
    if not 0.0 <= alpha <= 1.0:
        raise ValueError(f"alpha must lie between 0 and 1, not {alpha!r}")
    if not len(gammas) or min(gammas) < 0:
        raise ValueError("gammas must hold at least one round and nothing negative")
    series = np.cumsum(alpha ** np.arange(max(gammas) + 1, dtype=np.float64))
    return float(series[np.asarray(gammas, dtype=np.intp)].mean())


def _checked(p: ArrayLike, q: ArrayLike) -> tuple[NDArray[np.floating], NDArray[np.floating], float, float]:
    """Both rows as floating-point arrays, and their totals."""
    rows: list[NDArray[np.floating]] = []
    totals: list[float] = []
    for name, values in (("p", p), ("q", q)):
        row = np.asarray(values)
        if row.dtype not in (np.float32, np.float64):
            row = row.astype(np.float64)
        if row.ndim != 1 or row.size == 0:
            raise ValueError(f"{name} must be one row of probabilities, not of shape {row.shape}")
        if not row.min() >= 0:
            raise ValueError(f"{name} holds negative values or NaN")
        total = float(row.sum(dtype=np.float64))
        if not abs(total - 1.0) <= _TOTAL_TOLERANCE:
            raise ValueError(f"{name} sums to {total:.6g}, not to 1")
        rows.append(row)
        totals.append(total)
    if rows[0].shape != rows[1].shape:
        raise ValueError(f"p and q must have one shape, not {rows[0].shape} and {rows[1].shape}")
    return rows[0], rows[1], totals[0], totals[1]


def _survivors(p_row: NDArray[np.floating], q_row: NDArray[np.floating], p_total: float, q_total: float) -> tuple[Floats, Floats]:
    """The probabilities of the tokens that matter on either side, divided by the totals of the whole rows.

    Tries lower and lower thresholds until the tokens below have less than the negligible mass on both sides. The last one,
    half of 1e-6 / V, cannot fail; most rows end after a few, with some thousand tokens.
    """
    larger = np.maximum(p_row, q_row)
    lowest = 0.5 * NEGLIGIBLE / larger.size if larger.size > _EXACT_UP_TO else 0.0
    threshold = max(_FIRST_THRESHOLD, lowest) if lowest else 0.0
    while True:
        keep = np.flatnonzero(larger > threshold)
        p, q = p_row[keep].astype(np.float64) / p_total, q_row[keep].astype(np.float64) / q_total
        if threshold <= lowest or (1.0 - p.sum() < NEGLIGIBLE and 1.0 - q.sum() < NEGLIGIBLE):
            return p, q
        threshold = max(threshold / _THRESHOLD_STEP, lowest)


def _gumbel(p: Floats, q: Floats) -> float:
    """The sum over tokens with both probabilities of 1 / (P(r >= r_i) / p_i + Q(r < r_i) / q_i), with r = p / q.

    The other tokens only run in the race: those without q have an infinite r, those without p a zero one.
    """
    both = (p > 0) & (q > 0)
    p_alone, q_alone = p[~both].sum(), q[~both].sum()
    p, q = p[both], q[both]
    with np.errstate(over="ignore"):
        order = np.argsort(p / q)
    p, q = p[order], q[order]
    below = np.full(q.size, q_alone)
    below[1:] += np.cumsum(q[:-1])
    at_least = p_alone + np.cumsum(p[::-1])[::-1]
    with np.errstate(over="ignore"):
        return _probability((1.0 / (at_least / p + below / q)).sum())


def _probability(value: float) -> float:
    """Takes rounding back into the interval from 0 to 1."""
    return float(min(max(value, 0.0), 1.0))
