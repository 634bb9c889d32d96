"""Stage 3 of a training: the head learns from features on disk, is measured on held-out text, and keeps its best weights.

What a training depends on is `Plan`; with `steps` given, the weights after an interruption are those without one, to the bit.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

import mlx.core as mx
import mlx.nn as nn
import mlx.optimizers as optim
import numpy as np
from mlx.utils import tree_flatten, tree_unflatten

from engine.errors import DraftlightError
from engine.files.whole_file import write_whole
from engine.models.head_model import HeadConfig, HeadModel
from engine.requests.train import HeldOut
from engine.training.chains import soft_loss, unroll
from engine.training.features import Example
from engine.training.lessons import SHARPNESS, Lessons, Targets, common_opening, groups, shuffled, softmax

MOST_HELD_OUT = 80
COUNTED_FROM = 0.5
"""Of the training: earlier, at a high learning rate, a head that is no better yet says nothing."""
POSITIONS = 4
"""Draft positions that are measured."""
BETAS, WEIGHT_DECAY, LARGEST_GRADIENT = (0.9, 0.98), 0.01, 1.0
SHARPER = (1.0, 1.1, 1.2, 1.35, 1.5)
"""What the logits of a trained head may be multiplied with."""
WARM_UP, LOWEST = 40, 0.02
"""Steps up to the highest learning rate, and the share of it that remains at the end."""


@dataclass(frozen=True)
class Plan:
    """What decides the weights, besides the text, the target and the start. Names as in `TrainRequest`."""

    steps_back: int
    steps: int | None
    minutes: float | None
    learning_rate: float
    variation: float
    copied: float
    batch_tokens: int
    seed: int


@dataclass
class TrainingProgress:
    """How far a training is; all of it goes into the checkpoint.

    Attributes:
        seconds: of training, measuring left out.
        since_best: measurements since the best one that count.
        measured: every measurement so far.
        peak_bytes: most memory that MLX held when it was looked at, target included.
    """

    step: int = 0
    seconds: float = 0.0
    loss: float = 0.0
    best: HeldOut | None = None
    since_best: int = 0
    measured: tuple[HeldOut, ...] = ()
    peak_bytes: int = 0


def memory_needed(config: HeadConfig, columns: int, plan: Plan, longest: int, parameters: int) -> int:
    """About how many bytes a training takes beside the target: weights, gradients, moments and their successors, and what a
    step keeps for its gradient, the logits of one chain step at a time. The longest record decides what attention takes."""
    tokens = max(plan.batch_tokens, longest)
    kept = 14 * config.hidden_size + 5 * config.intermediate_size + 2 * config.num_attention_heads * longest
    inputs = 2 * len(config.taps) * config.hidden_size
    return 4 * (6 * parameters + tokens * (plan.steps_back * kept + 4 * columns + inputs))


class HeadTraining:
    """One training under way.

    Args:
        head: float32; it is changed in place. embedding: the target's, ids to vectors.
        train, held_out: see `split`.
    """

    def __init__(
        self, plan: Plan, head: HeadModel, embedding: Any, train: Sequence[Example], held_out: Sequence[Example]
    ) -> None:
        self.plan, self.head, self.progress = plan, head, TrainingProgress()
        prefix = common_opening([*train, *held_out]) if len(train) > 1 else 0
        self._ids = np.array(head.target_ids)
        first = max(0, prefix - 2)  # the chain from position t predicts the token at t + 2
        self.lessons = Lessons(head.config, self._ids, embedding, plan.copied, first)
        self.train = self.lessons.long_enough(train, plan.steps_back)
        held_out = self.lessons.long_enough(held_out, POSITIONS)
        self.held_out = sorted(held_out, key=lambda one: (one.group, len(one)))[:MOST_HELD_OUT]
        if not self.train or not self.held_out:
            raise DraftlightError("There is too little text to train on: all records are shorter than a few tokens.")
        self.optimiser = optim.AdamW(plan.learning_rate, list(BETAS), weight_decay=WEIGHT_DECAY, bias_correction=True)
        self.optimiser.init(head.trainable_parameters())
        self._value_and_gradient = nn.value_and_grad(head, self._loss)

    # Training

    @property
    def fraction(self) -> float:
        """How much of it is done."""
        if self.plan.steps is not None:
            return self.progress.step / self.plan.steps
        assert self.plan.minutes is not None
        return self.progress.seconds / (60 * self.plan.minutes)

    def run(self) -> Iterator[float]:
        """Steps from the current one on, with the loss of each, until the plan is done.

        Raises:
            DraftlightError: the loss is no longer a number.
        """
        for batch in self._remaining():
            if self.fraction >= 1:
                return
            began = time.perf_counter()
            loss = self._step(batch)
            self.progress.step += 1
            self.progress.seconds += time.perf_counter() - began
            if not np.isfinite(loss):
                raise DraftlightError("The training has diverged. Choose a smaller --learning-rate and another --work.")
            self.progress.loss = loss if self.progress.step == 1 else 0.98 * self.progress.loss + 0.02 * loss
            yield loss

    def _remaining(self) -> Iterator[list[Example]]:
        """Batches without end; they depend on seed and step alone."""
        first = epoch = 0
        while True:
            batches = shuffled(self.train, self.plan.batch_tokens, np.random.default_rng([self.plan.seed, epoch]))
            yield from batches[max(0, self.progress.step - first) :]
            first, epoch = first + len(batches), epoch + 1

    def _step(self, batch: Sequence[Example]) -> float:
        inputs, embedded, targets = self.lessons.prepare(batch, self.plan.steps_back)
        loss, gradients = self._value_and_gradient(inputs, embedded, targets)
        gradients, _ = optim.clip_grad_norm(gradients, LARGEST_GRADIENT)
        self.optimiser.learning_rate = mx.array(self._rate())
        self.optimiser.update(self.head, gradients)
        mx.eval(self.head.parameters(), self.optimiser.state, loss)
        return float(loss.item())

    def _rate(self) -> float:
        steps = self.plan.steps
        warm_up = WARM_UP if steps is None else max(1, min(WARM_UP, steps // 10))
        rising = min(1.0, (self.progress.step + 1) / warm_up)
        return self.plan.learning_rate * rising * max(LOWEST, 1 - self.fraction)

    def _loss(self, inputs: mx.array, embedded: mx.array, targets: Sequence[Targets]) -> mx.array:
        loss = mx.array(0.0)
        steps = unroll(self.head, self.head.fuse(inputs), embedded, len(targets))
        for feature, target in zip(steps, targets, strict=True):
            hidden = self.head.norm(feature.reshape(-1, feature.shape[-1])[target.rows])
            head = self.head.head.weight
            loss = loss + soft_loss(hidden, head, target.columns, target.labels, target.weights, SHARPNESS, self.plan.variation)
        return loss

    # Measuring

    def sharpen(self, tick: Callable[[], None] = lambda: None) -> float:
        """Multiplies the logits, by way of the output rows, by what makes the held-out overlap largest; returns the factor.

        A head that is unsure spreads over many tokens what the target gives to one of them. The sum of min(p, q) is largest for a
        q that is bolder than the best guess of p.
        """
        best = max(SHARPER, key=lambda factor: self.measure(tick, factor).overlapping)
        self.head.head.weight = self.head.head.weight * best
        return best

    def measure(self, tick: Callable[[], None] = lambda: None, sharper: float = 1.0) -> HeldOut:
        """On the answers of held-out text; every second position, teacher-forced, each draft position by itself.

        Args:
            tick: called before every batch; may raise to break off.
            sharper: what the head's logits are multiplied with.
        """
        agreed, overlap, count = (np.zeros(POSITIONS) for _ in range(3))
        for batch in groups(sorted(self.held_out, key=len), self.plan.batch_tokens):
            tick()
            inputs, embedded, labels = self.lessons.load(batch, POSITIONS)
            steps = unroll(self.head, self.head.fuse(inputs), embedded, POSITIONS)
            mx.eval(steps)
            for step, feature in enumerate(steps):
                rows, _, ids, logs = (
                    part[::2] for part in self.lessons.wanted(batch, labels, inputs.shape[1], step, prompts=False)
                )
                if not len(rows):
                    continue
                logits = np.array(self.head.logits(feature.reshape(-1, feature.shape[-1])[mx.array(rows)]))
                likeliest = np.take_along_axis(ids, logs.argmax(axis=-1)[:, None], axis=-1)[:, 0]
                columns = self.lessons.column[ids]
                chances = softmax(logits * (sharper * SHARPNESS))
                drafted = np.take_along_axis(chances, np.maximum(columns, 0), axis=-1) * (columns >= 0)
                agreed[step] += (self._ids[logits.argmax(axis=-1)] == likeliest).sum()
                overlap[step] += np.minimum(softmax(logs * SHARPNESS), drafted).sum()
                count[step] += len(rows)
        shares = [tuple(round(float(value), 4) for value in sums / np.maximum(count, 1)) for sums in (agreed, overlap)]
        return HeldOut(self.progress.step, shares[0], shares[1], int(count[0]))

    def note(self, measured: HeldOut) -> bool:
        """Take a measurement in; whether it is the best so far."""
        progress = self.progress
        progress.measured = (*progress.measured, measured)
        is_best = progress.best is None or measured.score > progress.best.score
        if is_best:
            progress.best, progress.since_best = measured, 0
        elif self.fraction > COUNTED_FROM:
            progress.since_best += 1
        return is_best

    # Keeping

    def save(self, file: Path) -> None:
        """Write everything needed to go on."""
        self.progress.peak_bytes = max(self.progress.peak_bytes, mx.get_peak_memory())
        state = {"head": self.head.trainable_parameters(), "optimiser": self.optimiser.state}
        _write(file, dict(tree_flatten(state)), asdict(self.progress))

    def resume(self, file: Path) -> None:
        """Go on from where `save` was called. Raises DraftlightError if the file is damaged."""
        try:
            arrays, described = cast(tuple[dict[str, mx.array], dict[str, str]], mx.load(str(file), return_metadata=True))
            state = cast(dict[str, Any], tree_unflatten(list(arrays.items())))
            self.head.update(state["head"])
            self.optimiser.state = state["optimiser"]
            kept = json.loads(described["progress"])
            mx.eval(self.head.parameters(), self.optimiser.state)
        except (RuntimeError, ValueError, KeyError) as error:
            raise DraftlightError(
                f"The checkpoint {file} is damaged ({error}). Remove it to start the training again."
            ) from error
        measured = tuple(held_out(one) for one in kept["measured"])
        best = None if kept["best"] is None else held_out(kept["best"])
        self.progress = TrainingProgress(**{**kept, "measured": measured, "best": best})

    def save_weights(self, file: Path) -> None:
        """Write the weights alone."""
        _write(file, dict(tree_flatten(self.head.trainable_parameters())), {})

    def load_weights(self, file: Path) -> None:
        """Take weights that `save_weights` wrote."""
        self.head.load_weights(str(file))
        mx.eval(self.head.parameters())


def held_out(described: dict[str, Any]) -> HeldOut:
    """From what `dataclasses.asdict` made of it."""
    return HeldOut(described["step"], tuple(described["agreement"]), tuple(described["overlap"]), described["positions"])


def _write(file: Path, arrays: dict[str, mx.array], progress: dict[str, Any]) -> None:
    write_whole(file, lambda opened: mx.save_safetensors(opened, arrays, {"progress": json.dumps(progress)}))
