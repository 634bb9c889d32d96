"""The protocol between the ranks, based on the collectives of `mx.distributed`.

Every rank contributes a row of whole numbers, and every rank sees all rows (`exchange`). Rank 0's row is an order; the rows of
the others report on the previous order. Data too long for a row follows in one piece (`send`, `receive`). MLX raises a lost
connection as a RuntimeError in whatever call waits for it; `lost_links` converts it.

Every rank keeps the text of each cache: the ids that were fed to it. An order says how much of it stays and which ids are fed
next, so that roll-backs need no message of their own: they show as a shorter text in the next order. The ranks compare their
texts by a checksum.
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

from engine.values.errors import DraftlightError

WIDTH = 64
"""Numbers in a row: enough for an order with the input of a round, so that a round takes one exchange beside the model's own."""
MAX_TEXT_BYTES = 600

LOST = (
    "The connection to another rank of the cluster was lost, so the answer ends here. draftlight cluster doctor checks the "
    "machines and their links."
)
_COLLECTIVES = ("all_sum", "all_gather", "all_max", "all_min", "sum_scatter", "send", "recv", "recv_like")
Numbers = NDArray[np.int32]


class ClusterLost(DraftlightError):
    """The cluster cannot be used any more, because the connection to a rank was lost."""


@contextlib.contextmanager
def lost_links() -> Iterator[None]:
    """Converts MLX's error for a lost connection to `ClusterLost`."""
    try:
        yield
    except RuntimeError as error:
        if str(error).startswith(("[ring]", "[jaccl]")):
            raise ClusterLost(LOST) from error
        raise


class Links:
    """Measures the time of a pass's collectives.

    Attributes:
        timed: whether to time the collectives of the next pass. Each is then evaluated separately, so its time lasts from this
            rank's input being ready until all ranks' are, the slowest included. The pass as a whole takes slightly longer.
    """

    def __init__(self) -> None:
        self.timed = False
        self._seconds = 0.0

    def take(self) -> float:
        """Returns the milliseconds that the timed pass waited for other ranks, and ends its timing."""
        seconds, self._seconds, self.timed = self._seconds, 0.0, False
        return seconds * 1e3

    def clock(self, wait: Callable[[], Any]) -> Any:
        """Returns the result of `wait`; counts its time if this pass is timed."""
        began = time.perf_counter()
        result = wait()
        if self.timed:
            self._seconds += time.perf_counter() - began
        return result

    @contextlib.contextmanager
    def around(self) -> Iterator[None]:
        """Times the collectives of a model call. mlx-lm's layers look them up in `mx.distributed`, where they are replaced
        meanwhile."""
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
    """The group of ranks, seen from one of them.

    Args:
        group: MLX's, of at least two ranks.
    """

    def __init__(self, group: mx.distributed.Group) -> None:
        self.mlx = group
        self.rank, self.size = group.rank(), group.size()
        self.links = Links()

    def exchange(self, row: Sequence[int]) -> Numbers:
        """Returns the rows of all ranks, (size, WIDTH), of at most `WIDTH` numbers each. Waits for all ranks; raises
        ClusterLost."""
        padded = np.zeros((1, WIDTH), np.int32)
        padded[0, : len(row)] = row
        return self._seen(lambda: mx.distributed.all_gather(mx.array(padded), group=self.mlx))

    def texts(self, text: str) -> list[str]:
        """Returns the texts of all ranks, each cut to `MAX_TEXT_BYTES` bytes. Raises ClusterLost as `exchange`."""
        padded = np.zeros((1, MAX_TEXT_BYTES), np.int32)
        content = np.frombuffer(text.encode()[:MAX_TEXT_BYTES], np.uint8)
        padded[0, : len(content)] = content
        seen = self._seen(lambda: mx.distributed.all_gather(mx.array(padded), group=self.mlx))
        return [row[row != 0].astype(np.uint8).tobytes().decode(errors="replace") for row in seen]

    def send(self, numbers: Numbers) -> None:
        """Sends (length,) numbers to the ranks, which `receive` the same length."""
        self._seen(lambda: mx.distributed.all_sum(mx.array(numbers), group=self.mlx))

    def receive(self, length: int) -> Numbers:
        """Returns the (length,) numbers that another rank sends."""
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
    """Returns the group that this process's environment describes (`engine.cluster.companions`); waits for the other ranks.

    Raises:
        ClusterLost: they cannot be reached, or MLX has no such backend here.
    """
    try:
        group = mx.distributed.init(strict=True, backend="jaccl" if backend.startswith("jaccl") else backend)
    except (RuntimeError, ValueError) as error:
        raise ClusterLost(f"The ranks of the cluster cannot be connected: {error} Run draftlight cluster doctor.") from error
    return Group(group)


