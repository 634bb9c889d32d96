"""The store of conversations. The window and the command line access conversations only through `ChatStore`.

Regenerating and editing discard nothing: messages form a tree, and each stores which of its children is shown. Deleted
conversations and messages can be restored for `RESTORABLE_DAYS` days.
"""

from __future__ import annotations

import contextlib
import math
import sqlite3
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType

from engine.chats import search
from engine.chats.database import MAX_INTEGER, ChatsBusy, ChatsDamaged, ChatsNotSaved, Database, clean
from engine.chats.interrupted import IS_COMPARISON, conversations_of, end_interrupted
from engine.chats.presence import Hold, Presence, count_registrations
from engine.chats.repair import finish, repair
from engine.chats.trace_files import DAY, IMPORTED, TraceFiles
from engine.chats.unsent import UnsentTexts
from engine.chats.values import (
    UNTITLED,
    ChatSettings,
    ChatSummary,
    Conversation,
    Hit,
    Making,
    Role,
    State,
    StoredMessage,
    dumped,
    loaded,
    making_from_json,
    making_to_json,
    settings_from_json,
    settings_to_json,
    title_of,
)
from engine.files.lock import exclusive_lock
from engine.files.paths import data_folder
from engine.values.errors import DraftlightError

FILE = "chats.db"
RESTORABLE_DAYS = 30
"""Days for which deleted conversations and messages can be restored."""
_HOUR = DAY / 24

_MAX_TITLE = 200
_SUMMARY_COLUMNS = f"id, title, created, updated, pinned, folder, named, deleted, origin, {IS_COMPARISON}"
_ANSWERED = """
SELECT p.text FROM messages p WHERE p.conversation = ? AND p.role = 'user' AND p.deleted IS NULL
AND EXISTS (SELECT 1 FROM messages a WHERE a.parent = p.id AND a.role = 'assistant' AND a.deleted IS NULL
            AND NOT (a.state = 'failed' AND a.text = ''))
ORDER BY p.id LIMIT 1
"""
"""Selects the first prompt with an answer."""
_DELETABLE = ("conversations", "messages")
_SUBTREE = """
WITH RECURSIVE subtree (id) AS (
    SELECT ? UNION ALL SELECT m.id FROM messages m JOIN subtree s ON m.parent = s.id
)
"""


@dataclass(frozen=True, slots=True)
class RunningAnswer:
    """A running answer: its message number and the path of its trace (`engine.types.Request.trace_path`).

    The trace is its journal: it has every round before the next one begins. If Draftlight is killed, the text is recovered from
    the trace when the chats are next opened.
    """

    message: int
    trace_path: str


def count_open_stores(home: Path | None = None) -> int:
    """Returns the number of processes that have the chats of a data folder open. Default: the user's data folder."""
    return count_registrations((data_folder() if home is None else home) / "chats" / "open")


