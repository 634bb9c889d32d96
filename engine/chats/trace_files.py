"""The traces: files beside the database, compressed once their answer has ended, deleted when they have been kept for long
enough. Most belong to messages, and go with the last of them; others are of comparisons and other runs."""

from __future__ import annotations

import contextlib
import gzip
import itertools
import os
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from engine.chats.database import Database
from engine.chats.values import Retention
from engine.files.whole_file import NotWritten, write_whole
from engine.trace import PACKED, has_summary, named_at, trace_name

DAY = 86_400.0
_LEVEL = 6
_IN_USE = "EXISTS (SELECT 1 FROM messages m WHERE m.trace = traces.id AND m.writer IS NOT NULL)"


@dataclass(frozen=True, slots=True)
class _Kept:
    """A trace: its row in the database, None where no message refers to it, and whether an answer may still add to it."""

    number: int | None
    name: str
    bytes: int
    created: float
    packed: bool
    in_use: bool


class TraceFiles:
    """The folder of the traces and what the database knows of them.

    A trace is known by its file's name, or by its whole path where it lies elsewhere; a file elsewhere is never touched. Nor is
    one in the folder that the database does not know, unless it has a name that Draftlight gives.
    """

    def __init__(self, folder: Path, database: Database, clock: Callable[[], float]) -> None:
        self.folder = folder
        self._database = database
        self._clock = clock

    def new_path(self) -> Path:
        """A path for a new trace; names sort by time."""
        return self.folder / trace_name(datetime.fromtimestamp(self._clock(), UTC))

    def place(self, name: str) -> Path:
        """Where the trace of this name lies."""
        return self.folder / name

    def name(self, path: str) -> str:
        """What a trace is known by."""
        place = Path(path)
        return place.name if place.parent == self.folder else path

    def size(self, path: str) -> int:
        """What a trace takes on the disk, compressed or not; 0 where it is not there."""
        return _size(self.place(self.name(path)))

    def known(self, path: str, created: float) -> int:
        """Number of a trace, which is noted down if it is new; its size is measured again."""
        name = self.name(path)
        with self._database.writing() as rows:
            rows.execute(
                "INSERT INTO traces (name, bytes, created) VALUES (?, ?, ?) "
                "ON CONFLICT (name) DO UPDATE SET bytes = excluded.bytes",
                (name, _size(self.place(name)), created),
            )
            return int(rows.execute("SELECT id FROM traces WHERE name = ?", [name]).fetchone()[0])

    def names(self) -> set[str]:
        """The names of all traces that messages refer to."""
        with self._database.reading() as rows:
            return {row[0] for row in rows.execute("SELECT name FROM traces")}

    def bytes(self, conversation: int | None = None) -> int:
        """What the traces take on the disk: those of a conversation, or all, also those that no message refers to."""
        others = self.bytes_of_others() if conversation is None else 0
        with self._database.reading() as rows:
            if conversation is None:
                return others + int(rows.execute("SELECT coalesce(sum(bytes), 0) FROM traces").fetchone()[0])
            query = "SELECT coalesce(sum(bytes), 0) FROM traces WHERE id IN (SELECT trace FROM messages WHERE conversation = ?)"
            return int(rows.execute(query, [conversation]).fetchone()[0])

    def bytes_of_others(self) -> int:
        """What the traces take that no message refers to: of comparisons and other runs."""
        return sum(each.bytes for each in self._others())

    def bytes_by_conversation(self) -> dict[int, int]:
        """What the traces of each conversation take; those that several share count for each."""
        query = (
            "SELECT conversation, sum(bytes) FROM (SELECT DISTINCT m.conversation, m.trace, t.bytes FROM messages m "
            "JOIN traces t ON t.id = m.trace) GROUP BY conversation"
        )
        with self._database.reading() as rows:
            return {int(row[0]): int(row[1]) for row in rows.execute(query)}

    def tidy(self, retention: Retention, now: float, spared: Collection[Path] = ()) -> None:
        """Compresses the traces of answers that have ended, and deletes those that are too old, too many or unused.

        Args:
            now: seconds since 1970 by which they are too old.
            spared: those that conversations may still be made of.
        """
        self.delete_unused()
        found = self._all(now, spared)
        if retention.days is not None:
            limit = now - retention.days * DAY
            gone = self._delete(each for each in found if each.created < limit)
            found = [each for each in found if each not in gone]
        found = [self._compressed(each) for each in found]
        if retention.bytes is not None:
            with_newer = itertools.accumulate(each.bytes for each in found)
            self._delete(each for each, sum in zip(found, with_newer, strict=True) if sum > retention.bytes)

    def delete_unused(self) -> None:
        """Deletes the traces that no message refers to any longer."""
        self._delete(self._known("NOT EXISTS (SELECT 1 FROM messages m WHERE m.trace = traces.id)"))

    def _all(self, now: float, spared: Collection[Path]) -> list[_Kept]:
        """The newest first."""
        others = [
            replace(each, in_use=_may_grow(place, now))
            for each in self._others()
            if (place := self.place(each.name)) not in spared
        ]
        return sorted([*self._known("TRUE"), *others], key=lambda each: (each.created, each.number or 0), reverse=True)

    def _known(self, condition: str) -> list[_Kept]:
        with self._database.reading() as rows:
            query = f"SELECT id, name, bytes, created, packed, {_IN_USE} FROM traces WHERE {condition}"
            return [_Kept(*row) for row in rows.execute(query)]

    def _others(self) -> list[_Kept]:
        """Those that no message refers to, as if no answer added to them. What is there is looked up before what is known, as an
        answer that begins meanwhile becomes known."""
        found: dict[str, _Kept] = {}
        with contextlib.suppress(OSError), os.scandir(self.folder) as entries:
            for entry in entries:
                name = entry.name.removesuffix(PACKED)
                packed, created = name != entry.name, named_at(name)
                if created is None or not entry.is_file(follow_symlinks=False) or (packed and name in found):
                    continue
                with contextlib.suppress(OSError):  # it has just gone
                    found[name] = _Kept(None, name, entry.stat().st_size, created, packed, False)
        known = self.names()
        return [each for name, each in found.items() if name not in known]

    def _compressed(self, trace: _Kept) -> _Kept:
        """The trace, compressed if it may be and was not; as it is where that cannot be done now."""
        place = self.place(trace.name)
        if trace.packed or trace.in_use or (self._is_ours(trace.name) and not _pack(place)):
            return trace
        packed = replace(trace, packed=True, bytes=_size(place))
        if packed.number is not None:
            with self._database.writing() as rows:
                rows.execute("UPDATE traces SET packed = 1, bytes = ? WHERE id = ?", (packed.bytes, packed.number))
        return packed

    def _delete(self, found: Iterable[_Kept]) -> set[_Kept]:
        """Deletes the files first: a file that stays is still known. Returns what is gone."""
        gone = set()
        for each in found:
            if each.in_use:
                continue
            if self._is_ours(each.name):
                try:
                    for file in (self.place(each.name), _packed(self.place(each.name))):
                        file.unlink(missing_ok=True)
                except OSError:
                    continue
            if each.number is not None:
                with self._database.writing() as rows:
                    rows.execute("DELETE FROM traces WHERE id = ?", [each.number])
            gone.add(each)
        return gone

    def _is_ours(self, name: str) -> bool:
        """Whether Draftlight has written it: a file with a name of the user's own is theirs, also where it became a chat."""
        return self.place(name).parent == self.folder and named_at(name) is not None


def _packed(path: Path) -> Path:
    return path.with_name(path.name + PACKED)


def _pack(path: Path) -> bool:
    """Puts a compressed file in its place; False where that cannot be done now. `engine.trace.read` finds either."""
    try:
        if path.is_file():
            write_whole(_packed(path), gzip.compress(path.read_bytes(), _LEVEL, mtime=0))
            _packed(path).chmod(0o600)
            path.unlink()
    except (OSError, NotWritten):
        return False
    return True


def _may_grow(path: Path, now: float) -> bool:
    """Whether an answer may still add to a trace that no message refers to: it is not whole, and was added to in the last day."""
    try:
        return path.stat().st_mtime >= now - DAY and not has_summary(path)
    except FileNotFoundError:  # compressed
        return False
    except OSError:
        return True


def _size(path: Path) -> int:
    for place in (path, _packed(path)):
        with contextlib.suppress(OSError):
            return place.stat().st_size
    return 0
