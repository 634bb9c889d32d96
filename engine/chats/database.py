"""The SQLite database of the chats: migration, transactions, and error messages for users.

It is in WAL mode, so readers never wait and several processes share the file. With `synchronous=NORMAL`, a killed process loses
nothing that was committed, and a power failure loses at most the last transactions; neither damages the file.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path

from engine.chats import schema
from engine.values.errors import DraftlightError
from engine.values.wording import noun

PAGE = 4096
MAX_INTEGER = 2**63 - 1
"""Largest integer of SQLite (64 bits, signed)."""
_CHECK_INTERVAL = 7 * 86_400.0


class ChatsDamaged(DraftlightError):
    """The database of the chats is damaged."""


class ChatsBusy(DraftlightError):
    """Another program kept the database locked until the timeout."""


class ChatsNotSaved(DraftlightError):
    """A change could not be written, and nothing has changed."""


class Database:
    """The open database. Thread-safe, with one lock."""

    def __init__(self, path: Path, wait: float) -> None:
        """Opens the file, or creates it, and migrates its tables.

        Raises:
            ChatsDamaged: the file is damaged.
            ChatsBusy: another program keeps it locked for more than `wait` seconds.
            DraftlightError: a later version wrote it, or it cannot be opened for another reason.
        """
        self.path = path
        self._wait = wait
        self._damage = path.with_suffix(".damaged")
        self._lock = threading.RLock()
        self._writing = False
        with self._with_messages():
            os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))  # SQLite gives its other files the same permissions
            self._connection = sqlite3.connect(path, timeout=wait, isolation_level=None, check_same_thread=False)
        try:
            with self._with_messages():
                self._set_up()
            self._migrate()
        except BaseException:
            self.close()
            raise

    def _set_up(self) -> None:
        execute = self._connection.execute
        self._connection.row_factory = sqlite3.Row
        self._connection.text_factory = readable
        execute(f"PRAGMA page_size = {PAGE}")
        execute("PRAGMA foreign_keys = ON")
        execute("PRAGMA secure_delete = ON")  # overwrites deleted content
        execute("PRAGMA temp_store = MEMORY")  # writes no text to temporary files
        is_wal = execute("PRAGMA journal_mode = WAL").fetchone()[0] == "wal"
        execute("PRAGMA fullfsync = ON")  # on macOS, where writes could otherwise stay in the disk's cache
        execute(f"PRAGMA synchronous = {'NORMAL' if is_wal else 'FULL'}")  # some network drives have no WAL

    def _migrate(self) -> None:
        with self.reading() as rows:
            version = schema.version_of(rows)
        if version > len(schema.MIGRATIONS):
            raise DraftlightError(
                f"The chats in {self.path} were written by a later version of Draftlight. Use that version, or set "
                "DRAFTLIGHT_HOME to another folder."
            )
        if 0 < version < len(schema.MIGRATIONS):
            self._back_up(version)
        if version < len(schema.MIGRATIONS):
            with self.writing() as rows:
                schema.migrate(rows)
        with self.reading() as rows:
            old_index, complete = schema.old_index_statements(rows), schema.has_unsent(rows)
        with contextlib.suppress(ChatsBusy, ChatsNotSaved):  # chats can be shown without these changes
            if old_index:
                with self.writing() as rows:
                    for statement in old_index:
                        rows.execute(statement)
            if not complete:
                with self.writing() as rows:
                    schema.make_unsent(rows)

    def _back_up(self, version: int) -> None:
        """Copies the file atomically to another name in the same folder."""
        destination = self.path.with_name(f"{self.path.stem}-before-version-{version + 1}.db")
        unfinished = destination.with_suffix(".part")
        unfinished.unlink(missing_ok=True)
        with self._with_messages():
            os.close(os.open(unfinished, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
            with contextlib.closing(sqlite3.connect(unfinished)) as copy:
                self._connection.backup(copy)
            os.replace(unfinished, destination)

    @contextlib.contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Opens a read transaction: everything read inside is one snapshot."""
        with self._lock, self._with_messages():
            if self._connection.in_transaction:
                yield self._connection
                return
            self._connection.execute("BEGIN")
            try:
                yield self._connection
            finally:
                self._end("ROLLBACK")

    @contextlib.contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Opens a write transaction: all changes inside are committed, or none. A nested one joins the outer one."""
        with self._lock, self._with_messages():
            if self._writing:
                yield self._connection
                return
            self._connection.execute("BEGIN IMMEDIATE")
            self._writing = True
            try:
                yield self._connection
                self._connection.execute("COMMIT")
            except BaseException:
                self._end("ROLLBACK")
                raise
            finally:
                self._writing = False

    def _end(self, how: str) -> None:
        """Ends the transaction, unless SQLite has ended it by itself, because the disk is full for example."""
        if self._connection.in_transaction:
            self._connection.execute(how)

    def changes(self) -> int:
        """Returns a number that differs after another process, or another Database, has changed the file."""
        with self._lock, self._with_messages():
            return self._connection.execute("PRAGMA data_version").fetchone()[0]

    def tidy(self) -> None:
        """Checkpoints the WAL and truncates it, as far as other readers allow."""
        with self._lock, contextlib.suppress(ChatsBusy), self._with_messages():
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def is_sound(self) -> bool:
        """Returns whether SQLite's quick check finds no damage. Reads the whole file."""
        with self._lock, contextlib.suppress(ChatsDamaged), self._with_messages():
            return [row[0] for row in self._connection.execute("PRAGMA quick_check(1)")] == ["ok"]
        return False

    def check(self, now: float) -> None:
        """Checks the file if the last check was at least a week ago, so that damage is found early.

        Raises:
            ChatsDamaged: the file is damaged; this is recorded for the next opening.
        """
        if now - _CHECK_INTERVAL < float(self.fact("checked") or 0) <= now:  # a time in the future came from a wrong clock
            return
        if not self.is_sound():
            with self._with_messages():
                self._damage.touch(0o600)
            raise _damaged(self.path, "found by a check")
        self.set_fact("checked", str(now))

    def fact(self, name: str) -> str:
        """Returns a named value from the table `facts`; empty if there is none."""
        with self.reading() as rows:
            row = rows.execute("SELECT value FROM facts WHERE name = ?", [name]).fetchone()
            return "" if row is None else str(row[0])

    def set_fact(self, name: str, value: str) -> None:
        """Stores a named value in the table `facts`."""
        with self.writing() as rows:
            rows.execute("INSERT OR REPLACE INTO facts (name, value) VALUES (?, ?)", (name, value))

    @property
    def was_damaged(self) -> bool:
        """Whether damage to the file is on record."""
        return self._damage.exists()

    def clear_damage(self) -> None:
        """Clears the record of damage."""
        with self._with_messages():
            self._damage.unlink(missing_ok=True)

    def close(self) -> None:
        """Closes the file. A second call does nothing."""
        with self._lock:
            connection = getattr(self, "_connection", None)
            if connection is not None:
                connection.close()

    @contextlib.contextmanager
    def _with_messages(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError, OverflowError) as error:
            message = explained(error, self.path, self._wait)
            if isinstance(message, ChatsDamaged):
                with contextlib.suppress(OSError):
                    self._damage.touch(0o600)
            raise message from error


