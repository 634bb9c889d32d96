"""Every round is what the papers say of its noise: drafted tokens, verdict and the token behind, worked out anew in numpy.

A table says p and q, `noise_reference` the noise and the coins. A fault that a test of the text's law would show after thousands
of answers shows here in the first round that it touches, under an automatic gamma and a fixed one alike.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from itertools import islice
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from engine.decode import loop
from engine.decode.decoding import decode
from engine.decode.policy.adaptive import MOST_SAMPLED, AdaptivePolicy
from engine.drafters import DraftModel, NGram
from engine.drafters.automatic import Automatic
from engine.drafters.draft import DraftPlan, Estimate
from engine.drafters.sampler import Sampler
from engine.noise import reference as noise_reference
from engine.types import INVARIANT_RULES, RATIO_RULES, RULES, Rule
from tests.engine.plants import PLANTS
from tests.engine.small_models import emitted_ids
from tests.engine.tabular import ORDER, Pair, TabularModel, distribution, pair
from tests.engine.test_block_law import block_thresholds
from tests.engine.test_distribution_of_text import PROMPT, options

SEED = 21
ROUNDS = 80
TABLES = pair("good", 4)
GAMMAS = ("auto", 3)


pytestmark = pytest.mark.usefixtures("steady_clock")


def rows_of(table: np.ndarray, text: Sequence[int], drafted: Sequence[int], count: int) -> np.ndarray:
    """(count, vocab): a table's distributions behind a text, each given the drafted tokens before it."""
    whole = [0] * ORDER + [*text, *drafted]
    start = ORDER + len(text)
    return np.array([table[tuple(whole[start + row - ORDER : start + row])] for row in range(count)])


def draw(weights: np.ndarray, position: int, domain: str, began: int | None = None) -> int:
    with np.errstate(divide="ignore"):
        return int(np.argmax(np.log(weights) + noise_reference.gumbel(SEED, position, len(weights), domain, began)))


def judged(rule: Rule, p: np.ndarray, q: np.ndarray, drafted: Sequence[int], began: int) -> tuple[int, int]:
    """How many of the proposals stand, and the token behind them. p: (gamma + 1, vocab). q: (gamma, vocab)."""
    gamma = len(drafted)
    if rule in INVARIANT_RULES or not gamma:
        draws = [draw(row, began + index, "shared") for index, row in enumerate(p)]
        accepted = next((index for index in range(gamma) if draws[index] != drafted[index]), gamma)
        return accepted, draws[accepted]
    coins = [noise_reference.coin(SEED, began + index, began) for index in range(gamma)]
    if rule == "rejection":
        ratios = [p[index, token] / q[index, token] for index, token in enumerate(drafted)]
        accepted = next((index for index in range(gamma) if coins[index] >= ratios[index]), gamma)
        scale = 1.0
    else:
        weights, thresholds = block_thresholds(p, q, drafted)
        accepted = max((kept for kept in range(1, gamma + 1) if coins[kept - 1] < thresholds[kept - 1]), default=0)
        scale = weights[accepted]
    if accepted == gamma:
        return accepted, draw(p[gamma], began + gamma, "shared")
    residual = np.maximum(scale * p[accepted] - q[accepted], 0)
    return accepted, draw(residual if residual.sum() > 0 else p[accepted], began + accepted, "residual", began)


