"""Common prefix of two token sequences. No MLX."""

from __future__ import annotations

from collections.abc import Sequence


def common_prefix(first: Sequence[int], second: Sequence[int]) -> int:
    """Returns the number of leading tokens that are equal."""
    length = min(len(first), len(second))
    return next((place for place in range(length) if first[place] != second[place]), length)
