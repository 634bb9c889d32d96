"""The values that pass between a drafter, its policy and the decode loop."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import mlx.core as mx

from engine.acceptance import Draft as DraftRows
from engine.machine.host import on_host
from engine.models.loaded import LoadedModel
from engine.target.distribution import OneHot
from engine.target.interface import TargetModel
from engine.types import MAX_GAMMA, DrafterStatistics, Outlook


@dataclass(frozen=True)
class DraftTree:
    """The tokens that the target scores in one pass: the newest committed token as root, and the proposals below it.

    Nodes are numbered from the root, 0, and parents precede children. A plain round is the root alone. In a chain the parent of
    each node is the node before it; drafters propose chains so far.

    Attributes:
        root: id of the newest committed token.
        drafted: (nodes - 1,) int32 ids of the nodes below the root, in the target's vocabulary; lazy or not.
        parents: of each node below the root, the number of its parent.
        q: the distributions that `drafted` were sampled from, on the target's ids, a row each; `OneHot` if all were placed.
        placed: indexes into `drafted` of tokens that were proposed outright among sampled ones; a `OneHot` needs none.
    """

    root: int
    drafted: mx.array
    parents: tuple[int, ...]
    q: DraftRows
    placed: frozenset[int] = frozenset()

    @classmethod
    def chain(cls, root: int, drafted: mx.array, q: DraftRows, placed: frozenset[int] = frozenset()) -> DraftTree:
        """Returns the tree in which each node follows the one before it."""
        return cls(root, drafted, tuple(range(int(drafted.shape[0]))), q, placed)

    @classmethod
    def copied(cls, root: int, ids: Sequence[int], vocab_size: int) -> DraftTree:
        """Returns a chain of tokens that are proposed outright: the q of each is 1."""
        drafted = mx.array(list(ids), dtype=mx.int32)
        return cls.chain(root, drafted, OneHot(drafted, vocab_size))

    @classmethod
    def plain(cls, root: int, vocab_size: int) -> DraftTree:
        """Returns the root alone."""
        return cls.copied(root, (), vocab_size)

    @property
    def size(self) -> int:
        """The number of nodes below the root, known without evaluating them."""
        return len(self.parents)

    @property
    def tokens(self) -> mx.array:
        """(nodes,) int32: the inputs of the target's pass."""
        drafted = on_host(self.drafted)
        if drafted is not None:
            return mx.array([self.root, *drafted.tolist()], dtype=mx.int32)
        return mx.concatenate([mx.array([self.root], dtype=mx.int32), self.drafted])

    def is_copied(self, index: int) -> bool:
        """Returns whether the node at `index` of `drafted` was proposed outright instead of being sampled."""
        return isinstance(self.q, OneHot) or index in self.placed


@dataclass(frozen=True, slots=True)
class DrafterCapabilities:
    """The facts about a drafter that others decide by.

    Attributes:
        samples: False if its proposals are one-hot, so that every rule judges them alike.
        copies: True if it may know before a round which tokens it would copy (`Drafter.estimates`).
        sets_own_length: True if it decides itself how many tokens to propose, asking the sampler after each that it samples.
        hidden_layers: layers of the target whose outputs it reads, counted from 0; -1 is the first one's input.
    """

    samples: bool
    copies: bool = False
    sets_own_length: bool = False
    hidden_layers: tuple[int, ...] = ()


@dataclass(frozen=True)
class DraftContext:
    """The text that a drafter is to follow.

    Attributes:
        target: as `decode` was given it: a LoadedModel, or a bare mlx-lm style module.
        tokens: prompt and committed tokens.
        read: tokens at the beginning that the target has read already. The hidden states of these never arrive; those of the
            others do, in `Drafter.read` while the prompt is read and in `Drafter.commit` afterwards.
        kv_bits: bits of the target's keys and values; None for full precision. A drafter with a cache of its own follows.
    """

    target: LoadedModel | TargetModel
    tokens: Sequence[int]
    read: int = 0
    kv_bits: int | None = None


@dataclass(frozen=True, slots=True)
class Estimate:
    """The prospects of a drafter in the round that begins.

    Attributes:
        chances: of each token that it would copy, the probability that it is right given those before it; empty where it would
            have to sample.
        unread: committed tokens that it has to read before it can propose.
        statistics: what the drafter noted of the search for copies; a plain round reports it, too.
    """

    chances: tuple[float, ...] = ()
    unread: int = 0
    statistics: DrafterStatistics | None = None


@dataclass(frozen=True, slots=True)
class DraftPlan:
    """The decision of a policy before a round.

    Attributes:
        drafter: the one that proposes; None for a plain round.
        length: most proposals.
        max_sampled: most tokens that may be sampled; copies are not counted.
        is_adaptive: whether the policy is asked after each token if another one pays.
        speed: expected tokens in the time of a plain round; what another token must be worth.
        outlook: the figures behind the decision; None under a fixed length.
    """

    drafter: str | None
    length: int = 0
    max_sampled: int = MAX_GAMMA
    is_adaptive: bool = False
    speed: float = 1.0
    outlook: Outlook | None = None


@dataclass(frozen=True)
class Draft:
    """The result of drafting in one round.

    Attributes:
        tree: what the target is to score; the root alone if nothing was proposed.
        chances: of the first proposals, the probability that the drafter itself gave them.
        statistics: what the drafter noted of this round's search; None if it notes nothing.
        proposer: the one of several drafters that proposed.
    """

    tree: DraftTree
    chances: Sequence[float] = ()
    statistics: DrafterStatistics | None = None
    proposer: str | None = None
