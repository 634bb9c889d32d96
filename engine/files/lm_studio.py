"""Finds the folders of LM Studio's models: in its home folder, or chosen by its user. No MLX."""

from __future__ import annotations

from pathlib import Path

import platformdirs

from engine.files.foreign import content_of, object_in, text

_POINTER = ".lmstudio-home-pointer"
"""Name of a file in the user's home folder that contains the path of LM Studio's home folder, if it is not the usual one."""


def folders() -> list[Path]:
    """Returns the folders in which LM Studio may keep models, existing or not; folders chosen by its user come first."""
    home = Path.home()
    homes = [home / ".lmstudio", home / ".cache" / "lm-studio"]
    try:
        named = content_of(home / _POINTER).decode("utf-8-sig").strip()
    except (OSError, ValueError):
        named = ""
    if named:
        homes.insert(0, _place(named.splitlines()[0].strip(), home))
    settings = [*homes, Path(platformdirs.user_config_path("LM Studio", appauthor=False, roaming=True))]
    chosen = [text(object_in(place / "settings.json").get("downloadsFolder")).strip() for place in settings]
    return [*(_place(name, home) for name in chosen if name), *(place / "models" for place in homes)]


def _place(name: str, home: Path) -> Path:
    """Returns the path for a name that a user wrote. Relative paths start at the user's home folder."""
    try:
        return home / Path(name).expanduser()
    except (RuntimeError, ValueError):  # home of an unknown user
        return home / name
