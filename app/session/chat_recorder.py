"""Writes the shown conversation to the chat store as it grows and changes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from PySide6.QtCore import QObject, Signal, Slot

from app.session import stored_chat
from app.session.chat_keeper import ChatKeeper
from app.session.preferences import Preferences
from app.session.session import Answer, Session, Turn
from app.session.stored_chat import StoredChat
from engine.chats import ChatStore, Making


class ChatRecorder(QObject):
    """Queues writes about the shown conversation.

    Signals:
        written: the content of the store has changed.
    """

    written = Signal()

    def __init__(self, keeper: ChatKeeper, session: Session, preferences: Preferences, parent: QObject) -> None:
        super().__init__(parent)
        self._keeper, self._session, self._preferences = keeper, session, preferences

    def begin(self, answer: Answer) -> None:
        """Stores the beginning of the newest answer, and anything before it that is not stored yet."""
        if answer.request is None or answer.request.trace_path is None:
            return
        chat, turns, settings = self._preferences.chat, self._session.turns, self._preferences.current
        made = stored_chat.making_of(answer, settings.system_prompt)
        chat.settings, chat.lacks_model = stored_chat.chat_settings(settings), False
        before, path = turns[-2] if len(turns) > 1 else None, answer.request.trace_path
        self._keeper.write(partial(stored_chat.begin, chat, before, turns[-1], answer, made, path), self._begun, self._write_anew)

    def add_edited(self, at: int, text: str, made: Making) -> None:
        """Stores the answer of a turn that the user wrote."""
        turn, before = self._session.turns[at], self._session.turns[at - 1] if at else None
        work = partial(stored_chat.add_edited, self._preferences.chat, before, turn, turn.answer, text, made)
        self._keeper.write(work, self._begun, self._write_anew)

    def finish(self, answer: Answer) -> None:
        """Stores the final state of an answer."""
        if answer.request is None:
            return
        path = answer.request.trace_path
        if answer.result is not None and answer.result.trace_path is None:
            path = None
        state, text = stored_chat.state_of(answer), answer.text.text
        made = stored_chat.making_of(answer, self._preferences.current.system_prompt)
        self._keeper.write(lambda store: stored_chat.finish(store, answer, state, text, made, path), self.notify)

    def save_shown(self, at: int) -> None:
        """Stores which messages are shown from a turn on."""
        if not self._session.read_only:
            turns = tuple(self._session.turns[at:])
            self._keeper.write(lambda store: stored_chat.show(store, turns))

    def save_settings(self) -> None:
        """Stores the settings of the conversation if they have changed."""
        chat = self._preferences.chat
        if chat.settings is not None and not self._session.read_only:
            self._keeper.write(partial(stored_chat.keep_settings, chat, chat.settings))

    def delete(self, message: Turn | Answer) -> Callable[[], None]:
        """Deletes a message that the session has removed, with all that follows. Returns a function that undeletes it."""
        chat, empty = self._preferences.chat, not self._session.root.turns

        def delete(store: ChatStore) -> None:
            """Deletes it, and the conversation with its last message."""
            stored_chat.delete(store, chat, message.stored_id, empty)

        def undelete(store: ChatStore) -> None:
            """Undoes `delete`."""
            stored_chat.undelete(store, chat, message.stored_id)

        self._keeper.write(delete, self.notify)
        return lambda: self._keeper.write(undelete, self.notify)

    def _begun(self, chat: StoredChat) -> None:
        """Saves the conversation's new number, so that the next start shows it again."""
        if chat is self._preferences.chat and self._preferences.current.conversation != chat.number:
            self._preferences.set(conversation=chat.number)
        self.written.emit()

    @Slot(str)
    def _write_anew(self, reason: str) -> None:
        """Stores the conversation as a new one, after it was deleted elsewhere or lost with a damaged store."""
        settings = stored_chat.chat_settings(self._preferences.current)
        self._keeper.write(partial(stored_chat.write_anew, self._preferences.chat, self._session.root, settings), self._begun)

    def notify(self, _: object = None) -> None:
        """Emits `written` after a write."""
        self.written.emit()
