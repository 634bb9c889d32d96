"""Who has the chats open, and which conversation each may change: locked files, whose locks the system drops even for a process
that was killed.

A number of a process could be given to another one; a lock cannot.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
from pathlib import Path

_ENDING, _HOLD_ENDING = ".lock", ".chat"


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


class Hold:
    """The right to change one conversation, until another is taken or the right is released. At most one process has it."""

    def __init__(self, folder: Path) -> None:
        """`folder`: that of `Presence`, which has to be there."""
        self._folder = folder
        self._held: tuple[int, int] | None = None  # conversation, descriptor of its locked file

    def take(self, conversation: int | None) -> bool:
        """Takes a conversation in place of the one before; False where another process has it. None only releases.

        Raises OSError where no file can be made or locked.
        """
        if self._held is not None and self._held[0] == conversation:
            return True
        self.release()
        if conversation is None:
            return True
        path = self._path(conversation)
        while True:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                os.close(descriptor)
                if isinstance(error, BlockingIOError):
                    return False
                raise
            if _is_file_of(descriptor, path):
                self._held = conversation, descriptor
                return True
            os.close(descriptor)  # whoever had it has just removed the file

    def is_elsewhere(self, conversation: int) -> bool:
        """Whether another process has a conversation."""
        return (self._held is None or self._held[0] != conversation) and is_locked(self._path(conversation))

    def release(self) -> None:
        """Has none any longer."""
        if self._held is not None:
            conversation, descriptor = self._held
            self._path(conversation).unlink(missing_ok=True)
            os.close(descriptor)
            self._held = None

    def _path(self, conversation: int) -> Path:
        return self._folder / f"{conversation}{_HOLD_ENDING}"


def _is_file_of(descriptor: int, path: Path) -> bool:
    """Whether a path still leads to an open file."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except OSError:
        return False


def how_many(folder: Path) -> int:
    """How many have the chats open whose presence is noted in a folder, which need not be there."""
    return sum(is_locked(path) for path in folder.glob(f"*{_ENDING}"))


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
