"""Verdict on a round's tree: walks down from the root as long as the rule accepts a child.

Under match, gumbel and at temperature 0 the target draws its own token at every node, with the noise of the node's depth. The
walk follows it as long as it is a child. So the text is the target's own draws, and the tree cannot change it. Under rejection
the children of a node are judged by recursive rejection without replacement (`engine.acceptance.reject_siblings`).

A device computes the figures of every node in the round's lazy graph, so that one synchronisation is enough. If numpy draws, only
the nodes of the path are computed, one after the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import mlx.core as mx
import numpy as np

from engine.acceptance import Judgement, RoundNoise, SiblingVerdicts, likeliest, reject_siblings
from engine.decode.recording.record import EvaluatedRound
from engine.drafters.draft import DraftTree
from engine.noise.source import NO_TOKEN, check_drawn
from engine.target.distribution import Distribution
from engine.types import DecodingOptions


class NodeVerdict(NamedTuple):
    """Verdict at one node of the path.

    Attributes:
        rank: of the accepted child; None if the walk ends here.
        token: id that the target draws here: that of the accepted child, the correction or the bonus.
        margin: distance of the draw's score from the second best; None if it is not known.
        coins, chances: of the children that were judged, by rank, under rejection.
    """

    rank: int | None
    token: int
    margin: float | None = None
    coins: Sequence[float] = ()
    chances: Sequence[float] = ()


class _DrawComparison:
    """Compares the target's own draw at a node with its children: match, gumbel, and every rule at temperature 0."""

    def __init__(self, p: Distribution, tree: DraftTree, noise: RoundNoise, greedy: bool) -> None:
        self._p, self._depths, self._noise = p, tree.shape.depths, noise
        self._drawn: tuple[mx.array, mx.array] | None = None
        if greedy:
            self._drawn = likeliest(p), mx.zeros((p.rows,))
        elif not p.is_known:
            self._drawn = noise.shared_at(p, self._depths)

    @property
    def arrays(self) -> list[mx.array]:
        """All arrays that the host reads."""
        return [] if self._drawn is None else list(self._drawn)

    def __call__(self, node: int, children: Sequence[int]) -> NodeVerdict:
        """Returns the verdict at a node, given the ids of its children by rank."""
        if self._drawn is None:
            draws, margins = self._noise.shared_at(self._p.row(node), self._depths[node : node + 1])
            at = 0
        else:
            (draws, margins), at = self._drawn, node
        token, margin = int(np.asarray(draws)[at]), float(np.asarray(margins)[at])
        return NodeVerdict(children.index(token) if token in children else None, token, margin)


class _SiblingRejection:
    """Judges the children of a node by recursive rejection without replacement."""

    def __init__(self, p: Distribution, tree: DraftTree, noise: RoundNoise) -> None:
        self._p, self._tree, self._noise = p, tree, noise
        self._inner = list(tree.shape.expanded)
        self._ranks = max(map(len, tree.shape.children))
        self._judged: tuple[SiblingVerdicts, mx.array, mx.array, mx.array] | None = None
        if not p.is_known:
            verdicts, coins = self._verdicts(self._inner)
            depths = [tree.shape.depths[node] for node in self._inner]
            corrections = noise.residual_at(Distribution.from_probabilities(verdicts.residual), depths)
            self._judged = verdicts, coins, corrections, noise.shared_at(p, tree.shape.depths)[0]

    @property
    def arrays(self) -> list[mx.array]:
        """All arrays that the host reads."""
        if self._judged is None:
            return []
        verdicts, *others = self._judged
        return [verdicts.accepted, verdicts.chances, *others]

    def __call__(self, node: int, children: Sequence[int]) -> NodeVerdict:
        """Returns the verdict at a node, given the ids of its children by rank."""
        depths = self._tree.shape.depths[node : node + 1]
        if not children:
            if self._judged is None:
                return NodeVerdict(None, int(np.asarray(self._noise.shared_at(self._p.row(node), depths)[0])[0]))
            return NodeVerdict(None, int(np.asarray(self._judged[3])[node]))
        if self._judged is None:
            (verdicts, coins), at = self._verdicts([node]), 0
        else:
            verdicts, coins, at = self._judged[0], self._judged[1], self._inner.index(node)
        rank = int(np.asarray(verdicts.accepted)[at])
        tried = min(rank + 1, len(children))
        judged = (
            [float(coin) for coin in np.asarray(coins)[at, :tried]],
            [float(c) for c in np.asarray(verdicts.chances)[at, :tried]],
        )
        if rank < len(children):
            return NodeVerdict(rank, children[rank], None, *judged)
        if self._judged is None:
            left = type(self._p).from_probabilities(verdicts.residual)
            token = int(np.asarray(self._noise.residual_at(left, depths))[0])
        else:
            token = int(np.asarray(self._judged[2])[at])
        return NodeVerdict(None, token, None, *judged)

    def _verdicts(self, nodes: Sequence[int]) -> tuple[SiblingVerdicts, mx.array]:
        """Returns the verdicts on the children of some nodes, in the lazy graph, and the (nodes, ranks) coins."""
        tree, shape = self._tree, self._tree.shape
        places = [[child - 1 for child in shape.children[node]] for node in nodes]
        padded = mx.array([[*at, *[0] * (self._ranks - len(at))] for at in places])
        placed = [[rank < len(at) and tree.is_copied(at[rank]) for rank in range(self._ranks)] for at in places]
        coins = self._noise.rank_coins([shape.depths[node] for node in nodes], self._ranks)
        verdicts = reject_siblings(
            self._probabilities(self._p, nodes),
            self._draft_probabilities(nodes),
            tree.drafted[padded],
            mx.array([len(at) for at in places]),
            mx.array(placed),
            coins,
        )
        return verdicts, coins

    @staticmethod
    def _probabilities(rows: Distribution, indexes: Sequence[int]) -> mx.array:
        """Returns (indexes, vocab) probabilities of some rows."""
        if len(indexes) == 1:
            return rows.row(indexes[0]).probabilities
        return rows.probabilities[mx.array(list(indexes))]

    def _draft_probabilities(self, nodes: Sequence[int]) -> mx.array:
        """Returns (nodes, vocab) probabilities that the children were drawn from; zeros after a node without drawn children."""
        q, rows = self._tree.q, []
        for node in nodes:
            if isinstance(q, Distribution) and node in self._tree.q_nodes:
                rows.append(q.row(self._tree.q_nodes.index(node)).probabilities)
            else:
                rows.append(mx.zeros((1, self._p.vocab_size)))
        return mx.concatenate(rows)


