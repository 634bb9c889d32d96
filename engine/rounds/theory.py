"""Acceptance probabilities of the rules in closed form, from the two distributions alone.

p is the target's distribution at one position and q the drafter's, both after filters and temperature and on the target's token
ids. Each of the three rules that judge one position at a time has an acceptance probability (`match_probability`,
`rejection_probability`, `gumbel_probability`; `expected` for all three at once). `block` judges a drafted block jointly and has
none.

Sources: Leviathan et al. and Chen et al. 2023 (rejection); Daliri, Musco and Suresh 2025 (the coupling by shared Gumbel noise and
its bound (1 - TV) / (1 + TV)).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Sides = tuple[Floats, Floats]
"""Probabilities of some tokens, or masses of some groups, in p and in q."""

EXPECTED_TOLERANCE = 2e-5
"""Maximum amount by which the gumbel value of `expected` may exceed the exact one."""

_SHORT = 4096
"""Up to this many tokens are sorted without grouping."""

_ALONE = 1e-4
"""Tokens above this probability on either side are not grouped."""
_LIKELY = 1e-8
"""Tokens below this probability on both sides are the rest, if that leaves few others."""
_FEW = 1536
"""Up to this many likely tokens, sorting is faster than grouping."""
_GROUP_BITS = 13
"""Ratios are grouped in at most 2^13 groups. The closer the ratios lie together, the narrower the groups: 9 bits of each ratio
after the leading one for ratios within 16 octaves, all 23 if they differ by a thousandth at most."""
_TOTAL_TOLERANCE = 1e-3


def match_probability(p: ArrayLike, q: ArrayLike) -> float:
    """Returns the probability that two independent draws, one from each side, are equal: sum_i p_i q_i.

    p, q: (vocabulary,) probabilities. They are divided by their totals, which float32 rounding may move slightly away from 1.
    Raises ValueError if they differ in shape, or are negative, not finite, or not distributions.
    """
    p_row, q_row, p_total, q_total = checked_rows(p, q)
    return _probability(_inner(p_row, q_row) / (p_total * q_total))


def rejection_probability(p: ArrayLike, q: ArrayLike) -> float:
    """Returns the probability that the ratio test accepts a token drawn from q: sum_i min(p_i, q_i), one minus the total
    variation.

    p, q: (vocabulary,) probabilities; totals and errors as in `match_probability`.
    """
    p_row, q_row, p_total, q_total = checked_rows(p, q)
    return _probability(np.minimum(p_row / p_total, q_row / q_total).sum(dtype=np.float64))


def gumbel_probability(p: ArrayLike, q: ArrayLike) -> float:
    """Returns the probability that argmax(log p + G) equals argmax(log q + G) with the same Gumbel noise G.

    It is sum_i 1 / sum_j max(p_j / p_i, q_j / q_i), computed in O(V log V) from all tokens.

    p, q: (vocabulary,) probabilities; totals and errors as in `match_probability`.
    """
    p_row, q_row, p_total, q_total = checked_rows(p, q)
    return agreement((p_row.astype(np.float64) / p_total, q_row.astype(np.float64) / q_total))


def expected(p_row: ArrayLike, q_row: ArrayLike) -> tuple[float, float, float]:
    """Returns the probabilities of match, gumbel and rejection (in this order) at one position: the three functions above,
    faster.

    For long rows, match is within 1e-8 and rejection within 1e-6 (unlikely tokens are compared in float32). The gumbel value is
    never too small and at most 2e-5 too large (besides rounding), see `_rest` and `_between`.

    p_row, q_row: (vocabulary,) probabilities; totals and errors as in `match_probability`.
    """
    return expected_of_weights(*checked_rows(p_row, q_row))


def likely_ids(weights: NDArray[np.floating], total: float) -> NDArray[np.intp]:
    """Returns the ids, ascending, of all tokens of (vocabulary,) weights except those whose weight is negligible."""
    return np.flatnonzero(weights > np.float32(_LIKELY * total))


def expected_of_weights(
    p: NDArray[np.floating],
    q: NDArray[np.floating],
    p_total: float,
    q_total: float,
    p_likely: NDArray[np.intp] | None = None,
    q_likely: NDArray[np.intp] | None = None,
) -> tuple[float, float, float]:
    """Returns the probabilities of `expected` from non-negative (vocabulary,) weights, their totals and, if known, their
    `likely_ids`.

    Likely tokens are sorted, or grouped if there are many (`in_groups`); the others, the rest, count as one or two groups. If
    most tokens are likely, or two groups represent the rest too coarsely, all tokens are grouped.
    """
    if p.size <= _SHORT:
        p, q = p.astype(np.float64) / p_total, q.astype(np.float64) / q_total
        return _probability((p * q).sum()), agreement((p, q)), _probability(np.minimum(p, q).sum())
    p_row, q_row = p.astype(np.float32, copy=False), np.multiply(q, np.float32(p_total / q_total), dtype=np.float32)
    both = np.minimum(p_row, q_row)  # both, p_row and q_row are multiplied by p's total
    rejection = _probability(both.sum() / p_total)
    p_likely = likely_ids(p, p_total) if p_likely is None else p_likely
    q_likely = likely_ids(q, q_total) if q_likely is None else q_likely
    if 4 * (p_likely.size + q_likely.size) <= p.size:
        likely = _in_either(p_likely, q_likely, p.size)
        p_known, q_known = p.take(likely), q.take(likely)
        known = p_known / np.float64(p_total), q_known / np.float64(q_total)
        rest, moved_rest, unknown = _rest(known, p_row, q_row, both, likely, p_total)
        match = _probability((known[0] * known[1]).sum())
        gathered, moved = (known, known) if likely.size <= _FEW else in_groups(p_known, q_known, p_total, q_total)
        whole = _joined(gathered, rest)
        apart = whole if moved is gathered and moved_rest is rest else _joined(moved, moved_rest)
        lower, upper = _between(whole, apart)
        if upper - lower + unknown <= EXPECTED_TOLERANCE:
            return match, upper, rejection
    match = _probability(_inner(p, q) / (p_total * q_total))
    lower, upper = _between(*in_groups(p, q, p_total, q_total))
    if upper - lower <= EXPECTED_TOLERANCE:
        return match, upper, rejection
    return match, agreement((p / np.float64(p_total), q / np.float64(q_total))), rejection


def _joined(first: Sides, second: Sides) -> Sides:
    return np.concatenate([first[0], second[0]]), np.concatenate([first[1], second[1]])


def _in_either(first: NDArray[np.intp], second: NDArray[np.intp], size: int) -> NDArray[np.intp]:
    """Returns the ids in either of two ascending lists, ascending; they are below `size`."""
    if first.size + second.size > size // 16:
        found = np.zeros(size, np.bool_)
        found[first] = found[second] = True
        return np.flatnonzero(found)
    both = np.concatenate([first, second])
    both.sort(kind="stable")  # merges sorted runs; numpy's own union hashes
    is_new = np.empty(both.size, np.bool_)
    is_new[:1] = True
    np.not_equal(both[1:], both[:-1], out=is_new[1:])
    return both[is_new]


def _between(gathered: Sides, moved: Sides) -> tuple[float, float]:
    """Returns lower and upper bound of `agreement`, from tokens that were grouped, and from groups moved out to their borders.

    `agreement` is sum_i q_i f(r_i) with f(r) = r / D(r), D(r) = sum_j max(p_j, r q_j). D is convex in every r_j, so gathering a
    group at its mean can only lower D, and moving its mass out to the two borders of the group (means kept) can only raise it. f
    is concave, because its slope P(r_j >= r) / D(r)^2 falls with r. So grouping can only raise the result, and moving out can
    only lower it.
    """
    upper = agreement(gathered)
    return (upper if moved is gathered else agreement(moved)), upper


def _rest(
    known: Sides,
    p_row: NDArray[np.float32],
    q_row: NDArray[np.float32],
    both: NDArray[np.float32],
    likely: NDArray[np.intp],
    total: float,
) -> tuple[Sides, Sides, float]:
    """Returns all tokens but the likely ones, grouped and moved out (`_between`), and an upper bound of the remaining excess.

    One group is enough if the rest has little mass. It raises the result by at most 2 min(P, Q), where P and Q are the masses of
    the rest. Proof: In a likely token's 1 / D_i with D_i = sum_j max(p_j / p_i, q_j / q_i), the rest contributes at least max(P /
    p_i, Q / q_i) and at most the sum of both. So the term changes by a share of at most min(P, Q), and the terms have a sum of at
    most 1. The rest itself adds at most min(P, Q). Otherwise the rest is two groups, with r = p / q above and below 1.

    Args:
        known: probabilities of the likely tokens.
        p_row, q_row, both: (vocabulary,) p, q and their minimum for all tokens, times `total`.
    """
    p_rest, q_rest = (max(0.0, 1.0 - float(side.sum())) for side in known)
    if 4 * min(p_rest, q_rest) <= EXPECTED_TOLERANCE:
        one = np.array([p_rest]), np.array([q_rest])
        return one, one, 2 * min(p_rest, q_rest)
    where_p = np.multiply(q_row, p_row > q_row)  # q where p is larger, else 0
    where_p[likely] = both[likely] = 0
    first = float(where_p.sum()) / total
    second = max(0.0, float(both.sum()) / total - first)
    p_over, q_under = max(p_rest - second, first), max(q_rest - first, second)
    gathered = np.array([p_over, second]), np.array([first, q_under])
    moved = np.array([first, p_over - first, second, 0.0]), np.array([first, 0.0, second, q_under - second])
    return gathered, moved, 0.0


def checked_rows(p: ArrayLike, q: ArrayLike) -> tuple[NDArray[np.floating], NDArray[np.floating], float, float]:
    """Returns both rows as floating-point arrays, and their totals. Raises ValueError as in `match_probability`."""
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


def agreement(tokens: Sides) -> float:
    """Returns the sum of 1 / (P(r >= r_i) / p_i + Q(r < r_i) / q_i) over tokens with both probabilities, with r = p / q.

    The other tokens only compete: those without q have an infinite r, those without p a zero one. Tokens with the same r may be
    sorted in any order, and together count as much as one token with their total masses.
    """
    p, q = tokens
    p_alone = q_alone = 0.0
    both = (p > 0) & (q > 0)
    if not both.all():
        p_alone, q_alone = p[~both].sum(), q[~both].sum()
        p, q = p[both], q[both]
    with np.errstate(over="ignore"):
        order = (p / q).argsort()
        p, q = p.take(order), q.take(order)
        below = q.cumsum() - q + q_alone
        at_least = p_alone + p[::-1].cumsum()[::-1]
        return _probability((p * q / (at_least * q + below * p)).sum())


def in_groups(p: NDArray[np.floating], q: NDArray[np.floating], p_total: float, q_total: float) -> tuple[Sides, Sides]:
    """Groups tokens of (tokens,) weights by r = p / q, and moves the groups out (`_between`). Tokens above `_ALONE` on a side are
    not grouped. Of tokens with no mass on one side, only the sums matter."""
    p_row, q_row = (np.multiply(side, np.float32(1 / total), dtype=np.float32) for side, total in ((p, p_total), (q, q_total)))
    alone = np.flatnonzero(np.maximum(p_row, q_row) > _ALONE)
    single = p.take(alone) / np.float64(p_total), q.take(alone) / np.float64(q_total)
    p_row[alone] = q_row[alone] = 0
    has_both = np.minimum(p_row, q_row) >= np.finfo(np.float32).tiny
    if not has_both.all():
        p_only, q_only = (row[~has_both].sum(dtype=np.float64) for row in (p_row, q_row))
        single = _joined(single, (np.array([p_only, 0.0]), np.array([0.0, q_only])))
        p_row, q_row = p_row[has_both], q_row[has_both]
    if not p_row.size:
        return single, single
    gathered, moved = _gathered(p_row, q_row)
    return _joined(single, gathered), _joined(single, moved)


def _gathered(p: NDArray[np.float32], q: NDArray[np.float32]) -> tuple[Sides, Sides]:
    """Returns the masses of the groups, and the masses at their borders after moving out. No probability is 0."""
    # The leading bits of a positive float32, as an integer, number its octave and the part of the octave.
    numbers = (p / q).view(np.int32)
    first = int(numbers.min())
    dropped_bits = max(0, (int(numbers.max()) - first).bit_length() - _GROUP_BITS)
    first >>= dropped_bits
    numbers >>= dropped_bits
    index = np.subtract(numbers, first, dtype=np.intp)
    p_groups, q_groups = (np.bincount(index, weights).astype(np.float64) for weights in (p, q))
    used = np.flatnonzero(p_groups)
    groups = p_groups[used], q_groups[used]
    return groups, _moved_out(groups, *_borders(used + first, dropped_bits))


def _borders(numbers: NDArray[np.intp], dropped_bits: int) -> tuple[Floats, Floats]:
    """Returns the smallest ratio of each group, and the smallest one above it."""
    lower, upper = (((numbers + step).astype(np.int32) << dropped_bits).view(np.float32).astype(np.float64) for step in (0, 1))
    return lower, upper


def _moved_out(groups: Sides, lower_border: Floats, upper_border: Floats) -> Sides:
    """Returns the masses of groups, each divided between both borders of its ratio so that its mean is kept; the upper border may
    be infinite."""
    p, q = groups
    is_open, is_wide = np.isinf(upper_border), upper_border > lower_border
    width = np.where(is_open | ~is_wide, 1.0, upper_border - lower_border)
    above = p - lower_border * q
    q_upper = np.where(is_open | ~is_wide, 0.0, np.clip(above / width, 0.0, q))
    p_upper = np.where(is_open, np.clip(above, 0.0, p), np.minimum(np.where(is_open, 0.0, upper_border) * q_upper, p))
    return np.concatenate([p - p_upper, p_upper]), np.concatenate([q - q_upper, q_upper])


def _inner(p: NDArray[np.floating], q: NDArray[np.floating]) -> float:
    """Returns sum_i p_i q_i. Not `np.dot`: OpenBLAS wakes its threads for long rows, which takes 10 ms if MLX keeps the cores
    busy."""
    return float(np.multiply(p, q, dtype=np.float64).sum())


def _probability(value: float) -> float:
    """Clamps rounding errors to the interval from 0 to 1."""
    return float(min(max(value, 0.0), 1.0))
