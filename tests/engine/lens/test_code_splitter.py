"""Code in an answer is found by its fences, as by Qt's Markdown reader, however the text is split into tokens."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Any

import pytest

from engine.lens.pieces import CodeSplitter

TEXTS = [
    "Before\n\n```python\ndef f():\n    return 1\n```\nAfter",
    "~~~\na\n```\nb\n~~~\nc",
    "````\n```\nx\n```\n````\ny",
    "No end:\n\n```\nx\n  y",
    "Not `inline` code, nor ``` three in a line ``` of text\n",
    "```\n```\nempty",
    "1. item\n\n   ```\n   in the item\n   ```\n\ndone",
]


def marked(text: str, cuts: list[int]) -> list[str]:
    """Returns the lines that are code, without the fences."""
    places = CodeSplitter(text)
    edges = [0, *cuts, len(text)]
    letters = [(letter, code) for at, end in pairwise(edges) for part, code in places.parts(text[at:end]) for letter in part]
    assert "".join(letter for letter, _ in letters) == text
    lines, line = [], []
    for letter, code in [*letters, ("\n", False)]:
        if letter == "\n":
            words = "".join(one for one, _ in line)
            if any(code for _, code in line) and not words.strip().startswith(("```", "~~~")):
                lines.append(words.strip())
            line = []
        else:
            line.append((letter, code))
    return lines


@pytest.mark.parametrize("text", TEXTS)
def test_fenced_lines_are_code_as_qt_reads_them(qapp: Any, text: str) -> None:
    from PySide6.QtGui import QTextDocument, QTextFormat

    document = QTextDocument()
    document.setMarkdown(text)
    block, expected = document.begin(), []
    while block.isValid():
        if block.blockFormat().hasProperty(QTextFormat.Property.BlockCodeFence):
            expected += [line.strip() for line in block.text().split("\n") if line.strip() not in ("", "```")]
        block = block.next()
    for seed in range(8):
        cuts = sorted(random.Random(seed).sample(range(len(text)), k=min(seed * 3, len(text))))
        assert [line for line in marked(text, cuts) if line] == expected


def test_ghost_is_code_by_position_and_moves_no_offset() -> None:
    places = CodeSplitter("a\n```\nb\n```\n", offset=0)
    assert places.parts("a\n") == [("a\n", False)]
    assert places.parts(" ghost", is_ghost=True) == [(" ghost", True)]
    assert places.parts("```\nb\n```\n") == [("```\nb\n```", True), ("\n", False)]
    assert places.parts(" ghost", is_ghost=True) == [(" ghost", False)]
