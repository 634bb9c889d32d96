"""Stage 2 of a training: the target's features and soft labels of the text, read once and kept on disk.

Reading them anew in every pass over the text would save the disk but not time: see `engine/tools/training/README.md` for what was
measured. A folder for each part of a file of text, a few thousand tokens of it, holds

    features.npy  (tokens, taps x hidden) float16: the tapped layers' outputs
    ids.npy       (tokens, LABELS) uint16 or uint32: the likeliest next tokens
    logs.npy      (tokens, LABELS) float16: their log-probabilities at temperature 1

with rows in the order of the part's tokens. They are opened as memory maps, one batch at a time.
"""

from __future__ import annotations

import functools
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from engine.tools.training import texts
from engine.tools.training.array_files import UNREADABLE
from engine.tools.training.reading import LABELS, Read, Reader
from engine.values.errors import DraftlightError

ROWS = 1536
"""Padded tokens of one forward pass, unless one text is longer."""
PART = 4096
"""Tokens whose features are kept together: what an interruption can lose."""

Tick = Callable[[int], None]


@dataclass(frozen=True)
class Example:
    """One record with features: `tokens` (length,) int32 in memory, the rest on disk.

    Attributes:
        folder: where its features lie. first: its first row there.
    """

    tokens: np.ndarray
    prompt_length: int
    group: int
    folder: Path
    first: int

    def __len__(self) -> int:
        return len(self.tokens)


def with_feature_files(text: Path, features: Path) -> Iterator[tuple[Path, list[texts.TextRecord]]]:
    """The records of a file of text in parts of about `PART` tokens, and where the features of each lie."""
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
    """Of a folder of features."""
    return 2 * taps * hidden + LABELS * (_id_type(vocabulary)().itemsize + 2)


def _id_type(vocabulary: int) -> type[np.uint16] | type[np.uint32]:
    return np.uint16 if vocabulary <= 1 << 16 else np.uint32


def cache(reader: Reader, files: Sequence[Path], features: Path, vocabulary: int, tick: Tick) -> None:
    """Read the features of every part that has none yet.

    Args:
        tick: called with the tokens done so far, parts that were there already among them; may raise to break off.
    """
    done = 0
    for file in files:
        for folder, records in with_feature_files(file, features):
            if not folder.exists():
                tick(done)  # the first pass may take long
                _write(_read(reader, records, functools.partial(_ahead, tick, done)), folder, vocabulary)
            done += sum(len(record.tokens) for record in records)
            tick(done)


def _ahead(tick: Tick, before: int, fresh: int) -> None:
    tick(before + fresh)


def _read(reader: Reader, records: Sequence[texts.TextRecord], tick: Tick) -> list[Read]:
    """In the order of the records; read in groups of similar length."""
    read: dict[int, Read] = {}
    order = sorted(range(len(records)), key=lambda index: len(records[index].tokens))
    done = 0
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
    np.save(partial / "features.npy", np.concatenate([one.features for one in read]))
    np.save(partial / "ids.npy", np.concatenate([one.ids for one in read]).astype(_id_type(vocabulary)))
    np.save(partial / "logs.npy", np.concatenate([one.logs for one in read]))
    os.rename(partial, folder)


def examples(files: Sequence[Path], features: Path) -> list[Example]:
    """Every record that has features.

    Raises:
        DraftlightError: a file has none, or they belong to another file.
    """
    found: list[Example] = []
    for file in files:
        for folder, records in with_feature_files(file, features):
            if not folder.exists():
                raise DraftlightError(f"{file.name} does not have all its features yet. Run --stage features first.")
            first = 0
            for record in records:
                found.append(Example(record.tokens.astype(np.int32), record.prompt_length, record.group, folder, first))
                first += len(record.tokens)
            if any(len(_map(folder, name)) != first for name in ("features", "ids", "logs")):
                raise DraftlightError(
                    f"{folder} contains the features of a different text than {file}. Remove it and run the command again."
                )
    return found


def _map(folder: Path, name: str) -> np.ndarray:
    try:
        found: np.ndarray = np.lib.format.open_memmap(folder / f"{name}.npy", mode="r")
        if found.ndim != 2:
            raise ValueError(f"{name}.npy is no table")
        return found
    except UNREADABLE as error:
        raise DraftlightError(f"{folder} is damaged ({error}). Remove it and run the command again.") from error


def load(example: Example) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features (length, taps x hidden), label ids and log-probabilities (length, LABELS) of one record; pages of the files."""
    rows = slice(example.first, example.first + len(example))
    return tuple(_map(example.folder, name)[rows] for name in ("features", "ids", "logs"))  # type: ignore[return-value]
