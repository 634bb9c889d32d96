"""Caches of keys and values in 4 or 8 bits: a quarter or half of the memory of half precision, at some loss of precision.

Every row is quantised by itself, in groups along a head's width, when it is written. So a token's keys and values do not depend
on the number of tokens in the same pass, except for last bits that may cross the border of a level: speculation then gives the
text of a plain run with the same bits, up to near-ties. Recurrent states are not quantised: they are small, and every token
overwrites them, so rounding errors would add up.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mlx.core as mx
from mlx_lm.models.cache import CacheList, KVCache, QuantizedKVCache

from engine.target.interface import PromptCache
from engine.target.prompt_cache import callable_part, leaves_of, make_prompt_cache
from engine.target.recurrent_cache import RecurrentCache
from engine.target.window_cache import ChunkCache, WindowCache
from engine.values.errors import DraftlightError

GROUPS = (64, 32)
"""Sizes of a quantisation group: the first that divides the width of every head is used. mlx-lm's own default is 64."""


class _Quantised:
    """Mixin that quantises a window or chunks. mlx-lm's attention reads `bits` and `group_size`."""

    def __init__(self, size: int, group_size: int, bits: int) -> None:
        super().__init__(size)  # type: ignore[call-arg]
        self.group_size, self.bits = group_size, bits

    def stored(self, rows: mx.array) -> tuple[mx.array, ...]:
        """Returns (batch, heads, rows, size) keys or values as packed numbers, scales and biases."""
        return tuple(mx.quantize(rows, group_size=self.group_size, bits=self.bits))


class QuantisedWindowCache(_Quantised, WindowCache):
    """A quantised sliding window."""


class QuantisedChunkCache(_Quantised, ChunkCache):
    """Quantised chunks."""


def empty_cache(model: Any, bits: int | None, name: str) -> PromptCache:
    """Returns an empty cache of `bits` bits, or of full precision if that is None. `name`, errors: see `make_quantised_cache`."""
    return make_prompt_cache(model) if bits is None else make_quantised_cache(model, bits, name)


def make_quantised_cache(model: Any, bits: int, name: str) -> PromptCache:
    """Returns an empty cache of `bits` bits. `name`: of the model, for messages.

    Raises:
        DraftlightError: the model cannot use such a cache; the message says why.
    """
    plain = make_prompt_cache(model)
    layers = leaves_of(plain)
    others = sorted({type(layer).__name__ for layer in layers} - {kind.__name__ for kind in (*_MADE, RecurrentCache)})
    if others:
        raise _refused(name, bits, f"some of its layers keep something else than keys and values ({', '.join(others)})")
    callable_part(model)(mx.array([[0, 0]]), cache=plain)  # a lazy graph that is never evaluated, for the widths of the heads
    kept = [array for layer in layers if type(layer) in _MADE for array in (layer.keys, layer.values) if array is not None]
    if not kept:
        raise _refused(name, bits, "its layers are recurrent and keep no keys and values")
    widths = sorted({array.shape[-1] for array in kept})
    group = next((size for size in GROUPS if all(width % size == 0 for width in widths)), None)
    if group is None:
        raise _refused(name, bits, f"its heads are {' and '.join(map(str, widths))} wide, which {GROUPS[-1]} does not divide")
    tried = _quantised(make_prompt_cache(model), group, bits)
    try:
        for tokens in ([[0, 0]], [[0]]):  # a pass over one token may use another code path of the model
            callable_part(model)(mx.array(tokens), cache=tried)
    except Exception as error:  # a model whose attention computes with the keys and values themselves may raise anything
        raise _refused(name, bits, f"its attention cannot compute with one ({error})") from error
    return _quantised(make_prompt_cache(model), group, bits)


_MADE = {
    KVCache: lambda layer, group, bits: QuantizedKVCache(group, bits),
    WindowCache: lambda layer, group, bits: QuantisedWindowCache(layer.max_size, group, bits),
    ChunkCache: lambda layer, group, bits: QuantisedChunkCache(layer.chunk_size, group, bits),
}


def _quantised(cache: Sequence[Any], group: int, bits: int) -> list[Any]:
    """Returns the empty cache with every layer of keys and values replaced by a quantised one."""
    made: list[Any] = []
    for layer in cache:
        if isinstance(layer, CacheList):
            made.append(CacheList(*_quantised(layer.caches, group, bits)))
        else:
            made.append(_MADE[type(layer)](layer, group, bits) if type(layer) in _MADE else layer)
    return made


def _refused(name: str, bits: int, reason: str) -> DraftlightError:
    return DraftlightError(f"{name} cannot use a K/V cache of {bits} bits: {reason}. Choose full precision for the K/V cache.")
