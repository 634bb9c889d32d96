"""The text of `decode` follows the target's law, whatever the rule, the drafter and the options, round after round.

One long answer a case: every token given the two before it, against the table it was drawn from, which gathers thousands of
tokens across hundreds of rounds in a second. Answers are not cut by a length, so that every round is a full one. The judges alone
are tested with far more draws, and with more faults, in test_acceptance.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import cycle, islice
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from engine.acceptance import JUDGES, Judgement, RoundNoise
from engine.decode.decoding import Control, decode
from engine.drafters import DraftModel, NGram
from engine.rounds import theory
from engine.target.distribution import Distribution, Shaper
from engine.target.recurrent_cache import RecurrentCache
from engine.target.window_cache import WindowCache
from engine.types import DecodingOptions, Round
from tests.crossings import crossed
from tests.engine.small_models import emitted_ids, ticking_clock
from tests.engine.statistics import CERTAIN, FALSE_ALARM, chi_square, rate, total
from tests.engine.tabular import (
    DRAFTERS,
    ORDER,
    Pair,
    RecurrentModel,
    TabularModel,
    WindowModel,
    distribution,
    pair,
)

RULES = tuple(JUDGES)
PROMPT = [1, 0]
ENDLESS = 1_000_000


def options(rule: str, **changes: Any) -> DecodingOptions:
    defaults: dict[str, Any] = {"rule": rule, "temperature": 1.0, "gamma": 3, "max_tokens": ENDLESS, "phase_every": 0}
    return DecodingOptions(**defaults | changes)


def rounds_of(tables: Pair, wanted: DecodingOptions, count: int, control: Control | None = None) -> list[Round]:
    """The first rounds of one answer."""
    drafter = DraftModel(TabularModel(tables.draft))
    with closing(decode(TabularModel(tables.target), PROMPT, drafter, wanted, control=control)) as answer:
        return list(islice(answer, count))


def p_value_of_answer(tokens: list[int], conditionals: np.ndarray) -> float:
    """Every token of one answer given as many before it as the table has axes for."""
    vocab_size, before = conditionals.shape[-1], conditionals.ndim - 1
    text = np.array(PROMPT[ORDER - before :] + tokens)
    counts = np.zeros(conditionals.shape)
    np.add.at(counts, tuple(text[lag : len(text) - before + lag] for lag in range(before + 1)), 1)
    return chi_square(counts.reshape(-1, vocab_size), conditionals.reshape(-1, vocab_size))


# The law


@pytest.mark.parametrize(("drafter", "rule"), crossed(DRAFTERS, RULES, together=1))
def test_a_long_answer_follows_the_target_and_accepts_as_predicted(rule: str, drafter: str) -> None:
    tables = pair(drafter, 3)
    rounds = rounds_of(tables, options(rule, seed=1), 250 if drafter == "disjoint" else 120)
    assert p_value_of_answer(emitted_ids(rounds), distribution(tables.target)) > FALSE_ALARM
    check_acceptance(rounds, rule)


def forgetful_p_value(kind: type[TabularModel], rule: str) -> float:
    """Of a long answer whose target and draft model remember in this way; many proposals are rejected."""
    tables = pair("bad", 3)
    wanted = options(rule, seed=1, analyse=False)
    with closing(decode(kind(tables.target), PROMPT, DraftModel(kind(tables.draft)), wanted)) as answer:
        return p_value_of_answer(emitted_ids(list(islice(answer, 400))), distribution(tables.target))


@pytest.mark.parametrize(("kind", "rule"), crossed([WindowModel, RecurrentModel], RULES, together=1))
def test_models_whose_caches_forget_follow_their_law(rule: str, kind: type[TabularModel]) -> None:
    assert forgetful_p_value(kind, rule) > FALSE_ALARM


def test_a_state_that_is_not_restored_and_a_window_that_is_too_short_break_the_law(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(RecurrentCache, "cut", lambda cache, length: setattr(cache, "offset", length))
        assert forgetful_p_value(RecurrentModel, "gumbel") < CERTAIN
    monkeypatch.setattr("engine.target.prompt_cache.WindowCache", lambda size: WindowCache(size - 1))
    assert forgetful_p_value(WindowModel, "gumbel") < CERTAIN


@pytest.mark.parametrize(
    ("rule", "changes"), crossed(RULES, [{"temperature": 0.6, "top_p": 0.8}, {"top_k": 3, "min_p": 0.1}], together=1), ids=str
)
def test_filters_and_temperature_leave_the_law_that_they_define(rule: str, changes: dict[str, Any]) -> None:
    tables = pair("good", 4)
    wanted = distribution(tables.target, **changes)
    assert (wanted == 0).any()
    rounds = rounds_of(tables, options(rule, seed=2, **changes), 150)
    assert p_value_of_answer(emitted_ids(rounds), wanted) > FALSE_ALARM
    check_acceptance(rounds, rule)


@pytest.mark.parametrize("count", [150, pytest.param(600, marks=pytest.mark.full)])
@pytest.mark.parametrize("rule", RULES)
def test_penalties_count_the_proposals_before_a_row(rule: str, count: int) -> None:
    """With a context of two tokens the penalised law is again a table over two tokens. Logits of about 4 make it severe. In 150
    rounds a law that is off by a total variation of 0.27 would be noticed with a probability of 99 %."""
    tables = Pair(*(table + 4 for table in (pair("good", 4).target, pair("good", 4).draft)))
    penalised = tables.target.copy()
    for first, second in np.ndindex(4, 4):
        row = penalised[first, second]
        for token in {first, second}:
            row[token] *= 3.0 if row[token] < 0 else 1 / 3
    rounds = rounds_of(tables, options(rule, seed=3, repetition_penalty=3.0, repetition_context=2), count)
    assert p_value_of_answer(emitted_ids(rounds), distribution(penalised)) > FALSE_ALARM
    check_acceptance(rounds, rule)


@pytest.mark.parametrize("count", [200, pytest.param(800, marks=pytest.mark.full)])
def test_the_law_survives_a_change_of_rule_and_gamma_after_every_round(count: int) -> None:
    """In 200 rounds a law that is off by a total variation of 0.27 would be noticed with a probability of 99 %."""
    tables = pair("bad", 3)
    control, tokens = Control(), []
    drafter = DraftModel(TabularModel(tables.draft))
    with closing(decode(TabularModel(tables.target), PROMPT, drafter, options("block", seed=4), control=control)) as answer:
        for index, finished in enumerate(islice(answer, count)):
            tokens += emitted_ids([finished])
            control.update(rule=RULES[(index * 3 + index // 4) % 4], gamma=1 + index % 4)
    assert p_value_of_answer(tokens, distribution(tables.target)) > FALSE_ALARM


@pytest.mark.parametrize("rule", RULES)
def test_prompt_lookup_follows_the_target(rule: str) -> None:
    tables = pair("good", 3)
    with closing(decode(TabularModel(tables.target), PROMPT, NGram(), options(rule, seed=5))) as answer:
        rounds = list(islice(answer, 150))
    assert any(finished.proposals for finished in rounds)
    assert p_value_of_answer(emitted_ids(rounds), distribution(tables.target)) > FALSE_ALARM
    check_acceptance(rounds, rule)


@pytest.mark.full
@pytest.mark.parametrize("gamma", [1, 8, "auto"])
@pytest.mark.parametrize("drafter", DRAFTERS)
@pytest.mark.parametrize("rule", RULES)
def test_longer_answers_over_more_tokens_follow_the_target(rule: str, drafter: str, gamma: int | str) -> None:
    tables = pair(drafter, 5, seed=2)
    with ticking_clock():
        rounds = rounds_of(tables, options(rule, seed=6, gamma=gamma), 600)
    assert p_value_of_answer(emitted_ids(rounds), distribution(tables.target)) > FALSE_ALARM
    check_acceptance(rounds, rule)


# How often proposals are accepted, by the records


def check_acceptance(rounds: list[Round], rule: str) -> None:
    """Outcomes against the closed forms and against each proposal's own chance, and the sums that always hold."""
    expected, given, outcomes, counts, sums = [], [], [], [], []
    for finished in rounds:
        judged = [proposal for proposal in finished.proposals if proposal.status != "unjudged"]
        assert len(finished.expected) == len(judged)
        assert len(finished.emitted) == finished.accepted + 1
        if finished.proposals:
            counts.append(finished.accepted)
        if rule == "block":
            sums += [sum(proposal.acceptance for proposal in finished.proposals)] if finished.proposals else []
            continue
        expected += [getattr(position, rule) for position in finished.expected]
        given += [proposal.acceptance for proposal in judged]
        outcomes += [proposal.status == "accepted" for proposal in judged]
    if rule == "block":
        assert total(np.array(counts), np.array(sums), bound=max(len(finished.proposals) for finished in rounds)) > FALSE_ALARM
    else:
        assert rate(np.array(outcomes), np.array(expected)) > FALSE_ALARM
        assert rate(np.array(outcomes), np.array(given)) > FALSE_ALARM


