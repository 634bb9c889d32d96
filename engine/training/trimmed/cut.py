"""A small draft model cut from the target: a few of its layers, its embedding, and a head for its most frequent tokens.

Trained on text the target wrote for itself: on the sampled tokens, and if wanted further on the target's own distributions
(`engine.training.trimmed.teacher`), with the total variation in the loss because `rejection` accepts one minus it (distillation
on the model's own text: Zhou et al., DistillSpec, 2024). Soft labels of only a few hundred answers did harm: label many.

    python -m engine.training.trimmed.cut --data TEXT --output FIRST --steps 1100
    python -m engine.training.trimmed.teacher --data TEXT --output LABELS
    python -m engine.training.trimmed.cut --data TEXT --labels LABELS --start FIRST --output FINAL --steps 300

The same command goes on from its last checkpoint if it was interrupted. What is written is described in
`engine.models.trimmed_draft`.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, cast

import mlx.core as mx
import mlx.nn as nn
import mlx.optimizers as optim
import numpy as np
from mlx.utils import tree_flatten, tree_unflatten
from mlx_lm.models.llama import Model

from engine.errors import DraftlightError
from engine.files.whole_file import write_whole
from engine.models.model_folder import write_drafter
from engine.models.trimmed_draft import MODEL_TYPE, CutModel, load_cut
from engine.training import selfplay
from engine.training.trimmed import teacher

CONFIG_FIELDS = (
    "hidden_size",
    "intermediate_size",
    "num_attention_heads",
    "num_key_value_heads",
    "rope_theta",
    "rms_norm_eps",
    "vocab_size",
    "max_position_embeddings",
)
CHECKPOINT = "checkpoint.safetensors"


@dataclass(frozen=True)
class TrainingSettings:
    """What decides the weights, besides the text, the target, the labels and the start.

    Attributes:
        layers: which layers of the target are cut out.
        vocabulary: tokens of the trimmed head.
        batch_tokens: padded tokens of a step.
        learning_rate: the highest, reached after `warm_up` steps; it then falls to a twentieth along a cosine.
        variation: weight of the total variation beside the cross-entropy with soft labels.
        seed: of the order of the text and of what is held out.
        held_out: records never trained on.
    """

    steps: int
    layers: tuple[int, ...] = (0, 1)
    vocabulary: int = 4992
    batch_tokens: int = 2048
    learning_rate: float = 1.2e-3
    warm_up: int = 50
    weight_decay: float = 0.01
    variation: float = 0.0
    seed: int = 0
    held_out: int = 160


def cut(target: Model, layers: Sequence[int], target_ids: np.ndarray) -> CutModel:
    """The untrained draft model: these layers of the target, its norm, and its head's rows of `target_ids` (vocabulary,)."""
    args = target.args
    draft = CutModel({**vars(args), "num_hidden_layers": len(layers), "layer_types": None}, len(target_ids))
    for layer, number in zip(draft.layers, layers, strict=True):
        layer.update(target.layers[number].parameters())
    draft.model.norm.update(target.model.norm.parameters())
    head = target.model.embed_tokens if args.tie_word_embeddings else target.lm_head
    draft.head.weight = head.weight[mx.array(target_ids)]
    return _share_embedding(draft, target)


def _share_embedding(draft: CutModel, target: Model) -> CutModel:
    draft.model.embed_tokens = target.model.embed_tokens
    draft.model.embed_tokens.freeze()
    return draft


def sampled_loss(logits: mx.array, columns: mx.array) -> mx.array:
    """Mean cross-entropy of logits (positions, vocabulary) with sampled `columns` (positions,); -1 is outside the head."""
    inside = columns >= 0
    losses = nn.losses.cross_entropy(logits, mx.maximum(columns, 0))
    return (losses * inside).sum() / mx.maximum(inside.sum(), 1)


def compare(logits: mx.array, columns: mx.array, probabilities: mx.array) -> tuple[mx.array, mx.array]:
    """Of the draft's logits (positions, vocabulary) with soft labels (positions, labels), at the labels' temperature.

    Returns:
        The cross-entropy and sum min(p, q) over the labels, (positions,) each. Columns of -1 must have probability 0.
    """
    logits = logits * (1.0 / teacher.TEMPERATURE)
    logs = mx.take_along_axis(logits, mx.maximum(columns, 0), axis=-1) - mx.logsumexp(logits, axis=-1, keepdims=True)
    return -(probabilities * logs).sum(axis=-1), mx.minimum(probabilities, mx.exp(logs)).sum(axis=-1)


