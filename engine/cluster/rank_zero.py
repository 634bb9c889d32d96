"""The engine of rank 0, made in a process of its own (`engine.process`)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from engine.cluster.backend import ClusterBackend
from engine.cluster.hosts import cluster_of
from engine.worker import Engine


def engine(ids: Iterator[int], cluster: Any, measures: bool = False) -> Engine:
    """The engine for a cluster, which is given as its file has it; `ids`: of requests."""
    made = Engine(partial(ClusterBackend, cluster_of(cluster)), measures=measures, ids=ids)
    made.check_drafter("")  # says nothing without a target, but connects the ranks, which do not wait for ever
    return made
