"""Files that are there whole or not at all: the one way in which settings, exports, records and weights are written.

A new file is made beside its place, forced to the disk and moved there in one step, so whoever is killed on the way leaves the
old file or the new one.
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
"""What is to stand in a file: text (UTF-8), bytes, or a function that writes them to the open file."""
PRIVATE = 0o600
DISK_FULL = (errno.ENOSPC, errno.EDQUOT)
UNKNOWN = (errno.ENOTSUP, errno.EINVAL, errno.ENOTTY)
"""What is asked for is nothing that this disk knows."""


class NotWritten(DraftlightError, OSError):
    """A file could not be written, and nothing has changed. `errno` and `strerror` are the system's.

    It is also an OSError, so whoever expects one of a full disk need not know who wrote.
    """

    def __str__(self) -> str:
        return str(self.args[0])


def force(descriptor: int) -> None:
    """Have the disk itself hold what was written to a file, so that a power failure loses none of it. Raises OSError."""
    if sys.platform == "darwin":
        # There fsync leaves it in the disk's write cache. Network drives, for one, may know no more than that.
        try:
            fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
            return
        except OSError as error:
            if error.errno not in UNKNOWN:
                raise
    os.fsync(descriptor)


def write_whole(path: Path, content: Content, private: bool = False, lasting: bool = True) -> None:
    """Put the whole file in place in one step, or leave what was there. Arguments and errors as in `write_together`."""
    write_together({path: content}, private, lasting)


def write_together(files: Mapping[Path, Content], private: bool = False, lasting: bool = True) -> None:
    """Put files in place that belong together: none is touched before all of them are on the disk.

    A link stays a link: what it leads to is replaced, in its own folder. A file keeps its permissions. What is neither a file nor
    new, as a device, is refused. Folders on the way are made. Private files can be read by the user alone, whatever they were.
    What is not `lasting`, since it is written often and is no great loss, is left in the write cache of a Mac's disk: to empty
    that can take long, and a window would wait for it.

    Raises:
        NotWritten: one cannot be written, because of a full disk, say; then nothing has changed and nothing is left behind.
    """
    staged: list[tuple[Path, Path]] = []
    path = Path()
    try:
        for path, content in files.items():
            place = _place(path)
            temporary = place.with_name(f".{place.name[:50]}-{secrets.token_hex(4)}")
            staged.append((temporary, place))
            _write(temporary, content, PRIVATE if private else _permissions(place), force if lasting else os.fsync)
        while staged:
            temporary, place = staged[0]
            path = place  # that is what fails, if anything does
            os.replace(temporary, place)
            staged.pop(0)
    except (OSError, ValueError) as error:  # a name that no file can have is a ValueError
        raise _explained(path, error) from error
    finally:
        for temporary, _ in staged:
            with contextlib.suppress(OSError, ValueError):
                temporary.unlink(missing_ok=True)


def _explained(path: Path, error: OSError | ValueError) -> NotWritten:
    number, reason = getattr(error, "errno", None), getattr(error, "strerror", None) or str(error)
    advice = "Free some disk space and try again." if number in DISK_FULL else "Choose another folder or name."
    explained = NotWritten(f"{path} cannot be written: {reason}. {advice}")
    explained.errno, explained.strerror = number, reason
    return explained


def _place(path: Path) -> Path:
    """Where a file of this name really lies; its folder is there afterwards. Raises OSError or ValueError."""
    place = Path(os.path.realpath(path))
    if os.path.isdir(place):
        raise IsADirectoryError(None, "it is a folder")
    if place.is_symlink() or (os.path.exists(path) and not os.path.isfile(path)):
        raise OSError(None, "it is a device, a pipe or a link to itself, not a file")
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise NotADirectoryError(None, "part of the path is a file, not a folder") from None
    return place


def _permissions(place: Path) -> int | None:
    """Those of the file that is there; None for a new one, which gets what the user's mask gives."""
    try:
        return stat.S_IMODE(place.stat().st_mode)
    except FileNotFoundError:
        return None


def _write(path: Path, content: Content, permissions: int | None, forced: Callable[[int], None]) -> None:
    """A new file, forced to the disk in this way. Half a surrogate pair, which UTF-8 cannot hold, becomes an escape."""
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
        forced(file.fileno())
