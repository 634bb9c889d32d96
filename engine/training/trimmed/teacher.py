"""Soft labels: the target's distribution at every answer token of its self-play text, as far as it matters.

For each position the `LABELS` likeliest tokens are kept with their log-probabilities at one temperature. Learning a
distribution from its probabilities needs far less text than learning it from one sample of each.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import mlx.core as mx
import mlx.nn as nn
import mlx_lm.utils
import numpy as np

from engine.errors import DraftlightError
from engine.files.whole_file import write_whole
from engine.models import loading
from engine.training import selfplay
from engine.training.array_files import UNREADABLE, arrays_of

LABELS = 48
TEMPERATURE = 0.8
"""Of the labels: the app's default. A draft model that fits there fits well at others."""
CANDIDATES = 8192
"""Labels are chosen among so many of the most frequent tokens, so heads up to this size can use them."""
SHARD = 64
"""Records in a file of labels: what an interruption can lose."""


@dataclass(frozen=True)
class Labels:
    """Of one record: target ids (answer tokens, LABELS) uint32 in no order, and their log-probabilities float16."""

    ids: np.ndarray
    logs: np.ndarray


def label_batch(
    model: nn.Module, batch: selfplay.RecordBatch, candidates: mx.array, labels: int = LABELS
) -> tuple[np.ndarray, np.ndarray]:
    """Ids (positions, labels) and log-probabilities (positions, labels) of the likeliest among `candidates` (count,) ids.

    The probabilities are the target's over its whole vocabulary at `TEMPERATURE`; they need not sum to 1.
    """
    hidden = model.model(mx.array(batch.inputs))
    hidden = hidden.reshape(-1, hidden.shape[-1])[mx.array(batch.labelled)]
    tied = "lm_head" not in model
    logits = (model.model.embed_tokens.as_linear(hidden) if tied else model.lm_head(hidden)) * (1.0 / TEMPERATURE)
    normaliser = mx.logsumexp(logits, axis=-1, keepdims=True)
    logits = logits[:, candidates]
    best = mx.argpartition(logits, kth=-labels, axis=-1)[:, -labels:]
    logs = mx.take_along_axis(logits, best, axis=-1) - normaliser
    return np.array(candidates[best]).astype(np.uint32), np.array(logs.astype(mx.float16))


def label(model: nn.Module, records: Sequence[selfplay.Record], folder: Path, candidates: np.ndarray) -> None:
    """Write the labels of `records` to `folder`, one file for every `SHARD` records. Files already there are kept."""
    folder.mkdir(parents=True, exist_ok=True)
    started = time.perf_counter()
    done = 0
    for start in range(0, len(records), SHARD):
        file = folder / f"labels-{start:06d}.npz"
        if file.exists():
            continue
        shard = records[start : start + SHARD]
        kept: dict[int, tuple[np.ndarray, np.ndarray]] = {}
        for batch in selfplay.batches(shard, 4096):
            ids, logs = label_batch(model, batch, mx.array(candidates))
            ends = np.cumsum([len(shard[index].answer) for index in batch.records])[:-1]
            kept.update(zip(batch.records, zip(np.split(ids, ends), np.split(logs, ends), strict=True), strict=True))
            done += len(ids)
        columns = [np.concatenate([kept[index][column] for index in range(len(shard))]) for column in (0, 1)]
        answers = np.concatenate([record.answer for record in shard])
        write_whole(file, partial(np.savez, ids=columns[0], logs=columns[1], answers=answers))
        rate = done / (time.perf_counter() - started)
        print(f"labelled {start + len(shard)} of {len(records)} records, {rate:.0f} positions/s", flush=True)


def read(folder: Path, records: Sequence[selfplay.Record]) -> dict[int, Labels]:
    """Labels by index of `records`: of as many as have been labelled.

    Raises:
        DraftlightError: there are none, or they were made for other records.
    """
    found: dict[int, Labels] = {}
    for file in sorted(folder.glob("labels-??????.npz")):
        start = int(file.stem.split("-")[1])
        shard = records[start : start + SHARD]
        try:
            ids, logs, answers = arrays_of(file, ("ids", "logs", "answers"))
        except UNREADABLE as error:
            raise DraftlightError(f"{file} is damaged ({error}). Remove it and label the text again.") from error
        if not np.array_equal(answers, np.concatenate([record.answer for record in shard])):
            raise DraftlightError(f"{file} has labels for a different text than the one given.")
        ends = np.cumsum([len(record.answer) for record in shard])[:-1]
        for index, pair in enumerate(zip(np.split(ids, ends), np.split(logs, ends), strict=True)):
            found[start + index] = Labels(*pair)
    if not found:
        raise DraftlightError(f"There are no labels in {folder}. Create them with python -m engine.training.trimmed.teacher.")
    return found


def load_target(name: str) -> loading.LoadedModel:
    """A target with dense float32 weights, whatever the device."""
    loaded = loading.load(name)
    mlx_lm.utils.dequantize_model(loaded.model)
    loaded.model.set_dtype(mx.float32)
    return loaded


def main() -> None:
    """The command: labels the held-out records and then the others. Files that are there already are kept."""
    parser = argparse.ArgumentParser(
        prog="python -m engine.training.trimmed.teacher", description="Soft labels of self-play text."
    )
    parser.add_argument("--data", type=Path, required=True, help="self-play text: an .npz file or a folder of them")
    parser.add_argument("--output", type=Path, required=True, help="folder for the labels")
    parser.add_argument("--target", default="builtin", help="the target: builtin, a model folder or a .gguf file")
    parser.add_argument("--seed", type=int, default=0, help="same value as for engine.training.trimmed.cut")
    parser.add_argument("--held-out", type=int, default=160, help="same value as for engine.training.trimmed.cut")
    parser.add_argument("--records", type=int, help="label only this many of the shuffled records, rounded up to whole files")
    options = parser.parse_args()
    target = load_target(options.target).model
    records, held_out = selfplay.split(selfplay.read(options.data), options.held_out, options.seed)
    candidates = selfplay.frequent_tokens(records, CANDIDATES)
    label(target, held_out, options.output / "held_out", candidates)
    wanted = len(records) if options.records is None else -(-options.records // SHARD) * SHARD
    label(target, records[:wanted], options.output / "train", candidates)


if __name__ == "__main__":
    main()
