"""Finds the parts of an answer that are code, by its Markdown fences: pictures and reports set them in a fixed-width font."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

_FENCE = re.compile(r"[ >]*(?P<mark>`{3,}(?=[^`]*$)|~{3,})(?P<rest>.*)$")


class CodePlaces:
    """Separates text from code while the tokens of an answer arrive in reading order.

    Args:
        text: the whole answer without ghosts. at: offset in it at which the first token begins.
    """

    def __init__(self, text: str, at: int = 0) -> None:
        self._edges = [edge for start, end in _fenced(text) for edge in (start, end)]
        self._at = at

    def parts(self, text: str, ghost: bool = False) -> list[tuple[str, bool]]:
        """Returns a token's text in parts, each with whether it is code. A ghost is not part of the answer, and is not
        divided."""
        if ghost:
            return [(text, self._is_code(self._at))]
        start, self._at = self._at, self._at + len(text)
        cuts = [start, *(edge for edge in self._edges if start < edge < self._at), self._at]
        return [(text[first - start : last - start], self._is_code(first)) for first, last in pairwise(cuts)]

    def _is_code(self, place: int) -> bool:
        return sum(edge <= place for edge in self._edges) % 2 == 1


def _fenced(text: str) -> Iterator[tuple[int, int]]:
    """Yields start and end of each block, including its fences but not the final line feed. A block without an end extends to the
    end of the text."""
    at, begun, mark = 0, -1, ""
    for line in text.split("\n"):
        found = _FENCE.match(line)
        if found is not None and begun < 0:
            begun, mark = at, found["mark"]
        elif found is not None and found["mark"].startswith(mark) and not found["rest"].strip():
            yield begun, at + len(line)
            begun = -1
        at += len(line) + 1
    if begun >= 0:
        yield begun, max(len(text), begun + 1)
