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
"""Features (rows, taps x hidden) of a record, its anchors (blocks,) and its tokens, those of the last block
included."""


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
            places = anchors[block] + slot
            weights = np.exp(-slot / REACH).astype(np.float32)
            if self.plan.copied < 1:
                weights[self.lessons.copies_in(example)[places + 1]] *= self.plan.copied
            rows = offset + block * self._slots + slot
            parts.append((rows, weights, ids[places].astype(np.int64), logs[places].astype(np.float32)))
            offset += len(anchors) * self._slots
        rows, weights, all_ids, all_logs = (np.concatenate(part) for part in zip(*parts, strict=True))
        columns = self.lessons.column[all_ids]
        labels = np.where(columns >= 0, softmax(all_logs * SHARPNESS), np.float32(0))
        return laid, *(mx.array(array) for array in (rows.astype(np.int32), columns, labels, weights / weights.sum()))

    def _anchors(self, example: Example) -> np.ndarray:
        """Every place of an anchor in the answer of a record."""
        return np.arange(max(self._first, example.prompt_length - 1), len(example) - 1)

    def _laid(self, example: Example, read: np.ndarray, anchors: np.ndarray) -> Laid:
        before = mx.array(np.asarray(read[: anchors[-1]], np.float32))
        return before, mx.array(anchors.astype(np.int32)), mx.array(example.tokens[: anchors[-1] + self._slots])

    def _loss(self, laid: Sequence[Laid], rows: mx.array, columns: mx.array, labels: mx.array, weights: mx.array) -> mx.array:
        pairs = [self._filled(of_record) for of_record in laid]
        hidden, read = (
            mx.concatenate([part.reshape(-1, part.shape[-1]) for part in parts])[rows] for parts in zip(*pairs, strict=True)
        )
        base = hidden * self.block.config.logit_scale, self.block.output_rows
        projected = self.block.markov_head.markov_w2.weight
        return soft_loss(read, projected, columns, labels, weights, SHARPNESS, self.plan.variation, base)

    def _filled(self, laid: Laid) -> tuple[mx.array, mx.array]:
        """(blocks, slots, hidden) outputs, and (blocks, slots, rank) what the Markov head reads off the tokens of the text before
        each."""
        _, anchors, text = laid
        hidden, state = unroll(self.block, *laid, self._slots), None
        said = []
        for slot in range(self._slots):
            if slot < self.block.markov_from:
                said.append(mx.zeros((len(anchors), self.block.markov_head.rank)))
                continue
            before = text[mx.minimum(anchors + slot, len(text) - 1)]
            one, state = self.block.markov_head.read(hidden[:, slot], before, state)
            said.append(one)
        return hidden, mx.stack(said, axis=1)

    def _teacher_forced(self, batch: Sequence[Example]) -> Iterator[Drafted]:
        for example in batch:
            every = self._anchors(example)
            anchors = every[:: max(1, len(every) // MEASURED_ANCHORS)]
            read, ids, logs = features.load(example)
            hidden, said = self._filled(self._laid(example, read, anchors))
            for slot in range(self._positions):
                kept = np.flatnonzero(anchors + slot < len(example) - 1)
                before = anchors[kept] + slot
                rows = mx.array(kept)
                bias = self.block.markov_head.markov_w2(said[rows, slot])
                logits = np.array(self.block.logits(hidden[rows, slot]) + bias)
                yield slot, logits, ids[before].astype(np.int64), logs[before].astype(np.float32)

    def _multiply(self, factor: float) -> None:
        self.block.config = replace(self.block.config, logit_scale=self.block.config.logit_scale * factor)
        weight = self.block.markov_head.markov_w2.weight
        self.block.markov_head.markov_w2.weight = weight * factor
