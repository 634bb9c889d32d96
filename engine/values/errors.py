"""Exceptions whose messages are meant for the user, and checks of field values."""

from __future__ import annotations

import reprlib
import sys
from collections.abc import Callable, Mapping
from typing import Any, TypeGuard

Limits = Mapping[str, tuple[Callable[[Any], bool], str]]
"""Maps a field's name to a predicate for its value and a description of the possible values, for messages."""


class DraftlightError(Exception):
    """An error that the user can cause or fix. The message says what happened and what to do."""


class NotEnoughMemory(DraftlightError):
    """Raised where loading a model would probably exhaust the memory. The user can have it loaded anyway."""


_NAMES_SHOWN = 4


def reason_of(error: BaseException) -> str:
    """Returns the message of another library's error on one line: its first line, and the first few of a list of names below it.

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
    """Raises a ValueError that names the field and its possible values unless `holds`."""
    if not holds:
        raise ValueError(f"{name} must be {wanted}, not {reprlib.repr(value)}")


def require_fields(value: object, limits: Limits, joint: str = "_") -> None:
    """Checks each field of `value` with `require`. In messages, `joint` stands between the words of a field's name."""
    for name, (fits, wanted) in limits.items():
        field = getattr(value, name)
        require(fits(field), name.replace("_", joint), wanted, field)


def is_number(value: object) -> TypeGuard[int | float]:
    """Returns whether a value is a finite number that a float can hold; booleans do not count."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and -sys.float_info.max <= value <= sys.float_info.max


def is_whole(value: object) -> TypeGuard[int]:
    """Returns whether a value is an integer; booleans do not count."""
    return isinstance(value, int) and not isinstance(value, bool)
