"""Which prompt is being edited in the message field, and what waits there meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from app.conversation.composer import Composer
from app.session.chat import Chat
from app.session.session import Turn
from app.session.stored_chat import KeptChat
from app.session.unsent import Written


class Editing:
    """What is written for a chat and not sent waits for that chat to be shown again; a prompt that was rewritten and neither sent
    nor cancelled, for its turn to be shown or edited again.

    Attributes:
        at: index of the turn whose prompt is being edited; None if a new message is being written.
    """

    def __init__(self, composer: Composer, chat: Chat) -> None:
        self._composer, self._chat, self._session, self._unsent = composer, chat, chat.session, chat.unsent
        self._shown = chat.kept
        self._here = self._unsent.of(self._shown)
        self._prompt = ""
        self._empty = True
        self.at: int | None = None
        self._unsent.wanted.connect(self._note)

    def begin(self, at: int) -> None:
        """Takes the prompt of a turn into the message field, rewritten as far as it is. What is being written there waits."""
        self.leave()
        self._note()
        self.show(at)
        prompt, rewritten = self._session.turns[at].prompt, self._here.text
        self._composer.set_text(rewritten or prompt)
        self._prompt = prompt if rewritten else self._composer.text  # the field has no blanks that do not break, for one

    def show(self, at: int | None) -> None:
        """What is in the message field is to stand in place of a turn, or behind all."""
        self.at = at
        self._here = self._unsent.of(self._shown, None if at is None else self._session.turns[at])
        last = at == len(self._session.turns) - 1
        self._composer.set_editing("" if at is None else "the last prompt" if last else "an earlier prompt")

    def give_back(self, text: str, at: int | None) -> None:
        """Puts a text that could not be sent into the empty message field again, in place of a turn if it was meant to be."""
        self._note()
        self.show(at)
        self._prompt = "" if at is None else self._session.turns[at].prompt
        self._composer.set_text(text)

    def end(self) -> None:
        """Back to the message that was being written when editing began. What is in the field is sent, or not wanted."""
        self._here.text = ""
        self.show(None)
        self._composer.set_text(self._here.text)

    def leave(self) -> None:
        """The same, if a prompt is being edited; what was rewritten waits."""
        if self.at is not None:
            self._note()
            self.show(None)
            self._composer.set_text(self._here.text)

    def cancel(self) -> Callable[[], None] | None:
        """The same, but nothing waits; what is returned brings back what was rewritten, if anything was."""
        self._note()
        turn, text = self._here.turn, self._here.text
        self.end()
        return partial(self._bring_back, self._shown, turn, text) if text else None

    def _bring_back(self, chat: KeptChat, turn: Turn | None, text: str) -> None:
        self._note()
        written = self._unsent.of(chat, turn)
        self._unsent.join(written, [Written(chat, turn, text)])  # it may have been begun again
        if written is self._here:
            self._composer.set_text(written.text)
        self.take_up()

    def _note(self) -> None:
        """Takes down what is in the message field. A prompt that is as it was is nothing."""
        text = self._composer.text
        self._here.text = "" if text.strip() in ("", "" if self.at is None else self._prompt.strip()) else text

    def follow(self) -> None:
        """Other turns may be shown, and the one that is being edited not among them."""
        if self._session.replaying or self._chat.kept is not self._shown:
            return
        self._empty = not self._session.turns
        if self.at is None:
            return
        if any(turn is self._here.turn for turn in self._session.turns):
            self.show(self.at)
        else:
            self.leave()

    def take_up(self) -> None:
        """Goes on with a prompt that waits, if its turn is shown and no other is being edited."""
        turns = [] if self.at is not None else self._session.turns
        at = next((at for at, turn in enumerate(turns) if self._unsent.is_rewritten(self._shown, turn)), None)
        if at is not None:
            self.begin(at)

    def move(self, *, along: bool) -> None:
        """Another conversation is shown, with what is written for it. Where the one before is not kept, or is empty, what was
        written for that is taken along or waits for a new one.

        Args:
            along: whether it is taken along in any case.
        """
        self._note()
        message, rewritten = self._unsent.of(self._shown), self._unsent.rewritten(self._shown)
        goes_on = along and bool(message.text)
        if self._empty:
            message.chat = KeptChat()
        self._unsent.forget()
        self._shown = self._chat.kept
        self.show(None)
        taken = along or self._chat.keeper is None
        if taken:
            self._unsent.join(self._here, [message, *rewritten])
        if self._composer.text != self._here.text or not (taken or self._here is message):
            self._composer.show_text(self._here.text)  # an equal one, too: undo is not to bring what was typed for another chat
        self._unsent.keep()
        if not goes_on:  # who is typing goes on in the same text
            self.take_up()
