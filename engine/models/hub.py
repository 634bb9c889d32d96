"""Models of the Hugging Face Hub: downloaded, unless they could not be loaded anyway."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable
from pathlib import Path

from huggingface_hub import get_safetensors_metadata, hf_hub_download, snapshot_download

from engine.errors import DraftlightError
from engine.files.download import Download
from engine.files.hub import FILES, Offline, offers
from engine.files.library import is_in_own_place, own_place
from engine.files.memory import MakeRoom, MemoryNeed, need_of_folder
from engine.files.missing_parts import missing_parts
from engine.models.model_folder import weight_files
from engine.models.tokenizer_files import read_json


def fetch(name: str, report: Callable[[str, float | None], None], make_room: MakeRoom, widened: bool) -> Path:
    """The folder of a model, downloaded unless it is there already, in Draftlight's own folder or in the Hub's cache.

    Args:
        name: as "owner/model".
        make_room: asked before a download; raises NotEnoughMemory to keep it from beginning.
        widened: whether the weights will be expanded to float32.

    Raises:
        DraftlightError: it is not to be had, and why.
    """
    if is_in_own_place(name):
        return own_place(name)
    if (cached := _cached(name)) is not None:
        return cached  # the Hub is not even asked whether it has a newer one
    step = f"downloading {name} from the Hugging Face Hub"
    report(step, None)
    if (need := need_ahead(name, widened)) is not None:
        make_room(need)
    try:
        found = [one for one in offers(name) if not one.file]
        if found and not found[0].problem:
            return Download(found[0], lambda progress: report(step, progress.done / max(1, progress.total))).run()
    except DraftlightError as error:
        organisation, model = name.split("/")
        beside = f"The folder {organisation} here has no {model} in it. " if Path(organisation).is_dir() else ""
        advice = "Check the name and the network connection." if isinstance(error, Offline) else ""
        reason = f"{error} {beside}{advice}".strip()
        raise DraftlightError(
            f"{name} is not a local folder and could not be downloaded from the Hugging Face Hub: {reason}"
        ) from error
    if found:
        raise DraftlightError(f"{name} on the Hugging Face Hub cannot be used: {found[0].problem}")
    raise DraftlightError(
        f"{name} on the Hugging Face Hub is not a model for mlx-lm: it has no config.json with safetensors. "
        "If it has GGUF files, download one and choose it."
    )


def need_ahead(name: str, widened: bool) -> MemoryNeed | None:
    """What a model will need, from the headers of its files on the Hub, some 100 kB of each; None where they do not tell.

    What is wrong with a model or the network is left to the download, which says so.
    """
    with contextlib.suppress(Exception):
        config = read_json(Path(hf_hub_download(name, "config.json")))
        files = get_safetensors_metadata(name).files_metadata.values()
        tables = [{tensor: (str(info.dtype), tuple(info.shape)) for tensor, info in file.tensors.items()} for file in files]
        return dataclasses.replace(need_of_folder(name, tables, config, widened), is_ahead=True)
    return None


def _cached(name: str) -> Path | None:
    """The folder of an earlier download that has all of the weights; None without one."""
    try:
        folder = Path(snapshot_download(name, allow_patterns=list(FILES), local_files_only=True))
        if (folder / "adapter_config.json").is_file():
            return folder if any(folder.glob("adapter*.safetensors")) else None
        return folder if weight_files(folder) and not missing_parts(folder) else None
    except Exception:  # not cached, or only in part
        return None
