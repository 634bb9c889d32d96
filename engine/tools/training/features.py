"""Stage 2 of a training: reads the target's features and soft labels of the text once, and stores them on disk.

Reading them again in every epoch would save disk space but not time; `engine/tools/training/README.md` has the measurements.
Each file of text is split into parts of a few thousand tokens; the folder of a part contains

    features.npy  (tokens, taps x hidden) float16: the tapped layers' outputs
    ids.npy       (tokens, LABELS) uint16 or uint32: the most likely next tokens
    logs.npy      (tokens, LABELS) float16: their log-probabilities at temperature 1

in the order of the part's tokens. They are opened as memory maps, one batch at a time.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from engine.tools.training import texts
from engine.tools.training.reading import LABELS, Read, Reader
from engine.values.errors import DraftlightError

ROWS = 1536
"""Padded tokens per forward pass, unless one text is longer."""
PART = 4096
"""Tokens whose features are stored together: the most that an interruption can lose."""
_NAMES = ("features", "ids", "logs")
"""The arrays of a part: fields of `Read`, and names of files."""

Tick = Callable[[int], None]


@dataclass(frozen=True)
class Example:
    """One record with features: `tokens` (length,) int32 in memory, the rest on disk.

    Attributes:
        folder: contains its features. first: index of its first row there.
    """

    tokens: np.ndarray
    prompt_length: int
    group: int
    folder: Path
    first: int

    def __len__(self) -> int:
        return len(self.tokens)


def with_feature_files(text: Path, features: Path) -> Iterator[tuple[Path, list[texts.TextRecord]]]:
    """Yields the records of a file of text in parts of about `PART` tokens, with the folder of each part's features."""
    part: list[texts.TextRecord] = []
    number = tokens = 0
    for record in texts.load(text):
        if part and tokens + len(record.tokens) > PART:
            yield features / f"{text.stem}-{number:03}", part
            part, number, tokens = [], number + 1, 0
        part.append(record)
        tokens += len(record.tokens)
    yield features / f"{text.stem}-{number:03}", part


def bytes_per_token(taps: int, hidden: int, vocabulary: int) -> int:
    """Returns the size of stored features per token."""
    return 2 * taps * hidden + LABELS * (_id_type(vocabulary)().itemsize + 2)


def _id_type(vocabulary: int) -> type[np.uint16] | type[np.uint32]:
    return np.uint16 if vocabulary <= 1 << 16 else np.uint32


def cache(reader: Reader, files: Sequence[Path], features: Path, vocabulary: int, tick: Tick) -> None:
    """Reads and stores the features of every part that has none yet.

    Args:
        tick: called with the tokens done so far, earlier parts included; may raise to interrupt.
    """
    done = 0
    for file in files:
        for folder, records in with_feature_files(file, features):
            if not folder.exists():
                tick(done)  # the first pass may take a long time
                _write(_read(reader, records, tick, done), folder, vocabulary)
            done += sum(len(record.tokens) for record in records)
            tick(done)


def _read(reader: Reader, records: Sequence[texts.TextRecord], tick: Tick, done: int) -> list[Read]:
    """Returns the features in the order of the records; records of similar length are read together. `done`: tokens of earlier
    parts."""
    read: dict[int, Read] = {}
    order = sorted(range(len(records)), key=lambda index: len(records[index].tokens))
    while order:
        group = [order.pop()]
        longest = len(records[group[0]].tokens)
        while order and (len(group) + 1) * longest <= ROWS:
            group.append(order.pop())
        read.update(zip(group, reader.read([records[index].tokens for index in group]), strict=True))
        done += sum(len(records[index].tokens) for index in group)
        tick(done)
    return [read[index] for index in range(len(records))]


def _write(read: Sequence[Read], folder: Path, vocabulary: int) -> None:
    partial = folder.with_name(f"partial-{folder.name}")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir()
    for name in _NAMES:
        array = np.concatenate([getattr(one, name) for one in read])
        np.save(partial / f"{name}.npy", array.astype(_id_type(vocabulary)) if name == "ids" else array)
    os.rename(partial, folder)


def examples(files: Sequence[Path], features: Path) -> list[Example]:
    """Returns every record, with its features.

    Raises:
        DraftlightError: a file has no features, or they belong to another file.
    """
    examples_: list[Example] = []
    for file in files:
        for folder, records in with_feature_files(file, features):
            if not folder.exists():
                raise DraftlightError(f"{file.name} does not have all its features yet. Run --stage features first.")
            first = 0
            for record in records:
                examples_.append(Example(record.tokens.astype(np.int32), record.prompt_length, record.group, folder, first))
                first += len(record.tokens)
            if any(len(_map(folder, name)) != first for name in _NAMES):
                raise DraftlightError(
                    f"{folder} contains the features of a different text than {file}. Remove it and run the command again."
                )
    return examples_


def _map(folder: Path, name: str) -> np.ndarray:
    try:
        found: np.ndarray = np.lib.format.open_memmap(folder / f"{name}.npy", mode="r")
        if found.ndim != 2:
            raise ValueError(f"{name}.npy is no table")
        return found
    except texts.UNREADABLE as error:
        raise DraftlightError(f"{folder} is damaged ({error}). Remove it and run the command again.") from error


def load(example: Example) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns features (length, taps x hidden), label ids and log-probabilities (length, LABELS) of a record, memory-mapped."""
    rows = slice(example.first, example.first + len(example))
    return tuple(_map(example.folder, name)[rows] for name in _NAMES)  # type: ignore[return-value]
