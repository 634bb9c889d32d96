"""Stage 3 of a training: steps, measurements on held-out text and checkpoints, for heads and block drafters.

`Plan` contains everything that a training depends on. If `steps` is given, an interrupted training ends with the same weights,
bit by bit, as an uninterrupted one.

At run time a head drafts in a chain: its first step reads the target's feature at position t, and each further step reads the
feature that the previous step put out. Training unrolls these chains from every position of a text at once. Step s of the chain
from position t attends to the first steps' keys up to t, which are made from the target's features, and to the keys of its own
chain. `engine.drafters.feature_head` has the same keys in its cache (a test compares both).
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, cast

import mlx.core as mx
import mlx.nn as nn
import mlx.optimizers as optim
import numpy as np
from mlx.utils import tree_flatten, tree_unflatten

from engine.files.whole_file import write_whole
from engine.models.block_config import BlockConfig
from engine.models.block_model import BlockModel
from engine.models.block_unroll import unroll_blocks
from engine.models.head_model import HeadConfig, HeadModel
from engine.tools.training import features
from engine.tools.training.features import Example
from engine.tools.training.lessons import SHARPNESS, Lessons, Targets, common_opening, groups, shuffled, softmax
from engine.values.errors import DraftlightError
from engine.values.requests.train import HeldOut

_MASKED = -1e9


def unroll(head: HeadModel, fused: mx.array, embedded: mx.array, steps: int) -> list[mx.array]:
    """Returns the head's features after each step of all chains.

    Args:
        fused: (batch, rows, hidden), `head.fuse` of the target's features at positions 0 to rows - 1.
        embedded: (batch, at least rows + steps - 1, hidden) embeddings of the tokens from position 1 on.

    Returns:
        For each step s (batch, rows, hidden). Row t is the chain from position t; its logits predict the token at t + 2 + s.
    """
    batch, rows, _ = fused.shape
    config = head.config
    kv_heads, size = config.num_key_value_heads, config.head_size
    mask = mx.triu(mx.full((rows, rows), _MASKED), k=1)
    feature = fused
    first: tuple[mx.array, mx.array] | None = None
    step_keys: list[tuple[mx.array, mx.array]] = []
    features = []
    for step in range(steps):
        queries, keys, values = head.project(feature, embedded[:, step : step + rows], step)
        queries = queries.reshape(batch, kv_heads, -1, rows, size) * size**-0.5
        keys, values = keys[:, :, None], values[:, :, None]
        if first is None:
            first = keys, values
            attended = mx.softmax(queries @ keys.swapaxes(-1, -2) + mask, axis=-1) @ values
        else:
            step_keys.append((keys, values))
            attended = _attend(queries, first, step_keys, mask)
        feature = head.layer_output(feature, attended.reshape(batch, -1, rows, size))
        features.append(feature)
    return features


def _attend(
    queries: mx.array, first: tuple[mx.array, mx.array], own: list[tuple[mx.array, mx.array]], mask: mx.array
) -> mx.array:
    """Returns the attention to the first steps of all positions so far and to one key of each later step. The softmax is
    computed in parts, which avoids the (rows, steps x rows) scores."""
    scores = queries @ first[0].swapaxes(-1, -2) + mask
    single = [(queries * keys).sum(axis=-1, keepdims=True) for keys, _ in own]
    highest = scores.max(axis=-1, keepdims=True)
    for score in single:
        highest = mx.maximum(highest, score)
    highest = mx.stop_gradient(highest)
    weights = mx.exp(scores - highest)
    total, attended = weights.sum(axis=-1, keepdims=True), weights @ first[1]
    for score, (_, values) in zip(single, own, strict=True):
        weight = mx.exp(score - highest)
        total, attended = total + weight, attended + weight * values
    return attended / total


def soft_loss(
    hidden: mx.array,
    head: mx.array,
    columns: mx.array,
    labels: mx.array,
    weights: mx.array,
    sharpness: float,
    variation: float,
    base: tuple[mx.array, mx.array] | None = None,
) -> mx.array:
    """Returns the weighted cross-entropy with soft labels, plus their total variation: rule `rejection` accepts 1 minus that.

    The gradient is written by hand: it needs one exponential over the vocabulary, where automatic differentiation needs two. On
    the CPU that saves a quarter (0.27 instead of 0.35 seconds for 1,024 positions and 8,192 columns).

    Args:
        hidden: (positions, hidden) normalised features. head: (vocabulary, hidden).
        columns: (positions, labels) int32 columns of the labels, -1 outside the head.
        labels: (positions, labels) probabilities at temperature 1 / sharpness, 0 where the column is -1.
        weights: (positions,). sharpness: factor of the logits. variation: weight of the total variation.
        base: features (positions, width) and rows (vocabulary, width) of logits to which those of `hidden` and `head` are
            added. The rows are constant: only the features have a gradient.
    """
    features, rows_given = base if base is not None else (mx.zeros((hidden.shape[0], 0)), mx.zeros((head.shape[0], 0)))

    @mx.custom_function
    def loss(
        hidden: mx.array, head: mx.array, features: mx.array, columns: mx.array, labels: mx.array, weights: mx.array
    ) -> tuple[mx.array, mx.array, mx.array, mx.array]:
        """Returns the loss () and its gradients by `hidden`, `head` and `features`, which `backwards` passes on."""
        logits = hidden @ head.T
        if base is not None:
            logits = logits + features @ rows_given.T
        logits = logits * sharpness
        highest = logits.max(axis=-1, keepdims=True)
        powers = mx.exp(logits - highest)
        total = powers.sum(axis=-1, keepdims=True)
        inside = columns >= 0
        places = mx.maximum(columns, 0)
        logs = mx.take_along_axis(logits, places, axis=-1) - highest - mx.log(total)
        drafted = mx.exp(logs) * inside
        mass = labels.sum(axis=-1, keepdims=True)
        cross_entropy = -(labels * logs).sum(axis=-1)
        overlap = mx.minimum(labels, drafted).sum(axis=-1)
        value = ((cross_entropy + variation * (mass[:, 0] - overlap)) * weights).sum()

        below = drafted * (drafted < labels)  # more probability here would be accepted more often
        pull = labels + variation * below
        gradient = powers * (weights[:, None] * (mass + variation * below.sum(axis=-1, keepdims=True)) / total)
        # Columns that count differ within a row; those outside the head all add 0 to column 0.
        rows = mx.broadcast_to(mx.arange(hidden.shape[0])[:, None], places.shape)
        gradient = gradient.at[rows, places].add(-weights[:, None] * pull * inside) * sharpness
        by_features = mx.zeros_like(features) if base is None else gradient @ rows_given
        return value, gradient @ head, gradient.T @ hidden, by_features

    @loss.vjp
    def backwards(
        primals: tuple[mx.array, ...], cotangents: tuple[mx.array, ...], outputs: tuple[mx.array, ...]
    ) -> tuple[mx.array, ...]:
        """Returns the gradients computed in the forward pass, scaled; only `hidden`, `head` and `features` have one."""
        constants = (mx.zeros_like(primal) for primal in primals[3:])
        return *(cotangents[0] * gradient for gradient in outputs[1:]), *constants

    return cast(tuple[mx.array, ...], loss(hidden, head, features, columns, labels, weights))[0]


MAX_HELD_OUT = 80
COUNTED_FROM = 0.5
"""Share of the training before which measurements do not count towards patience: the learning rate is still too high."""
BETAS, WEIGHT_DECAY, MAX_GRADIENT_NORM = (0.9, 0.98), 0.01, 1.0
SHARPENING_FACTORS = (1.0, 1.1, 1.2, 1.35, 1.5)
"""Factors tried for the logits of a trained drafter."""
WARM_UP, MIN_RATE_SHARE = 40, 0.02
"""Warm-up steps to the highest learning rate, and the fraction of it that remains at the end."""


Drafted = tuple[int, np.ndarray, np.ndarray, np.ndarray]
"""Draft position, the drafter's logits (rows, columns) there, and the labels' ids and logs (rows, LABELS)."""


@dataclass(frozen=True)
class Plan:
    """Everything that determines the weights, except text, target and initial weights. Names as in `TrainRequest`. For a block
    drafter `steps_back` is its block size, and `anchors` the number of blocks per record; for a head it is 0."""

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
    """Progress of a training; all of it is in the checkpoint.

    Attributes:
        seconds: training time, without measurements.
        since_best: number of measurements since the best one, as far as they count.
        measured: all measurements so far.
        peak_bytes: peak memory that MLX held, target included.
    """

    step: int = 0
    seconds: float = 0.0
    loss: float = 0.0
    best: HeldOut | None = None
    since_best: int = 0
    measured: tuple[HeldOut, ...] = ()
    peak_bytes: int = 0


class DrafterTraining:
    """A training in progress; the subclasses `HeadTraining` and `BlockTraining` define what is learned.

    Args:
        model: float32; trained in place. embedding: the target's, ids to vectors.
        train, held_out: see `split`. positions: number of draft positions that are measured.

    Attributes:
        ids: (columns,) target ids of the model's logits.
    """

    def __init__(
        self,
        plan: Plan,
        model: HeadModel | BlockModel,
        embedding: Any,
        train: Sequence[Example],
        held_out: Sequence[Example],
        positions: int,
    ) -> None:
        self.plan, self.model, self.progress = plan, model, TrainingProgress()
        self.ids, self._positions = np.array(model.target_ids), positions
        opening = common_opening([*train, *held_out]) if len(train) > 1 else 0
        self.lessons = Lessons(model.config, self.ids, embedding, plan.copied, max(0, opening - 2))
        self.train = self.lessons.long_enough(train, plan.steps_back)
        held_out = self.lessons.long_enough(held_out, positions)
        self.held_out = sorted(held_out, key=lambda one: (one.group, len(one)))[:MAX_HELD_OUT]
        if not self.train or not self.held_out:
            raise DraftlightError("There is too little text to train on: all records are shorter than a few tokens.")
        self.optimiser = optim.AdamW(plan.learning_rate, list(BETAS), weight_decay=WEIGHT_DECAY, bias_correction=True)
        self.optimiser.init(model.trainable_parameters())
        self._value_and_gradient = nn.value_and_grad(model, self._loss)

    def _inputs(self, batch: Sequence[Example]) -> tuple[Any, ...]:
        """Returns the arguments of `_loss` for a batch."""
        raise NotImplementedError

    def _loss(self, *inputs: Any) -> mx.array:
        """Returns the loss () of a batch."""
        raise NotImplementedError

    def _teacher_forced(self, batch: Sequence[Example]) -> Iterator[Drafted]:
        """Yields the drafter's logits at every draft position of a batch's answers."""
        raise NotImplementedError

    def _scale_logits(self, factor: float) -> None:
        """Scales the drafter's logits permanently."""
        raise NotImplementedError

    # Training

    @property
    def fraction(self) -> float:
        """Fraction of the training that is done."""
        if self.plan.steps is not None:
            return self.progress.step / self.plan.steps
        assert self.plan.minutes is not None
        return self.progress.seconds / (60 * self.plan.minutes)

    def run(self) -> Iterator[float]:
        """Runs the remaining steps of the plan, and yields the loss of each.

        Raises:
            DraftlightError: the loss is not a number.
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
        """Yields batches without end; they depend only on seed and step."""
        first = epoch = 0
        while True:
            batches = shuffled(self.train, self.plan.batch_tokens, np.random.default_rng([self.plan.seed, epoch]))
            yield from batches[max(0, self.progress.step - first) :]
            first, epoch = first + len(batches), epoch + 1

    def _step(self, batch: Sequence[Example]) -> float:
        loss, gradients = self._value_and_gradient(*self._inputs(batch))
        gradients, _ = optim.clip_grad_norm(gradients, MAX_GRADIENT_NORM)
        self.optimiser.learning_rate = mx.array(self._rate())
        self.optimiser.update(self.model, gradients)
        mx.eval(self.model.parameters(), self.optimiser.state, loss)
        return float(loss.item())

    def _rate(self) -> float:
        steps = self.plan.steps
        warm_up = WARM_UP if steps is None else max(1, min(WARM_UP, steps // 10))
        rising = min(1.0, (self.progress.step + 1) / warm_up)
        return self.plan.learning_rate * rising * max(MIN_RATE_SHARE, 1 - self.fraction)

    # Measurements

    def sharpen(self, tick: Callable[[], None] = lambda: None) -> float:
        """Scales the logits by the factor with the largest held-out overlap; returns the factor.

        An uncertain drafter spreads over many tokens the probability that the target gives to one. The sum of min(p, q) is
        largest for a q that is sharper than the best estimate of p.
        """
        best = max(SHARPENING_FACTORS, key=lambda factor: self.measure(tick, factor).overlapping)
        self._scale_logits(best)
        return best

    def measure(self, tick: Callable[[], None] = lambda: None, logit_factor: float = 1.0) -> HeldOut:
        """Measures the drafter on the answers of held-out text, teacher-forced, each draft position separately.

        Args:
            tick: called before every batch; may raise to interrupt.
            logit_factor: factor of the drafter's logits.
        """
        agreed, overlap, count = (np.zeros(self._positions) for _ in range(3))
        for batch in groups(sorted(self.held_out, key=len), self.plan.batch_tokens):
            tick()
            for position, logits, ids, logs in self._teacher_forced(batch):
                if not len(logits):
                    continue
                likeliest = np.take_along_axis(ids, logs.argmax(axis=-1)[:, None], axis=-1)[:, 0]
                columns = self.lessons.column[ids]
                chances = softmax(logits * (logit_factor * SHARPNESS))
                drafted = np.take_along_axis(chances, np.maximum(columns, 0), axis=-1) * (columns >= 0)
                agreed[position] += (self.ids[logits.argmax(axis=-1)] == likeliest).sum()
                overlap[position] += np.minimum(softmax(logs * SHARPNESS), drafted).sum()
                count[position] += len(logits)
        shares = [tuple(round(float(value), 4) for value in sums / np.maximum(count, 1)) for sums in (agreed, overlap)]
        return HeldOut(self.progress.step, shares[0], shares[1], int(count[0]))

    def note(self, measured: HeldOut) -> bool:
        """Records a measurement; returns whether it is the best so far."""
        progress = self.progress
        progress.measured = (*progress.measured, measured)
        is_best = progress.best is None or measured.score > progress.best.score
        if is_best:
            progress.best, progress.since_best = measured, 0
        elif self.fraction > COUNTED_FROM:
            progress.since_best += 1
        return is_best

    # Checkpoints

    def save(self, file: Path) -> None:
        """Writes everything that is needed to resume."""
        self.progress.peak_bytes = max(self.progress.peak_bytes, mx.get_peak_memory())
        state = {"head": self.model.trainable_parameters(), "optimiser": self.optimiser.state}
        _write(file, dict(tree_flatten(state)), asdict(self.progress))

    def resume(self, file: Path) -> None:
        """Resumes from the state that `save` wrote. Raises DraftlightError if the file is damaged."""
        try:
            arrays, described = cast(tuple[dict[str, mx.array], dict[str, str]], mx.load(str(file), return_metadata=True))
            state = cast(dict[str, Any], tree_unflatten(list(arrays.items())))
            self.model.update(state["head"])
            self.optimiser.state = state["optimiser"]
            saved = json.loads(described["progress"])
            measured = tuple(held_out(each) for each in saved["measured"])
            best = None if saved["best"] is None else held_out(saved["best"])
            progress = TrainingProgress(**{**saved, "measured": measured, "best": best})
            mx.eval(self.model.parameters(), self.optimiser.state)
        except (RuntimeError, ValueError, KeyError, TypeError) as error:
            raise DraftlightError(
                f"The checkpoint {file} is damaged ({error}). Remove it to start the training again."
            ) from error
        self.progress = progress

    def save_weights(self, file: Path) -> None:
        """Writes only the weights."""
        _write(file, dict(tree_flatten(self.model.parameters())), {})

    def load_weights(self, file: Path) -> None:
        """Loads weights that `save_weights` wrote. Raises DraftlightError if the file is missing or damaged."""
        try:
            self.model.load_weights(str(file))
            mx.eval(self.model.parameters())
        except (RuntimeError, ValueError) as error:
            raise DraftlightError(
                f"The best weights, {file}, are missing or damaged ({error}). Remove the folder {file.parent} to start the "
                "training again."
            ) from error


def held_out(described: dict[str, Any]) -> HeldOut:
    """Returns the measurement that `dataclasses.asdict` converted."""
    return HeldOut(described["step"], tuple(described["agreement"]), tuple(described["overlap"]), described["positions"])


def _write(file: Path, arrays: dict[str, mx.array], progress: dict[str, Any]) -> None:
    write_whole(file, lambda opened: mx.save_safetensors(opened, arrays, {"progress": json.dumps(progress)}))


POSITIONS = 4
"""Number of draft positions that are measured."""


def head_memory(config: HeadConfig, columns: int, plan: Plan, longest: int, parameters: int) -> int:
    """Returns the approximate bytes that a training takes in addition to the target: weights, gradients, moments and their
    successors, and what a step stores for its gradient (logits of one chain step at a time). The longest record determines the
    attention's share."""
    tokens = max(plan.batch_tokens, longest)
    stored = 14 * config.hidden_size + 5 * config.intermediate_size + 2 * config.num_attention_heads * longest
    inputs = 2 * len(config.taps) * config.hidden_size
    return 4 * (6 * parameters + tokens * (plan.steps_back * stored + 4 * columns + inputs))


