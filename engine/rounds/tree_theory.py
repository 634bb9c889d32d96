"""Probabilities of draft trees in closed form: is the target's token among the first children, and how many tokens follow.

p is the target's distribution at a node and q the drafter's, as in `engine.rounds.theory`. The children are the `width` tokens
with the largest log q + noise. The noise is the target's own (`gumbel_coverage`) or independent of it (`match_coverage`). Both
are integrals over an exponential race (DESIGN section 3 has the proof). `expected_tokens`, `optimal_tree` and `tree_bound` turn
the probabilities of the children into tokens per round.

Sources: the race is Gumbel's argmax in other words (Maddison, Tarlow and Minka 2014), the children are a sample without
replacement (Kool, van Hoof and Welling 2019).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from engine.rounds.theory import checked_rows
from engine.values.tree_shape import likeliest_tree

Floats = NDArray[np.float64]

_SMALLEST = 1e-70
"""Drafter probabilities below this count as 0, so that fourth powers of ratios stay finite."""
_FEW = 256
"""Up to this many tokens are integrated one by one."""
_CELLS_PER_OCTAVE = 8
"""Cells of similar tokens have at most this width, as a ratio."""
_CELLS_BY_MASS = 128
"""No cell of several tokens has more than this part of the total mass of p and q."""
_NEGLIGIBLE = 1e-9
"""Total target probability of the cells that are left out."""
_TOGETHER = 0.04
"""Tokens with less than this share of the remaining drafter probability, divided by the width, are counted together."""
_ALONE = 12
"""At most this many tokens for each child are counted alone. If any other token is likely to be among the first children of a
place, so are too many of these."""
_ORDER = 4
"""Power sums that represent the tokens that are counted together."""
_FIRST_TIME, _LAST_TIME = 1e-8, 25.0
"""The integral is cut to these times, which leaves out e^-25 and 1e-8."""
_BLOCK = 32
"""Places integrated at once; their arrays then fit into the processor's second-level cache."""


def gumbel_coverage(p: ArrayLike, q: ArrayLike, width: int) -> Floats:
    """Returns the probabilities C_1 .. C_width that argmax(log p + G) is among the k largest of log q + G, the same noise G.

    P_k = sum_i p_i integral_0^inf e^-s Pr(N_i(s) < k) ds. N_i(s) counts the tokens j that precede token i as children, each
    independently with probability 1 - exp(-s max(0, q_j p_i / q_i - p_j)). C_1 is `theory.gumbel_probability`. The error is at
    most 1e-6 for widths up to 8.

    p, q: (vocabulary,) probabilities; totals and errors as in `theory.match_probability`. Tokens without q are never children.
    width: 1 or more; also raises ValueError if it is smaller.
    """
    p_row, q_row = _drawable(p, q, width)
    ratios = p_row / q_row
    order = ratios.argsort()
    p_row, q_row, ratios = p_row[order], q_row[order], ratios[order]
    alone = _alone(q_row, width)
    places, masses = _gathered(ratios, p_row, q_row, alone)
    rates = np.maximum(0.0, places[:, None] * q_row[alone] - p_row[alone])
    powers = _power_sums(p_row[~alone], q_row[~alone], ratios[~alone], places)
    return _clipped(masses @ _integrals(rates, powers, width))


def match_coverage(p: ArrayLike, q: ArrayLike, width: int) -> Floats:
    """Returns the probabilities C_1 .. C_width that a draw from p is among the first k of a sample from q without replacement.

    P_k = sum_i p_i integral_0^inf e^-s Pr(N_i(s) < k) ds. N_i(s) counts the tokens j that are drawn before token i, each
    independently with probability 1 - exp(-s q_j / q_i). C_1 is `theory.match_probability`. Arguments, errors and exactness as
    in `gumbel_coverage`.
    """
    p_row, q_row = _drawable(p, q, width)
    order = q_row.argsort()[::-1]
    p_row, q_row = p_row[order], q_row[order]
    alone = _alone(q_row, width)
    rest = ~alone
    places, masses = _gathered(1.0 / q_row[rest], p_row[rest], q_row[rest])
    rates = np.concatenate([q_row[alone] / q_row[alone, None], q_row[alone] * places[:, None]])
    np.fill_diagonal(rates, 0.0)  # a token does not precede itself
    powers = np.empty((len(rates), _ORDER))
    for power in range(1, _ORDER + 1):
        total = (q_row[rest] ** power).sum()
        powers[:, power - 1] = np.concatenate([total / q_row[alone] ** power, total * places**power - 1.0])
    return _clipped(np.concatenate([p_row[alone], masses]) @ _integrals(rates, powers, width))


