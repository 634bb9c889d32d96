"""Drafts with an MTP head (multi-token prediction): the model's own, or one from a folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from engine.drafters.feature_head import loaded_head
from engine.drafters.head_probe import settle
from engine.drafters.loaded import LoadedDrafter
from engine.models.loaded import LoadedModel
from engine.models.mtp_model import load_mtp
from engine.values.drafter_kinds import MTP
from engine.values.errors import DraftlightError


def build(name: str, target: LoadedModel, load: Callable[[], LoadedModel]) -> LoadedDrafter:
    """As in `engine.drafters.loaded.Build`. The model's own head is in the folder of its weights, also if it has an adapter."""
    folder = Path(name).expanduser()
    if name == MTP:
        if not target.weight_files or target.weight_files[0].suffix != ".safetensors":
            raise DraftlightError(
                f"{target.name} is a GGUF file, and Draftlight does not read an MTP head from one. Choose the model's folder in "
                "safetensors, or ngram."
            )
        folder = target.weight_files[0].parent
    head = load_mtp(folder, target)
    return loaded_head(head, target, name, settle(head, target))
