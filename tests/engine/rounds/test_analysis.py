from __future__ import annotations

import numpy as np
import pytest

from engine.rounds import analysis


def rows_of_logits(vocab_size: int) -> dict[str, np.ndarray]:
    """Peaked and flat, with masked tokens, with many ties, far from 0, and spread further than float32's exponential."""
    generator = np.random.default_rng(vocab_size)
    usual = generator.normal(0.0, 2.0, vocab_size)
    filtered = np.where(usual >= np.sort(usual)[-min(3, vocab_size)], usual, -np.inf)
    return {
        "usual": usual,
        "peaked": np.where(np.arange(vocab_size) == vocab_size // 2, 30.0, usual),
        "flat": np.zeros(vocab_size),
        "filtered": filtered,
        "ties": np.floor(usual),
        "far": usual + 1e4,
        "spread": usual * 80,
    }


def float64_probabilities(logits: np.ndarray, inverse_temperature: float) -> np.ndarray:
    weights = np.exp((logits.astype(np.float32).astype(np.float64) - logits.max()) * inverse_temperature)
    return weights / weights.sum()


@pytest.mark.parametrize("vocab_size", [1, 2, 7, 1_023, 1_536, 1_537, 50_000])
def test_the_likeliest_are_those_of_a_whole_sort_ties_to_the_lowest_id(vocab_size: int) -> None:
    for name, logits in rows_of_logits(vocab_size).items():
        values = logits.astype(np.float32)
        whole = np.lexsort((np.arange(vocab_size), -values)).tolist()
        for count in (1, 2, 5):
            assert list(analysis.top_ids(values, count)) == whole[:count], (name, count)


def test_the_likeliest_may_lie_in_one_part_or_behind_the_last_whole_one() -> None:
    values = np.zeros(10 * analysis.PART + 9, dtype=np.float32)
    values[[3, 13, 23, 33, 43]] = [5, 4, 3, 2, 1]  # parts are interleaved: these are of one
    assert analysis.top_ids(values) == (3, 13, 23, 33, 43)
    values[-5:] = 9
    assert analysis.top_ids(values) == tuple(range(len(values) - 5, len(values)))


def test_a_limit_too_high_would_lose_some_of_the_likeliest(monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin: the largest of the maxima instead of the one that `count` parts reach."""
    values = rows_of_logits(50_000)["usual"].astype(np.float32)
    right = analysis.top_ids(values)
    monkeypatch.setattr(np, "partition", lambda array, place: np.full_like(array, array.max()))
    assert analysis.top_ids(values) != right


@pytest.mark.parametrize("inverse_temperature", [0.5, 1.0, 1.25, 20.0])
def test_probabilities_and_entropy_are_those_of_float64(inverse_temperature: float) -> None:
    for name, logits in rows_of_logits(50_000).items():
        if name == "far":
            continue  # its digits are gone in float32 already
        exact = float64_probabilities(logits, inverse_temperature)
        with np.errstate(divide="ignore", invalid="ignore"):
            entropy = -np.nansum(exact * np.log(exact))
        made = analysis.row(logits.astype(np.float32), inverse_temperature)
        np.testing.assert_allclose(made.probabilities, exact, rtol=1e-4, atol=1e-7, err_msg=name)
        assert made.entropy == pytest.approx(entropy, abs=1e-5), name


def test_logarithms_cut_too_early_would_be_noticed_in_the_entropy(monkeypatch: pytest.MonkeyPatch) -> None:
    logits = rows_of_logits(50_000)["usual"].astype(np.float32)
    logits[7] = -np.inf
    right = analysis.row(logits, 1.25).entropy
    monkeypatch.setattr(analysis, "LEAST", np.float32(-12.0))
    assert abs(analysis.row(logits, 1.25).entropy - right) > 1e-4
