"""What decoding asks of mlx-lm's models and caches, which have no types of their own."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Protocol

import mlx.core as mx


class CacheLayer(Protocol):
    """What one layer of a model keeps of the tokens that it has read. `prompt_cache` knows the kinds and takes tokens back."""

    @property
    def state(self) -> object:
        """Its arrays, to be evaluated."""


PromptCache = list[CacheLayer]


class TargetModel(Protocol):
    """A model of mlx-lm's kind, for which `make_prompt_cache` can make a cache."""

    def __call__(self, tokens: mx.array, /, *, cache: Sequence[CacheLayer] | None = None) -> mx.array:
        """Returns (batch, rows, width) logits after each of (batch, rows) tokens, and appends the tokens to the cache."""


class Links(Protocol):
    """What times the collectives of a split target.

    Attributes:
        timed: whether those of the next pass are to be timed.
    """

    timed: bool

    def take(self) -> float:
        """Returns the milliseconds that were timed since the last call."""


class SplitTarget(ABC):
    """A model whose layers, or parts of them, are in several processes (`engine.cluster`).

    Attributes:
        part: what this process holds; it can be called without the others.
        links: what times the collectives of a pass.
        parameter_count: of the whole model.
        pipeline_size: over how many processes the layers are spread; 1 where each has a part of every layer.
    """

    part: TargetModel
    links: Links
    parameter_count: int
    pipeline_size: int

    @abstractmethod
    def __call__(self, tokens: mx.array, /, cache: Sequence[CacheLayer] | None = None) -> mx.array:
        """As in `TargetModel`; every process runs the pass."""

    @abstractmethod
    def read(self, tokens: mx.array, cache: Sequence[CacheLayer]) -> None:
        """Runs a pass over a chunk of a prompt (1, rows), without logits; every process evaluates the same."""
