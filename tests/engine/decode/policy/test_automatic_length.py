"""Under gamma "auto" the text follows the target's law, for every rule, with a draft model and with a head that copies.

A drafter may look at what it drew to decide whether to go on, never to decide what to hand in. The targets here have no memory:
every token of one long answer has the same known law, whatever stood before. Two tests of it, each of which a sound engine fails
with probability FALSE_ALARM: the tokens given the one before (chi-square), and how often a token is the one that followed the
latest tokens where they stood before (a head's copies are that token, so a fault that favours what it is sure of shows there).
With 99 % probability a law that is off by a total variation of 0.18 would be noticed, and a rate of copies that is off by 0.15;
in every run, with half the tokens, 0.25 and 0.21. Whether a drafter drops what it drew is counted.

The clock stands still but for one step a reading: an automatic gamma looks at it, and the text under rejection and block follows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import pairwise, product
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from engine.acceptance import JUDGES, Judgement, RoundNoise
from engine.decode import loop
from engine.decode.decoding import decode
from engine.decode.policy.adaptive import AdaptivePolicy
from engine.drafters import BlockDrafter, DraftModel, FeatureHead
from engine.drafters.draft import Draft, DraftPlan, Estimate
from engine.drafters.lookup import Lookup
from engine.drafters.sampler import Sampler
from engine.models.head_model import HeadModel
from engine.target.distribution import Distribution, onto_target_ids
from engine.types import INVARIANT_RULES, RULES, Round
from tests.crossings import crossed
from tests.engine.block_files import random_block
from tests.engine.drafters.test_feature_head import CONFIG
from tests.engine.small_models import emitted_ids, tiny_llama
from tests.engine.statistics import CERTAIN, FALSE_ALARM, rate
from tests.engine.tabular import TabularModel
from tests.engine.test_distribution_of_text import PROMPT, independent, options, p_value_of_answer

TOKENS = 600
HALF = 300
SURE = 0.4
UNSURE = 0.3


pytestmark = pytest.mark.usefixtures("steady_clock")


@dataclass(frozen=True)
class Case:
    """p, q: what target and drafter draw from, a head before it copies."""

    p: tuple[float, ...]
    q: tuple[float, ...]
    make: Callable[[tuple[float, ...], tuple[float, ...]], tuple[Any, Any]]

    def text(self, rule: str, plain: bool = False, least: float = 0.2, length: int = TOKENS) -> list[int]:
        """Two answers, one after the other: the longer one is, the more a head copies, and the less it draws."""
        target, drafter = self.make(self.p, self.q)
        tokens: list[int] = []
        proposed = 0
        for answer, seed in enumerate((31, 32), start=1):
            wanted = options(rule, seed=seed, gamma="auto", budget=None, analyse=False)
            with closing(decode(target, PROMPT, None if plain else drafter, wanted)) as rounds:
                while len(tokens) < answer * length // 2:
                    finished = next(rounds)
                    tokens += emitted_ids([finished])
                    proposed += len(finished.proposals)
            del tokens[answer * length // 2 :]
        assert plain or proposed > length * least
        return tokens

    def p_value(self, tokens: list[int]) -> float:
        """The smaller of the two tests'."""
        p = np.array(self.p)
        lookup, followed = Lookup(), []
        lookup.restart(PROMPT)
        for token in tokens:
            match, start, _ = lookup.match()
            if match:
                followed.append((token, lookup.copied(start, 1)[0]))
            lookup.extend((token,))
        drawn, before = np.array(followed).T
        given_the_last = p_value_of_answer(tokens, np.broadcast_to(p, (len(p), len(p))))
        return min(given_the_last, rate(drawn == before, p[before]))


def draft_model(p: tuple[float, ...], q: tuple[float, ...]) -> tuple[Any, Any]:
    tables = independent(list(p), list(q))
    return TabularModel(tables.target), DraftModel(TabularModel(tables.draft))


