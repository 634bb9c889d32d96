"""Checks the chat database with SQLite's own integrity check."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path


def is_sound(home: Path) -> bool:
    """Returns whether SQLite finds no damage in the file of a data folder."""
    with contextlib.closing(sqlite3.connect(home / "chats" / "chats.db")) as connection:
        return connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)] and not list(
            connection.execute("PRAGMA foreign_key_check")
        )
