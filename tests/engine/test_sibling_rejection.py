"""Recursive rejection of siblings: the token that comes out follows p, exactly and in draws; three faulty variants do not.

With 20,000 draws, a token of probability 0.25 that is off by 0.015 comes out below CERTAIN.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import mlx.core as mx
import numpy as np
import pytest

from engine.acceptance import reject_siblings
from engine.noise.source import NoiseSource, coin
from tests.engine.statistics import CERTAIN, FALSE_ALARM, chi_square

DRAWS = 20_000
P, Q = np.array([0.5, 0.25, 0.25]), np.array([0.75, 0.15, 0.1])
"""A pair for which a coin that siblings share shifts a tenth of the probability from one token to another."""


def rows(*values: np.ndarray) -> list[mx.array]:
    return [mx.array(np.asarray(value, np.float32)) for value in values]


def orders(q: np.ndarray, width: int) -> Iterator[tuple[list[int], float]]:
    """The children that can be drawn from q without replacement, with the probability of each order."""
    if not width or q.sum() <= 0:
        yield [], 1.0
        return
    for token in np.flatnonzero(q):
        left = q.copy()
        left[token] = 0
        for following, chance in orders(left, width - 1):
            yield [int(token), *following], chance * q[token] / q.sum()


def everything(drawn: list[int]) -> int:
    """The number of drawn children that are judged: all."""
    return len(drawn)


def law(
    p: np.ndarray, q: np.ndarray, width: int, copied: int | None = None, judged: Callable[[list[int]], int] = everything
) -> np.ndarray:
    """The probability of each token to come out, summed over all orders of children. `copied`: a first child without a draw;
    `judged`: returns how many of the drawn children are."""
    law = np.zeros(len(p))
    left = q.copy()
    if copied is not None:
        left[copied] = 0
    for drawn, probability in orders(left, width - (copied is not None)):
        children = [*([] if copied is None else [copied]), *drawn[: judged(drawn)]]
        placed = np.array([[copied is not None and not rank for rank in range(len(children))]])
        verdicts = reject_siblings(
            *rows(p[None], q[None]),
            mx.array([children]),
            mx.array([len(children)]),
            mx.array(placed),
            mx.zeros((1, len(children))),
        )
        reached = probability
        for child, chance in zip(children, np.array(verdicts.chances)[0], strict=True):
            law[child] += reached * chance
            reached *= 1 - chance
        law += reached * np.array(verdicts.residual)[0]
    return law


@pytest.mark.parametrize("width", [1, 2, 3, 4])
@pytest.mark.parametrize("seed", range(3))
def test_the_law_is_exactly_p(width: int, seed: int) -> None:
    generator = np.random.default_rng((width, seed))
    p, q = (generator.dirichlet(np.full(4, concentration)) for concentration in (1.0, 0.7))
    np.testing.assert_allclose(law(p, q, width), p, atol=2e-6)


@pytest.mark.parametrize(
    ("p", "q"),
    [
        ([0.5, 0.5, 0.0], [0.0, 0.0, 1.0]),  # nothing in common
        ([0.2, 0.3, 0.5], [0.2, 0.3, 0.5]),  # equal: the first child is always accepted
        ([0.0, 0.0, 1.0], [0.4, 0.3, 0.3]),
        ([0.4, 0.3, 0.3], [1.0, 0.0, 0.0]),  # no second child can be drawn
    ],
)
def test_the_law_is_p_at_the_borders(p: list[float], q: list[float]) -> None:
    np.testing.assert_allclose(law(np.array(p), np.array(q), 2), p, atol=2e-6)


@pytest.mark.parametrize("copied", [0, 1, 2])
def test_a_copy_before_drawn_children_leaves_the_law(copied: int) -> None:
    np.testing.assert_allclose(law(P, Q, 3, copied), P, atol=2e-6)


def test_a_second_child_that_is_left_out_for_what_it_is_would_change_the_law() -> None:
    """So a tree's shape may not depend on its tokens under rejection."""
    found = law(P, Q, 2, judged=lambda drawn: 1 if drawn[1] == 2 else 2)
    assert np.abs(found - P).max() > 0.01


# Draws


def first_children(generator: np.random.Generator, width: int) -> np.ndarray:
    """(DRAWS, width) children: the largest of log q + Gumbel noise."""
    return np.argsort(-(np.log(Q) + generator.gumbel(size=(DRAWS, 3))), axis=1)[:, :width]


def p_value(children: np.ndarray, coins: np.ndarray, generator: np.random.Generator) -> float:
    """Of the tokens that come out."""
    shape = np.broadcast_to(P, (DRAWS, 3)), np.broadcast_to(Q, (DRAWS, 3))
    counts = mx.array(np.full(DRAWS, children.shape[1]))
    verdicts = reject_siblings(*rows(*shape), mx.array(children), counts, mx.zeros(children.shape, mx.bool_), *rows(coins))
    accepted, residual = np.array(verdicts.accepted), np.array(verdicts.residual)
    with np.errstate(divide="ignore"):
        corrections = (np.log(residual) + generator.gumbel(size=residual.shape)).argmax(axis=1)
    inside = np.minimum(accepted, children.shape[1] - 1)
    tokens = np.where(accepted < children.shape[1], children[np.arange(DRAWS), inside], corrections)
    return chi_square(np.bincount(tokens, minlength=3), P)


@pytest.mark.parametrize("width", [1, 2, 3])
def test_drawn_children_with_a_coin_each_follow_p(width: int) -> None:
    generator = np.random.default_rng(width)
    assert p_value(first_children(generator, width), generator.random((DRAWS, width)), generator) > FALSE_ALARM


def test_one_coin_for_all_siblings_is_noticed() -> None:
    generator = np.random.default_rng(4)
    shared = np.repeat(generator.random((DRAWS, 1)), 2, axis=1)
    assert p_value(first_children(generator, 2), shared, generator) < CERTAIN


def test_the_ratio_test_on_a_deterministic_tree_is_noticed() -> None:
    generator = np.random.default_rng(5)
    likeliest = np.broadcast_to(np.argsort(-Q)[:2], (DRAWS, 2)).copy()
    assert p_value(likeliest, generator.random((DRAWS, 2)), generator) < CERTAIN


def test_a_child_that_is_dropped_for_its_value_is_noticed() -> None:
    generator = np.random.default_rng(6)
    children = first_children(generator, 2)
    children[Q[children] < 0.12] = -1
    assert p_value(children, generator.random((DRAWS, 2)), generator) < CERTAIN


def test_ranks_have_independent_coins_and_the_first_is_that_of_a_chain() -> None:
    positions = range(500)
    coins = np.array(NoiseSource(3, 5).rank_coins(positions, 0, 4))
    assert coins[:, 0].tolist() == np.array([coin(3, position, 0) for position in positions], np.float32).tolist()
    correlation = np.corrcoef(coins.T)[np.triu_indices(4, 1)]
    assert np.abs(correlation).max() < 5 / np.sqrt(len(positions))
