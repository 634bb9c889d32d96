"""The closed forms, compared with hand-computed cases, slower formulas and simulation."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from engine.rounds import theory

FORMS = (theory.match_probability, theory.rejection_probability, theory.gumbel_probability)


def quadratic_gumbel(p: np.ndarray, q: np.ndarray) -> float:
    """Returns the definition, sum_i 1 / sum_j max(p_j / p_i, q_j / q_i), term by term."""
    return sum(1.0 / np.maximum(p / p[i], q / q[i]).sum() for i in range(p.size) if p[i] > 0 and q[i] > 0)


def random_pair(generator: np.random.Generator, size: int, zeros: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """Returns two distributions; each lacks a given share of the tokens, but not the first."""
    rows = generator.dirichlet(np.full(size, 0.4), 2)
    for row in rows:
        row[1:][generator.random(size - 1) < zeros] = 0.0
    p, q = rows / rows.sum(axis=1, keepdims=True)
    return p, q


def language_model_pair(
    generator: np.random.Generator, size: int, noise: float, temperature: float = 0.8
) -> tuple[np.ndarray, np.ndarray]:
    """Returns float32 rows with a few likely tokens and a long tail; the drafter's logits are the target's plus noise."""
    target = generator.normal(0.0, 2.5, size)
    target[:100] += generator.exponential(3.0, 100)
    logits = np.stack([target, target + generator.normal(0.0, noise, size)]) / temperature
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    p, q = (weights / weights.sum(axis=1, keepdims=True)).astype(np.float32)
    return p, q


def nucleus(row: np.ndarray, mass: float) -> np.ndarray:
    """Returns the most likely tokens with a total probability of `mass`, renormalised."""
    order = np.argsort(-row)
    kept = np.zeros_like(row)
    keep = order[: int(np.searchsorted(np.cumsum(row[order]), mass)) + 1]
    kept[keep] = row[keep] / row[keep].sum()
    return kept


# Single positions


def test_equal_distributions_are_always_accepted_by_rejection_and_gumbel() -> None:
    row = np.array([0.5, 0.3, 0.2, 0.0])
    assert theory.rejection_probability(row, row) == pytest.approx(1.0, abs=1e-15)
    assert theory.gumbel_probability(row, row) == pytest.approx(1.0, abs=1e-15)


def test_two_independent_uniform_draws_over_ten_agree_once_in_ten() -> None:
    row = np.full(10, 0.1)
    assert theory.match_probability(row, row) == pytest.approx(0.1)


def test_the_worked_example_with_zeros_on_either_side() -> None:
    p, q = np.array([0.5, 0.3, 0.2, 0.0]), np.array([0.0, 0.4, 0.3, 0.3])
    # By hand: token 1: 1 / (5/3 + 1 + 3/4 + 3/4); token 2: 1 / (5/2 + 3/2 + 1 + 1).
    assert theory.gumbel_probability(p, q) == pytest.approx(6 / 25 + 1 / 6)
    assert theory.match_probability(p, q) == pytest.approx(0.18)
    assert theory.rejection_probability(p, q) == pytest.approx(0.5)


def test_disjoint_supports_never_agree() -> None:
    p, q = np.array([0.6, 0.4, 0.0, 0.0]), np.array([0.0, 0.0, 0.1, 0.9])
    assert [form(p, q) for form in FORMS] == [0.0, 0.0, 0.0]


def test_all_rules_coincide_for_a_one_hot_drafter() -> None:
    p, q = np.array([0.5, 0.3, 0.2, 0.0]), np.array([0.0, 1.0, 0.0, 0.0])
    assert [form(p, q) for form in FORMS] == pytest.approx([0.3, 0.3, 0.3])
    assert theory.expected(p, q) == pytest.approx((0.3, 0.3, 0.3))


@pytest.mark.parametrize("zeros", [0.0, 0.3, 0.8])
@pytest.mark.parametrize("size", [2, 3, 8, 150])
def test_the_sorted_form_equals_the_definition(size: int, zeros: float) -> None:
    generator = np.random.default_rng(size)
    for _ in range(20):
        p, q = random_pair(generator, size, zeros)
        assert theory.gumbel_probability(p, q) == pytest.approx(quadratic_gumbel(p, q), abs=1e-12)


def test_tokens_with_one_ratio_may_be_sorted_either_way() -> None:
    p, q = np.array([0.2, 0.1, 0.1, 0.3, 0.3]), np.array([0.4, 0.2, 0.2, 0.1, 0.1])
    for order in itertools.permutations(range(5)):
        assert theory.gumbel_probability(p[list(order)], q[list(order)]) == pytest.approx(quadratic_gumbel(p, q), abs=1e-14)


def test_the_rules_keep_their_order_and_bounds() -> None:
    generator = np.random.default_rng(1)
    for _ in range(200):
        p, q = random_pair(generator, 12, zeros=0.2)
        match, gumbel, rejection = theory.expected(p, q)
        variation = 0.5 * np.abs(p - q).sum()
        assert match <= rejection + 1e-12
        assert (1 - variation) / (1 + variation) - 1e-12 <= gumbel <= rejection + 1e-12


def test_simulated_draws_agree_as_often_as_predicted() -> None:
    """Limit: five standard errors of 200,000 draws. False alarm in one of 600,000 pairs; an error of 0.006 would be
    detected."""
    generator = np.random.default_rng(2)
    draws = 200_000
    for _ in range(3):
        p, q = random_pair(generator, 6, zeros=0.2)
        match, gumbel, rejection = theory.expected(p, q)
        with np.errstate(divide="ignore"):
            log_p, log_q = np.log(p), np.log(q)
        noise, other = generator.gumbel(size=(2, draws, 6))
        draft, target, independent = (log_q + noise).argmax(1), (log_p + noise).argmax(1), (log_p + other).argmax(1)
        accepted = generator.random(draws) * q[draft] < p[draft]
        for outcomes, probability in ((draft == target, gumbel), (draft == independent, match), (accepted, rejection)):
            assert abs(outcomes.mean() - probability) < 5 * np.sqrt(probability * (1 - probability) / draws)


@pytest.mark.parametrize("temperature", [0.3, 0.8, 1.5])
@pytest.mark.parametrize("noise", [0.0, 0.001, 0.05, 1.0, 4.0])
def test_the_three_at_once_are_the_three_alone_on_long_rows(noise: float, temperature: float) -> None:
    p, q = language_model_pair(np.random.default_rng(7), 20_000, noise, temperature)
    match, gumbel, rejection = theory.expected(p, q)
    assert match == pytest.approx(theory.match_probability(p, q), abs=1e-9)
    assert rejection == pytest.approx(theory.rejection_probability(p, q), abs=1e-6)
    assert -1e-9 <= gumbel - theory.gumbel_probability(p, q) <= theory.EXPECTED_TOLERANCE


@pytest.mark.parametrize("top_p", [0.9, 0.999])
def test_the_three_at_once_are_the_three_alone_under_top_p(top_p: float) -> None:
    p, q = (nucleus(row, top_p) for row in language_model_pair(np.random.default_rng(8), 20_000, 1.0, temperature=2.0))
    assert ((p > 0) & (q == 0)).any()
    assert ((p == 0) & (q > 0)).any()
    alone = (theory.match_probability(p, q), theory.gumbel_probability(p, q), theory.rejection_probability(p, q))
    assert theory.expected(p, q) == pytest.approx(alone, abs=2e-6)
    assert theory.expected(q, q) == pytest.approx((theory.match_probability(q, q), 1.0, 1.0), abs=1e-6)


@pytest.mark.parametrize("noise", [0.0, 1e-5, 1e-3, 0.01, 0.3, 3.0])
@pytest.mark.parametrize("spread", [0.0, 1.0])
def test_no_flat_row_is_sorted_completely(spread: float, noise: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows at temperature 2 and of random models, similar or not: sorting them took longer than everything else."""
    generator = np.random.default_rng(4)
    scores = generator.normal(0.0, spread, 50_000)
    p, q = (row / row.sum() for row in map(np.exp, (scores, scores + generator.normal(0.0, noise, scores.size))))
    exact, sorted_, agreement = theory.gumbel_probability(p, q), [], theory.agreement
    monkeypatch.setattr(theory, "agreement", lambda tokens: sorted_.append(tokens[0].size) or agreement(tokens))
    for row in (np.float32, np.float64):
        assert -1e-7 <= theory.expected(p.astype(row), q.astype(row))[1] - exact <= theory.EXPECTED_TOLERANCE
    assert max(sorted_) < 20_000


