"""The shape of a draft tree: which node follows which. Plain Python and numpy, known before any token is.

    node        0        1        2        3        4
    parent      -        0        0        1        1
    depth       0        1        1        2        2
    rank        -        0        1        0        1

Node 0, the root, is the newest committed token. The proposals below it are nodes 1 to `size`; parents precede their children, and
the children of a node are numbered by rank: the first is the drafter's first choice.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

RANK_CHANCES = (0.42, 0.14, 0.07, 0.04, 0.02, 0.02, 0.015, 0.015)
"""Typical probability that the target's token is the child of each rank: measured with the built-in head at temperature 0.8 under
shared noise, first proposals of 588 rounds. A draft of fixed size gives its nodes to the places that these make likeliest."""


def chances_by_rank(first: float) -> tuple[float, ...]:
    """Returns the probability that the target's token is the child of each rank, given that of the first: the others share the
    rest as in `RANK_CHANCES`."""
    left = (1 - first) / (1 - RANK_CHANCES[0])
    return (first, *(left * chance for chance in RANK_CHANCES[1:]))


class TreeShape:
    """Parents and children of the nodes of one tree.

    Args:
        parents: for each node below the root, the number of its parent. Raises ValueError if a parent does not precede it.
    """

    def __init__(self, parents: Sequence[int]) -> None:
        self.parents = tuple(parents)
        if any(not 0 <= parent <= index for index, parent in enumerate(self.parents)):
            raise ValueError(f"each node needs a parent before it: {self.parents}")

    @classmethod
    def chain(cls, length: int) -> TreeShape:
        """Returns the shape in which each node follows the one before it."""
        return cls(range(length))

    @property
    def size(self) -> int:
        """Number of nodes below the root."""
        return len(self.parents)

    @property
    def is_chain(self) -> bool:
        """Whether each node follows the one before it."""
        return self.parents == tuple(range(self.size))

    @cached_property
    def children(self) -> tuple[tuple[int, ...], ...]:
        """The children of each node, root included, by rank."""
        found: list[list[int]] = [[] for _ in range(self.size + 1)]
        for index, parent in enumerate(self.parents):
            found[parent].append(index + 1)
        return tuple(map(tuple, found))

    @cached_property
    def depths(self) -> tuple[int, ...]:
        """The depth of each node; that of the root is 0."""
        found = [0]
        for parent in self.parents:
            found.append(found[parent] + 1)
        return tuple(found)

    @cached_property
    def ranks(self) -> tuple[int, ...]:
        """The rank of each node among its siblings; that of the root is 0."""
        found = [0] * (self.size + 1)
        for children in self.children:
            for rank, child in enumerate(children):
                found[child] = rank
        return tuple(found)

    def reach_chances(self, rank_chances: Sequence[float]) -> list[float]:
        """Returns for each node below the root the probability that all of its path is right, if that of a child depends on its
        rank alone."""
        found = [1.0]
        for node, parent in enumerate(self.parents, start=1):
            found.append(found[parent] * rank_chances[self.ranks[node]])
        return found[1:]

    @cached_property
    def expanded(self) -> tuple[int, ...]:
        """The nodes that have children, ascending."""
        return tuple(node for node, children in enumerate(self.children) if children)

    def path_to(self, node: int) -> list[int]:
        """Returns the nodes from the root to a node, both included."""
        path = [node]
        while path[-1]:
            path.append(self.parents[path[-1] - 1])
        return path[::-1]

    @cached_property
    def visible(self) -> NDArray[np.bool_]:
        """(nodes, nodes) bool: whether the node of a row attends to that of a column: itself and its ancestors."""
        found = np.eye(self.size + 1, dtype=np.bool_)
        for index, parent in enumerate(self.parents):
            found[index + 1] |= found[parent]
        return found


def likeliest_tree(
    budget: int, depth: int, width: int, copies: Sequence[float] = (), rank_chances: Sequence[float] = RANK_CHANCES
) -> tuple[TreeShape, tuple[int, ...]]:
    """Returns the tree of at most `budget` nodes with the largest expected number of accepted tokens, if the child of each rank
    is right with the probability `rank_chances`, whatever the node; and the nodes that hold copies, which are a path from the
    root.

    The expected number is the sum over the nodes of the probability that all of their path is right, and a node is never likelier
    than its parent, so taking the likeliest nodes one by one is optimal. Nothing about the drawn tokens is used, so a rule may
    rely on the shape being independent of them. Nodes are numbered in the order in which they were taken.

    Args:
        budget: maximum number of nodes below the root.
        depth: maximum depth.
        width: maximum number of children of a node.
        copies: for each of some tokens that are copied one after the other, the probability that it is right if those before it
            are. Beside a copy, the drafter's own choices share what it leaves.
    """
    parents: list[int] = []
    depths, reached = [0], [1.0]
    path = [0]  # the root and the nodes that hold copies
    waiting: list[tuple[float, int, int]] = []  # -probability of the path, parent, place among the choices for its children

    def choices(node: int) -> list[float]:
        """Returns the probabilities of a node's possible children, likeliest first."""
        if node != path[-1] or len(path) > len(copies):
            return sorted(rank_chances[:width], reverse=True)
        copied = copies[len(path) - 1]
        return sorted([copied, *((1 - copied) * chance for chance in rank_chances[: width - 1])], reverse=True)

    def offer(parent: int, place: int) -> None:
        """Adds the possible child of a node that is `place`-th by probability to those that wait."""
        found = choices_of[parent]
        if depths[parent] < depth and place < len(found):
            heapq.heappush(waiting, (-reached[parent] * found[place], parent, place))

    choices_of = {0: choices(0)}
    copy_places = {0: choices_of[0].index(copies[0])} if copies else {}
    offer(0, 0)
    while waiting and len(parents) < budget:
        negative, parent, place = heapq.heappop(waiting)
        node = len(parents) + 1
        parents.append(parent)
        depths.append(depths[parent] + 1)
        reached.append(-negative)
        if copy_places.get(parent) == place:
            path.append(node)
        choices_of[node] = choices(node)
        if node == path[-1] and len(path) <= len(copies):
            copy_places[node] = choices_of[node].index(copies[len(path) - 1])
        offer(parent, place + 1)
        offer(node, 0)
    return TreeShape(parents), tuple(path[1:])
