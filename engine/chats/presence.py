"""Who has the chats open: a locked file for each, whose lock the system drops even for a process that was killed.

A number of a process could be given to another one; a lock cannot.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
from pathlib import Path

_ENDING = ".lock"


class Presence:
    """One that has the chats open, until `leave`.

    Attributes:
        name: by which messages say whose answer is being written.
    """

    def __init__(self, folder: Path) -> None:
        """Raises OSError where no file can be made."""
        folder.mkdir(mode=0o700, exist_ok=True)
        self._folder = folder
        self.name = secrets.token_hex(8)
        self._path = folder / f"{self.name}{_ENDING}"
        self._descriptor: int | None = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(self._descriptor, fcntl.LOCK_EX)

    def others(self) -> list[str]:
        """The names of all others that are there. Files of those that were killed are removed."""
        found = []
        for path in self._folder.glob(f"*{_ENDING}"):
            if path == self._path:
                continue
            if is_locked(path):
                found.append(path.name.removesuffix(_ENDING))
            else:
                with contextlib.suppress(OSError):
                    path.unlink(missing_ok=True)
        return found

    def leave(self) -> None:
        """Is not there any longer. A second call does nothing."""
        if self._descriptor is not None:
            self._path.unlink(missing_ok=True)
            os.close(self._descriptor)
            self._descriptor = None


def is_locked(path: Path) -> bool:
    """Whether somebody holds the lock of this file, which may not be there."""
    try:
        descriptor = os.open(path, os.O_RDWR)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False
