"""Operations on prompt caches for the decode loop and draft models: length, roll-back, marks.

mlx-lm's `trim_prompt_cache` returns 0 instead of failing if a layer cannot be trimmed, which results in silently wrong text; here
every roll-back is checked. How a layer rolls back depends on what it stores:

| layer | rolling back the newest n tokens | cost |
|---|---|---|
| keys and values, quantised or not | moves the end | none |
| sliding window, chunks (`window_cache`) | moves the end; beside the window it keeps as many rows as a round reads | none |
| recurrent state (`recurrent_cache`) | restores the state before the pass; the layer reads the kept tokens again | less than a
pass |

For longer roll-backs there are marks: the contents of such layers after a prompt was read and at the end of an answer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import mlx.core as mx
import mlx.nn as nn
from mlx.utils import tree_reduce
from mlx_lm.models import cache as mlx_caches
from mlx_lm.models.cache import ArraysCache, CacheList, ChunkedKVCache, KVCache, QuantizedKVCache, RotatingKVCache
from mlx_lm.utils import get_total_parameters

from engine.machine import device
from engine.target.interface import PromptCache, SplitTarget
from engine.target.recurrent_cache import RecurrentCache, record_passes
from engine.target.window_cache import ChunkCache, WindowCache
from engine.values.errors import DraftlightError

CHUNK_SECONDS = 0.5
"""Approximate time of one chunk of a prompt, in seconds, so that cancelling and progress stay responsive."""
CPU_SPEED, GPU_SPEED = 4e10, 2e12
"""Assumed multiply-adds per second: two CPU cores, the smallest of Apple's GPUs. Faster devices read their chunks sooner. Not
measured, because the chunk size determines the width of the passes and so the last bits of everything that follows: if it
depended on the clock, one seed would give different texts."""
SMALLEST_CHUNK, SMALLEST_ON_GPU, LARGEST_CHUNK = 16, 128, 2048
"""Limits of the chunk size, in tokens. A GPU multiplies quantised matrices in tiles of 32 rows, and a dozen tokens already need
nearly all experts of a mixture, so a large model that reads fewer tokens at once wastes most of either. The smallest GPUs have no
room for such a model."""

MARKED_BYTES = 2**29
"""Maximum bytes of the marks of one cache; the oldest are dropped first."""

OURS = (WindowCache, ChunkCache, RecurrentCache)

REFUSED = {
    "RotatingKVCache": "it drops the oldest tokens (sliding window), so rejected tokens cannot be rolled back past the window",
    "ChunkedKVCache": "it drops whole chunks, so rejected tokens cannot be rolled back across a chunk",
    "ArraysCache": "it is a recurrent state, which cannot be rolled back",
    "LayerCache": "it merges tokens into groups, which cannot be taken apart again",
}
"""Reasons, by class, why a cache of mlx-lm cannot be rolled back. `make_prompt_cache` replaces the first three if possible."""


def make_prompt_cache(model: Any) -> PromptCache:
    """Returns an empty cache, as the model itself or mlx-lm makes it, but with layers that can be rolled back."""
    made: list[Any] = mlx_caches.make_prompt_cache(model)
    cache = [_replaced(layer) for layer in made]
    if any(isinstance(leaf, RecurrentCache) for leaf in leaves_of(cache)):
        record_passes(model)
    return cache


def _replaced(layer: Any) -> Any:
    if type(layer) is CacheList:
        return CacheList(*map(_replaced, layer.caches))
    if type(layer) is RotatingKVCache and layer.keep == 0:
        return WindowCache(layer.max_size)
    if type(layer) is ChunkedKVCache:
        return ChunkCache(layer.chunk_size)
    if type(layer) is ArraysCache:
        return RecurrentCache(len(layer.cache))
    return layer


def callable_part(model: Any) -> Any:
    """Returns the module that can be called in this process alone: the local part of a model that is split over processes
    (`engine.cluster`), else the model itself."""
    return model.part if isinstance(model, SplitTarget) else model


def logits_width(model: Any) -> int:
    """Returns the width of a model's logits, from the shape of a lazy graph that is never evaluated."""
    return int(callable_part(model)(mx.array([[0]]), cache=make_prompt_cache(model)).shape[-1])


def logits_type(model: Any) -> str:
    """Returns the type of a model's logits, such as "float32", from a lazy graph that is never evaluated."""
    return str(callable_part(model)(mx.array([[0]]), cache=make_prompt_cache(model)).dtype).rpartition(".")[2]