def test_rows_that_cannot_be_gathered_exactly_are_sorted_completely(monkeypatch: pytest.MonkeyPatch) -> None:
    """Almost all ratios are near one, and a few are far from it."""
    p, q = language_model_pair(np.random.default_rng(9), 50_000, noise=1e-3, temperature=3.0)
    q[:10] *= np.float32(1e-12)
    q /= q.sum()
    exact = theory.gumbel_probability(p, q)
    assert theory.expected(p, q)[1] == pytest.approx(exact, abs=1e-12)
    monkeypatch.setattr(theory, "EXPECTED_TOLERANCE", 1.0)
    assert theory.expected(p, q)[1] > exact + 2e-6


def test_a_rest_that_is_no_small_one_is_looked_at_token_by_token(monkeypatch: pytest.MonkeyPatch) -> None:
    p, q = language_model_pair(np.random.default_rng(9), 20_000, noise=1.0, temperature=3.0)
    exact = theory.gumbel_probability(p, q)
    monkeypatch.setattr(theory, "_LIKELY", 1e-3)
    assert -1e-9 <= theory.expected(p, q)[1] - exact <= theory.EXPECTED_TOLERANCE
    monkeypatch.setattr(theory, "EXPECTED_TOLERANCE", 1.0)
    assert theory.expected(p, q)[1] > exact + 1e-3, "two groups alone are far off"