def readable(content: bytes) -> str:
    """Decodes a text from the database. Replaces damaged characters, so that the others stay readable."""
    return content.decode("utf-8", errors="replace")


def clean(text: str) -> str:
    """Returns a text as UTF-8 can encode it: half a surrogate pair becomes an escape."""
    return text.encode("utf-8", errors="backslashreplace").decode()


def explained(error: Exception, path: Path, wait: float) -> DraftlightError:
    """Converts a failure of SQLite or of the system to an error with a message for the user."""
    if isinstance(error, DraftlightError):
        return error
    number = getattr(error, "sqlite_errorcode", 0) & 0xFF
    reason = getattr(error, "strerror", None) or str(error)
    if number in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return _damaged(path, reason)
    if number in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return ChatsBusy(
            f"Another program has kept the chats in {path} locked for {wait:g} {noun(wait, 'second')}. Nothing has "
            "changed. Try again; if it "
            "stays so, quit other programs that use this file."
        )
    if number == sqlite3.SQLITE_FULL:
        return ChatsNotSaved(
            f"The chats in {path} cannot be saved: the disk is full. Nothing has changed. Free some disk space and try again."
        )
    return ChatsNotSaved(
        f"The chats in {path} cannot be used: {reason}. Nothing has changed. Check that the folder can be written to, or set "
        "DRAFTLIGHT_HOME to another one."
    )


def _damaged(path: Path, reason: str) -> ChatsDamaged:
    return ChatsDamaged(
        f"The chats in {path} are damaged ({reason}). Quit every Draftlight and start it again: what can be read is kept."
    )
