"""Writes the folder of a drafter that was trained here."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import mlx.core as mx

from engine.files.whole_file import Content, write_together


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
