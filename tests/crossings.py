"""Chooses cases for tests that combine several lists: every pair of values in each run, every combination in a full one.

A fault shows with one value, or where two values meet; one that needs three to meet is rare. So every run has each pair of
values, or each value, and `make test-full` has every combination.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import combinations, product
from typing import Any

import pytest


def crossed(*lists: Iterable[Any], together: int = 2, times: int = 1) -> list[Any]:
    """All combinations for `parametrize`. Those that are not needed in every run have the marker `full`.

    Args:
        together: how many values meet in all ways in every run: 2 for pairs, 1 where each value has its turn.
        times: how often, as far as there are combinations.
    """
    values = [list(each) for each in lists]
    places = list(product(*(range(len(each)) for each in values)))
    needed = _enough(places, min(together, len(values)), times)
    cases = product(*values)
    return [pytest.param(*case, marks=() if at in needed else pytest.mark.full) for case, at in zip(cases, places, strict=True)]


def _enough(places: list[tuple[int, ...]], together: int, times: int) -> set[tuple[int, ...]]:
    """Takes, again and again, the first combination that has most of what is still missing."""

    def meetings(place: tuple[int, ...]) -> list[tuple[tuple[int, int], ...]]:
        return list(combinations(enumerate(place), together))

    possible = Counter(meeting for place in places for meeting in meetings(place))
    missing = Counter({meeting: min(times, count) for meeting, count in possible.items()})
    taken: list[tuple[int, ...]] = []
    while missing:
        left = (place for place in places if place not in taken)
        best = max(left, key=lambda place: (sum(each in missing for each in meetings(place)), -_used(taken, place, together)))
        taken.append(best)
        missing -= Counter(meetings(best))
    return set(taken)


def _used(taken: list[tuple[int, ...]], place: tuple[int, ...], together: int) -> int:
    """How often values of this combination were taken. Of pairs there are the fewest where that does not count."""
    return 0 if together > 1 else sum(value == other for each in taken for value, other in zip(place, each, strict=True))
