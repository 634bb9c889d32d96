"""Draft policy with the length that the user chose."""

from __future__ import annotations

from collections.abc import Mapping

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

    def update(self, finished: Round, draft: Draft) -> None:
        """Does nothing: there is nothing to learn."""
