"""Block verification (Sun et al., ICLR 2025) in closed form, as a reference: enumerated completely, it leaves the law of the text
alone."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from engine.rounds import theory

Rows = Callable[[tuple[int, ...]], np.ndarray]


def block_thresholds(p: np.ndarray, q: np.ndarray, block: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
    """Returns the weights P_0 .. P_gamma, with P_i = min(1, P_(i-1) p(X_i) / q(X_i)), and the thresholds h_1 .. h_gamma for one
    drafted block X_1 .. X_gamma. With independent coins u_i in [0, 1) the accepted count is the largest i with u_i < h_i, or 0.

    Args:
        p: (gamma, vocab) or, with the bonus row, (gamma + 1, vocab): row i is the target's distribution after X_1 .. X_i.
        q: (gamma, vocab): row i is the distribution that X_(i+1) was drawn from.
    """
    weights = [1.0]
    for index, token in enumerate(block):
        weights.append(min(1.0, weights[-1] * p[index][token] / q[index][token]))
    thresholds = []
    for index in range(1, len(block)):
        mass = np.maximum(weights[index] * p[index] - q[index], 0.0).sum()
        whole = mass + 1.0 - weights[index]
        thresholds.append(mass / whole if whole > 0 else 1.0)
    return np.array(weights), np.array([*thresholds, weights[-1]])


def block_acceptance(p: np.ndarray, q: np.ndarray, block: Sequence[int]) -> np.ndarray:
    """Returns the probability, given the drafted block, that each of its tokens is accepted: that the coin of any position from
    it on succeeds."""
    _, thresholds = block_thresholds(p, q, block)
    return 1.0 - np.cumprod(1.0 - thresholds[::-1])[::-1]


def autoregressive(generator: np.random.Generator, size: int, depth: int, zeros: float = 0.0) -> Rows:
    """Returns conditional distributions that depend on the whole prefix."""
    rows = {}
    for length in range(depth):
        for prefix in itertools.product(range(size), repeat=length):
            row = generator.dirichlet(np.full(size, 0.5))
            row[1:][generator.random(size - 1) < zeros] = 0.0
            rows[prefix] = row / row.sum()
    return rows.__getitem__


def stacked(rows: Rows, block: tuple[int, ...], count: int) -> np.ndarray:
    return np.stack([rows(block[:index]) for index in range(count)])


def largest_success(thresholds: np.ndarray) -> np.ndarray:
    """Returns the probability of each accepted count 0 .. gamma: the count is the largest position whose coin succeeds."""
    none_after = np.append(np.cumprod((1 - thresholds)[::-1])[::-1], 1.0)
    return np.append(1.0, thresholds) * none_after


def first_failure(thresholds: np.ndarray) -> np.ndarray:
    """Broken twin of the rule: the count ends at the first coin that fails."""
    return np.append(1.0, np.cumprod(thresholds)) * np.append(1 - thresholds, 1.0)


def law_of_text(
    target: Rows, draft: Rows, size: int, gamma: int, count_law: Callable[[np.ndarray], np.ndarray] = largest_success
) -> tuple[dict[tuple[int, ...], float], float]:
    """Returns the distribution of the first gamma + 1 tokens under block verification, by enumeration, and the mean accepted
    count.

    Tokens after the round's own are drawn from the target.
    """
    texts: dict[tuple[int, ...], float] = dict.fromkeys(itertools.product(range(size), repeat=gamma + 1), 0.0)
    mean = 0.0
    for block in itertools.product(range(size), repeat=gamma):
        q = stacked(draft, block, gamma)
        drafted = np.prod([q[index, token] for index, token in enumerate(block)])
        if drafted == 0:
            continue
        p = stacked(target, block, gamma + 1)
        weights, thresholds = block_thresholds(p, q, block)
        for accepted, probability in enumerate(drafted * count_law(thresholds)):
            mean += probability * accepted
            following = p[accepted] if accepted == gamma else np.maximum(weights[accepted] * p[accepted] - q[accepted], 0.0)
            if probability == 0:
                continue
            following = following / following.sum()
            for ending in itertools.product(range(size), repeat=gamma + 1 - accepted):
                text = block[:accepted] + ending
                rest = np.prod([target(text[:index])[text[index]] for index in range(accepted + 1, gamma + 1)])
                texts[text] += probability * following[ending[0]] * rest
    return texts, mean


def law_of_target(target: Rows, size: int, length: int) -> dict[tuple[int, ...], float]:
    return {
        text: float(np.prod([target(text[:index])[text[index]] for index in range(length)]))
        for text in itertools.product(range(size), repeat=length)
    }


def rejection_mean(target: Rows, draft: Rows, size: int, gamma: int) -> float:
    """Returns the mean accepted count of the ratio test at each position."""
    mean = 0.0
    for length in range(1, gamma + 1):
        for block in itertools.product(range(size), repeat=length):
            mean += np.prod(
                [min(target(block[:index])[block[index]], draft(block[:index])[block[index]]) for index in range(length)]
            )
    return mean


@pytest.mark.parametrize("zeros", [0.0, 0.4])
@pytest.mark.parametrize("gamma", [1, 2, 3])
def test_block_verification_leaves_the_law_of_the_text_alone(gamma: int, zeros: float) -> None:
    generator = np.random.default_rng(gamma)
    for _ in range(3):
        target, draft = autoregressive(generator, 3, gamma + 1, zeros), autoregressive(generator, 3, gamma, zeros)
        texts, mean = law_of_text(target, draft, 3, gamma)
        wanted = law_of_target(target, 3, gamma + 1)
        assert max(abs(texts[text] - wanted[text]) for text in wanted) < 1e-14
        assert mean >= rejection_mean(target, draft, 3, gamma) - 1e-14


def test_stopping_a_block_at_the_first_failed_coin_is_found_out() -> None:
    generator = np.random.default_rng(4)
    target, draft = autoregressive(generator, 3, 4), autoregressive(generator, 3, 3)
    texts, _ = law_of_text(target, draft, 3, 3, first_failure)
    wanted = law_of_target(target, 3, 4)
    assert max(abs(texts[text] - wanted[text]) for text in wanted) > 1e-3


def test_acceptance_sums_to_the_expected_count_of_the_block() -> None:
    generator = np.random.default_rng(5)
    target, draft = autoregressive(generator, 3, 4), autoregressive(generator, 3, 3)
    for block in itertools.product(range(3), repeat=3):
        p, q = stacked(target, block, 4), stacked(draft, block, 3)
        acceptance = block_acceptance(p, q, block)
        _, thresholds = block_thresholds(p, q, block)
        assert acceptance.sum() == pytest.approx(largest_success(thresholds) @ np.arange(4))
        assert (np.diff(acceptance) <= 0).all()
        assert block_acceptance(p[:3], q, block) == pytest.approx(acceptance)


def test_a_block_of_one_is_the_ratio_test() -> None:
    p, q = np.array([[0.5, 0.3, 0.2]]), np.array([[0.1, 0.6, 0.3]])
    accepted = [block_acceptance(p, q, [token])[0] for token in range(3)]
    assert accepted == pytest.approx([1.0, 0.5, 2 / 3])
    assert np.dot(accepted, q[0]) == pytest.approx(theory.rejection_probability(p[0], q[0]))
