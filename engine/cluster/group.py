"""What the ranks say to each other, all of it by the collectives of `mx.distributed`.

Every rank gives a row of whole numbers, and every rank sees all of them (`exchange`). Rank 0's row is an order, those of the
others report what became of the one before. What does not fit follows in one piece (`send`, `receive`). A lost connection is
raised by MLX as a RuntimeError from whatever waits for it; `lost_links` words it.

The text of each cache is kept on every rank: the ids that were fed to it. An order says how much of it stays and what is fed
next, so nothing but passes has to be told: a cache that was rolled back shows in the next order by being shorter. What each rank
holds is compared as a checksum.
"""

from __future__ import annotations

import contextlib
import enum
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from engine.errors import DraftlightError

WIDTH = 64
"""Numbers in a row: an order with the input of a round, so that a round takes one exchange beside the model's own."""
LONGEST_TEXT = 600

LOST = (
    "The connection to another rank of the cluster was lost, so the answer ends here. draftlight cluster doctor checks the "
    "machines and their links."
)
_COLLECTIVES = ("all_sum", "all_gather", "all_max", "all_min", "sum_scatter", "send", "recv", "recv_like")
Numbers = NDArray[np.int32]


class ClusterLost(DraftlightError):
    """The cluster is of no use any more: a rank is gone."""


@contextlib.contextmanager
def lost_links() -> Iterator[None]:
    """Inside, what MLX raises of a lost connection becomes `ClusterLost`."""
    try:
        yield
    except RuntimeError as error:
        if str(error).startswith(("[ring]", "[jaccl]")):
            raise ClusterLost(LOST) from error
        raise


class Links:
    """How long the collectives of a pass take.

    Attributes:
        timed: whether those of the next pass are to be timed. Each is then evaluated apart, so the time is from this rank's part
            being there until all parts are, the slowest rank's included; the pass as a whole takes a little longer for it.
    """

    def __init__(self) -> None:
        self.timed = False
        self._seconds = 0.0

    def take(self) -> float:
        """Milliseconds of what was timed since the last call; the next pass is not timed."""
        seconds, self._seconds, self.timed = self._seconds, 0.0, False
        return seconds * 1e3

    def clock(self, wait: Callable[[], Any]) -> Any:
        """What `wait` returns; its time counts if this pass is timed."""
        began = time.perf_counter()
        result = wait()
        if self.timed:
            self._seconds += time.perf_counter() - began
        return result

    @contextlib.contextmanager
    def around(self) -> Iterator[None]:
        """Inside, a model is called. mlx-lm's layers look their collectives up in `mx.distributed`, where they are replaced."""
        if not self.timed:
            yield
            return
        known = {name: getattr(mx.distributed, name) for name in _COLLECTIVES if hasattr(mx.distributed, name)}
        try:
            for name, collective in known.items():
                setattr(mx.distributed, name, self._timed(collective))
            yield
        finally:
            for name, collective in known.items():
                setattr(mx.distributed, name, collective)

    def _timed(self, collective: Callable[..., mx.array]) -> Callable[..., mx.array]:
        def call(given: Any, *arguments: Any, **named: Any) -> mx.array:
            """The collective itself, between two evaluations."""
            if isinstance(given, mx.array):
                mx.eval(given)

            def wait() -> mx.array:
                """The collective's result, evaluated."""
                result = collective(given, *arguments, **named)
                mx.eval(result)
                return result

            return self.clock(wait)

        return call


class Group:
    """The ranks, seen from one of them.

    Args:
        group: MLX's, of at least two ranks.
    """

    def __init__(self, group: mx.distributed.Group) -> None:
        self.mlx = group
        self.rank, self.size = group.rank(), group.size()
        self.links = Links()

    def exchange(self, row: Sequence[int]) -> Numbers:
        """(size, WIDTH): everybody's row, at most `WIDTH` numbers each. Waits for all ranks; raises ClusterLost."""
        whole = np.zeros((1, WIDTH), np.int32)
        whole[0, : len(row)] = row
        return self._seen(lambda: mx.distributed.all_gather(mx.array(whole), group=self.mlx))

    def texts(self, text: str) -> list[str]:
        """Everybody's text, cut to `LONGEST_TEXT` bytes. Raises ClusterLost as `exchange`."""
        whole = np.zeros((1, LONGEST_TEXT), np.int32)
        content = np.frombuffer(text.encode()[:LONGEST_TEXT], np.uint8)
        whole[0, : len(content)] = content
        seen = self._seen(lambda: mx.distributed.all_gather(mx.array(whole), group=self.mlx))
        return [row[row != 0].astype(np.uint8).tobytes().decode(errors="replace") for row in seen]

    def send(self, numbers: Numbers) -> None:
        """Gives (length,) numbers to the ranks that `receive` so many."""
        self._seen(lambda: mx.distributed.all_sum(mx.array(numbers), group=self.mlx))

    def receive(self, length: int) -> Numbers:
        """(length,) numbers of the rank that sends them."""
        return self._seen(lambda: mx.distributed.all_sum(mx.zeros((length,), dtype=mx.int32), group=self.mlx))

    def _seen(self, collective: Callable[[], mx.array]) -> Numbers:
        def wait() -> Numbers:
            """The collective's result on the host."""
            result = collective()
            mx.eval(result)
            return np.array(result)

        with lost_links():
            return self.links.clock(wait)


def join(backend: str) -> Group:
    """The group that this process's environment describes (`engine.cluster.companions`); waits for the other ranks.

    Raises:
        ClusterLost: they cannot be reached, or MLX has no such backend here.
    """
    try:
        group = mx.distributed.init(strict=True, backend="jaccl" if backend.startswith("jaccl") else backend)
    except (RuntimeError, ValueError) as error:
        raise ClusterLost(f"The ranks of the cluster cannot be connected: {error} Run draftlight cluster doctor.") from error
    return Group(group)


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
