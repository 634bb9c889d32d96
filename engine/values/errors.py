"""The one exception whose message is meant for the user."""

from __future__ import annotations

import reprlib
import sys
from collections.abc import Callable, Mapping
from typing import Any, TypeGuard

Limits = Mapping[str, tuple[Callable[[Any], bool], str]]
"""By field: whether a value is possible, and in words which are."""


class DraftlightError(Exception):
    """Something the user can cause or mend. The message says what happened and what to do."""


class NotEnoughMemory(DraftlightError):
    """A model was not loaded because it would exhaust the memory. Whoever knows better can have it loaded anyway."""


_NAMES_SHOWN = 4


def reason_of(error: BaseException) -> str:
    """Returns what an error of another library says, on one line: its first line and, of a list of names below it, the first few.

        Missing 9 parameters:
        model.layers.0.mlp.down_proj.weight,
        ...

    becomes "Missing 9 parameters: model.layers.0.mlp.down_proj.weight, … and 5 more."
    """
    first, *rest = (str(error).strip() or type(error).__name__).splitlines()
    names = [name.strip(" ,.") for name in rest if name.strip(" ,.")]
    if not first.rstrip().endswith(":") or not names:
        return first
    more = f" and {len(names) - _NAMES_SHOWN} more" if len(names) > _NAMES_SHOWN else ""
    return f"{first.rstrip()} {', '.join(names[:_NAMES_SHOWN])}{more}."


def require(holds: bool, name: str, wanted: str, value: object) -> None:
    """Refuse an impossible value of a field with a ValueError that names it and says what is possible."""
    if not holds:
        raise ValueError(f"{name} must be {wanted}, not {reprlib.repr(value)}")


def require_fields(value: object, limits: Limits, joint: str = "_") -> None:
    """Refuse a value one of whose fields is impossible, as `require`. `joint`: what stands in messages between words of names."""
    for name, (fits, wanted) in limits.items():
        field = getattr(value, name)
        require(fits(field), name.replace("_", joint), wanted, field)


def is_number(value: object) -> TypeGuard[int | float]:
    """Whether it is a number that a float holds; True and False are none."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and -sys.float_info.max <= value <= sys.float_info.max


def is_whole(value: object) -> TypeGuard[int]:
    """Whether it is a whole number; True and False are none."""
    return isinstance(value, int) and not isinstance(value, bool)