@pytest.mark.parametrize("rule", RULES)
def test_expected_is_the_closed_form_of_each_judged_context(rule: str) -> None:
    tables = pair("good", 8)
    p, q = distribution(tables.target, 0.7, 0.9), distribution(tables.draft, 0.7, 0.9)
    text = list(PROMPT)
    for finished in rounds_of(tables, options(rule, seed=7, temperature=0.7, top_p=0.9), 30):
        drafted = text + [proposal.id for proposal in finished.proposals]
        for index, position in enumerate(finished.expected):
            context = tuple(drafted[len(text) + index - ORDER : len(text) + index])
            wanted = theory.expected(p[context], q[context])
            assert (position.match, position.gumbel, position.rejection) == pytest.approx(wanted, abs=1e-5)
            assert finished.proposals[index].p == pytest.approx(p[context][drafted[len(text) + index]], abs=1e-5)
            assert finished.proposals[index].q == pytest.approx(q[context][drafted[len(text) + index]], abs=1e-5)
        text += emitted_ids([finished])


# One seed, one text


@pytest.mark.parametrize("drafter", ["good", "bad", "narrow", "disjoint"])
def test_match_gumbel_and_no_drafter_give_the_same_text(drafter: str) -> None:
    """A table's rows do not depend on how many are asked for at once, so not even a near-tie may differ."""
    tables = pair(drafter, 8)
    length = 40
    wanted = options("gumbel", seed=8, max_tokens=length, temperature=0.8, top_p=0.95, analyse=False)
    plain = emitted_ids(list(decode(TabularModel(tables.target), PROMPT, None, wanted)))
    assert len(plain) == length
    for gamma, rule in zip(range(1, 9) if drafter == "good" else (3, 8), cycle(("match", "gumbel"))):
        drafted = decode(
            TabularModel(tables.target), PROMPT, DraftModel(TabularModel(tables.draft)), wanted.replace(rule=rule, gamma=gamma)
        )
        assert emitted_ids(list(drafted)) == plain, (rule, gamma)


