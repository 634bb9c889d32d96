"""Model folders: explains what a folder contains if it is not a complete mlx-lm model, and writes the folder of a trained
drafter."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import mlx.core as mx

from engine.files.safetensors_header import WEIGHTS, listed, missing_parts, that_count
from engine.files.whole_file import Content, write_together
from engine.models.tokenizer_files import read_json
from engine.values.errors import DraftlightError


def weight_files(folder: Path) -> tuple[Path, ...]:
    """Returns the files that make up the model.

    Raises:
        DraftlightError: there are none (says what there is instead), or nothing says which of several sets to use.
    """
    files = tuple(sorted(folder.glob(WEIGHTS)))
    is_described = (folder / "config.json").is_file()
    if files and is_described:
        return that_count(folder, files)
    if not is_described and (folder / "adapter_config.json").is_file():
        raise DraftlightError(_adapter(folder))
    if found := sorted(folder.glob("[!.]*.gguf")):
        raise DraftlightError(
            f"{folder} contains GGUF files but no model for mlx-lm. Choose one of the files instead: "
            f"{listed([file.name for file in found])}."
        )
    if not is_described:
        raise DraftlightError(f"{folder} has no config.json, so it is not a model folder.")
    remedy = missing_parts(folder) or " Convert the model for mlx-lm, or choose another folder."
    raise DraftlightError(f"{folder} has no {WEIGHTS}.{remedy}")


def without_base(folder: Path, base: str) -> str:
    """Returns the message that an adapter cannot be used alone, and what to do."""
    return (
        f"{folder} is an adapter: it contains changes to {base}, which is not on this machine. Put the folder of {base} next to "
        "it, or connect to the network so that it can be downloaded."
    )


def _adapter(folder: Path) -> str:
    config = read_json(folder / "adapter_config.json")
    return without_base(folder, config.get("base_model_name_or_path") or config.get("model") or "a base model")


def write_drafter(folder: Path, arrays: Mapping[str, mx.array], config: Mapping[str, Any], card: str | None = None) -> None:
    """Writes model.safetensors, config.json and, if given, MODEL_CARD.md. The folder changes only after all of them are on the
    disk.

    Args:
        arrays: written in the types that they have.

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