def parameters_of(model: nn.Module) -> int:
    """Returns the number of parameters of a model, quantised or not."""
    return int(get_total_parameters(model))


def chunk_size(model: Any) -> int:
    """Returns the number of prompt tokens in one pass: a power of two that depends only on the model's size and the kind of
    device.

    A pass takes two operations for each parameter and token. So a chunk takes about `CHUNK_SECONDS` at the assumed speed, unless
    the model is so large that the smallest chunk takes longer.
    """
    if isinstance(model, SplitTarget):
        parameters = model.parameter_count
    else:
        parameters = parameters_of(model) if isinstance(model, nn.Module) else 0
    speed, smallest = (CPU_SPEED, SMALLEST_CHUNK) if device.kind() == "cpu" else (GPU_SPEED, SMALLEST_ON_GPU)
    fitting = CHUNK_SECONDS * speed / (2 * max(1, parameters))
    return max(smallest, min(LARGEST_CHUNK, 2 ** round(math.log2(fitting))))


def leaves_of(cache: Sequence[Any]) -> list[Any]:
    """Returns the single-layer caches, including those inside a CacheList."""
    leaves: list[Any] = []
    for layer in cache:
        nested = getattr(layer, "caches", None)
        leaves.extend(leaves_of(nested) if nested is not None else [layer])
    return leaves


def refusal(cache: Sequence[Any]) -> str | None:
    """Returns why this cache cannot be rolled back, or None if it can."""
    for layer in leaves_of(cache):
        if isinstance(layer, OURS):
            continue
        name = type(layer).__name__
        for parent in type(layer).__mro__:
            if parent.__name__ in REFUSED:
                return f"its cache is a {name}: {REFUSED[parent.__name__]}"
        if not (hasattr(layer, "trim") and layer.is_trimmable()):
            return f"its cache is a {name}, which cannot be rolled back"
    return None


def _is_unused(layer: Any) -> bool:
    """Returns whether the model never wrote to this cache, as models without attention do."""
    written = getattr(layer, "keys", None) is not None or any(part is not None for part in getattr(layer, "cache", ()))
    return getattr(layer, "offset", 0) == 0 and not written


def cache_length(cache: Sequence[Any]) -> int | None:
    """Returns the number of tokens in the cache; None if no layer counts them (a model that needs no cache)."""
    for layer in leaves_of(cache):
        if hasattr(layer, "offset") and not _is_unused(layer):
            return int(layer.offset)
    return None


def is_empty(cache: Sequence[Any]) -> bool:
    """Returns whether no layer has read anything yet, even if no layer counts tokens."""
    return all(layer.empty() for layer in leaves_of(cache) if hasattr(layer, "empty"))


def check_cache(cache: Sequence[Any], length: int, whose: str) -> None:
    """Asserts that the cache holds `length` tokens. Only layers that have been written to can be checked."""
    for layer in leaves_of(cache):
        if hasattr(layer, "offset") and not _is_unused(layer) and int(layer.offset) != length:
            raise AssertionError(f"the {whose}'s cache holds {int(layer.offset)} tokens instead of {length}")


def watch(cache: Sequence[Any], is_on: bool = True) -> None:
    """Lets the tokens of later passes be rolled back, until `trim_to` settles them; `is_on` = False ends that."""
    for layer in leaves_of(cache):
        if isinstance(layer, OURS):
            layer.watched = is_on


def trim_to(cache: Sequence[Any], length: int, whose: str) -> None:
    """Rolls the cache back to its first `length` tokens and settles them. Raises AssertionError if a layer cannot be rolled
    back."""
    for layer in leaves_of(cache):
        if isinstance(layer, OURS):
            _trim(layer, length)
        elif hasattr(layer, "offset") and int(layer.offset) > length:
            layer.trim(int(layer.offset) - length)
    check_cache(cache, length, whose)


def _trim(layer: Any, length: int) -> None:
    """Rolls one layer back to a length, directly or with a mark. A layer that cannot go there is unchanged, and `check_cache`
    notices."""
    if layer.offset > length:
        if layer.reaches(length):
            layer.cut(length)
        elif length in layer.marks:
            layer.restore(layer.marks[length])
        elif length == 0:
            layer.reset()
        layer.marks = {position: marked for position, marked in layer.marks.items() if position <= length}
    if isinstance(layer, RecurrentCache):
        layer.settle()


