"""Drafts with an EAGLE-3 head from a folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from engine.drafters.feature_head import loaded_head
from engine.drafters.head_probe import settle
from engine.drafters.loaded import LoadedDrafter
from engine.models.eagle3_model import load_eagle3
from engine.models.loaded import LoadedModel


def build(name: str, target: LoadedModel, load: Callable[[], LoadedModel]) -> LoadedDrafter:
    """As in `engine.drafters.loaded.Build`."""
    head = load_eagle3(Path(name).expanduser(), target)
    return loaded_head(head, target, name, settle(head, target))
