"""Stage 3 of the training of a block drafter; what it shares with a head's stands in `engine.training.drafter_training`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import mlx.core as mx
import numpy as np

from engine.models.block_config import BlockConfig
from engine.models.block_model import BlockModel
from engine.models.block_unroll import unroll
from engine.training import features
from engine.training.chains import soft_loss
from engine.training.drafter_training import Drafted, DrafterTraining, Plan
from engine.training.features import Example
from engine.training.lessons import SHARPNESS, Lessons, softmax

REACH = 4.0
"""The weight of a slot falls by e for every so many before it: it counts only where those were accepted (DeepSpec)."""
MEASURED_ANCHORS = 24
"""Of a held-out record."""

Laid = tuple[mx.array, mx.array, mx.array]
"""Features (rows, taps x hidden) of a record, its anchors (blocks,) and the tokens there (blocks,)."""


def memory_needed(config: BlockConfig, columns: int, plan: Plan, longest: int, parameters: int) -> int:
    """About how many bytes a training takes beside the target, as `head_training.memory_needed`."""
    slots = max(1, plan.batch_tokens // longest) * plan.anchors * plan.steps_back
    attention = 2 * config.num_attention_heads * (longest + plan.steps_back)
    kept = config.num_hidden_layers * (12 * config.hidden_size + 5 * config.intermediate_size + attention)
    inputs = max(plan.batch_tokens, longest) * (2 * len(config.taps) + 4) * config.hidden_size
    return 4 * (6 * parameters + slots * (kept + 4 * columns) + inputs)


class BlockTraining(DrafterTraining):
    """The training of a block drafter of our own packaging.

    Args:
        model: float32, bound to its target; it is changed in place. embedding: the target's, ids to vectors.
    """

    def __init__(
        self, plan: Plan, model: BlockModel, embedding: Any, train: Sequence[Example], held_out: Sequence[Example]
    ) -> None:
        self.block, self._slots = model, plan.steps_back
        ids = np.array(model.target_ids)
        super().__init__(
            plan, model, ids, train, held_out, min(self._slots, 4), lambda prefix: self._lessons(ids, embedding, prefix)
        )

    def _lessons(self, ids: np.ndarray, embedding: Any, prefix: int) -> Lessons:
        self._first = max(1, prefix - 1)  # the block after an anchor begins with the token after it
        return Lessons(self.block.config, ids, embedding, self.plan.copied, self._first - 1)

    def _inputs(self, batch: Sequence[Example]) -> tuple[Any, ...]:
        generator = np.random.default_rng([self.plan.seed, self.progress.step])
        laid, parts = [], []
        offset = 0
        for example in batch:
            anchors = self._anchors(example)
            anchors = np.sort(generator.permutation(anchors)[: self.plan.anchors])
            read, ids, logs = features.load(example)
            laid.append(self._laid(example, read, anchors))
            block, slot = np.nonzero(anchors[:, None] + np.arange(self._slots) < len(example) - 1)
            before = anchors[block] + slot
            weights = np.exp(-slot / REACH).astype(np.float32)
            if self.plan.copied < 1:
                weights[self.lessons.copies_in(example)[before + 1]] *= self.plan.copied
            rows = offset + block * self._slots + slot
            parts.append((rows, example.tokens[before], weights, ids[before].astype(np.int64), logs[before].astype(np.float32)))
            offset += len(anchors) * self._slots
        rows, before, weights, all_ids, all_logs = (np.concatenate(part) for part in zip(*parts, strict=True))
        columns = self.lessons.column[all_ids]
        labels = np.where(columns >= 0, softmax(all_logs * SHARPNESS), np.float32(0))
        arrays = rows.astype(np.int32), before.astype(np.int32), columns, labels, weights / weights.sum()
        return laid, *(mx.array(array) for array in arrays)

    def _anchors(self, example: Example) -> np.ndarray:
        """Every place of an anchor in the answer of a record."""
        return np.arange(max(self._first, example.prompt_length - 1), len(example) - 1)

    def _laid(self, example: Example, read: np.ndarray, anchors: np.ndarray) -> Laid:
        before = mx.array(np.asarray(read[: anchors[-1]], np.float32))
        return before, mx.array(anchors.astype(np.int32)), mx.array(example.tokens[anchors])

    def _loss(
        self, laid: Sequence[Laid], rows: mx.array, before: mx.array, columns: mx.array, labels: mx.array, weights: mx.array
    ) -> mx.array:
        hidden = self._hidden(laid)[rows]
        markov = self.block.markov_head
        matrix = self.block.about.matrix
        assert matrix is not None, "the block drafter is bound to its target"
        base = hidden * self.block.config.logit_scale, matrix
        embedded = markov.markov_w1(before)
        return soft_loss(embedded, markov.markov_w2.weight, columns, labels, weights, SHARPNESS, self.plan.variation, base)

    def _hidden(self, laid: Sequence[Laid]) -> mx.array:
        """(all slots, hidden)."""
        parts = [unroll(self.block, *of_record, self._slots) for of_record in laid]
        return mx.concatenate([part.reshape(-1, part.shape[-1]) for part in parts])

    def _teacher_forced(self, batch: Sequence[Example]) -> Iterator[Drafted]:
        for example in batch:
            every = self._anchors(example)
            anchors = every[:: max(1, len(every) // MEASURED_ANCHORS)]
            read, ids, logs = features.load(example)
            hidden = unroll(self.block, *self._laid(example, read, anchors), self._slots)
            for slot in range(self._positions):
                kept = np.flatnonzero(anchors + slot < len(example) - 1)
                before = anchors[kept] + slot
                rows = hidden[mx.array(kept), slot]
                bias, _ = self.block.markov_head(rows, mx.array(example.tokens[before]), None)
                logits = np.array(self.block.logits(rows) + bias)
                yield slot, logits, ids[before].astype(np.int64), logs[before].astype(np.float32)

    def _multiply(self, factor: float) -> None:
        self.block.config = replace(self.block.config, logit_scale=self.block.config.logit_scale * factor)
        weight = self.block.markov_head.markov_w2.weight
        self.block.markov_head.markov_w2.weight = weight * factor
