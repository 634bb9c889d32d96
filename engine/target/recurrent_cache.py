"""The state of recurrent layers (state spaces, linear attention, convolutions), kept so that tokens can be taken back.

Such a state has no rows that could be dropped, and a pass over several tokens leaves only the state after the last of them. What
a layer reads, however, depends on no layer above it. So while it is watched, a layer's state before each pass is kept (MLX's
arrays never change: references are enough) together with the layer's input. To keep the first n rows of a pass, the layer alone
is run again from that state over n rows of that input. Nobody looks at its output, so of the lazy graph only what leads to the
state is computed: neither attention, nor the experts, nor the logits, nor any other layer.
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
    """One forward pass of a layer: where it began, the state before it, and how the layer was called."""

    offset: int
    rows: int
    before: list[mx.array | None]
    kind: type
    block: Any
    positional: tuple[Any, ...]
    named: dict[str, Any]


class RecurrentCache(ArraysCache):
    """mlx-lm's cache of a recurrent layer, which also counts tokens and can forget the newest.

    Attributes:
        offset: tokens read.
        watched: whether passes may be taken back; the input of every pass is kept as long as they are.
        marks: what `mark` kept, by position.
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
        """Whether passes are noted."""
        return self._watched

    @watched.setter
    def watched(self, is_on: bool) -> None:
        self._watched = is_on
        if not is_on:
            self._passes.clear()

    def note(self, rows: int, kind: type, block: Any, positional: tuple[Any, ...], named: dict[str, Any]) -> None:
        """A layer of this class is about to be called with these arguments, this cache among them."""
        self._hidden = None
        if self._watched:
            self._passes.append(_Pass(self.offset, rows, list(self.cache), kind, block, positional, named))
        self.offset += rows

    def reaches(self, length: int) -> bool:
        """Whether the state after `length` tokens can be had."""
        return length == self.offset or (bool(self._passes) and length >= self._passes[0].offset)

    def cut(self, length: int) -> None:
        """Forgets all but the first `length` tokens."""
        if length < self.offset:
            self._passes = [one for one in self._passes if one.offset <= length]
            noted = self._passes[-1]
            self.cache, self.offset, self._hidden = list(noted.before), length, None
            if length > noted.offset:
                self._read_again(noted, length - noted.offset)

    def settle(self) -> None:
        """What was read so far is to stay."""
        self._passes.clear()

    def _read_again(self, noted: _Pass, rows: int) -> None:
        def cut(argument: Any) -> Any:
            """The argument for the first `rows` rows. Masks are for the attention beside, whose output is not looked at."""
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
        """Takes one token back that `show` may bring again."""
        hidden = list(self.cache)
        self.cut(self.offset - 1)
        self._hidden = hidden

    def show(self) -> None:
        """Takes `hide` back."""
        assert self._hidden is not None, "nothing was read since the state was hidden"
        self.cache, self._hidden = self._hidden, None
        self.offset += 1

    def reset(self) -> None:
        """Forgets everything."""
        self.cache = [None] * len(self.cache)
        self.offset, self._hidden = 0, None
        self._passes.clear()

    def mark(self) -> Any:
        """The state, to be given to `restore`."""
        return list(self.cache), self.offset

    def restore(self, marked: Any) -> None:
        """Back to where `mark` was called."""
        state, self.offset = marked
        self.cache, self._hidden = list(state), None
        self._passes.clear()


class _Discarding:
    """A cache for the attention beside a recurrent layer that is run again: nothing of it is computed."""

    def __init__(self, offset: int) -> None:
        self.offset = offset

    def update_and_fetch(self, keys: mx.array, values: mx.array) -> tuple[mx.array, mx.array]:
        """The rows themselves."""
        return keys, values


def tell_caches(model: Any) -> None:
    """Has the model's layers tell a `RecurrentCache` of every pass, once for each model."""
    for block in _blocks(model):
        if not hasattr(type(block), _SEEN):
            block.__class__ = _telling(type(block))


def _blocks(model: Any) -> Iterable[Any]:
    """The modules that are given a layer's cache: the layers, and LongCat's embedding, which remembers tokens."""
    yield from (block for block in getattr(model, "layers", ()) if block is not None)
    embedding = getattr(getattr(model, "model", None), "ngram_embeddings", None)
    if embedding is not None:
        yield embedding


def _telling(kind: Any) -> type:
    def call(block: Any, *positional: Any, **named: Any) -> Any:
        """The layer's own forward pass, of which its recurrent caches are told."""
        arguments = (*positional, *named.values())
        rows = next((one.shape[1] for one in arguments if isinstance(one, mx.array)), 0)
        for cache in arguments:
            for leaf in cache.caches if isinstance(cache, CacheList) else (cache,):
                if isinstance(leaf, RecurrentCache):
                    leaf.note(rows, kind, block, positional, named)
        return kind.__call__(block, *positional, **named)

    return type(kind.__name__, (kind,), {"__call__": call, _SEEN: True})
