"""Under gamma "auto" no drafter draws more than 2 tokens before its first verdict, or more than 8 later. Copies are not counted.

A fresh installation knows neither costs nor acceptance. An answer there must not stand still while a drafter that is sure of
itself, and wrong, draws dozens of tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from itertools import islice
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from engine.decode.context import DecodeContext
from engine.decode.decoding import DecodingOptions, decode
from engine.decode.loop import DecodeLoop
from engine.decode.policy.costs import MachineCosts
from engine.drafters import BlockDrafter, DraftModel, FeatureHead, NGram
from engine.drafters.automatic import Automatic
from engine.drafters.base import Drafter, Proceed, always
from engine.drafters.draft import Draft, DraftContext, DrafterCapabilities, DraftPlan
from engine.drafters.sampler import Sampler
from engine.models.loaded import LoadedModel
from engine.types import Round
from tests.engine.block_files import random_block
from tests.engine.drafters.test_feature_head import random_head
from tests.engine.small_models import PROMPT, emitted_ids, tiny_llama
from tests.engine.tabular import TabularModel
from tests.engine.test_distribution_of_text import independent
from tests.exactness import make_drafter, prompt_tokens, read_prompts

FIRST, LATER = 2, 8
INSTALLATIONS = 20
ROUNDS = 11
OPTIONS = DecodingOptions(gamma="auto", max_tokens=1_000, analyse=False, phase_every=0)
SURE = independent([0.01, 0.98, 0.01], [0.98, 0.01, 0.01])
"""Nearly everything that the drafter is sure of is rejected."""
ALIKE = independent([0.98, 0.01, 0.01], [0.98, 0.01, 0.01])


pytestmark = pytest.mark.usefixtures("steady_clock")


class Toy(Drafter):
    """Samples from one distribution, as a drafter of somebody else's might: asking whether another token pays, or not."""

    name = "toy"

    def __init__(self, asks: bool = True, sets_own_length: bool = True) -> None:
        self.asks = asks
        self.capabilities = DrafterCapabilities(samples=True, sets_own_length=sets_own_length)

    def start(self, context: DraftContext, proceed: Proceed = always) -> bool:
        return True

    def propose(self, plan: DraftPlan, sampler: Sampler) -> Draft:
        for step in range(plan.length):
            sampler.sample(mx.array(SURE.draft[0, 0]))
            if self.asks and step + 1 < plan.length and not sampler.should_continue():
                break
        return sampler.draft()

    def commit(self, path: Sequence[int], tokens: Sequence[int], hidden_states: mx.array | None) -> None:
        pass


class CopyingToy(Toy):
    """Samples as many tokens as it may, and then copies."""

    def __init__(self) -> None:
        super().__init__()
        self.capabilities = DrafterCapabilities(samples=True, copies=True, sets_own_length=True)

    def propose(self, plan: DraftPlan, sampler: Sampler) -> Draft:
        for step in range(plan.length):
            if sampler.remaining:
                sampler.sample(mx.array(ALIKE.draft[0, 0]))
            else:
                sampler.place(0, 0.99)
            if step + 1 < plan.length and not sampler.should_continue():
                break
        return sampler.draft()


def with_table(drafter: Callable[[], Any], tables: Any = SURE) -> tuple[Any, Any]:
    return TabularModel(tables.target), drafter()


def sharp_llama(seed: int, layers: int = 2) -> Any:
    model = tiny_llama(seed, layers)
    model.lm_head.weight *= 4
    return model


def head() -> tuple[Any, Any]:
    model = random_head()
    model.head.weight *= 20
    target = sharp_llama(1, 4)
    return target, FeatureHead(model, target, copies=False)


def block() -> tuple[Any, Any]:
    target = sharp_llama(1, 4)
    return target, BlockDrafter(random_block(block_size=24), target, copies=False)


def itself() -> tuple[Any, Any]:
    target = sharp_llama(1)
    return target, DraftModel(target, "itself")


DRAWING: dict[str, Callable[[], tuple[Any, Any]]] = {
    "draft model": lambda: with_table(lambda: DraftModel(TabularModel(SURE.draft))),
    "target itself": itself,
    "head": head,
    "block": block,
    "toy that asks": lambda: with_table(Toy),
    "toy that does not ask": lambda: with_table(lambda: Toy(asks=False)),
    "toy without a length of its own": lambda: with_table(lambda: Toy(asks=False, sets_own_length=False)),
}


