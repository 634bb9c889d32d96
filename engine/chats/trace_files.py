"""Trace files: compressed once their answer has ended, deleted when the retention period is over.

Most belong to messages and are deleted with the last of them. Others come from comparisons and other runs."""

from __future__ import annotations

import contextlib
import gzip
import itertools
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from engine.chats.database import Database
from engine.chats.values import Retention, dumped, loaded
from engine.files.whole_file import NotWritten, write_whole
from engine.rounds.trace import PACKED, has_summary, named_at, trace_name, traces_in

DAY = 86_400.0
IMPORTED = "traces imported"
"""Name of the database entry that records that the traces of earlier versions were imported as conversations."""
_LEVEL = 6
_IN_USE = "EXISTS (SELECT 1 FROM messages m WHERE m.trace = traces.id AND m.writer IS NOT NULL)"


@dataclass(frozen=True, slots=True)
class _TraceFile:
    """A trace file.

    Attributes:
        number: its row in the database; None if no message refers to it.
        in_use: whether an answer may still append to it.
    """

    number: int | None
    name: str
    bytes: int
    created: float
    packed: bool
    in_use: bool


class TraceFiles:
    """The folder of traces and their rows in the database.

    A trace is identified by its file name, or by its whole path if it is outside the folder. Files outside the folder are never
    changed, nor are files inside it that the database does not list, unless their names have Draftlight's pattern.
    """

    def __init__(self, folder: Path, database: Database, clock: Callable[[], float]) -> None:
        self.folder = folder
        self._database = database
        self._clock = clock

    @property
    def retention(self) -> Retention:
        """The retention of traces; by default, all are kept forever."""
        value = loaded(self._database.fact("retention"))
        try:
            return Retention(**value) if isinstance(value, dict) else Retention()
        except (TypeError, ValueError):
            return Retention()

    @retention.setter
    def retention(self, chosen: Retention) -> None:
        self._database.set_fact("retention", dumped({"days": chosen.days, "bytes": chosen.bytes}))

    def to_import(self) -> list[Path]:
        """Returns the traces in the folder that belong to no conversation, if they have not been imported yet."""
        if self._database.fact(IMPORTED):
            return []
        known = self._names()
        return [path for path in traces_in(self.folder) if path.name not in known]

    def new_path(self) -> Path:
        """Returns a path for a new trace; names sort by time."""
        return self.folder / trace_name(datetime.fromtimestamp(self._clock(), UTC))

    def place(self, name: str) -> Path:
        """Returns the path of the trace with this name."""
        return self.folder / name

    def name(self, path: str) -> str:
        """Returns the name of a trace: its file name in the folder, else its whole path."""
        place = Path(path)
        return place.name if place.parent == self.folder else path

    def size(self, path: str) -> int:
        """Returns the bytes that a trace takes on disk, compressed or not; 0 if it does not exist."""
        return _size(self.place(self.name(path)))

    def known(self, path: str, created: float) -> int:
        """Returns the row id of a trace. Inserts it if it is new, else updates its size."""
        name = self.name(path)
        with self._database.writing() as rows:
            rows.execute(
                "INSERT INTO traces (name, bytes, created) VALUES (?, ?, ?) "
                "ON CONFLICT (name) DO UPDATE SET bytes = excluded.bytes",
                (name, _size(self.place(name)), created),
            )
            return int(rows.execute("SELECT id FROM traces WHERE name = ?", [name]).fetchone()[0])

    def _names(self) -> set[str]:
        with self._database.reading() as rows:
            return {row[0] for row in rows.execute("SELECT name FROM traces")}

    def bytes(self) -> int:
        """Returns the bytes on disk of all traces, including those that no message refers to."""
        others = self.bytes_of_unreferenced()
        with self._database.reading() as rows:
            return others + int(rows.execute("SELECT coalesce(sum(bytes), 0) FROM traces").fetchone()[0])

    def bytes_of_unreferenced(self) -> int:
        """Returns the bytes on disk of traces that no message refers to, such as those of comparisons."""
        return sum(each.bytes for each in self._unreferenced())

    def bytes_by_conversation(self) -> dict[int, int]:
        """Returns the bytes on disk of each conversation's traces; a shared trace counts for each."""
        query = (
            "SELECT conversation, sum(bytes) FROM (SELECT DISTINCT m.conversation, m.trace, t.bytes FROM messages m "
            "JOIN traces t ON t.id = m.trace) GROUP BY conversation"
        )
        with self._database.reading() as rows:
            return {int(row[0]): int(row[1]) for row in rows.execute(query)}

    def tidy(self, now: float) -> None:
        """Compresses the traces of answers that have ended, and deletes those that are unused or exceed the limits of age or
        size. Leaves traces alone that may still be imported as conversations.

        Args:
            now: time from which the age of traces is counted, in seconds since 1970.
        """
        retention = self.retention
        self.delete_unused()
        found = self._deletable(now)
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

    def _deletable(self, now: float) -> list[_TraceFile]:
        """Returns the traces of messages, and all others that will not be imported, newest first."""
        protected = self.to_import()
        others = [
            replace(each, in_use=_may_grow(index, now))
            for each in self._unreferenced()
            if (index := self.place(each.name)) not in protected
        ]
        return sorted([*self._known("TRUE"), *others], key=lambda each: (each.created, each.number or 0), reverse=True)

    def _known(self, condition: str) -> list[_TraceFile]:
        with self._database.reading() as rows:
            query = f"SELECT id, name, bytes, created, packed, {_IN_USE} FROM traces WHERE {condition}"
            return [_TraceFile(*row) for row in rows.execute(query)]

    def _unreferenced(self) -> list[_TraceFile]:
        """Returns the traces that no message refers to, with `in_use` False.

        The folder is listed before the database is read, because an answer that begins in between is added to the database.
        """
        traces: dict[str, _TraceFile] = {}
        with contextlib.suppress(OSError), os.scandir(self.folder) as entries:
            for entry in entries:
                name = entry.name.removesuffix(PACKED)
                packed, created = name != entry.name, named_at(name)
                if created is None or not entry.is_file(follow_symlinks=False) or (packed and name in traces):
                    continue
                with contextlib.suppress(OSError):  # it has just gone
                    traces[name] = _TraceFile(None, name, entry.stat().st_size, created, packed, False)
        known = self._names()
        return [each for name, each in traces.items() if name not in known]

    def _compressed(self, trace: _TraceFile) -> _TraceFile:
        """Compresses a trace that is not in use and returns its new state. Returns it unchanged if that is not possible now."""
        place = self.place(trace.name)
        if trace.packed or trace.in_use or (self._is_ours(trace.name) and not _pack(place)):
            return trace
        packed = replace(trace, packed=True, bytes=_size(place))
        if packed.number is not None:
            with self._database.writing() as rows:
                rows.execute("UPDATE traces SET packed = 1, bytes = ? WHERE id = ?", (packed.bytes, packed.number))
        return packed

    def _delete(self, traces: Iterable[_TraceFile]) -> set[_TraceFile]:
        """Deletes traces and returns those deleted. Files go before rows, so that a file that cannot be deleted keeps its row."""
        gone = set()
        for each in traces:
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
        """Returns whether Draftlight wrote the file. A file named by the user is the user's, even if it became a chat."""
        return self.place(name).parent == self.folder and named_at(name) is not None


def _packed(path: Path) -> Path:
    return path.with_name(path.name + PACKED)


def _pack(path: Path) -> bool:
    """Replaces a file by a compressed one; False if that is not possible now. `engine.rounds.trace.read` finds either."""
    try:
        if path.is_file():
            write_whole(_packed(path), gzip.compress(path.read_bytes(), _LEVEL, mtime=0))
            _packed(path).chmod(0o600)
            path.unlink()
    except (OSError, NotWritten):
        return False
    return True


def _may_grow(path: Path, now: float) -> bool:
    """Returns whether a trace may still grow: it has no summary, and its last change is less than a day ago."""
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
