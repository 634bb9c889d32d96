"""Compares rounds as traces have them: everything exactly, and figures within a tolerance."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

UNLIKE = {"milliseconds", "started", "outlook", "queued"}
"""Fields that depend on the clock, or on who waits for whom."""
_ABSENT = object()


def differences(one: Any, other: Any, tolerance: Callable[[str], float], path: str = "") -> Iterator[str]:
    """Yields the places where two values differ.

    Args:
        one, other: plain JSON values.
        tolerance: by the path of a figure, the relative and absolute difference that it may have.
    """
    if isinstance(one, dict) and isinstance(other, dict):
        for name in sorted((one.keys() | other.keys()) - UNLIKE):
            pair = one.get(name, _ABSENT), other.get(name, _ABSENT)
            yield from differences(*pair, tolerance, f"{path}.{name}")
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for index, pair in enumerate(zip(one, other, strict=True)):
            yield from differences(*pair, tolerance, f"{path}[{index}]")
    elif isinstance(one, float) and isinstance(other, float):
        if not math.isclose(one, other, rel_tol=tolerance(path), abs_tol=tolerance(path)):
            yield f"{path}: {one} and {other}"
    elif one != other:
        yield f"{path}: {one} and {other}"
