"""The instruments of the distribution tests: tabular models say what their tables say, and p-values are what they claim."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest
from mlx_lm.models.cache import make_prompt_cache, trim_prompt_cache
from mlx_lm.sample_utils import make_sampler

from tests.engine.statistics import chi_square, merged, rate, total
from tests.engine.tabular import DRAFTERS, TabularModel, distribution, law_of_text, pair

# Tabular models


def test_logits_are_the_row_of_the_last_two_tokens() -> None:
    table = pair("good", 8).target
    logits = np.array(TabularModel(table)(mx.array([[3, 7, 1]])))[0]
    assert np.array_equal(logits, np.stack([table[0, 3], table[3, 7], table[7, 1]]))


def test_a_cache_that_was_rolled_back_changes_nothing() -> None:
    table = pair("good", 8).target
    model = TabularModel(table)
    cache = make_prompt_cache(model)
    model(mx.array([[3, 7, 1, 2]]), cache=cache)
    assert trim_prompt_cache(cache, 2) == 2
    logits = np.array(model(mx.array([[5, 6]]), cache=cache))[0]
    assert np.array_equal(logits, np.stack([table[7, 5], table[5, 6]]))


def test_a_cache_that_was_not_rolled_back_shows() -> None:
    table = pair("good", 8).target
    model = TabularModel(table)
    cache = make_prompt_cache(model)
    model(mx.array([[3, 7, 1, 2]]), cache=cache)
    assert not np.array_equal(np.array(model(mx.array([[5]]), cache=cache))[0, 0], table[7, 5])


def test_ids_beyond_a_narrow_table_are_read_as_its_last_context() -> None:
    table = pair("good", 3).target
    assert np.array_equal(np.array(TabularModel(table)(mx.array([[1, 7]])))[0, 1], table[1, 2])


@pytest.mark.parametrize("vocab_size", [3, 8])
@pytest.mark.parametrize("drafter", DRAFTERS)
def test_pairs_are_what_their_names_say(drafter: str, vocab_size: int) -> None:
    tables = pair(drafter, vocab_size)
    assert tables.draft.shape[-1] == vocab_size + {"narrow": -1, "wide": 2}.get(drafter, 0)
    possible = np.isfinite(tables.draft)
    assert possible.any(axis=-1).all()
    assert np.isfinite(tables.target).any(axis=-1).all()
    if drafter == "one-hot":
        assert (possible.sum(axis=-1) == 1).all()
    if drafter == "disjoint":
        assert not (possible & np.isfinite(tables.target)).any()


@pytest.mark.parametrize("filters", [{"top_p": 0.7}, {"min_p": 0.3}, {"top_k": 3}, {"top_p": 0.9, "min_p": 0.1, "top_k": 4}])
def test_filters_keep_the_tokens_that_a_sampler_of_mlx_lm_draws(filters: dict[str, float]) -> None:
    """A second implementation: 4,000 draws reach every token that is kept, here of at least 1 %."""
    logits = pair("good", 8).target[2, 5]
    mx.random.seed(0)
    log_probabilities = mx.broadcast_to(mx.array(logits - np.logaddexp.reduce(logits)), (4_000, 8))
    drawn = np.bincount(np.array(make_sampler(temp=0.8, **filters)(log_probabilities)), minlength=8)
    wanted = distribution(logits, 0.8, **filters)
    assert wanted[wanted > 0].min() > 0.01
    assert (wanted == 0).any()
    assert chi_square(drawn, wanted) > 1e-6


def test_the_law_of_a_text_is_a_product_of_conditionals() -> None:
    conditionals = distribution(pair("good", 3).target)
    law = law_of_text(conditionals, [1, 2], 3)
    assert law.sum() == pytest.approx(1.0)
    assert law[0, 2, 1] == pytest.approx(conditionals[1, 2, 0] * conditionals[2, 0, 2] * conditionals[0, 2, 1])
    assert law_of_text(conditionals, [2], 1)[1] == pytest.approx(conditionals[0, 2, 1])


# Statistics


def share_below(p_values: list[float], level: float) -> float:
    return float(np.mean(np.array(p_values) < level))


def test_chi_square_is_calibrated() -> None:
    """2,000 samples that follow the law: about 5 % below 0.05 and 1 % below 0.01 (within four standard errors)."""
    generator = np.random.default_rng(0)
    laws = generator.dirichlet(np.ones(12), 3)
    p_values = [chi_square(np.stack([generator.multinomial(300, law) for law in laws]), laws) for _ in range(2_000)]
    assert share_below(p_values, 0.05) == pytest.approx(0.05, abs=0.02)
    assert share_below(p_values, 0.01) == pytest.approx(0.01, abs=0.009)


def test_chi_square_notices_what_its_power_promises() -> None:
    """20,000 draws, a cell of 0.1 off by 0.02: the promise of its docstring."""
    law = np.full(10, 0.1)
    shifted = law + np.array([0.02, -0.02] + [0.0] * 8)
    generator = np.random.default_rng(1)
    assert max(chi_square(generator.multinomial(20_000, shifted), law) for _ in range(20)) < 1e-9


def test_what_cannot_happen_is_noticed_once_it_does() -> None:
    assert chi_square(np.array([500, 499, 1]), np.array([0.5, 0.5, 0.0])) == 0.0


def test_too_few_draws_are_an_error_and_no_success() -> None:
    with pytest.raises(AssertionError, match="too few draws"):
        chi_square(np.array([3, 2]), np.array([0.5, 0.5]))


def test_merging_keeps_totals_and_leaves_no_small_cell() -> None:
    observed, wanted = merged(np.array([1.0, 2.0, 30.0, 4.0, 50.0]), np.array([3.0, 3.0, 28.0, 3.0, 50.0]))
    assert observed.sum() == 87
    assert wanted.sum() == 87
    assert wanted.min() >= 10


def test_rate_and_total_are_calibrated() -> None:
    generator = np.random.default_rng(2)
    rates, totals = [], []
    for _ in range(2_000):
        probabilities = generator.random(400)
        outcomes = generator.random(400) < probabilities
        rates.append(rate(outcomes, probabilities))
        totals.append(total(outcomes * 2.0, probabilities * 2.0, bound=2))
    for p_values in (rates, totals):
        assert share_below(p_values, 0.05) == pytest.approx(0.05, abs=0.02)
        assert share_below(p_values, 0.01) == pytest.approx(0.01, abs=0.009)


def test_rate_notices_impossible_outcomes_and_wrong_rates() -> None:
    assert rate(np.array([1, 0]), np.array([0.0, 0.5])) == 0.0
    assert rate(np.array([0, 0]), np.array([1.0, 0.5])) == 0.0
    assert rate(np.ones(1_000), np.full(1_000, 0.9)) < 1e-9
    assert rate(np.zeros(20), np.zeros(20)) == 1.0
