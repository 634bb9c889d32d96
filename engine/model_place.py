"""Whether a model can be loaded without a download, by its name alone. Nothing here reads a model or imports MLX."""

from __future__ import annotations

from pathlib import Path

from engine.drafter_kinds import DRAFTERS
from engine.files.hub import HUB_ID
from engine.files.library import is_in_own_place
from engine.files.paths import hub_cache


def is_here(name: str) -> bool:
    """Whether a target or a drafter of this name is on this machine, as far as its folder or file tells. What comes with
    Draftlight counts as here, though the built-in target is downloaded when it is first used."""
    if name == "builtin" or name in DRAFTERS or Path(name).expanduser().exists():
        return True
    if not HUB_ID.fullmatch(name):
        return False
    if is_in_own_place(name):
        return True
    snapshots = hub_cache() / f"models--{name.replace('/', '--')}" / "snapshots"
    return any(snapshots.glob("*/config.json")) or any(snapshots.glob("*/adapter_config.json"))
