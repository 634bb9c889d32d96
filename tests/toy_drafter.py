"""Example of an added drafter: this file, and the line that `tests/app/test_new_drafter.py` puts into the table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import mlx.core as mx

from engine.drafters.base import Drafter, Proceed, always
from engine.drafters.draft import Draft, DraftContext, DrafterCapabilities, DraftPlan
from engine.drafters.loaded import LoadedDrafter
from engine.drafters.sampler import Sampler


class Echo(Drafter):
    """Proposes the newest token once more."""

    name = "echo"
    capabilities = DrafterCapabilities(samples=False)
    newest = 0

    def start(self, context: DraftContext, proceed: Proceed = always) -> bool:
        self.newest = context.tokens[-1]
        return True

    def propose(self, plan: DraftPlan, sampler: Sampler) -> Draft:
        return sampler.copied([self.newest])

    def commit(self, path: Sequence[int], tokens: Sequence[int], hidden_states: mx.array | None) -> None:
        self.newest = tokens[-1]


def build(name: str, target: Any, load: Callable[[], Any]) -> LoadedDrafter:
    return LoadedDrafter(name, Echo(), make=Echo)
