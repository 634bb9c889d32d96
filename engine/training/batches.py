"""What every reader of a target takes and gives: texts side by side, features and soft labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

LABELS = 64
"""Likeliest tokens kept at each position."""
LARGEST = 65504.0
"""float16's: features beyond it are cut to it. Only the first token's outputs of some models come near."""


@dataclass(frozen=True)
class Read:
    """Of one text: features (length, taps x hidden) float16, and of the `LABELS` likeliest next tokens at each position the ids
    (length, LABELS) int32, in no order, and log-probabilities at temperature 1 (length, LABELS) float16."""

    features: np.ndarray
    ids: np.ndarray
    logs: np.ndarray


class Batch(Protocol):
    """Answers being written side by side."""

    def draw(self, tokens: np.ndarray, uniforms: np.ndarray, temperature: float) -> np.ndarray:
        """The next token of every row (rows,), from the newest ones and a uniform number each; at temperature 0 the arg-max."""

    def keep(self, rows: np.ndarray) -> None:
        """Go on with these rows only."""


class Reader(Protocol):
    """A target and its taps."""

    fast: bool
    """Whether it is the CPU's own."""

    def read(self, texts: Sequence[np.ndarray]) -> list[Read]:
        """Features and labels of texts (length,) each, of similar length."""

    def begin(self, prompts: Sequence[Sequence[int]]) -> Batch:
        """Answers to prompts; all but the newest token of each are read."""


def padded(texts: Sequence[np.ndarray] | Sequence[Sequence[int]]) -> np.ndarray:
    """(texts, longest) int32, filled up at the end with token 0."""
    tokens = np.zeros((len(texts), max(map(len, texts))), np.int32)
    for row, text in enumerate(texts):
        tokens[row, : len(text)] = np.asarray(text)
    return tokens


def stored(features: np.ndarray) -> np.ndarray:
    """Features as they are kept."""
    return np.clip(features, -LARGEST, LARGEST).astype(np.float16)
