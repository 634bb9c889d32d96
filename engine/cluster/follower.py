"""A rank other than 0: it runs the passes that rank 0 orders, and ends when rank 0 has ended.

The environment gives its rank and the addresses of the others, as `mlx.launch` would. `engine.cluster.rank` starts it.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np

from engine.cluster.group import ClusterLost, Group, Kind, Order, Report, checksum, join, lost_links, probe_of
from engine.cluster.sharding import agree, fingerprint, split
from engine.cluster.signs import FAILED, LOST_LINKS, NAP, READY, say
from engine.cluster.split_model import evaluate_read, last_block_of
from engine.machine import garbage
from engine.machine.macos import Activity
from engine.models import loading
from engine.models.loaded import LoadedModel
from engine.target.prompt_cache import trim_to
from engine.target.quantised_cache import empty_cache
from engine.values.errors import DraftlightError


class Follower:
    """Executes the orders of rank 0.

    Args:
        group: all ranks, including this one.

    Attributes:
        loaded: its part of the target; None before rank 0 has ordered one.
        caches, texts: by their numbers in orders, the caches and the tokens that they hold.
        report: the row for the next exchange.
    """

    def __init__(self, group: Group) -> None:
        self._group = group
        self.report: list[int] = []
        self.take(None)

    def take(self, loaded: LoadedModel | None) -> None:
        """Takes its part of another target, or drops the one that it has."""
        self.loaded = loaded
        self._last_block: Any = None if loaded is None else last_block_of(loaded.model)
        self.caches: dict[int, list[Any]] = {}
        self.texts: dict[int, list[int]] = {}
        garbage.collect()
        mx.clear_cache()

    def serve(self) -> None:
        """Executes orders until END. Raises ClusterLost if the connection to a rank is lost."""
        activity = Activity("Running a part of a language model", lets_sleep=False)  # possibly no user is active on this machine
        while True:
            order = Order.of(self._group.exchange(self.report)[0])
            self.report = []
            activity.set_running(order.kind not in (Kind.NAP, Kind.END))
            if order.kind == Kind.END:
                return
            self.execute(order)

    def execute(self, order: Order) -> None:
        """Executes an order other than END; the order of a pass leaves a report."""
        match order.kind:
            case Kind.NAP:
                time.sleep(NAP * order.length)
            case Kind.PASS | Kind.READ:
                self._run(order)
            case Kind.LOAD:
                self._load(self._group.receive(order.length).astype(np.uint8).tobytes())
            case Kind.DROP:
                self.take(None)
            case Kind.ECHO:
                self._group.receive(order.length)

    def _run(self, order: Order) -> None:
        ids = self._group.receive(order.length) if order.is_long else order.ids
        for number in order.deleted:
            self.caches.pop(number, None)
            self.texts.pop(number, None)
        if self.loaded is None:
            raise DraftlightError("Rank 0 ordered a pass before it had said of which model.")
        model, tokens = self.loaded.model, mx.array(ids)[None]
        cache, text = self._cache_of(order) if order.cache else (None, [])
        text.extend(ids.tolist())
        probe = 0.0
        with lost_links():
            if order.kind == Kind.READ:
                evaluate_read(model, self._last_block, tokens, cache or [])
            else:
                logits = model(tokens, cache=cache)
                lazy_probe = probe_of(logits)
                mx.eval(logits, lazy_probe)
                probe = float(np.asarray(lazy_probe))
        self.report = Report(checksum(text), len(text), probe).row()

    def _cache_of(self, order: Order) -> tuple[list[Any], list[int]]:
        """Returns the cache of an order and its text, rolled back to the order's `start`."""
        if order.cache not in self.caches:
            assert self.loaded is not None
            model = self.loaded.model
            new_cache = empty_cache(model, order.bits or None, self.loaded.name)
            self.caches[order.cache], self.texts[order.cache] = new_cache, []
        cache, text = self.caches[order.cache], self.texts[order.cache]
        if order.start < len(text):
            trim_to(cache, order.start, "target")
            del text[order.start :]
        return cache, text

    def _load(self, message: bytes) -> None:
        """Loads its part of a model, and shares success and fingerprint with all ranks. The previous model is dropped once all
        have loaded."""
        request = json.loads(message)
        loaded, fingerprint_, reason = None, b"", ""
        try:
            loaded = loading.load(
                request["name"], split=lambda model, name: split(model, name, self._group.mlx, request["sharding"])
            )
            fingerprint_ = fingerprint(loaded)
        except DraftlightError as error:
            reason = str(error)
        differing = agree(self._group, fingerprint_, reason)
        if differing is None and loaded is not None:
            self.take(loaded)
            loading.keep_resident()


def main() -> int:
    """Runs this rank; returns the exit status."""
    try:
        group = join(os.environ.get("DRAFTLIGHT_LINKS", "ring"))
    except ClusterLost as error:
        say(f"{FAILED}{error}")
        return 1
    finally:
        if own := os.environ.get("DRAFTLIGHT_OWN_FILE"):
            Path(own).unlink(missing_ok=True)
    say(READY)
    try:
        Follower(group).serve()
    except ClusterLost:
        return LOST_LINKS
    except Exception as error:  # the parent reports it; nobody sees this terminal
        say(f"{FAILED}{type(error).__name__}: {error}")
        return 1
    return 0
