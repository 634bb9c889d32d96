"""Reads model folders: their kind, their JSON files, and the weight files that belong to the model. No MLX.

A folder with a config.json is a whole model, or a drafter; one with an adapter_config.json alone is an adapter for a base model.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from engine.files.foreign import content_of, json_of, object_in, table
from engine.files.mtp_files import is_sidecar
from engine.files.safetensors_header import Table, check_safetensors, listed, require_scales
from engine.values.drafter_kinds import BLOCK_FOLDER, CUT_DRAFT, EAGLE_FOLDER, HEAD_FOLDER, MTP_FOLDER, type_stated
from engine.values.errors import DraftlightError
from engine.values.wording import noun

CONFIG, ADAPTER_CONFIG = "config.json", "adapter_config.json"
WEIGHTS = "model*.safetensors"
"""Pattern of the files from which mlx-lm reads weights."""
ADAPTER_WEIGHTS = ("adapters.safetensors", "adapter_model.safetensors")
"""Weight files of an adapter, as mlx-lm and PEFT name them."""
_INDEX = "model.safetensors.index.json"
_NUMBERED_PART = re.compile(r"(.*)-\d{5}-of-(\d{5})\.safetensors")
DRAFTER_TYPES = (HEAD_FOLDER, BLOCK_FOLDER, CUT_DRAFT, MTP_FOLDER, EAGLE_FOLDER)
"""Types of folders with models that can only draft."""


def read_json(path: Path, required: bool = True) -> dict[str, Any]:
    """Reads the object in a JSON file. Raises DraftlightError if it is damaged, not an object, or required but missing."""
    if not required and not path.is_file():
        return {}
    try:
        value = json_of(content_of(path))
    except FileNotFoundError as error:
        raise DraftlightError(f"{path.parent} has no {path.name}, so it is not a model folder.") from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise DraftlightError(f"{path} cannot be read: {reason.removesuffix('.')}.") from error
    if not isinstance(value, dict):
        raise DraftlightError(f"{path} is not a JSON object.")
    return value


def is_described(folder: Path) -> bool:
    """Returns whether a folder has the file that describes a model, a drafter or an adapter."""
    return (folder / CONFIG).is_file() or (folder / ADAPTER_CONFIG).is_file()


def is_adapter(folder: Path) -> bool:
    """Returns whether a folder describes an adapter and no whole model."""
    return (folder / ADAPTER_CONFIG).is_file() and not (folder / CONFIG).is_file()


def is_model_folder(folder: Path) -> bool:
    """Returns whether a folder has a model, a drafter or an adapter. A config.json alone may be another program's."""
    if not (folder / CONFIG).is_file():
        return is_adapter(folder)
    return bool({"model_type", "architectures"} & object_in(folder / CONFIG).keys()) or any(folder.glob("*.safetensors"))


def is_whole(folder: Path) -> bool:
    """Returns whether all weights are there, as after a complete download."""
    if is_adapter(folder):
        return bool(adapter_files(folder))
    with contextlib.suppress(DraftlightError):
        return bool(weights_of(folder)) and not missing_parts(folder)
    return False


def only_drafts(folder: Path) -> bool:
    """Returns whether a folder holds a model that was made to draft and cannot be a target."""
    return type_stated(object_in(folder / CONFIG)) in DRAFTER_TYPES


# Weights


def weights_of(folder: Path) -> dict[Path, Table]:
    """Returns the weight files that make up the model, each with its checked header.

    Raises:
        DraftlightError: there are none, and the message says what there is instead; one is damaged; or files overlap, and it is
            unclear which of them belong to the model.
    """
    files = [file for file in sorted(folder.glob(WEIGHTS)) if not is_sidecar(file)]
    has_config = (folder / CONFIG).is_file()
    if files and has_config:
        return _effective_files(folder, {file: check_safetensors(file) for file in files})
    if is_adapter(folder):
        raise DraftlightError(missing_base_message(folder, base_in(read_json(folder / ADAPTER_CONFIG)) or "a base model"))
    if tables := sorted(folder.glob("[!.]*.gguf")):
        raise DraftlightError(
            f"{folder} contains GGUF files but no model for mlx-lm. Choose one of the files instead: "
            f"{listed([file.name for file in tables])}."
        )
    if not has_config:
        raise DraftlightError(f"{folder} has no {CONFIG}, so it is not a model folder.")
    remedy = missing_parts(folder) or " Convert the model for mlx-lm, or choose another folder."
    raise DraftlightError(f"{folder} has no {WEIGHTS}.{remedy}")


