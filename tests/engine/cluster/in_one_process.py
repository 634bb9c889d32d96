"""A fake cluster within one process: a follower that carries out rank 0's orders at once, and holds a whole model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from engine.cluster.follower import Follower
from engine.cluster.group import WIDTH, Kind, Links, Numbers, Order


class OneProcess:
    """The group as rank 0 sees it. Nothing is shared out: every rank computes everything, so all results are equal.

    Args:
        follower: what obeys; it gets this as its group.
    """

    mlx: Any = None
    rank, size = 0, 2

    def __init__(self) -> None:
        self.links = Links()
        self.follower = Follower(self)  # type: ignore[arg-type]
        self.orders: list[Order] = []
        self.sent: list[Numbers] = []
        self._due: Order | None = None

    def exchange(self, row: Sequence[int]) -> Numbers:
        """Rank 0 gives an order; the follower has carried out the one before."""
        order = Order.of(np.array([*row, *[0] * (WIDTH - len(row))], np.int32))
        self.carry_out()
        self.orders.append(order)
        self._due = order
        report, self.follower.report = self.follower.report, []
        return np.array([row + [0] * (WIDTH - len(row)), report + [0] * (WIDTH - len(report))], np.int32)

    def carry_out(self) -> None:
        """The follower runs the pass that was ordered last."""
        due, self._due = self._due, None
        if due is not None and due.kind in (Kind.PASS, Kind.READ):
            self.follower.execute(due)

    def send(self, numbers: Numbers) -> None:
        """What the follower will receive."""
        self.sent.append(numbers)

    def receive(self, length: int) -> Numbers:
        """What rank 0 has sent."""
        numbers = self.sent.pop(0)
        assert len(numbers) == length
        return numbers
