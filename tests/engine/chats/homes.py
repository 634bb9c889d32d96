"""The data folders of the chats' tests: whether their database is sound, and a clock for their stores."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

DAY = 86_400.0


class Clock:
    """A clock that a test sets. Each reading advances it by a millisecond, so that no two times are equal."""

    def __init__(self) -> None:
        self.now = 1_795_000_000.0

    def __call__(self) -> float:
        self.now += 0.001
        return self.now


def database(home: Path) -> contextlib.closing[sqlite3.Connection]:
    """A connection to the database of a data folder, beside those of the stores. Each statement is committed at once."""
    return contextlib.closing(sqlite3.connect(home / "chats" / "chats.db", isolation_level=None))


def is_sound(home: Path) -> bool:
    """Returns whether SQLite finds no damage in the file of a data folder, by its own integrity check."""
    with database(home) as rows:
        is_whole = rows.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        return is_whole and not list(rows.execute("PRAGMA foreign_key_check"))
