"""Work folder of a training: the settings it was started with, its files, and a check of the free disk space.

    settings.json   the settings of each stage that was started here
    text/           the records, one file per batch (`engine.tools.training.texts`)
    features/       one folder per file of text (`engine.tools.training.features`)
    train/          checkpoint and best weights (`engine.tools.training.drafter_training`)

Every file is renamed into place when it is complete, so that an interruption leaves no partial files.
"""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from engine.files.foreign import content_of, json_of
from engine.files.lock import exclusive_lock
from engine.files.whole_file import write_whole
from engine.values.errors import DraftlightError
from engine.values.wording import size

_SETTINGS = "settings.json"
_SPARE = 200_000_000
"""Bytes that must stay free on the disk."""


class Work:
    """A work folder. Raises DraftlightError if it cannot be created."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.text, self.features, self.train = (folder / name for name in ("text", "features", "train"))
        try:
            for part in (self.text, self.features, self.train):
                part.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise DraftlightError(f"The work folder {folder} cannot be created: {error.strerror or error}.") from error

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Locks the folder. Raises DraftlightError if another training uses it, or if it cannot be locked."""
        busy = f"Another training run is using {self.folder}. Wait for it to finish, or choose another --work."
        lock = self.folder / "lock"
        with contextlib.ExitStack() as held:
            try:
                held.enter_context(exclusive_lock(lock, busy))
            except OSError as error:
                reason = error.strerror or error
                raise DraftlightError(f"{lock} cannot be opened ({reason}). Remove it, or choose another --work.") from error
            yield

    def record_or_compare(self, stage: str, settings: Mapping[str, Any]) -> None:
        """Records a stage's settings, or checks that they equal the ones it was started with.

        Raises:
            DraftlightError: the settings differ, or the recorded ones are damaged; the message says what to do.
        """
        path = self.folder / _SETTINGS
        recorded = _read(path)
        before = recorded.get(stage)
        now = json_of(json.dumps(settings))
        if before is None:
            write_whole(path, json.dumps(recorded | {stage: now}, indent=2) + "\n")
            return
        changed = [name for name in sorted({*before, *now}) if before.get(name) != now.get(name)]
        if changed:
            values = {name: _differing_parts(before.get(name), now.get(name)) for name in changed}
            changes = "; ".join(f"{name} was {_short(was)} and is now {_short(is_now)}" for name, (was, is_now) in values.items())
            raise DraftlightError(
                f"The stage {stage} in {self.folder} was started with other settings: {changes}. Use the same to continue, "
                f"or another --work to start again, or remove the folder {self.folder / stage} and the entry "
                f'"{stage}" in {path}.'
            )

    def sources(self) -> list[tuple[str, str]]:
        """Returns name and SHA-256 of each file of given text. Raises DraftlightError if the recorded settings are damaged."""
        path = self.folder / _SETTINGS
        try:
            return [(str(name), str(digest)) for name, digest in _read(path).get("text", {}).get("sources", [])]
        except (ValueError, TypeError) as error:
            raise _damaged(path, error) from error

    def require_space(self, needed: int, for_what: str) -> str:
        """Returns a sentence that states the need. Raises DraftlightError if the disk has too little free space."""
        free = shutil.disk_usage(self.folder).free
        if needed + _SPARE > free:
            raise DraftlightError(
                f"{for_what} needs {size(needed)} in {self.folder}, but only {size(free)} are free there. Free space, choose "
                "another --work, or write less text (--write)."
            )
        return f"{for_what} needs {size(needed)} in {self.folder}; {size(free)} are free."


def _read(path: Path) -> dict[str, dict[str, Any]]:
    """Returns the settings by stage. Raises DraftlightError if the file is damaged: treating it as missing would allow text and
    features that were made with other settings."""
    if not path.exists():
        return {}
    try:
        recorded = json_of(content_of(path))
        if not isinstance(recorded, dict) or not all(isinstance(stage, dict) for stage in recorded.values()):
            raise ValueError("it is not a table of settings by stage")
    except (OSError, ValueError) as error:
        raise _damaged(path, error) from error
    return recorded


def _damaged(path: Path, error: Exception) -> DraftlightError:
    reason = getattr(error, "strerror", None) or error
    return DraftlightError(f"{path} cannot be read ({reason}). Remove it and the folders next to it to start again.")


def _differing_parts(before: object, now: object) -> tuple[object, object]:
    """Returns both values; of two lists of lists, such as files of text, only the entries that the other list lacks."""
    if isinstance(before, list) and isinstance(now, list) and any(isinstance(each, list) for each in (*before, *now)):
        only_there = [each for each in before if each not in now], [each for each in now if each not in before]
        return only_there if any(only_there) else (before, now)  # only the order differs
    return before, now


def _short(value: object) -> str:
    text = "not set" if value is None else json.dumps(value)
    return text if len(text) <= 60 else text[:57] + "..."
