"""A drafter as somebody would add one: this file, and the line that `tests/app/test_new_drafter.py` puts into the table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import mlx.core as mx

from engine.drafter_kinds import LoadedDrafter
from engine.drafters.base import DraftPen, Proceed, Proposals, always
from engine.target.distribution import OneHot


class Echo:
    """Proposes the newest token once more."""

    name = "echo"
    has_distribution = False
    newest = 0

    def begin(self, tokens: Sequence[int], proceed: Proceed = always) -> bool:
        self.newest = tokens[-1]
        return True

    def propose(self, limit: int, pen: DraftPen) -> Proposals | None:
        tokens = mx.array([self.newest], dtype=mx.int32)
        return Proposals(tokens, OneHot(tokens, pen.vocab_size))

    def observe(self, tokens: Sequence[int], features: Any = None) -> None:
        self.newest = tokens[-1]

    def prefetch(self) -> None:
        pass

    def finish(self) -> None:
        pass


def build(name: str, target: Any, load: Callable[[], Any]) -> LoadedDrafter:
    return LoadedDrafter(name, Echo(), make=Echo)
