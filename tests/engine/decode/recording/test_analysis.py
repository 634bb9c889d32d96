from __future__ import annotations

import numpy as np
import pytest

from engine.decode.recording import analysis
from engine.target import distribution
from engine.target.distribution import HostRow
from engine.types import DecodingOptions
from tests.engine.test_block_law import block_acceptance


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


def blocks(count: int = 40, gamma: int = 4, vocab_size: int = 30) -> list[tuple[np.ndarray, np.ndarray, list[int]]]:
    """Logits of both sides, (gamma, vocab), some of them masked, and proposals drawn from the drafter's."""
    generator = np.random.default_rng(7)
    made = []
    for _ in range(count):
        p, q = (generator.normal(0.0, 2.0, (gamma, vocab_size)).astype(np.float32) for _ in range(2))
        p[generator.random(p.shape) < 0.2] = q[generator.random(q.shape) < 0.2] = -np.inf
        made.append((p, q, [int(generator.choice(vocab_size, p=float64_probabilities(row, 1.25))) for row in q]))
    return made


def rows(logits: np.ndarray) -> list[analysis.Row]:
    return [analysis.row(each, 1.25) for each in logits]


def test_the_acceptance_of_a_block_is_that_of_the_closed_form() -> None:
    for p, q, drafted in blocks():
        exact_p, exact_q = ([float64_probabilities(row, 1.25) for row in rows] for rows in (p, q))
        found = analysis.block_acceptance(rows(p), rows(q), drafted)
        assert found == pytest.approx(block_acceptance(exact_p, exact_q, drafted), abs=1e-5)
        placed = np.eye(p.shape[1])[drafted]
        found = analysis.block_acceptance(rows(p), [analysis.certain(token) for token in drafted], drafted)
        assert found == pytest.approx(block_acceptance(exact_p, placed, drafted), abs=1e-5)


def test_an_acceptance_that_left_the_weight_of_the_block_out_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    mass = analysis.residual_mass
    monkeypatch.setattr(analysis, "residual_mass", lambda p, q, weight: mass(p, q, 1.0))
    with pytest.raises(AssertionError):
        test_the_acceptance_of_a_block_is_that_of_the_closed_form()


@pytest.mark.parametrize("inverse_temperature", [0.5, 1.25, 8.0])
def test_a_row_that_a_rule_has_weighed_says_the_same_as_one_weighed_for_it(inverse_temperature: float) -> None:
    for name, logits in rows_of_logits(5_000).items():
        row = HostRow(logits.astype(np.float32), inverse_temperature)
        assert row.weighed is None
        _ = row.normaliser
        assert (row.weighed is None) == (abs(logits.max() * inverse_temperature) >= distribution.EXACT_BELOW), name
        kept, fresh = (analysis.row(row.logits, inverse_temperature, known) for known in (row.weighed, None))
        np.testing.assert_allclose(kept.probabilities, fresh.probabilities, rtol=2e-5, atol=1e-7, err_msg=name)
        assert kept.entropy == pytest.approx(fresh.entropy, abs=1e-5), name


def test_a_row_without_a_finite_logit_is_not_taken_for_weighed() -> None:
    row = HostRow(np.full(5_000, -np.inf, np.float32), 1.25)
    _ = row.normaliser
    assert row.weighed is None


@pytest.mark.parametrize("top_p", [0.9, 0.999])
def test_a_border_of_top_p_keeps_its_digits_among_large_logits(top_p: float) -> None:
    """Against float64: what is below a token near the border is little, and no difference of two sums."""
    generator = np.random.default_rng(4)
    logits = np.concatenate([generator.normal(106.0, 1.0, 40), generator.normal(94.0, 1.0, 4_000)]).astype(np.float32)
    options = DecodingOptions(top_p=top_p, seed=1)
    found = 0
    for token in np.argsort(-logits)[:40]:
        border = analysis.border(logits, int(token), options)
        exact = analysis.border(logits.astype(np.float64), int(token), options)  # type: ignore[arg-type]
        assert (border is None) == (exact is None)
        if border is not None and exact is not None:
            assert border == pytest.approx(exact, abs=2e-5)
            found += exact > 0
    assert found
