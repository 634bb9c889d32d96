"""Text that a target wrote for itself: the records of a training, its held-out part and its batches.

The file format (``.npz``): ``tokens`` (all records in a row, whole numbers), ``offsets`` (record i is
``tokens[offsets[i]:offsets[i + 1]]``) and ``prompt_lengths`` (the first so many tokens of a record are the prompt, chat
template included; the rest is the answer).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from engine.errors import DraftlightError
from engine.training.array_files import UNREADABLE, WHOLE, vectors
from engine.wording import amount

SORT_WINDOW = 64
"""Batches per group of records sorted by length: little padding, and batches still differ from epoch to epoch."""
_KINDS = {"tokens": WHOLE, "offsets": WHOLE, "prompt_lengths": WHOLE}


@dataclass(frozen=True)
class Record:
    """One prompt and answer: `tokens` (length,) int32; the answer starts at `prompt_length`, which is at least 1."""

    tokens: np.ndarray
    prompt_length: int

    @property
    def answer(self) -> np.ndarray:
        """(answer tokens,) int32: what follows the prompt."""
        return self.tokens[self.prompt_length :]


@dataclass(frozen=True)
class RecordBatch:
    """Records of similar length side by side.

    Attributes:
        records: which records, as indices of the list the batch was made from.
        inputs: (records, length) int32, padded at the end with token 0.
        labelled: (positions,) int32 indices of the flattened inputs that predict an answer token, record by record.
        answers: (positions,) int32, the tokens they predict.
    """

    records: tuple[int, ...]
    inputs: np.ndarray
    labelled: np.ndarray
    answers: np.ndarray


def read(source: Path, max_length: int | None = None) -> list[Record]:
    """Records of one ``.npz`` file, or of every one in a folder in the order of their names.

    Args:
        max_length: records are cut to this many tokens; those without an answer then are left out.

    Raises:
        DraftlightError: nothing is there, or a file does not have the format above.
    """
    files = sorted(source.glob("*.npz")) if source.is_dir() else [source]
    if not files or not files[0].is_file():
        raise DraftlightError(f"There is no training text (.npz) in {source}.")
    return [record for file in files for record in _read_file(file, max_length)]


def _read_file(file: Path, max_length: int | None) -> Iterator[Record]:
    try:
        tokens, offsets, prompt_lengths = vectors(file, _KINDS)
        if len(offsets) != len(prompt_lengths) + 1 or offsets.min() < 0 or offsets.max() > len(tokens):
            raise ValueError("its offsets do not match its tokens")
    except UNREADABLE as error:
        raise DraftlightError(
            f"{file} is not a file of training text, or it is damaged ({error}). Remove it, or give other text, and run "
            "the command again."
        ) from error
    for start, end, prompt_length in zip(offsets[:-1], offsets[1:], prompt_lengths, strict=True):
        record = Record(tokens[start:end][:max_length].astype(np.int32), int(prompt_length))
        if 1 <= record.prompt_length < len(record.tokens):
            yield record


def split(records: Sequence[Record], held_out: int, seed: int) -> tuple[list[Record], list[Record]]:
    """Training records in a shuffled order, and `held_out` others that are never trained on."""
    order = np.random.default_rng(seed).permutation(len(records))
    if held_out >= len(records):
        raise DraftlightError(f"Of {amount(len(records), 'record')}, {held_out} cannot be held out.")
    return [records[i] for i in order[held_out:]], [records[i] for i in order[:held_out]]


def frequent_tokens(records: Sequence[Record], size: int) -> np.ndarray:
    """(size,) int32: the most frequent answer tokens, most frequent first, ties to the lowest id.

    Unseen tokens follow in the order of their ids when fewer than `size` were seen.
    """
    counts = np.bincount(np.concatenate([record.answer for record in records]), minlength=size)
    return np.argsort(-counts, kind="stable")[:size].astype(np.int32)


def batches(records: Sequence[Record], batch_tokens: int, seed: int | None = None) -> list[RecordBatch]:
    """Every record once, in batches of at most `batch_tokens` padded tokens (or one record).

    Args:
        seed: shuffles records and batches; None keeps their order, which evaluation and labelling want.
    """
    generator = None if seed is None else np.random.default_rng(seed)
    order = np.arange(len(records)) if generator is None else generator.permutation(len(records))
    groups: list[list[int]] = []
    window = max(1, SORT_WINDOW * batch_tokens // 256)
    for start in range(0, len(order), window):
        longest_last = sorted(order[start : start + window].tolist(), key=lambda index: len(records[index].tokens))
        group: list[int] = []
        for index in longest_last:
            if group and (len(group) + 1) * (len(records[index].tokens) - 1) > batch_tokens:
                groups.append(group)
                group = []
            group.append(index)
        groups.append(group)
    if generator is not None:
        generator.shuffle(groups)
    return [_batch(records, group) for group in groups]


def _batch(records: Sequence[Record], group: Sequence[int]) -> RecordBatch:
    length = max(len(records[index].tokens) for index in group) - 1
    inputs = np.zeros((len(group), length), np.int32)
    labelled = []
    for row, index in enumerate(group):
        record = records[index]
        last = len(record.tokens) - 1
        inputs[row, :last] = record.tokens[:-1]
        labelled.append(np.arange(record.prompt_length - 1, last, dtype=np.int32) + row * length)
    answers = np.concatenate([records[index].answer for index in group])
    return RecordBatch(tuple(group), inputs, np.concatenate(labelled), answers)
