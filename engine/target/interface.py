"""Protocols for mlx-lm's models and caches, which have no types of their own."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Protocol

import mlx.core as mx


class CacheLayer(Protocol):
    """Cache of one layer of a model. `prompt_cache` knows the kinds and rolls them back."""

    @property
    def state(self) -> object:
        """The arrays of the cache, to be evaluated."""


PromptCache = list[CacheLayer]


class TargetModel(Protocol):
    """A model like mlx-lm's, for which `make_prompt_cache` can make a cache."""

    def __call__(self, tokens: mx.array, /, *, cache: Sequence[CacheLayer] | None = None) -> mx.array:
        """Returns (batch, rows, width) logits after each of (batch, rows) tokens, and appends the tokens to the cache."""


class Links(Protocol):
    """Timer of the collectives of a split target.

    Attributes:
        timed: whether the collectives of the next pass are timed.
    """

    timed: bool

    def take(self) -> float:
        """Returns the milliseconds that were timed since the last call."""


class SplitTarget(ABC):
    """A model whose layers, or parts of them, are in several processes (`engine.cluster`).

    Attributes:
        part: the part in this process; it can be called without the others.
        links: the timer of a pass's collectives.
        parameter_count: number of parameters of the whole model.
        pipeline_size: number of processes over which the layers are spread; 1 if each has a part of every layer.
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
        """Runs a pass over a chunk of a prompt (1, rows), without logits; every process evaluates the same chunk."""
