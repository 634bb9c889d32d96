"""Whether safetensors files are whole, before MLX reads them lazily and fails in the middle of an answer."""

from __future__ import annotations

import json
import struct
from pathlib import Path

from engine.errors import DraftlightError

_LONGEST_HEADER = 100_000_000
"""The format's own limit (https://github.com/huggingface/safetensors#format)."""


def check_safetensors(path: Path) -> None:
    """DraftlightError unless the file's header is readable and every tensor lies inside the file."""
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            if length > min(_LONGEST_HEADER, size - 8):
                raise ValueError("its header is cut off")
            entries = json.loads(file.read(length))
        ends = [entry["data_offsets"][1] for name, entry in entries.items() if name != "__metadata__"]
        if 8 + length + max(ends, default=0) > size:
            raise ValueError(f"it should be {8 + length + max(ends)} bytes long and is {size}")
    except FileNotFoundError as error:
        raise DraftlightError(f"{path} is missing. Fetch or convert the model again.") from error
    except (OSError, ValueError, struct.error, KeyError, TypeError, IndexError, AttributeError) as error:
        raise DraftlightError(f"{path} is damaged: {error}. Fetch or convert the model again.") from error