def expected_tokens(parents: Sequence[int], chances: Sequence[float]) -> float:
    """Returns the expected number of tokens of a round: 1 plus the sum over all nodes of the probability that it is accepted.

    A node is accepted if it is the target's token and its parent is accepted. The text before the tree is always accepted, and
    the target adds one token after the last accepted node.

    Example: `expected_tokens([-1, -1, 0], [0.6, 0.2, 0.5])` is a root's two children and one grandchild, 1 + 0.6 + 0.2 + 0.3.

    Args:
        parents: index of each node's parent, which precedes the node; -1 for the children of the root.
        chances: probability that the node is the target's token, given that its parent is accepted.

    Raises:
        ValueError: the lengths differ, a parent does not precede its node, a chance is no probability, or the chances of
            siblings add up to more than 1.
    """
    if len(parents) != len(chances):
        raise ValueError(f"{len(parents)} nodes need as many chances, not {len(chances)}")
    accepted: list[float] = []
    siblings: dict[int, float] = {}
    for node, (parent, chance) in enumerate(zip(parents, chances, strict=True)):
        if not -1 <= parent < node:
            raise ValueError(f"the parent of node {node} must precede it, not be {parent}")
        siblings[parent] = siblings.get(parent, 0.0) + chance
        if not (0.0 <= chance <= 1.0 and siblings[parent] <= 1.0 + 1e-9):
            raise ValueError(f"the chance of node {node} and of its siblings must be probabilities of different tokens")
        accepted.append(chance * (accepted[parent] if parent >= 0 else 1.0))
    return 1.0 + math.fsum(accepted)


class RankedTree(NamedTuple):
    """The arguments of `expected_tokens`: `expected_tokens(*shape)` is the expected number of tokens."""

    parents: list[int]
    chances: list[float]


def optimal_tree(rank_chances: Sequence[float], budget: int, depth: int) -> RankedTree:
    """Returns a tree with the largest expected number of tokens among all trees of at most `budget` nodes and `depth` levels.

    The child of rank r is right with probability rank_chances[r], whatever its ancestors are. So a node's probability is the
    product over the ranks on its path, and the expected tokens are 1 plus the sum over the nodes. No `budget` paths have a
    larger sum than the `budget` most probable ones, and these form a tree, because no path is more probable than its parent. The
    nodes are in descending order of probability, so the first n of them are optimal for a budget of n.

    Args:
        rank_chances: in any order; a tree may leave out a rank. Ranks without a chance are left out.

    Raises:
        ValueError: budget or depth is negative, or the chances are not probabilities with a sum of at most 1.
    """
    if budget < 0 or depth < 0:
        raise ValueError("budget and depth must not be negative")
    if any(not chance >= 0.0 for chance in rank_chances) or sum(rank_chances) > 1.0 + 1e-9:
        raise ValueError("the chances of the ranks must be probabilities with a sum of at most 1")
    ranks = sorted((chance for chance in rank_chances if chance > 0.0), reverse=True)
    shape, _ = likeliest_tree(budget, depth, len(ranks), rank_chances=ranks)
    return RankedTree([parent - 1 for parent in shape.parents], [ranks[rank] for rank in shape.ranks[1:]])


class TreeBound(NamedTuple):
    """The fastest tree: expected tokens per time of a plain round, and the nodes and levels of the tree."""

    speed: float
    nodes: int
    levels: int


