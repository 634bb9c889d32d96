"""A growing tree continues where its tokens are likely to be right, and proposes as many of them as the policy asks for."""

from __future__ import annotations

from collections.abc import Sequence

import mlx.core as mx
import numpy as np
import pytest

from engine.acceptance import RoundNoise
from engine.drafters.draft import Draft, DraftPlan
from engine.drafters.sampler import Sampler
from engine.drafters.tree_sampler import OTHERS, OTHERS_BY_Q
from engine.noise import reference
from engine.noise.source import NoiseSource
from engine.target.distribution import Shaper
from engine.types import DecodingOptions, Rule

VOCABULARY, POSITION = 12, 5
LOGITS = np.random.default_rng(4).normal(0, 2, (VOCABULARY, VOCABULARY)).astype(np.float32)
"""Raw logits after each token."""


class Policy:
    """Expands and proposes given numbers of nodes, and records what it was asked."""

    def __init__(self, expanded: Sequence[int], size: int) -> None:
        self.expanded, self.size = list(expanded), size
        self.levels: list[list[float]] = []

    def should_expand(self, plan: DraftPlan, chances: Sequence[float], is_copy: bool = False) -> bool:
        return True

    def corrected(self, plan: DraftPlan, chance: float) -> float:
        return chance

    def nodes_to_expand(self, plan: DraftPlan, reached: Sequence[float], level: Sequence[float], steps: int) -> int:
        self.levels.append(list(level))
        return self.expanded.pop(0)

    def tree_size(self, plan: DraftPlan, reached: Sequence[float], steps: int) -> int:
        return self.size


def grown(
    policy: Policy,
    rule: Rule = "gumbel",
    temperature: float = 0.8,
    depth: int = 4,
    copied: Sequence[int] = (),
    width: int = 3,
    budget: int = 64,
) -> Draft:
    """A tree of a drafter that knows a node's logits from its token alone."""
    plan = DraftPlan("d", 8, is_adaptive=True, budget=budget, width=width, grows=True)
    options = DecodingOptions(rule=rule, temperature=temperature)
    noise = RoundNoise(NoiseSource(3, VOCABULARY), POSITION)
    sampler = Sampler(Shaper(options), rule, noise, [1, 2], VOCABULARY, plan, policy)
    growing = sampler.tree(depth, copied, [0.6] * len(copied))
    while nodes := growing.waiting:
        tokens = [2 if node == 0 else int(growing.tokens([node]).item()) for node in nodes]
        growing.expand(nodes, mx.array(LOGITS[tokens]))
    return growing.draft()


def scores(token: int, depth: int, temperature: float) -> np.ndarray:
    """Log-probability plus noise, up to a constant, of each token after `token`."""
    return LOGITS[token] / temperature + reference.gumbel(3, POSITION + depth, VOCABULARY)


@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_the_children_of_a_node_are_the_highest_scores_by_rank(temperature: float) -> None:
    draft = grown(Policy([3, 0], 12), temperature=temperature)
    ids, shape = [2, *np.asarray(draft.tree.drafted).tolist()], draft.tree.shape
    assert [len(children) for children in shape.children[:4]] == [3, 3, 3, 3]
    for node in range(4):
        wanted = LOGITS[ids[node]] if not temperature else scores(ids[node], shape.depths[node], temperature)
        assert [ids[child] for child in shape.children[node]] == np.argsort(-wanted)[:3].tolist()


def test_chances_are_a_softmax_of_the_scores_in_units_of_logits() -> None:
    chances = grown(Policy([0], 3)).chances
    found = scores(2, 0, 0.8)
    best = np.argsort(-found)[:3]
    weights, q = np.exp((found[best] - found[best[0]]) * 0.8), np.exp(LOGITS[2] / 0.8)
    others = OTHERS + OTHERS_BY_Q * (1 - q[best].sum() / q.sum())
    np.testing.assert_allclose(chances, weights / (others + weights.sum()), rtol=1e-4)


