"""The base model that a folder with a LoRA adapter names. No MLX; putting it on is `engine.models.adapters`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from engine.files.foreign import object_in

CONFIG = "adapter_config.json"
FILES = ("adapters.safetensors", "adapter_model.safetensors")
"""Weights as mlx-lm and as PEFT call them."""


def base_in(config: Mapping[str, Any]) -> str | None:
    """Returns the name or path of the base model in an adapter's configuration."""
    base = config.get("model") or config.get("base_model_name_or_path")
    return base if isinstance(base, str) else None


def places_of(adapter: Path, base: str) -> tuple[Path, ...]:
    """Returns the folders where a base model is looked for before the Hub is asked."""
    return tuple(
        path for path in (Path(base).expanduser(), adapter.parent / base, adapter.parent / Path(base).name) if path != adapter
    )


def base_target(target: str) -> str | None:
    """Returns the base model of a target that is an adapter, as a target is named; None for any other target."""
    try:
        folder = Path(target).expanduser()
        if (folder / "config.json").is_file() or not any((folder / name).is_file() for name in FILES):
            return None
        base = base_in(object_in(folder / CONFIG))
        return None if base is None else next((str(path) for path in places_of(folder, base) if path.is_dir()), base)
    except (OSError, RuntimeError, ValueError):  # no name of a folder
        return None
