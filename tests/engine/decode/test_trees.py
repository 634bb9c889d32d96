"""Trees: the text is the plain one of a seed, or follows the target's law under rejection; and what is recorded is what happened.

The law is that of a table (`tests.engine.tabular`): hundreds of tokens, each given the two before it. With 300 tokens a
probability of 0.3 that is off by 0.12 in every context comes out below CERTAIN. How siblings are judged is tested with far more
draws, and with faulty variants, in `tests.engine.test_sibling_rejection`.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import islice
from typing import Any
from unittest.mock import patch

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest
from mlx.utils import tree_map

from engine.decode.context import DecodeContext
from engine.decode.decoding import decode
from engine.decode.loop import DecodeLoop
from engine.decode.policy.costs import MachineCosts
from engine.decode.policy.estimates import Cost
from engine.decode.run_control import Clock
from engine.decode.target_session import TargetSession, chains_reason
from engine.drafters.base import Drafter
from engine.drafters.draft import DrafterCapabilities, DraftTree
from engine.drafters.draft_model import DraftModel
from engine.drafters.lookup import CopySource
from engine.drafters.ngram import NGram
from engine.rounds.codec import round_to_json
from engine.target.distribution import OneHot
from engine.types import DecodingOptions, Round
from engine.values.tree_shape import TreeShape
from tests.crossings import crossed
from tests.engine.small_models import PROMPT, emitted_ids, tiny_llama, tiny_sliding_window
from tests.engine.statistics import FALSE_ALARM
from tests.engine.tabular import Pair, RecurrentModel, TreeModel, distribution, pair
from tests.engine.test_distribution_of_text import p_value_of_answer
from tests.lazy_graph import as_on_a_gpu
from tests.round_differences import differences

BEFORE = [1, 0]
RULES = ("match", "rejection", "gumbel")
CHOSEN = {"gamma": "auto", "budget": "auto"}


class Follower(NGram):
    """A drafter that reads two layers of its target."""

    def __init__(self) -> None:
        super().__init__()
        self.capabilities = DrafterCapabilities(samples=False, hidden_layers=(0, 2))


def near(model: nn.Module) -> nn.Module:
    """A model with slightly other weights: a drafter whose proposals are often right."""
    other = tiny_llama(1, layers=4)
    other.update(tree_map(lambda one, two: one + 0.15 * two, model.parameters(), other.parameters()))
    return other


TARGET = tiny_llama(0, layers=4)
DRAFT = near(TARGET)


def options(rule: str, **changes: Any) -> DecodingOptions:
    given: dict[str, Any] = {"rule": rule, "temperature": 1.0, "gamma": 3, "budget": 6, "width": 3, "seed": 1, "phase_every": 0}
    return DecodingOptions(**given | {"max_tokens": 1_000_000} | changes)


def law_rounds(tables: Pair, wanted: DecodingOptions, count: int, copies: bool = False) -> list[Round]:
    """The first rounds of a long answer whose target and draft model read trees. In a text of so few tokens everything occurred
    before, so copies would take the place of nearly all first choices."""
    hidden = contextlib.nullcontext() if copies else patch.object(CopySource, "find", lambda source, limit: ([], []))
    with hidden:
        return rounds_of(TreeModel(tables.target), BEFORE, DraftModel(TreeModel(tables.draft)), wanted, count)


def rounds_of(target: Any, prompt: list[int], drafter: Drafter, wanted: DecodingOptions, count: int) -> list[Round]:
    """The first rounds of an answer. Where the policy chooses the trees, another row costs a hundredth of a plain round, whatever
    this machine takes."""
    costs = MachineCosts({rows: 99.0 + rows for rows in range(1, 17)}, {"draft model": (1.0, 1.0)})
    context = DecodeContext(target, prompt, drafter, wanted, costs=costs)
    with patch.object(Cost, "learn", lambda *_: None), closing(DecodeLoop(context).rounds()) as answer:
        return list(islice(answer, count))


def p_value(rounds: list[Round], law: np.ndarray) -> float:
    """How well the text fits the law of each token given the two before it."""
    return p_value_of_answer([token.id for finished in rounds for token in finished.emitted], law)


# The law of the text


@pytest.mark.parametrize(("rule", "copies"), crossed(RULES, [False, True], together=1))
def test_trees_that_the_policy_chooses_follow_the_target(rule: str, copies: bool) -> None:
    tables = pair("good", 4)
    rounds = law_rounds(tables, options(rule, analyse=False, **CHOSEN), 150, copies)
    assert p_value(rounds, distribution(tables.target)) > FALSE_ALARM
    assert sum(finished.is_tree for finished in rounds) > 5


@pytest.mark.parametrize(("rule", "temperature"), crossed(RULES, [0.5, 0.8, 1.0, 1.6], together=1))
def test_the_text_follows_the_target_at_every_temperature(rule: str, temperature: float) -> None:
    tables = pair("good", 4)
    rounds = law_rounds(tables, options(rule, temperature=temperature, analyse=False), 150)
    assert p_value(rounds, distribution(tables.target, temperature)) > FALSE_ALARM
    assert sum(finished.is_tree for finished in rounds) > 120
    ranks = [proposal.rank for finished in rounds for proposal in finished.proposals if proposal.status == "accepted"]
    assert ranks.count(1) >= 5, "second choices were judged"


@pytest.mark.parametrize("rule", RULES)
def test_copies_with_other_choices_beside_them_follow_the_target(rule: str) -> None:
    tables = pair("good", 4)
    rounds = law_rounds(tables, options(rule, analyse=False), 150, copies=True)
    assert p_value(rounds, distribution(tables.target)) > FALSE_ALARM
    accepted = [proposal.copied for finished in rounds for proposal in finished.proposals if proposal.status == "accepted"]
    assert min(accepted.count(True), accepted.count(False)) > 30


@pytest.mark.parametrize(
    "kind", ["one-hot", "disjoint", "narrow", *(pytest.param(kind, marks=pytest.mark.full) for kind in ("bad", "wide"))]
)
def test_rejection_follows_the_target_with_any_drafter(kind: str) -> None:
    tables = pair(kind, 3)
    rounds = law_rounds(tables, options("rejection", analyse=False), 150)
    assert p_value(rounds, distribution(tables.target)) > FALSE_ALARM


def test_filters_shape_a_tree_as_they_shape_a_chain() -> None:
    tables = pair("good", 4)
    rounds = law_rounds(tables, options("rejection", analyse=False, temperature=0.6, top_p=0.8), 150)
    assert p_value(rounds, distribution(tables.target, temperature=0.6, top_p=0.8)) > FALSE_ALARM


def test_penalties_count_the_ancestors_of_a_node() -> None:
    """Under rejection, where p and q both matter."""
    tables = Pair(*(table + 4 for table in (pair("good", 4).target, pair("good", 4).draft)))
    penalised = tables.target.copy()
    for first, second in np.ndindex(4, 4):
        for token in {first, second}:
            penalised[first, second, token] *= 3.0 if penalised[first, second, token] < 0 else 1 / 3
    rounds = law_rounds(tables, options("rejection", repetition_penalty=3.0, repetition_context=2, analyse=False), 150)
    assert p_value(rounds, distribution(penalised)) > FALSE_ALARM


def test_a_path_whose_rows_stay_where_they_were_changes_the_text() -> None:
    wanted = options("gumbel", temperature=0.8, max_tokens=30, budget=12, gamma=4)
    with patch("engine.decode.target_session.keep_path", lambda cache, length, rows, whose: cut(cache, length + len(rows))):
        found = list(decode(TARGET, PROMPT, DraftModel(DRAFT), wanted))
    assert emitted_ids(found) != plain_text(TARGET, PROMPT, wanted)


def cut(cache: Any, length: int) -> None:
    """Cuts a cache without moving a row, which is right for chains only."""
    for layer in cache:
        layer.trim(layer.offset - length)


# One seed, one text


def plain_text(target: Any, prompt: list[int], wanted: DecodingOptions) -> list[int]:
    return emitted_ids(list(decode(target, prompt, None, wanted.replace(budget=None))))


@pytest.mark.parametrize(
    ("sampling", "size"),
    crossed(
        [("gumbel", 0.8), ("match", 1.2), ("gumbel", 0.0), ("rejection", 0.0)],
        [(1, 2), (3, 2), (8, 8), (17, 3), (32, 4)],
        together=1,
    ),
)
def test_no_budget_changes_the_text_of_a_seed(sampling: tuple[str, float], size: tuple[int, int]) -> None:
    (rule, temperature), (budget, width) = sampling, size
    wanted = options(rule, temperature=temperature, budget=budget, width=width, gamma=6, max_tokens=30, analyse=False)
    prompt = PROMPT * 2
    found = list(decode(TARGET, prompt, DraftModel(DRAFT), wanted))
    assert emitted_ids(found) == plain_text(TARGET, prompt, wanted)
    assert all(len(finished.proposals) <= budget for finished in found)
    assert all(sum(proposal.parent == -1 for proposal in finished.proposals) <= width for finished in found)


@pytest.mark.parametrize(
    ("sampling", "prompt"),
    crossed(
        [("gumbel", 0.8), ("match", 1.2), ("gumbel", 0.0), ("rejection", 0.0)],
        [PROMPT * 2, [5, 6, 7, 8, 9, 10, 11, 12] * 3],
        together=1,
    ),
)
def test_no_tree_that_the_policy_grows_changes_the_text_of_a_seed(sampling: tuple[str, float], prompt: list[int]) -> None:
    for seed in range(2):
        wanted = options(sampling[0], temperature=sampling[1], max_tokens=40, seed=seed, analyse=False, **CHOSEN)
        found = rounds_of(TARGET, prompt, DraftModel(DRAFT), wanted, 40)
        assert emitted_ids(found) == plain_text(TARGET, prompt, wanted)
        assert sum(finished.is_tree for finished in found) > len(found) / 2


def test_an_automatic_budget_drafts_chains_at_a_gamma_that_is_a_number() -> None:
    wanted = options("gumbel", budget="auto", max_tokens=12)
    assert not any(finished.is_tree for finished in decode(TARGET, PROMPT, DraftModel(DRAFT), wanted))
    assert chains_reason(wanted, NGram(), TARGET) == ""


@pytest.mark.full
@pytest.mark.parametrize("budget", [1, 2, 4, 8, 16, 32])
@pytest.mark.parametrize("width", [1, 2, 3, 4, 8])
def test_no_budget_changes_the_text_of_ten_seeds(budget: int, width: int) -> None:
    """300 answers, with rule and temperature in turn."""
    for seed in range(10):
        rule, temperature = ("gumbel", "match")[seed % 2], (0.0, 0.2, 0.8, 1.0, 1.3)[seed % 5]
        wanted = options(rule, temperature=temperature, budget=budget, width=width, gamma=8, max_tokens=40, seed=seed)
        prompt = np.random.default_rng(seed).integers(3, 60, 18).tolist()
        found = list(decode(TARGET, prompt, DraftModel(DRAFT), wanted))
        assert emitted_ids(found) == plain_text(TARGET, prompt, wanted), (rule, temperature, seed)


@pytest.mark.parametrize("bits", [None, 8])
def test_windows_and_quantised_keys_keep_the_accepted_path(bits: int | None) -> None:
    model = tiny_sliding_window(0) if bits is None else TARGET
    wanted = options("gumbel", temperature=0.9, budget=12, width=3, gamma=4, max_tokens=60, kv_bits=bits)
    found = list(decode(model, PROMPT, DraftModel(tiny_sliding_window(1) if bits is None else DRAFT), wanted))
    assert emitted_ids(found) == plain_text(model, PROMPT, wanted)
    assert any(finished.is_tree for finished in found)


def test_a_tree_along_a_copy_keeps_the_text_and_accepts_more_than_one_branch() -> None:
    prompt = [5, 6, 7, 8, 9, 10, 11, 12] * 3
    wanted = options("gumbel", temperature=0.7, budget=10, width=3, gamma=6, max_tokens=30)
    found = list(decode(TARGET, prompt, DraftModel(DRAFT), wanted))
    copied = [proposal for proposal in found[0].proposals if proposal.copied]
    assert [proposal.id for proposal in copied][:3] == [5, 6, 7]
    assert any(not proposal.copied for proposal in found[0].proposals)
    assert emitted_ids(found) == plain_text(TARGET, prompt, wanted)


def test_listeners_get_the_hidden_states_of_the_path() -> None:
    """Those of the rows of a tree equal those that a pass over the path alone gives."""
    follower, shape, nodes = Follower(), TreeShape((0, 0, 1, 2, 3)), [9, 10, 11, 12, 13, 14]

    def session() -> TargetSession:
        made = TargetSession(TARGET, None, None, Clock())
        made.follow_with(follower)
        made.read_prompt([*PROMPT, nodes[0]], None, lambda done, total: True)
        return made

    tree = DraftTree(nodes[0], mx.array(nodes[1:]), shape, OneHot(mx.array(nodes[1:]), 97), q_nodes=shape.expanded)
    for path in ([0, 2, 4], [0, 1, 3, 5], [0]):
        alone = DraftTree.copied(nodes[0], [nodes[node] for node in path[1:]], 97)
        wanted = session().score(alone).hidden_states_of(range(len(path)))
        found = session().score(tree).hidden_states_of(path)
        assert found is not None and wanted is not None
        np.testing.assert_allclose(np.array(found), np.array(wanted), atol=2e-5)


# Chains


@pytest.mark.parametrize("changes", [{"rule": "gumbel", "width": 1}, {"rule": "block"}])
def test_a_width_of_one_and_block_draft_chains_of_at_most_the_budget(changes: dict[str, Any]) -> None:
    wanted = options(**changes, gamma=5, budget=3, max_tokens=12)
    found = list(decode(TARGET, PROMPT, DraftModel(DRAFT), wanted))
    assert not any(finished.is_tree for finished in found)
    as_before = list(decode(TARGET, PROMPT, DraftModel(DRAFT), wanted.replace(budget=None, gamma=3)))
    assert [list(differences(*map(round_to_json, both), lambda path: 0.0)) for both in zip(found, as_before, strict=True)] == [
        [] for _ in found
    ]


@pytest.mark.parametrize("made", [NGram, lambda: DraftModel(RecurrentModel(pair("good", 3).draft))])
def test_drafters_that_grow_no_trees_draft_chains(made: Callable[[], Drafter]) -> None:
    tables = pair("good", 3)
    with closing(decode(TreeModel(tables.target), BEFORE * 4, made(), options("gumbel", max_tokens=10))) as answer:
        assert not any(finished.is_tree for finished in answer)


def test_a_target_that_cannot_read_trees_gets_chains() -> None:
    tables = pair("good", 3)
    drafter = DraftModel(TreeModel(tables.draft))
    found = list(decode(RecurrentModel(tables.target), BEFORE, drafter, options("gumbel", max_tokens=10)))
    assert found[0].proposals and not any(finished.is_tree for finished in found)


@pytest.mark.parametrize(
    ("changes", "drafter", "target", "words"),
    [
        ({"rule": "block"}, DraftModel(DRAFT), TARGET, "Block judges"),
        ({}, NGram(), TARGET, "ngram drafts chains instead of trees: it proposes one token for each position."),
        (
            {},
            DraftModel(RecurrentModel(pair("good", 3).draft)),
            TARGET,
            "draft model drafts chains instead of trees: it has recurrent",
        ),
        ({}, DraftModel(DRAFT), RecurrentModel(pair("good", 3).target), "The model cannot read trees: it has recurrent layers"),
        ({}, DraftModel(DRAFT), TARGET, ""),
        ({"budget": None}, NGram(), TARGET, ""),
        ({"width": 1}, NGram(), TARGET, ""),
    ],
)
def test_the_reason_for_chains_is_given(changes: dict[str, Any], drafter: Drafter, target: Any, words: str) -> None:
    reason = chains_reason(options("gumbel").replace(**changes), drafter, target)
    assert words in reason
    assert bool(reason) == bool(words)


# The record


@functools.cache
def recorded(rule: str) -> list[Round]:
    return law_rounds(pair("good", 4), options(rule, budget=8, gamma=4), 60)


def shape_of(finished: Round) -> TreeShape:
    """The tree of a recorded round, with its nodes in the order of the record."""
    return TreeShape([0 if proposal.parent is None else proposal.parent + 1 for proposal in finished.proposals])


@pytest.mark.parametrize("rule", RULES)
def test_the_accepted_path_comes_first_and_then_the_rejected_choice(rule: str) -> None:
    ends = set()
    for finished in recorded(rule):
        shape, accepted = shape_of(finished), finished.accepted
        assert [proposal.parent for proposal in finished.proposals[:accepted]] == list(range(-1, accepted - 1))
        assert [token.id for token in finished.emitted[:accepted]] == [p.id for p in finished.proposals[:accepted]]
        assert finished.depths == shape.depths[1:]
        last = finished.proposals[accepted : accepted + 1]
        has_choices = any(proposal.parent == accepted - 1 for proposal in finished.proposals[accepted:])
        assert finished.rejected == has_choices
        if has_choices:
            assert (last[0].status, last[0].rank, last[0].parent) == ("rejected", 0, accepted - 1)
        assert finished.emitted[-1].origin == ("correction" if has_choices else "bonus")
        ends.add(has_choices)
        assert len(finished.expected) == accepted + finished.rejected
    assert ends == {True, False}, "both ways in which a round ends occurred"


@pytest.mark.parametrize("rule", RULES)
def test_figures_are_those_of_the_node_before(rule: str) -> None:
    """p and q of each proposal are those of the table, given its ancestors."""
    tables = pair("good", 4)
    p, q = distribution(tables.target), distribution(tables.draft)
    text = list(BEFORE)
    for finished in recorded(rule):
        for proposal in finished.proposals:
            path, parent = list[int](), proposal.parent
            while parent is not None and parent >= 0:
                path.append(finished.proposals[parent].id)
                parent = finished.proposals[parent].parent
            context = [*text, *reversed(path)][-2:]
            assert proposal.p == pytest.approx(p[tuple(context)][proposal.id], abs=1e-5)
            assert proposal.q == pytest.approx(q[tuple(context)][proposal.id], abs=1e-5)
        for index, token in enumerate(finished.emitted):
            context = [*text, *emitted_ids([finished])[:index]][-2:]
            assert token.p == pytest.approx(p[tuple(context)][token.id], abs=1e-5)
        text += emitted_ids([finished])


def test_rejection_records_a_coin_for_each_choice_that_was_tried() -> None:
    several = 0
    for finished in recorded("rejection"):
        path = [-1, *range(finished.accepted)]
        for node in path:
            tried = [proposal for proposal in finished.proposals if proposal.parent == node]
            coins = [proposal for proposal in sorted(tried, key=lambda each: each.rank) if proposal.coin is not None]
            assert [proposal.rank for proposal in coins] == list(range(len(coins)))
            for proposal in coins:
                assert proposal.acceptance is not None and proposal.coin is not None
                assert (proposal.coin < proposal.acceptance or proposal.acceptance == 1) == (proposal.status == "accepted")
            several += len(coins) > 1
    assert several > 5


@pytest.mark.parametrize(("rule", "temperature"), crossed(RULES, [0.0, 0.8], together=1))
def test_a_device_records_what_numpy_records_and_waits_as_often_as_for_a_chain(rule: str, temperature: float) -> None:
    wanted = options(rule, temperature=temperature, budget=9, gamma=4, max_tokens=24, top_p=0.95, repetition_penalty=1.1)
    found = list(decode(TARGET, PROMPT * 2, DraftModel(DRAFT), wanted))
    with as_on_a_gpu():
        lazy = list(decode(TARGET, PROMPT * 2, DraftModel(DRAFT), wanted))
    unlike = [
        problem for both in zip(found, lazy, strict=True) for problem in differences(*map(round_to_json, both), lambda path: 1e-5)
    ]
    assert unlike == []


def answers_of_two_turns() -> Iterator[list[int]]:
    """Texts of a second answer in the same conversation, with and without trees."""
    for budget in (8, None):
        drafter, prompt = DraftModel(DRAFT), list(PROMPT)
        wanted = options("gumbel", temperature=0.8, budget=budget, max_tokens=20)
        prompt += emitted_ids(list(decode(TARGET, prompt, drafter, wanted)))
        yield emitted_ids(list(decode(TARGET, [*prompt, 7, 8, 9], drafter, wanted)))


def test_a_drafter_goes_on_in_the_next_turn_after_trees() -> None:
    with_trees, without = answers_of_two_turns()
    assert with_trees == without
