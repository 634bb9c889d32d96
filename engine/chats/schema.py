"""The tables of the database, and the migrations from earlier versions.

A new version of the tables is a new entry at the end of `MIGRATIONS`; released entries are never changed. A file of an earlier
version is backed up first; then all pending migrations run in one transaction.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

Migration = str | Callable[[sqlite3.Connection], None]
"""SQL statements, or a function that changes the tables."""

_FIRST = """
CREATE TABLE conversations (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    title TEXT NOT NULL DEFAULT '',
    named INTEGER NOT NULL DEFAULT 0,
    created REAL NOT NULL,
    updated REAL NOT NULL,
    pinned INTEGER NOT NULL DEFAULT 0,
    folder TEXT NOT NULL DEFAULT '',
    settings TEXT NOT NULL DEFAULT '{}',
    shown INTEGER,
    origin TEXT NOT NULL DEFAULT '',
    deleted REAL
);
CREATE TABLE traces (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    bytes INTEGER NOT NULL DEFAULT 0,
    packed INTEGER NOT NULL DEFAULT 0,
    created REAL NOT NULL
);
CREATE TABLE messages (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    conversation INTEGER NOT NULL REFERENCES conversations (id) ON DELETE CASCADE,
    parent INTEGER REFERENCES messages (id) DEFERRABLE INITIALLY DEFERRED,
    role TEXT NOT NULL,
    text TEXT NOT NULL,
    created REAL NOT NULL,
    state TEXT NOT NULL DEFAULT 'complete',
    made TEXT,
    trace INTEGER REFERENCES traces (id) ON DELETE SET NULL,
    continues INTEGER REFERENCES messages (id) ON DELETE SET NULL,
    shown INTEGER,
    writer TEXT,
    deleted REAL,
    deleted_with INTEGER
);
CREATE TABLE facts (
    name TEXT PRIMARY KEY,
    value TEXT NOT NULL
);
CREATE INDEX conversations_in_order ON conversations (deleted, pinned DESC, updated DESC);
CREATE INDEX conversations_by_origin ON conversations (origin) WHERE origin <> '';
CREATE INDEX messages_of_conversations ON messages (conversation);
CREATE INDEX messages_by_parent ON messages (parent);
CREATE INDEX messages_by_trace ON messages (trace) WHERE trace IS NOT NULL;
CREATE INDEX messages_by_continued ON messages (continues) WHERE continues IS NOT NULL;
CREATE INDEX messages_being_written ON messages (writer) WHERE writer IS NOT NULL;
CREATE INDEX messages_deleted ON messages (deleted) WHERE deleted IS NOT NULL;
"""

MIGRATIONS: list[Migration] = [_FIRST]
"""Entry i migrates from version i to i + 1. The version of a file is its `user_version`."""


def version_of(connection: sqlite3.Connection) -> int:
    """Returns the version of the tables; 0 for a file without tables."""
    return connection.execute("PRAGMA user_version").fetchone()[0]


def migrate(connection: sqlite3.Connection) -> None:
    """Migrates the tables to the current version. A transaction must be open."""
    for migration in MIGRATIONS[version_of(connection) :]:
        if callable(migration):
            migration(connection)
        else:
            _run(connection, migration)
    connection.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")


# Earlier versions had an index of words in further tables.

_OLD_INDEX_TABLES = ("titles", "words")
_OLD_INDEX_TRIGGERS = tuple(f"{table}_{event}" for table in _OLD_INDEX_TABLES for event in ("insert", "delete", "update"))
_HAS_FTS5 = "EXISTS (SELECT 1 FROM pragma_module_list WHERE name = 'fts5')"


def old_index_statements(connection: sqlite3.Connection) -> list[str]:
    """Returns the statements that remove the old index. Without FTS5, SQLite can only drop the triggers that fill its tables."""
    objects = connection.execute(f"SELECT name, type FROM sqlite_master WHERE type = 'trigger' OR {_HAS_FTS5} ORDER BY type DESC")
    return [f"DROP {kind} {name}" for name, kind in objects if name in _OLD_INDEX_TRIGGERS + _OLD_INDEX_TABLES]


# The table of unsent texts does not raise the version, so that earlier versions, which ignore it, can still open the file.

_UNSENT = """
CREATE TABLE IF NOT EXISTS unsent (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    conversation INTEGER REFERENCES conversations (id) ON DELETE CASCADE,
    prompt INTEGER REFERENCES messages (id) ON DELETE CASCADE,
    text TEXT NOT NULL,
    writer TEXT,
    changed REAL NOT NULL
);
"""


def has_unsent(connection: sqlite3.Connection) -> bool:
    """Returns whether the table of unsent texts exists."""
    return bool(connection.execute("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'unsent'").fetchone())


def make_unsent(connection: sqlite3.Connection) -> None:
    """Creates the table of unsent texts if it is missing. A transaction must be open."""
    _run(connection, _UNSENT)


def _run(connection: sqlite3.Connection, statements: str) -> None:
    """Runs statements one by one, because `executescript` would end the transaction."""
    pending = ""
    for line in statements.splitlines(keepends=True):
        pending += line
        if sqlite3.complete_statement(pending):
            connection.execute(pending)
            pending = ""