class HeadTraining(DrafterTraining):
    """Training of a head. Arguments as in `DrafterTraining`."""

    def __init__(
        self, plan: Plan, head: HeadModel, embedding: Any, train: Sequence[Example], held_out: Sequence[Example]
    ) -> None:
        self.head = head
        super().__init__(plan, head, embedding, train, held_out, POSITIONS)

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
        """Yields the logits at every second draft position of a batch, which halves the work."""
        inputs, embedded, labels = self.lessons.load(batch, POSITIONS)
        steps = unroll(self.head, self.head.fuse(inputs), embedded, POSITIONS)
        mx.eval(steps)
        for step, feature in enumerate(steps):
            wanted = self.lessons.wanted(batch, labels, inputs.shape[1], step, prompts=False)
            rows, _, ids, logs = (part[::2] for part in wanted)
            logits = self.head.logits(feature.reshape(-1, feature.shape[-1])[mx.array(rows)]) if len(rows) else mx.zeros((0, 1))
            yield step, np.array(logits), ids, logs

    def _scale_logits(self, factor: float) -> None:
        self.head.head.weight = self.head.head.weight * factor


LOSS_DECAY_SLOTS = 4.0
"""Slots over which a slot's weight falls by a factor e: a slot counts only if those before it were accepted (DeepSpec)."""
MEASURED_ANCHORS = 24
"""Anchors per held-out record that are measured."""

