"""Drafting with a small head on the target's own features, and with what followed the same words before."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
from mlx_lm.models.cache import KVCache

from engine.drafter_kinds import HEAD, LoadedDrafter
from engine.drafters.base import DraftPen, Proceed, Proposals, always, hearing
from engine.drafters.lookup import Lookup, Odds
from engine.models.head_model import BUILTIN_HEAD, HeadModel, load_head
from engine.models.loaded import LoadedModel
from engine.target.layer_taps import Taps, embedding_of, tap
from engine.target.prompt_cache import make_prompt_cache, read_prompt, trim_to
from engine.target.shared_prefix import common_prefix
from engine.types import DrafterStatistics

SURE = 0.85
"""Where a copied token is right that often, the head is not asked."""
MOST_COPIED = 0.98
"""The most that a copied token gets of the head's distribution."""


class FeatureHead:
    """A trained head as drafter (see `engine.models.head_model`).

    A head of one layer predicts from meaning, and is poor at repeating: names, code and sentences that stand in the conversation
    already. So where the latest tokens stood in the text before, q is the head's distribution with a share w for the token that
    followed there: (1 - w) head + w copy. w is how often copying has been right in this answer after a match of that length.
    Where it is right almost always the copy is proposed outright, and the head is spared. Either way q is what the token was
    drawn from, so every rule judges exactly.

    Row t stands for the target's features at position t and the token at t + 1, so the text's newest token has no row. Rows of
    proposals are made from the head's own features and always forgotten: when the target has judged, its own features of what
    was kept are at hand. The fused features of all rows are kept, hidden x 4 bytes a token, so that a text can be cut back
    anywhere and gone on with at once.

    Args:
        head: the folder of a head, or a loaded one, which several drafters may share.
        target: what it was trained for; without it the first `decode` says it.
        name: shown to the user.
        copies: whether it may copy; without, the head is on its own.

    Raises:
        DraftlightError: the folder holds no usable head, or it does not fit the target.
    """

    has_distribution = True
    sets_own_length = True  # asks the pen after each token

    def __init__(self, head: HeadModel | str | Path, target: Any = None, name: str = "head", copies: bool = True) -> None:
        self.name = name
        self.statistics: DrafterStatistics | None = None
        self._lookup = Lookup() if copies else None
        self._head = head if isinstance(head, HeadModel) else load_head(Path(head))
        self._never_copied: frozenset[int] = frozenset()
        """The marks between turns: they stand in every conversation and in no answer."""
        self._target: Any = None
        self._taps: Taps | None = None
        self._embedding: Any = None
        self._reset()
        if target is not None:
            self._bind(target)

    def _reset(self) -> None:
        self._cache = KVCache()
        self._committed: list[int] = []
        self._features: list[mx.array] = []  # fused, (rows, hidden) each, from position 0 on without a gap
        self._rows = 0
        self._queued: tuple[mx.array, mx.array] | None = None
        self._odds = Odds()
        if self._lookup is not None:
            self._lookup.restart(())

    def _bind(self, target: Any) -> None:
        if isinstance(target, LoadedModel):
            self._head.require_target(target)
            if target.tokenizer is not None:
                self._never_copied = frozenset(target.tokenizer.special) - target.eos_ids
            target = target.model
        if target is not self._target:
            self._taps = tap(target, self._head.config.taps)
            self._embedding = embedding_of(target)
            self._target = target
            self._reset()

    # What the target reads

    def listen(self, target: Any, tokens: Sequence[int]) -> None:
        """Before the target reads a text (prompt or all committed tokens): which target it is, and which text.

        Rows of a common beginning stay.
        """
        self._bind(target)
        shared = common_prefix(self._committed, tokens)
        self._committed = list(tokens)
        self._keep_rows(max(0, min(self._rows, shared - 1)))  # a row depends on the token after it too
        self._odds = Odds()
        if self._lookup is not None:
            self._lookup.restart(tokens)

    def take_features(self) -> mx.array:
        """(rows, taps x hidden) of the target's newest forward pass, lazy."""
        assert self._taps is not None, "the target is known before it runs"
        return self._taps.take()

    def hear(self, start: int, rows: int) -> None:
        """The target has just read `rows` tokens from position `start` on.

        Features that do not follow on the rows there are are of no use: `begin` then reads the text again.
        """
        features = self.take_features()
        if start <= self._rows < start + rows:
            self._add(features[self._rows - start : rows])

    def begin(self, tokens: Sequence[int], proceed: Proceed = always) -> bool:
        """As in `Drafter`. What the target read while nobody listened, it reads once more for the head."""
        if self._committed != list(tokens):
            assert self._target is not None, "whoever does not decode binds the head to its target"
            self.listen(self._target, tokens)
        if self._is_full or self._rows == len(tokens) - 1:
            return True
        heard = hearing(self, proceed)
        if read_prompt(self._target, make_prompt_cache(self._target), self._committed[:-1], heard):
            return True
        self._reset()
        return False

    # Rounds

    def propose(self, limit: int, pen: DraftPen) -> Proposals | None:
        """As in `Drafter`. The chain is evaluated token by token, except where the head neither copies nor may be stopped. None
        while the newest features are not known and nothing can be copied."""
        limit = min(limit, self._head.config.max_position_embeddings - len(self._committed))
        self.statistics = None
        asks = self._is_ready
        feature: mx.array | None = None
        drafted: list[int] = []
        for step in range(limit):
            copied, share = self._copy_after(drafted)
            if copied is not None and share >= SURE and pen.places:
                token = pen.place(copied, share)
                asks = False  # the head has no row for what it was not asked
            elif asks:
                feature, logits = self._first_step() if feature is None else self._attend(feature, token, int(self._cache.offset))
                columns = self._head.target_ids
                if copied is not None:
                    logits, columns = self._with_copy(logits, copied, share, pen.inverse_temperature)
                token = pen.draw(logits, columns)
            else:
                break
            if step + 1 == limit or not pen.goes_on():
                break
            if self._lookup is not None:
                drafted += np.asarray(token).tolist()
        return pen.proposals()

    def _copy_after(self, drafted: Sequence[int]) -> tuple[int | None, float]:
        """The token that followed when the latest ones, `drafted` included, stood in the text before, and how often copying is
        right after such a match; None where there is no match."""
        if self._lookup is None:
            return None, 0.0
        match, start, places = self._lookup.match(drafted)
        if not drafted:
            self.statistics = DrafterStatistics(places, int(not places), match, self._lookup.entries)
        copied = self._lookup.copied(start, 1)[0] if match else None
        return (None, 0.0) if copied is None or copied in self._never_copied else (copied, self._odds.of(match))

    def _with_copy(self, logits: mx.array, copied: int, share: float, scale: float) -> tuple[mx.array, mx.array]:
        """Logits (columns,) whose distribution at inverse temperature `scale` is (1 - share) the head's + share on `copied`, and
        the target ids of the columns: one more where the head has none for that token."""
        columns = self._head.target_ids
        column = self._head.column_of(copied)
        if column is None:
            column = int(columns.shape[0])
            columns = mx.concatenate([columns, mx.array([copied], dtype=columns.dtype)])
            logits = mx.concatenate([logits, mx.array([-mx.inf], dtype=logits.dtype)])
        row = np.array(logits.astype(mx.float32))
        copied_logit, row[column] = row[column], -np.inf
        highest = (
            row.max()
        )  # of all tokens but the copied one; subtracted before the scaling, which float32 bears at any temperature
        scores, own = (row - highest) * scale, (copied_logit - highest) * scale
        others = np.log(np.exp(scores).sum())
        chance = min(share + (1 - share) / (1 + np.exp(np.clip(others - own, -50, 50))), MOST_COPIED)
        scores[column] = others + np.log(chance / (1 - chance))
        return mx.array(scores / scale), columns

    def observe(self, tokens: Sequence[int], features: Any = None) -> None:
        """As in `Drafter`.

        Args:
            features: (len(tokens), taps x hidden) of the target's input rows that led to `tokens`, one each. Without them, or
                where they do not follow on the rows there are, the head is silent until the next text.
        """
        self._forget_drafts()
        follows = self._rows == len(self._committed) - 1
        self._committed.extend(tokens)
        self._learn(tokens)
        if features is not None and len(tokens) and follows:
            self._add(features)

    def _learn(self, tokens: Sequence[int]) -> None:
        """Holds what copying would have said against what the target wrote."""
        if self._lookup is None:
            return
        for token in tokens:
            match, start, _ = self._lookup.match()
            if match:
                self._odds.learn(match, self._lookup.copied(start, 1)[0] == token)
            self._lookup.extend((token,))

    def prefetch(self) -> None:
        """Queues the next round's first step: it depends on the committed tokens only, not on rule or noise."""
        if self._copy_after(())[1] >= SURE:
            return
        if self._queued is None and self._is_ready and not self._is_full:
            self._queued = self._first_step()
            mx.async_eval(*self._queued)

    def finish(self) -> None:
        """As in `Drafter`."""
        self._forget_drafts()
        if self._rows:
            mx.eval(self._features, self._cache.state if self._cache.keys is not None else [])

    @property
    def _is_full(self) -> bool:
        return len(self._committed) >= self._head.config.max_position_embeddings

    @property
    def _is_ready(self) -> bool:
        return 0 < self._rows == len(self._committed) - 1

    # Rows

    def _add(self, features: mx.array) -> None:
        self._features.append(self._head.fuse(features))
        self._rows += int(features.shape[0])

    def _keep_rows(self, rows: int) -> None:
        """Forgets all rows but the first so many."""
        self._queued = None
        while self._rows > rows:
            last = self._features.pop()
            excess = self._rows - rows
            self._rows -= min(excess, int(last.shape[0]))
            if excess < last.shape[0]:
                self._features.append(last[:-excess])
        trim_to([self._cache], min(rows, int(self._cache.offset)), "head")

    def _forget_drafts(self) -> None:
        """Back to the rows made from the target's features."""
        self._queued = None
        trim_to([self._cache], min(self._rows, int(self._cache.offset)), "head")

    def _absorb(self, rows: int) -> None:
        """Gives the first `rows` rows their keys and values, without asking for a prediction."""
        start = int(self._cache.offset)
        if start >= rows:
            trim_to([self._cache], rows, "head")
            return
        feature = self._feature_rows(start, rows)
        _, keys, values = self._project(feature, mx.array(self._committed[start + 1 : rows + 1]), start)
        self._cache.update_and_fetch(keys, values)

    def _feature_rows(self, start: int, end: int) -> mx.array:
        """(end - start, hidden) fused features; looks from the newest back, where what is wanted stands."""
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

    def _project(self, feature: mx.array, tokens: mx.array, start: int) -> tuple[mx.array, mx.array, mx.array]:
        """Queries, keys and values of rows from `start` on, from features (rows, hidden) and the tokens after them (rows,)."""
        embedding = self._embedding(tokens).astype(feature.dtype)
        return self._head.project(feature[None], embedding[None], start)

    def _first_step(self) -> tuple[mx.array, mx.array]:
        """The head's feature (1, hidden) and logits (columns,) for the token after all committed ones."""
        if self._queued is not None:
            queued, self._queued = self._queued, None
            return queued
        newest = self._rows - 1
        self._absorb(newest)
        return self._attend(self._features[-1][-1:], mx.array(self._committed[-1:]), newest)

    def _attend(self, feature: mx.array, token: mx.array, start: int) -> tuple[mx.array, mx.array]:
        """One step: the head's feature (1, hidden) for position start + 1, and logits (columns,) for the token at start + 2."""
        queries, keys, values = self._project(feature, token, start)
        keys, values = self._cache.update_and_fetch(keys, values)
        attended = mx.fast.scaled_dot_product_attention(queries, keys, values, scale=self._head.config.head_size**-0.5)
        after: mx.array = self._head.leave(feature[None], attended)[0]
        return after, self._head.logits(after[-1])


def build(name: str, target: LoadedModel, load: Callable[[], Any]) -> LoadedDrafter:
    """As in `engine.drafter_kinds.Build`."""
    head = load_head(BUILTIN_HEAD if name == HEAD else Path(name).expanduser())
    make = functools.partial(FeatureHead, head, target, name)
    return LoadedDrafter(name, make(), head.sha256, make=make)