@pytest.mark.parametrize("rule", RULES)
def test_the_same_seed_repeats_an_answer_and_another_does_not(rule: str) -> None:
    tables = pair("good", 8)
    texts = [emitted_ids(rounds_of(tables, options(rule, seed=seed, analyse=False), 15)) for seed in (9, 9, 10)]
    assert texts[0] == texts[1]
    assert texts[0][:15] != texts[2][:15]


# Twins: each breaks one thing in the engine, and the law above must notice


def independent(p: list[float], q: list[float]) -> Pair:
    """Tables without memory, for pairs of distributions on which a defect shows most."""
    shape = (len(p),) * (ORDER + 1)
    return Pair(*(np.broadcast_to(np.log(np.array(row, dtype=np.float32)), shape) for row in (p, q)))


@dataclass(frozen=True)
class Twin:
    """A broken engine and where it shows: what to decode, and for how many rounds."""

    tables: Pair
    options: DecodingOptions
    rounds: int

    def p_value(self) -> float:
        tokens = emitted_ids(rounds_of(self.tables, self.options, self.rounds))
        # Tables without memory: what the token before says is already too much.
        return p_value_of_answer(tokens, distribution(self.tables.target, top_p=self.options.top_p)[0])


@pytest.fixture
def both_ways(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Runs a twin broken, which must be noticed, and whole, which must not."""

    def check(twin: Twin, owner: Any, name: str, broken: Any) -> None:
        with monkeypatch.context() as patch:
            if isinstance(owner, dict):
                patch.setitem(owner, name, broken)
            else:
                patch.setattr(owner, name, broken)
            assert twin.p_value() < CERTAIN
        assert twin.p_value() > FALSE_ALARM

    return check


@pytest.mark.parametrize("rule", ["rejection", "block"])
def test_a_q_from_before_the_filter_is_noticed(both_ways: Any, rule: str) -> None:
    tables = independent([0.3, 0.28, 0.11, 0.11, 0.1, 0.1], [0.5, 0.1, 0.1, 0.1, 0.1, 0.1])
    twin = Twin(tables, options(rule, seed=14, top_p=0.45, analyse=False), 60)
    judge = JUDGES[rule]

    def unfiltered(p: Distribution, q: Any, proposals: mx.array, noise: RoundNoise) -> Judgement:
        before = mx.broadcast_to(mx.array(tables.draft[0, 0]), (q.rows, 6))
        return judge(p, Distribution(before, q.inverse_temperature), proposals, noise)

    both_ways(twin, JUDGES, rule, unfiltered)


@pytest.mark.parametrize("rule", RULES)
def test_a_p_cut_to_the_drafters_vocabulary_is_noticed(both_ways: Any, rule: str) -> None:
    tables = Pair(independent([0.2, 0.2, 0.6], [0.2, 0.2, 0.6]).target, np.zeros((3, 3, 2), dtype=np.float32))
    twin = Twin(tables, options(rule, seed=15, analyse=False), 60)
    whole = Shaper.shape

    def cut(self: Shaper, logits: mx.array, *others: Any, **named: Any) -> Distribution:
        return whole(self, mx.where(mx.arange(3) < 2, logits, -mx.inf), *others, **named)

    both_ways(twin, Shaper, "shape", cut)