def _reaches(layer: Any, length: int) -> bool:
    return _is_unused(layer) or length == 0 or length in layer.marks or layer.reaches(length)


def rewind(cache: Sequence[Any], length: int, whose: str) -> int:
    """Rolls back to the first `length` tokens, or if a layer cannot, to the nearest earlier mark.

    Returns:
        Number of tokens that the cache now holds; the others must be read again. 0 if no mark is left.
    """
    layers = [layer for layer in leaves_of(cache) if isinstance(layer, OURS)]
    marked = {position for layer in layers for position in layer.marks if position < length}
    for position in (length, *sorted(marked, reverse=True), 0):
        if all(_reaches(layer, position) for layer in layers):
            break
    trim_to(cache, position, whose)
    return position


def mark(cache: Sequence[Any]) -> None:
    """Records the current position for `rewind`. Layers that can always be rolled back need no mark.

    Beyond `MARKED_BYTES` the oldest marks are dropped, this one last.
    """
    layers = [layer for layer in leaves_of(cache) if isinstance(layer, OURS) and not _is_unused(layer)]
    for layer in layers:
        if layer.offset not in layer.marks:
            layer.marks[layer.offset] = layer.mark()
            mx.eval(layer.marks[layer.offset])
    positions = sorted({position for layer in layers for position in layer.marks})
    while positions and _marked_bytes(layers) > MARKED_BYTES:
        oldest = positions.pop(0)
        for layer in layers:
            layer.marks.pop(oldest, None)


def _marked_bytes(layers: Sequence[Any]) -> int:
    marks = [list(layer.marks.values()) for layer in layers]
    return int(tree_reduce(lambda total, part: total + getattr(part, "nbytes", 0), marks, 0))


def can_hide(cache: Sequence[Any]) -> bool:
    """Returns whether `hide_newest` works for this cache: its layers keep their contents from before the newest token."""
    return all(isinstance(layer, OURS) or type(layer) in (KVCache, QuantizedKVCache) for layer in leaves_of(cache))


def hide_newest(cache: Sequence[Any]) -> None:
    """Rolls one token back, which `show_newest` can bring back as long as nothing is written in between.

    So a plain round can queue the next round's forward pass, while between rounds the cache still holds exactly the committed
    tokens without the newest. The cache must be watched.
    """
    for layer in leaves_of(cache):
        if isinstance(layer, OURS):
            if not _is_unused(layer):
                layer.hide()
        elif not _is_unused(layer):
            layer.offset -= 1


def show_newest(cache: Sequence[Any]) -> None:
    """Undoes `hide_newest`."""
    for layer in leaves_of(cache):
        if isinstance(layer, OURS):
            if not _is_unused(layer):
                layer.show()
        elif getattr(layer, "keys", None) is not None:
            layer.offset += 1


def state_of(cache: Sequence[Any]) -> list[Any]:
    """Returns the arrays to evaluate so that a chunk of the prompt is really read."""
    return [layer.state for layer in cache if not _is_unused(layer)]


def read_prompt(
    model: Callable[..., mx.array],
    cache: Sequence[Any],
    tokens: Sequence[int],
    proceed: Callable[[int, int], bool],
    chunk: int | None = None,
) -> bool:
    """Feeds tokens to the model in chunks.

    Args:
        proceed: called with (done, total) before the first and after every chunk; returns False to cancel.
        chunk: tokens of each chunk but the last; None is the model's `chunk_size`.

    Returns:
        Whether all tokens were read; after cancelling, the cache holds a prefix of them.
    """
    total, done = len(tokens), 0
    watch(cache, False)
    if not proceed(0, total):
        return False
    if not total:
        return True
    size = chunk or chunk_size(model)
    while done < total:
        part = mx.array(list(tokens[done : done + size]))
        if isinstance(model, SplitTarget):
            model.read(part[None], cache)
        else:
            output = model(part[None], cache=cache)
            arrays = state_of(cache)
            mx.eval(arrays if arrays else output)
        done = min(done + size, total)
        if not proceed(done, total):
            return False
    return True


def require_rollback(cache: Sequence[Any], whose: str) -> None:
    """Raises DraftlightError if this cache cannot be rolled back, as speculation needs."""
    reason = refusal(cache)
    if reason is not None:
        raise DraftlightError(f"The {whose} cannot be decoded speculatively: {reason}. Use it without a drafter.")
