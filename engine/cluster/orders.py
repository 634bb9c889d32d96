"""What rank 0 tells the followers, as rows of numbers for `Group.exchange`, and what they report.

The text of each cache is kept on every rank: the ids that were fed to it. An order says how much of it stays and what is fed
next, so nothing but passes has to be told: a cache that was rolled back shows in the next order by being shorter. What each rank
holds is compared as a checksum.
"""

from __future__ import annotations

import enum
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field

import mlx.core as mx
import numpy as np

from engine.cluster.group import WIDTH, Numbers


class Kind(enum.IntEnum):
    """What is to be done."""

    NAP = 0  # nothing for a while: MLX's ring keeps a core busy while a rank waits
    PASS = 1  # a forward pass, evaluated up to the logits
    READ = 2  # the same for a chunk of a prompt, whose logits nobody looks at
    LOAD = 3  # another target, described in JSON, which follows
    DROP = 4  # let go of the target
    ECHO = 5  # a collective over so many numbers, to measure the link
    END = 6


MOST_GONE = 7
_HEAD = 8 + MOST_GONE
ROOM = WIDTH - _HEAD
"""Ids that an order itself has room for."""


@dataclass(frozen=True, slots=True)
class Order:
    """One order.

    Attributes:
        cache: number of the cache; 0 is none.
        start: tokens of it that stay. length: ids that are fed, or numbers that follow.
        bits: of its keys and values; 0 is full precision. For a cache that is new.
        text: checksum of the tokens that stay.
        gone: numbers of caches that nobody will name again.
        ids: what is fed; what the row has no room for follows.
    """

    kind: Kind
    cache: int = 0
    start: int = 0
    length: int = 0
    bits: int = 0
    text: int = 0
    gone: tuple[int, ...] = ()
    ids: Numbers = field(default_factory=lambda: np.zeros(0, np.int32))

    def row(self) -> list[int]:
        """As a row of numbers."""
        gone = self.gone + (0,) * (MOST_GONE - len(self.gone))
        head = [self.kind, self.cache, self.start, self.length, self.bits, self.text, len(self.gone), 0, *gone]
        return head + ([] if self.is_long else [int(token) for token in self.ids])

    @property
    def is_long(self) -> bool:
        """Whether the ids follow in a piece of their own."""
        return self.length > ROOM

    @classmethod
    def of(cls, row: Numbers) -> Order:
        """The order of a row; ids that follow are not there yet."""
        kind, cache, start, length, bits, text, count = (int(number) for number in row[:7])
        gone = tuple(int(number) for number in row[8 : 8 + count])
        ids = row[_HEAD : _HEAD + length] if length <= ROOM else np.zeros(0, np.int32)
        return cls(Kind(kind), cache, start, length, bits, text, gone, ids)


@dataclass(frozen=True, slots=True)
class Report:
    """What a rank says of the order before.

    Attributes:
        text: checksum of all that the cache was fed and that stays. length: how much that is.
        probe: of the logits, see `probe_of`.
    """

    text: int = 0
    length: int = 0
    probe: float = 0.0

    def row(self) -> list[int]:
        """As a row of numbers."""
        return [self.text, self.length, int(np.float32(self.probe).view(np.int32))]

    @classmethod
    def of(cls, row: Numbers) -> Report:
        """The report of a row."""
        return cls(int(row[0]), int(row[1]), float(row[2:3].view(np.float32)[0]))

    def agrees(self, other: Report) -> bool:
        """Whether two ranks hold the same. Machines of different kinds differ in last bits of logits, which is none of it."""
        return (self.text, self.length) == (other.text, other.length) and abs(self.probe - other.probe) <= PROBE_TOLERANCE


PROBE_TOLERANCE = 2e-4
"""Another text moves the probe of a vocabulary of 50,000 by some 4e-3, half precision by some 1e-5."""


def checksum(text: Sequence[int]) -> int:
    """Of token ids, below 2^31."""
    return zlib.crc32(np.asarray(text, np.int32).tobytes()) & 0x7FFFFFFF


def probe_of(logits: mx.array) -> mx.array:
    """One number, lazy, that tells the last row of logits (1, rows, vocab) from others: their sum with fixed signs, as a share of
    the sum of their amounts."""
    last = logits[0, -1].astype(mx.float32)
    last = mx.where(mx.isfinite(last), last, 0)
    columns = mx.arange(last.shape[0], dtype=mx.uint32)
    signs = 1 - 2 * (((columns * 2654435761) >> 15) & 1).astype(mx.float32)
    return mx.sum(last * signs) / mx.maximum(mx.sum(mx.abs(last)), 1e-30)
