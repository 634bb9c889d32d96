"""Switches the message field between a new message and edited prompts, and keeps the drafts of those not shown."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from app.conversation.composer import Composer
from app.session.chat import Chat
from app.session.message_drafts import MessageDraft
from app.session.session import Turn
from app.session.stored_chat import StoredChat


class Editing:
    """Shows the draft that belongs to the shown chat. The draft of a new message is kept until its chat is shown again; an edited
    prompt that was neither sent nor cancelled, until its turn is shown or edited again.

    Attributes:
        at: index of the turn whose prompt is being edited; None for a new message.
    """

    def __init__(self, composer: Composer, chat: Chat) -> None:
        self._composer, self._chat, self._session, self._drafts = composer, chat, chat.session, chat.drafts
        self._shown = chat.stored_chat
        self._draft = self._drafts.of(self._shown)
        self._prompt = ""
        self._was_empty = True
        self.at: int | None = None
        self._drafts.wanted.connect(self._store_draft)

    def begin(self, at: int) -> None:
        """Starts editing the prompt of a turn, with its draft if there is one. The text in the message field is kept."""
        self.suspend()
        self._store_draft()
        self.show(at)
        prompt, rewritten = self._session.turns[at].prompt, self._draft.text
        self._composer.set_text(rewritten or prompt)
        self._prompt = prompt if rewritten else self._composer.text  # the field may alter it, such as non-breaking spaces

    def show(self, at: int | None) -> None:
        """Makes the message field edit the prompt of a turn, or with None, a new message."""
        self.at = at
        self._draft = self._drafts.of(self._shown, None if at is None else self._session.turns[at])
        last = at == len(self._session.turns) - 1
        self._composer.set_editing("" if at is None else "the last prompt" if last else "an earlier prompt")

    def restore_text(self, text: str, at: int | None) -> None:
        """Puts a text that could not be sent back into the empty message field, as an edit of a turn if it was one."""
        self._store_draft()
        self.show(at)
        self._prompt = "" if at is None else self._session.turns[at].prompt
        self._composer.set_text(text)

    def end(self) -> None:
        """Ends editing and shows the draft of the new message. The text in the field was sent or is discarded."""
        self._draft.text = ""
        self.show(None)
        self._composer.set_text(self._draft.text)

    def suspend(self) -> None:
        """Ends editing, if a prompt is being edited, and keeps its draft."""
        if self.at is not None:
            self._store_draft()
            self.show(None)
            self._composer.set_text(self._draft.text)

    def cancel(self) -> Callable[[], None] | None:
        """Ends editing and discards the draft. Returns a function that restores the draft, or None if there was none."""
        self._store_draft()
        turn, text = self._draft.turn, self._draft.text
        self.end()
        return partial(self._restore_draft, self._shown, turn, text) if text else None

    def _restore_draft(self, chat: StoredChat, turn: Turn | None, text: str) -> None:
        self._store_draft()
        draft = self._drafts.of(chat, turn)
        self._drafts.join(draft, [MessageDraft(chat, turn, text)])  # a new draft may exist
        if draft is self._draft:
            self._composer.set_text(draft.text)
        self.resume()

    def _store_draft(self) -> None:
        """Stores the text of the message field as its draft. An unchanged prompt is no draft."""
        text = self._composer.text
        self._draft.text = "" if text.strip() in ("", "" if self.at is None else self._prompt.strip()) else text

    def sync(self) -> None:
        """Ends or updates editing after the turns have changed; the edited turn may be gone."""
        if self._session.replaying or self._chat.stored_chat is not self._shown:
            return
        self._was_empty = not self._session.turns
        if self.at is None:
            return
        if any(turn is self._draft.turn for turn in self._session.turns):
            self.show(self.at)
        else:
            self.suspend()

    def resume(self) -> None:
        """Resumes editing a prompt that has a draft, if its turn is shown and no other is being edited."""
        turns = [] if self.at is not None else self._session.turns
        at = next((at for at, turn in enumerate(turns) if self._drafts.has_edit(self._shown, turn)), None)
        if at is not None:
            self.begin(at)

    def switch_chat(self, *, carry_draft: bool) -> None:
        """Switches to the drafts of the conversation that is now shown. If the previous one was not stored or was empty, its
        draft moves along or is kept for the next new chat.

        Args:
            carry_draft: moves the draft along in any case.
        """
        self._store_draft()
        message, rewritten = self._drafts.of(self._shown), self._drafts.edits(self._shown)
        continues_typing = carry_draft and bool(message.text)
        if self._was_empty:
            message.chat = StoredChat()
        self._drafts.forget()
        self._shown = self._chat.stored_chat
        self.show(None)
        carried = carry_draft or not self._chat.keeper.stores
        if carried:
            self._drafts.join(self._draft, [message, *rewritten])
        if self._composer.text != self._draft.text or not (carried or self._draft is message):
            self._composer.show_text(self._draft.text)  # even if equal: undo must not restore text typed for another chat
        self._drafts.save()
        if not continues_typing:  # while typing, the user stays in the same text
            self.resume()