class ChatStore:
    """The conversations of a data folder. Thread-safe; several processes may use the same folder.

    Every method raises DraftlightError with a message for the user if something is missing, locked or damaged, or the disk is
    full; then nothing has changed.

    Attributes:
        traces: the trace files of the answers, with their retention.
        unsent: texts that were written but not sent.
        hold: lock on the conversation that this process may change.
        notes: messages for the user about opening the store, such as a repair or interrupted answers.
    """

    def __init__(self, home: Path | None = None, *, wait: float = 5.0, clock: Callable[[], float] = time.time) -> None:
        """Opens the chats of a data folder. Default: the user's data folder.

        Args:
            wait: seconds to wait for another process that is writing.
            clock: returns seconds since 1970.
        """
        home = data_folder() if home is None else home
        self.folder = home / "chats"
        self.notes: list[str] = []
        self._clock = clock
        try:
            for folder in (home, home / "traces", self.folder):
                folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            for folder in (home / "traces", self.folder):  # earlier versions created them readable for others
                folder.chmod(0o700)
            busy = f"Another Draftlight is still opening or repairing the chats in {self.folder}. Try again in a moment."
            with exclusive_lock(self.folder / "opening.lock", busy, wait, private=True):
                self._presence = Presence(self.folder / "open")
                self.hold = Hold(self.folder / "open")
                try:
                    self._database = self._opened(self.folder / FILE, home / "traces", wait)
                    self.traces = TraceFiles(home / "traces", self._database, clock)
                    self.unsent = UnsentTexts(self._database, self._presence, clock)
                    with contextlib.suppress(ChatsBusy, ChatsNotSaved):  # retried when the store is next opened
                        end_interrupted(self._database, self.traces, self._presence, self.notes)
                except BaseException:
                    self._presence.leave()
                    raise
        except OSError as error:
            raise DraftlightError(
                f"The chats in {self.folder} cannot be opened: {error.strerror or error}. Check who owns this folder, or set "
                "DRAFTLIGHT_HOME to another one."
            ) from None

    def _opened(self, path: Path, traces: Path, wait: float) -> Database:
        """Opens the database; rebuilds it if it is damaged. Finds only damage that shows without reading the whole file."""
        finish(path)
        database: Database | None = None
        try:
            database = Database(path, wait)
            if not database.was_damaged or database.is_sound():
                database.clear_damage()
                return database
        except ChatsDamaged:
            pass  # repaired below
        if database is not None:
            database.close()
        if self._presence.others():
            raise ChatsDamaged(
                f"The chats in {path} are damaged, and another Draftlight has them open. Quit it and start again: what can be "
                "read is kept."
            )
        self.notes.append(repair(path, traces))
        database = Database(path, wait)
        database.set_fact(IMPORTED, "")  # imports traces again: they have texts that could not be read
        database.clear_damage()
        return database

    def close(self) -> None:
        """Closes the files. A second call does nothing."""
        self._database.close()
        self.hold.release()
        self._presence.leave()

    def end_interrupted(self) -> None:
        """Completes the running answers of processes that have ended since, with the text that they had."""
        with contextlib.suppress(ChatsBusy, ChatsNotSaved):
            end_interrupted(self._database, self.traces, self._presence, [])

    def __enter__(self) -> ChatStore:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def changes(self) -> int:
        """Returns a number that differs after another process has changed the chats; lists must then be read again."""
        return self._database.changes()

    def together(self) -> contextlib.AbstractContextManager[object]:
        """Returns a context manager for a transaction: all changes inside are made, or none."""
        return self._database.writing()

    # Lists

    def conversations(self, *, folder: str | None = None, deleted: bool = False, limit: int = -1) -> tuple[ChatSummary, ...]:
        """Returns the conversations, pinned ones first, then the last changed first; or the deleted ones, last deleted first.

        Args:
            folder: if given, only conversations in this folder.
            limit: maximum number; negative for all.
        """
        order = "deleted DESC" if deleted else "pinned DESC, updated DESC, id DESC"
        with self._database.reading() as rows:
            result = rows.execute(
                f"SELECT {_SUMMARY_COLUMNS} FROM conversations WHERE deleted IS {'NOT ' if deleted else ''}NULL "
                f"AND (? IS NULL OR folder = ?) ORDER BY {order} LIMIT ?",
                (folder, folder, -1 if limit < 0 else min(limit, MAX_INTEGER)),
            )
            return tuple(map(_summary, result))

    def search(self, query: str, limit: int = 100) -> tuple[Hit, ...]:
        """Returns at most `limit` conversations in which every term of the query occurs, in the title or in one message.

        Terms are separated by spaces and may be parts of words. Titles that match come first, then the newest messages.
        """
        terms = search.terms_of(query)
        hits: dict[int, Hit] = {}
        with self._database.reading() as rows:
            for row in search.found(rows, terms):
                if row["conversation"] in hits:
                    continue
                about = _summary(
                    rows.execute(f"SELECT {_SUMMARY_COLUMNS} FROM conversations WHERE id = ?", [row["conversation"]]).fetchone()
                )
                hits[about.id] = Hit(about, row["message"], *search.excerpt(row["text"], terms))
                if len(hits) >= limit:
                    break
        return tuple(hits.values())

    # Conversations

    def open(self, conversation: int) -> Conversation:
        """Returns a whole conversation."""
        with self._database.reading() as rows:
            row = _row(rows, conversation)
            messages = rows.execute(
                "SELECT m.*, t.name AS trace_name FROM messages m LEFT JOIN traces t ON t.id = m.trace "
                "WHERE m.conversation = ? AND m.deleted IS NULL ORDER BY m.id",
                [conversation],
            )
            return Conversation(
                _summary(row),
                settings_from_json(loaded(row["settings"])),
                tuple(_message(each, self.traces) for each in messages),
                row["shown"],
            )

    def is_comparison(self, conversation: int) -> bool:
        """Returns whether a conversation is a comparison."""
        with self._database.reading() as rows:
            return _summary(_row(rows, conversation)).comparison

    def create(self, settings: ChatSettings, *, title: str = "", folder: str = "") -> int:
        """Creates an empty conversation and returns its number. Without a title, its first prompt gives it one."""
        now = self._clock()
        return self._add(Conversation(ChatSummary(0, title, now, now, folder=folder, named=bool(title)), settings, ()))

    def rename(self, conversation: int, title: str) -> None:
        """Sets the user's title. An empty one restores the title from the first prompt."""
        title = _title(title)
        with self._database.writing() as rows:
            _row(rows, conversation)
            if not title:
                first = rows.execute(
                    "SELECT text FROM messages WHERE conversation = ? AND role = 'user' AND deleted IS NULL ORDER BY id LIMIT 1",
                    [conversation],
                ).fetchone()
                self._change(conversation, title=title_of(first[0]) if first else UNTITLED, named=False)
            else:
                self._change(conversation, title=title, named=True)

    def pin(self, conversation: int, pinned: bool = True) -> None:
        """Pins a conversation above the others, or unpins it."""
        self._change(conversation, pinned=pinned)

    def move(self, conversation: int, folder: str) -> None:
        """Moves a conversation to a folder, which is created if needed. An empty name takes it out of its folder."""
        self._change(conversation, folder=clean(folder.strip()))

    def rename_folder(self, folder: str, name: str) -> tuple[int, ...]:
        """Renames a folder and returns the numbers of its conversations. If the new name is that of another folder, both are
        merged; an empty name takes the conversations out of the folder."""
        with self._database.writing() as rows:
            members = tuple(row[0] for row in rows.execute("SELECT id FROM conversations WHERE folder = ?", [folder]))
            rows.execute("UPDATE conversations SET folder = ? WHERE folder = ?", (clean(name.strip()), folder))
            return members

    def keep_settings(self, conversation: int, settings: ChatSettings) -> None:
        """Stores the conversation's settings."""
        self._change(conversation, settings=dumped(settings_to_json(settings)))

    def delete(self, conversation: int) -> None:
        """Deletes a conversation; `restore` can restore it for `RESTORABLE_DAYS` days."""
        self._change(conversation, deleted=self._clock())

    def restore(self, conversation: int) -> None:
        """Restores a deleted conversation. If all of its messages were deleted, too, restores those deleted last."""
        with self._database.writing() as rows:
            self._change(conversation, deleted=None)
            rows.execute(
                "UPDATE messages SET deleted = NULL, deleted_with = NULL WHERE deleted_with = "
                "(SELECT deleted_with FROM messages WHERE conversation = ? AND parent IS NULL ORDER BY deleted DESC LIMIT 1) "
                "AND NOT EXISTS (SELECT 1 FROM messages WHERE conversation = ? AND deleted IS NULL)",
                (conversation, conversation),
            )

    def _change(self, conversation: int, **values: object) -> None:
        with self._database.writing() as rows:
            _row(rows, conversation)
            columns = ", ".join(f"{name} = ?" for name in values)
            rows.execute(f"UPDATE conversations SET {columns} WHERE id = ?", [*values.values(), conversation])

    def duplicate(self, conversation: int, up_to: int | None = None) -> int:
        """Copies a conversation, or the path to one of its messages; returns the copy's number. Both share the traces."""
        with self._database.writing():
            whole = self.open(conversation)
            if up_to is not None and up_to not in whole.by_id:
                raise _no_message(up_to)
            messages_ = whole.messages if up_to is None else whole.path_to(up_to)
            about = replace(whole.about, title=f"{whole.about.title} (copy)", named=True, pinned=False, origin="")
            return self._add(replace(whole, about=about, messages=tuple(each for each in messages_ if each.state != "running")))

    def add(self, conversations: Iterable[Conversation]) -> list[int | None]:
        """Imports conversations, all or none. Returns their new numbers, None for each that exists already.

        The numbers in the given messages only define the tree; parents must come before their children.
        """
        with self._database.writing():
            return [None if self._exists(each.about.origin) else self._add(each) for each in conversations]

    def _exists(self, origin: str) -> bool:
        if not origin:
            return False
        writer, _, identity = origin.partition(":")
        number = identity.partition(":")[0]
        with self._database.reading() as rows:
            if writer == "draftlight" and number.isascii() and number.isdecimal() and len(number) < 18:  # exported from here
                query = f"SELECT {_SUMMARY_COLUMNS} FROM conversations WHERE id = ? AND deleted IS NULL"
                if any(_summary(row).own_origin == origin for row in rows.execute(query, [int(number)])):
                    return True
            query = "SELECT 1 FROM conversations WHERE origin = ? AND origin <> '' AND deleted IS NULL"
            return bool(rows.execute(query, [clean(origin)]).fetchone())

    def _add(self, whole: Conversation) -> int:
        whole = _with_times(whole, self._clock())
        with self._database.writing() as rows:
            about = whole.about
            number = _number(
                rows.execute(
                    "INSERT INTO conversations (title, named, created, updated, pinned, folder, settings, origin) "
                    "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                    (
                        _title(about.title) or UNTITLED,
                        about.named,
                        about.created,
                        about.updated,
                        about.pinned,
                        clean(about.folder),
                        dumped(settings_to_json(whole.settings)),
                        clean(about.origin),
                    ),
                )
            )
            new: dict[int, int] = {}
            for message in whole.messages:
                parent, continues = message.parent, message.continues
                new[message.id] = self._insert_message(
                    number,
                    replace(
                        message,
                        parent=None if parent is None else new.get(parent),
                        continues=None if continues is None else new.get(continues),
                    ),
                )
            choices = [(new.get(message.shown), new[message.id]) for message in whole.messages if message.shown is not None]
            rows.executemany("UPDATE messages SET shown = ? WHERE id = ?", choices)
            if whole.shown is not None:
                rows.execute("UPDATE conversations SET shown = ? WHERE id = ?", [new.get(whole.shown), number])
            return number

    # Messages

    def add_message(
        self,
        conversation: int,
        parent: int | None,
        role: Role,
        text: str,
        *,
        state: State = "complete",
        made: Making | None = None,
    ) -> int:
        """Adds a message after `parent`, or at the beginning if that is None, and shows it. Returns its number.

        An edited message is a new one with the same parent. If the conversation was deleted, in another window for example,
        adding a message restores it.
        """
        now = self._clock()
        with self._database.writing() as rows:
            about = _row(rows, conversation)
            if parent is not None and _conversation_of(rows, parent) != conversation:
                raise _no_message(parent)
            number = self._insert_message(conversation, StoredMessage(0, parent, role, text, now, state, made))
            _show(rows, conversation, parent, number)
            title = title_of(text) if role == "user" and not about["named"] and about["title"] == UNTITLED else about["title"]
            rows.execute(
                "UPDATE conversations SET updated = ?, title = ?, deleted = NULL WHERE id = ?", (now, clean(title), conversation)
            )
            return number

    def _insert_message(self, conversation: int, message: StoredMessage) -> int:
        trace = message.trace and clean(message.trace)
        with self._database.writing() as rows:
            return _number(
                rows.execute(
                    "INSERT INTO messages (conversation, parent, role, text, created, state, made, trace, continues) "
                    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                    (
                        conversation,
                        message.parent,
                        message.role,
                        clean(message.text),
                        message.created,
                        message.state,
                        None if message.made is None else dumped(making_to_json(message.made)),
                        self.traces.known(trace, message.created) if trace and self.traces.size(trace) else None,
                        message.continues,
                    ),
                )
            )

    def begin_answer(
        self, conversation: int, parent: int, made: Making, continues: int | None = None, trace_path: str | None = None
    ) -> RunningAnswer:
        """Adds a running answer to `parent`. Pass its trace path to the engine; `finish_answer` completes it.

        Args:
            continues: number of the answer that it continues.
            trace_path: path of its trace; None for a new one.
        """
        path = self.traces.new_path() if trace_path is None else trace_path
        with self._database.writing() as rows:
            number = self.add_message(conversation, parent, "assistant", "", state="running", made=made)
            rows.execute(
                "UPDATE messages SET writer = ?, trace = ?, continues = ? WHERE id = ?",
                (self._presence.name, self.traces.known(str(path), self._clock()), continues, number),
            )
        return RunningAnswer(number, str(path))

    def finish_answer(
        self, message: int, state: State, text: str, made: Making | None = None, trace_path: str | None = None
    ) -> None:
        """Completes a running answer. `trace_path`: None if no trace was written.

        The first answered prompt gives the conversation its title; a refused prompt gives none.
        """
        now = self._clock()
        with self._database.writing() as rows:
            conversation = _conversation_of(rows, message, deleted=True)
            rows.execute(
                "UPDATE messages SET state = ?, text = ?, made = coalesce(?, made), trace = ?, writer = NULL WHERE id = ?",
                (
                    state,
                    clean(text),
                    None if made is None else dumped(making_to_json(made)),
                    None if trace_path is None else self.traces.known(trace_path, now),
                    message,
                ),
            )
            rows.execute("UPDATE conversations SET updated = ? WHERE id = ?", (now, conversation))
            _update_title(rows, conversation, message, refused=state == "failed" and not text)

    def choose(self, message: int) -> None:
        """Shows this message, and the path to it."""
        with self._database.writing() as rows:
            conversation = _conversation_of(rows, message)
            current: int | None = message
            while current is not None:
                parent: int | None = rows.execute("SELECT parent FROM messages WHERE id = ?", [current]).fetchone()[0]
                _show(rows, conversation, parent, current)
                current = parent

    def delete_message(self, message: int) -> None:
        """Deletes a message and its descendants; `restore_message` can restore them for `RESTORABLE_DAYS` days."""
        with self._database.writing() as rows:
            _conversation_of(rows, message)
            rows.execute(
                f"{_SUBTREE} UPDATE messages SET deleted = ?, deleted_with = ? WHERE deleted IS NULL AND id IN subtree",
                (message, self._clock(), message),
            )

    def restore_message(self, message: int) -> None:
        """Restores the messages that `delete_message` deleted."""
        with self._database.writing() as rows:
            _conversation_of(rows, message, deleted=True)
            parent = rows.execute("SELECT p.deleted FROM messages m JOIN messages p ON p.id = m.parent WHERE m.id = ?", [message])
            if any(row["deleted"] is not None for row in parent):
                raise DraftlightError("The message before it was deleted too. Bring that one back first.")
            rows.execute("UPDATE messages SET deleted = NULL, deleted_with = NULL WHERE deleted_with = ?", [message])

    # Retention

    def import_traces(self) -> int:
        """Creates conversations from the traces that belong to none (`TraceFiles.to_import`), and returns how many.

        Only the first call does so, and the first one after a repair. Adds a note about unreadable traces. A trace of 500 tokens
        takes about 50 ms."""
        if self._database.fact(IMPORTED):
            return 0
        skipped: list[str] = []
        made = conversations_of(self.traces.to_import(), skipped)
        with self._database.writing():
            if self._database.fact(IMPORTED):  # by another process, meanwhile
                return 0
            self.add(made)
            self._database.set_fact(IMPORTED, "yes")
        if skipped:
            others = f" Nor could {len(skipped) - 1} more." if len(skipped) > 1 else ""
            self.notes.append(f"A trace could not be taken into the chats: {skipped[0]}{others}")
        return len(made)

    def tidy(self, *, requested: bool = False) -> None:
        """Removes what was deleted `RESTORABLE_DAYS` days ago, compresses traces, deletes those past retention, and checks the
        database. Call it at each start, in a thread of its own.

        Something is removed only by a second call that finds it due, at least a day after the first call that did: a clock that
        is far ahead at one start must not delete anything.

        Args:
            requested: whether the user has just changed the retention of traces, which then applies at once.
        """
        reliable = self._reliable_time()
        limit = reliable - RESTORABLE_DAYS * DAY
        with self._database.writing() as rows:
            purged = sum(rows.execute(f"DELETE FROM {table} WHERE deleted < ?", [limit]).rowcount for table in _DELETABLE)
        self.traces.tidy(self._clock() if requested else reliable)
        self._database.check(self._clock())
        for copy in self.folder.glob("chats-*.db*"):
            if copy.stat().st_mtime < limit:
                copy.unlink(missing_ok=True)
        if purged:
            self._database.tidy()  # leaves nothing of deleted texts in the WAL

    def _reliable_time(self) -> float:
        """Returns the time of the latest earlier call at least a day ago, -inf if there was none. The true time is not before it,
        unless the clock was wrong at both calls. Of the last day's calls, one or two per hour are recorded, which delays the
        result by less than an hour."""
        now = self._clock()
        with self._database.writing():
            starts = loaded(self._database.fact("starts"))
            seen = [each for each in starts if isinstance(each, float) and each <= now] if isinstance(starts, list) else []
            reliable = max((each for each in seen if each <= now - DAY), default=-math.inf)
            recent = [each for each in seen if each >= reliable]
            if len(recent) > 1 and now - recent[-2] < _HOUR:
                recent.pop()
            self._database.set_fact("starts", dumped([*recent, now]))
        return reliable

    def purge(self, conversations: Sequence[int]) -> None:
        """Deletes conversations permanently, with traces that no other conversation shares."""
        with self._database.writing() as rows:
            for conversation in conversations:
                _row(rows, conversation)
            rows.executemany("DELETE FROM conversations WHERE id = ?", [[each] for each in conversations])
        self.traces.delete_unused()
        self._database.tidy()  # leaves nothing of deleted texts in the WAL


