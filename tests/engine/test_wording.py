"""Amounts and lists as people read them."""

from __future__ import annotations

import pytest

from engine.wording import duration, listed, seconds, size


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        *((0, "0 kB"), (1, "1 kB"), (999_000, "999 kB"), (999_001, "1.0 MB"), (2_440_000, "2.4 MB"), (9_949_000, "9.9 MB")),
        *(
            (9_960_000, "10 MB"),
            (312_400_000, "312 MB"),
            (999_400_000, "999 MB"),
            (999_500_000, "1.0 GB"),
            (1.2345e12, "1,234.5 GB"),
        ),
    ],
)
def test_sizes(amount: float, text: str) -> None:
    assert size(amount) == text


@pytest.mark.parametrize(
    ("length", "text"), [(0.2, "1 s"), (5.4, "5 s"), (89, "89 s"), (90, "2 min"), (3000, "50 min"), (7500, "2 h 05 min")]
)
def test_durations(length: float, text: str) -> None:
    assert duration(length) == text


@pytest.mark.parametrize(("length", "text"), [(None, "–"), (3.2, "3.20 s"), (12.3, "12 s"), (125, "2 min 5 s")])
def test_measured_times(length: float | None, text: str) -> None:
    assert seconds(length) == text


def test_lists() -> None:
    assert [listed(["a", "b", "c"][:count]) for count in (1, 2, 3)] == ["a", "a and b", "a, b and c"]
