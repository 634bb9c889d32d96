"""The store of conversations: everything the window and the command line do with them goes through `ChatStore`.

Nothing is discarded by answering again or by editing: messages form a tree, and each remembers which of its children shows. What
is deleted can be brought back for `KEPT_DAYS` days.
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
from engine.chats.answer_of_trace import conversations_of, end_interrupted
from engine.chats.database import MOST, ChatsBusy, ChatsDamaged, ChatsNotSaved, Database, clean
from engine.chats.exchange.own import own_origin
from engine.chats.presence import Hold, Presence, how_many
from engine.chats.repair import finish, repair
from engine.chats.trace_files import DAY, IMPORTED, TraceFiles
from engine.chats.unsent import UnsentTexts
from engine.chats.values import (
    UNTITLED,
    ChatSettings,
    Conversation,
    Hit,
    Listed,
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
from engine.files.lock import alone
from engine.files.paths import data_folder
from engine.values.errors import DraftlightError

FILE = "chats.db"
KEPT_DAYS = 30
"""What is deleted can be brought back for so long."""
_HOUR = DAY / 24

_LONGEST_TITLE = 200
_LISTED = "id, title, created, updated, pinned, folder, named, deleted, origin"
_ANSWERED = """
SELECT p.text FROM messages p WHERE p.conversation = ? AND p.role = 'user' AND p.deleted IS NULL
AND EXISTS (SELECT 1 FROM messages a WHERE a.parent = p.id AND a.role = 'assistant' AND a.deleted IS NULL
            AND NOT (a.state = 'failed' AND a.text = ''))
ORDER BY p.id LIMIT 1
"""
"""The first prompt with an answer."""
_DELETABLE = ("conversations", "messages")
_SUBTREE = """
WITH RECURSIVE subtree (id) AS (
    SELECT ? UNION ALL SELECT m.id FROM messages m JOIN subtree s ON m.parent = s.id
)
"""


@dataclass(frozen=True, slots=True)
class Begun:
    """An answer that is being written: its number, and where its trace goes (`engine.types.Request.trace_path`).

    The trace is its journal: every round is in it before the next one begins. Should Draftlight be killed, the text is read from
    there when the chats are next opened.
    """

    message: int
    trace_path: str


def how_many_open(home: Path | None = None) -> int:
    """How many processes have the chats of a data folder open; the user's own unless another is given."""
    return how_many((data_folder() if home is None else home) / "chats" / "open")


