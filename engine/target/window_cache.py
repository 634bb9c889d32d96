"""Keys and values of layers that look back only so far, kept so that the newest tokens can be taken back.

mlx-lm's `RotatingKVCache` writes a token over the oldest one, so what a rejected token replaced is lost; its `ChunkedKVCache`
drops whatever a later chunk does not need. The caches here hold `SLACK` rows more than the layers look at, in the order of the
text: a roll-back of fewer tokens only moves the end.
"""

from __future__ import annotations

from typing import Any

import mlx.core as mx
from mlx_lm.models.base import create_causal_mask
from mlx_lm.models.cache import ChunkedKVCache, RotatingKVCache

from engine.values import MAX_GAMMA

SLACK = MAX_GAMMA + 16
"""Rows kept beyond those that are looked at: as many as a round may read and drop, and some queued ones."""


class _RowsOfText:
    """What both caches have in common: their rows stand in the order of the text, so taking tokens back only moves the end.

    Attributes:
        offset: tokens read.
    """

    offset: int

    def reaches(self, length: int) -> bool:
        """Whether it still holds all that the token at position `length` looks at."""
        raise NotImplementedError

    def cut(self, length: int) -> None:
        """Forgets all but the first `length` tokens."""
        self.offset = length

    def trim(self, n: int) -> int:
        """As mlx-lm's: takes `n` tokens back, or none where it does not reach so far."""
        if not self.reaches(self.offset - n):
            return 0
        self.cut(self.offset - n)
        return n

    def hide(self) -> None:
        """Takes one token back that `show` may bring again."""
        self.offset -= 1

    def show(self) -> None:
        """Takes `hide` back."""
        self.offset += 1


class WindowCache(_RowsOfText, RotatingKVCache):
    """A sliding window: each token looks at itself and the `max_size - 1` tokens before it.

    It gives the model files what mlx-lm's gives them, except that one-row passes get their rows in the order of the text.

    Attributes:
        keys, values: (batch, heads, capacity, size) buffers; the row of position p stands at p - the position of the first.
        watched: whether passes may be taken back. A mask then never reaches farther back than one-row passes do: PLaMo 3 asks
            for one token more, which only long passes have.
        marks: what `mark` kept, by position.
    """

    def __init__(self, max_size: int) -> None:
        super().__init__(max_size)
        self.keys: Any = None
        self.values: Any = None
        self.watched = False
        self.marks: dict[int, Any] = {}
        self._first = 0
        self._fetched = 0

    def update_and_fetch(self, keys: mx.array, values: mx.array) -> tuple[mx.array, mx.array]:
        """Appends rows; the rows that the first of them looks at, and all that follow."""
        rows = keys.shape[2]
        if self.keys is None or self.offset - self._first + rows > self.keys.shape[2]:
            self._make_room(keys, values)
        end = self.offset - self._first
        self.keys[..., end : end + rows, :] = keys
        self.values[..., end : end + rows, :] = values
        self._fetched = min(self.offset, self.max_size - 1) + rows
        self.offset += rows
        return self.keys_and_values()

    def _make_room(self, keys: mx.array, values: mx.array) -> None:
        """New buffers with the newest rows that may be needed again, and room for these and more."""
        end = self.offset - self._first
        kept = 0 if self.keys is None else min(end, self.max_size - 1 + SLACK)
        capacity = ((kept + keys.shape[2]) // self.step + 1) * self.step

        def grown(old: mx.array | None, new: mx.array) -> mx.array:
            """The kept rows of a buffer, and empty ones behind them."""
            shape = (*new.shape[:2], capacity - kept, new.shape[3])
            empty = mx.zeros(shape, new.dtype)
            return empty if old is None or not kept else mx.concatenate([old[..., end - kept : end, :], empty], axis=2)

        self.keys, self.values = grown(self.keys, keys), grown(self.values, values)
        self._first = self.offset - kept

    def keys_and_values(self) -> tuple[mx.array, mx.array]:
        """What the newest `update_and_fetch` returned: layers that share it ask again."""
        end = self.offset - self._first
        rows = slice(end - self._fetched, end)
        return self.keys[..., rows, :], self.values[..., rows, :]

    def make_mask(self, N: int, window_size: int | None = None, return_array: bool = False) -> Any:
        """As mlx-lm's, for rows in the order of the text."""
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

    @property
    def state(self) -> tuple[Any, ...]:
        """Buffers, tokens read, the position of the first row, the window."""
        return self.keys, self.values, self.offset, self._first, self.max_size

    def is_trimmable(self) -> bool:
        """Whether the newest token can be taken back."""
        return self.reaches(self.offset - 1)

    def reaches(self, length: int) -> bool:
        """Whether it still holds all that the token at position `length` looks at."""
        return self._first == 0 or length - self._first >= self.max_size - 1

    def reset(self) -> None:
        """Forgets everything."""
        self.keys = self.values = None
        self.offset = self._first = self._fetched = 0

    def mark(self) -> Any:
        """Copies of the rows that the next token looks at, to be given to `restore`."""
        end = self.offset - self._first
        rows = slice(max(0, end - self.max_size + 1), end)
        keys, values = mx.contiguous(self.keys[..., rows, :]), mx.contiguous(self.values[..., rows, :])
        return keys, values, self._first + rows.start, self.offset

    def restore(self, marked: Any) -> None:
        """Back to where `mark` was called. The copies are never written to: they have no room for another row."""
        self.keys, self.values, self._first, self.offset = marked


class ChunkCache(_RowsOfText, ChunkedKVCache):
    """Attention within chunks: a token looks at itself and those before it in its chunk of the text.

    Attributes:
        watched: of no meaning here; every pass can be taken back.
        marks: what `mark` kept, by position.
    """

    def __init__(self, chunk_size: int) -> None:
        super().__init__(chunk_size)
        self.keys: Any = None
        self.values: Any = None
        self.start_position = 0
        self.watched = False
        self.marks: dict[int, Any] = {}

    def maybe_trim_front(self) -> None:
        """Drops rows of earlier chunks, seldom, and none that are needed after a roll-back."""
        if self.keys is None:
            return
        held = self.offset - self.start_position
        if held > self.chunk_size + SLACK + self.step:
            excess = held - self.chunk_size - SLACK
            self.start_position += excess
            self.keys, self.values = (buffer[..., excess:held, :] for buffer in (self.keys, self.values))

    def reaches(self, length: int) -> bool:
        """Whether it still holds the chunk of the token at position `length`."""
        return bool(self.start_position <= length - length % self.chunk_size)

    def reset(self) -> None:
        """Forgets everything."""
        self.keys = self.values = None
        self.offset = self.start_position = 0

    def mark(self) -> Any:
        """Copies of the rows of the chunk that has begun, to be given to `restore`."""
        first = max(self.start_position, self.offset - self.chunk_size)
        rows = slice(first - self.start_position, self.offset - self.start_position)
        return mx.contiguous(self.keys[..., rows, :]), mx.contiguous(self.values[..., rows, :]), first, self.offset

    def restore(self, marked: Any) -> None:
        """Back to where `mark` was called. The copies are never written to: they have no room for another row."""
        self.keys, self.values, self.start_position, self.offset = marked
