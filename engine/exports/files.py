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

    Raises:
        DraftlightError: one cannot be written, because of a full disk, say; then nothing has changed.
    """
    staged: list[tuple[Path, Path]] = []
    path = Path()
    try:
        for path, content in files.items():
            if path.is_dir():
                raise IsADirectoryError(None, "it is a folder")
            path.parent.mkdir(parents=True, exist_ok=True)
            temporary = path.with_name(f".{path.name[:100]}-{secrets.token_hex(4)}")
            staged.append((temporary, path))
            _write(temporary, content)
        while staged:
            temporary, path = staged[0]
            os.replace(temporary, path)
            staged.pop(0)
    except OSError as error:
        raise DraftlightError(f"{path} cannot be written: {error.strerror or error}.") from None
    finally:
        for temporary, _ in staged:
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)


def _write(path: Path, content: str | bytes) -> None:
    """A new file, forced to the disk. Half a surrogate pair, which UTF-8 cannot hold, becomes an escape."""
    data = content if isinstance(content, bytes) else content.encode("utf-8", errors="backslashreplace")
    with path.open("xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
