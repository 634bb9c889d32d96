"""Folders that are looked through for models besides the usual ones, for good.

They have a file of their own, read anew each time, so that what the command line adds stays when a window that is open meanwhile
saves its settings.
"""

from __future__ import annotations

import json
from pathlib import Path

from engine.files.foreign import content_of, entries, json_of
from engine.files.paths import data_folder
from engine.files.whole_file import write_whole


def added_folders() -> tuple[str, ...]:
    """Absolute paths, the last added last; none if the file is missing or damaged."""
    try:
        return tuple(name for name in entries(json_of(content_of(_place()))) if isinstance(name, str))
    except (OSError, ValueError):
        return ()


def change_folders(folder: str, remove: bool = False) -> None:
    """Adds a folder, or leaves it out from now on. Raises `engine.files.whole_file.NotWritten`."""
    others = [name for name in added_folders() if name != folder]
    write_whole(_place(), json.dumps(others if remove else [*others, folder], ensure_ascii=False) + "\n", private=True)


def _place() -> Path:
    return data_folder() / "model_folders.json"
