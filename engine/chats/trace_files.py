"""The traces that messages refer to: files beside the database, compressed once their answer has ended, deleted when they have
been kept for long enough or belong to nothing any longer."""

from __future__ import annotations

import contextlib
import gzip
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from engine.chats.database import MOST, Database
from engine.chats.values import Retention
from engine.files.whole_file import NotWritten, write_whole
from engine.trace import PACKED, trace_name

DAY = 86_400.0
_LEVEL = 6
_IN_USE = "EXISTS (SELECT 1 FROM messages m WHERE m.trace = traces.id AND m.writer IS NOT NULL)"


class TraceFiles:
    """The folder of the traces and what the database knows of them.

    A trace is known by its file's name, or by its whole path where it lies elsewhere; a file elsewhere is never touched.
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
        """What the traces take on the disk: those of a conversation, or of all."""
        with self._database.reading() as rows:
            if conversation is None:
                return int(rows.execute("SELECT coalesce(sum(bytes), 0) FROM traces").fetchone()[0])
            query = "SELECT coalesce(sum(bytes), 0) FROM traces WHERE id IN (SELECT trace FROM messages WHERE conversation = ?)"
            return int(rows.execute(query, [conversation]).fetchone()[0])

    def bytes_by_conversation(self) -> dict[int, int]:
        """What the traces of each conversation take; those that several share count for each."""
        query = (
            "SELECT conversation, sum(bytes) FROM (SELECT DISTINCT m.conversation, m.trace, t.bytes FROM messages m "
            "JOIN traces t ON t.id = m.trace) GROUP BY conversation"
        )
        with self._database.reading() as rows:
            return {int(row[0]): int(row[1]) for row in rows.execute(query)}

    def tidy(self, retention: Retention, now: float) -> None:
        """Compresses the traces of answers that have ended, and deletes those that are too old, too many or unused.

        Args:
            now: seconds since 1970 by which they are too old.
        """
        self.delete_unused()
        if retention.days is not None:
            self._delete("created < ?", (now - retention.days * DAY,))
        self._compress()
        if retention.bytes is not None:
            sums = "SELECT id, sum(bytes) OVER (ORDER BY created DESC, id DESC) AS with_newer FROM traces"
            self._delete(f"id IN (SELECT id FROM ({sums}) WHERE with_newer > ?)", (min(retention.bytes, MOST),))

    def delete_unused(self) -> None:
        """Deletes the traces that no message refers to any longer."""
        self._delete("NOT EXISTS (SELECT 1 FROM messages m WHERE m.trace = traces.id)", ())

    def _compress(self) -> None:
        with self._database.reading() as rows:
            waiting = [
                (row["id"], row["name"]) for row in rows.execute(f"SELECT * FROM traces WHERE NOT packed AND NOT {_IN_USE}")
            ]
        for number, name in waiting:
            place = self.place(name)
            if self._is_ours(name) and not _pack(place):
                continue
            with self._database.writing() as rows:
                rows.execute("UPDATE traces SET packed = 1, bytes = ? WHERE id = ?", (_size(place), number))

    def _delete(self, condition: str, values: tuple[object, ...]) -> None:
        """Deletes the files first: a file that stays is still known."""
        with self._database.reading() as rows:
            query = f"SELECT * FROM traces WHERE {condition} AND NOT {_IN_USE}"
            found = [(row["id"], row["name"]) for row in rows.execute(query, values)]
        for number, name in found:
            if self._is_ours(name):
                try:
                    for file in (self.place(name), _packed(self.place(name))):
                        file.unlink(missing_ok=True)
                except OSError:
                    continue
            with self._database.writing() as rows:
                rows.execute("DELETE FROM traces WHERE id = ?", [number])

    def _is_ours(self, name: str) -> bool:
        return self.place(name).parent == self.folder


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


def _size(path: Path) -> int:
    for place in (path, _packed(path)):
        with contextlib.suppress(OSError):
            return place.stat().st_size
    return 0
