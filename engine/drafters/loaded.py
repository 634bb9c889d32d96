"""A drafter that has been built for a target, and the function that builds it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pkgutil import resolve_name
from typing import cast

from engine.drafters.base import Drafter
from engine.models.loaded import LoadedModel
from engine.values.drafter_kinds import DrafterKind


@dataclass(frozen=True, slots=True)
class LoadedDrafter:
    """A drafter built for the current target.

    Attributes:
        name: the name that the user selected.
        drafter: the drafter itself; None if the target generates every token.
        sha256: digest of its weights; None if it has none.
        model: the draft model; None for drafters of any other kind.
        make: makes another drafter on the same weights; None if the same one must be reused.
        warning: a hint for the user about a drafter that can be used nevertheless; may be empty.
    """

    name: str
    drafter: Drafter | None
    sha256: str | None = None
    model: LoadedModel | None = None
    make: Callable[[], Drafter] | None = None
    warning: str = ""

    def renewed(self) -> Drafter | None:
        """Returns a new drafter with the same weights and no state. Without `make`, returns the same drafter, or None."""
        return self.drafter if self.make is None else self.make()

    @property
    def has_distribution(self) -> bool:
        """Whether its proposals are sampled from a distribution rather than copied."""
        return self.drafter is not None and self.drafter.capabilities.samples


Build = Callable[[str, LoadedModel, Callable[[], LoadedModel]], LoadedDrafter]
"""Builds a drafter. Its arguments are the name that the user selected, the target, whose cache can be rolled back, and a function
that loads the model of that name. Raises DraftlightError with the reasons if the drafter does not fit the target."""


def builder(kind: DrafterKind) -> Build:
    """Imports and returns the function that builds drafters of a kind."""
    return cast(Build, resolve_name(kind.build))