@pytest.mark.parametrize(("rule", "temperature"), [("gumbel", 0.0), ("match", 1.0)])
def test_without_shared_noise_chances_are_q(rule: Rule, temperature: float) -> None:
    draft = grown(Policy([0], 3), rule, temperature)
    q = np.exp(LOGITS[2]) / np.exp(LOGITS[2]).sum()
    np.testing.assert_allclose(draft.chances, np.minimum.accumulate(q[np.asarray(draft.tree.drafted)]), rtol=1e-4)


def test_only_the_likeliest_nodes_are_expanded_and_the_likeliest_of_all_proposed() -> None:
    policy = Policy([1, 2, 0], 5)
    draft = grown(policy)
    shape = draft.tree.shape
    assert draft.steps == 3 and [len(level) for level in policy.levels] == [3, 3, 6]
    assert all(level == sorted(level, reverse=True) for level in policy.levels)
    assert shape.size == 5 and set(draft.tree.q_nodes) <= {0, 1, 2, 3}
    reached = [1.0]
    for parent, chance in zip(shape.parents, draft.chances, strict=True):
        reached.append(reached[parent] * chance)
    left_out = [chance for chance in policy.levels[0] + policy.levels[1] + policy.levels[2] if chance not in reached]
    assert min(reached[4:]) >= max(left_out), "nodes 1 to 3 were expanded, the others are the likeliest left"


def test_a_copy_is_the_spine_and_the_drafters_choices_share_what_it_leaves() -> None:
    draft = grown(Policy([1, 1, 0], 6), copied=[7, 8, 9])
    ids, shape = [2, *np.asarray(draft.tree.drafted).tolist()], draft.tree.shape
    copies = sorted(index + 1 for index in draft.tree.placed)
    assert [ids[node] for node in copies] == [7, 8, 9] and [shape.depths[node] for node in copies] == [1, 2, 3]
    beside = [node for node in shape.children[0] if node not in copies]
    assert beside and 7 not in [ids[node] for node in beside]
    assert sum(draft.chances[node - 1] for node in beside) < 0.4


def test_a_copy_that_the_drafter_would_draw_too_is_likelier() -> None:
    own = int(np.argmax(scores(2, 0, 0.8)))
    alone, both = grown(Policy([1, 0], 3)), grown(Policy([1, 0], 3), copied=[own])
    assert both.chances[0] == pytest.approx(0.6 + 0.4 * alone.chances[0])
    ids = np.asarray(both.tree.drafted).tolist()
    assert ids[0] == own and ids.count(own) == 1 and both.tree.placed == {0}


def test_no_more_nodes_are_expanded_than_the_budget_has() -> None:
    draft = grown(Policy([3] * 8, 7), depth=8, budget=7)
    assert draft.tree.size == 7


def test_a_copy_whose_alternatives_do_not_pay_needs_no_drafter() -> None:
    draft = grown(Policy([0], 2), copied=[7, 8, 9])
    assert draft.steps == 0 and np.asarray(draft.tree.drafted).tolist() == [7, 8]


def test_a_tree_without_branches_is_a_chain_with_a_distribution_for_each_token() -> None:
    for copied in ((), (7,)):
        draft = grown(Policy([1, 1, 0], 2), copied=copied)
        assert draft.tree.is_chain and draft.tree.shape.parents == (0, 1) and draft.tree.q.rows == 2
        ids = np.asarray(draft.tree.drafted).tolist()
        q = np.exp(LOGITS[ids[0]] / 0.8)
        np.testing.assert_allclose(np.asarray(draft.tree.q.probabilities)[1], q / q.sum(), rtol=1e-4)
        assert draft.tree.placed == (frozenset({0}) if copied else frozenset())


@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_without_a_finite_logit_nothing_is_proposed(temperature: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.engine.drafters.test_growing_tree.LOGITS", np.full_like(LOGITS, -np.inf))
    assert grown(Policy([0], 3), temperature=temperature).tree.size == 0


def test_at_least_one_token_is_proposed() -> None:
    assert grown(Policy([0], 0)).tree.size == 1
