"""Drafting by prompt lookup: when the latest tokens stood in the conversation before, propose what followed then."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from engine.blas import prefer_fast_blas

prefer_fast_blas()

import mlx.core as mx  # noqa: E402

from engine.distribution import OneHot  # noqa: E402
from engine.drafters.base import DraftPen, Proceed, Proposals, always  # noqa: E402


class NGram:
    """Prompt lookup (Saxena 2023): the latest earlier place where the last few tokens stood, longest match first.

    Proposals are deterministic, so q is one-hot and every rule accepts x with probability p(x).

    Args:
        longest, shortest: lengths of the match that are tried, in tokens.
    """

    has_distribution = False
    name = "ngram"

    def __init__(self, longest: int = 4, shortest: int = 2) -> None:
        if not 1 <= shortest <= longest:
            raise ValueError(f"shortest must be from 1 to longest, not {shortest} with longest {longest}")
        self._lengths = range(longest, shortest - 1, -1)
        self._clear()

    def _clear(self) -> None:
        self._tokens: list[int] = []
        self._latest: dict[tuple[int, ...], int] = {}  # n-gram -> index of the token after its latest occurrence
        self._indexed = 0  # n-grams that end before this token are in the index

    def begin(self, tokens: Sequence[int], proceed: Proceed = always) -> bool:
        """As in `Drafter`."""
        self._clear()
        self._tokens = list(tokens)
        return True

    def propose(self, limit: int, pen: DraftPen) -> Proposals | None:
        """As in `Drafter`; None when the latest tokens are new."""
        self._index()
        for length in self._lengths:
            start = self._latest.get(tuple(self._tokens[-length:])) if len(self._tokens) >= length else None
            if start is not None:
                proposed = mx.array(self._tokens[start : start + limit], dtype=mx.int32)
                return Proposals(proposed, OneHot(proposed, pen.vocab_size))
        return None

    def observe(self, tokens: Sequence[int], features: Any = None) -> None:
        """As in `Drafter`."""
        self._tokens.extend(tokens)

    def prefetch(self) -> None:
        """Nothing to start early."""

    def finish(self) -> None:
        """Nothing is kept on the device."""

    def _index(self) -> None:
        """Adds the n-grams that have a successor; the one that ends the text has none yet."""
        for end in range(self._indexed, len(self._tokens)):
            for length in self._lengths:
                if end >= length:
                    self._latest[tuple(self._tokens[end - length : end])] = end
        self._indexed = len(self._tokens)
