"""The closed forms of trees, compared with exact fractions, complete enumeration, plain sums over all tokens and simulation."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

from engine.rounds import theory, tree_theory

Floats = np.ndarray
Form = Callable[[Floats, Floats, int], Floats]
FORMS = (tree_theory.gumbel_coverage, tree_theory.match_coverage)
DRAWS = 200_000
TOLERANCE = 1e-6


def exact_gumbel(p: Floats, q: Floats, width: int, lead: Callable[[Fraction, Fraction], Fraction]) -> Floats:
    """Returns the formula in fractions. `lead(wanted, own)` is the rate at which a token precedes another one.

    Each probability is a sum of products over the sets of at most k - 1 tokens that precede, and each product is a sum of
    exponentials, whose integrals are reciprocals.
    """
    p_row, q_row = ([Fraction(value) / sum(map(Fraction, row)) for value in row] for row in (p, q))
    covered = [Fraction(0)] * width
    for own_p, own_q in zip(p_row, q_row, strict=True):
        if not own_p or not own_q:
            continue
        rates = [lead(own_p * other_q / own_q, other_p) for other_p, other_q in zip(p_row, q_row, strict=True)]
        rates = [rate for rate in rates if rate]
        for count in range(min(width, len(rates) + 1)):
            chance = Fraction(0)
            for preceding in itertools.combinations(range(len(rates)), count):
                slowest = 1 + sum(rates) - sum(rates[index] for index in preceding)
                for size in range(count + 1):
                    for absent in itertools.combinations(preceding, size):
                        chance += (-1) ** size / (slowest + sum(rates[index] for index in absent))
            for rank in range(count, width):
                covered[rank] += own_p * chance
    return np.array(covered, dtype=float)


def over_zero(wanted: Fraction, own: Fraction) -> Fraction:
    return max(Fraction(0), wanted - own)


def without_zero(wanted: Fraction, own: Fraction) -> Fraction:
    """The rate without max(0, ...): a faulty variant."""
    return wanted - own


def without_own(wanted: Fraction, own: Fraction) -> Fraction:
    """The rate without the token's own probability: a faulty variant, as if the noise were not shared."""
    return wanted


def enumerated_match(p: Floats, q: Floats, width: int) -> Floats:
    """Returns the sum over all ordered samples without replacement."""
    covered = np.zeros(width)
    for sample in itertools.permutations(np.flatnonzero(q), min(width, int(np.count_nonzero(q)))):
        chance, remaining = 1.0, q.copy()
        for token in sample:
            chance *= q[token] / remaining.sum()
            remaining[token] = 0.0
        covered[: len(sample)] += chance * np.cumsum(p[list(sample)])
        covered[len(sample) :] += chance * p[list(sample)].sum()
    return covered


def token_by_token(p: Floats, q: Floats, width: int, shared: bool) -> Floats:
    """Returns the integral with every token counted alone, at other times."""
    p, q = p[q > 0] / p.sum(), q[q > 0] / q.sum()
    times = np.exp(np.arange(np.log(1e-9), np.log(40.0), 0.3))
    weights = times * np.exp(-times)
    rates = np.maximum(0.0, p[:, None] / q[:, None] * q - p) if shared else q / q[:, None]
    np.fill_diagonal(rates, 0.0)
    counts = np.zeros((width, p.size, times.size))
    counts[0] = 1.0
    for rate in rates.T:
        moved = counts * -np.expm1(-rate[:, None] * times)
        counts -= moved
        counts[1:] += moved[:-1]
    return p @ (counts.cumsum(axis=0) @ weights).T / weights.sum()


