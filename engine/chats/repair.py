"""Repairs a damaged chat database: renames it, and builds a new one from every row that can be read.

The new file is created next to the old one and moved into place in one step at the end. If the process is killed, either the
damaged file or the complete new one is there.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from engine.chats.database import PAGE, Database, readable
from engine.chats.schema import has_unsent
from engine.chats.values import ROLES, STATES, UNTITLED
from engine.rounds.trace import read
from engine.values.errors import DraftlightError
from engine.values.wording import amount

_HEADER = 100
_BEYOND = 1_000
"""Row ids to try after the last readable row if the highest one is unknown."""
_UNREADABLE = "(This message could not be read.)"
_log = logging.getLogger(__name__)

Row = dict[str, Any]


def repair(path: Path, traces: Path) -> str:
    """Replaces a damaged file by a new one and returns a message for the user. No process may have the file open.

    Args:
        traces: folder of the traces, from which unreadable prompts are recovered.
    """
    rebuilt, unfinished = _rebuilt(path), path.with_suffix(".part")
    for leftover in _database_files(unfinished):
        leftover.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        tables, lost = _read(path, Path(folder))
    messages = _complete(tables, traces)
    with contextlib.closing(Database(unfinished, wait=0)) as database:
        with database.writing() as rows:
            for table, readable in tables.items():
                _insert(rows, table, readable)
        database.tidy()
    os.replace(unfinished, rebuilt)
    old_copy = path.with_name(f"{path.stem}-damaged-{time.strftime('%Y%m%d-%H%M%S')}.db")
    for source, destination in zip(
        _database_files(path)[::-1], _database_files(old_copy)[::-1], strict=True
    ):  # the WAL first: it must never meet another file
        if source.exists():
            os.replace(source, destination)
    finish(path)
    os.utime(old_copy)  # its age counts from now, until `ChatStore.tidy` removes it
    missing = f" {amount(lost, 'entry', 'entries')} could not be read." if lost else ""
    return (
        f"The chats were damaged and have been rebuilt: {amount(len(tables['conversations']), 'conversation')} with "
        f"{amount(messages, 'message')} "
        f"could be read.{missing} The damaged file is kept as {old_copy}."
    )


def finish(path: Path) -> None:
    """Moves a finished new file into place if the process that made it was killed before it could."""
    if not path.exists() and _rebuilt(path).exists():
        os.replace(_rebuilt(path), path)


def _rebuilt(path: Path) -> Path:
    return path.with_suffix(".rebuilt")


def _database_files(path: Path) -> list[Path]:
    """Returns the paths of an SQLite database and of its shared-memory and WAL files."""
    return [path, path.with_name(f"{path.name}-shm"), path.with_name(f"{path.name}-wal")]


def _read(path: Path, folder: Path) -> tuple[dict[str, list[Row]], int]:
    """Returns the readable rows of each table, from a copy of the file, and the number of unreadable ones."""
    copy = folder / "copy.db"
    for old, new in zip(_database_files(path), _database_files(copy), strict=True):
        if old.exists() and not old.name.endswith("-shm"):
            shutil.copy(old, new)
    tables: dict[str, list[Row]] = {"conversations": [], "traces": [], "messages": [], "facts": [], "unsent": []}
    lost = 0
    if not _can_be_opened(copy):
        _mend_header(copy, folder)
    try:
        with contextlib.closing(sqlite3.connect(copy, isolation_level=None)) as connection:
            connection.row_factory = sqlite3.Row
            connection.text_factory = readable
            for table, found in tables.items():
                if table == "unsent" and not has_unsent(connection):
                    continue  # an earlier version's
                for row in _rows(connection, table):
                    if row is not None and _is_plausible(table, row):
                        found.append(row)
                    else:
                        lost += 1
    except sqlite3.Error as error:
        _log.warning("Nothing more of %s can be read: %s", path, error)
    return tables, lost


def _can_be_opened(path: Path) -> bool:
    try:
        with contextlib.closing(sqlite3.connect(path)) as connection:
            connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except sqlite3.Error:
        return False
    return True


def _mend_header(path: Path, folder: Path) -> None:
    """Replaces the header of the database by that of a new one with the same number of pages."""
    new = folder / "new.db"
    Database(new, wait=0).close()
    header = bytearray(new.read_bytes()[:_HEADER])
    header[28:32] = (path.stat().st_size // PAGE).to_bytes(4, "big")
    header[32:40] = bytes(8)  # no free pages
    with path.open("r+b") as file:
        file.write(header)


def _rows(connection: sqlite3.Connection, table: str) -> Iterator[Row | None]:
    """Yields the rows of a table, None for each that cannot be read. After damage, reads the rest row by row, by row id."""
    last = 0
    try:
        for row in connection.execute(f"SELECT rowid AS place, * FROM {table} NOT INDEXED ORDER BY rowid"):
            yield dict(row)
            last = row["place"]
        return
    except sqlite3.Error as error:
        _log.warning("The table %s is damaged behind row %d: %s", table, last, error)
    for number in range(last + 1, _highest(connection, table, last) + 1):
        try:
            found = connection.execute(f"SELECT rowid AS place, * FROM {table} NOT INDEXED WHERE rowid = ?", [number]).fetchone()
        except sqlite3.Error:
            yield None
        else:
            if found is not None:
                yield dict(found)


def _highest(connection: sqlite3.Connection, table: str, last: int) -> int:
    for query in (f"SELECT max(seq) FROM sqlite_sequence WHERE name = '{table}'", f"SELECT max(rowid) FROM {table}"):
        with contextlib.suppress(sqlite3.Error, TypeError):
            return int(connection.execute(query).fetchone()[0])
    return last + _BEYOND


_KINDS: dict[str, dict[str, type | tuple[type, ...]]] = {
    "conversations": {"id": int, "title": str, "created": (int, float), "updated": (int, float), "settings": str},
    "traces": {"id": int, "name": str, "created": (int, float)},
    "messages": {"id": int, "conversation": int, "role": str, "text": str, "created": (int, float), "state": str},
    "facts": {"name": str, "value": str},
    "unsent": {"id": int, "text": str, "changed": (int, float)},
}


def _is_plausible(table: str, row: Row) -> bool:
    """Returns whether a row's values have the right types, and role and state of a message are possible."""
    if not all(isinstance(row.get(name), kind) for name, kind in _KINDS[table].items()):
        return False
    return table != "messages" or (row["role"] in ROLES and row["state"] in STATES)


