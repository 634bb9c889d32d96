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


def build(name: str, target: LoadedModel, load: Callable[[], LoadedModel]) -> LoadedDrafter:
    """Loads a published MTP head (see `engine.drafters.loaded.Build`): that of the folder `name`, or the model's own, which is
    where its weights are, also if it has an adapter."""
    head = load_mtp(target.weights if name == MTP else Path(name).expanduser(), target)
    return loaded_head(head, target, name, settle(head, target))
