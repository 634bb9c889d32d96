"""Values that pass between a drafter, its policy and the decode loop."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import mlx.core as mx

from engine.acceptance import Draft as DraftRows
from engine.machine.host import on_host
from engine.models.loaded import LoadedModel
from engine.target.distribution import OneHot
from engine.target.interface import TargetModel
from engine.types import MAX_GAMMA, DrafterStatistics, Outlook
from engine.values.tree_shape import RANK_CHANCES, TreeShape


@dataclass(frozen=True)
class DraftTree:
    """Tokens that the target scores in one pass: the newest committed token as root, and the proposals below it.

    Nodes are numbered from the root, 0, and parents precede children. A plain round is the root alone. In a chain the parent of
    each node is the node before it.

        node        0        1        2        3        4
        token      "The"    " cat"   " dog"   " sat"   " ran"
        parent      -        0        0        1        1

    Attributes:
        root: id of the newest committed token.
        drafted: (nodes - 1,) int32 ids of the nodes below the root, in the target's vocabulary; lazy or not. In a tree that is
            not a chain, NO_TOKEN stands for a child that the drafter's distribution had no token for.
        shape: the parent of each node.
        q: the distributions that `drafted` were sampled from, on the target's ids; `OneHot` if all were placed. A chain has a row
            for each of them, another tree a row for each node with sampled children, in the order of `q_nodes`.
        placed: indexes into `drafted` of tokens that were proposed without sampling, among sampled ones; not needed with
            `OneHot`.
        q_nodes: of a tree that is not a chain, the nodes that the rows of `q` follow.
    """

    root: int
    drafted: mx.array
    shape: TreeShape
    q: DraftRows
    placed: frozenset[int] = frozenset()
    q_nodes: tuple[int, ...] = ()

    @classmethod
    def chain(cls, root: int, drafted: mx.array, q: DraftRows, placed: frozenset[int] = frozenset()) -> DraftTree:
        """Returns a tree in which each node follows the one before it."""
        return cls(root, drafted, TreeShape.chain(int(drafted.shape[0])), q, placed)

    @classmethod
    def copied(cls, root: int, ids: Sequence[int], vocab_size: int) -> DraftTree:
        """Returns a chain of tokens that are proposed without sampling: the q of each is 1."""
        drafted = mx.array(list(ids), dtype=mx.int32)
        return cls.chain(root, drafted, OneHot(drafted, vocab_size))

    @classmethod
    def plain(cls, root: int, vocab_size: int) -> DraftTree:
        """Returns the root alone."""
        return cls.copied(root, (), vocab_size)

    @property
    def size(self) -> int:
        """Number of nodes below the root, known without evaluating them."""
        return self.shape.size

    @property
    def is_chain(self) -> bool:
        """Whether it was made as a chain, with a row of `q` for each proposal. A tree may happen to have the shape of one."""
        return not self.q_nodes

    @property
    def tokens(self) -> mx.array:
        """(nodes,) int32: the inputs of the target's pass. A missing child is read as token 0."""
        drafted = on_host(self.drafted)
        if drafted is not None:
            return mx.array([self.root, *(max(0, token) for token in drafted.tolist())], dtype=mx.int32)
        return mx.concatenate([mx.array([self.root], dtype=mx.int32), mx.maximum(self.drafted, 0)])

    @cached_property
    def before(self) -> list[list[int]] | None:
        """For each node, root included, the indexes into `drafted` of the proposals on its path; None for a chain."""
        return None if self.is_chain else [[each - 1 for each in self.shape.path_to(node)[1:]] for node in range(self.size + 1)]

    def q_row(self, index: int) -> int | None:
        """Returns the row of `q` of the proposal at `index` of `drafted`; None if it was placed and has none."""
        if self.is_chain:
            return None if isinstance(self.q, OneHot) else index
        return None if self.is_copied(index) else self.q_nodes.index(self.shape.parents[index])

    def is_copied(self, index: int) -> bool:
        """Returns whether the node at `index` of `drafted` was proposed without sampling."""
        return isinstance(self.q, OneHot) or index in self.placed


