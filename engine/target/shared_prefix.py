"""How much of a text two token sequences share. No MLX."""

from __future__ import annotations

from collections.abc import Sequence


def common_prefix(first: Sequence[int], second: Sequence[int]) -> int:
    """How many leading tokens are equal."""
    length = min(len(first), len(second))
    return next((place for place in range(length) if first[place] != second[place]), length)
