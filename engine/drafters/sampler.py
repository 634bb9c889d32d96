"""Samples one round's proposals from a drafter's logits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import mlx.core as mx
import numpy as np

from engine.acceptance import RoundNoise, likeliest
from engine.drafters.draft import Draft, DraftPlan, DraftTree
from engine.machine.host import computes_on_host
from engine.target.distribution import Distribution, OneHot, Shaper, latest, onto_target_ids
from engine.types import DrafterStatistics, Rule
from engine.values.tree_shape import TreeShape


class Expansion(Protocol):
    """The part of a draft policy that a sampler uses."""

    def should_expand(self, plan: DraftPlan, chances: Sequence[float], is_copy: bool = False) -> bool:
        """Returns whether another token pays after those for which the drafter reported these probabilities. `is_copy`: whether
        the last one is a copy."""


class Sampler:
    """Samples one round's proposals, and stores the distributions that they were sampled from.

    A drafter knows neither the rule nor the noise: it asks for a token and continues after it.

    Args:
        shaper: the same as the target's, so that the same options shape q and p.
        rule: determines which noise is used.
        noise: the round's randomness.
        history: prompt and committed tokens, for penalties; the last one is the tree's root.
        vocab_size: width of the target's logits.
        plan: the plan of this round.
        policy: consulted after each token if the plan is adaptive.

    Attributes:
        may_place: whether a drafter that samples may also propose a token without sampling.
        chances: the drafter's probabilities of the tokens so far, if the plan is adaptive.
    """

    may_place = True

    def __init__(
        self,
        shaper: Shaper,
        rule: Rule,
        noise: RoundNoise,
        history: Sequence[int],
        vocab_size: int,
        plan: DraftPlan,
        policy: Expansion | None = None,
    ) -> None:
        self._shaper = shaper
        self._rule = rule
        self._noise = noise
        self._history = history
        self.vocab_size = vocab_size
        self._plan = plan
        self._policy = policy if plan.is_adaptive else None
        self.chances: list[float] = []
        self._placed: dict[int, float] = {}
        self._rows: list[Distribution] = []
        self._tokens: list[mx.array] = []

    def sample(self, logits: mx.array, target_ids: mx.array | None = None) -> mx.array:
        """Samples the next proposal.

        Args:
            logits: (draft width,) raw logits of the drafter.
            target_ids: (draft width,) for a trimmed head, else None.

        Returns:
            (1,) int32 id of the target's vocabulary, lazy.
        """
        whole = onto_target_ids(logits[None], self.vocab_size, target_ids)
        history: Sequence[int] | mx.array = self._history
        if self._shaper.penalises and self._tokens:
            recent = latest(history, self._shaper.options.repetition_context)
            history = mx.concatenate([recent, *self._tokens])
        row = self._shaper.shape(whole, history)
        if self._shaper.greedy:
            token = likeliest(row)
        elif self._rule == "gumbel":
            token = self._noise.shared(row, first=len(self._tokens))
        else:
            token = self._noise.draft(row, len(self._tokens))
        token = token.astype(mx.int32)
        self._rows.append(row)
        self._tokens.append(token)
        return token

    def place(self, token: int, chance: float) -> mx.array:
        """Proposes a token without sampling, (1,) int32: its q is 1. `chance` is the probability that it is right."""
        placed = mx.array([token], dtype=mx.int32)
        self._rows.append(self._shaper.certain(token, self.vocab_size))
        self._tokens.append(placed)
        self._placed[len(self._tokens) - 1] = chance
        return placed

    @property
    def is_adaptive(self) -> bool:
        """Whether `should_continue` may return False."""
        return self._policy is not None

    @property
    def remaining(self) -> int:
        """Number of tokens that may still be sampled in this round; copies are not counted."""
        return max(0, self._plan.max_sampled - (len(self._tokens) - len(self._placed)))

    @property
    def inverse_temperature(self) -> float:
        """Factor by which `sample` multiplies logits; 1 at temperature 0."""
        return self._shaper.inverse_temperature

    @property
    def evaluates_tokens(self) -> bool:
        """Whether a token is evaluated as soon as it is sampled, so that reading it is no additional synchronisation."""
        return self._policy is not None or computes_on_host()

    def should_continue(self) -> bool:
        """Returns whether another token pays, up to the plan's length. Call it once after each token but the last. The next token
        may be a copy: before it samples, a drafter that also copies checks `remaining`.

        If the plan is adaptive, this evaluates the token just sampled and reads the drafter's probability of it. The result
        depends on the sampled tokens and on past rounds, never on a future verdict, so every rule stays exact.
        """
        if self._policy is None:
            return True
        last = len(self._tokens) - 1
        if last in self._placed:
            self.chances.append(self._placed[last])
        else:
            self.chances.append(float(np.asarray(self._rows[-1].probability_of(self._tokens[-1]))[0]))
        return self._policy.should_expand(self._plan, self.chances, last in self._placed)

    def tree(self, shape: TreeShape, copies: Mapping[int, int]) -> TreeSampler:
        """Returns the sampler of a tree of this round, see `TreeSampler`."""
        return TreeSampler(self._shaper, self._rule, self._noise, self._history, self.vocab_size, shape, copies)

    def draft(self, statistics: DrafterStatistics | None = None) -> Draft:
        """Returns all sampled and placed tokens, as a chain."""
        return Draft(self._tree(), tuple(self.chances), statistics)

    def copied(self, ids: Sequence[int], chances: Sequence[float] = (), statistics: DrafterStatistics | None = None) -> Draft:
        """Returns a chain of tokens that are proposed without sampling instead; `chances` are the probabilities that they are
        right."""
        return Draft(DraftTree.copied(self._root, ids, self.vocab_size), tuple(chances[: len(ids)]), statistics)

    @property
    def _root(self) -> int:
        return self._history[-1] if self._history else 0

    def _tree(self) -> DraftTree:
        if not self._tokens:
            return DraftTree.plain(self._root, self.vocab_size)
        tokens = mx.concatenate(self._tokens)
        if len(self._placed) == len(self._tokens):
            return DraftTree.chain(self._root, tokens, OneHot(tokens, self.vocab_size))
        return DraftTree.chain(self._root, tokens, Distribution.joined(self._rows), frozenset(self._placed))


class TreeSampler:
    """Samples the nodes of one round's tree, whose shape is known before any token is.

    The children of a node are the tokens with the largest scores under its distribution and the noise of its depth: under gumbel
    the target's own noise, otherwise that of the draft. That is sampling without replacement, so the rules stay exact, as long as
    the shape does not depend on a token that was drawn.

    Args:
        shaper, rule, noise, history, vocab_size: as in `Sampler`.
        shape: parents of the nodes.
        copies: ids of the nodes that are proposed without sampling, by node. They are a path from the root.
    """

    def __init__(
        self,
        shaper: Shaper,
        rule: Rule,
        noise: RoundNoise,
        history: Sequence[int],
        vocab_size: int,
        shape: TreeShape,
        copies: Mapping[int, int],
    ) -> None:
        self._shaper = shaper
        self._rule = rule
        self._noise = noise
        self._history = history
        self._vocab_size = vocab_size
        self.shape = shape
        self._copies = copies
        self._tokens = {node: mx.array([token], dtype=mx.int32) for node, token in copies.items()}
        self._rows: dict[int, Distribution] = {}

    @property
    def waiting(self) -> list[int]:
        """The nodes whose tokens are known and whose children must still be sampled, ascending."""
        return [
            node
            for node in self.shape.expanded
            if node not in self._rows and (not node or node in self._tokens) and self._sampled_children(node)
        ]

    def tokens(self, nodes: Sequence[int]) -> mx.array:
        """Returns (nodes,) int32 ids of nodes below the root, as inputs of a model."""
        return mx.maximum(mx.concatenate([self._tokens[node] for node in nodes]), 0)

    def expand(self, nodes: Sequence[int], logits: mx.array, target_ids: mx.array | None = None) -> None:
        """Samples the children of some nodes.

        Args:
            logits: (nodes, draft width) raw logits of the drafter after each node.
            target_ids: (draft width,) for a trimmed head, else None.
        """
        whole = onto_target_ids(logits, self._vocab_size, target_ids)
        known = sorted(self._tokens)
        proposals = mx.concatenate([self._tokens[node] for node in known]) if known else None
        before = [[known.index(each) for each in self.shape.path_to(node)[1:]] for node in nodes]
        rows = self._shaper.shape(whole, self._history, proposals, before=before)
        count = max(len(self._sampled_children(node)) for node in nodes)
        copied = [self._copied_child(node) for node in nodes]
        left = rows if all(token < 0 for token in copied) else rows.without(mx.array(copied))
        if self._shaper.greedy:
            drawn = left.likeliest(count)
        else:
            domain = "shared" if self._rule == "gumbel" else "draft"
            drawn = self._noise.first_draws(left, [self.shape.depths[node] for node in nodes], domain, count)
        for index, node in enumerate(nodes):
            self._rows[node] = rows.part(index, index + 1)
            for rank, child in enumerate(self._sampled_children(node)):
                self._tokens[child] = drawn[index, rank : rank + 1]

    def unread(self, held: Sequence[int]) -> list[int]:
        """Returns the nodes that a model must still read before it can sample all children, ascending: those that wait and their
        ancestors, without the root and those that it holds."""
        needed = {each for node in self.waiting for each in self.shape.path_to(node)[1:]}
        return sorted(needed.difference(held))

    def expand_waiting(self, nodes: Sequence[int], logits: mx.array, target_ids: mx.array | None = None) -> None:
        """Samples the children of those of some nodes that wait for it. Arguments as in `expand`."""
        waiting = set(self.waiting)
        places = [place for place, node in enumerate(nodes) if node in waiting]
        if places:
            self.expand([nodes[place] for place in places], logits[mx.array(places)], target_ids)

    def draft(self, statistics: DrafterStatistics | None = None) -> Draft:
        """Returns the tree, once `waiting` is empty."""
        root = self._history[-1]
        drafted = mx.concatenate([self._tokens[node] for node in range(1, self.shape.size + 1)])
        placed = frozenset(node - 1 for node in self._copies)
        nodes = tuple(sorted(self._rows))
        if not nodes:
            return Draft(DraftTree.chain(root, drafted, OneHot(drafted, self._vocab_size)), statistics=statistics)
        q = Distribution.joined([self._rows[node] for node in nodes])
        return Draft(DraftTree(root, drafted, self.shape, q, placed, nodes), statistics=statistics)

    def _sampled_children(self, node: int) -> list[int]:
        return [child for child in self.shape.children[node] if child not in self._copies]

    def _copied_child(self, node: int) -> int:
        """Returns the id of the copied child of a node; -1 if it has none."""
        return next((self._copies[child] for child in self.shape.children[node] if child in self._copies), -1)
