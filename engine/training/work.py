"""The work folder of a training: what was asked for when it was begun, whole files, and whether the disk has room.

    settings.json   the settings of each stage that was begun here
    text/           the records, a file for each batch (`engine.training.texts`)
    features/       one folder for each file of text (`engine.training.features`)
    train/          checkpoint and best weights (`engine.training.drafter_training`)

Whatever is written appears under its name in one step, so that an interruption leaves whole files only.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from engine.errors import DraftlightError
from engine.files.lock import alone
from engine.files.whole_file import write_whole
from engine.wording import size

_SETTINGS = "settings.json"
_SPARE = 200_000_000
"""Bytes that stay free on the disk."""


class Work:
    """One work folder. Raises DraftlightError if it cannot be made."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.text, self.features, self.train = (folder / name for name in ("text", "features", "train"))
        try:
            for part in (self.text, self.features, self.train):
                part.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise DraftlightError(f"The work folder {folder} cannot be created: {error.strerror or error}.") from error

    def alone(self) -> AbstractContextManager[None]:
        """Nobody else trains in this folder meanwhile."""
        busy = f"Another training run is using {self.folder}. Wait for it to finish, or choose another --work."
        return alone(self.folder / "lock", busy)

    def settle(self, stage: str, settings: Mapping[str, Any]) -> None:
        """Hold on to a stage's settings, or check that they are the ones it was begun with.

        Raises:
            DraftlightError: it was begun with others; the message names them and what to do.
        """
        path = self.folder / _SETTINGS
        kept = _read(path)
        before = kept.get(stage)
        now = json.loads(json.dumps(settings))
        if before is None:
            write_whole(path, json.dumps(kept | {stage: now}, indent=2) + "\n")
            return
        changed = [name for name in sorted({*before, *now}) if before.get(name) != now.get(name)]
        if changed:
            told = "; ".join(f"{name} was {_short(before.get(name))} and is now {_short(now.get(name))}" for name in changed)
            raise DraftlightError(
                f"The stage {stage} in {self.folder} was started with other settings: {told}. Use the same settings to continue, "
                f"or another --work to start again, or remove the folder {self.folder / stage} and the entry "
                f'"{stage}" in {path}.'
            )

    def settings(self) -> dict[str, Any]:
        """All that is kept, by stage."""
        return _read(self.folder / _SETTINGS)

    def require_space(self, needed: int, for_what: str) -> str:
        """A sentence that states the need. Raises DraftlightError if the disk has too little room for it."""
        free = shutil.disk_usage(self.folder).free
        if needed + _SPARE > free:
            raise DraftlightError(
                f"{for_what} needs {size(needed)} in {self.folder}, but only {size(free)} are free there. Free space, choose "
                "another --work, or write less text (--write)."
            )
        return f"{for_what} needs {size(needed)} in {self.folder}; {size(free)} are free."


def _read(path: Path) -> dict[str, Any]:
    if not path.exists():
        return {}
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DraftlightError(f"{path} cannot be read ({error}). Remove it and the folders next to it to start again.") from error
    return kept if isinstance(kept, dict) else {}


def _short(value: object) -> str:
    text = "not set" if value is None else json.dumps(value)
    return text if len(text) <= 60 else text[:57] + "..."
