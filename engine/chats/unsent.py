"""Texts that were written for a conversation but not sent. They outlive the process in which they were typed."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable

from engine.chats.database import ChatsBusy, ChatsNotSaved, Database, clean
from engine.chats.presence import Presence
from engine.chats.schema import make_unsent
from engine.chats.values import UnsentText
from engine.values.errors import DraftlightError

_OF = "SELECT id, prompt, text, writer FROM unsent WHERE conversation IS ? ORDER BY changed, id"


class UnsentTexts:
    """The unsent texts of all conversations. Each text belongs to one open store at a time, and only that store may change it."""

    def __init__(self, database: Database, presence: Presence, clock: Callable[[], float]) -> None:
        self._database, self._presence, self._clock = database, presence, clock

    def take(self, conversation: int | None) -> tuple[UnsentText, ...]:
        """Takes the texts of a conversation, oldest first, except those that another open store has taken.

        Args:
            conversation: None for a conversation that is not stored yet.
        """
        with self._database.reading() as rows:
            texts = self._free(rows, conversation)
        if texts:
            with contextlib.suppress(ChatsBusy, ChatsNotSaved), self._database.writing() as rows:  # shown even if not taken
                texts = self._free(rows, conversation)
                rows.executemany("UPDATE unsent SET writer = ? WHERE id = ?", [(self._presence.name, each.id) for each in texts])
        return texts

    def _free(self, rows: sqlite3.Connection, conversation: int | None) -> tuple[UnsentText, ...]:
        texts = rows.execute(_OF, [conversation]).fetchall()
        others = self._presence.others() if texts else []
        return tuple(UnsentText(row["id"], row["prompt"], row["text"]) for row in texts if row["writer"] not in others)

    def keep(self, number: int | None, conversation: int | None, prompt: int | None, text: str) -> int | None:
        """Stores a text in place of the one with this number, and returns its number; an empty text is deleted.

        Args:
            number: None for a new text.
            conversation: None for a conversation that is not stored yet.
            prompt: number of the message that the text will replace; None for a new message.

        Raises:
            DraftlightError: the conversation or the prompt does not exist any more.
        """
        if not text:
            with self._database.writing() as rows:
                if self._is_ours(rows, number):
                    rows.execute("DELETE FROM unsent WHERE id = ?", [number])
            self._database.tidy()  # leaves nothing of it in the WAL
            return None
        values = (conversation, prompt, clean(text), self._presence.name, self._clock())
        with self._database.writing() as rows:
            make_unsent(rows)  # missing if the disk was full when a file of an earlier version was opened
            try:
                if self._is_ours(rows, number):
                    changed = "UPDATE unsent SET conversation = ?, prompt = ?, text = ?, writer = ?, changed = ? WHERE id = ?"
                    rows.execute(changed, (*values, number))
                    return number
                new = "INSERT INTO unsent (conversation, prompt, text, writer, changed) VALUES (?, ?, ?, ?, ?)"
                return rows.execute(new, values).lastrowid
            except sqlite3.IntegrityError:
                raise DraftlightError("The chat or the message that this was written for does not exist any more.") from None

    def _is_ours(self, rows: sqlite3.Connection, number: int | None) -> bool:
        """Returns whether a text exists and no other store has taken it, for example while this store was closed."""
        row = rows.execute("SELECT writer FROM unsent WHERE id = ?", [number]).fetchone()
        return row is not None and row["writer"] not in self._presence.others()
