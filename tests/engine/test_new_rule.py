"""A rule is one function (`tests/toy_rule.py`) and its lines in the tables; the tests of rules then say whether it is exact."""

from __future__ import annotations

from dataclasses import replace

import mlx.core as mx
import pytest

from engine.acceptance import JUDGES, Judgement
from engine.rounds.metrics import summarise
from engine.values import answers as values
from tests.engine.small_models import emitted_ids
from tests.engine.statistics import CERTAIN, FALSE_ALARM
from tests.engine.tabular import Pair, distribution, pair
from tests.engine.test_distribution_of_text import options, p_value_of_answer, rounds_of
from tests.toy_rule import cautious

ROUNDS = 320


@pytest.fixture(autouse=True)
def lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(values, "RULES", (*values.RULES, "cautious"))
    monkeypatch.setitem(JUDGES, "cautious", cautious)


@pytest.fixture(scope="module")
def tables() -> Pair:
    return pair("bad", 3)


def test_the_text_has_the_targets_distribution(tables: Pair) -> None:
    rounds = rounds_of(tables, options("cautious", seed=4), ROUNDS)
    summary = summarise(rounds)
    assert 0 < summary.accepted < summary.rejected
    assert max(len(finished.emitted) for finished in rounds) == 2
    assert p_value_of_answer(emitted_ids(rounds), distribution(tables.target)) > FALSE_ALARM


def test_the_text_is_that_of_match(tables: Pair) -> None:
    """Both emit the target's own draws, so a seed gives one text; cautious takes more rounds for it."""
    texts = [emitted_ids(rounds_of(tables, options(rule, seed=4), 60)) for rule in ("cautious", "match")]
    assert texts[0] == texts[1][: len(texts[0])] and len(texts[0]) < len(texts[1])


def test_a_rule_that_keeps_what_it_judged_not_is_found_out(tables: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    def careless(*arguments: object) -> Judgement:
        verdict = cautious(*arguments)  # type: ignore[arg-type]
        p, _, _, noise = arguments
        return replace(verdict, accepted=mx.array(1), token=noise.shared(p)[1])  # type: ignore[attr-defined]

    monkeypatch.setitem(JUDGES, "cautious", careless)
    rounds = rounds_of(tables, options("cautious", seed=4, analyse=False), 2 * ROUNDS)
    assert p_value_of_answer(emitted_ids(rounds), distribution(tables.target)) < CERTAIN
