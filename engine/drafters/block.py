"""Drafts a whole block in one pass from the target's features, and copies what followed the same tokens earlier."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from pathlib import Path

import mlx.core as mx
import numpy as np

from engine.drafters.alignment import compatibility_warning, in_targets_type
from engine.drafters.draft import Draft, DraftPlan
from engine.drafters.feature_drafter import SURE, FeatureDrafter
from engine.drafters.loaded import LoadedDrafter
from engine.drafters.sampler import Sampler
from engine.machine.host import on_host
from engine.models.block_model import BUILTIN_BLOCK, Attend, BlockModel, load_block
from engine.models.loaded import LoadedModel
from engine.target.distribution import onto_target_ids
from engine.target.interface import TargetModel
from engine.values.drafter_kinds import BLOCK

ACCEPTED_DECAY = 0.85
"""Smoothing factor (weight of past rounds) of the mean of accepted tokens, which determines the slots of an adaptive draft."""
SLOTS_PER_ACCEPTED = 2.0
"""Slots of an adaptive draft: this factor times that mean, plus two. So a block that is accepted to its end soon gets longer."""


class BlockDrafter(FeatureDrafter):
    """A block drafter (see `engine.models.block_model`).

    One pass fills all slots, each with a distribution that depends only on the committed text. Tokens are drawn from these left
    to right, each through the Markov head or selector if there is one. So q is the distribution that a token was drawn from, and
    every rule stays exact. Copies are mixed into q as with a head (`FeatureDrafter`), and one that is almost always right is
    proposed without sampling.

    The cache holds the keys and values of the context only, each row at its own position: the block is recomputed from its anchor
    on. Row t belongs to the target's features at position t; the anchor, the newest token, has none yet.

    The number of slots of a block is known before any of its tokens is drawn: gamma, or if that is automatic, a number that
    follows the accepted tokens of past rounds. The draft may end earlier, after any token, if the policy decides so from the
    probabilities so far, or before a slot that a confidence head doubts; a token that was drawn is never dropped.

    Args:
        block: the folder of a block drafter, or a loaded one.
        target: the target it was trained for; None takes the one of the first `decode`.
        name: shown to the user.
        copies: whether it may copy; if not, q is the block's distribution alone.

    Raises:
        DraftlightError: the folder has no usable block drafter, or it does not fit the target.
    """

    model: BlockModel

    def __init__(
        self,
        block: BlockModel | str | Path,
        target: LoadedModel | TargetModel | None = None,
        name: str = "block",
        copies: bool = True,
    ) -> None:
        model = block if isinstance(block, BlockModel) else load_block(Path(block))
        self._accepted = model.config.max_proposals / SLOTS_PER_ACCEPTED
        self._slots = 0
        super().__init__(model, model.config.num_hidden_layers, target, name, copies)

    def _bind_modules(self, model: TargetModel) -> None:
        self.model.bind(model)

    # Rounds

    def propose(self, plan: DraftPlan, sampler: Sampler) -> Draft:
        """As in `Drafter`. Proposes nothing if the newest features are unknown and nothing can be copied, or if the confidence
        head doubts the first slot."""
        config = self.model.config
        limit = min(plan.length, config.max_position_embeddings - len(self._committed))
        self._statistics = None
        wanted = min(self._wanted() if sampler.is_adaptive else config.max_proposals, sampler.remaining)
        drawable = min(limit, wanted) if self._is_ready else 0
        self._slots = 0
        if drawable:
            self._slots = config.block_size if config.whole_blocks else drawable + (not config.anchor_predicts)
        if plan.width > 1 and limit >= 1:
            return self._grown(limit, min(drawable, plan.levels), sampler)
        filled: tuple[mx.array, mx.array] | None = None
        before = mx.array(self._committed[-1:], dtype=mx.int32)
        state: mx.array | None = None
        drafted: list[int] | None = []
        for step in range(limit):
            copied, share = self._copy_after(drafted)
            is_known = False
            if copied is not None and share >= SURE and sampler.may_place:
                before, is_known = sampler.place(copied, share), True
            elif step < drawable:
                filled = filled or self._fill()
                slot = step if config.anchor_predicts else step + 1
                hidden, logits = filled[0][slot], filled[1][slot]
                if sampler.is_adaptive and not self.model.is_confident(hidden, before):
                    break
                logits, columns, state = self.model.slot_logits(slot, logits, hidden, before, state)
                if copied is not None:
                    if columns is not None and columns is not self.model.target_ids and on_host(columns) is None:
                        # The columns were chosen in the lazy graph: reading them would be a synchronisation.
                        logits, columns = onto_target_ids(logits[None], sampler.vocab_size, columns)[0], None
                    logits, columns = self._with_copy(logits, columns, copied, share, sampler.inverse_temperature)
                before = sampler.sample(logits, columns)
            else:
                break
            if step + 1 == limit or not sampler.should_continue():
                break
            drafted = self._with_drafted(drafted, before, is_known or sampler.evaluates_tokens)
        return sampler.draft(self._statistics)

    def tree_reason(self) -> str:
        """Returns why its slots give no tree, as the end of a sentence; empty if they do."""
        return "" if self.model.has_independent_slots else "each of its slots depends on the token drawn before it"

    def _grown(self, limit: int, drawable: int, sampler: Sampler) -> Draft:
        """Proposes a tree from one block: the children of all nodes of a depth are drawn from the logits of one slot."""
        copied, chances = self._copies_after(limit)
        if not copied and not drawable:
            return sampler.draft(self._statistics)
        growing = sampler.tree(drawable, copied, chances, samples=drawable > 0)
        first, filled = (0 if self.model.config.anchor_predicts else 1), None
        while nodes := growing.waiting:
            filled = filled or self._fill()
            slots = mx.array([growing.shape.depths[node] + first for node in nodes])
            growing.expand(nodes, filled[1][slots], self.model.target_ids)
        return growing.draft(self._statistics)

    def commit(self, path: Sequence[int], tokens: Sequence[int], hidden_states: mx.array | None) -> None:
        """As in `FeatureDrafter`."""
        super().commit(path, tokens, hidden_states)
        if self._slots:
            self._accepted = ACCEPTED_DECAY * self._accepted + (1 - ACCEPTED_DECAY) * max(0, len(tokens) - 1)

    def _wanted(self) -> int:
        """Returns the maximum number of tokens that an adaptive draft takes from its block."""
        return min(self.model.config.max_proposals, round(SLOTS_PER_ACCEPTED * self._accepted) + 2)

    def prefetch(self) -> None:
        """Queues the next block, with as many slots as the latest: it depends only on the committed tokens."""
        if self._queued is None and self._slots and self._is_ready and not self._is_full and self._copy_after(())[1] < SURE:
            self._queued = self._slots, self._fill()
            mx.async_eval(*self._queued[1])

    # The block

    def _fill(self) -> tuple[mx.array, mx.array]:
        """Returns the (slots, hidden) normed outputs and (slots, columns) logits of a block after all committed tokens."""
        queued, self._queued = self._queued, None
        if queued is not None and queued[0] == self._slots:
            filled: tuple[mx.array, mx.array] = queued[1]
            return filled
        self._absorb()
        anchor = mx.array(self._committed[-1:], dtype=mx.int32)
        newest = self._feature_rows(self._rows - 1, self._rows)
        hidden = self.model.slot_outputs(anchor, newest, self._slots, self._rows, self._attend)[0]
        return hidden, self.model.logits(hidden)

    def _absorb(self) -> None:
        """Computes the keys and values of every row in every layer."""
        start = int(self._caches[0].offset)
        if start < self._rows:
            after = mx.array(self._committed[start + 1 : self._rows + 1], dtype=mx.int32)
            rows = self.model.context(self._feature_rows(start, self._rows), after)[None]
            for layer, cache in zip(self.model.layers, self._caches, strict=True):
                cache.update_and_fetch(*layer.self_attn.keys_and_values(rows, start))

    def _attend(self, index: int) -> Attend:
        """Returns the attention of one layer over the visible part of the context and over the block itself."""
        config, cache = self.model.config, self._caches[index]
        context, slots = self.model.slot_range(index, self._rows, self._slots)
        mask = visible(context, slots, config.causal[index], config.windows[index], config.window_follows_slot)
        first = 0 if mask is None else int(mask.any(axis=0).argmax())

        def attend(queries: mx.array, keys: mx.array, values: mx.array) -> mx.array:
            """Computes the attention of one block (see `Attend`)."""
            known = [part[:, :, first:context] for part in (cache.keys, cache.values)]
            keys, values = (mx.concatenate([*parts], axis=2) for parts in zip(known, (keys, values), strict=True))
            return mx.fast.scaled_dot_product_attention(
                queries, keys, values, scale=config.head_dim**-0.5, mask=None if mask is None else mx.array(mask[:, first:])
            )

        return attend


def visible(context: int, slots: int, causal: bool, window: int | None, follows_slot: bool) -> np.ndarray | None:
    """Returns (slots, context + slots) bool: which of the context's rows 0 to `context` - 1, and of the block's rows after them,
    each slot sees; None if it sees all. The arguments after the first two are a layer's settings in `BlockConfig`."""
    reaches_all = window is None or (context + slots <= window if follows_slot else context <= window)
    if not causal and reaches_all:
        return None
    places, own = np.arange(context + slots)[None], context + np.arange(slots)[:, None]
    seen = places <= own if causal else np.ones((slots, context + slots), bool)
    if window is not None:
        seen &= places > own - window if follows_slot else places >= context - window
    return seen


def build(name: str, target: LoadedModel, load: Callable[[], LoadedModel]) -> LoadedDrafter:
    """As in `engine.drafters.loaded.Build`."""
    folder = BUILTIN_BLOCK if name == BLOCK else Path(name).expanduser()
    block = in_targets_type(functools.partial(load_block, folder), target)
    make = functools.partial(BlockDrafter, block, target, name)
    return LoadedDrafter(name, make(), block.sha256, make=make, warning=compatibility_warning(block, target))
