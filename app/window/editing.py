"""Which prompt is being edited in the message field, and the message that waits there meanwhile."""

from __future__ import annotations

from app.conversation.composer import Composer
from app.session.session import Session


class Editing:
    """Attributes:
    at: index of the turn whose prompt is being edited; None if a new message is being written.
    """

    def __init__(self, composer: Composer, session: Session) -> None:
        self._composer, self._session = composer, session
        self._unsent = self._prompt = ""
        self.at: int | None = None

    def begin(self, at: int) -> None:
        """Takes the prompt of a turn into the message field. What is being written there waits."""
        if self.at is None:
            self._unsent = self._composer.text
        self._prompt = self._session.turns[at].prompt
        self._composer.set_text(self._prompt)
        self.show(at)

    def show(self, at: int | None) -> None:
        """What is in the message field is to stand in place of a turn, or behind all."""
        self.at = at
        last = at == len(self._session.turns) - 1
        self._composer.set_editing("" if at is None else "the last prompt" if last else "an earlier prompt")

    def end(self) -> None:
        """Back to the message that was being written when editing began."""
        self.show(None)
        self._composer.set_text(self._unsent)
        self._unsent = ""

    def leave(self) -> None:
        """The same, if a prompt is being edited; else nothing changes."""
        if self.at is not None:
            self.end()

    def forget(self) -> None:
        """The same for a new conversation, into which a prompt that was rewritten is taken along where no message waits."""
        if not self._unsent.strip() and self._composer.text.strip() != self._prompt.strip():
            self.show(None)
        self.leave()
