"""The backend of rank 0: `MlxBackend` with split targets. The constructor imports MLX, as in `engine.runtime.mlx_backend`."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Generator, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from engine.cluster.hosts import Cluster, cluster_of
from engine.cluster.signs import NAP
from engine.decode.context import DecodeContext, RoundOutcome
from engine.files.memory import MakeRoom, MemoryNeed
from engine.runtime.mlx_backend import MlxBackend
from engine.runtime.worker import Engine
from engine.values.errors import DraftlightError
from engine.values.events import ReportStep
from engine.values.wording import amount, capitalised

PULSE = NAP
"""Interval in seconds at which rank 0 sends NAP orders while it is idle: as long as a nap of the followers."""


class ClusterBackend(MlxBackend):
    """Splits every target over the ranks of the group that the environment describes. Drafters run on this rank only.

    Args:
        cluster: the ranks.

    Raises:
        DraftlightError: the ranks cannot be connected.
    """

    def __init__(self, cluster: Cluster) -> None:
        super().__init__()
        from engine.cluster import group, sharding, split_model

        self._cluster = cluster
        self._parts = (sharding, split_model)
        self._protocol = group  # the module with the protocol between the ranks
        self._lost: str | None = None
        self._split: Any = None  # the SplitModel of the target
        self._is_loading = False
        self._group = group.join(cluster.backend)

    def _load_target(self, name: str, progress: ReportStep, make_room: MakeRoom | None) -> Any:
        sharding, split_model = self._parts
        self._require_cluster()
        counted = 0

        def split(model: Any, called: str) -> None:
            """Counts the parameters of the whole model, then removes the parts of other ranks."""
            nonlocal counted
            counted = self._cache.parameters_of(model)
            sharding.split(model, called, self._group.mlx, self._cluster.sharding)

        def room(need: MemoryNeed) -> None:
            """Requests memory for all ranks on this machine."""
            local_ranks = sum(host.is_local for host in self._cluster.hosts)
            if make_room is not None:
                share = local_ranks / self._cluster.size
                make_room(replace(need, weights=round(need.weights * share), cache=round(need.cache * share)))

        path = Path(name).expanduser()
        with self._with_ranks(), self._loading():
            location = str(path.resolve()) if path.exists() else name  # absolute: other ranks have other working directories
            message = json.dumps({"name": location, "sharding": self._cluster.sharding}).encode()
            self._say(self._protocol.Order(self._protocol.Kind.LOAD, length=len(message)))
            self._group.send(self._numbers(message))
            fingerprint, reason = b"", "Rank 0 could not."
            try:
                loaded = self._models.load(name, progress, make_room=room, split=split)
                if (reason := self._models.target_reason(loaded) or "") != "":
                    raise DraftlightError(reason)
                fingerprint, reason = sharding.fingerprint(loaded), ""
                progress("waiting for the other ranks", None)
            finally:
                differing = sharding.agree(self._group, fingerprint, reason)
            if differing is not None:
                raise DraftlightError(
                    f"{capitalised(self._cluster.name_of(differing[0]))} cannot load the same model: {differing[1]} Each machine "
                    "needs the same model at the same place; draftlight cluster doctor compares them."
                )
            self._split = split_model.SplitModel(loaded.model, self._group, self._cluster, counted)
            return replace(loaded, model=self._split)

    @contextlib.contextmanager
    def _loading(self) -> Iterator[None]:
        """Blocks other orders while all ranks load. A target released meanwhile is dropped by the followers afterwards."""
        self._is_loading, released = True, self._split
        try:
            yield
        except BaseException:
            self._is_loading = False
            if released is not None and self._split is None:
                self._drop()
            raise
        finally:
            self._is_loading = False

    def _drop(self) -> None:
        if self._lost is None:
            with contextlib.suppress(DraftlightError), self._with_ranks():
                self._say(self._protocol.Order(self._protocol.Kind.DROP))

    def _numbers(self, content: bytes) -> Any:
        import numpy as np

        return np.frombuffer(content, np.uint8).astype(np.int32)

    def _say(self, order: Any) -> None:
        if self._split is not None:
            self._split.say(order)
        else:
            self._group.exchange(order.row())

    def _require_cluster(self) -> None:
        if self._lost is not None:
            raise DraftlightError(self._lost)

    @contextlib.contextmanager
    def _with_ranks(self) -> Iterator[None]:
        """Wraps everything that involves the other ranks; remembers if the connection is lost."""
        self._require_cluster()
        try:
            with self._protocol.lost_links():
                yield
        except self._protocol.ClusterLost as error:
            self._lost = str(error)
            raise

    def pulse(self) -> float | None:
        """Sends the followers a NAP order while idle; returns the seconds until the next call, None if the group is lost."""
        if self._lost is None:
            with contextlib.suppress(DraftlightError), self._with_ranks():
                self._say(self._protocol.Order(self._protocol.Kind.NAP, length=1))
        return PULSE if self._lost is None else None

    def release(self) -> None:
        """Releases the target; the followers drop their parts, too."""
        super().release()
        if self._split is not None and not self._is_loading:
            self._drop()
        self._split = None

    def decode(self, context: DecodeContext) -> Generator[RoundOutcome, None, None]:
        """As in `Backend`; the ranks compare their states before each pass and after the last."""
        with self._with_ranks():
            yield from super().decode(context)
            split: Any = context.model
            split.model.require_equal_states()

    def _warm_up(self, target: Any, drafter: Any = None) -> None:
        """Compiles on all ranks what `MlxBackend` compiles on one."""
        with contextlib.suppress(DraftlightError), self._with_ranks():
            super()._warm_up(target, drafter)
            target.model.require_equal_states()

    def measure(self, target: Any, drafter: Any) -> Generator[None, None, None]:
        """As in `Backend`."""
        with self._with_ranks():
            yield from super().measure(target, drafter)

    def prove(self, *arguments: Any, **named: Any) -> Iterator[Any]:
        """As in `Backend`."""
        with self._with_ranks():
            yield from super().prove(*arguments, **named)

    def peer(self, *arguments: Any, **named: Any) -> Generator[Any, None, None]:
        """As in `Backend`."""
        with self._with_ranks():
            yield from super().peer(*arguments, **named)

    def train(self, *arguments: Any, **named: Any) -> Any:
        """Raises DraftlightError: training needs batches of texts and the outputs of all layers."""
        raise DraftlightError("A drafter cannot be trained for a target that is split. Train it on one machine, without --hosts.")

    def device(self) -> str:
        """Returns the name of the device and the number of ranks, because times depend on it."""
        return f"{super().device()}, {amount(self._cluster.size, 'rank')} ({self._cluster.sharding})"

    def close(self) -> None:
        """Closes the backend and ends the other ranks."""
        if self._lost is None:
            with contextlib.suppress(DraftlightError), self._with_ranks():
                self._say(self._protocol.Order(self._protocol.Kind.END))
        super().close()


def engine(cluster: Any, measures: bool = False) -> Engine:
    """Returns the engine for a cluster, given as in its hosts file."""
    result = Engine(partial(ClusterBackend, cluster_of(cluster)), measures=measures)
    result.check_drafter("")  # connects the ranks, which do not wait forever; without a target it does nothing else
    return result
