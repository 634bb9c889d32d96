"""Files that are there whole or not at all."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Mapping
from pathlib import Path

from engine.errors import DraftlightError


def write_whole(path: Path, content: str | bytes) -> None:
    """Put the whole file in place in one step, or leave what was there. Raises DraftlightError."""
    write_together({path: content})


def write_together(files: Mapping[Path, str | bytes]) -> None:
    """Put files in place that belong together: none is touched before all of them are on the disk.

    A link stays a link: what it leads to is replaced. What is neither a file nor new, as a device, is refused.

    Raises:
        DraftlightError: one cannot be written, because of a full disk, say; then nothing has changed.
    """
    staged: list[tuple[Path, Path]] = []
    path = Path()
    try:
        for path, content in files.items():
            place = _place(path)
            temporary = place.with_name(f".{place.name[:50]}-{secrets.token_hex(4)}")
            staged.append((temporary, place))
            _write(temporary, content)
        while staged:
            temporary, place = staged[0]
            path = place  # that is what fails, if anything does
            os.replace(temporary, place)
            staged.pop(0)
    except (OSError, ValueError) as error:  # a name that no file can have is a ValueError
        reason = getattr(error, "strerror", None) or error
        raise DraftlightError(f"{path} cannot be written: {reason}. Choose another place or name.") from None
    finally:
        for temporary, _ in staged:
            with contextlib.suppress(OSError, ValueError):
                temporary.unlink(missing_ok=True)


def _place(path: Path) -> Path:
    """Where a file of this name really lies; its folder is there afterwards. Raises OSError or ValueError."""
    place = Path(os.path.realpath(path))
    if os.path.isdir(place):
        raise IsADirectoryError(None, "it is a folder")
    if os.path.exists(path) and not os.path.isfile(path):
        raise OSError(None, "it is a device or a pipe, not a file")
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise NotADirectoryError(None, "part of the way there is a file, not a folder") from None
    return place


def _write(path: Path, content: str | bytes) -> None:
    """A new file, forced to the disk. Half a surrogate pair, which UTF-8 cannot hold, becomes an escape."""
    data = content if isinstance(content, bytes) else content.encode("utf-8", errors="backslashreplace")
    with path.open("xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
