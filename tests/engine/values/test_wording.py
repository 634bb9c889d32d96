"""The wording of amounts and lists."""

from __future__ import annotations

import ast
import re
from itertools import pairwise
from pathlib import Path

import pytest

from engine.values.wording import amount, duration, listed, noun, seconds, size


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


@pytest.mark.parametrize(
    ("count", "words"),
    [(0, "0 tokens"), (1, "1 token"), (2, "2 tokens"), (1024, "1,024 tokens"), (1_000_001, "1,000,001 tokens")],
)
def test_a_count_with_its_noun(count: int, words: str) -> None:
    assert amount(count, "token") == words


def test_plurals_that_take_no_s() -> None:
    assert [amount(count, "entry", "entries") for count in (0, 1, 2)] == ["0 entries", "1 entry", "2 entries"]
    assert noun(0.4, "day") == "days"


COUNTED = re.compile(
    r" (\w+ )?(tokens|rounds|proposals|answers|chats|turns|samples|prompts|columns|records|traces|messages|files)\b(?!/)"
)
IN_A_STRING = re.compile(rf"\}}[\"'\sf]*{COUNTED.pattern}")
"""A value and a counted noun behind it, perhaps in the next part of a string."""
NEVER_ONE = {  # no counts, or never 1
    *("kind", "statistical", "native_keys('Ctrl+Right')", "', '.join(readable)", "target.name", "self._seed", "mean", "total"),
    *("len(comparison.columns)", "len(decision.prompts)", "span.each", "gained", "turns", "'s' * (len(narrow) == 1)", "gamma"),
    *("int(layer.offset)", "length", "len(records)"),  # for messages that no user sees
}


def test_every_count_is_worded_by_the_one_helper() -> None:
    """A count before a plural noun would at some point read "1 tokens"."""
    found = []
    for folder in ("app", "engine"):
        for path in (Path(__file__).parents[3] / folder).rglob("*.py"):
            source = path.read_text(encoding="utf-8")
            if not IN_A_STRING.search(source):  # parsing takes far longer
                continue
            for node in (each for each in ast.walk(ast.parse(source)) if isinstance(each, ast.JoinedStr)):
                for value, then in pairwise(node.values):
                    if (
                        isinstance(value, ast.FormattedValue)
                        and isinstance(then, ast.Constant)
                        and COUNTED.match(str(then.value))
                    ):
                        said = ast.unparse(value.value)
                        is_constant = said.rpartition(".")[2].isupper()
                        if not is_constant and said not in NEVER_ONE and not said.startswith("amount("):
                            found.append(f"{path.name}:{node.lineno}: {said}{then.value}")
    assert not found