def _complete(tables: dict[str, list[Row]], traces: Path) -> int:
    """Adds substitutes for missing rows that others refer to, or clears the references. Returns the number of real messages."""
    messages = {row["id"]: row for row in tables["messages"]}
    conversations = {row["id"]: row for row in tables["conversations"]}
    names = {row["id"]: row["name"] for row in tables["traces"]}
    real = len(messages)
    for row in list(messages.values()):
        if row["conversation"] not in conversations:
            conversations[row["conversation"]] = {
                "id": row["conversation"],
                "title": f"{UNTITLED} (recovered)",
                "created": row["created"],
                "updated": row["created"],
                "settings": "{}",
            }
        if row.get("trace") not in names:
            row["trace"] = None
        if row.get("continues") not in messages:
            row["continues"] = None
        if row["parent"] is not None and row["parent"] not in messages:
            messages[row["parent"]] = {
                "id": row["parent"],
                "conversation": row["conversation"],
                "role": "user" if row["role"] == "assistant" else "assistant",
                "text": _prompt_of(traces / names[row["trace"]]) if row["trace"] is not None else _UNREADABLE,
                "created": row["created"],
                "state": "complete",
                "parent": None,
            }
    for row in tables["unsent"]:
        if row["conversation"] not in conversations:
            row["conversation"] = None
        if row["prompt"] not in messages:
            row["prompt"] = None
    tables["messages"] = [messages[number] for number in sorted(messages)]
    tables["conversations"] = [conversations[number] for number in sorted(conversations)]
    return real


def _prompt_of(trace: Path) -> str:
    """Returns the prompt of an answer, from its trace."""
    try:
        asked = read(trace).messages
    except DraftlightError:
        asked = []
    return asked[-1][1] if asked else _UNREADABLE


def _insert(rows: sqlite3.Connection, table: str, readable: list[Row]) -> None:
    existing = {row["name"] for row in rows.execute(f"SELECT name FROM pragma_table_info('{table}')")}
    for row in readable:
        columns = [name for name in row if name in existing]
        placeholders = ", ".join("?" * len(columns))
        rows.execute(
            f"INSERT OR IGNORE INTO {table} ({', '.join(columns)}) VALUES ({placeholders})", [row[column] for column in columns]
        )
