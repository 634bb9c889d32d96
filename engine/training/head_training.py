"""Stage 3 of a training: the head learns from features on disk; what any drafter's training shares is in `drafter_training`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import mlx.core as mx
import numpy as np

from engine.models.head_model import HeadConfig, HeadModel
from engine.training.chains import soft_loss, unroll
from engine.training.drafter_training import Drafted, DrafterTraining, Plan
from engine.training.features import Example
from engine.training.lessons import SHARPNESS, Lessons, Targets

POSITIONS = 4
"""Draft positions that are measured."""


def memory_needed(config: HeadConfig, columns: int, plan: Plan, longest: int, parameters: int) -> int:
    """About how many bytes a training takes beside the target: weights, gradients, moments and their successors, and what a
    step keeps for its gradient, the logits of one chain step at a time. The longest record decides what attention takes."""
    tokens = max(plan.batch_tokens, longest)
    kept = 14 * config.hidden_size + 5 * config.intermediate_size + 2 * config.num_attention_heads * longest
    inputs = 2 * len(config.taps) * config.hidden_size
    return 4 * (6 * parameters + tokens * (plan.steps_back * kept + 4 * columns + inputs))


class HeadTraining(DrafterTraining):
    """The training of a head.

    Args:
        head: float32; it is changed in place. embedding: the target's, ids to vectors.
        train, held_out: see `split`.
    """

    def __init__(
        self, plan: Plan, head: HeadModel, embedding: Any, train: Sequence[Example], held_out: Sequence[Example]
    ) -> None:
        self.head = head
        ids = np.array(head.target_ids)

        def lessons(prefix: int) -> Lessons:
            """The chain from position t predicts the token at t + 2."""
            return Lessons(head.config, ids, embedding, plan.copied, max(0, prefix - 2))

        super().__init__(plan, head, ids, train, held_out, POSITIONS, lessons)

    def _inputs(self, batch: Sequence[Example]) -> tuple[Any, ...]:
        return self.lessons.prepare(batch, self.plan.steps_back)

    def _loss(self, inputs: mx.array, embedded: mx.array, targets: Sequence[Targets]) -> mx.array:
        loss = mx.array(0.0)
        steps = unroll(self.head, self.head.fuse(inputs), embedded, len(targets))
        for feature, target in zip(steps, targets, strict=True):
            hidden = self.head.norm(feature.reshape(-1, feature.shape[-1])[target.rows])
            head = self.head.head.weight
            loss = loss + soft_loss(hidden, head, target.columns, target.labels, target.weights, SHARPNESS, self.plan.variation)
        return loss

    def _teacher_forced(self, batch: Sequence[Example]) -> Iterator[Drafted]:
        """Of every second position."""
        inputs, embedded, labels = self.lessons.load(batch, POSITIONS)
        steps = unroll(self.head, self.head.fuse(inputs), embedded, POSITIONS)
        mx.eval(steps)
        for step, feature in enumerate(steps):
            wanted = self.lessons.wanted(batch, labels, inputs.shape[1], step, prompts=False)
            rows, _, ids, logs = (part[::2] for part in wanted)
            logits = self.head.logits(feature.reshape(-1, feature.shape[-1])[mx.array(rows)]) if len(rows) else mx.zeros((0, 1))
            yield step, np.array(logits), ids, logs

    def _multiply(self, factor: float) -> None:
        self.head.head.weight = self.head.head.weight * factor