def _row(rows: sqlite3.Connection, conversation: int) -> sqlite3.Row:
    query = f"SELECT {_SUMMARY_COLUMNS}, settings, shown FROM conversations WHERE id = ?"
    row: sqlite3.Row | None = rows.execute(query, [conversation]).fetchone() if abs(conversation) <= MAX_INTEGER else None
    if row is None:
        raise DraftlightError(f"There is no conversation {conversation}.")
    return row


def _conversation_of(rows: sqlite3.Connection, message: int, deleted: bool = False) -> int:
    """Returns the number of a message's conversation. Finds deleted messages only if `deleted` is True."""
    row = rows.execute("SELECT conversation, deleted FROM messages WHERE id = ?", [message]).fetchone()
    if row is None or (row["deleted"] is not None and not deleted):
        raise _no_message(message)
    return int(row["conversation"])


def _show(rows: sqlite3.Connection, conversation: int, parent: int | None, child: int) -> None:
    if parent is None:
        rows.execute("UPDATE conversations SET shown = ? WHERE id = ?", (child, conversation))
    else:
        rows.execute("UPDATE messages SET shown = ? WHERE id = ?", (child, parent))


def _update_title(rows: sqlite3.Connection, conversation: int, message: int, refused: bool) -> None:
    """Updates an automatic title: removes that of a refused prompt, and titles an untitled conversation by its first answered
    prompt."""
    about = _row(rows, conversation)
    query = "SELECT p.id, p.text FROM messages m JOIN messages p ON p.id = m.parent WHERE m.id = ? AND p.role = 'user'"
    prompt = rows.execute(query, [message]).fetchone()
    if about["named"] or prompt is None or about["title"] != (title_of(prompt["text"]) if refused else UNTITLED):
        return
    answered = rows.execute(_ANSWERED, [conversation]).fetchone()
    title = UNTITLED if answered is None else title_of(answered["text"])
    rows.execute("UPDATE conversations SET title = ? WHERE id = ?", (clean(title), conversation))