class Training:
    """One run: the draft model, its optimiser and how far it is.

    Args:
        target_ids: (vocabulary,) int32, the head's.
        labels: soft labels by index of `records`; None learns from the sampled tokens.
    """

    def __init__(
        self,
        settings: TrainingSettings,
        draft: CutModel,
        target_ids: np.ndarray,
        records: Sequence[selfplay.Record],
        labels: Mapping[int, teacher.Labels] | None = None,
    ) -> None:
        self.settings, self.draft, self.records, self.labels = settings, draft, records, labels
        self.step = 0
        self.column = np.full(draft.args.vocab_size, -1, np.int32)
        self.column[target_ids] = np.arange(len(target_ids))
        highest = settings.learning_rate
        fall = optim.cosine_decay(highest, max(1, settings.steps - settings.warm_up), highest / 20)
        schedule = optim.join_schedules([optim.linear_schedule(0.0, highest, settings.warm_up), fall], [settings.warm_up])
        self.optimiser = optim.AdamW(schedule, weight_decay=settings.weight_decay)
        self.optimiser.init(draft.trainable_parameters())

    def run(self, until: int) -> Iterator[float]:
        """Train up to step `until`, yielding each step's loss."""
        loss_and_gradient = nn.value_and_grad(self.draft, self._loss)
        for batch in self._remaining(until):
            loss, gradients = loss_and_gradient(batch)
            gradients, _ = optim.clip_grad_norm(gradients, 1.0)
            self.optimiser.update(self.draft, gradients)
            mx.eval(self.draft.parameters(), self.optimiser.state, loss)
            self.step += 1
            yield loss.item()

    def _remaining(self, until: int) -> Iterator[selfplay.RecordBatch]:
        """Batches from the current step on. They depend on seed and step alone, so an interruption changes nothing."""
        first = epoch = 0
        while first < until:
            batches = selfplay.batches(self.records, self.settings.batch_tokens, seed=self.settings.seed + epoch)
            yield from batches[max(0, self.step - first) : until - first]
            first, epoch = first + len(batches), epoch + 1

    def logits(self, batch: selfplay.RecordBatch) -> mx.array:
        """(positions, vocabulary) at the labelled positions."""
        hidden = self.draft.model(mx.array(batch.inputs))
        return self.draft.head(hidden.reshape(-1, hidden.shape[-1])[mx.array(batch.labelled)])

    def soft(self, batch: selfplay.RecordBatch, labels: Mapping[int, teacher.Labels]) -> tuple[mx.array, mx.array]:
        """Columns and probabilities (positions, labels); what the head lacks has column -1 and probability 0."""
        columns = self.column[np.concatenate([labels[index].ids for index in batch.records])]
        logs = np.concatenate([labels[index].logs for index in batch.records]).astype(np.float32)
        return mx.array(columns), mx.array(np.where(columns >= 0, np.exp(logs), np.float32(0)))

    def _loss(self, batch: selfplay.RecordBatch) -> mx.array:
        logits = self.logits(batch)
        if self.labels is None:
            return sampled_loss(logits, mx.array(self.column[batch.answers]))
        cross_entropy, accepted = compare(logits, *self.soft(batch, self.labels))
        return (cross_entropy + self.settings.variation * (1 - accepted)).mean()

    def save(self, file: Path, origin: str) -> None:
        """Write a checkpoint; `origin` says what the state came from and must be given again to resume."""
        state = {"draft": self.draft.trainable_parameters(), "optimiser": self.optimiser.state}
        arrays, described = dict(tree_flatten(state)), {"step": str(self.step), "origin": origin}
        write_whole(file, lambda opened: mx.save_safetensors(opened, arrays, described))

    def resume(self, file: Path, origin: str) -> None:
        """Go on from a checkpoint. Raises DraftlightError if it belongs to a training of other origin."""
        arrays, described = cast(tuple[dict[str, mx.array], dict[str, str]], mx.load(str(file), return_metadata=True))
        if described.get("origin") != origin:
            raise DraftlightError(f"{file} belongs to a training run with other settings. Remove it or choose another output.")
        state = cast(dict[str, Any], tree_unflatten(list(arrays.items())))
        self.draft.update(state["draft"])
        self.optimiser.state = state["optimiser"]
        self.step = int(described["step"])


@dataclass(frozen=True)
class Measured:
    """On held-out text. `accepted`: mean sum min(p, q) at the labels' temperature; `agreed`: equal likeliest tokens."""

    positions: int
    accepted: float
    agreed: float


def measure(training: Training, records: Sequence[selfplay.Record], labels: Mapping[int, teacher.Labels]) -> Measured:
    """How well the draft model meets the target on labelled text, position by position."""
    accepted, agreed, positions = 0.0, 0, 0
    renamed = dict(enumerate(labels.values()))
    for batch in selfplay.batches([records[index] for index in labels], 4096):
        logits = training.logits(batch)
        columns, probabilities = training.soft(batch, renamed)
        accepted += cast(float, compare(logits, columns, probabilities)[1].sum().item())
        likeliest = np.concatenate([renamed[index].logs for index in batch.records]).argmax(axis=-1)
        same = mx.take_along_axis(columns, mx.array(likeliest[:, None]), axis=-1)[:, 0] == mx.argmax(logits, axis=-1)
        agreed += cast(int, same.sum().item())
        positions += len(batch.labelled)
    return Measured(positions, accepted / positions, agreed / positions)


