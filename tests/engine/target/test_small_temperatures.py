"""Near temperature 0 the distribution is still exact under every rule: equal logits share the probability, nothing overflows.

The tables have exact ties at logits of about 20, where float32 has steps of 2^-19. Divided by 1e-6 without care, a logit is
known only to within 1, which is too coarse next to the noise; divided by 1e-30, nothing of the noise is left. Tokens are tested
given the two before them: 500 per case, about 55 per context. The test detects a split between the most likely tokens that is
off by 0.15 everywhere, and the broken twin's is off by more. A correct engine fails a case with probability FALSE_ALARM.
"""

from __future__ import annotations

import math
from contextlib import closing
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from engine.decode.decoding import decode
from engine.decode.recording import analysis
from engine.drafters import DraftModel
from engine.target import distribution as shaping
from engine.target.distribution import Shaper
from engine.types import RULES, DecodingOptions, Round
from tests.crossings import crossed
from tests.engine.small_models import emitted_ids
from tests.engine.statistics import CERTAIN, FALSE_ALARM
from tests.engine.tabular import ORDER, Pair, TabularModel, distribution
from tests.engine.test_distribution_of_text import PROMPT, check_acceptance, options, p_value_of_answer

TEMPERATURES = [1e-6, 1e-8, 1e-30]
VOCAB = 3
TOKENS = 500
STEP = 2.0**-19
"""Spacing of float32 numbers between 16 and 32."""


def tied() -> Pair:
    """Returns tables in which one or two tokens are the target's most likely ones, and the next is one step below them. The
    drafter mostly agrees; elsewhere it gives all tokens the same logit."""
    generator = np.random.default_rng(3)
    shape = (VOCAB,) * (ORDER + 1)
    ranks = generator.permuted(np.broadcast_to(np.arange(VOCAB), shape), axis=-1)
    likeliest = generator.integers(1, VOCAB, (*shape[:-1], 1))
    highest = generator.uniform(19, 22, (*shape[:-1], 1)).astype(np.float32)
    target = np.where(ranks < likeliest, highest, np.where(ranks == likeliest, highest - STEP, 3.0))
    draft = np.where(generator.random((*shape[:-1], 1)) < 0.7, target, highest)
    return Pair(target.astype(np.float32), draft.astype(np.float32))


def rounds_of(rule: str, temperature: float, **changes: Any) -> list[Round]:
    """Returns the first rounds of one answer, until they have enough tokens."""
    tables = tied()
    target, drafter = TabularModel(tables.target), DraftModel(TabularModel(tables.draft))
    rounds: list[Round] = []
    with closing(decode(target, PROMPT, drafter, options(rule, seed=21, temperature=temperature, **changes))) as answer:
        while sum(len(finished.emitted) for finished in rounds) < TOKENS:
            rounds.append(next(answer))
    return rounds


def p_value(rounds: list[Round], temperature: float) -> float:
    return p_value_of_answer(emitted_ids(rounds)[:TOKENS], distribution(tied().target, temperature))


@pytest.mark.parametrize(("temperature", "rule"), crossed(TEMPERATURES, RULES, together=1))
def test_ties_are_split_as_the_law_says_and_every_figure_is_a_number(rule: str, temperature: float) -> None:
    rounds = rounds_of(rule, temperature)
    assert p_value(rounds, temperature) > FALSE_ALARM
    check_acceptance(rounds, rule)
    law = distribution(tied().target, temperature)
    tokens = [token for finished in rounds for token in finished.emitted]
    text = np.array(PROMPT[-ORDER:] + [token.id for token in tokens])
    wanted = law[(*(text[lag : lag - ORDER] for lag in range(ORDER)), text[ORDER:])]
    np.testing.assert_allclose([token.p for token in tokens], wanted, rtol=0, atol=1e-5)
    assert all(token.entropy is not None and 0 <= token.entropy < 1.1 for token in tokens)
    for finished in rounds:
        for proposal in finished.proposals:
            assert proposal.q is not None and 0 < proposal.q <= 1
            assert proposal.acceptance is None or 0 <= proposal.acceptance <= 1


def test_a_difference_of_one_step_is_seen_at_a_temperature_of_its_size() -> None:
    """Otherwise 1e-6 would only test what greedy decoding does."""
    law = distribution(tied().target, 1e-6)
    assert 0.04 < law[law > 1e-9].min() < 0.13
    law = distribution(tied().target, 1e-30)
    assert set(law.ravel()) == {0, 0.5, 1}


@pytest.mark.parametrize("rule", RULES)
def test_logits_that_are_scaled_as_they_come_are_noticed(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shaping, "less_maximum", lambda logits: logits)
    assert p_value(rounds_of(rule, 1e-6, analyse=False), 1e-6) < CERTAIN


@pytest.mark.parametrize("temperature", [*TEMPERATURES, 1e-300])
@pytest.mark.parametrize("on_host", [True, False])
def test_rows_of_every_size_stay_distributions(temperature: float, on_host: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows with masked ids, with a single id, and with differences that overflow when they are scaled."""
    monkeypatch.setattr(shaping, "computes_on_host", lambda: on_host)
    low = -3e38
    rows = mx.array(
        [[low, 3e38, 3e38, -math.inf], [-math.inf, -math.inf, 7, -math.inf], [1e-38, 0, 1e9, 1e9], [low, low, low, low]]
    )
    shaped = Shaper(DecodingOptions(temperature=temperature)).shape(rows, [])
    expected = [[0, 0.5, 0.5, 0], [0, 0, 1, 0], [0, 0, 0.5, 0.5], [0.25] * 4]
    assert np.array(shaped.probabilities).tolist() == pytest.approx(np.array(expected), abs=1e-6)
    analysed = [analysis.row(logits, shaped.inverse_temperature) for logits in np.array(shaped.logits)]
    assert [row.probabilities.tolist() for row in analysed] == expected


def test_rows_without_a_finite_maximum_are_left_as_they_are() -> None:
    rows = mx.array([[-math.inf, -math.inf], [1.0, math.inf]])
    assert mx.array_equal(shaping.less_maximum(rows), rows)
