"""From logits to p: the filters are mlx-lm's, in mlx-lm's order, and each row is treated alike."""

from __future__ import annotations

import itertools
import math

import mlx.core as mx
import numpy as np
import pytest
from mlx_lm import sample_utils

from engine.lens.shared_wording import filter_words
from engine.target.distribution import Distribution, HostDistribution, OneHot, Shaper, onto_target_ids
from engine.types import FILTERS, DecodingOptions

VOCAB = 60


def some_logits(rows: int = 3, seed: int = 1) -> mx.array:
    return mx.array(np.random.default_rng(seed).normal(0, 3, (rows, VOCAB)).astype(np.float32))


def of_mlx_lm(logits: mx.array, options: DecodingOptions, monkeypatch: pytest.MonkeyPatch) -> np.ndarray:
    """Returns the probabilities that mlx-lm's own sampler draws from, by replacing its sampling step."""
    caught: list[mx.array] = []

    def catch(log_probabilities: mx.array, temperature: float) -> mx.array:
        caught.append(mx.softmax(log_probabilities / temperature, axis=-1))
        return mx.array([0])

    monkeypatch.setattr(sample_utils, "categorical_sampling", catch)
    sampler = sample_utils.make_sampler(options.temperature, options.top_p, options.min_p, top_k=options.top_k)
    sampler(logits - mx.logsumexp(logits, axis=-1, keepdims=True))
    return np.array(caught[0])


@pytest.mark.parametrize("temperature", [0.3, 1.0, 1.7])
@pytest.mark.parametrize(("top_p", "min_p", "top_k"), list(itertools.product([0, 0.3, 0.9, 1], [0, 0.05, 1], [0, 1, 7])))
def test_filters_are_those_of_mlx_lm(top_p, min_p, top_k, temperature, monkeypatch):
    options = DecodingOptions(temperature=temperature, top_p=top_p, min_p=min_p, top_k=top_k)
    logits = some_logits()
    ours = np.array(Shaper(options).shape(logits, [1, 2]).probabilities)
    theirs = of_mlx_lm(logits, options, monkeypatch)
    assert np.array_equal(ours > 0, theirs > 0)
    np.testing.assert_allclose(ours, theirs, rtol=2e-5)


@pytest.mark.parametrize("top_k", [VOCAB, VOCAB + 1, 10**9])
def test_top_k_of_the_whole_vocabulary_and_more_is_off(top_k):
    logits = some_logits()
    assert mx.array_equal(Shaper(DecodingOptions(top_k=top_k)).shape(logits, []).logits, logits)


def test_filters_are_skipped_at_temperature_0_and_penalties_are_not():
    logits = some_logits()
    shaped = Shaper(DecodingOptions(temperature=0, top_k=1, top_p=0.1, min_p=0.5)).shape(logits, [])
    assert mx.array_equal(shaped.logits, logits)
    penalised = Shaper(DecodingOptions(temperature=0, repetition_penalty=2.0)).shape(logits, [4])
    changed = np.argwhere(np.array(penalised.logits != logits))
    assert set(changed[:, 1]) == {4}


@pytest.mark.parametrize("temperature", [0, 1.0])
@pytest.mark.parametrize("others", [{}, {"top_p": 0.9}, {"repetition_penalty": 2.0}])
@pytest.mark.parametrize(
    "filter",
    [
        *({"top_p": value} for value in (0, 0.3, 1)),
        *({"top_k": value} for value in (0, 1, 7)),
        *({"min_p": value} for value in (0, 0.05, 1)),
        *({"repetition_penalty": penalty, "repetition_context": context} for penalty in (0.5, 1.0, 2.0) for context in (0, 20)),
    ],
)
def test_the_filters_that_are_said_to_be_on_are_those_that_change_something(filter, others, temperature):
    options = DecodingOptions(temperature=temperature, **{**others, **filter})
    logits = some_logits()

    def changed(**off):
        return not mx.array_equal(Shaper(options.replace(**off)).shape(logits, [4]).logits, logits)

    every = {name: getattr(DecodingOptions(), name) for name in FILTERS}
    alone = (name for name in FILTERS if changed(**{other: value for other, value in every.items() if other != name}))
    assert options.filters_on == tuple(alone)
    assert list(filter_words(options)) == list(options.filters_on)