BlockInputs = tuple[mx.array, mx.array, mx.array]
"""Features (rows, taps x hidden) of a record, its anchors (blocks,), and its tokens up to the end of the last block."""


def block_memory(config: BlockConfig, columns: int, plan: Plan, longest: int, parameters: int) -> int:
    """Returns the approximate bytes that a training takes in addition to the target (see `head_memory`)."""
    slots = max(1, plan.batch_tokens // longest) * plan.anchors * plan.steps_back
    attention = 2 * config.num_attention_heads * (longest + plan.steps_back)
    stored = config.num_hidden_layers * (12 * config.hidden_size + 5 * config.intermediate_size + attention)
    inputs = max(plan.batch_tokens, longest) * (2 * len(config.taps) + 4) * config.hidden_size
    return 4 * (6 * parameters + slots * (stored + 4 * columns) + inputs)


class BlockTraining(DrafterTraining):
    """Training of a block drafter in Draftlight's own packaging, bound to its target. Arguments as in `DrafterTraining`."""

    def __init__(
        self, plan: Plan, model: BlockModel, embedding: Any, train: Sequence[Example], held_out: Sequence[Example]
    ) -> None:
        self.block, self._slots = model, plan.steps_back
        super().__init__(plan, model, embedding, train, held_out, min(self._slots, POSITIONS))

    def _inputs(self, batch: Sequence[Example]) -> tuple[Any, ...]:
        generator = np.random.default_rng([self.plan.seed, self.progress.step])
        block_inputs, parts = [], []
        offset = 0
        for example in batch:
            anchors = self._anchors(example)
            anchors = np.sort(generator.permutation(anchors)[: self.plan.anchors])
            read, ids, logs = features.load(example)
            block_inputs.append(self._block_inputs(example, read, anchors))
            block, slot = np.nonzero(anchors[:, None] + np.arange(self._slots) < len(example) - 1)
            positions = anchors[block] + slot
            weights = np.exp(-slot / LOSS_DECAY_SLOTS).astype(np.float32)
            if self.plan.copied < 1:
                weights[self.lessons.copies_in(example)[positions + 1]] *= self.plan.copied
            rows = offset + block * self._slots + slot
            parts.append((rows, weights, ids[positions].astype(np.int64), logs[positions].astype(np.float32)))
            offset += len(anchors) * self._slots
        rows, weights, all_ids, all_logs = (np.concatenate(part) for part in zip(*parts, strict=True))
        columns = self.lessons.column[all_ids]
        labels = np.where(columns >= 0, softmax(all_logs * SHARPNESS), np.float32(0))
        return block_inputs, *(mx.array(array) for array in (rows.astype(np.int32), columns, labels, weights / weights.sum()))

    def _anchors(self, example: Example) -> np.ndarray:
        """Returns every possible anchor position in a record's answer. The block of an anchor predicts the token after it
        first, a position earlier than the chain of a head."""
        return np.arange(max(self.lessons.first + 1, example.prompt_length - 1), len(example) - 1)

    def _block_inputs(self, example: Example, read: np.ndarray, anchors: np.ndarray) -> BlockInputs:
        before = mx.array(np.asarray(read[: anchors[-1]], np.float32))
        return before, mx.array(anchors.astype(np.int32)), mx.array(example.tokens[: anchors[-1] + self._slots])

    def _loss(
        self, block_inputs: Sequence[BlockInputs], rows: mx.array, columns: mx.array, labels: mx.array, weights: mx.array
    ) -> mx.array:
        pairs = [self._outputs(record_inputs) for record_inputs in block_inputs]
        hidden, read = (
            mx.concatenate([part.reshape(-1, part.shape[-1]) for part in parts])[rows] for parts in zip(*pairs, strict=True)
        )
        base = hidden * self.block.config.logit_scale, self.block.output_rows
        projected = self.block.markov_head.markov_w2.weight
        return soft_loss(read, projected, columns, labels, weights, SHARPNESS, self.plan.variation, base)

    def _outputs(self, block_inputs: BlockInputs) -> tuple[mx.array, mx.array]:
        """Returns the outputs (blocks, slots, hidden), and what the Markov head computes from the text's previous tokens
        (blocks, slots, rank)."""
        _, anchors, text = block_inputs
        hidden, state = unroll_blocks(self.block, *block_inputs, self._slots), None
        markov_features = []
        for slot in range(self._slots):
            if slot < self.block.first_markov_slot:
                markov_features.append(mx.zeros((len(anchors), self.block.markov_head.rank)))
                continue
            before = text[mx.minimum(anchors + slot, len(text) - 1)]
            one, state = self.block.markov_head.read(hidden[:, slot], before, state)
            markov_features.append(one)
        return hidden, mx.stack(markov_features, axis=1)

    def _teacher_forced(self, batch: Sequence[Example]) -> Iterator[Drafted]:
        for example in batch:
            all_anchors = self._anchors(example)
            anchors = all_anchors[:: max(1, len(all_anchors) // MEASURED_ANCHORS)]
            read, ids, logs = features.load(example)
            hidden, markov_features = self._outputs(self._block_inputs(example, read, anchors))
            for slot in range(self._positions):
                valid = np.flatnonzero(anchors + slot < len(example) - 1)
                positions = anchors[valid] + slot
                rows = mx.array(valid)
                bias = self.block.markov_head.markov_w2(markov_features[rows, slot])
                logits = np.array(self.block.logits(hidden[rows, slot]) + bias)
                yield slot, logits, ids[positions].astype(np.int64), logs[positions].astype(np.float32)

    def _scale_logits(self, factor: float) -> None:
        self.block.config = replace(self.block.config, logit_scale=self.block.config.logit_scale * factor)
        weight = self.block.markov_head.markov_w2.weight
        self.block.markov_head.markov_w2.weight = weight * factor
