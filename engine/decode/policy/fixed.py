"""Draft policy with the length that the user chose."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from engine.drafters.draft import Draft, DraftPlan, Estimate
from engine.types import Round


class FixedPolicy:
    """Requests the same number of tokens in each round.

    Attributes:
        is_drafting: as in `engine.decode.policy.adaptive.AdaptivePolicy`.
    """

    is_drafting = True

    def __init__(self, gamma: int) -> None:
        self._gamma = gamma

    def plan(self, estimates: Mapping[str, Estimate], room: int) -> DraftPlan:
        """Returns the plan of a round in which at most `room` tokens may be proposed."""
        length = min(self._gamma, room)
        return DraftPlan(next(iter(estimates)), length) if length >= 1 else DraftPlan(None)

    def should_expand(self, plan: DraftPlan, chances: Sequence[float], is_copy: bool = False) -> bool:
        """Returns True: a fixed length is never cut short."""
        return True

    def corrected(self, plan: DraftPlan, chance: float) -> float:
        """As in `engine.decode.policy.adaptive.AdaptivePolicy`, without verdicts."""
        return chance

    def nodes_to_expand(self, plan: DraftPlan, reached: Sequence[float], level: Sequence[float], steps: int) -> int:
        """Returns 0: a tree grows under an adaptive policy only."""
        return 0

    def tree_size(self, plan: DraftPlan, reached: Sequence[float], steps: int) -> int:
        """Returns the budget."""
        return plan.budget

    def update(self, finished: Round, draft: Draft) -> None:
        """Does nothing: there is nothing to learn."""
