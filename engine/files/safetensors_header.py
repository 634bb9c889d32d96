"""Reads the headers of safetensors files and checks that the files are complete.

MLX loads them lazily, so a truncated file would fail in the middle of an answer.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable
from pathlib import Path

from engine.files.foreign import json_of, open_file, placeholder_kind, table, text
from engine.values.errors import DraftlightError, is_whole

SIZES = {"F64": 8, "I64": 8, "U64": 8, "F32": 4, "I32": 4, "U32": 4, "F16": 2, "BF16": 2, "I16": 2, "U16": 2, "I8": 1, "U8": 1}
SIZES |= {"BOOL": 1, "F8_E4M3": 1, "F8_E5M2": 1, "F8_E8M0": 1}
"""Bytes per number of each type."""
Table = dict[str, tuple[str, tuple[int, ...]]]
"""Type and shape of each tensor in a file, by name."""
_LONGEST_HEADER = 100_000_000
"""Limit of the format, in bytes (https://github.com/huggingface/safetensors#format)."""


def check_safetensors(path: Path) -> Table:
    """Returns the tensors of a file. Raises DraftlightError unless the header is readable, and each tensor's size matches its
    shape and lies inside the file."""
    try:
        size = path.stat().st_size
        with open_file(path) as file:
            beginning = file.read(8 + 64)
            if other := placeholder_kind(beginning):
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


def stated_format(path: Path) -> str:
    """Returns the program that the header names as the file's format, such as "pt" or "mlx"; empty if it names none or cannot be
    read."""
    try:
        with open_file(path) as file:
            (length,) = struct.unpack("<Q", file.read(8))
            stated = json_of(file.read(length)) if length <= _LONGEST_HEADER else {}
    except (OSError, ValueError, struct.error):
        return ""
    return text(table(table(stated).get("__metadata__")).get("format"))


_SHOWN = 4


def require_scales(where: object, tables: Iterable[Table]) -> None:
    """Raises DraftlightError if weights in 8-bit floating point lack the scales to multiply them with.

    Args:
        where: name of the model, for the message. tables: tensors of all of its files; a scale may be in another file.
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
    """Returns the first four names as a text, with the number of the others."""
    shown = ", ".join(names[:_SHOWN])
    return f"{shown} and {len(names) - _SHOWN} more" if len(names) > _SHOWN else shown
