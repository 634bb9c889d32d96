"""Samples the proposals of a round that drafts a tree: of a shape fixed beforehand, or growing by the drawn tokens."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from engine.acceptance import RoundNoise
from engine.drafters.draft import Draft, DraftPlan, DraftTree, Expansion
from engine.target.distribution import Distribution, OneHot, Shaper, onto_target_ids
from engine.types import DrafterStatistics, Rule
from engine.values.tree_shape import TreeShape

OTHERS, OTHERS_BY_Q = 0.3, 3.0
"""Weight of all tokens that were not drawn, relative to the first choice: constant part, and factor of their q. Fitted by maximum
likelihood to 714 draws of the built-in head under gumbel, at temperatures 0.2, 0.8 and 1.0."""


@dataclass(frozen=True)
class Draws:
    """Draws the children of nodes. Attributes as the arguments of `Sampler`."""

    shaper: Shaper
    rule: Rule
    noise: RoundNoise
    history: Sequence[int]
    vocab_size: int

    def children(self, rows: Distribution, depths: Sequence[int], count: int) -> tuple[mx.array, mx.array]:
        """Returns the ids of the first `count` children of nodes at some depths, and how far their scores are below the first
        (`Distribution.first_draws`)."""
        if self.shaper.greedy:
            return rows.likeliest(count)
        return self.noise.first_draws(rows, depths, "shared" if self.rule == "gumbel" else "draft", count)

    def chances(self, rows: Distribution, ids: mx.array, gaps: mx.array) -> NDArray[np.float64]:
        """Returns (nodes, children): estimated probabilities that a child is the target's token, not rising along a row.

        Under gumbel the target takes the largest score under the same noise. Its logits differ from the drafter's by about 1, so
        these are a softmax of the scores, in units of logits, in which the tokens that were not drawn have a weight that grows
        with their q. Otherwise these are q.
        """
        picked = mx.stack([rows.probability_of(mx.maximum(ids[:, rank], 0)) for rank in range(ids.shape[1])], axis=1)
        mx.eval(ids, gaps, picked)  # the only synchronisation of a level
        q = np.where(np.asarray(ids) < 0, 0.0, np.asarray(picked, np.float64))
        if self.rule != "gumbel" or self.shaper.greedy:
            return np.minimum.accumulate(q, axis=1)
        weights = np.exp(-np.asarray(gaps, np.float64) / rows.inverse_temperature)
        others = OTHERS + OTHERS_BY_Q * (1 - q.sum(axis=1, keepdims=True))
        return weights / (weights.sum(axis=1, keepdims=True) + others)


class TreeSampler(ABC):
    """Samples the nodes of one round's tree.

    The children of a node are the tokens with the largest scores under its distribution and the noise of its depth: under gumbel
    the target's own noise, otherwise that of the draft. That is sampling without replacement.

    Args:
        copies: ids of the nodes that are proposed without sampling, by node. They are a path from the root.

    Attributes:
        shape: the nodes so far.
    """

    def __init__(self, draws: Draws, shape: TreeShape, copies: Mapping[int, int]) -> None:
        self._draws = draws
        self.shape = shape
        self._copies = dict(copies)
        self._tokens = {node: mx.array([token], dtype=mx.int32) for node, token in copies.items()}
        self._rows: dict[int, Distribution] = {}

    @property
    @abstractmethod
    def waiting(self) -> list[int]:
        """The nodes whose tokens are known and whose children must still be sampled, ascending."""

    @abstractmethod
    def expand(self, nodes: Sequence[int], logits: mx.array, target_ids: mx.array | None = None) -> None:
        """Samples the children of some nodes.

        Args:
            logits: (nodes, draft width) raw logits of the drafter after each node.
            target_ids: (draft width,) for a trimmed head, else None.
        """

    def tokens(self, nodes: Sequence[int]) -> mx.array:
        """Returns (nodes,) int32 ids of nodes below the root, as inputs of a model."""
        return mx.maximum(mx.concatenate([self._tokens[node] for node in nodes]), 0)

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
        root, shape, vocab_size = self._draws.history[-1], self.shape, self._draws.vocab_size
        drafted = mx.concatenate([self._tokens[node] for node in range(1, shape.size + 1)])
        nodes = tuple(node for node in sorted(self._rows) if any(child not in self._copies for child in shape.children[node]))
        if not nodes:
            return Draft(DraftTree.chain(root, drafted, OneHot(drafted, vocab_size)), statistics=statistics)
        q = Distribution.joined([self._rows[node] for node in nodes])
        placed = frozenset(node - 1 for node in self._copies)
        return Draft(DraftTree(root, drafted, shape, q, placed, nodes), statistics=statistics)

    def _distributions(self, nodes: Sequence[int], logits: mx.array, target_ids: mx.array | None) -> Distribution:
        """Keeps and returns the distributions after some nodes. Arguments as in `expand`."""
        known = sorted(self._tokens)
        proposals = mx.concatenate([self._tokens[node] for node in known]) if known else None
        before = [[known.index(each) for each in self.shape.path_to(node)[1:]] for node in nodes]
        whole = onto_target_ids(logits, self._draws.vocab_size, target_ids)
        rows = self._draws.shaper.shape(whole, self._draws.history, proposals, before=before)
        self._rows |= {node: rows.part(index, index + 1) for index, node in enumerate(nodes)}
        return rows


class FixedTree(TreeSampler):
    """A tree whose shape is known before any token is, as rejection requires: its siblings are judged as draws without
    replacement, which they are only if no drawn token decided how many of them there are."""

    @property
    def waiting(self) -> list[int]:
        """The nodes whose tokens are known and whose children must still be sampled, ascending."""
        return [
            node
            for node in self.shape.expanded
            if node not in self._rows and (not node or node in self._tokens) and self._sampled_children(node)
        ]

    def expand(self, nodes: Sequence[int], logits: mx.array, target_ids: mx.array | None = None) -> None:
        """Samples as many children of some nodes as the shape has."""
        rows = self._distributions(nodes, logits, target_ids)
        copies = [[self._copies[child] for child in self.shape.children[node] if child in self._copies] for node in nodes]
        left = rows.without(mx.array([copied[0] if copied else -1 for copied in copies])) if any(copies) else rows
        count = max(len(self._sampled_children(node)) for node in nodes)
        drawn, _ = self._draws.children(left, [self.shape.depths[node] for node in nodes], count)
        for index, node in enumerate(nodes):
            for rank, child in enumerate(self._sampled_children(node)):
                self._tokens[child] = drawn[index, rank : rank + 1]

    def _sampled_children(self, node: int) -> list[int]:
        return [child for child in self.shape.children[node] if child not in self._copies]


@dataclass(eq=False)
class _Candidate:
    """A token that a growing tree may propose.

    Attributes:
        parent: None for the root.
        token: (1,) int32.
        chance: probability that it is right if its parent is. reached: the same for all of its path.
        copied: its id if it is proposed without sampling, else -1.
        node: its number, once it is part of the tree.
    """

    parent: _Candidate | None
    token: mx.array
    chance: float
    copied: int = -1
    node: int | None = None
    reached: float = field(init=False)

    def __post_init__(self) -> None:
        self.update()

    def update(self) -> None:
        """Computes `reached` anew, after a change on the path."""
        self.reached = self.chance if self.parent is None else self.parent.reached * self.chance


class GrowingTree(TreeSampler):
    """A tree that grows where the tokens drawn so far are likely to be right. One level is drawn in each step, then the policy
    says how many of its nodes are expanded; after the last step, how many of all the drawn tokens are proposed.

    The shape depends on the tokens. That is exact only where the draft cannot change the text: under match, gumbel and at
    temperature 0, where the target's own draws are the text.
    """

    def __init__(
        self, draws: Draws, plan: DraftPlan, policy: Expansion, depth: int, copied: Sequence[int], chances: Sequence[float]
    ) -> None:
        super().__init__(draws, TreeShape(()), {})
        self._plan, self._policy, self._depth = plan, policy, depth
        self._nodes = [_Candidate(None, mx.array([draws.history[-1]]), 1.0, node=0)]  # of the tree, by number
        self._open: list[_Candidate] = []  # the others
        for token, chance in zip(copied, chances, strict=True):
            parent = self._open[-1] if self._open else self._nodes[0]
            self._open.append(_Candidate(parent, mx.array([token], dtype=mx.int32), policy.corrected(plan, chance), token))
        self._spine = {each.parent: each for each in self._open}
        self._steps = 0
        self._waiting: list[int] = []
        if depth and (not self._open or policy.nodes_to_expand(plan, self._reached, [1.0], 0)):
            self._waiting = [0]

    @property
    def waiting(self) -> list[int]:
        """The nodes of the deepest level that the policy has chosen to expand, likeliest first."""
        return self._waiting

    @property
    def _reached(self) -> list[float]:
        return [each.reached for each in (*self._nodes[1:], *self._open)]

    def expand(self, nodes: Sequence[int], logits: mx.array, target_ids: mx.array | None = None) -> None:
        """Samples the children of all nodes that wait, and chooses those of them that are expanded next."""
        parents = [self._nodes[node] for node in nodes]
        rows = self._distributions(nodes, logits, target_ids)
        ids, gaps = self._draws.children(rows, [self._steps] * len(nodes), self._plan.width)
        chances = self._draws.chances(rows, ids, gaps)
        for index, (parent, drawn) in enumerate(zip(parents, np.asarray(ids).tolist(), strict=True)):
            copy = self._spine.get(parent)
            rest, own = (1.0, self._plan.width) if copy is None else (1.0 - copy.chance, self._plan.width - 1)
            for rank, token in enumerate(drawn):
                chance = rest * self._policy.corrected(self._plan, float(chances[index, rank]))
                if copy is not None and token == copy.copied:
                    copy.chance += chance  # both sources agree
                elif chance and own:
                    self._open.append(_Candidate(parent, ids[index, rank : rank + 1], chance))
                    own -= 1
        for copy in self._spine.values():
            copy.update()
        self._steps += 1
        level = self._likeliest(each for each in self._open if each.parent in parents)
        wanted = 0
        if self._steps < self._depth and level:
            wanted = self._policy.nodes_to_expand(self._plan, self._reached, [each.reached for each in level], self._steps)
        self._waiting = self._add(level[: min(wanted, self._plan.budget - self.shape.size)])

    def draft(self, statistics: DrafterStatistics | None = None) -> Draft:
        """Returns the expanded nodes and the likeliest others that are worth their rows."""
        size = max(1, self._policy.tree_size(self._plan, self._reached, self._steps))
        self._add(self._likeliest(self._open)[: max(0, size - self.shape.size)])
        if not self.shape.size:  # the drafter has no finite logit
            return Draft(DraftTree.plain(self._draws.history[-1], self._draws.vocab_size), statistics=statistics)
        drafted = super().draft(statistics)
        if self.shape.is_chain and not drafted.tree.is_chain:
            drafted = replace(drafted, tree=self._as_chain(drafted.tree))
        return replace(drafted, chances=tuple(each.chance for each in self._nodes[1:]), steps=self._steps)

    def _as_chain(self, tree: DraftTree) -> DraftTree:
        """Returns a tree without branches as a chain, of which a round records more."""
        shaper, vocab_size = self._draws.shaper, self._draws.vocab_size
        rows = [
            shaper.certain(each.copied, vocab_size) if each.copied >= 0 else self._rows[index]
            for index, each in enumerate(self._nodes[1:])
        ]
        return DraftTree.chain(tree.root, tree.drafted, Distribution.joined(rows), tree.placed)

    @staticmethod
    def _likeliest(candidates: Iterable[_Candidate]) -> list[_Candidate]:
        return sorted(candidates, key=lambda each: -each.reached)

    def _add(self, candidates: Iterable[_Candidate]) -> list[int]:
        """Makes candidates nodes, and returns their numbers."""
        parents, first = list(self.shape.parents), len(self._nodes)
        for candidate in candidates:
            assert candidate.parent is not None and candidate.parent.node is not None, "a parent is likelier than its children"
            candidate.node = len(self._nodes)
            parents.append(candidate.parent.node)
            self._nodes.append(candidate)
            self._open.remove(candidate)
            self._tokens[candidate.node] = candidate.token
            if candidate.copied >= 0:
                self._copies[candidate.node] = candidate.copied
        self.shape = TreeShape(parents)
        return list(range(first, len(self._nodes)))
