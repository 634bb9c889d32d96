"""Reads files of text that a target wrote for itself.

File format (``.npz``): ``tokens`` (integers, all records concatenated), ``offsets`` (record i is ``tokens[offsets[i]:offsets[i
+ 1]]``) and ``prompt_lengths`` (number of leading tokens of each record that are the prompt, chat template included; the rest
is the answer).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from engine.tools.training.array_files import UNREADABLE, WHOLE, vectors
from engine.values.errors import DraftlightError

_KINDS = {"tokens": WHOLE, "offsets": WHOLE, "prompt_lengths": WHOLE}


@dataclass(frozen=True)
class Record:
    """One prompt and answer: `tokens` (length,) int32; the answer starts at `prompt_length`, which is at least 1."""

    tokens: np.ndarray
    prompt_length: int

    @property
    def answer(self) -> np.ndarray:
        """(answer tokens,) int32: the tokens after the prompt."""
        return self.tokens[self.prompt_length :]


def read(source: Path, max_length: int | None = None) -> list[Record]:
    """Returns the records of one ``.npz`` file, or of all such files in a folder, ordered by name.

    Args:
        max_length: records are cut to this many tokens; those that then have no answer are left out.

    Raises:
        DraftlightError: there is no such file, or it does not have the format above.
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
