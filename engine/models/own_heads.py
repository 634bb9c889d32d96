"""Finding a head that was trained on this machine, or for it, by the target that its files state."""

from __future__ import annotations

from pathlib import Path

from engine.drafter_kinds import HEAD_FOLDER
from engine.errors import DraftlightError
from engine.files import library
from engine.models.tokenizer_files import read_json


def trained_head(target_sha256: str) -> Path | None:
    """The newest folder among the models on this machine with a head for the target of this digest; None if there is none."""
    heads = [Path(model.target) for model in library.find() if model.only_drafts and not model.problem]
    fitting = [folder for folder in heads if _target_of(folder) == target_sha256]
    return max(fitting, key=_changed, default=None)


def _target_of(folder: Path) -> str | None:
    """The digest of the target that a head states; None of anything else."""
    try:
        stated = read_json(folder / "config.json", required=False)
    except DraftlightError:
        return None
    return str(stated.get("target_sha256") or "?") if stated.get("model_type") == HEAD_FOLDER else None


def _changed(folder: Path) -> float:
    try:
        return (folder / "config.json").stat().st_mtime
    except OSError:
        return 0.0
