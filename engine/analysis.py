"""From the arrays of a judged round to what the window shows of it: probabilities, alternatives, margins, closed forms.

Works on host copies with numpy: on the CPU back-end MLX's exponential is many times slower, and nothing here is on the way to
the next token.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from engine import theory
from engine.types import Candidate, Expected

TOP = 5

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Row:
    """One position's distribution on the host.

    Attributes:
        probabilities: (vocab,) float32.
    """

    probabilities: Floats
    only: int | None = None
    """The token that has all of it, if one has."""

    @cached_property
    def top(self) -> tuple[int, ...]:
        """Ids of the likeliest tokens, likeliest first."""
        return top_ids(self.probabilities) if self.only is None else (self.only,)

    def of(self, token: int) -> float:
        return float(self.probabilities[token])

    @property
    def entropy(self) -> float:
        """In nats."""
        with np.errstate(divide="ignore", invalid="ignore"):
            terms = self.probabilities * np.log(self.probabilities)
        return max(0.0, -float(np.nansum(terms, dtype=np.float64)))  # 0 log 0 counts as 0

    def candidates(self, text_of: Callable[[int], str]) -> tuple[Candidate, ...]:
        return tuple(Candidate(token, text_of(token), self.of(token)) for token in self.top if self.of(token) > 0)


def rows(logits: Floats, inverse_temperature: float) -> list[Row]:
    """The distributions of (rows, vocab) float32 logits; -inf is probability 0."""
    scores = logits - logits.max(axis=-1, keepdims=True)  # before the scaling, so that no temperature is too small
    with np.errstate(over="ignore"):
        scores *= np.float32(inverse_temperature)
    np.exp(scores, out=scores)
    scores /= scores.sum(axis=-1, keepdims=True)
    return [Row(row) for row in scores]


def one_hot(token: int, vocab_size: int) -> Row:
    probabilities = np.zeros(vocab_size, dtype=np.float32)
    probabilities[token] = 1
    return Row(probabilities, token)


def coupled_acceptance(p: Row, q: Row, token: int) -> float:
    """P(the target draws the token | the drafter drew it) under shared noise: p(x) / sum_j max(p_j q(x), q_j p(x))."""
    p_token, q_token = p.of(token), q.of(token)
    if q.only is not None or p_token == 0:
        return p_token
    overlap = np.maximum(p.probabilities * np.float32(q_token), q.probabilities * np.float32(p_token))
    return min(1.0, p_token / float(overlap.sum(dtype=np.float64)))


def top_ids(values: Floats, count: int = TOP) -> tuple[int, ...]:
    """Ids of the largest values, largest first, ties to the lowest id."""
    count = min(count, len(values))
    best = np.argpartition(values, len(values) - count)[len(values) - count :]
    return tuple(int(token) for token in sorted(best, key=lambda token: (-values[token], token)))


def margin(scores: Floats) -> float:
    """Gap between the two largest of (vocab,) scores; infinite if only one token is possible."""
    if len(scores) < 2:
        return float("inf")
    second, first = np.partition(scores, len(scores) - 2)[-2:]
    return float(first - second)


def expected(p: Sequence[Row], q: Sequence[Row], greedy: bool) -> tuple[Expected, ...]:
    """The closed forms of each position. At temperature 0 both sides are their arg-max, and every rule agrees on it."""
    results = []
    for p_row, q_row in zip(p, q, strict=True):
        if greedy:
            agree = float(p_row.top[0] == q_row.top[0])
            results.append(Expected(agree, agree, agree))
        else:
            match, gumbel, rejection = theory.expected(p_row.probabilities, q_row.probabilities)
            results.append(Expected(match, gumbel, rejection))
    return tuple(results)