def forgetful(p: tuple[float, ...]) -> Any:
    """A tiny llama that says the same everywhere."""
    target = tiny_llama(4, layers=2, vocab=len(p))
    target.lm_head.weight *= 0
    target.lm_head.bias = mx.log(mx.array(p))
    mx.eval(target.parameters())
    return target


def block(p: tuple[float, ...], q: tuple[float, ...], copies: bool = True) -> tuple[Any, Any]:
    """As `head`, with a block drafter."""
    target, model = forgetful(p), random_block(len(q), taps=(0, 1), layers=1, vocab_size=len(p))
    model.lm_head.weight *= 0.015
    model.lm_head.bias = mx.log(mx.array(q))
    model.metadata.target_ids = mx.arange(len(q), dtype=mx.int32)
    return target, BlockDrafter(model, target, copies=copies)


def head(p: tuple[float, ...], q: tuple[float, ...], copies: bool = True) -> tuple[Any, Any]:
    """A tiny llama that says the same everywhere, and a head on its features that says about the same everywhere.

    The head proposes the first len(q) tokens by itself, the others only where it copies them.
    """
    target = forgetful(p)
    mx.random.seed(8)
    model = HeadModel(replace(CONFIG, taps=(0, 1), vocab_size=len(p)), len(q))
    model.head.weight *= 0.3 if copies else 0.015
    model.head.bias = mx.log(mx.array(q))
    model.metadata.target_ids = mx.arange(len(q), dtype=mx.int32)
    mx.eval(model.parameters())
    return target, FeatureHead(model, target, copies=copies)


SIMILAR = {
    "draft model": Case((0.5, 0.25, 0.25), (0.46, 0.26, 0.28), draft_model),
    "head": Case((0.6, 0.2, 0.2), (0.2, 0.4, 0.4), head),
    "block": Case((0.6, 0.2, 0.2), (0.2, 0.6, 0.2), block),
}
"""Accepted often enough that a fault at the end of a draft shows; a head comes near its target by copying."""
TOO_SURE = {
    "draft model": Case((0.4, 0.3, 0.3), (0.8, 0.1, 0.1), draft_model),
    "head": Case((0.6, 0.2, 0.2), (0.4, 0.6), head),
}
"""The drafter overrates what it is sure of; a head does so with what it copies, here also a token that it has no column for."""


ALWAYS = [("match", "draft model"), ("gumbel", "head"), ("block", "head"), ("rejection", "block")]
"""Each rule and each drafter. The others, and longer texts, are left to full runs."""


@pytest.mark.parametrize(
    ("rule", "drafter", "length"),
    [
        *((*pair, HALF) for pair in ALWAYS),
        *(
            pytest.param(*pair, TOKENS, marks=pytest.mark.full)
            for pair in product(RULES, SIMILAR)
            if pair[1] != "block" or pair[0] not in INVARIANT_RULES
        ),
    ],
)
def test_the_text_follows_the_target(rule: str, drafter: str, length: int) -> None:
    for case in {SIMILAR[drafter], TOO_SURE.get(drafter, SIMILAR[drafter])}:
        assert case.p_value(case.text(rule, length=length)) > FALSE_ALARM


@cache
def plain_text() -> list[int]:
    return SIMILAR["draft model"].text("match", plain=True)


@pytest.mark.parametrize("rule", ["match", "gumbel"])
def test_the_text_of_a_seed_is_the_plain_one(rule: str) -> None:
    """A head's is in test_feature_head, a block drafter's in test_block."""
    assert SIMILAR["draft model"].text(rule) == plain_text()


@pytest.fixture
def dropping(monkeypatch: pytest.MonkeyPatch) -> None:
    """A drafter that takes its newest token back when it was not sure of it."""
    sound = Sampler.should_continue

    def should_continue(self: Sampler) -> bool:
        on = sound(self)
        if self.is_adaptive and self.chances[-1] < UNSURE:
            self._rows.pop()
            self._tokens.pop()
            return False
        return on

    monkeypatch.setattr(Sampler, "should_continue", should_continue)


ALONE = {"draft model": draft_model, "head": partial(head, copies=False), "block": partial(block, copies=False)}