def odd_round(rule: Rule, gamma: Any, drafter: Any, tables: Pair = TABLES) -> tuple[str, Counter[str]]:
    """What is wrong with the first round that is not as it should be, "" if none is; and the number of rounds of each kind."""
    p_table, q_table = distribution(tables.target), distribution(tables.draft)
    text, kinds, drawn = list(PROMPT), Counter[str](), [0]
    sound = Sampler.sample

    def counted(self: Sampler, *arguments: Any) -> mx.array:
        drawn[0] += 1
        return sound(self, *arguments)

    wanted = options(rule, seed=SEED, gamma=gamma, analyse=False)
    with pytest.MonkeyPatch.context() as patch, closing(decode(TabularModel(tables.target), PROMPT, drafter, wanted)) as answer:
        patch.setattr(Sampler, "sample", counted)
        for finished in islice(answer, ROUNDS):
            began, drafted = len(text), [proposal.id for proposal in finished.proposals]
            q = rows_of(q_table, text, drafted, len(drafted))
            for index, proposal in enumerate(finished.proposals):
                if proposal.copied:
                    q[index] = np.arange(q.shape[1]) == proposal.id
                elif drafted[index] != draw(q[index], began + index, *(("shared",) if rule == "gumbel" else ("draft", began))):
                    return f"round {finished.index}: proposal {index}", kinds
            if sum(not proposal.copied for proposal in finished.proposals) != drawn[0]:
                return f"round {finished.index}: {drawn[0]} were drawn", kinds
            drawn[0] = 0
            accepted, token = judged(rule, rows_of(p_table, text, drafted, len(drafted) + 1), q, drafted, began)
            if finished.accepted != accepted:
                return f"round {finished.index}: {finished.accepted} accepted, not {accepted}", kinds
            if emitted_ids([finished]) != [*drafted[:accepted], token]:
                return f"round {finished.index}: {emitted_ids([finished])}", kinds
            text += emitted_ids([finished])
            length = len(drafted)
            kinds[
                "plain" if not length else "bonus" if accepted == length else "middle" if accepted < length - 1 else "last"
            ] += 1
            kinds["copied"] += any(proposal.copied for proposal in finished.proposals)
    return "", kinds


class UntilUnsure(AdaptivePolicy):
    """Drafts two tokens in every round, three behind a likely one, whatever the clock says."""

    def plan(self, estimates: Mapping[str, Estimate], room: int) -> DraftPlan:
        return DraftPlan("draft", min(MOST_SAMPLED, room), MOST_SAMPLED, is_adaptive=True)

    def should_expand(self, plan: DraftPlan, chances: Sequence[float], is_copy: bool = False) -> bool:
        return len(chances) < 2 + (chances[0] > 0.4)


class InTurn(UntilUnsure):
    """Has copies proposed in every other round where there are any."""

    turn = False

    def plan(self, estimates: Mapping[str, Estimate], room: int) -> DraftPlan:
        self.turn = not self.turn
        if chances := estimates["ngram"].chances if self.turn else ():
            return DraftPlan("ngram", min(3, len(chances), room), is_adaptive=True)
        return super().plan(estimates, room)


@pytest.fixture(autouse=True)
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "AdaptivePolicy", UntilUnsure)


def alone() -> Any:
    return DraftModel(TabularModel(TABLES.draft), "draft")


@pytest.mark.parametrize("gamma", GAMMAS)
@pytest.mark.parametrize("rule", RULES)
def test_every_round_is_what_its_noise_says(rule: Rule, gamma: Any) -> None:
    odd, kinds = odd_round(rule, gamma, alone())
    assert not odd
    assert min(kinds[kind] for kind in ("bonus", "middle", "last")) >= 5, "each kind of fault would show in several rounds"


@pytest.mark.parametrize("rule", RATIO_RULES)
def test_every_round_of_several_drafters_is_too(rule: Rule, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "AdaptivePolicy", InTurn)
    odd, kinds = odd_round(rule, "auto", Automatic([NGram(), alone()]))
    assert not odd
    assert kinds["copied"] >= 20 and kinds["bonus"] >= 5 and kinds["middle"] + kinds["last"] >= 10


@pytest.mark.parametrize("plant", PLANTS)
@pytest.mark.parametrize("gamma", GAMMAS)
@pytest.mark.parametrize("rule", RATIO_RULES)
def test_a_fault_is_noticed(rule: Rule, gamma: Any, plant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    PLANTS[plant](monkeypatch, rule)
    odd, _ = odd_round(rule, gamma, alone())
    assert odd