def refuse_pytorch(folder: Path) -> None:
    """Raises DraftlightError if a folder's weights are in PyTorch's format alone, as those of many published heads."""
    files = sorted(folder.glob("pytorch_model*.bin"))
    if files and not any(folder.glob("*.safetensors")):
        raise DraftlightError(
            f"{folder} has its weights only in PyTorch's format ({files[0].name}), which may contain code and is not read. "
            "Convert them to model.safetensors: with https://huggingface.co/spaces/safetensors/convert, or in Python, where "
            f'torch and safetensors are installed: safetensors.torch.save_file(torch.load("{files[0].name}", weights_only=True), '
            '"model.safetensors").'
        )


def _effective_files(folder: Path, tables: dict[Path, Table]) -> dict[Path, Table]:
    """Returns all files, unless some have weights of the same names.

    A conversion may leave files of an earlier one behind. Then returns the files that the index names or, as transformers does,
    model.safetensors.
    """
    names = {name for tensors in tables.values() for name in tensors}
    indexed = {folder / str(name) for name in table(object_in(folder / _INDEX).get("weight_map")).values()}
    for chosen in (set(tables), indexed, {folder / "model.safetensors"}):
        counted = {file: tensors for file, tensors in tables.items() if file in chosen}
        if {name for tensors in counted.values() for name in tensors} == names and sum(map(len, counted.values())) == len(names):
            return counted
    raise DraftlightError(
        f"{folder} has weights of the same names in several files: {listed([file.name for file in tables])}. Delete those that "
        "are left over from an earlier version, or download the model again."
    )


def missing_parts(folder: Path, by_index: bool = True) -> str:
    """Returns sentences to append that list the missing weight files, by the index or by the numbers in names. Empty if none is.

    Args:
        by_index: whether the index counts. mlx-lm does not read it, and it may be left over from before a conversion.
    """
    names = {file.name for file in folder.glob(WEIGHTS)}
    indexed = table(object_in(folder / _INDEX).get("weight_map")) if by_index else {}
    expected = set(map(str, indexed.values()))
    for match in filter(None, map(_NUMBERED_PART.fullmatch, names)):
        expected |= {f"{match[1]}-{part:05}-of-{match[2]}.safetensors" for part in range(1, int(match[2]) + 1)}
    missing = sorted(name for name in expected if not os.path.isfile(folder / name))
    if not missing:
        return ""
    files = (
        f"{len(missing)} of {len(expected | names)} {noun(len(expected | names), 'weight file')} "
        f"{'is' if len(missing) == 1 else 'are'} missing"
    )
    return f" {files}: {listed(missing)}. Download the model again."


def require_usable(folder: Path, config: Mapping[str, Any], tables: Mapping[Path, Table]) -> None:
    """Raises DraftlightError if a model needs Python code of its own, or its weights lack scales (`require_scales`)."""
    if config.get("model_file") is not None:
        raise DraftlightError(
            f"{folder} needs Python code of its own ({config['model_file']}). Code that comes with a model is never run here. "
            "Choose a model of an architecture that mlx-lm knows."
        )
    require_scales(folder, tables.values())


# Adapters


def adapter_files(folder: Path) -> tuple[Path, ...]:
    """Returns the file with the adapter's weights as a tuple of one, or an empty tuple."""
    return tuple(path for name in ADAPTER_WEIGHTS if (path := folder / name).is_file())[:1]


def base_in(config: Mapping[str, Any]) -> str | None:
    """Returns the name or path of the base model in an adapter's configuration; None if it states none."""
    base = config.get("model") or config.get("base_model_name_or_path")
    return base if isinstance(base, str) else None


def base_of(folder: Path) -> str | None:
    """Returns the name or path of an adapter's base model; None for any other folder."""
    return base_in(object_in(folder / ADAPTER_CONFIG)) if is_adapter(folder) and adapter_files(folder) else None


def base_candidates(adapter: Path, base: str) -> tuple[Path, ...]:
    """Returns the folders to search for a base model before asking the Hub."""
    return tuple(
        path for path in (Path(base).expanduser(), adapter.parent / base, adapter.parent / Path(base).name) if path != adapter
    )


def base_target(target: str) -> str | None:
    """Returns the base model of a target that is an adapter: its folder if it is on this machine, else its name on the Hub. None
    if the target is no adapter.

    Args:
        target: the name or path by which the user chose the target.
    """
    try:
        folder = Path(target).expanduser()
        base = base_of(folder)
        return None if base is None else next((str(path) for path in base_candidates(folder, base) if path.is_dir()), base)
    except (OSError, RuntimeError, ValueError):  # an impossible folder name
        return None


def missing_base_message(folder: Path, base: str) -> str:
    """Returns the message that an adapter cannot be used alone, and what to do."""
    return (
        f"{folder} is an adapter: it contains changes to {base}, which is not on this machine. Put the folder of {base} next to "
        "it, or connect to the network so that it can be downloaded."
    )