def simulated(p: Floats, q: Floats, width: int, shared: bool, generator: np.random.Generator) -> Floats:
    """Returns the share of draws in which the target's token is among the first children, by their number."""
    with np.errstate(divide="ignore"):
        log_p, log_q = np.log(p), np.log(q)
    found = np.zeros(width)
    for _ in range(10):
        noise = generator.gumbel(size=(DRAWS // 10, p.size))
        target = (log_p + noise).argmax(axis=1)
        scores = log_q + (noise if shared else generator.gumbel(size=noise.shape))
        own = np.take_along_axis(scores, target[:, None], axis=1)
        rank = np.where(np.isfinite(own[:, 0]), (scores > own).sum(axis=1), width)
        found += (rank[:, None] < np.arange(1, width + 1)).sum(axis=0)
    return found / DRAWS


def deviations(observed: Floats, expected: Floats) -> float:
    """Returns the largest difference in standard errors of DRAWS draws."""
    errors = np.sqrt(np.maximum(expected * (1 - expected), 1e-6) / DRAWS)
    return float((np.abs(observed - expected) / errors).max())


def random_pair(size: int, seed: int, concentration: float = 0.4, zeros: float = 0.0) -> tuple[Floats, Floats]:
    generator = np.random.default_rng(seed)
    rows = generator.dirichlet(np.full(size, concentration), 2)
    for row in rows:
        row[1:][generator.random(size - 1) < zeros] = 0.0
    p, q = rows / rows.sum(axis=1, keepdims=True)
    return p, q


def zipf_pair(size: int, exponent: float, noise: float, seed: int = 0) -> tuple[Floats, Floats]:
    """Returns a drafter's row with probabilities like rank^-exponent, and the target's: that with normal noise on the logits."""
    generator = np.random.default_rng(seed)
    q = np.arange(1, size + 1) ** -exponent
    p = q * np.exp(generator.normal(0.0, noise, size))
    return p / p.sum(), q / q.sum()


# Coverage


@pytest.mark.parametrize("zeros", [0.0, 0.3])
@pytest.mark.parametrize("concentration", [0.1, 0.4, 2.0])
def test_few_tokens_equal_exact_fractions_and_enumeration(concentration: float, zeros: float) -> None:
    for seed in range(3):
        p, q = random_pair(6, seed, concentration, zeros)
        assert tree_theory.gumbel_coverage(p, q, 7) == pytest.approx(exact_gumbel(p, q, 7, over_zero), abs=1e-7)
        assert tree_theory.match_coverage(p, q, 7) == pytest.approx(enumerated_match(p, q, 7), abs=1e-7)


CASES = [
    random_pair(8, 1),
    random_pair(8, 2, zeros=0.3),
    random_pair(12, 3, 1.0),
    zipf_pair(16, 1.2, 1.5),
    zipf_pair(20, 2.0, 3.0),
]


@pytest.mark.parametrize("case", range(len(CASES)))
def test_simulated_children_hold_the_target_as_often_as_predicted(case: int) -> None:
    """Limit: five standard errors of 200,000 draws, 80 comparisons in all. False alarm in one of 20,000 runs; an error of 0.008
    at a probability of 1/2, and of 0.004 at 0.95, would be detected in 98 of 100 runs."""
    p, q = CASES[case]
    generator = np.random.default_rng(case)
    for form, shared in zip(FORMS, (True, False), strict=True):
        assert deviations(simulated(p, q, 8, shared, generator), form(p, q, 8)) < 5


def test_faulty_formulas_fail_the_simulation() -> None:
    p, q = CASES[0]
    observed = simulated(p, q, 3, True, np.random.default_rng(9))
    assert deviations(observed, exact_gumbel(p, q, 3, over_zero)) < 5
    assert deviations(observed[:1], exact_gumbel(p, q, 1, without_zero)) > 20
    assert deviations(observed, exact_gumbel(p, q, 3, without_own)) > 20
    assert deviations(observed, tree_theory.match_coverage(p, q, 3)) > 20
    assert deviations(observed[:2], tree_theory.gumbel_coverage(p, q, 3)[1:]) > 20, "one child too many"


@pytest.mark.parametrize(
    ("p", "q"),
    [zipf_pair(300, 0.2, 1.0), zipf_pair(300, 1.0, 0.05), zipf_pair(300, 1.5, 3.0), zipf_pair(320, 6.0, 2.0)],
    ids=["flat", "similar", "distant", "steep"],
)
def test_grouped_tokens_count_as_if_each_were_counted_alone(p: Floats, q: Floats) -> None:
    for form, shared in zip(FORMS, (True, False), strict=True):
        assert form(p, q, 4) == pytest.approx(token_by_token(p, q, 4, shared), abs=2e-7)


def test_groups_that_are_too_coarse_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    p, q = zipf_pair(320, 1.0, 1.0)
    exact = tree_theory.gumbel_coverage(p, q, 8)
    with monkeypatch.context() as patch:
        patch.setattr(tree_theory, "_FEW", 0)
        assert tree_theory.gumbel_coverage(p, q, 8) == pytest.approx(exact, abs=1e-7)
        patch.setattr(tree_theory, "_CELLS_PER_OCTAVE", 0.05)
        patch.setattr(tree_theory, "_CELLS_BY_MASS", 1)
        assert np.abs(tree_theory.gumbel_coverage(p, q, 8) - exact).max() > 10 * TOLERANCE
    monkeypatch.setattr(tree_theory, "_TOGETHER", 10.0)
    assert np.abs(tree_theory.gumbel_coverage(p, q, 8) - exact).max() > 10 * TOLERANCE


@pytest.mark.parametrize("temperature", [0.3, 1.0, 3.0])
@pytest.mark.parametrize("noise", [0.0, 1e-3, 0.3, 2.0])
def test_one_child_is_a_chain_on_long_rows(noise: float, temperature: float) -> None:
    generator = np.random.default_rng(5)
    logits = generator.normal(0.0, 2.5, 20_000)
    logits[:100] += generator.exponential(3.0, 100)
    rows = [np.exp(row / temperature) for row in (logits, logits + generator.normal(0.0, noise, logits.size))]
    p, q = ((row / row.sum()).astype(np.float32) for row in rows)
    gumbel, match = (form(p, q, 8) for form in FORMS)
    assert gumbel[0] == pytest.approx(theory.gumbel_probability(p, q), abs=TOLERANCE)
    assert match[0] == pytest.approx(theory.match_probability(p, q), abs=TOLERANCE)
    assert (np.diff(gumbel) >= 0).all()
    assert (np.diff(match) >= 0).all()


@pytest.mark.parametrize("size", [5, 500])
def test_equal_disjoint_and_complete_rows(size: int) -> None:
    p, q = random_pair(size, 4, 1.0)
    assert tree_theory.gumbel_coverage(p, p, 3) == pytest.approx(1.0, abs=1e-9)
    apart = np.where(np.arange(size) % 2, p, 0.0), np.where(np.arange(size) % 2, 0.0, q)
    for form in FORMS:
        assert list(form(apart[0] / apart[0].sum(), apart[1] / apart[1].sum(), 2)) == [0.0, 0.0]
        last = form(p[:5] / p[:5].sum(), q[:5] / q[:5].sum(), 6)
        assert last[4:] == pytest.approx(1.0, abs=1e-12)
        one_hot = np.eye(size)[1]
        assert form(p, one_hot, 3) == pytest.approx(p[1], abs=TOLERANCE)


def test_probabilities_that_a_cold_drafter_rounds_almost_to_zero_still_have_an_order() -> None:
    """The second child is decided among tokens of 1e-30, the third is the other of them."""
    p, q = np.array([0.2, 0.5, 0.3]), np.array([1.0, 2e-30, 1e-30])
    assert tree_theory.match_coverage(p, q, 3) == pytest.approx([0.2, 0.2 + 0.5 * 2 / 3 + 0.3 / 3, 1.0], abs=TOLERANCE)
    assert tree_theory.gumbel_coverage(p, q, 3) == pytest.approx(exact_gumbel(p, q, 3, over_zero), abs=TOLERANCE)
    lowest = np.array([1.0, 0.0, 1e-300])
    assert tree_theory.gumbel_coverage(p, lowest, 3) == pytest.approx(0.2)


@pytest.mark.parametrize("form", FORMS)
def test_impossible_rows_and_widths_are_refused(form: Form) -> None:
    row = np.array([0.5, 0.5])
    with pytest.raises(ValueError, match="width"):
        form(row, row, 0)
    with pytest.raises(ValueError, match="one shape"):
        form(row, np.array([0.2, 0.3, 0.5]), 1)
    with pytest.raises(ValueError, match="sums to"):
        form(row, 2 * row, 1)


# Trees


def test_expected_tokens_of_a_small_tree() -> None:
    assert tree_theory.expected_tokens([], []) == 1.0
    assert tree_theory.expected_tokens([-1, -1, 0], [0.6, 0.2, 0.5]) == pytest.approx(2.1)
    assert tree_theory.expected_tokens([-1, 0, 1, 2, 3], [0.8] * 5) == pytest.approx((1 - 0.8**6) / (1 - 0.8))


def test_expected_tokens_of_simulated_walks() -> None:
    """Limit: five standard errors of 200,000 rounds; an error of 0.012 tokens would be detected."""
    parents, chances = [-1, -1, 0, 0, 1, 2], [0.5, 0.3, 0.6, 0.1, 0.7, 0.4]
    generator = np.random.default_rng(0)
    first, second, third = generator.random((3, DRAWS))
    tokens = 1.0 + (first < 0.8)
    tokens += (first < 0.5) & (second < 0.7)
    tokens += (first >= 0.5) & (first < 0.8) & (second < 0.7)
    tokens += (first < 0.5) & (second < 0.6) & (third < 0.4)
    error = tokens.std() / np.sqrt(DRAWS)
    assert abs(tokens.mean() - tree_theory.expected_tokens(parents, chances)) < 5 * error


@pytest.mark.parametrize(
    ("parents", "chances", "message"),
    [
        ([-1], [], "as many chances"),
        ([0], [0.5], "precede"),
        ([-1, 1], [0.5, 0.5], "precede"),
        ([-2], [0.5], "precede"),
        ([-1], [1.5], "probabilities"),
        ([-1], [float("nan")], "probabilities"),
        ([-1, -1], [0.6, 0.6], "different tokens"),
    ],
)
def test_impossible_trees_are_refused(parents: list[int], chances: list[float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        tree_theory.expected_tokens(parents, chances)


def best_by_enumeration(rank_chances: list[float], budget: int, depth: int) -> float:
    """Returns the largest expected tokens of all trees, which are sets of paths with all their beginnings."""
    best = {frozenset[tuple[int, ...]](): 1.0}
    for _ in range(budget):
        best |= {
            tree | {(*path, rank)}: expected + float(np.prod([rank_chances[each] for each in (*path, rank)]))
            for tree, expected in best.items()
            for path in ((), *tree)
            for rank in range(len(rank_chances))
            if len(path) < depth and (*path, rank) not in tree
        }
    return max(best.values())


@pytest.mark.parametrize("rank_chances", [[0.6, 0.2, 0.1], [0.4, 0.4, 0.1], [0.1, 0.0, 0.7], [1.0]])
@pytest.mark.parametrize("depth", [0, 1, 3])
def test_the_greedy_tree_is_the_best_of_all(rank_chances: list[float], depth: int) -> None:
    for budget in range(5):
        shape = tree_theory.optimal_tree(rank_chances, budget, depth)
        assert len(shape.parents) <= budget
        assert tree_theory.expected_tokens(*shape) == pytest.approx(best_by_enumeration(rank_chances, budget, depth))


def test_a_larger_budget_adds_nodes_to_the_same_tree() -> None:
    small, large = (tree_theory.optimal_tree([0.5, 0.2, 0.1, 0.05], budget, 4) for budget in (9, 30))
    assert large.parents[:9] == small.parents
    assert large.chances[:9] == small.chances


def test_the_bound_is_the_fastest_of_all_budgets_and_levels() -> None:
    rank_chances, rows, drafts = [0.5, 0.2, 0.1], [1.0, 1.05, 1.15, 1.2, 1.6, 1.65], [0.1, 0.08, 0.05]
    speeds = {
        (nodes, levels): tree_theory.expected_tokens(*tree_theory.optimal_tree(rank_chances, nodes, levels))
        / (rows[nodes] + sum(drafts[:levels]))
        for nodes in range(1, 6)
        for levels in range(1, 4)
    }
    bound = tree_theory.tree_bound(rank_chances, rows, drafts, 3)
    assert bound.speed == pytest.approx(max(speeds.values()))
    assert speeds[bound.nodes, bound.levels] == pytest.approx(bound.speed)
    assert tree_theory.tree_bound(rank_chances, rows[:1], drafts, 3) == (1.0, 0, 0)
    assert tree_theory.tree_bound([0.01], [1.0, 2.0], [0.5], 1) == (1.0, 0, 0), "no tree pays"


def test_a_free_tree_reaches_all_its_tokens() -> None:
    assert tree_theory.tree_bound([1.0], [1.0] * 9, [0.0] * 4, 4) == (5.0, 4, 4)


def test_impossible_budgets_and_costs_are_refused() -> None:
    with pytest.raises(ValueError, match="negative"):
        tree_theory.optimal_tree([0.5], -1, 2)
    for chances in ([0.7, 0.7], [-0.1], [float("nan")]):
        with pytest.raises(ValueError, match="sum of at most 1"):
            tree_theory.optimal_tree(chances, 3, 2)
    for rows in ([], [0.0], [1.0, float("inf")]):
        with pytest.raises(ValueError, match="row_costs"):
            tree_theory.tree_bound([0.5], rows, [0.1], 1)
    for drafts in ([], [-0.1], [float("nan")]):
        with pytest.raises(ValueError, match="draft costs"):
            tree_theory.tree_bound([0.5], [1.0, 1.1], drafts, 1)
