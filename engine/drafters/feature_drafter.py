"""Common base of drafters that read the target's features: it follows the text with them, and copies from earlier text."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import mlx.core as mx
import numpy as np
from mlx_lm.models.cache import KVCache

from engine.drafters.base import Drafter, Proceed, always, reading
from engine.drafters.draft import DraftContext, DrafterCapabilities, Estimate
from engine.drafters.lookup import CopySource
from engine.machine.host import on_host
from engine.models.loaded import LoadedModel
from engine.target.interface import TargetModel
from engine.target.layer_taps import tap
from engine.target.prompt_cache import make_prompt_cache, read_prompt, trim_to
from engine.target.shared_prefix import common_prefix
from engine.types import DrafterStatistics

SURE = 0.85
"""If a copied token is right at least this often, it is proposed without running the model."""
MAX_BUFFERED_ROUNDS = 32
"""Maximum number of rounds whose raw features are buffered before fusing: they are wider than the fused rows."""
LOOKUP_HORIZON = 8
"""Number of copies assumed to follow the first, in the estimate whether copying pays."""
MOST_COPIED = 0.98
"""Upper limit of a copied token's probability in the drafter's distribution."""


class _Config(Protocol):
    @property
    def taps(self) -> tuple[int, ...]:
        """Target layers that the model reads."""

    @property
    def max_position_embeddings(self) -> int:
        """Maximum text length, in tokens, that the model was made for."""


class FeatureModel(Protocol):
    """Trained part of such a drafter."""

    @property
    def config(self) -> _Config:
        """Shapes of the model."""

    @property
    def target_ids(self) -> mx.array | None:
        """(columns,) int32 target ids of its logits; None if they are the same."""

    def require_target(self, target: LoadedModel) -> None:
        """Raises DraftlightError if the model cannot draft for this target."""

    def column_of(self, token: int) -> int | None:
        """Returns the column of a token of the target; None if there is none."""

    def fuse(self, features: mx.array) -> mx.array:
        """Returns the (rows, hidden) fused features of tapped outputs (rows, taps x hidden)."""


class FeatureDrafter(Drafter):
    """A drafter that follows a text with the target's features, one fused row for each position but the newest token's, and finds
    earlier occurrences of the latest tokens.

    All fused rows are kept, hidden x 4 bytes per token, so that a text can be cut back anywhere and continued at once. The caches
    hold the model's keys and values of the first of these rows, and possibly rows of drafts, which are dropped after the round.

    Args:
        model: the trained model; several drafters may share it.
        caches: number of key-value caches that the model fills.
        target: the target it was trained for; None takes the one of the first `decode`.
        name: shown to the user.
        copies: whether it may copy; if not, q is the model's distribution alone.

    Attributes:
        model: the trained model.

    Raises:
        DraftlightError: the model does not fit the target.
    """

    def __init__(
        self, model: FeatureModel, caches: int, target: LoadedModel | TargetModel | None, name: str, copies: bool
    ) -> None:
        self.name = name
        self.capabilities = DrafterCapabilities(True, copies, True, tuple(model.config.taps))
        self._statistics: DrafterStatistics | None = None
        self._may_copy = copies
        self.model, self._cache_count = model, caches
        self._never_copied: frozenset[int] = frozenset()
        """Marks between turns: they occur in every conversation and in no answer."""
        self._target: TargetModel | None = None
        self._reset()
        if target is not None:
            self._bind(target)

    def _reset(self) -> None:
        self._caches = [KVCache() for _ in range(self._cache_count)]
        self._committed: list[int] = []
        self._features: list[mx.array] = []  # fused rows, (rows, hidden) each, from position 0 on without a gap
        self._buffered: list[mx.array] = []  # raw rows after those, to be fused together when needed
        self._rows = 0
        self._queued: Any = None  # the prefetched part of the next round
        self._source = CopySource(()) if self._may_copy else None

    def _bind(self, target: LoadedModel | TargetModel) -> TargetModel:
        if isinstance(target, LoadedModel):
            self.model.require_target(target)
            if target.tokenizer is not None:
                self._never_copied = frozenset(target.tokenizer.special) - target.eos_ids
            target = target.model
        if target is not self._target:
            tap(target, self.capabilities.hidden_layers)  # a target without these layers is refused here
            self._bind_modules(target)
            self._target = target
            self._reset()
        return target

    def _bind_modules(self, model: TargetModel) -> None:
        """Takes the parts of a new target, an mlx-lm model, that the drafter needs."""

    # Reading the target's features

    def start(self, context: DraftContext, proceed: Proceed = always) -> bool:
        """As in `Drafter`. Rows of a common prefix are kept. If rows of tokens that the target has already read are missing, the
        target reads those tokens again for this drafter."""
        target = self._bind(context.target)
        tokens = context.tokens
        shared = common_prefix(self._committed, tokens)
        self._committed = list(tokens)
        self._keep_rows(max(0, min(self._rows, shared, len(tokens) - 1)))
        self._trim(max(0, min(self._rows, shared - 1)))  # keys and values of a row also depend on the token after it
        self._source = CopySource(tokens) if self._may_copy else None
        if self._is_full or self._rows >= context.read:
            return True
        taps = tap(target, self.capabilities.hidden_layers)
        cache, known = make_prompt_cache(target), self._committed[: context.read]
        if read_prompt(target, cache, known, reading(self, taps, proceed)):
            return True
        self._reset()
        return False

    def read(self, start: int, hidden_states: mx.array) -> None:
        """As in `Drafter`. Ignores hidden states that would leave a gap after the existing rows."""
        if start <= self._rows < start + int(hidden_states.shape[0]):
            self._add(hidden_states[self._rows - start :])
            self._fuse()

    def has_token(self, token: int) -> bool:
        """Returns whether the model has a column for a token of the target."""
        return self.model.column_of(token) is not None

    # Copies

    def estimates(self, limit: int) -> Mapping[str, Estimate]:
        """As in `Drafter`; no probabilities if it would sample. Copies rarely end after one."""
        copied, share = self._copy_after(())
        chances = (share,) * min(limit, LOOKUP_HORIZON) if copied is not None and share >= SURE else ()
        return {self.name: Estimate(chances, statistics=self._statistics)}

    def _copy_after(self, drafted: Sequence[int] | None) -> tuple[int | None, float]:
        """Returns the token that followed an earlier occurrence of the latest tokens, `drafted` included, and the share of
        correct copies after such a match; None if there is no match."""
        if self._source is None or drafted is None:
            return None, 0.0
        copied, share, statistics = self._source.first(drafted)
        if not drafted:
            self._statistics = statistics
        return (None, 0.0) if copied in self._never_copied else (copied, share)

    def _copies_after(self, limit: int) -> tuple[list[int], list[float]]:
        """Returns at most `limit` ids that followed the latest tokens earlier, and for each the probability that it is right if
        those before it are."""
        if self._copy_after(())[0] is None or self._source is None:
            return [], []
        found, chances = self._source.find(limit)
        copied = list(itertools.takewhile(lambda token: token not in self._never_copied, found))
        return copied, chances[: len(copied)]

    def _with_drafted(self, drafted: list[int] | None, token: mx.array, is_known: bool) -> list[int] | None:
        """Returns the ids drafted so far, for `_copy_after`, with one more. Returns None once a token has not been evaluated: if
        the chain stays in the lazy graph, reading it would be a synchronisation."""
        if drafted is None or not is_known or self._source is None:
            return None
        return [*drafted, *np.asarray(token).tolist()]

    def _with_copy(
        self, logits: mx.array, columns: mx.array | None, copied: int, share: float, scale: float
    ) -> tuple[mx.array, mx.array | None]:
        """Returns logits (columns,) whose distribution at inverse temperature `scale` is (1 - share) x the model's + share x
        `copied`, and the target ids of the columns, with one more if that token has none. `columns` are the target ids of
        `logits`."""
        column = self._column(columns, copied)
        if column is None:
            column = int(logits.shape[0])
            columns = mx.arange(column, dtype=mx.int32) if columns is None else columns
            columns = mx.concatenate([columns, mx.array([copied], dtype=columns.dtype)])
            logits = mx.concatenate([logits, mx.array([-mx.inf], dtype=logits.dtype)])
        known = on_host(logits.astype(mx.float32))
        if known is None:
            return _mixed(logits.astype(mx.float32), column, share, scale), columns
        row = known.copy()
        copied_logit, row[column] = row[column], -np.inf
        highest = row.max()  # of all others; subtracted before scaling, so that float32 suffices at any temperature
        if not np.isfinite(highest):
            return logits, columns  # there is no other token
        scores, own = (row - highest) * scale, (copied_logit - highest) * scale
        others = np.log(np.exp(scores).sum())
        chance = min(share + (1 - share) / (1 + np.exp(np.clip(others - own, -50, 50))), MOST_COPIED)
        scores[column] = others + np.log(chance / (1 - chance))
        return mx.array(scores / scale), columns

    def _column(self, columns: mx.array | None, token: int) -> int | None:
        """Returns the index of a token among columns; None if they lack it. The model's own columns are not searched."""
        if columns is self.model.target_ids:
            return self.model.column_of(token)
        if columns is None:  # all ids of the target
            return token
        found = np.flatnonzero(np.asarray(columns) == token)
        return int(found[0]) if len(found) else None

    # Committed tokens

    def commit(self, path: Sequence[int], tokens: Sequence[int], hidden_states: mx.array | None) -> None:
        """As in `Drafter`. If hidden states are missing, or would leave a gap after the existing rows, the model is not used
        until the next `start`."""
        self._forget_drafts()
        follows = self._rows == len(self._committed) - 1
        self._committed.extend(tokens)
        if self._source is not None:
            self._source.extend(tokens)
        if hidden_states is not None and len(tokens) and follows:
            self._add(hidden_states)

    def finish(self) -> None:
        """As in `Drafter`."""
        self._forget_drafts()
        if self._rows:
            self._fuse()
            mx.eval(self._features, [cache.state for cache in self._caches if cache.keys is not None])

    @property
    def _is_full(self) -> bool:
        return len(self._committed) >= self.model.config.max_position_embeddings

    @property
    def _is_ready(self) -> bool:
        return 0 < self._rows == len(self._committed) - 1

    # Rows

    def _add(self, features: mx.array) -> None:
        self._buffered.append(features)
        if len(self._buffered) >= MAX_BUFFERED_ROUNDS:
            self._fuse()
        self._rows += int(features.shape[0])

    def _fuse(self) -> None:
        """Fuses the buffered features; a drafter that is paused fuses all of its rows at once."""
        if self._buffered:
            heard, self._buffered = self._buffered, []
            self._features.append(self.model.fuse(heard[0] if len(heard) == 1 else mx.concatenate(heard)))

    def _keep_rows(self, rows: int) -> None:
        """Drops all rows but the first `rows`."""
        self._queued = None
        self._fuse()
        while self._rows > rows:
            last = self._features.pop()
            excess = self._rows - rows
            self._rows -= min(excess, int(last.shape[0]))
            if excess < last.shape[0]:
                self._features.append(last[:-excess])
        self._trim(rows)

    def _forget_drafts(self) -> None:
        """Drops all rows that were not made from the target's features."""
        self._queued = None
        self._trim(self._rows)

    def _trim(self, rows: int) -> None:
        """Cuts the caches to at most the first `rows` rows."""
        for cache in self._caches:
            trim_to([cache], min(rows, int(cache.offset)), self.name)

    def _feature_rows(self, start: int, end: int) -> mx.array:
        """Returns (end - start, hidden) fused features; searches from the newest part back, since the wanted rows are usually
        there."""
        self._fuse()
        parts: list[mx.array] = []
        last = self._rows
        for part in reversed(self._features):
            first = last - int(part.shape[0])
            if first < end:
                parts.append(part[max(0, start - first) : end - first])
            if first <= start:
                break
            last = first
        return mx.concatenate(parts[::-1])


def _mixed(row: mx.array, column: int, share: float, scale: float) -> mx.array:
    """Returns the logits of `FeatureDrafter._with_copy` in the lazy graph: (columns,), if `row` has a column for the copied
    token."""
    at = mx.arange(row.shape[0]) == column
    without = mx.where(at, -mx.inf, row)
    highest = mx.max(without)
    scores, own = (without - highest) * scale, (row[column] - highest) * scale
    others = mx.logsumexp(scores)
    chance = mx.minimum(share + (1 - share) / (1 + mx.exp(mx.clip(others - own, -50, 50))), MOST_COPIED)
    mixed = mx.where(at, others + mx.log(chance / (1 - chance)), scores) / scale
    return mx.where(mx.isfinite(highest), mixed, row)
