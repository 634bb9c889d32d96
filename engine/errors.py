"""The one exception whose message is meant for the user."""

from __future__ import annotations

import math


class DraftlightError(Exception):
    """Something the user can cause or mend. The message says what happened and what to do."""


class NotEnoughMemory(DraftlightError):
    """A model was not loaded because it would exhaust the memory. Whoever knows better can have it loaded anyway."""


def require(holds: bool, name: str, wanted: str, value: object) -> None:
    """Refuse an impossible value of a field with a ValueError that names it and says what is possible."""
    if not holds:
        raise ValueError(f"{name} must be {wanted}, not {value!r}")


def is_number(value: object) -> bool:
    """Whether it is a finite number; True and False are none."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def is_whole(value: object) -> bool:
    """Whether it is a whole number; True and False are none."""
    return isinstance(value, int) and not isinstance(value, bool)