def test_row_i_is_penalised_for_the_first_i_proposals():
    logits = some_logits(rows=4, seed=2)
    options = DecodingOptions(repetition_penalty=1.5, repetition_context=3)
    together = Shaper(options).shape(logits, [9, 8, 7, 7], mx.array([1, 2, 3])).logits
    processor = sample_utils.make_repetition_penalty(1.5, 3)
    for row, text in enumerate([[9, 8, 7, 7], [9, 8, 7, 7, 1], [9, 8, 7, 7, 1, 2], [9, 8, 7, 7, 1, 2, 3]]):
        alone = processor(mx.array(text), mx.array(logits[row : row + 1]))
        assert mx.array_equal(together[row : row + 1], alone)


def test_ids_that_the_tokenizer_does_not_know_and_nan_have_probability_0():
    known = mx.array([index < 50 for index in range(VOCAB)])
    logits = mx.where(mx.arange(VOCAB) == 5, math.nan, some_logits())
    p = np.array(Shaper(DecodingOptions(), known).shape(logits, []).probabilities)
    assert (p[:, 50:] == 0).all()
    assert (p[:, 5] == 0).all()
    np.testing.assert_allclose(p.sum(axis=-1), 1, rtol=1e-5)


@pytest.mark.parametrize("top_k", [0, 3])
@pytest.mark.parametrize("temperature", [1e-6, 1e-3, 1e6, 1e300])
def test_extreme_temperatures_stay_distributions(temperature, top_k):
    p = np.array(Shaper(DecodingOptions(temperature=temperature, top_k=top_k)).shape(some_logits(), []).probabilities)
    np.testing.assert_allclose(p.sum(axis=-1), 1, rtol=1e-4)


def test_a_trimmed_head_is_laid_out_on_the_targets_ids():
    full = np.array(onto_target_ids(mx.array([[1.0, 2.0, 3.0]]), 6, mx.array([4, 0, 2])))
    assert full.tolist() == [[2.0, -math.inf, 3.0, -math.inf, 1.0, -math.inf]]


def test_a_wider_and_a_narrower_drafter_are_laid_out_on_the_targets_width():
    row = mx.array([[1.0, 2.0, 3.0]])
    assert onto_target_ids(row, 2, None).tolist() == [[1.0, 2.0]]
    assert onto_target_ids(row, 5, None).tolist() == [[1.0, 2.0, 3.0, -math.inf, -math.inf]]


def test_a_one_hot_proposal_counts_like_the_dense_distribution_it_stands_for():
    p = Distribution(some_logits(2))
    ids = mx.array([3, 8])
    short = OneHot(ids, VOCAB)
    dense = Distribution.from_probabilities(short.probabilities)
    np.testing.assert_allclose(np.array(short.probability_of(ids)), np.array(dense.probability_of(ids)))
    scale = mx.array([0.7, 1.0])
    np.testing.assert_allclose(np.array(short.residual_mass(p, scale)), np.array(dense.residual_mass(p, scale)), rtol=1e-5)
    assert np.array_equal(np.array(short.row(1).probabilities), np.array(dense.row(1).probabilities))


@pytest.mark.parametrize("inverse_temperature", [0.5, 1.25, 40.0])
def test_probabilities_on_the_host_are_those_of_the_lazy_graph(inverse_temperature):
    logits = mx.where(mx.arange(VOCAB) % 7 == 0, -math.inf, some_logits())
    outcomes = []
    for kind in (HostDistribution, Distribution):
        rows = kind(logits, inverse_temperature)
        outcomes.append(
            (np.array(rows.log_normaliser), np.array(rows.probabilities), np.array(rows.probability_of(mx.array([1, 2, 3]))))
        )
    for by_numpy, lazy in zip(*outcomes, strict=True):
        np.testing.assert_allclose(by_numpy, lazy, rtol=1e-5, atol=1e-30)


def test_a_row_without_a_finite_logit_has_no_probability_and_warns_of_nothing():
    for kind in (HostDistribution, Distribution):
        rows = kind(mx.full((1, VOCAB), -math.inf))
        assert not np.array(rows.probabilities > 0).any()
