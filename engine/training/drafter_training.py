"""What all trainings of a drafter share: steps, measurements on held-out text, checkpoints.

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
from engine.requests.train import HeldOut
from engine.training.features import Example
from engine.training.lessons import SHARPNESS, Lessons, common_opening, groups, shuffled, softmax

MOST_HELD_OUT = 80
COUNTED_FROM = 0.5
"""Of the training: earlier, at a high learning rate, a head that is no better yet says nothing."""
BETAS, WEIGHT_DECAY, LARGEST_GRADIENT = (0.9, 0.98), 0.01, 1.0
SHARPER = (1.0, 1.1, 1.2, 1.35, 1.5)
"""What the logits of a trained head may be multiplied with."""
WARM_UP, LOWEST = 40, 0.02
"""Steps up to the highest learning rate, and the share of it that remains at the end."""


Drafted = tuple[int, np.ndarray, np.ndarray, np.ndarray]
"""Draft position, the drafter's logits (rows, columns) there, and the labels' ids and logs (rows, LABELS)."""


@dataclass(frozen=True)
class Plan:
    """What decides the weights, besides the text, the target and the start. Names as in `TrainRequest`; `steps_back` of a block
    drafter is the size of its block, and `anchors` are blocks for each record, 0 of a head."""

    steps_back: int
    steps: int | None
    minutes: float | None
    learning_rate: float
    variation: float
    copied: float
    batch_tokens: int
    seed: int
    anchors: int = 0


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


class DrafterTraining:
    """One training under way; `HeadTraining` and `BlockTraining` say what is learned.

    Args:
        model: float32; it is changed in place. ids: (columns,) target ids of its logits.
        train, held_out: see `split`. positions: draft positions that are measured.
        lessons: from the number of tokens that all records begin with.
    """

    def __init__(
        self,
        plan: Plan,
        model: nn.Module,
        ids: np.ndarray,
        train: Sequence[Example],
        held_out: Sequence[Example],
        positions: int,
        lessons: Callable[[int], Lessons],
    ) -> None:
        self.plan, self.model, self.progress = plan, model, TrainingProgress()
        self.ids, self._positions = ids, positions
        self.lessons = lessons(common_opening([*train, *held_out]) if len(train) > 1 else 0)
        self.train = self.lessons.long_enough(train, plan.steps_back)
        held_out = self.lessons.long_enough(held_out, positions)
        self.held_out = sorted(held_out, key=lambda one: (one.group, len(one)))[:MOST_HELD_OUT]
        if not self.train or not self.held_out:
            raise DraftlightError("There is too little text to train on: all records are shorter than a few tokens.")
        self.optimiser = optim.AdamW(plan.learning_rate, list(BETAS), weight_decay=WEIGHT_DECAY, bias_correction=True)
        self.optimiser.init(model.trainable_parameters())
        self._value_and_gradient = nn.value_and_grad(model, self._loss)

    def _inputs(self, batch: Sequence[Example]) -> tuple[Any, ...]:
        """The arguments of `_loss` for a batch."""
        raise NotImplementedError

    def _loss(self, *inputs: Any) -> mx.array:
        """() of a batch."""
        raise NotImplementedError

    def _teacher_forced(self, batch: Sequence[Example]) -> Iterator[Drafted]:
        """What the drafter says at every draft position of a batch's answers."""
        raise NotImplementedError

    def _multiply(self, factor: float) -> None:
        """Multiplies the drafter's logits for good."""
        raise NotImplementedError

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
        loss, gradients = self._value_and_gradient(*self._inputs(batch))
        gradients, _ = optim.clip_grad_norm(gradients, LARGEST_GRADIENT)
        self.optimiser.learning_rate = mx.array(self._rate())
        self.optimiser.update(self.model, gradients)
        mx.eval(self.model.parameters(), self.optimiser.state, loss)
        return float(loss.item())

    def _rate(self) -> float:
        steps = self.plan.steps
        warm_up = WARM_UP if steps is None else max(1, min(WARM_UP, steps // 10))
        rising = min(1.0, (self.progress.step + 1) / warm_up)
        return self.plan.learning_rate * rising * max(LOWEST, 1 - self.fraction)

    # Measuring

    def sharpen(self, tick: Callable[[], None] = lambda: None) -> float:
        """Multiplies the logits by what makes the held-out overlap largest; returns the factor.

        A drafter that is unsure spreads over many tokens what the target gives to one of them. The sum of min(p, q) is largest
        for a q that is bolder than the best guess of p.
        """
        best = max(SHARPER, key=lambda factor: self.measure(tick, factor).overlapping)
        self._multiply(best)
        return best

    def measure(self, tick: Callable[[], None] = lambda: None, sharper: float = 1.0) -> HeldOut:
        """On the answers of held-out text, teacher-forced, each draft position by itself.

        Args:
            tick: called before every batch; may raise to break off.
            sharper: what the drafter's logits are multiplied with.
        """
        agreed, overlap, count = (np.zeros(self._positions) for _ in range(3))
        for batch in groups(sorted(self.held_out, key=len), self.plan.batch_tokens):
            tick()
            for position, logits, ids, logs in self._teacher_forced(batch):
                if not len(logits):
                    continue
                likeliest = np.take_along_axis(ids, logs.argmax(axis=-1)[:, None], axis=-1)[:, 0]
                columns = self.lessons.column[ids]
                chances = softmax(logits * (sharper * SHARPNESS))
                drafted = np.take_along_axis(chances, np.maximum(columns, 0), axis=-1) * (columns >= 0)
                agreed[position] += (self.ids[logits.argmax(axis=-1)] == likeliest).sum()
                overlap[position] += np.minimum(softmax(logs * SHARPNESS), drafted).sum()
                count[position] += len(logits)
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
        state = {"head": self.model.trainable_parameters(), "optimiser": self.optimiser.state}
        _write(file, dict(tree_flatten(state)), asdict(self.progress))

    def resume(self, file: Path) -> None:
        """Go on from where `save` was called. Raises DraftlightError if the file is damaged."""
        try:
            arrays, described = cast(tuple[dict[str, mx.array], dict[str, str]], mx.load(str(file), return_metadata=True))
            state = cast(dict[str, Any], tree_unflatten(list(arrays.items())))
            self.model.update(state["head"])
            self.optimiser.state = state["optimiser"]
            kept = json.loads(described["progress"])
            mx.eval(self.model.parameters(), self.optimiser.state)
        except (RuntimeError, ValueError, KeyError) as error:
            raise DraftlightError(
                f"The checkpoint {file} is damaged ({error}). Remove it to start the training again."
            ) from error
        measured = tuple(held_out(one) for one in kept["measured"])
        best = None if kept["best"] is None else held_out(kept["best"])
        self.progress = TrainingProgress(**{**kept, "measured": measured, "best": best})

    def save_weights(self, file: Path) -> None:
        """Write the weights alone."""
        _write(file, dict(tree_flatten(self.model.parameters())), {})

    def load_weights(self, file: Path) -> None:
        """Take weights that `save_weights` wrote."""
        self.model.load_weights(str(file))
        mx.eval(self.model.parameters())


def held_out(described: dict[str, Any]) -> HeldOut:
    """From what `dataclasses.asdict` made of it."""
    return HeldOut(described["step"], tuple(described["agreement"]), tuple(described["overlap"]), described["positions"])


def _write(file: Path, arrays: dict[str, mx.array], progress: dict[str, Any]) -> None:
    write_whole(file, lambda opened: mx.save_safetensors(opened, arrays, {"progress": json.dumps(progress)}))
