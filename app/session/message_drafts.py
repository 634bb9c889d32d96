"""The drafts of messages: unsent texts of each chat and edited prompts, stored shortly after each change."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from PySide6.QtCore import QObject, Signal, Slot

from app.look.throttle import trailing_throttle
from app.session.attachments import put_together
from app.session.chat_keeper import ChatKeeper
from app.session.session import Turn
from app.session.stored_chat import StoredChat
from engine.chats import ChatsBusy, ChatsDamaged, ChatsNotSaved, ChatStore, UnsentText
from engine.values.errors import DraftlightError

PAUSE_SECONDS = 0.7
"""Seconds from a change to the write, and from a failed write to the next; further changes do not extend the delay."""


@dataclass(slots=True, eq=False)
class MessageDraft:
    """A draft of a chat's next message, or of a new version of a turn's prompt. Only `save` sets the last two fields.

    Attributes:
        text: the current text with its files; empty for none.
        prompt: id of the prompt in the store, used if the turn is not loaded.
        number: id of the draft in the store, None if it is not there.
        stored: the store's version: ids of chat and prompt, and the text.
    """

    chat: StoredChat
    turn: Turn | None = None
    text: str = ""
    prompt: int | None = None
    number: int | None = None
    stored: tuple[int | None, int | None, str] | None = None

    def is_for(self, chat: StoredChat, turn: Turn | None) -> bool:
        """Returns whether the draft belongs to a chat and turn; a chat that is opened again has new turns."""
        if turn is None:
            return self.turn is None and self.prompt is None and self.chat.is_same(chat)
        return self.turn is turn or (turn.stored_id is not None and turn.stored_id == self._prompt)

    @property
    def _prompt(self) -> int | None:
        return self.prompt if self.turn is None else self.turn.stored_id

    def _wanted(self, text: str) -> tuple[int | None, int | None, str]:
        return self.chat.number, self._prompt, text

    def differs(self, text: str) -> bool:
        """Returns whether the store's version differs from this text and can be updated: the chat and the prompt are stored."""
        if not text:
            return self.number is not None
        waits = (self.chat.is_begun and self.chat.number is None) or (self.turn is not None and self.turn.stored_id is None)
        return not waits and self.stored != self._wanted(text)

    def save(self, text: str, store: ChatStore) -> None:
        """Writes this text to the store. Runs on the thread of `chat_keeper`."""
        wanted = self._wanted(text)
        try:
            self.number = store.unsent.keep(self.number, *wanted)
        except (ChatsBusy, ChatsDamaged, ChatsNotSaved):
            raise
        except DraftlightError:  # its chat or prompt was deleted elsewhere, and the draft with it
            self.number = None
        self.stored = wanted


class MessageDrafts(QObject):
    """All drafts. Call `touch` after the message field has changed.

    Signals:
        wanted: emitted before writing; the text in the message field must be put into its draft.
        refused: (message) writing fails; emitted once until it succeeds again.
    """

    wanted = Signal()
    refused = Signal(str)

    def __init__(self, keeper: ChatKeeper, parent: QObject) -> None:
        super().__init__(parent)
        self._keeper = keeper
        self._drafts: list[MessageDraft] = []
        self._under_way = 0
        self._refused = self._stopped = False
        self._writes = trailing_throttle(self._write_due, PAUSE_SECONDS, self)

    def of(self, chat: StoredChat, turn: Turn | None = None) -> MessageDraft:
        """Returns the draft of a chat's next message, or of a new version of a turn's prompt. Drafts of two windows are
        joined."""
        found = [each for each in self._drafts if each.is_for(chat, turn)]
        if not found:
            found = [MessageDraft(chat, turn)]
            self._drafts += found
        first, *others = found
        first.chat, first.turn = chat, turn
        self.join(first, others)
        return first

    def join(self, one: MessageDraft, others: Iterable[MessageDraft]) -> None:
        """Appends other texts to one."""
        others = [each for each in others if each.text and each is not one]
        if others:
            one.text = put_together((one.text, *(each.text for each in others)))
            for each in others:
                each.text = ""

    def has_edit(self, chat: StoredChat, turn: Turn) -> bool:
        """Returns whether there is a draft for the prompt of a turn."""
        return any(each.text and each.is_for(chat, turn) for each in self._drafts)

    def edits(self, chat: StoredChat) -> list[MessageDraft]:
        """Returns the drafts for prompts of a chat."""
        return [each for each in self._drafts if each.turn is not None and each.chat.is_same(chat)]

    def add(self, chat: StoredChat, found: Sequence[UnsentText]) -> None:
        """Adds the drafts of a chat that were loaded from the store."""
        known = {each.number for each in self._drafts}
        self._drafts[:0] = [
            MessageDraft(chat, None, each.text, each.prompt, each.id, (chat.number, each.prompt, each.text))
            for each in found
            if each.id not in known
        ]

    def forget(self) -> None:
        """Drops empty drafts, and the turns that they reference."""
        if not self._under_way:
            self._drafts = [each for each in self._drafts if each.text or each.number is not None]

    @Slot()
    def touch(self) -> None:
        """Schedules a write."""
        if self._keeper.stores and not self._stopped:
            self._writes.touch()

    def _write_due(self) -> None:
        if self._under_way:
            self.touch()  # a slow disk gets no more work
        else:
            self.save()

    def save(self) -> None:
        """Writes the drafts now."""
        self.wanted.emit()
        if self._keeper.stores and (self._under_way or self._differs):
            self._under_way += 1
            texts = [(each, each.text) for each in self._drafts]
            self._keeper.attempt(partial(self._save_all, texts), self._saved, self._not_saved)

    def _save_all(self, texts: Sequence[tuple[MessageDraft, str]], store: ChatStore) -> None:
        """Runs on the keeper's thread. The draft of a sent message is removed only once the message is stored."""
        if self._keeper.trouble and not self._stopped:
            return
        for each, text in texts:
            if each.differs(text) and (text or not self._keeper.trouble):
                each.save(text, store)

    @property
    def _differs(self) -> bool:
        return any(each.differs(each.text) for each in self._drafts)

    def stop(self) -> None:
        """Writes the drafts for the last time."""
        self._stopped = True
        self._writes.stop()
        self.save()

    def _saved(self, _: object) -> None:
        self._under_way -= 1
        self._refused = False
        if self._differs:
            self.touch()

    def _not_saved(self, message: str) -> None:
        self._under_way -= 1
        self.touch()
        if not self._refused:
            self._refused = True
            self.refused.emit(message)
