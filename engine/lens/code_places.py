"""Finds the parts of an answer that are code, by its Markdown fences: pictures and reports set them in a fixed-width font."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

_FENCE = re.compile(r"[ >]*(?P<mark>`{3,}(?=[^`]*$)|~{3,})(?P<rest>.*)$")


class CodeSplitter:
    """Separates text from code while the tokens of an answer arrive in reading order.

    Args:
        text: the whole answer without ghosts. offset: offset in it at which the first token begins.
    """

    def __init__(self, text: str, offset: int = 0) -> None:
        self._edges = [edge for start, end in _fenced(text) for edge in (start, end)]
        self._offset = offset

    def parts(self, text: str, is_ghost: bool = False) -> list[tuple[str, bool]]:
        """Returns a token's text in parts, each with whether it is code. A ghost is not part of the answer, and is not
        divided."""
        if is_ghost:
            return [(text, self._is_code(self._offset))]
        start, self._offset = self._offset, self._offset + len(text)
        cuts = [start, *(edge for edge in self._edges if start < edge < self._offset), self._offset]
        return [(text[first - start : last - start], self._is_code(first)) for first, last in pairwise(cuts)]

    def _is_code(self, offset: int) -> bool:
        return sum(edge <= offset for edge in self._edges) % 2 == 1


def _fenced(text: str) -> Iterator[tuple[int, int]]:
    """Yields start and end of each block, including its fences but not the final line feed. A block without an end extends to the
    end of the text."""
    offset, start, mark = 0, -1, ""
    for line in text.split("\n"):
        fence = _FENCE.match(line)
        if fence is not None and start < 0:
            start, mark = offset, fence["mark"]
        elif fence is not None and fence["mark"].startswith(mark) and not fence["rest"].strip():
            yield start, offset + len(line)
            start = -1
        offset += len(line) + 1
    if start >= 0:
        yield start, max(len(text), start + 1)
