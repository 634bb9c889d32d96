"""The split target as rank 0's decode loop sees it: a model like any other, whose passes run on all ranks.

Each pass is ordered before it runs, and evaluated to the same point on every rank: if one rank skipped a collective, its next
one would be matched with the skipped one of the other ranks. So no part of a pass stays in a lazy graph that may be dropped.
Queries of shapes alone go to this rank's part (`part`).
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

import mlx.core as mx
import numpy as np
from mlx_lm.models.cache import KVCache, QuantizedKVCache

from engine.cluster.group import MAX_DELETED, Group, Kind, Links, Order, Report, checksum, lost_links, probe_of
from engine.cluster.hosts import Cluster
from engine.target.interface import SplitTarget
from engine.target.layer_taps import Taps
from engine.target.prompt_cache import cache_length, leaves_of
from engine.values.errors import DraftlightError

_CACHE_NUMBER = "_draftlight_told_as"
LENGTH_ONLY_CACHES = (KVCache, QuantizedKVCache)
"""Kinds of cache layers whose roll-back is fully described by their length."""


class SplitModel(SplitTarget):
    """A callable (tokens (1, rows), cache=) -> logits (1, rows, width), with mlx-lm's interface.

    Args:
        part: this rank's part of the model.
        group: all ranks. cluster: their description.
        parameters: of the whole model. They determine the size of prompt chunks, which is thus the same on one machine and on
            many.

    Attributes:
        part: as given. links: times the collectives of a pass.
        pipeline_size: number of ranks that the layers are spread over; 1 if each rank has a part of each layer.
    """

    def __init__(self, part: Any, group: Group, cluster: Cluster, parameters: int) -> None:
        self.part = part
        self.links: Links = group.links
        self.parameter_count = parameters
        self.pipeline_size = group.size if cluster.sharding == "pipeline" else 1
        self._group, self._cluster = group, cluster
        self._texts: dict[int, list[int]] = {}
        self._deleted: list[int] = []
        self._caches = 0
        self._expected: tuple[int, int] | None = None
        self._probe: mx.array | None = None
        self._differs: tuple[int, str] | None = None  # a rank, and how it differs
        self._last_block = last_block_of(part)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["part"], name)

    def __call__(self, tokens: mx.array, cache: Sequence[Any] | None = None) -> mx.array:
        self._send_pass(Kind.PASS, tokens, cache)
        with lost_links(), self.links.around():
            logits: mx.array = self.part(tokens, cache=cache)
            self._probe = probe_of(logits)
            mx.async_eval(logits, self._probe)
        self._require_agreement()
        return logits

    def read(self, tokens: mx.array, cache: Sequence[Any]) -> None:
        """Runs a pass over a chunk of a prompt (1, rows), without logits."""
        self._send_pass(Kind.READ, tokens, cache)
        with lost_links():
            evaluate_read(self.part, self._last_block, tokens, cache)
        self._require_agreement()

    def require_equal_states(self) -> None:
        """Compares the states of the ranks after the last pass. Raises DraftlightError with the rank that differs."""
        self.say(Order(Kind.NAP))
        self._require_agreement()

    def say(self, order: Order) -> None:
        """Sends an order, and records which rank differed after the previous pass; the order is executed anyway."""
        reports = self._group.exchange(order.row())
        expected, self._expected = self._expected, None
        probe, self._probe = self._probe, None
        if expected is None:
            return
        ours = Report(*expected, 0.0 if probe is None else float(np.asarray(probe)))
        for rank in range(1, self._group.size):
            theirs = Report.of(reports[rank])
            if not theirs.agrees(ours):
                is_text = (ours.text, ours.length) != (theirs.text, theirs.length)
                self._differs = rank, "holds another text" if is_text else "computes other logits"

    def _require_agreement(self) -> None:
        differs, self._differs = self._differs, None
        if differs is not None:
            self._expected = None  # the pass ordered meanwhile differs as well
            raise DraftlightError(
                f"The answer was stopped because {self._cluster.name_of(differs[0])} {differs[1]} than rank 0, so what came next "
                "could have been wrong. Check with draftlight cluster doctor that all machines have the same model and versions."
            )

    def _send_pass(self, kind: Kind, tokens: mx.array, cache: Sequence[Any] | None) -> None:
        mx.eval(tokens)  # numpy would wait with Python's lock held, so that no heartbeat could be sent
        ids = np.asarray(tokens, dtype=np.int32)
        if ids.shape[0] != 1:
            raise DraftlightError("A target that is split over several ranks reads one text at a time.")
        number, start, bits = 0, 0, 0
        if cache is not None:
            leaf = leaves_of(cache)[0]
            number, start = self._number_of(leaf), cache_length(cache) or 0
            bits = getattr(leaf, "bits", 0)
        text = self._texts.setdefault(number, []) if number else []
        del text[start:]
        deleted, self._deleted[:MAX_DELETED] = tuple(self._deleted[:MAX_DELETED]), []
        for number_ in deleted:
            self._texts.pop(number_, None)
        order = Order(kind, number, start, ids.shape[1], bits, checksum(text), deleted, ids[0])
        self.say(order)
        if order.is_long:
            self._group.send(ids[0])
        text.extend(ids[0].tolist())
        self._expected = checksum(text), len(text)

    def _number_of(self, leaf: Any) -> int:
        """Returns a cache's number in orders, stored with its first layer. When the layer is deleted, a later order reports
        that to the other ranks."""
        number: int = getattr(leaf, _CACHE_NUMBER, 0)
        if not number:
            self._caches += 1
            number = self._caches
            setattr(leaf, _CACHE_NUMBER, number)
            weakref.finalize(leaf, self._deleted.append, number).atexit = False
        return number


def last_block_of(part: Any) -> Taps:
    """Returns a tap on the output of a part's last layer, for `evaluate_read` alone."""
    return Taps(part.layers, (len(part.layers) - 1,))


def evaluate_read(part: Any, last_block: Taps, tokens: mx.array, cache: Sequence[Any]) -> None:
    """Runs the blocks of a part over a chunk (1, rows), and evaluates the same on every rank: caches and the last output."""
    part(tokens, cache=cache)
    mx.eval([layer.state for layer in cache if getattr(layer, "keys", None) is not None], last_block.take_batch())