class ChatStore:
    """The conversations of a data folder. Any thread may use it, other processes may use the same folder.

    Every method raises DraftlightError with a sentence for the user where something is not there, locked, full or damaged; then
    nothing has changed.

    Attributes:
        traces: the traces of the answers, and how long they are kept.
        unsent: texts that were written and not sent.
        hold: which conversation this process may change.
        notes: what the user should be told about opening it: that it was repaired, say, or that answers were interrupted.
    """

    def __init__(self, home: Path | None = None, *, wait: float = 5.0, clock: Callable[[], float] = time.time) -> None:
        """Opens the chats of a data folder, the user's own unless another is given.

        Args:
            wait: seconds to wait for another process that is writing.
            clock: seconds since 1970.
        """
        home = data_folder() if home is None else home
        self.folder = home / "chats"
        self.notes: list[str] = []
        self._clock = clock
        try:
            for folder in (home, home / "traces", self.folder):
                folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            for folder in (home / "traces", self.folder):  # those of before let others see their names
                folder.chmod(0o700)
            busy = f"Another Draftlight is still opening or repairing the chats in {self.folder}. Try again in a moment."
            with alone(self.folder / "opening.lock", busy, wait, private=True):
                self._presence = Presence(self.folder / "open")
                self.hold = Hold(self.folder / "open")
                try:
                    self._database = self._opened(self.folder / FILE, home / "traces", wait)
                    self.traces = TraceFiles(home / "traces", self._database, clock)
                    self.unsent = UnsentTexts(self._database, self._presence, clock)
                    with contextlib.suppress(ChatsBusy, ChatsNotSaved):  # the next opening does it, then
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
        """The file, which is built anew if it is damaged. What can be known of damage without reading all of it is found here."""
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
        database.keep_fact(IMPORTED, "")  # the traces hold what could not be read
        database.clear_damage()
        return database

    def close(self) -> None:
        """Closes the files. A second call does nothing."""
        self._database.close()
        self.hold.release()
        self._presence.leave()

    def end_interrupted(self) -> None:
        """Gives answers that were being written in a process that has ended since the text they had."""
        with contextlib.suppress(ChatsBusy, ChatsNotSaved):
            end_interrupted(self._database, self.traces, self._presence, [])

    def __enter__(self) -> ChatStore:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def changes(self) -> int:
        """A number that is another one once another process has changed the chats: then a list is to be read again."""
        return self._database.changes()

    def together(self) -> contextlib.AbstractContextManager[object]:
        """Everything done inside is done, or nothing is."""
        return self._database.writing()

    # Lists

    def conversations(self, *, folder: str | None = None, deleted: bool = False, limit: int = -1) -> tuple[Listed, ...]:
        """The conversations, pinned ones first, then those that changed last; or the deleted ones, last deleted first.

        Args:
            folder: only those in this one.
            limit: at most so many, all if it is negative.
        """
        order = "deleted DESC" if deleted else "pinned DESC, updated DESC, id DESC"
        with self._database.reading() as rows:
            found = rows.execute(
                f"SELECT {_LISTED} FROM conversations WHERE deleted IS {'NOT ' if deleted else ''}NULL "
                f"AND (? IS NULL OR folder = ?) ORDER BY {order} LIMIT ?",
                (folder, folder, -1 if limit < 0 else min(limit, MOST)),
            )
            return tuple(map(_listed, found))

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
                about = _listed(
                    rows.execute(f"SELECT {_LISTED} FROM conversations WHERE id = ?", [row["conversation"]]).fetchone()
                )
                hits[about.id] = Hit(about, row["message"], *search.excerpt(row["text"], terms))
                if len(hits) >= limit:
                    break
        return tuple(hits.values())

    # Conversations

    def open(self, conversation: int) -> Conversation:
        """A whole conversation."""
        with self._database.reading() as rows:
            row = _row(rows, conversation)
            messages = rows.execute(
                "SELECT m.*, t.name AS trace_name FROM messages m LEFT JOIN traces t ON t.id = m.trace "
                "WHERE m.conversation = ? AND m.deleted IS NULL ORDER BY m.id",
                [conversation],
            )
            return Conversation(
                _listed(row),
                settings_from_json(loaded(row["settings"])),
                tuple(_message(each, self.traces) for each in messages),
                row["shown"],
            )

    def create(self, settings: ChatSettings, *, title: str = "", folder: str = "") -> int:
        """A new, empty conversation; its number. Without a title it is called after its first prompt."""
        now = self._clock()
        return self._add(Conversation(Listed(0, title, now, now, folder=folder, named=bool(title)), settings, ()))

    def rename(self, conversation: int, title: str) -> None:
        """Gives it the user's title; an empty one calls it after its first prompt again."""
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
        """Has it stand above the others, or no longer."""
        self._change(conversation, pinned=pinned)

    def move(self, conversation: int, folder: str) -> None:
        """Puts it into a folder, which need not be there yet; an empty name takes it out."""
        self._change(conversation, folder=clean(folder.strip()))

    def rename_folder(self, folder: str, name: str) -> tuple[int, ...]:
        """Calls a folder something else, which may be another folder; an empty name takes its conversations out. The numbers of
        those that were in it."""
        with self._database.writing() as rows:
            inside = tuple(row[0] for row in rows.execute("SELECT id FROM conversations WHERE folder = ?", [folder]))
            rows.execute("UPDATE conversations SET folder = ? WHERE folder = ?", (clean(name.strip()), folder))
            return inside

    def keep_settings(self, conversation: int, settings: ChatSettings) -> None:
        """Remembers what the conversation is held under from now on."""
        self._change(conversation, settings=dumped(settings_to_json(settings)))

    def delete(self, conversation: int) -> None:
        """Deletes it; `restore` brings it back for `KEPT_DAYS` days."""
        self._change(conversation, deleted=self._clock())

    def restore(self, conversation: int) -> None:
        """Brings a deleted one back, and if all its messages were deleted, too, what was last deleted of them."""
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
        """A copy of the conversation, or of the way to one of its messages; its number. Both share the traces."""
        with self._database.writing():
            whole = self.open(conversation)
            if up_to is not None and up_to not in whole.by_id:
                raise _no_message(up_to)
            kept = whole.messages if up_to is None else whole.path_to(up_to)
            about = replace(whole.about, title=f"{whole.about.title} (copy)", named=True, pinned=False, origin="")
            return self._add(replace(whole, about=about, messages=tuple(each for each in kept if each.state != "running")))

    def add(self, conversations: Iterable[Conversation]) -> list[int | None]:
        """Takes in conversations from elsewhere, all or none; their numbers, and None for each that is there already.

        The numbers they come with only say which message follows which; a parent stands before its children.
        """
        with self._database.writing():
            return [None if self._is_there(each.about.origin) else self._add(each) for each in conversations]

    def _is_there(self, origin: str) -> bool:
        if not origin:
            return False
        writer, _, identity = origin.partition(":")
        number = identity.partition(":")[0]
        with self._database.reading() as rows:
            if writer == "draftlight" and number.isascii() and number.isdecimal() and len(number) < 18:  # exported from here
                query = f"SELECT {_LISTED} FROM conversations WHERE id = ? AND deleted IS NULL"
                if any(own_origin(_listed(row)) == origin for row in rows.execute(query, [int(number)])):
                    return True
            query = "SELECT 1 FROM conversations WHERE origin = ? AND origin <> '' AND deleted IS NULL"
            return bool(rows.execute(query, [clean(origin)]).fetchone())

    def _add(self, whole: Conversation) -> int:
        whole = _dated(whole, self._clock())
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
        """A new message behind `parent`, or one that opens the conversation; its number. It is the one that shows.

        An edited message is a new one behind the same parent. A conversation that was deleted, in another window, say, is back
        with it.
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
    ) -> Begun:
        """A new answer to `parent` that is about to be written. Give its trace path to the engine; `finish_answer` ends it.

        Args:
            continues: number of the answer that it goes on with.
            trace_path: where its trace goes, None for a new place.
        """
        path = self.traces.new_path() if trace_path is None else trace_path
        with self._database.writing() as rows:
            number = self.add_message(conversation, parent, "assistant", "", state="running", made=made)
            rows.execute(
                "UPDATE messages SET writer = ?, trace = ?, continues = ? WHERE id = ?",
                (self._presence.name, self.traces.known(str(path), self._clock()), continues, number),
            )
        return Begun(number, str(path))

    def finish_answer(
        self, message: int, state: State, text: str, made: Making | None = None, trace_path: str | None = None
    ) -> None:
        """The answer has ended: its text, how it was made, and where its trace is; None for one that was not written.

        The first prompt that is answered gives the conversation its title. A prompt that was refused gives none.
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
            _retitle(rows, conversation, message, refused=state == "failed" and not text)

    def choose(self, message: int) -> None:
        """Has this message show, and so the way to it."""
        with self._database.writing() as rows:
            conversation = _conversation_of(rows, message)
            place: int | None = message
            while place is not None:
                parent: int | None = rows.execute("SELECT parent FROM messages WHERE id = ?", [place]).fetchone()[0]
                _show(rows, conversation, parent, place)
                place = parent

    def delete_message(self, message: int) -> None:
        """Deletes it and everything behind it; `restore_message` brings that back for `KEPT_DAYS` days."""
        with self._database.writing() as rows:
            _conversation_of(rows, message)
            rows.execute(
                f"{_SUBTREE} UPDATE messages SET deleted = ?, deleted_with = ? WHERE deleted IS NULL AND id IN subtree",
                (message, self._clock(), message),
            )

    def restore_message(self, message: int) -> None:
        """Brings back what `delete_message` took away."""
        with self._database.writing() as rows:
            _conversation_of(rows, message, deleted=True)
            parent = rows.execute("SELECT p.deleted FROM messages m JOIN messages p ON p.id = m.parent WHERE m.id = ?", [message])
            if any(row["deleted"] is not None for row in parent):
                raise DraftlightError("The message before it was deleted too. Bring that one back first.")
            rows.execute("UPDATE messages SET deleted = NULL, deleted_with = NULL WHERE deleted_with = ?", [message])

    # What is kept, and for how long

    def import_traces(self) -> int:
        """Creates conversations from the traces that belong to none (`TraceFiles.to_import`), and returns how many.

        Only the first call does it, and the first one after a repair. Notes name the traces that cannot be read. A trace of 500
        tokens takes some 50 ms."""
        if self._database.fact(IMPORTED):
            return 0
        skipped: list[str] = []
        made = conversations_of(self.traces.to_import(), skipped)
        with self._database.writing():
            if self._database.fact(IMPORTED):  # by another process, meanwhile
                return 0
            self.add(made)
            self._database.keep_fact(IMPORTED, "yes")
        if skipped:
            others = f" Nor could {len(skipped) - 1} more." if len(skipped) > 1 else ""
            self.notes.append(f"A trace could not be taken into the chats: {skipped[0]}{others}")
        return len(made)

    def tidy(self, *, wished: bool = False) -> None:
        """What is to be done at each start, best in a thread of its own: removes what was deleted `KEPT_DAYS` days ago,
        compresses traces, and deletes those that are kept for long enough.

        What is due is removed by the second call that finds it due, at least a day after the first: a clock that is far ahead at
        one start makes nothing old.

        Args:
            wished: whether the user has just said how long traces are kept, which is then done at once.
        """
        sure = self._sure_time()
        limit = sure - KEPT_DAYS * DAY
        with self._database.writing() as rows:
            purged = sum(rows.execute(f"DELETE FROM {table} WHERE deleted < ?", [limit]).rowcount for table in _DELETABLE)
        self.traces.tidy(self._clock() if wished else sure)
        self._database.check(self._clock())
        for copy in self.folder.glob("chats-*.db*"):
            if copy.stat().st_mtime < limit:
                copy.unlink(missing_ok=True)
        if purged:
            self._database.tidy()  # leaves nothing of deleted texts in the WAL

    def _sure_time(self) -> float:
        """The time of the latest earlier call that was at least a day ago, -inf where there was none: so late it is, unless the
        clock was wrong at both. Of the last day's calls one or two an hour are remembered, which delays by less than an hour."""
        now = self._clock()
        with self._database.writing():
            kept = loaded(self._database.fact("starts"))
            seen = [each for each in kept if isinstance(each, float) and each <= now] if isinstance(kept, list) else []
            sure = max((each for each in seen if each <= now - DAY), default=-math.inf)
            recent = [each for each in seen if each >= sure]
            if len(recent) > 1 and now - recent[-2] < _HOUR:
                recent.pop()
            self._database.keep_fact("starts", dumped([*recent, now]))
        return sure

    def purge(self, conversations: Sequence[int]) -> None:
        """Deletes conversations for good, with the traces that no other one shares."""
        with self._database.writing() as rows:
            for conversation in conversations:
                _row(rows, conversation)
            rows.executemany("DELETE FROM conversations WHERE id = ?", [[each] for each in conversations])
        self.traces.delete_unused()
        self._database.tidy()  # leaves nothing of deleted texts in the WAL


