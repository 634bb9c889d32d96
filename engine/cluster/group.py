"""What the ranks say to each other, all of it by the collectives of `mx.distributed`.

Every rank gives a row of whole numbers, and every rank sees all of them (`exchange`). Rank 0's row is an order, those of the
others report what became of the one before. What does not fit follows in one piece (`send`, `receive`). A lost connection is
raised by MLX as a RuntimeError from whatever waits for it; `lost_links` words it.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
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
