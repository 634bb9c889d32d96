"""A simulated clock: passes and draft steps take given times, and everything else takes none.

An automatic gamma chooses by times, and measured times scatter by a tenth. Given times do not scatter: two policies can be
compared by their choices, on any machine, beside any other work, and also for machines that are not available.
"""

from __future__ import annotations

import math
import random
from typing import Any

from engine.decode.policy.costs import MOST_ROWS, MachineCosts
from engine.decode.run_control import Clock
from engine.drafters.base import Drafter
from engine.drafters.draft import Draft, DraftPlan
from engine.drafters.sampler import Sampler
from engine.models.loaded import LoadedModel

PLAIN = 0.1
"""Seconds of a pass over one row."""


class ToldTimes(Clock):
    """A clock that goes on by what passes and draft steps are said to cost, in passes over one row.

    Args:
        row: what each further row of a pass costs. first, step: the first proposal that is drawn in a round, each further one.
        scatter: standard deviation of the logarithm of what a pass really takes.
    """

    def __init__(self, row: float, first: float, step: float, scatter: float = 0.0) -> None:
        super().__init__()
        self.row, self.first, self.step, self.scatter = row, first, step, scatter
        self._now = 0.0
        self._chance = random.Random(1)

    def __call__(self) -> float:
        return self._now

    def of_rows(self, rows: int) -> float:
        """Seconds of a pass over so many."""
        return PLAIN * (1 + self.row * (rows - 1))

    def plain(self, passes: int) -> float:
        """Seconds that so many passes over one row take on average."""
        return passes * self.of_rows(1) * math.exp(self.scatter**2 / 2)

    def _scattered(self, rows: int) -> float:
        return self.of_rows(rows) * self._chance.lognormvariate(0.0, self.scatter)

    def costs(self, drafters: list[str]) -> MachineCosts:
        """What a measurement of such a machine would have found, in milliseconds."""
        rows = {rows: 1e3 * self.of_rows(rows) for rows in range(1, MOST_ROWS + 1)}
        return MachineCosts(rows, dict.fromkeys(drafters, (1e3 * PLAIN * self.first, 1e3 * PLAIN * self.step)))

    def watch(self, target: LoadedModel) -> None:
        """Has the target's passes take their time from now on."""
        kind = type(target.model)
        original = kind.__call__

        def timed(model: Any, tokens: Any, *arguments: Any, **options: Any) -> Any:
            """As the original."""
            if model is target.model:
                self._now += self._scattered(int(tokens.shape[1]))
            return original(model, tokens, *arguments, **options)

        kind.__call__ = timed  # type: ignore[method-assign]

    def timed(self, drafter: Drafter | None) -> Drafter | None:
        """The drafter, or its members, with proposals that take their time."""
        for member in () if drafter is None else drafter.members.values():
            if member.capabilities.samples:
                self._time(member)
        return drafter

    def _time(self, drafter: Any) -> None:
        original = drafter.propose

        def propose(plan: DraftPlan, sampler: Sampler) -> Draft:
            """As the original."""
            draft: Draft = original(plan, sampler)
            sampled = sum(not draft.tree.is_copied(index) for index in range(draft.tree.size))
            if sampled:
                self._now += PLAIN * (self.first + self.step * (sampled - 1))
            return draft

        drafter.propose = propose