def _row(rows: sqlite3.Connection, conversation: int) -> sqlite3.Row:
    query = f"SELECT {_LISTED}, settings, shown FROM conversations WHERE id = ?"
    row: sqlite3.Row | None = rows.execute(query, [conversation]).fetchone() if abs(conversation) <= MOST else None
    if row is None:
        raise DraftlightError(f"There is no conversation {conversation}.")
    return row


def _conversation_of(rows: sqlite3.Connection, message: int, deleted: bool = False) -> int:
    """Number of the conversation that a message belongs to; `deleted` ones count as well if that is True."""
    row = rows.execute("SELECT conversation, deleted FROM messages WHERE id = ?", [message]).fetchone()
    if row is None or (row["deleted"] is not None and not deleted):
        raise _no_message(message)
    return int(row["conversation"])


def _show(rows: sqlite3.Connection, conversation: int, parent: int | None, child: int) -> None:
    if parent is None:
        rows.execute("UPDATE conversations SET shown = ? WHERE id = ?", (child, conversation))
    else:
        rows.execute("UPDATE messages SET shown = ? WHERE id = ?", (child, parent))


def _retitle(rows: sqlite3.Connection, conversation: int, message: int, refused: bool) -> None:
    """Takes the title of a refused prompt away, and gives an untitled conversation that of an answered one."""
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


def _listed(row: sqlite3.Row) -> Listed:
    """A row that begins with the columns `_LISTED`; there may be thousands of them."""
    number, title, created, updated, pinned, folder, named, deleted, origin = row[:9]
    return Listed(number, title, created, updated, bool(pinned), folder, bool(named), deleted, origin)


def _number(cursor: sqlite3.Cursor) -> int:
    """That of the row which was inserted."""
    assert cursor.lastrowid is not None
    return cursor.lastrowid


def _no_message(message: int) -> DraftlightError:
    return DraftlightError(f"There is no message {message} here; it may have been deleted in another window.")


def _title(words: str) -> str:
    """A title in one line of bearable length."""
    return clean(" ".join(words[: 4 * _LONGEST_TITLE].split())[:_LONGEST_TITLE])


def _dated(whole: Conversation, now: float) -> Conversation:
    """The conversation with a time where its file stated none: that of a message of it, else now."""
    known = [message.created for message in whole.messages if message.created]
    created = whole.about.created or min(known, default=now)
    updated = whole.about.updated or max(known, default=created)
    messages = tuple(message if message.created else replace(message, created=created) for message in whole.messages)
    return replace(whole, about=replace(whole.about, created=created, updated=updated), messages=messages)