def write(draft: CutModel, target_ids: np.ndarray, target_sha256: str, folder: Path) -> None:
    """Write the folder that `engine.models.loading` loads: config.json and float16 weights, without the embedding."""
    config = {"model_type": MODEL_TYPE, **{name: getattr(draft.args, name) for name in CONFIG_FIELDS}}
    config |= {"num_hidden_layers": len(draft.layers), "target_sha256": target_sha256}
    weights = dict(tree_flatten(draft.trainable_parameters()))
    arrays = {name.removeprefix("model."): value.astype(mx.float16) for name, value in weights.items()}
    arrays["target_ids"] = mx.array(target_ids.astype(np.int32))
    write_drafter(folder, arrays, config)


def parser() -> argparse.ArgumentParser:
    """The command line; settings have the names and defaults of `TrainingSettings`."""
    description, _, _ = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser(prog="python -m engine.training.trimmed.cut", description=description)
    parser.add_argument("--data", type=Path, required=True, help="self-play text: an .npz file or a folder of them")
    parser.add_argument("--output", type=Path, required=True, help="folder for the draft model and its checkpoint")
    parser.add_argument("--target", default="builtin", help="the target: builtin, a model folder or a .gguf file")
    parser.add_argument("--labels", type=Path, help="soft labels of this text, from engine.training.trimmed.teacher")
    parser.add_argument("--start", type=Path, help="an earlier draft model to continue from, instead of the target's layers")
    parser.add_argument(
        "--until", type=int, help="stop at this step and write the model as it is, instead of training to --steps"
    )
    parser.add_argument("--checkpoint-every", type=int, default=50, help="steps between checkpoints")
    for setting in fields(TrainingSettings):
        name = "--" + setting.name.replace("_", "-")
        if setting.name == "layers":
            parser.add_argument(name, type=lambda text: tuple(map(int, text.split(","))), default=setting.default)
        elif setting.name == "steps":
            parser.add_argument(name, type=int, required=True)
        else:
            parser.add_argument(name, type=type(setting.default), default=setting.default)
    return parser


def _start(folder: Path, target: Model) -> tuple[CutModel, np.ndarray]:
    """An earlier draft model of the same target, and its target ids."""
    draft, target_ids = load_cut(folder, json.loads((folder / "config.json").read_text()), target.model.embed_tokens)
    draft.set_dtype(mx.float32)
    return _share_embedding(draft, target), np.array(target_ids)


def _train(training: Training, last: int, checkpoint: Path, every: int, origin: str) -> None:
    """Train to step `last` from the checkpoint, if there is one, with a line of progress now and then."""
    if checkpoint.exists():
        training.resume(checkpoint, origin)
        print(f"resumed at step {training.step}")
    began, losses = time.perf_counter(), []
    for loss in training.run(last):
        losses.append(loss)
        if training.step % 10 == 0:
            left = (time.perf_counter() - began) / len(losses) * (last - training.step) / 60
            print(f"step {training.step}/{last}, loss {np.mean(losses[-20:]):.3f}, {left:.0f} min left", flush=True)
        if training.step % every == 0 or training.step == last:
            training.save(checkpoint, origin)


def main() -> None:
    """The command: trains to the last step, or to `--until`, and writes the draft model. With labels it prints a measurement."""
    options = parser().parse_args()
    settings = TrainingSettings(**{setting.name: getattr(options, setting.name) for setting in fields(TrainingSettings)})
    loaded = teacher.load_target(options.target)
    records, held_out = selfplay.split(selfplay.read(options.data), settings.held_out, settings.seed)
    if options.start:
        draft, target_ids = _start(options.start, loaded.model)
    else:
        target_ids = np.sort(selfplay.frequent_tokens(records, settings.vocabulary))
        draft = cut(loaded.model, settings.layers, target_ids)
    labels = None
    if options.labels:
        by_record = teacher.read(options.labels / "train", records)
        records, labels = [records[index] for index in by_record], dict(enumerate(by_record.values()))
    training = Training(settings, draft, target_ids, records, labels)
    origin = json.dumps([asdict(settings), loaded.sha256, str(options.start), len(records), labels is not None])
    options.output.mkdir(parents=True, exist_ok=True)
    last = min(options.until or settings.steps, settings.steps)
    _train(training, last, options.output / CHECKPOINT, options.checkpoint_every, origin)
    write(draft, target_ids, loaded.sha256, options.output)
    if options.labels:
        print(measure(training, held_out, teacher.read(options.labels / "held_out", held_out)))


if __name__ == "__main__":
    main()