class Kind(enum.IntEnum):
    """The kind of an order."""

    NAP = 0  # wait for a while: MLX's ring keeps a core busy while a rank waits
    PASS = 1  # a forward pass, evaluated up to the logits
    READ = 2  # the same for a prompt chunk, whose logits are not used
    LOAD = 3  # another target, described in JSON, which follows
    DROP = 4  # release the target
    ECHO = 5  # a collective of this many numbers, to measure the link
    END = 6


MAX_DELETED = 7
_HEAD = 8 + MAX_DELETED
MAX_INLINE_IDS = WIDTH - _HEAD
"""Number of ids that fit into an order's row."""


@dataclass(frozen=True, slots=True)
class Order:
    """An order of rank 0.

    Attributes:
        cache: number of the cache; 0 is none.
        start: number of its tokens that stay. length: number of ids to feed, or of numbers that follow.
        bits: of its keys and values; 0 is full precision. For a new cache.
        text: checksum of the tokens that stay.
        deleted: numbers of caches that can be deleted.
        ids: the ids to feed; if the row is too short for them, they follow.
    """

    kind: Kind
    cache: int = 0
    start: int = 0
    length: int = 0
    bits: int = 0
    text: int = 0
    deleted: tuple[int, ...] = ()
    ids: Numbers = field(default_factory=lambda: np.zeros(0, np.int32))

    def row(self) -> list[int]:
        """Returns the order as a row of numbers."""
        gone = self.deleted + (0,) * (MAX_DELETED - len(self.deleted))
        head = [self.kind, self.cache, self.start, self.length, self.bits, self.text, len(self.deleted), 0, *gone]
        return head + ([] if self.is_long else [int(token) for token in self.ids])

    @property
    def is_long(self) -> bool:
        """Whether the ids follow in a message of their own."""
        return self.length > MAX_INLINE_IDS

    @classmethod
    def of(cls, row: Numbers) -> Order:
        """Returns the order in a row, without ids that follow."""
        kind, cache, start, length, bits, text, count = (int(number) for number in row[:7])
        gone = tuple(int(number) for number in row[8 : 8 + count])
        ids = row[_HEAD : _HEAD + length] if length <= MAX_INLINE_IDS else np.zeros(0, np.int32)
        return cls(Kind(kind), cache, start, length, bits, text, gone, ids)


@dataclass(frozen=True, slots=True)
class Report:
    """A rank's report on the previous order.

    Attributes:
        text: checksum of the cache's whole text. length: its length in tokens.
        probe: of the logits, see `probe_of`.
    """

    text: int = 0
    length: int = 0
    probe: float = 0.0

    def row(self) -> list[int]:
        """Returns the report as a row of numbers."""
        return [self.text, self.length, int(np.float32(self.probe).view(np.int32))]

    @classmethod
    def of(cls, row: Numbers) -> Report:
        """Returns the report in a row."""
        return cls(int(row[0]), int(row[1]), float(row[2:3].view(np.float32)[0]))

    def agrees(self, other: Report) -> bool:
        """Returns whether two ranks have the same state. Rounding differences of logits between kinds of machines are
        tolerated."""
        return (self.text, self.length) == (other.text, other.length) and abs(self.probe - other.probe) <= PROBE_TOLERANCE


PROBE_TOLERANCE = 2e-4
"""Another text changes the probe of a vocabulary of 50,000 by about 4e-3, half precision by about 1e-5."""


def checksum(text: Sequence[int]) -> int:
    """Returns the CRC-32 of token ids, reduced to 31 bits."""
    return zlib.crc32(np.asarray(text, np.int32).tobytes()) & 0x7FFFFFFF


def probe_of(logits: mx.array) -> mx.array:
    """Returns a lazy scalar that identifies the last row of logits (1, rows, vocab): their sum with fixed pseudo-random signs,
    divided by the sum of their absolute values."""
    last = logits[0, -1].astype(mx.float32)
    last = mx.where(mx.isfinite(last), last, 0)
    columns = mx.arange(last.shape[0], dtype=mx.uint32)
    signs = 1 - 2 * (((columns * 2654435761) >> 15) & 1).astype(mx.float32)
    return mx.sum(last * signs) / mx.maximum(mx.sum(mx.abs(last)), 1e-30)
