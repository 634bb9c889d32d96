"""Atomic writing of files: settings, exports, records and weights are all written with this module.

A new file is created next to its destination, synced to the disk and moved there in one step. If the process is killed, either
the old file or the new one is there.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import secrets
import stat
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import BinaryIO

from engine.values.errors import DraftlightError

Content = str | bytes | Callable[[BinaryIO], object]
"""Content of a file: text (written as UTF-8), bytes, or a function that writes to the open file."""
PRIVATE = 0o600
DISK_FULL = (errno.ENOSPC, errno.EDQUOT)
UNKNOWN = (errno.ENOTSUP, errno.EINVAL, errno.ENOTTY)
"""Error numbers that say that a file system does not support an operation."""


class NotWritten(DraftlightError, OSError):
    """A file could not be written, and nothing has changed. `errno` and `strerror` are the system's.

    It is also an OSError, so callers that handle a full disk need no special case.
    """

    def __str__(self) -> str:
        return str(self.args[0])


def sync_to_disk(descriptor: int) -> None:
    """Syncs a file to the disk itself, so that it survives a power failure. Raises OSError."""
    if sys.platform == "darwin":
        # On macOS, fsync leaves data in the disk's write cache. Some drives, such as network drives, support only fsync.
        try:
            fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
            return
        except OSError as error:
            if error.errno not in UNKNOWN:
                raise
    os.fsync(descriptor)


def write_whole(path: Path, content: Content, private: bool = False, durable: bool = True) -> None:
    """Writes a file atomically: on failure the old one is unchanged. Arguments and errors as in `write_together`."""
    write_together({path: content}, private, durable)


def write_together(files: Mapping[Path, Content], private: bool = False, durable: bool = True) -> None:
    """Writes files that belong together: replaces none before all of them are on the disk.

    A symbolic link is kept, and its destination is replaced. A file keeps its permissions. Devices and other special files are
    refused. Missing folders are created.

    Args:
        private: makes the files readable for the user alone, whatever their permissions were.
        durable: False on a Mac leaves the data in the disk's write cache, for files that are written often and are no great
            loss. Flushing that cache can take long and would block a window.

    Raises:
        NotWritten: a file cannot be written, because of a full disk, say. Then no file has changed, and nothing is left behind.
    """
    pending: list[tuple[Path, Path]] = []
    path = Path()
    try:
        for path, content in files.items():
            destination = _resolved_path(path)
            temporary = destination.with_name(f".{destination.name[:50]}-{secrets.token_hex(4)}")
            pending.append((temporary, destination))
            _write(temporary, content, PRIVATE if private else _permissions(destination), sync_to_disk if durable else os.fsync)
        while pending:
            temporary, destination = pending[0]
            path = destination  # for the message if the next line fails
            os.replace(temporary, destination)
            pending.pop(0)
    except (OSError, ValueError) as error:  # an impossible file name raises ValueError
        raise _explained(path, error) from error
    finally:
        for temporary, _ in pending:
            with contextlib.suppress(OSError, ValueError):
                temporary.unlink(missing_ok=True)


def _explained(path: Path, error: OSError | ValueError) -> NotWritten:
    number, reason = getattr(error, "errno", None), getattr(error, "strerror", None) or str(error)
    advice = "Free some disk space and try again." if number in DISK_FULL else "Choose another folder or name."
    result = NotWritten(f"{path} cannot be written: {reason}. {advice}")
    result.errno, result.strerror = number, reason
    return result


def _resolved_path(path: Path) -> Path:
    """Resolves links in a path and creates its folder. Raises OSError or ValueError."""
    destination = Path(os.path.realpath(path))
    if os.path.isdir(destination):
        raise IsADirectoryError(None, "it is a folder")
    if destination.is_symlink() or (os.path.exists(path) and not os.path.isfile(path)):
        raise OSError(None, "it is a device, a pipe or a link to itself, not a file")
    try:
        destination.parent.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise NotADirectoryError(None, "part of the path is a file, not a folder") from None
    return destination


def _permissions(destination: Path) -> int | None:
    """Returns the permissions of an existing file; None for a new one, for which the umask decides."""
    try:
        return stat.S_IMODE(destination.stat().st_mode)
    except FileNotFoundError:
        return None


def _write(path: Path, content: Content, permissions: int | None, sync: Callable[[int], None]) -> None:
    """Writes a new file and syncs it with `sync`. Half a surrogate pair, which UTF-8 cannot encode, becomes an escape."""
    if isinstance(content, str):
        content = content.encode("utf-8", errors="backslashreplace")
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
    with os.fdopen(os.open(path, flags, 0o666 if permissions is None else permissions & 0o700), "wb") as file:
        if isinstance(content, bytes):
            file.write(content)
        else:
            content(file)
        if permissions is not None:
            os.fchmod(file.fileno(), permissions)
        file.flush()
        sync(file.fileno())