def _message(row: sqlite3.Row, traces: TraceFiles) -> StoredMessage:
    return StoredMessage(
        id=row["id"],
        parent=row["parent"],
        role=row["role"],
        text=row["text"],
        created=row["created"],
        state=row["state"],
        made=making_from_json(loaded(row["made"])),
        trace=None if row["trace_name"] is None else str(traces.place(row["trace_name"])),
        continues=row["continues"],
        shown=row["shown"],
    )


def _summary(row: sqlite3.Row) -> ChatSummary:
    """Converts a row that begins with the columns `_SUMMARY_COLUMNS`. Must be fast, since there may be thousands of rows."""
    number, title, created, updated, pinned, folder, named, deleted, origin, comparison = row[:10]
    return ChatSummary(number, title, created, updated, bool(pinned), folder, bool(named), deleted, origin, bool(comparison))


def _number(cursor: sqlite3.Cursor) -> int:
    """Returns the id of the inserted row."""
    assert cursor.lastrowid is not None
    return cursor.lastrowid


def _no_message(message: int) -> DraftlightError:
    return DraftlightError(f"There is no message {message} here; it may have been deleted in another window.")


def _title(words: str) -> str:
    """Returns a title in one line, shortened to `_MAX_TITLE` characters."""
    return clean(" ".join(words[: 4 * _MAX_TITLE].split())[:_MAX_TITLE])


def _with_times(whole: Conversation, now: float) -> Conversation:
    """Fills in times that an imported conversation lacks: from its messages, else now."""
    times = [message.created for message in whole.messages if message.created]
    created = whole.about.created or min(times, default=now)
    updated = whole.about.updated or max(times, default=created)
    messages = tuple(message if message.created else replace(message, created=created) for message in whole.messages)
    return replace(whole, about=replace(whole.about, created=created, updated=updated), messages=messages)
