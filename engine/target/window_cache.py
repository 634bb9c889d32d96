"""Caches of layers with limited attention (sliding windows, chunks) that can be rolled back.

mlx-lm's `RotatingKVCache` overwrites the oldest token, so the row that a rejected token replaced is lost; its `ChunkedKVCache`
drops rows that a later chunk does not need. The caches here hold `SLACK` rows more than the layers attend to, in text order: a
roll-back of fewer tokens only moves the end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mlx.core as mx
from mlx.utils import tree_map, tree_reduce
from mlx_lm.models.base import create_causal_mask
from mlx_lm.models.cache import ChunkedKVCache, RotatingKVCache

from engine.values.answers import MAX_GAMMA

SLACK = MAX_GAMMA + 16
"""Rows kept beyond the window, and so the longest roll-back: those that a round may read and drop, and 16 for rows that are
queued ahead. It does not depend on the drafter, and takes effect when buffers are renewed (`_make_room`)."""


class _RowsOfText:
    """Common base of both caches: rows are in text order, so a roll-back only moves the end.

    Attributes:
        keys, values: (batch, heads, capacity, size) buffers, or tuples of such; the row of position p has index p -
            start_position.
        offset: number of tokens read.
        start_position: position of the first row.
        watched: whether passes may be rolled back: True while decoding, False while a prompt is read. Here it affects masks only.
        marks: results of `mark`, keyed by position.
    """

    step = 256
    keys: Any = None
    values: Any = None
    offset: int = 0
    start_position: int = 0

    def __init__(self, size: int) -> None:
        super().__init__(size)  # type: ignore[call-arg]
        self.watched = False
        self.marks: dict[int, Any] = {}

    def stored(self, rows: mx.array) -> Any:
        """Returns (batch, heads, rows, size) keys or values in their stored form."""
        return rows

    def reaches(self, length: int) -> bool:
        """Returns whether the cache still holds all rows that the token at position `length` attends to."""
        raise NotImplementedError

    def keys_and_values(self) -> tuple[Any, Any]:
        """Returns the result of the newest `update_and_fetch` again, for layers that share it."""
        raise NotImplementedError

    def _kept(self, held: int) -> int:
        """Returns how many of the newest of `held` rows are copied to renewed buffers."""
        raise NotImplementedError

    def update_and_fetch(self, keys: mx.array, values: mx.array) -> tuple[Any, Any]:
        """Appends rows; returns the rows that the first of them attends to, and all that follow."""
        rows, new = keys.shape[2], (self.stored(keys), self.stored(values))
        if self.keys is None or self.offset - self.start_position + rows > _parts(self.keys)[0].shape[2]:
            self._make_room(new, rows)
        first = self.offset - self.start_position
        for buffer, part in zip(_parts(self.keys, self.values), _parts(*new), strict=True):
            buffer[..., first : first + rows, :] = part
        self.offset += rows
        return self.keys_and_values()

    def _make_room(self, new: tuple[Any, Any], rows: int) -> None:
        """Renews the buffers: copies the newest rows that may be needed again, and leaves room for `rows` new ones and more."""
        end = self.offset - self.start_position
        kept = 0 if self.keys is None else self._kept(end)
        capacity = ((kept + rows) // self.step + 1) * self.step

        def grown(part: mx.array, old: mx.array) -> mx.array:
            """Returns a new buffer with the kept rows of the old one, followed by empty ones."""
            empty = mx.zeros((*part.shape[:2], capacity - kept, part.shape[3]), part.dtype)
            return mx.concatenate([old[..., end - kept : end, :], empty], axis=2) if kept else empty

        self.keys, self.values = tree_map(grown, new, (self.keys, self.values) if kept else new)
        self.start_position = self.offset - kept

    def _rows(self, first: int, end: int, taken: Callable[[mx.array], mx.array] = lambda rows: rows) -> tuple[Any, Any]:
        """Returns the rows from `first` to before `end`, counted in the buffers."""
        keys, values = tree_map(lambda buffer: taken(buffer[..., first:end, :]), (self.keys, self.values))
        return keys, values

    def cut(self, length: int) -> None:
        """Drops all but the first `length` tokens."""
        self.offset = length

    def trim(self, n: int) -> int:
        """Drops the newest `n` tokens and returns `n`; if it cannot, drops none and returns 0, as mlx-lm's does."""
        if not self.reaches(self.offset - n):
            return 0
        self.cut(self.offset - n)
        return n

    def is_trimmable(self) -> bool:
        """Returns whether the newest token can be dropped."""
        return self.reaches(self.offset - 1)

    def hide(self) -> None:
        """Drops one token, which `show` can bring back."""
        self.offset -= 1

    def show(self) -> None:
        """Undoes `hide`."""
        self.offset += 1

    def reset(self) -> None:
        """Drops all tokens."""
        self.keys = self.values = None
        self.offset = self.start_position = 0

    def _copied(self, count: int) -> Any:
        """Returns copies of the newest `count` rows, or of all if there are fewer, with their position and the offset."""
        end = self.offset - self.start_position
        first = max(0, end - count)
        return *self._rows(first, end, mx.contiguous), self.start_position + first, self.offset

    def mark(self) -> Any:
        """Returns copies of the rows that the next token attends to, to be passed to `restore`."""
        raise NotImplementedError

    def restore(self, marked: Any) -> None:
        """Restores the state that `mark` returned. The copies are never written to, because they have no room for another row."""
        self.keys, self.values, self.start_position, self.offset = marked

    @property
    def state(self) -> tuple[Any, ...]:
        """Buffers, tokens read, and the position of the first row."""
        return self.keys, self.values, self.offset, self.start_position

    @property
    def nbytes(self) -> int:
        """Size of the buffers in bytes."""
        return (
            int(tree_reduce(lambda total, part: total + part.nbytes, (self.keys, self.values), 0)) if self.keys is not None else 0
        )