def first_rounds(target: Any, drafter: Any, seed: int, costs: MachineCosts | None = None, **changes: Any) -> list[Round]:
    prompt = PROMPT if getattr(target, "vocab_size", 0) != 3 else [1, 0]
    context = DecodeContext(target, prompt, drafter, OPTIONS.replace(seed=seed, **changes), costs=costs or MachineCosts())
    with closing(DecodeLoop(context).rounds()) as answer:
        return list(islice(answer, ROUNDS))


def drawn(finished: Round) -> int:
    """Positions for which something was drawn: the drafter's passes."""
    depths = zip(finished.depths, finished.proposals, strict=True)
    return max((depth for depth, proposal in depths if not proposal.copied), default=0)


def check(rounds: Sequence[Round]) -> int:
    """Fails where a round drew too many; returns the most that one drew."""
    judged: set[str | None] = set()
    for finished in rounds:
        assert drawn(finished) <= (LATER if finished.proposer in judged else FIRST), [len(each.proposals) for each in rounds]
        if drawn(finished):
            judged.add(finished.proposer)
    return max(map(drawn, rounds))


def test_no_answer_of_a_fresh_installation_stands_still_for_a_long_draft() -> None:
    """Twenty of them: rounds 0 to 10, with the drafter `auto`."""
    target, drafter = TabularModel(SURE.target), Automatic([NGram(), DraftModel(TabularModel(SURE.draft), "draft")])
    assert max(check(first_rounds(target, drafter, seed)) for seed in range(INSTALLATIONS)) > FIRST


@pytest.mark.parametrize("together", [False, True], ids=["alone", "in auto"])
@pytest.mark.parametrize("kind", DRAWING)
def test_every_drafter_that_draws_is_bounded(kind: str, together: bool) -> None:
    target, drafter = DRAWING[kind]()
    drafter = Automatic([drafter]) if together else drafter
    assert check(first_rounds(target, drafter, 1)[:6]) >= FIRST


def test_a_drafter_that_is_always_right_draws_as_many_as_it_may() -> None:
    costs = MachineCosts({1: 50.0, 16: 51.0}, {"itself": (0.1, 0.1)})
    rounds = first_rounds(*itself(), 3, costs, temperature=0.0)
    assert [drawn(finished) for finished in rounds[:3]] == [FIRST, LATER, LATER]


def test_a_stored_acceptance_is_a_verdict() -> None:
    costs = MachineCosts(alphas={"itself at 0.8": 0.9})
    assert drawn(first_rounds(*itself(), 3, costs, temperature=0.8, budget=None)[0]) > FIRST
    assert drawn(first_rounds(*itself(), 3, costs, temperature=0.3, budget=None)[0]) <= FIRST, "of another temperature"


def test_a_gamma_that_was_asked_for_is_kept_to() -> None:
    for drafter in (DraftModel(TabularModel(SURE.draft)), Automatic([DraftModel(TabularModel(SURE.draft))])):
        rounds = first_rounds(TabularModel(SURE.target), drafter, 1, gamma=20)
        assert {drawn(finished) for finished in rounds} == {20}


def test_copies_are_not_counted() -> None:
    rounds = first_rounds(*with_table(CopyingToy, ALIKE), 1)
    check(rounds)
    assert drawn(rounds[0]) == FIRST
    assert any(len(finished.proposals) > LATER + FIRST for finished in rounds)
    target, costs = TabularModel(ALIKE.target), MachineCosts({1: 50.0, 16: 52.0})
    for drafter in (NGram(), Automatic([NGram(), DraftModel(TabularModel(SURE.draft))])):
        assert max(len(finished.proposals) for finished in first_rounds(target, drafter, 1, costs)) > LATER


@pytest.mark.full
@pytest.mark.parametrize("name", ["auto", "head", "builtin-draft", "builtin-block"])
def test_no_answer_of_the_built_in_model_does_either(builtin: LoadedModel, name: str) -> None:
    texts: list[tuple[int, ...]] = []
    for seed, prompt in enumerate(read_prompts(limit=INSTALLATIONS if name == "auto" else 3)):
        options = OPTIONS.replace(seed=seed, temperature=0.8)
        with closing(decode(builtin, prompt_tokens(builtin, prompt), make_drafter(name, builtin), options)) as answer:
            rounds = list(islice(answer, ROUNDS))
        check(rounds)
        texts.append(tuple(emitted_ids(rounds)))
    assert len(set(texts)) == len(texts) and np.mean([len(text) for text in texts]) > ROUNDS
