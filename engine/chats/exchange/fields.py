"""Values out of foreign JSON, which may be anything: what is not of the kind that is asked for counts as missing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def table(value: object) -> Mapping[str, Any]:
    """An object; empty for anything else."""
    return value if isinstance(value, dict) else {}


def entries(value: object) -> list[Any]:
    """A list; empty for anything else."""
    return value if isinstance(value, list) else []


def text(value: object) -> str:
    """A text; empty for anything else."""
    return value if isinstance(value, str) else ""


def seconds(value: object, otherwise: float = 0.0) -> float:
    """A time in seconds since 1970."""
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < 1e11:
        return float(value)
    return otherwise


def whole(value: object) -> int | None:
    """A whole number."""
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**53 else None
