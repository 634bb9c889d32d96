"""Drafts with a small head on the target's own features, and with copies of what followed the same tokens earlier."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

import mlx.core as mx
import numpy as np

from engine.drafters.alignment import compatibility_warning, in_targets_type
from engine.drafters.draft import Draft, DraftPlan
from engine.drafters.feature_drafter import SURE, FeatureDrafter, FeatureModel
from engine.drafters.loaded import LoadedDrafter
from engine.drafters.sampler import Sampler
from engine.drafters.tree_sampler import TreeSampler
from engine.models.head_model import BUILTIN_HEAD, load_head
from engine.models.loaded import LoadedModel
from engine.target.interface import TargetModel
from engine.target.tree_pass import TreeRows
from engine.values.drafter_kinds import HEAD

ABSORBED_ROWS = 1024
"""Maximum number of committed rows that a head reads in one step: of several layers each step holds a mask of rows x text."""


class RowModel(FeatureModel, Protocol):
    """A head that reads rows of (target's state at t, token at t + 1) and predicts the token at t + 2.

    The models differ in how they fuse the state, in their layers and in which of their own outputs replaces the target's state in
    the next step of a chain. The drafter is the same for all.
    """

    @property
    def sha256(self) -> str | None:
        """Digest of its weight files; None if it was not loaded from files."""

    @property
    def cache_count(self) -> int:
        """Number of layers with keys and values."""

    @property
    def max_proposals(self) -> int:
        """Maximum number of tokens that it can draft in a chain."""

    def bind(self, target: Any) -> None:
        """Takes the parts of the target, an mlx-lm model, that the head needs."""

    def advance(self, features: mx.array, tokens: mx.array, caches: Sequence[Any], rows: TreeRows | None = None) -> mx.array:
        """Appends some rows to the caches.

        Args:
            features: (rows, hidden) from `fuse` or, for drafted tokens, from this method.
            tokens: (rows,) the token after each feature.
            caches: one for each layer.
            rows: the nodes of a tree that these rows are; None if they follow the rows in the cache, and one another.

        Returns:
            (rows, hidden): for each row what takes the place of the state at the next position.
        """

    def logits(self, features: mx.array) -> mx.array:
        """Returns (..., columns) logits from the result of `advance` (..., hidden)."""


class FeatureHead(FeatureDrafter):
    """A head as drafter: one that was trained here (`engine.models.head_model`) or a published one (`RowModel`).

    A head of one layer predicts from meaning, and is poor at repetition: names, code and sentences that already occur in the
    conversation. So if the latest tokens occurred earlier in the text, q is a mixture of the head's distribution and the token
    that followed there: (1 - w) head + w copy. w is the share of correct copies in this answer after a match of that length. If w
    is at least `SURE`, the copy is proposed without sampling, and the head does not run. Either way q is the distribution that
    the token was drawn from, so every rule stays exact.

    Row t combines the target's features at position t and the token at t + 1, so the text's newest token has no row. Rows of
    proposals are made from the head's own features and always dropped: after the verdict, the target's own features of the
    accepted tokens are available.

    Args:
        head: the folder of a head, or a loaded one, which several drafters may share.
        target: the target it was trained for; None takes the one of the first `decode`.
        name: shown to the user.
        copies: whether it may copy; if not, q is the head's distribution alone.

    Raises:
        DraftlightError: the folder has no usable head, or it does not fit the target.
    """

    model: RowModel

    def __init__(
        self,
        head: RowModel | str | Path,
        target: LoadedModel | TargetModel | None = None,
        name: str = "head",
        copies: bool = True,
    ) -> None:
        model: RowModel = load_head(Path(head)) if isinstance(head, (str, Path)) else head
        super().__init__(model, model.cache_count, target, name, copies)

    def _bind_modules(self, model: TargetModel) -> None:
        self.model.bind(model)

    # Rounds

    def tree_reason(self) -> str:
        """Returns an empty reason: a head can always propose trees."""
        return ""

    def propose(self, plan: DraftPlan, sampler: Sampler) -> Draft:
        """As in `Drafter`. Proposes nothing if nothing can be copied and either the newest features are unknown or sampling is
        not allowed.

        If the chain stays in the lazy graph (a fixed gamma on a GPU), the host does not know the sampled tokens, so nothing is
        copied after them.
        """
        free = self.model.config.max_position_embeddings - len(self._committed)
        limit = min(plan.length, free, self.model.max_proposals)
        self._statistics = None
        # A chain can be drawn along a copy for as long as head and copy agree; a shape that is fixed beforehand ends before that.
        follows_copy = plan.is_adaptive and not plan.grows and self._copy_after(())[0] is not None
        if plan.width > 1 and limit >= 1 and not follows_copy:
            return self._grown(plan, limit, sampler)
        asks = self._is_ready
        feature: mx.array | None = None
        drafted: list[int] | None = []
        for step in range(limit):
            copied, share = self._copy_after(drafted)
            if copied is not None and share >= SURE and sampler.may_place:
                token = sampler.place(copied, share)
                asks, is_known = False, True  # after a copy the head cannot continue: it has no row for the copied token
            elif asks and sampler.remaining:
                feature, logits = self._first_step() if feature is None else self._step(feature, token)
                columns: mx.array | None = self.model.target_ids
                if copied is not None:
                    logits, columns = self._with_copy(logits, columns, copied, share, sampler.inverse_temperature)
                token, is_known = sampler.sample(logits, columns), sampler.evaluates_tokens
            else:
                break
            if step + 1 == limit or not sampler.should_continue():
                break
            drafted = self._with_drafted(drafted, token, is_known)
        return sampler.draft(self._statistics)

    def _grown(self, plan: DraftPlan, depth: int, sampler: Sampler) -> Draft:
        """Proposes a tree: the copy of what followed the latest tokens earlier, if there is one, with the head's own choices
        beside and below it. The head reads one level in each step, since a node needs the feature of the one before it."""
        copied, chances = self._copies_after(depth)
        samples = self._is_ready and sampler.remaining > 0
        if not samples and not copied:
            return sampler.draft(self._statistics)
        growing = sampler.tree(min(depth, plan.levels, sampler.remaining), copied, chances, samples)
        features: dict[int, mx.array] = {}
        held: list[int] = []
        if growing.waiting:
            feature, logits = self._first_step()
            features[0] = feature[-1:]
            if growing.waiting[0] == 0:
                growing.expand([0], logits[None], self.model.target_ids)
        while unread := growing.unread(held):
            level = [node for node in unread if growing.shape.parents[node - 1] in features]
            before = mx.concatenate([features[growing.shape.parents[node - 1]] for node in level])
            after, rows = self._attend_tree(before, level, held, growing)
            features |= {node: after[index : index + 1] for index, node in enumerate(level)}
            held += level
            growing.expand_waiting(level, rows, self.model.target_ids)
        return growing.draft(self._statistics)

    def _attend_tree(
        self, features: mx.array, nodes: Sequence[int], held: Sequence[int], growing: TreeSampler
    ) -> tuple[mx.array, mx.array]:
        """Runs one step for some nodes of a tree: returns the head's features (nodes, hidden) and logits (nodes, columns).

        Args:
            features: (nodes, hidden) of the nodes before them. held: nodes that the cache holds behind the committed rows.
        """
        rows = [*held, *nodes]
        depths = np.array(growing.shape.depths)[rows] - 1  # the row of the root is committed
        visible = growing.shape.visible[np.ix_(nodes, rows)]
        after = self.model.advance(features, growing.tokens(nodes), self._caches, TreeRows(depths, visible))
        return after, self.model.logits(after)

    def prefetch(self) -> None:
        """Queues the next round's first step, which depends only on the committed tokens, not on rule or noise."""
        if self._copy_after(())[1] >= SURE:
            return
        if self._queued is None and self._is_ready and not self._is_full:
            self._queued = self._first_step()
            mx.async_eval(*self._queued)

    def _absorb(self, rows: int) -> None:
        """Computes keys and values of the first `rows` rows, without a prediction: their outputs are never evaluated."""
        self._trim(rows)
        for first in range(int(self._caches[0].offset), rows, ABSORBED_ROWS):
            last = min(first + ABSORBED_ROWS, rows)
            self.model.advance(self._feature_rows(first, last), mx.array(self._committed[first + 1 : last + 1]), self._caches)

    def _first_step(self) -> tuple[mx.array, mx.array]:
        """Returns the head's feature (1, hidden) and logits (columns,) for the token after all committed ones."""
        if self._queued is not None:
            queued: tuple[mx.array, mx.array] = self._queued
            self._queued = None
            return queued
        self._fuse()
        self._absorb(self._rows - 1)
        self._fuse()
        return self._step(self._features[-1][-1:], mx.array(self._committed[-1:]))

    def _step(self, feature: mx.array, token: mx.array) -> tuple[mx.array, mx.array]:
        """Runs one step of a chain, from a feature (1, hidden) and the token (1,) after it. Returns the head's feature
        (1, hidden) of that token's position and the logits (columns,) of the token after it."""
        after = self.model.advance(feature, token, self._caches)
        return after, self.model.logits(after[-1])


def build(name: str, target: LoadedModel, load: Callable[[], LoadedModel]) -> LoadedDrafter:
    """As in `engine.drafters.loaded.Build`."""
    return from_folder(BUILTIN_HEAD if name == HEAD else Path(name).expanduser(), name, target)


def from_folder(folder: Path, name: str, target: LoadedModel) -> LoadedDrafter:
    """Loads a head from a folder as a drafter that is called `name`. Errors as in `engine.drafters.loaded.Build`."""
    head = in_targets_type(functools.partial(load_head, folder), target)
    return loaded_head(head, target, name, compatibility_warning(head, target))


def loaded_head(head: RowModel, target: LoadedModel, name: str, warning: str) -> LoadedDrafter:
    """Returns the drafter with a head, which is called `name`; it copies, too. `warning`: as in `LoadedDrafter`."""
    make = functools.partial(FeatureHead, head, target, name)
    return LoadedDrafter(name, make(), head.sha256, make=make, warning=warning)