def tree_bound(rank_chances: Sequence[float], row_costs: Sequence[float], draft_costs: Sequence[float], depth: int) -> TreeBound:
    """Returns the largest expected tokens per time of a plain round over all trees that `row_costs` and `depth` allow.

    The bound holds for trees whose shape is fixed before the round, under the assumption of `optimal_tree`. A tree that follows
    the drafter's probabilities of this round may exceed it. No tree at all counts too, so the speed is at least 1 / row_costs[0].

    Args:
        row_costs: row_costs[n] is the time of a target pass over n + 1 rows, the root's and one for each of n nodes, in plain
            passes.
        draft_costs: draft_costs[l] is the time of drafting level l + 1 of the tree, in plain passes.

    Raises:
        ValueError: as in `optimal_tree`, or there is no row cost, a cost is not finite, a pass takes no time, or there are fewer
            draft costs than levels.
    """
    if not len(row_costs) or not all(0.0 < cost < math.inf for cost in row_costs):
        raise ValueError("row_costs must hold at least one time, and all must be positive")
    if len(draft_costs) < depth or not all(0.0 <= cost < math.inf for cost in draft_costs):
        raise ValueError(f"{depth} levels need as many draft costs, none negative")
    best = TreeBound(1.0 / row_costs[0], 0, 0)
    for levels in range(1, depth + 1):
        drafting = sum(draft_costs[:levels])
        expected, accepted = 1.0, list[float]()
        for node, (parent, chance) in enumerate(zip(*optimal_tree(rank_chances, len(row_costs) - 1, levels), strict=True)):
            accepted.append(chance * (accepted[parent] if parent >= 0 else 1.0))
            expected += accepted[node]
            speed = expected / (row_costs[node + 1] + drafting)
            if speed > best.speed:
                best = TreeBound(speed, node + 1, levels)
    return best


def _drawable(p: ArrayLike, q: ArrayLike, width: int) -> tuple[Floats, Floats]:
    """Returns both rows of the tokens that can be children, divided by their totals. Raises ValueError as in
    `gumbel_coverage`."""
    if width < 1:
        raise ValueError(f"width must be 1 or more, not {width!r}")
    p_row, q_row, p_total, q_total = checked_rows(p, q)
    p_row, q_row = p_row.astype(np.float64) / p_total, q_row.astype(np.float64) / q_total
    can_be_drawn = q_row >= _SMALLEST
    return p_row[can_be_drawn], q_row[can_be_drawn]


def _alone(q: Floats, width: int) -> NDArray[np.bool_]:
    """Returns which of (tokens,) are counted one by one: in descending order, until a token has a small share of those from it
    on."""
    order = q.argsort()[::-1]
    ordered = q[order]
    remaining = ordered[::-1].cumsum()[::-1]
    is_large = ordered * width > _TOGETHER * remaining
    alone = np.zeros(q.size, np.bool_)
    alone[order[: min(_ALONE * width, int(np.append(is_large, False).argmin()))]] = True
    return alone


def _gathered(places: Floats, p: Floats, q: Floats, alone: NDArray[np.bool_] | None = None) -> tuple[Floats, Floats]:
    """Returns places and masses that stand for the (tokens,) ascending places with the masses p.

    The integrals are smooth functions of the place, except at those of tokens that are counted alone, where a cell begins. Each
    cell becomes the two places that keep its mass and first three moments (two-point Gauss quadrature).
    """
    if places.size <= _FEW:
        wanted = p > 0
        return places[wanted], p[wanted]
    octaves = np.floor(_CELLS_PER_OCTAVE * np.log2(places))
    parts = np.floor(_CELLS_BY_MASS * (p + q).cumsum() / (p + q).sum())
    begins = (np.diff(octaves, prepend=np.nan) != 0) | (np.diff(parts, prepend=np.nan) != 0)
    if alone is not None:
        begins |= alone
    wanted = p > 0
    cells, places, p = begins.cumsum()[wanted], places[wanted], p[wanted]
    starts = np.flatnonzero(np.diff(cells, prepend=-1))
    sizes = np.diff(starts, append=places.size)
    first, masses = places[starts], np.add.reduceat(p, starts)
    offsets = places / first.repeat(sizes) - 1.0  # so that powers stay finite
    means = np.add.reduceat(p * offsets, starts) / masses
    offsets -= means.repeat(sizes)
    variances, thirds = (np.add.reduceat(p * offsets**power, starts) / masses for power in (2, 3))
    is_wide = variances > 1e-24
    skews = np.where(is_wide, thirds / np.where(is_wide, variances, 1.0), 0.0)
    above = np.where(is_wide, (skews + np.sqrt(skews**2 + 4.0 * variances)) / 2.0, 0.0)
    below = np.where(is_wide, variances / np.where(is_wide, above, 1.0), 0.0)
    share = np.where(is_wide, above / np.where(is_wide, above + below, 1.0), 1.0)
    points = np.concatenate([first * (1.0 + means - below), first * (1.0 + means + above)])
    weights = np.concatenate([masses * share, masses * (1.0 - share)])
    ascending = weights.argsort()
    kept = ascending[weights[ascending].cumsum() > _NEGLIGIBLE]
    kept = kept[points[kept].argsort()]
    return points[kept], weights[kept]