def drawn_and_proposed(drafter: str) -> list[tuple[int, int]]:
    """For each round of an answer how many tokens the drafter drew, and how many it proposed."""
    target, drawing = ALONE[drafter]((0.25, 0.25, 0.5), (0.25, 0.25, 0.5))
    found, drawn, sound = list[tuple[int, int]](), [0], Sampler.sample

    def sample(self: Sampler, *arguments: Any) -> mx.array:
        drawn[0] += 1
        return sound(self, *arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Sampler, "sample", sample)
        wanted = options("block", seed=1, gamma="auto", budget=None, analyse=False, max_tokens=100)
        for finished in decode(target, PROMPT, drawing, wanted):
            found.append((drawn[0], len(finished.proposals)))
            drawn[0] = 0
    return found


@pytest.mark.parametrize("drafter", ALONE)
def test_all_that_was_drawn_is_proposed(drafter: str) -> None:
    found = drawn_and_proposed(drafter)
    assert all(drawn == proposed for drawn, proposed in found) and sum(drawn for drawn, _ in found) > 20


@pytest.mark.usefixtures("dropping")
@pytest.mark.parametrize("drafter", ALONE)
def test_a_dropped_draw_is_noticed(drafter: str) -> None:
    assert any(drawn > proposed for drawn, proposed in drawn_and_proposed(drafter))


@pytest.mark.parametrize(("drafter", "rule"), crossed(TOO_SURE, ["match", "gumbel"], together=1))
def test_proposals_that_stand_unjudged_because_they_seem_sure_are_noticed(
    rule: str, drafter: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sound = JUDGES[rule]

    def trusting(p: Distribution, q: Any, proposals: mx.array, noise: RoundNoise) -> Judgement:
        verdict = sound(p, q, proposals, noise)
        sure = mx.cumprod((q.probability_of(proposals) >= SURE).astype(mx.int32)).sum()
        accepted = mx.maximum(verdict.accepted, sure)
        return replace(verdict, accepted=accepted, token=mx.take(noise.shared(p), accepted))

    monkeypatch.setitem(JUDGES, rule, trusting)
    case = TOO_SURE[drafter]
    assert case.p_value(case.text(rule)) < CERTAIN


def test_a_head_that_states_another_distribution_than_it_drew_from_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """It draws as ever, but states that all its tokens were equally likely."""
    sound = Sampler.sample

    def hiding(self: Sampler, logits: mx.array, columns: mx.array | None = None) -> mx.array:
        token = sound(self, logits, columns)
        uniform = onto_target_ids(mx.zeros((1, logits.shape[-1])), len(TOO_SURE["head"].p), columns)
        self._rows[-1] = Distribution(uniform, self.inverse_temperature)
        return token

    monkeypatch.setattr(Sampler, "sample", hiding)
    case = TOO_SURE["head"]
    assert case.p_value(case.text("rejection")) < CERTAIN


@pytest.fixture
def parking(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Gamma auto rests for one round after each rejection: no choice could depend more on past verdicts. Which rounds rested."""
    rested: list[bool] = []

    class Flighty(AdaptivePolicy):
        rests = False

        def plan(self, estimates: Mapping[str, Estimate], room: int) -> DraftPlan:
            return DraftPlan(None) if self.rests else super().plan(estimates, room)

        def update(self, finished: Round, draft: Draft) -> None:
            rested.append(not finished.proposals)
            super().update(finished, draft)
            self.rests = bool(finished.rejected)

    monkeypatch.setattr(loop, "AdaptivePolicy", Flighty)
    return rested


@pytest.mark.parametrize("rule", ["rejection", "block"])
def test_the_text_follows_the_target_where_drafting_is_parked(rule: str, parking: list[bool]) -> None:
    case = TOO_SURE["draft model"]
    assert case.p_value(case.text(rule, least=0.05)) > FALSE_ALARM
    changes = sum(before != after for before, after in pairwise(parking))
    assert changes > 100 and 0.1 < sum(parking) / len(parking) < 0.9
