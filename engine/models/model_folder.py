"""What a folder holds if it is not a whole model for mlx-lm, in sentences that say what to do."""

from __future__ import annotations

import re
from pathlib import Path

from engine.errors import DraftlightError
from engine.models.tokenizer_files import read_json

_WEIGHTS = "model*.safetensors"
_INDEX = "model.safetensors.index.json"
_NUMBERED = re.compile(r"(.*)-\d{5}-of-(\d{5})\.safetensors")
_SHOWN = 4


def weight_files(folder: Path) -> tuple[Path, ...]:
    """The files that mlx-lm reads the weights from.

    Raises:
        DraftlightError: there are none, and what there is instead.
    """
    files = tuple(sorted(folder.glob(_WEIGHTS)))
    is_described = (folder / "config.json").is_file()
    if files and is_described:
        return files
    if not is_described and (folder / "adapter_config.json").is_file():
        raise DraftlightError(_adapter(folder))
    if found := sorted(folder.glob("*.gguf")):
        raise DraftlightError(
            f"{folder} contains GGUF files but no model for mlx-lm. Choose one of the files instead: "
            f"{_listed([file.name for file in found])}."
        )
    if not is_described:
        raise DraftlightError(f"{folder} has no config.json, so it is not a model folder.")
    remedy = missing_parts(folder) or " Convert the model for mlx-lm, or choose another folder."
    raise DraftlightError(f"{folder} has no {_WEIGHTS}.{remedy}")


def missing_parts(folder: Path) -> str:
    """Sentences to append: which weight files are missing by the index or by the numbers in the names. Empty if none is.

    Asked only once a model could not be loaded: mlx-lm reads neither, and an index may be left over from before a conversion.
    """
    names = {file.name for file in folder.glob(_WEIGHTS)}
    expected = set(_indexed(folder))
    for match in filter(None, map(_NUMBERED.fullmatch, names)):
        expected |= {f"{match[1]}-{part:05}-of-{match[2]}.safetensors" for part in range(1, int(match[2]) + 1)}
    missing = sorted(name for name in expected if not (folder / name).is_file())
    if not missing:
        return ""
    files = f"{len(missing)} of {len(expected | names)} weight files {'is' if len(missing) == 1 else 'are'} missing"
    return f" {files}: {_listed(missing)}. Download the model again."


def _indexed(folder: Path) -> list[str]:
    try:
        files = read_json(folder / _INDEX, required=False).get("weight_map")
    except DraftlightError:
        return []
    return [str(name) for name in files.values()] if isinstance(files, dict) else []


def without_base(folder: Path, base: str) -> str:
    """That an adapter cannot be used alone, and what to do."""
    return (
        f"{folder} is an adapter: it contains changes to {base}, which is not on this machine. Put the folder of {base} next to "
        "it, or connect to the network so that it can be downloaded."
    )


def _adapter(folder: Path) -> str:
    config = read_json(folder / "adapter_config.json")
    return without_base(folder, config.get("base_model_name_or_path") or config.get("model") or "a base model")


def _listed(names: list[str]) -> str:
    shown = ", ".join(names[:_SHOWN])
    return f"{shown} and {len(names) - _SHOWN} more" if len(names) > _SHOWN else shown
