"""Base of drafters with weights of their own that read the target's features, and what reading and writing such files shares."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import mlx.core as mx
import mlx.nn as nn

from engine.files.hashes import files_sha256
from engine.files.safetensors_header import Table, listed, require_scales
from engine.files.whole_file import Content, write_together
from engine.target.layer_taps import embedding_of, hidden_size_of, output_module_of, output_rows_of, type_of
from engine.values.errors import DraftlightError, reason_of


class Metadata:
    """Attributes that are not weights, kept in an object that neither MLX nor an optimiser traverses.

    Attributes:
        files: with the weights; empty if they were not loaded.
        embedding, rows: functions of the target or of the drafter's own: tokens to embeddings, normalised outputs to logits.
    """

    target_ids: mx.array | None = None
    files: tuple[Path, ...] = ()
    embedding: Any = None
    rows: Any = None


class DrafterModel(nn.Module):
    """A drafter's weights, with the tokens that it can draft."""

    def __init__(self) -> None:
        super().__init__()
        self.metadata = Metadata()

    @property
    def target_ids(self) -> mx.array | None:
        """(columns,) int32: the target token of each column of the logits; None if columns are token ids."""
        return self.metadata.target_ids

    def column_of(self, token: int) -> int | None:
        """Returns the column of a target token; None if it has none."""
        return token if self.target_ids is None else self._columns.get(token)

    @cached_property
    def _columns(self) -> dict[int, int]:
        ids = cast(list[int], cast(mx.array, self.target_ids).tolist())
        return {token: column for column, token in enumerate(ids)}

    @cached_property
    def sha256(self) -> str | None:
        """Digest of the weight files; None if the drafter was not loaded from files."""
        return files_sha256(self.metadata.files) if self.metadata.files else None

    def take_embedding(self, target: Any, what: str, hidden_size: int) -> None:
        """Takes the target's token embedding, unless the files have one.

        Args:
            what: the kind of drafter, for messages. hidden_size: that of the drafter.

        Raises:
            DraftlightError: it cannot be found in the target, or has another width.
        """
        embedding = self["embed_tokens"] if "embed_tokens" in self else embedding_of(target)
        if (width := hidden_size_of(embedding)) != hidden_size:
            raise DraftlightError(
                f"This {what} has a hidden size of {hidden_size:,} and the target one of {width:,}, so it was made for another "
                "target."
            )
        self.metadata.embedding = embedding

    def take_output_rows(self, target: Any) -> None:
        """Takes the target's output rows."""
        rows, narrow = output_rows_of(target), type_of(output_module_of(target))
        # For operands of two types MLX uses the wider one and casts the whole matrix in every pass. Normalised outputs fit either
        # type.
        self.metadata.rows = lambda hidden: rows(hidden.astype(narrow))


@contextmanager
def explained(where: object, what: str, reason: str = "") -> Iterator[None]:
    """Turns any exception of MLX and Python for unfit files into a DraftlightError: `where` is not a usable `what`. `reason`: in
    words, before the exception's own."""
    try:
        yield
    except DraftlightError:
        raise
    except (ValueError, RuntimeError, KeyError, TypeError, IndexError, AttributeError, ArithmeticError, OSError) as error:
        said = f"{reason} ({error})." if reason else reason_of(error)
        raise DraftlightError(f"{where} is not a usable {what}: {said}") from error


MISMATCH = "its weights do not match its config.json"


def load_arrays(where: Path, tables: Mapping[Path, Table]) -> dict[str, mx.array]:
    """Returns the arrays of a drafter's weight files, lazy.

    Args:
        where: the file or folder, for messages. tables: the checked header of each file.

    Raises:
        DraftlightError: weights lack their scales.
    """
    require_scales(where, tables.values())
    arrays: dict[str, mx.array] = {}
    for file in tables:
        arrays |= cast(dict[str, mx.array], mx.load(file.as_posix()))
    return arrays


def require_exactly(
    expected: Mapping[str, mx.array],
    arrays: Mapping[str, mx.array],
    where: object,
    what: str,
    shown: Callable[[str], str] = str,
) -> None:
    """Raises DraftlightError if arrays are missing, surplus, or have other shapes; names them.

    Args:
        what: the kind of drafter, with its article. shown: returns a parameter's name as the file would have it.
    """
    missing = sorted({shown(name) for name in expected.keys() - arrays.keys()})
    surplus = sorted({shown(name) for name in arrays.keys() - expected.keys()})
    wrong = [
        f"{shown(name)} is {arrays[name].shape} instead of {array.shape}"
        for name, array in expected.items()
        if name in arrays and array.shape != arrays[name].shape
    ]
    faults = [f"{word} {listed(names)}" for word, names in (("it lacks", missing), ("it has unknown tensors:", surplus)) if names]
    if wrong:
        faults.append(listed(wrong))
    if faults:
        raise DraftlightError(f"{where} is not {what} that Draftlight knows how to run: {'; '.join(faults)}.")


def are_distinct(ids: Sequence[int], tokens: int, known: mx.array | None) -> bool:
    """Returns whether a draft vocabulary names distinct tokens of a target with `tokens` tokens.

    Args:
        known: `t2d` of the file, which marks the same tokens; None if there is none.
    """
    if len(set(ids)) != len(ids) or min(ids) < 0 or max(ids) >= tokens:
        return False
    marked = cast(list[bool], known.tolist()) if known is not None else []
    return known is None or sorted(ids) == [token for token, inside in enumerate(marked) if inside]


def write_drafter(folder: Path, arrays: Mapping[str, mx.array], config: Mapping[str, Any], card: str | None = None) -> None:
    """Writes model.safetensors, config.json and, if `card` is given, MODEL_CARD.md. Replaces no file before all of them are on
    the disk.

    Args:
        arrays: stored without conversion of their types.

    Raises:
        DraftlightError: it cannot be written.
    """
    files: dict[Path, Content] = {
        folder / "model.safetensors": lambda file: mx.save_safetensors(file, dict(arrays), {"format": "mlx"}),
        folder / "config.json": json.dumps(config, indent=2) + "\n",
    }
    if card is not None:
        files[folder / "MODEL_CARD.md"] = card
    write_together(files)