@pytest.mark.parametrize("noise", [0.5, 1.0])
def test_of_many_likely_tokens_those_alone_are_gathered(noise: float, monkeypatch: pytest.MonkeyPatch) -> None:
    p, q = language_model_pair(np.random.default_rng(7), 150_000, noise, temperature=0.7)
    exact, gathered = theory.gumbel_probability(p, q), []
    in_groups = theory.in_groups
    monkeypatch.setattr(theory, "in_groups", lambda *given: gathered.append(given[0].size) or in_groups(*given))
    assert -1e-9 <= theory.expected(p, q)[1] - exact <= theory.EXPECTED_TOLERANCE
    assert theory.expected(p, q)[0] == pytest.approx(theory.match_probability(p, q), abs=1e-9)
    assert 2_000 < gathered[0] < 10_000 and len(gathered) == 2
    monkeypatch.setattr(theory, "_GROUP_BITS", 3)
    monkeypatch.setattr(theory, "_ALONE", 1.0)
    monkeypatch.setattr(theory, "EXPECTED_TOLERANCE", 1.0)
    assert theory.expected(p, q)[1] - exact > 2e-5, "eight groups are too few"


def test_all_are_gathered_where_two_groups_say_too_little_of_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = np.random.default_rng(3)
    scores = generator.normal(0.0, 2.5, 260_000)
    scores[:3] = 21.0
    p, q = (row / row.sum() for row in map(np.exp, (scores, scores + generator.normal(0.0, 0.8, scores.size))))
    exact, gathered = theory.gumbel_probability(p, q), []
    in_groups = theory.in_groups
    monkeypatch.setattr(theory, "in_groups", lambda *given: gathered.append(given[0].size) or in_groups(*given))
    assert -1e-9 <= theory.expected(p, q)[1] - exact <= theory.EXPECTED_TOLERANCE
    assert len(gathered) == 2
    assert 10_000 < gathered[0] < scores.size / 4
    assert gathered[1] == scores.size


def test_the_sorted_form_equals_the_definition_on_a_long_row() -> None:
    p, q = language_model_pair(np.random.default_rng(7), 3_000, 1.0)
    exact_p, exact_q = (row / row.sum() for row in (p.astype(np.float64), q.astype(np.float64)))
    assert theory.gumbel_probability(p, q) == pytest.approx(quadratic_gumbel(exact_p, exact_q), abs=1e-12)


def test_one_hot_and_disjoint_long_rows() -> None:
    p, _ = language_model_pair(np.random.default_rng(10), 20_000, 1.0)
    one_hot = np.zeros_like(p)
    one_hot[17] = 1.0
    assert theory.expected(p, one_hot) == pytest.approx([float(p[17])] * 3, rel=1e-5)
    low, high = p * (np.arange(20_000) < 10_000), p * (np.arange(20_000) >= 10_000)
    assert theory.expected(low / low.sum(), high / high.sum()) == pytest.approx((0.0, 0.0, 0.0), abs=theory.EXPECTED_TOLERANCE)


def test_flat_rows_lose_nothing() -> None:
    row = np.full(8_192, 1 / 8_192, dtype=np.float32)
    assert theory.expected(row, row) == pytest.approx((1 / 8_192, 1.0, 1.0), rel=1e-9)


def test_totals_off_by_rounding_are_divided_out() -> None:
    p, q = random_pair(np.random.default_rng(3), 20)
    for form in FORMS:
        assert form(p * (1 + 3e-5), q * (1 - 2e-5)) == pytest.approx(form(p, q), abs=1e-12)
    assert theory.expected(p * (1 + 3e-5), q * (1 - 2e-5)) == pytest.approx(theory.expected(p, q), abs=1e-12)


def test_denormal_probabilities_do_no_harm() -> None:
    p, q = np.array([1.0, 1e-310, 0.0]), np.array([5e-324, 1.0, 1e-300])
    assert theory.gumbel_probability(p, q) == pytest.approx(0.0, abs=1e-300)


@pytest.mark.parametrize(
    "p, q, message",
    [
        ([[1.0]], [1.0], "p must be one row"),
        ([1.0], 1.0, "q must be one row"),
        ([], [], "p must be one row"),
        ([0.5, 0.5], [1.0], "one shape"),
        ([1.5, -0.5], [0.5, 0.5], "p holds negative"),
        ([0.5, 0.5], [float("nan"), 0.5], "q holds negative values or NaN"),
        ([float("inf"), 0.5], [0.5, 0.5], "p sums to inf"),
        ([0.0, 0.0], [0.5, 0.5], "p sums to 0"),
        ([0.5, 0.5], [0.7, 0.5], "q sums to 1.2"),
    ],
)
def test_what_is_no_distribution_is_refused(p: list[float], q: list[float], message: str) -> None:
    for form in (*FORMS, theory.expected):
        with pytest.raises(ValueError, match=message):
            form(p, q)
