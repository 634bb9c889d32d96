"""Whether safetensors files are whole, before MLX reads them lazily and fails in the middle of an answer, and whether all that
belong to a model are there, so that an interrupted download is not taken for one."""

from __future__ import annotations

import math
import os
import re
import struct
from collections.abc import Iterable, Sequence
from pathlib import Path

from engine.files.foreign import json_of, object_in, open_file, stands_for_another, table
from engine.values.errors import DraftlightError, is_whole
from engine.values.wording import noun

SIZES = {"F64": 8, "I64": 8, "U64": 8, "F32": 4, "I32": 4, "U32": 4, "F16": 2, "BF16": 2, "I16": 2, "U16": 2, "I8": 1, "U8": 1}
SIZES |= {"BOOL": 1, "F8_E4M3": 1, "F8_E5M2": 1, "F8_E8M0": 1}
"""Bytes of a number of each type."""
Table = dict[str, tuple[str, tuple[int, ...]]]
"""Type and shape of each tensor of a file."""
_LONGEST_HEADER = 100_000_000
"""The format's own limit (https://github.com/huggingface/safetensors#format)."""


def check_safetensors(path: Path) -> Table:
    """What is in the file. DraftlightError unless the header is readable and every tensor has the size of its shape and lies
    inside the file."""
    try:
        size = path.stat().st_size
        with open_file(path) as file:
            beginning = file.read(8 + 64)
            if other := stands_for_another(beginning):
                raise DraftlightError(f"{path} {other}")
            (length,) = struct.unpack("<Q", beginning[:8])
            if length > min(_LONGEST_HEADER, size - 8):
                raise ValueError("its header is cut off")
            file.seek(8)
            entries = json_of(file.read(length))
        table: Table = {}
        for name, entry in entries.items():
            if name == "__metadata__":
                continue
            begin, end = entry["data_offsets"]
            if not all(map(is_whole, (begin, end, *entry["shape"]))):
                raise ValueError(f"{name} has a shape or a place that is no number")
            if end - begin != math.prod(entry["shape"]) * SIZES[entry["dtype"]] or min([begin, *entry["shape"]]) < 0:
                raise ValueError(f"{name} does not have the size of its shape")
            if 8 + length + end > size:
                raise ValueError(f"{name} ends at byte {8 + length + end} of {size}")
            table[name] = (entry["dtype"], tuple(entry["shape"]))
        return table
    except FileNotFoundError as error:
        raise DraftlightError(f"{path} is missing. Download or convert the model again.") from error
    except (OSError, ValueError, struct.error, KeyError, TypeError, IndexError, AttributeError) as error:
        raise DraftlightError(f"{path} is damaged: {error}. Download or convert the model again.") from error


WEIGHTS = "model*.safetensors"
"""The files that mlx-lm reads the weights from."""
_INDEX = "model.safetensors.index.json"
_NUMBERED = re.compile(r"(.*)-\d{5}-of-(\d{5})\.safetensors")
_SHOWN = 4


def that_count(folder: Path, files: Sequence[Path]) -> tuple[Path, ...]:
    """Returns those of a folder's weight files that make up the model: all, unless some have weights of the same names.

    A conversion may leave files of an earlier one behind. Then those count that the index names or, as in transformers,
    model.safetensors.

    Raises:
        DraftlightError: a file is damaged, or nothing says which files count.
    """
    tables = {file: check_safetensors(file) for file in files}
    names = [name for tensors in tables.values() for name in tensors]
    if len(names) == len(set(names)):
        return tuple(files)
    indexed = sorted({folder / str(name) for name in table(object_in(folder / _INDEX).get("weight_map")).values()})
    for chosen in (indexed, [folder / "model.safetensors"]):
        found = [name for file in chosen for name in tables.get(file, {})]
        if chosen and len(found) == len(set(found)) and set(found) == set(names):
            return tuple(chosen)
    raise DraftlightError(
        f"{folder} has weights of the same names in several files: {listed([file.name for file in files])}. Delete those that "
        "are left over from an earlier version, or download the model again."
    )


def missing_parts(folder: Path, by_index: bool = True) -> str:
    """Sentences to append: which weight files are missing by the index or by the numbers in the names. Empty if none is.

    Args:
        by_index: asked only once a model could not be loaded: mlx-lm reads no index, and one may be left over from before a
            conversion.
    """
    names = {file.name for file in folder.glob(WEIGHTS)}
    stated = table(object_in(folder / _INDEX).get("weight_map")) if by_index else {}
    expected = set(map(str, stated.values()))
    for match in filter(None, map(_NUMBERED.fullmatch, names)):
        expected |= {f"{match[1]}-{part:05}-of-{match[2]}.safetensors" for part in range(1, int(match[2]) + 1)}
    missing = sorted(name for name in expected if not os.path.isfile(folder / name))
    if not missing:
        return ""
    files = (
        f"{len(missing)} of {len(expected | names)} {noun(len(expected | names), 'weight file')} "
        f"{'is' if len(missing) == 1 else 'are'} missing"
    )
    return f" {files}: {listed(missing)}. Download the model again."


def require_scales(where: object, tables: Iterable[Table]) -> None:
    """Raises DraftlightError where weights in 8-bit floating point come without the scales that they are multiplied with.

    Args:
        where: named in the message. tables: of all files of the model, since a scale may lie in another one.
    """
    tensors: Table = {name: tensor for own in tables for name, tensor in own.items()}
    narrow = [name for name, (dtype, _) in tensors.items() if dtype in ("F8_E4M3", "F8_E5M2") and "scale" not in name]
    scales = {name for name in tensors if "scale" in name}
    bare = []
    for name in narrow:
        stem = name.removesuffix("weight").rstrip("._")
        if not any(scale.startswith((f"{name}_scale", f"{stem}.scale", f"{stem}_scale")) for scale in scales):
            bare.append(name)
    if bare:
        raise DraftlightError(
            f"{where} has {len(bare)} weights in 8-bit floating point without the scales that belong to them: there is no "
            f"{listed([f'{name}_scale_inv' for name in bare])}. Choose a file with scales, or one in 16-bit numbers."
        )


def listed(names: list[str]) -> str:
    """The first few names, and how many more there are."""
    shown = ", ".join(names[:_SHOWN])
    return f"{shown} and {len(names) - _SHOWN} more" if len(names) > _SHOWN else shown
