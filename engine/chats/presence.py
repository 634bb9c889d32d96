"""Lock files that show which processes have the chats open, and which process may change each conversation.

The system releases a file lock even if its process is killed. Process ids are unsuitable because the system reuses them.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
from pathlib import Path

_ENDING, _HOLD_ENDING = ".lock", ".chat"


class Presence:
    """Registration of a process that has the chats open, until `leave`.

    Attributes:
        name: random identifier, stored in a message as its writer while its answer is being written.
    """

    def __init__(self, folder: Path) -> None:
        """Raises OSError if the lock file cannot be created."""
        folder.mkdir(mode=0o700, exist_ok=True)
        self._folder = folder
        self.name = secrets.token_hex(8)
        self._path = folder / f"{self.name}{_ENDING}"
        self._descriptor: int | None = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(self._descriptor, fcntl.LOCK_EX)

    def others(self) -> list[str]:
        """Returns the names of all other registrations. Removes the files of processes that were killed."""
        names = []
        for path in self._folder.glob(f"*{_ENDING}"):
            if path == self._path:
                continue
            if is_locked(path):
                names.append(path.name.removesuffix(_ENDING))
            else:
                with contextlib.suppress(OSError):
                    path.unlink(missing_ok=True)
        return names

    def leave(self) -> None:
        """Removes the registration. A second call does nothing."""
        if self._descriptor is not None:
            self._path.unlink(missing_ok=True)
            os.close(self._descriptor)
            self._descriptor = None


class Hold:
    """Exclusive lock on one conversation, held until another is taken or it is released."""

    def __init__(self, folder: Path) -> None:
        """`folder`: the folder of `Presence`, which must exist."""
        self._folder = folder
        self._held: tuple[int, int] | None = None  # conversation, descriptor of its locked file

    def take(self, conversation: int | None) -> bool:
        """Releases the current conversation and locks another; None only releases.

        The lock is advisory: a process that does not hold a conversation must not change it. If no lock can be created, on a full
        disk for example, the conversation may be changed anyway.

        Returns:
            False if another process holds the conversation.
        """
        try:
            return self._take(conversation)
        except OSError:
            return True

    def _take(self, conversation: int | None) -> bool:
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
            os.close(descriptor)  # its previous holder has just removed the file

    def is_elsewhere(self, conversation: int) -> bool:
        """Returns whether another process holds the lock of a conversation."""
        return (self._held is None or self._held[0] != conversation) and is_locked(self._path(conversation))

    def release(self) -> None:
        """Releases the lock, if one is held."""
        if self._held is not None:
            conversation, descriptor = self._held
            self._path(conversation).unlink(missing_ok=True)
            os.close(descriptor)
            self._held = None

    def _path(self, conversation: int) -> Path:
        return self._folder / f"{conversation}{_HOLD_ENDING}"


def _is_file_of(descriptor: int, path: Path) -> bool:
    """Returns whether a path still names the file of an open descriptor."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except OSError:
        return False


def count_registrations(folder: Path) -> int:
    """Returns the number of registrations in a folder, which need not exist."""
    return sum(is_locked(path) for path in folder.glob(f"*{_ENDING}"))


def is_locked(path: Path) -> bool:
    """Returns whether the file is locked. It need not exist."""
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
