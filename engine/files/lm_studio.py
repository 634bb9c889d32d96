"""Where LM Studio keeps its models: in a folder of its home, or in one that its user has chosen. No MLX."""

from __future__ import annotations

from pathlib import Path

import platformdirs

from engine.files.foreign import content_of, object_in, text

_POINTER = ".lmstudio-home-pointer"
"""A file in the user's home that names LM Studio's, where it is another."""


def folders() -> list[Path]:
    """Folders in which it may keep models, whether they are there or not; those that were chosen first."""
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
    """A path as people write it; one that is relative counts from the user's home."""
    try:
        return home / Path(name).expanduser()
    except (RuntimeError, ValueError):  # of a user that there is not
        return home / name
