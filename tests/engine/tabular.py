"""Tiny language models whose conditionals are rows of a table, so that the distribution of their texts can be enumerated.

`TabularModel` looks like any mlx-lm model: tokens in, logits out, with mlx-lm's own cache underneath. Its memory of earlier
tokens is only what it finds in that cache, so a cache rolled back wrongly gives wrong conditionals and shows in the law. There
is one for each way in which layers remember: all keys and values, those in a window, and a state.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import mlx.core as mx
import mlx.nn as nn
import numpy as np
from mlx_lm.models.cache import ArraysCache, KVCache, RotatingKVCache

ORDER = 2
DRAFTERS = ("good", "bad", "one-hot", "disjoint", "narrow", "wide")


class TabularModel(nn.Module):
    """Logits that depend on the last ORDER tokens.

    Args:
        table: (contexts,) * ORDER + (vocab,) float32 logits, oldest token first. Ids from `contexts` on count as the
            last one, and what stood before the text as 0.
    """

    def __init__(self, table: np.ndarray) -> None:
        super().__init__()
        self.contexts, self.vocab_size = table.shape[0], table.shape[-1]
        self._rows = table.reshape(-1, self.vocab_size).astype(np.float32)

    @property
    def layers(self) -> list[None]:
        """One, so that `make_prompt_cache` makes one cache."""
        return [None]

    def __call__(self, tokens: mx.array, cache: list[KVCache] | None = None) -> mx.array:
        """tokens: (1, rows) ids; returns (1, rows, vocab) logits."""
        batch, rows = tokens.shape
        assert batch == 1
        text = tokens.astype(mx.float32).reshape(1, 1, rows, 1)
        if cache is not None:
            text = self._with_earlier(text, cache[0])
        # numpy looks the rows up: MLX would hand twenty operations, each smaller than the handing over, to another thread
        ids = np.minimum(np.asarray(text).reshape(-1).astype(np.int64), self.contexts - 1)
        padded = np.concatenate([np.zeros(ORDER - 1, dtype=np.int64), ids])
        length = len(ids)
        index = np.zeros(rows, dtype=np.int64)
        for lag in range(ORDER):
            index = index * self.contexts + padded[length - rows + lag : length + lag]
        return mx.array(self._rows[index][None])

    def _with_earlier(self, text: mx.array, cache: Any) -> mx.array:
        """(1, 1, rows, 1) tokens behind the earlier ones that the cache has; it takes them in."""
        remembered: mx.array = cache.update_and_fetch(text, text)[0]
        return remembered


class TreeModel(TabularModel):
    """The same law from what the cache's mask shows, as an attention layer sees it: each row's own token, and the last one before
    it in view."""

    def __call__(self, tokens: mx.array, cache: list[Any] | None = None) -> mx.array:
        """Returns (1, rows, vocab) logits after each of (1, rows) tokens."""
        assert cache is not None
        rows = tokens.shape[1]
        mask = cache[0].make_mask(rows, window_size=None, return_array=True)
        text = self._with_earlier(tokens.astype(mx.float32).reshape(1, 1, rows, 1), cache[0])
        ids = np.minimum(np.asarray(text).reshape(-1).astype(np.int64), self.contexts - 1)
        in_view = np.tril(np.ones((len(ids), len(ids)), bool))[-rows:] if mask is None else np.asarray(mask)
        before = [next((int(ids[at]) for at in np.flatnonzero(row)[::-1][1:]), 0) for row in in_view]
        return mx.array(self._rows[np.array(before) * self.contexts + ids[-rows:]][None])


class WindowModel(TabularModel):
    """The same law from a sliding window that is just long enough."""

    def make_cache(self) -> list[Any]:
        return [RotatingKVCache(max_size=ORDER)]


class RecurrentModel(TabularModel):
    """The same law from a recurrent state: the last tokens but one."""

    def __init__(self, table: np.ndarray) -> None:
        super().__init__(table)
        self.memory = Memory()

    @property
    def layers(self) -> list[nn.Module]:
        return [self.memory]

    def make_cache(self) -> list[Any]:
        return [ArraysCache(size=1)]

    def _with_earlier(self, text: mx.array, cache: Any) -> mx.array:
        return self.memory(text.reshape(1, -1, 1), cache)


class Memory(nn.Module):
    """A recurrent layer that passes on what it remembers with what it is given, (1, rows, 1)."""

    def __call__(self, text: mx.array, cache: ArraysCache) -> mx.array:
        joined = mx.concatenate([mx.zeros((1, ORDER - 1, 1)) if cache[0] is None else cache[0], text], axis=1)
        cache[0] = joined[:, 1 - ORDER :]
        return joined


@dataclass(frozen=True)
class Pair:
    """A target and a drafter as tables: (contexts, contexts, vocab) logits each, see TabularModel."""

    target: np.ndarray
    draft: np.ndarray

    @property
    def vocab_size(self) -> int:
        return self.target.shape[-1]


def pair(drafter: str, vocab_size: int, seed: int = 0) -> Pair:
    """A random target and one of DRAFTERS beside it.

    good: the target's logits with some noise; bad: unrelated; one-hot: one token without alternative; disjoint: only tokens
    that the target never emits; narrow: does not know the last id; wide: knows two ids beyond the target's.
    """
    generator = np.random.default_rng((seed, vocab_size, DRAFTERS.index(drafter)))
    shape = (vocab_size,) * (ORDER + 1)
    target = generator.normal(0.0, 1.2, shape)
    good = target + generator.normal(0.0, 0.6, shape)
    if drafter == "good":
        draft = good
    elif drafter == "bad":
        draft = generator.normal(0.0, 1.2, shape)
    elif drafter == "one-hot":
        draft = np.where(good == good.max(axis=-1, keepdims=True), 0.0, -np.inf)
    elif drafter == "disjoint":
        ranks = generator.permuted(np.broadcast_to(np.arange(vocab_size), shape), axis=-1)
        theirs = ranks >= generator.integers(1, vocab_size, (*shape[:-1], 1))
        target, draft = np.where(theirs, -np.inf, target), np.where(theirs, good, -np.inf)
    elif drafter == "narrow":
        draft = good[..., :-1]
    else:
        assert drafter == "wide", drafter
        draft = np.concatenate([good, generator.normal(0.0, 1.2, (*shape[:-1], 2))], axis=-1)
    return Pair(target.astype(np.float32), draft.astype(np.float32))


def distribution(
    logits: np.ndarray, temperature: float = 1.0, top_p: float = 1.0, min_p: float = 0.0, top_k: int = 0
) -> np.ndarray:
    """float64 probabilities: top-p, min-p and top-k on the untempered ones, then temperature. logits: (..., vocab)."""
    logits = logits.astype(np.float64)
    likely = softmax(logits)
    ascending = np.argsort(likely, axis=-1)
    ranked = np.take_along_axis(likely, ascending, axis=-1)
    keep = np.ones_like(ranked, dtype=bool)
    if 0 < top_p < 1:
        keep &= np.cumsum(ranked, axis=-1) > 1 - top_p
    if min_p:
        keep &= ranked >= min_p * ranked[..., -1:]
    if top_k:
        keep &= np.arange(ranked.shape[-1]) >= ranked.shape[-1] - top_k
    kept = np.zeros_like(keep)
    np.put_along_axis(kept, ascending, keep, axis=-1)
    return softmax(np.where(kept, logits, -np.inf) / temperature)


def softmax(logits: np.ndarray) -> np.ndarray:
    weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


def law_of_text(conditionals: np.ndarray, prompt: list[int], length: int) -> np.ndarray:
    """(vocab,) * length probabilities of the first tokens after a prompt. conditionals: (vocab, vocab, vocab)."""
    vocab_size = conditionals.shape[-1]
    law = np.zeros((vocab_size,) * length)
    for text in itertools.product(range(vocab_size), repeat=length):
        whole = [0] * ORDER + prompt + list(text)
        start = len(whole) - length
        law[text] = np.prod(
            [conditionals[(*whole[start + index - ORDER : start + index], text[index])] for index in range(length)]
        )
    return law