def _power_sums(p: Floats, q: Floats, ratios: Floats, places: Floats) -> Floats:
    """Returns sum_j max(0, place q_j - p_j)^m for each place and m = 1 .. 4: (places, 4). The ratios ascend."""
    below = ratios.searchsorted(places)
    sums = np.zeros((places.size, _ORDER))
    powers_of_p, powers_of_q = ([np.ones_like(row), row, row * row, row**2 * row, (row**2) ** 2] for row in (p, q))
    for order in range(1, _ORDER + 1):
        for of_q in range(order + 1):
            of_p = order - of_q
            total = np.concatenate([[0.0], (powers_of_q[of_q] * powers_of_p[of_p]).cumsum()])
            sums[:, order - 1] += math.comb(order, of_q) * (-1.0) ** of_p * places**of_q * total[below]
    return sums


def _integrals(rates: Floats, powers: Floats, width: int) -> Floats:
    """Returns the integrals of e^-s Pr(N(s) < k) over s for k = 1 .. width: (places, width).

    N(s) counts independent events with probabilities 1 - exp(-s rate), those of a place in (places, alone) `rates` and those
    with the (places, 4) sums of rate^m in `powers`.
    """
    times, weights = _quadrature(width)
    result = np.empty((len(rates), width))
    for start in range(0, len(rates), _BLOCK):
        block = slice(start, start + _BLOCK)
        # While s is small enough, the probabilities are 1.
        mean = float((rates[block].sum(axis=1) + powers[block, 0]).max())
        begin = int(times.searchsorted(math.sqrt(_NEGLIGIBLE / mean))) if mean > 0 else times.size
        later = times[begin:]
        counts = _small_counts(powers[block], later, width)
        largest = rates[block].max(axis=0)
        for number, event in enumerate(largest.argsort()[::-1]):
            if number % _BLOCK == 0:  # where more than `width` events are certain, no probability is left
                end = int(np.count_nonzero(counts.sum(axis=0).max(axis=0) > _NEGLIGIBLE / 1000))
                counts, later = np.ascontiguousarray(counts[..., :end]), later[:end]
            if not later.size or largest[event] * later[-1] < _NEGLIGIBLE / 1000:
                break
            moved = counts * -np.expm1(-rates[block, event, None] * later)
            counts -= moved
            counts[1:] += moved[:-1]
        result[block] = weights[:begin].sum() + (counts.cumsum(axis=0) @ weights[begin : begin + later.size]).T
    return result


def _small_counts(powers: Floats, times: Floats, width: int) -> Floats:
    """Returns the probabilities of 0 .. width - 1 events among those with the (places, 4) power sums: (width, places, times).

    With x = s rate, log(e^-x + (1 - e^-x) z) is expanded in x to the fourth power; its exponential is a series in z. The first
    neglected term is x^5.
    """
    first, second, third, fourth = (powers[:, order, None] * times ** (order + 1) for order in range(_ORDER))
    exponent = (
        first + second / 2 + third / 6 + fourth / 24,
        -second / 2 - third / 2 - fourth * 7 / 24,
        third / 3 + fourth / 2,
        -fourth / 4,
    )
    counts = np.empty((width, *first.shape))
    counts[0] = np.exp(-first)
    for count in range(1, width):
        terms = (power * exponent[power - 1] * counts[count - power] for power in range(1, min(count, _ORDER) + 1))
        counts[count] = sum(terms) / count
    return counts


@cache
def _quadrature(width: int) -> tuple[Floats, Floats]:
    """Returns times and weights for integrals over e^-s ds: the trapezoidal rule in log s. Its error falls exponentially with the
    step, and the integrands with `width` events need a step of about 1 / sqrt(width)."""
    step = min(0.35, 0.8 / math.sqrt(width))
    times = np.exp(np.arange(math.log(_FIRST_TIME), math.log(_LAST_TIME), step))
    weights = times * np.exp(-times)
    return times, weights / weights.sum()


def _clipped(probabilities: Floats) -> Floats:
    """Clamps rounding errors, so that the probabilities ascend within the interval from 0 to 1."""
    return np.maximum.accumulate(np.clip(probabilities, 0.0, 1.0))
