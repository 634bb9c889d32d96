"""Caches of recurrent layers (state spaces, linear attention, convolutions) that can be rolled back.

A recurrent state has no rows that could be dropped, and a pass over several tokens leaves only the state after the last of them.
The input of a layer, however, does not depend on the layers above it. So while a cache is watched, it keeps the state before each
pass (MLX's arrays never change: references are enough) and the layer's input. To keep the first n rows of a pass, only this layer
runs again, from that state over n rows of that input. Its output is not used, so of the lazy graph only the path to the state is
computed: neither attention, nor the experts, nor the logits, nor any other layer.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import mlx.core as mx
from mlx_lm.models.cache import ArraysCache, CacheList

_SEEN = "_draftlight_recurrent"


@dataclass(frozen=True)
class _Pass:
    """One forward pass of a layer: its first position, the state before it, and the arguments of the call."""

    offset: int
    rows: int
    before: list[mx.array | None]
    kind: type
    block: Any
    positional: tuple[Any, ...]
    named: dict[str, Any]


class RecurrentCache(ArraysCache):
    """mlx-lm's cache of a recurrent layer, which also counts tokens and can drop the newest.

    Attributes:
        offset: number of tokens read.
        watched: whether passes may be rolled back; while it is True, the input of every pass is kept.
        marks: results of `mark`, keyed by position.
    """

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.offset = 0
        self.marks: dict[int, Any] = {}
        self._watched = False
        self._passes: list[_Pass] = []
        self._hidden: list[mx.array | None] | None = None

    @property
    def watched(self) -> bool:
        """Whether passes are recorded, so that they can be rolled back."""
        return self._watched

    @watched.setter
    def watched(self, is_on: bool) -> None:
        self._watched = is_on
        if not is_on:
            self._passes.clear()

    def note(self, rows: int, kind: type, block: Any, positional: tuple[Any, ...], named: dict[str, Any]) -> None:
        """Records a call of a layer with this cache, before it happens: the layer, its class and the arguments."""
        self._hidden = None
        if self._watched:
            self._passes.append(_Pass(self.offset, rows, list(self.cache), kind, block, positional, named))
        self.offset += rows

    def reaches(self, length: int) -> bool:
        """Returns whether the state after `length` tokens can be restored."""
        return length == self.offset or (bool(self._passes) and length >= self._passes[0].offset)

    def cut(self, length: int) -> None:
        """Drops all but the first `length` tokens."""
        if length < self.offset:
            self._passes = [one for one in self._passes if one.offset <= length]
            noted = self._passes[-1]
            self.cache, self.offset, self._hidden = list(noted.before), length, None
            if length > noted.offset:
                self._read_again(noted, length - noted.offset)

    def settle(self) -> None:
        """Forgets the recorded passes: the tokens read so far can no longer be rolled back."""
        self._passes.clear()

    def _read_again(self, noted: _Pass, rows: int) -> None:
        def cut(argument: Any) -> Any:
            """Returns the argument for the first `rows` rows. Masks are dropped: only attention beside this layer uses them, and
            its output is not used."""
            if isinstance(argument, CacheList):
                return CacheList(*(inner if inner is self else _Discarding(noted.offset) for inner in argument.caches))
            if isinstance(argument, str):
                return None
            if not isinstance(argument, mx.array):
                return argument
            if argument.dtype == mx.bool_:
                return None
            has_rows = argument.ndim > 1 and argument.shape[1] == noted.rows
            return argument[:, :rows] if has_rows else argument

        noted.kind.__call__(noted.block, *map(cut, noted.positional), **{name: cut(value) for name, value in noted.named.items()})

    def hide(self) -> None:
        """Rolls back one token, which `show` can bring back."""
        hidden = list(self.cache)
        self.cut(self.offset - 1)
        self._hidden = hidden

    def show(self) -> None:
        """Undoes `hide`."""
        assert self._hidden is not None, "nothing was read since the state was hidden"
        self.cache, self._hidden = self._hidden, None
        self.offset += 1

    def reset(self) -> None:
        """Drops all tokens."""
        self.cache = [None] * len(self.cache)
        self.offset, self._hidden = 0, None
        self._passes.clear()

    def mark(self) -> Any:
        """Returns the state, to be passed to `restore`."""
        return list(self.cache), self.offset

    def restore(self, marked: Any) -> None:
        """Restores the state that `mark` returned."""
        state, self.offset = marked
        self.cache, self._hidden = list(state), None
        self._passes.clear()


class _Discarding:
    """Stub cache for attention beside a recurrent layer that runs again: nothing of it is computed."""

    def __init__(self, offset: int) -> None:
        self.offset = offset

    def update_and_fetch(self, keys: mx.array, values: mx.array) -> tuple[mx.array, mx.array]:
        """Returns the new rows alone."""
        return keys, values


def record_passes(model: Any) -> None:
    """Makes the model's layers record every pass in their `RecurrentCache`; repeated calls have no effect."""
    for block in _blocks(model):
        if not hasattr(type(block), _SEEN):
            block.__class__ = _recording_class(type(block))


def _blocks(model: Any) -> Iterable[Any]:
    """Returns the modules that receive a layer's cache: the layers, and LongCat's embedding, which remembers tokens."""
    yield from (block for block in getattr(model, "layers", ()) if block is not None)
    embedding = getattr(getattr(model, "model", None), "ngram_embeddings", None)
    if embedding is not None:
        yield embedding


def _recording_class(kind: Any) -> type:
    def call(block: Any, *positional: Any, **named: Any) -> Any:
        """Records the call in the layer's recurrent caches, then runs the layer's own forward pass."""
        arguments = (*positional, *named.values())
        rows = next((one.shape[1] for one in arguments if isinstance(one, mx.array)), 0)
        for cache in arguments:
            for leaf in cache.caches if isinstance(cache, CacheList) else (cache,):
                if isinstance(leaf, RecurrentCache):
                    leaf.note(rows, kind, block, positional, named)
        return kind.__call__(block, *positional, **named)

    return type(kind.__name__, (kind,), {"__call__": call, _SEEN: True})