@dataclass(frozen=True, slots=True)
class DrafterCapabilities:
    """Properties of a drafter that policy and decode loop use.

    Attributes:
        samples: False if its proposals are one-hot, so that every rule judges them alike.
        copies: True if it may know before a round which tokens it would copy (`Drafter.estimates`).
        sets_own_length: True if it decides itself how many tokens to propose, by asking the sampler after each sampled token.
        hidden_layers: layers of the target whose outputs it reads, counted from 0; -1 is the first one's input.
    """

    samples: bool
    copies: bool = False
    sets_own_length: bool = False
    hidden_layers: tuple[int, ...] = ()


@dataclass(frozen=True)
class DraftContext:
    """The text that a drafter follows.

    Attributes:
        target: as passed to `decode`: a LoadedModel, or a bare mlx-lm style module.
        tokens: prompt and committed tokens.
        read: number of leading tokens that the target has already read. Their hidden states never arrive; those of later tokens
            arrive in `Drafter.read` while the prompt is read, and in `Drafter.commit` afterwards.
        kv_bits: bits of the target's keys and values; None for full precision. A drafter with its own cache uses the same.
    """

    target: LoadedModel | TargetModel
    tokens: Sequence[int]
    read: int = 0
    kv_bits: int | None = None


@dataclass(frozen=True, slots=True)
class Estimate:
    """Estimate of a drafter for the coming round.

    Attributes:
        chances: for each token that it would copy, the probability that it is right given those before it; empty if it would have
            to sample.
        unread: number of committed tokens that it must read before it can propose.
        statistics: statistics of the search for copies; a plain round reports them, too.
    """

    chances: tuple[float, ...] = ()
    unread: int = 0
    statistics: DrafterStatistics | None = None


@dataclass(frozen=True, slots=True)
class DraftPlan:
    """Decision of a policy before a round.

    Attributes:
        drafter: the drafter that proposes; None for a plain round.
        length: maximum number of proposals.
        max_sampled: maximum number of sampled tokens; copies are not counted.
        is_adaptive: whether the policy decides after each token whether another one pays.
        speed: expected tokens per plain round's time; the rate at which another token must pay.
        outlook: the figures behind the decision; None under a fixed length.
        budget: maximum number of nodes of a tree. width: maximum number of children of a node; 1 asks for a chain.
        levels: maximum depth of nodes of a tree that are sampled.
        grows: whether the tokens drawn so far decide where a tree continues; if not, its shape is fixed before the first draw.
        rank_chances: probability that the target's token is the child of each rank, from which a fixed shape follows.
    """

    drafter: str | None
    length: int = 0
    max_sampled: int = MAX_GAMMA
    is_adaptive: bool = False
    speed: float = 1.0
    outlook: Outlook | None = None
    budget: int = MAX_GAMMA
    width: int = 1
    levels: int = MAX_GAMMA
    grows: bool = False
    rank_chances: Sequence[float] = RANK_CHANCES


@dataclass(frozen=True)
class Draft:
    """Result of drafting in one round.

    Attributes:
        tree: the tree for the target to score; the root alone if nothing was proposed.
        chances: estimated probabilities of the first proposals, in the order of the nodes, each given that its parent is right.
        steps: number of passes of the drafter for a tree that grew; None for other drafts.
        statistics: statistics of this round's search for copies; None if the drafter keeps none.
        proposer: the drafter that proposed, if there are several.
    """

    tree: DraftTree
    chances: Sequence[float] = ()
    statistics: DrafterStatistics | None = None
    proposer: str | None = None
    steps: int | None = None


class Expansion(Protocol):
    """The part of a draft policy that a sampler uses."""

    def should_expand(self, plan: DraftPlan, chances: Sequence[float], is_copy: bool = False) -> bool:
        """Returns whether another token pays after those for which the drafter reported these probabilities. `is_copy`: whether
        the last one is a copy."""

    def corrected(self, plan: DraftPlan, chance: float) -> float:
        """Returns the probability of a token that is estimated to be right with this one, by the verdicts on earlier ones."""

    def nodes_to_expand(self, plan: DraftPlan, reached: Sequence[float], level: Sequence[float], steps: int) -> int:
        """Returns how many nodes of the deepest level of a tree to expand, the likeliest ones.

        Args:
            reached: for all nodes that could be proposed, the probability that all of their path is right.
            level: the same for those of the deepest level, likeliest first. steps: passes of the drafter so far.
        """

    def tree_size(self, plan: DraftPlan, reached: Sequence[float], steps: int) -> int:
        """Returns how many nodes to propose, the likeliest ones. Arguments as in `nodes_to_expand`."""
