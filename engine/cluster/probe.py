"""Rank 0 of a cluster without a model, which measures the links: `python -m engine.cluster.probe`, a line of JSON.

It measures collectives of all ranks, because a pass waits for those.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable

import numpy as np

from engine.cluster.doctor import LINKS
from engine.cluster.group import Group, Kind, Order, join

TIMES = {2**10: 100, 2**20: 5}
"""Number of sums in each series, by the number of summed 4-byte numbers."""
SERIES = 5


def measure(group: Group) -> dict[str, float]:
    """Returns the seconds of an `exchange`, and of a sum for each of `TIMES`, in the fastest series."""
    fastest = {"exchange": _shortest(lambda: group.exchange(Order(Kind.NAP).row()), max(TIMES.values()))}
    for length, times in TIMES.items():
        numbers, order = np.zeros(length, np.int32), Order(Kind.ECHO, length=length).row()

        def both(numbers: np.ndarray = numbers, order: list[int] = order) -> None:
            """An order and the sum that it announces."""
            group.exchange(order)
            group.send(numbers)

        fastest[str(length)] = _shortest(both, times) - fastest["exchange"]
    return fastest


def _shortest(action: Callable[[], object], times: int) -> float:
    shortest = float("inf")
    for _ in range(SERIES):
        began = time.perf_counter()
        for _ in range(times):
            action()
        shortest = min(shortest, (time.perf_counter() - began) / times)
    return shortest


def main() -> None:
    """Measures the links and ends the other ranks; does not return."""
    group = join(os.environ.get("DRAFTLIGHT_LINKS", "ring"))
    sys.stdout.write(f"{LINKS}{json.dumps(measure(group))}\n")
    sys.stdout.flush()
    group.exchange(Order(Kind.END).row())
    os._exit(0)  # MLX's ring may still wait on another thread


if __name__ == "__main__":
    main()
