"""What every run has of a crossing."""

from __future__ import annotations

from itertools import combinations, product
from math import prod
from typing import Any

import pytest

from tests.crossings import crossed


def split(cases: list[Any]) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
    """Those of every run, and all."""
    return [case.values for case in cases if not case.marks], [case.values for case in cases]


@pytest.mark.parametrize("sizes", [(2, 4, 4), (4, 2), (3, 3, 3, 2), (5,)], ids=str)
@pytest.mark.parametrize("together", [1, 2])
@pytest.mark.parametrize("times", [1, 2])
def test_what_shall_meet_meets_in_every_run_and_all_does_in_a_full_one(sizes: tuple[int, ...], together: int, times: int) -> None:
    lists = [[f"{place}.{value}" for value in range(size)] for place, size in enumerate(sizes)]
    together = min(together, len(lists))
    always, every = split(crossed(*lists, together=together, times=times))
    assert every == list(product(*lists))
    for some in combinations(range(len(lists)), together):
        ways = prod(size for place, size in enumerate(sizes) if place not in some)
        for meeting in product(*(lists[place] for place in some)):
            met = [case for case in always if all(value in case for value in meeting)]
            assert len(met) >= min(times, ways), meeting


def test_far_fewer_are_enough() -> None:
    assert len(split(crossed(range(2), range(2), range(2)))[0]) == 4
    assert len(split(crossed(range(4), range(4), range(2)))[0]) == 16
    assert len(split(crossed(range(4), range(6), together=1))[0]) == 6
    assert len(split(crossed(range(4), range(6), together=1, times=2))[0]) == 12
