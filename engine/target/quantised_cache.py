"""Keys and values in 4 or 8 bits: a quarter or half of the memory that half precision takes, at some precision.

Every row is quantised by itself, in groups along a head's width, when it is written. So a token's keys and values do not depend
on how many were read in the same pass, up to last bits that may cross the border of a level: speculation then gives the text of
a plain run with the same bits, up to near-ties. Recurrent states stay as they are: they are small, and are written over with
every token, so what rounding takes would add up.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mlx.core as mx
from mlx_lm.models.cache import CacheList, KVCache, QuantizedKVCache

from engine.target.interface import PromptCache
from engine.target.prompt_cache import leaves_of, make_prompt_cache, part_of
from engine.target.recurrent_cache import RecurrentCache
from engine.target.window_cache import ChunkCache, WindowCache
from engine.values.errors import DraftlightError

GROUPS = (64, 32)
"""Numbers that share a scale; the first that divides the width of every head is taken, as mlx-lm's own default is 64."""


class _Quantised:
    """Has a window or chunks kept in few bits. mlx-lm's attention looks at `bits` and `group_size`."""

    def __init__(self, size: int, group_size: int, bits: int) -> None:
        super().__init__(size)  # type: ignore[call-arg]
        self.group_size, self.bits = group_size, bits

    def stored(self, rows: mx.array) -> tuple[mx.array, ...]:
        """(batch, heads, rows, size) as packed numbers, scales and biases."""
        return tuple(mx.quantize(rows, group_size=self.group_size, bits=self.bits))


class QuantisedWindowCache(_Quantised, WindowCache):
    """A sliding window in few bits."""


class QuantisedChunkCache(_Quantised, ChunkCache):
    """Chunks in few bits."""


def make_quantised_cache(model: Any, bits: int, name: str) -> PromptCache:
    """An empty cache of so many bits. `name`: of the model, for messages.

    Raises:
        DraftlightError: the model has no such cache, and why.
    """
    plain = make_prompt_cache(model)
    layers = leaves_of(plain)
    others = sorted({type(layer).__name__ for layer in layers} - {kind.__name__ for kind in (*_MADE, RecurrentCache)})
    if others:
        raise _refused(name, bits, f"some of its layers keep something else than keys and values ({', '.join(others)})")
    part_of(model)(mx.array([[0, 0]]), cache=plain)  # a lazy graph that is never evaluated, for the widths
    kept = [array for layer in layers if type(layer) in _MADE for array in (layer.keys, layer.values) if array is not None]
    if not kept:
        raise _refused(name, bits, "its layers are recurrent and keep no keys and values")
    widths = sorted({array.shape[-1] for array in kept})
    group = next((size for size in GROUPS if all(width % size == 0 for width in widths)), None)
    if group is None:
        raise _refused(name, bits, f"its heads are {' and '.join(map(str, widths))} wide, which {GROUPS[-1]} does not divide")
    tried = _quantised(make_prompt_cache(model), group, bits)
    try:
        for tokens in ([[0, 0]], [[0]]):  # a pass over one token may take another way through the model
            part_of(model)(mx.array(tokens), cache=tried)
    except Exception as error:  # a model whose attention computes with keys and values itself raises whatever that gives
        raise _refused(name, bits, f"its attention cannot compute with one ({error})") from error
    return _quantised(make_prompt_cache(model), group, bits)


_MADE = {
    KVCache: lambda layer, group, bits: QuantizedKVCache(group, bits),
    WindowCache: lambda layer, group, bits: QuantisedWindowCache(layer.max_size, group, bits),
    ChunkCache: lambda layer, group, bits: QuantisedChunkCache(layer.chunk_size, group, bits),
}


def _quantised(cache: Sequence[Any], group: int, bits: int) -> list[Any]:
    """The empty cache with every layer of keys and values in few bits."""
    made: list[Any] = []
    for layer in cache:
        if isinstance(layer, CacheList):
            made.append(CacheList(*_quantised(layer.caches, group, bits)))
        else:
            made.append(_MADE[type(layer)](layer, group, bits) if type(layer) in _MADE else layer)
    return made


def _refused(name: str, bits: int, reason: str) -> DraftlightError:
    return DraftlightError(f"{name} cannot use a K/V cache of {bits} bits: {reason}. Choose full precision for the K/V cache.")
