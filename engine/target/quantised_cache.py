"""A target's keys and values in 4 or 8 bits: a quarter or half of the memory that half precision takes, at some precision.

Every row is quantised by itself, in groups along a head's width, when it is written. So a token's keys and values do not depend
on how many were read in the same pass, up to last bits that may cross the border of a level: speculation then gives the text of
a plain run with the same bits, up to near-ties.
"""

from __future__ import annotations

from typing import Any

import mlx.core as mx
from mlx_lm.models.cache import KVCache, QuantizedKVCache

from engine.errors import DraftlightError
from engine.target.prompt_cache import make_prompt_cache

GROUPS = (64, 32)
"""Numbers that share a scale; the first that divides the width of every head is taken, as mlx-lm's own default is 64."""


def make_quantised_cache(model: Any, bits: int, name: str) -> list[Any]:
    """An empty cache of so many bits. `name`: of the model, for messages.

    Raises:
        DraftlightError: the model has no such cache, and why.
    """
    plain = make_prompt_cache(model)
    others = sorted({type(layer).__name__ for layer in plain if type(layer) is not KVCache})
    if others:
        raise _refused(name, bits, f"not all of its layers keep plain keys and values ({', '.join(others)})")
    model(mx.array([[0, 0]]), cache=plain)  # a lazy graph that is never evaluated, for the widths
    kept = [array for layer in plain for array in (layer.keys, layer.values) if array is not None]
    widths = sorted({array.shape[-1] for array in kept})
    group = next((size for size in GROUPS if all(width % size == 0 for width in widths)), None)
    if group is None:
        raise _refused(name, bits, f"its heads are {' and '.join(map(str, widths))} wide, which {GROUPS[-1]} does not divide")
    try:
        model(mx.array([[0, 0]]), cache=_empty(len(plain), group, bits))
    except Exception as error:  # a model whose attention computes with keys and values itself raises whatever that gives
        raise _refused(name, bits, f"its attention cannot compute with one ({error})") from error
    return _empty(len(plain), group, bits)


def _empty(layers: int, group: int, bits: int) -> list[Any]:
    return [QuantizedKVCache(group_size=group, bits=bits) for _ in range(layers)]


def _refused(name: str, bits: int, reason: str) -> DraftlightError:
    return DraftlightError(f"{name} cannot use a K/V cache of {bits} bits: {reason}. Choose full precision for the K/V cache.")