def _parts(*kept: Any) -> list[mx.array]:
    """Returns the arrays of keys and values as a flat list; quantised ones have several each."""
    return [part for one in kept for part in (one if isinstance(one, tuple) else (one,))]


class WindowCache(_RowsOfText, RotatingKVCache):
    """A sliding window: each token attends to itself and the `max_size - 1` tokens before it.

    It returns to the model the same rows as mlx-lm's cache, except that one-row passes get theirs in text order. While it is
    watched, a mask never reaches farther back than in one-row passes: PLaMo 3 asks for one token more, which only long passes
    have.
    """

    def __init__(self, max_size: int) -> None:
        super().__init__(max_size)
        self._fetched = 0

    def update_and_fetch(self, keys: mx.array, values: mx.array) -> tuple[Any, Any]:
        """Appends rows; returns the rows that the first of them attends to, and all that follow."""
        self._fetched = min(self.offset, self.max_size - 1) + keys.shape[2]
        return super().update_and_fetch(keys, values)

    def keys_and_values(self) -> tuple[Any, Any]:
        """Returns the result of the newest `update_and_fetch` again, for layers that share it."""
        end = self.offset - self.start_position
        return self._rows(end - self._fetched, end)

    def _kept(self, held: int) -> int:
        return min(held, self.max_size - 1 + SLACK)

    def make_mask(self, N: int, window_size: int | None = None, return_array: bool = False) -> Any:
        """Returns the same mask as mlx-lm's, for rows in text order."""
        window = window_size or self.max_size
        if self.watched:
            window = min(window, self.max_size)
        seen = min(self.max_size - 1, self.offset)
        if N == 1:
            is_all = window_size is None or seen < window
            return None if is_all else mx.arange(seen + 1) >= seen + 1 - window
        if return_array or seen + N > window:
            return create_causal_mask(N, seen, window_size=window)
        return "causal"

    def reaches(self, length: int) -> bool:
        """Returns whether the cache still holds all rows that the token at position `length` attends to."""
        return self.start_position == 0 or length - self.start_position >= self.max_size - 1

    def mark(self) -> Any:
        """Returns copies of the rows that the next token attends to, to be passed to `restore`."""
        return self._copied(self.max_size - 1)


class ChunkCache(_RowsOfText, ChunkedKVCache):
    """Attention within chunks: a token attends to itself and those before it in its chunk of the text."""

    def keys_and_values(self) -> tuple[Any, Any]:
        """Returns all rows: the model masks those of other chunks."""
        return self._rows(0, self.offset - self.start_position)

    def _kept(self, held: int) -> int:
        return held

    def maybe_trim_front(self) -> None:
        """Drops rows of earlier chunks, but rarely, and none that a roll-back may need."""
        held = self.offset - self.start_position
        if self.keys is not None and held > self.chunk_size + SLACK + self.step:
            excess = held - self.chunk_size - SLACK
            self.keys, self.values = self._rows(excess, held)
            self.start_position += excess

    def reaches(self, length: int) -> bool:
        """Returns whether the cache still holds the chunk of the token at position `length`."""
        return bool(self.start_position <= length - length % self.chunk_size)

    def mark(self) -> Any:
        """Returns copies of the rows of the current chunk, to be passed to `restore`."""
        return self._copied(self.chunk_size)
