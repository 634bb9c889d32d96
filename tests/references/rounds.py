"""Walks a drafter that reads the target's states through four rounds, each row computed without any cache.

Used by the scripts beside it that make references. What a drafter proposes depends on the text alone if the rows of a round come
from the target's own states; so the walk recomputes all rows each time, and no bookkeeping of ours can be wrong in both places.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

Target = Callable[[Sequence[int]], tuple[np.ndarray, np.ndarray]]
"""From tokens to the states that the drafter reads, (tokens, width), and the logits, (tokens, vocabulary)."""
Rows = Callable[[Sequence[int], np.ndarray, int], tuple[np.ndarray, np.ndarray]]
"""From the rows' tokens, their states, and how many of these, at the end, are the drafter's own, to the rows' logits and to the
states that the next step of a chain reads."""

DEPTH = 3
ACCEPTED = (1, 0, DEPTH)
"""Drafts that the target accepts after the first, second and third round."""


def walk(target: Target, rows: Rows, prompt: Sequence[int], columns: Sequence[int] | None = None) -> list[dict[str, Any]]:
    """Returns the rounds: the text so far, whose last token the target has not read; the target's logits before that token;
    the drafts; the logits of each draft; and the logits of the rows of the text that are new in this round, of which the last
    are the first draft's.

    Args:
        columns: target ids of the drafter's logits; None if they are the same.
    """
    _, logits = target(prompt)
    text = [*prompt, int(logits[-1].argmax())]
    rounds: list[dict[str, Any]] = []
    known = 0
    for accepted in (*ACCEPTED, None):
        states, logits = target(text[:-1])
        tokens, chain = list(text[1:]), np.empty((0, 0))
        fed, drafts, drafted = states, list[int](), list[np.ndarray]()
        for step in range(DEPTH):
            of_rows, outputs = rows(tokens, fed, step)
            if step == 0:
                chain = of_rows
            drafted.append(of_rows[-1])
            column = int(of_rows[-1].argmax())
            drafts.append(column if columns is None else int(columns[column]))
            tokens = [*tokens, drafts[-1]]
            fed = _append(fed, outputs[-1:], step)
        rounds.append(
            {
                "text": list(text),
                "target": _rounded(logits[-1]),
                "drafts": drafts,
                "logits": [_rounded(row) for row in drafted],
                "rows": [_rounded(row) for row in chain[known:]],
            }
        )
        known = len(text) - 1
        if accepted is None:
            return rounds
        text += drafts[:accepted]
        _, logits = target(text)
        ranked = np.argsort(-logits[-1])
        refused = drafts[accepted] if accepted < DEPTH else -1
        text.append(int(ranked[0] if ranked[0] != refused else ranked[1]))
    raise AssertionError


def _append(fed: np.ndarray, output: np.ndarray, step: int) -> np.ndarray:
    """Returns the states with one more, padded where the drafter's own are narrower than the target's."""
    return np.concatenate([fed, np.pad(output, ((0, 0), (0, fed.shape[1] - output.shape[1])))])


def _rounded(row: np.ndarray) -> list[float]:
    return [round(float(value), 5) for value in row]


def write(path: Path, made: dict[str, Any]) -> None:
    """Writes one reference as JSON, and prints its name and size."""
    path.write_text(json.dumps(made, separators=(",", ":")) + "\n", encoding="utf-8")
    first = made["rounds"][0]
    print(f"{path.name}: {path.stat().st_size} bytes, text {first['text'][-1]}, drafts {[r['drafts'] for r in made['rounds']]}")
