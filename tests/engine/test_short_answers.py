"""Under gamma "auto" many short answers follow the target's law. A fault that touches few rounds shows in their first one.

A long answer has few rounds of each kind. Here tables plan the one to three rounds of each answer. Behind one prompt the drafter
is right with the first token and often wrong with the second, which ends the draft; behind the other, any token may be wrong. So
corrections, of the last proposal and of others, have a large share in the law of the first tokens (a chi-square test). Under
match and gumbel a text is the plain one of its seed, which test_automatic_length compares.

A sound engine fails a test with probability LEAST. `power` works out how likely a fault is found.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from contextlib import closing
from copy import deepcopy

import numpy as np
import pytest
from scipy import stats

from engine.decode.context import DecodeContext
from engine.decode.loop import DecodeLoop
from engine.decode.policy.costs import MachineCosts
from engine.drafters import DraftModel
from engine.types import RATIO_RULES, Rule
from tests.crossings import crossed
from tests.engine.plants import LAST, PLANTS
from tests.engine.statistics import chi_square
from tests.engine.tabular import Pair, TabularModel, distribution, law_of_text
from tests.engine.test_distribution_of_text import options, tokens_of

LEAST, NOTICED = 1e-4, 1e-6
P, Q = (0.5, 0.45, 0.05), (0.05, 0.45, 0.5)
"""Turned by the token before, so that a row that is mistaken for the next one shows, too. A proposal is accepted with 0.55."""
SURE_FIRST, ANY = [1, 0], [0, 0]
"""Prompts. Behind the first p = q holds for the next token."""
KNOWN = MachineCosts(alphas={"draft model at 1.0": 0.9})
"""A stored acceptance, with which first drafts may have more than two tokens."""
FREE = MachineCosts(rows=dict.fromkeys(range(1, 17), 1.0), steps={"draft model": (0.0, 0.0)})
"""Proposals that cost nothing: the first draft has the two tokens that it may have."""
SHORT, LONG = 400, 300


pytestmark = pytest.mark.usefixtures("steady_clock")


def tables() -> Pair:
    p, q = np.zeros((3, 3, 3)), np.zeros((3, 3, 3))
    for context in itertools.product(range(3), repeat=2):
        p[context], q[context] = np.roll(P, context[1]), np.roll(Q, context[1])
    p[tuple(SURE_FIRST)] = q[tuple(SURE_FIRST)] = (0.34, 0.33, 0.33)
    return Pair(*(np.log(table).astype(np.float32) for table in (p, q)))


TABLES = tables()


def p_value(rule: Rule, prompt: list[int], answers: int, length: int, costs: MachineCosts) -> float:
    """Of the joint law of the first `length` tokens of so many answers, one seed each."""
    target, drafter = TabularModel(TABLES.target), DraftModel(TabularModel(TABLES.draft))
    counts = np.zeros((3,) * length)
    for seed in range(answers):
        text: list[int] = []
        wanted = options(rule, seed=seed, gamma="auto", budget=None, analyse=False)
        context = DecodeContext(target, prompt, drafter, wanted, costs=deepcopy(costs))
        with closing(DecodeLoop(context).rounds()) as answer:
            while len(text) < length:
                text += tokens_of([next(answer)])
        counts[tuple(text[:length])] += 1
    return chi_square(counts.ravel(), law_of_text(distribution(TABLES.target), prompt, length).ravel())


def power(broken: np.ndarray, law: np.ndarray, answers: int) -> float:
    """How likely a chi-square test of so many answers falls below NOTICED where the law is another one. Both (cells,)."""
    moved = answers * ((broken - law) ** 2 / law).sum()
    return float(stats.ncx2.sf(stats.chi2.isf(NOTICED, len(law) - 1), len(law) - 1, moved))


def law_without_residual() -> np.ndarray:
    """(9,): of two tokens where the second, if it is rejected, is drawn from p."""
    p, q = (np.array([np.roll(row, turn) for turn in range(3)]) for row in (P, Q))
    kept = np.minimum(p, q)
    second = kept + (1 - kept.sum(axis=1, keepdims=True)) * p
    return (distribution(TABLES.target)[tuple(SURE_FIRST)][:, None] * second).ravel()


def sure_first(rule: Rule, answers: int = SHORT) -> float:
    """The second of two tokens is the first that may be wrong, and the last of the draft."""
    return p_value(rule, SURE_FIRST, answers, 2, FREE)


def any_token(rule: Rule, answers: int = LONG) -> float:
    """Any of three tokens may be wrong."""
    return p_value(rule, ANY, answers, 3, KNOWN)


@pytest.mark.parametrize(("law", "rule"), crossed([sure_first, any_token], RATIO_RULES, together=1))
def test_short_answers_follow_the_target(rule: Rule, law: Callable[[Rule], float]) -> None:
    assert law(rule) > LEAST


def test_a_missing_residual_would_be_noticed_almost_surely() -> None:
    law = law_of_text(distribution(TABLES.target), SURE_FIRST, 2).ravel()
    assert power(law_without_residual(), law, SHORT) > 0.99
    assert power(law_without_residual(), law, SHORT // 4) < 0.5, "fewer answers would not do"
    assert power(law, law, SHORT) == pytest.approx(NOTICED)


@pytest.mark.parametrize("rule", RATIO_RULES)
def test_a_last_proposal_without_a_residual_is_noticed(rule: Rule, monkeypatch: pytest.MonkeyPatch) -> None:
    PLANTS[LAST](monkeypatch, rule)
    assert sure_first(rule) < NOTICED


@pytest.mark.full
@pytest.mark.parametrize("law", [sure_first, any_token])
@pytest.mark.parametrize("rule", RATIO_RULES)
def test_thousands_of_short_answers_follow_the_target(rule: Rule, law: Callable[[Rule, int], float]) -> None:
    assert law(rule, 5_000) > LEAST