@dataclass(frozen=True)
class TreeVerification:
    """A round with a tree that may not have been evaluated yet.

    Attributes:
        p: (nodes, vocab) the target's distributions after each node.
        judge: judges a node, once the arrays have been evaluated.
    """

    p: Distribution
    tree: DraftTree
    noise: RoundNoise
    judge: _DrawComparison | _SiblingRejection

    @classmethod
    def of(cls, options: DecodingOptions, p: Distribution, tree: DraftTree, noise: RoundNoise) -> TreeVerification:
        """Judges a tree under the rule of `options`, which is not block."""
        greedy = options.temperature == 0
        if options.rule == "rejection" and not greedy:
            return cls(p, tree, noise, _SiblingRejection(p, tree, noise))
        return cls(p, tree, noise, _DrawComparison(p, tree, noise, greedy))

    def arrays(self, analyse: bool) -> list[mx.array]:
        """Returns all arrays that the host reads."""
        arrays = [self.tree.drafted, *self.judge.arrays]
        if analyse:
            arrays += [array for array in (self.p.logits, self.p.unfiltered) if array is not None]
            arrays += [self.tree.q.logits] if isinstance(self.tree.q, Distribution) else []
        return arrays

    def evaluated(self, options: DecodingOptions) -> EvaluatedRound:
        """Walks down the tree; the arrays have been evaluated."""
        shape, ids = self.tree.shape, [int(token) for token in np.asarray(self.tree.drafted)]
        path, verdicts = [0], list[NodeVerdict]()
        while True:
            children = shape.children[path[-1]]
            verdicts.append(self.judge(path[-1], [ids[child - 1] for child in children]))
            if (rank := verdicts[-1].rank) is None:
                break
            path.append(children[rank])
        order = _recorded_order(self.tree, ids, path)
        check_drawn([verdicts[-1].token, *(ids[node - 1] for node in order)])
        return EvaluatedRound(
            position=self.noise.position,
            rule=options.rule,
            drafted=[ids[node - 1] for node in order],
            path=path,
            nodes=order,
            token=verdicts[-1].token,
            p=self.p,
            proposals=self.tree,
            judgement=self._judgement(verdicts, path, order),
            others=None,
        )

    def _judgement(self, verdicts: Sequence[NodeVerdict], path: Sequence[int], order: Sequence[int]) -> Judgement:
        """Returns the verdicts as arrays: draws and margins by depth, coins and chances by recorded proposal (NaN for none)."""
        accepted, token = mx.array(len(path) - 1), mx.array(verdicts[-1].token)
        if isinstance(self.judge, _DrawComparison):
            margins = mx.array([verdict.margin for verdict in verdicts])
            draws = mx.array([verdict.token for verdict in verdicts], mx.int32)
            return Judgement(accepted, token, mx.zeros((0,)), draws=draws, margins=margins)
        coins, chances = np.full(len(order), np.nan, np.float32), np.full(len(order), np.nan, np.float32)
        for node, verdict in zip(path, verdicts, strict=True):
            for child, coin, chance in zip(self.tree.shape.children[node], verdict.coins, verdict.chances, strict=False):
                if child in order:
                    coins[order.index(child)], chances[order.index(child)] = coin, chance
        return Judgement(accepted, token, mx.array(chances), coins=mx.array(coins))


def _recorded_order(tree: DraftTree, ids: Sequence[int], path: Sequence[int]) -> list[int]:
    """Returns the nodes below the root in the order in which a round records them (`Round`), without missing children and what
    follows them."""
    shape = tree.shape
    missing = {0: False}
    for index, parent in enumerate(shape.parents):
        missing[index + 1] = missing[parent] or ids[index] == NO_TOKEN
    present = [node for node in range(1, shape.size + 1) if not missing[node]]
    first = [*path[1:], *[child for child in shape.children[path[-1]] if not missing[child]][:1]]
    return [*first, *(node for node in present if node not in first)]
