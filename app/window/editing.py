"""Which prompt is being edited in the message field, and what waits there meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from app.conversation.composer import Composer
from app.session.session import Session, Turn


class Editing:
    """A prompt that was rewritten and neither sent nor cancelled waits for its turn to be shown or edited again.

    Attributes:
        at: index of the turn whose prompt is being edited; None if a new message is being written.
    """

    def __init__(self, composer: Composer, session: Session) -> None:
        self._composer, self._session = composer, session
        self._unsent = ""
        self._turn: Turn | None = None
        self._rewritten: list[tuple[Turn, str]] = []
        self.at: int | None = None

    def begin(self, at: int) -> None:
        """Takes the prompt of a turn into the message field, rewritten as far as it is. What is being written there waits."""
        self.leave()
        self._unsent = self._composer.text
        turn = self._session.turns[at]
        waiting = next((each for each in self._rewritten if _same(each[0], turn)), None)
        if waiting is not None:
            self._rewritten.remove(waiting)
        self._composer.set_text(turn.prompt if waiting is None else waiting[1])
        self.show(at)

    def show(self, at: int | None) -> None:
        """What is in the message field is to stand in place of a turn, or behind all."""
        self.at, self._turn = at, None if at is None else self._session.turns[at]
        last = at == len(self._session.turns) - 1
        self._composer.set_editing("" if at is None else "the last prompt" if last else "an earlier prompt")

    def end(self) -> None:
        """Back to the message that was being written when editing began."""
        self.show(None)
        self._composer.set_text(self._unsent)
        self._unsent = ""

    def leave(self) -> None:
        """The same, if a prompt is being edited; what was rewritten waits."""
        if self._turn is not None:
            self._rewritten += self._written()
            self.end()

    def cancel(self) -> Callable[[], None] | None:
        """The same, but nothing waits; what is returned brings back what was rewritten, if anything was."""
        written = self._written()
        self.end()
        return partial(self._bring_back, written) if written else None

    def _bring_back(self, written: list[tuple[Turn, str]]) -> None:
        self._rewritten += written
        self.take_up()

    def _written(self) -> list[tuple[Turn, str]]:
        """The prompt that is being edited, if it is another one by now."""
        turn, text = self._turn, self._composer.text
        return [] if turn is None or text.strip() in ("", turn.prompt.strip()) else [(turn, text)]

    def follow(self) -> None:
        """Other turns may be shown, and the one that is being edited not among them."""
        if self.at is None or self._session.replaying:
            return
        if any(turn is self._turn for turn in self._session.turns):
            self.show(self.at)
        else:
            self.leave()

    def take_up(self) -> None:
        """Goes on with a prompt that waits, if its turn is shown and no other is being edited."""
        turns = [] if self.at is not None else self._session.turns
        at = next((at for at, turn in enumerate(turns) if any(_same(each, turn) for each, _ in self._rewritten)), None)
        if at is not None:
            self.begin(at)

    def move(self) -> None:
        """Another conversation is shown. A prompt of one that is not kept is taken along, behind the message that waits."""
        self.leave()
        lost = [text for turn, text in self._rewritten if turn.kept_as is None]
        if lost:
            self._rewritten = [each for each in self._rewritten if each[0].kept_as is not None]
            self._composer.set_text("\n\n".join(text for text in (self._composer.text, *lost) if text.strip()))
        self.take_up()


def _same(one: Turn, other: Turn) -> bool:
    """Whether two are the same turn; a chat that is opened again has new ones."""
    return one is other or (one.kept_as is not None and one.kept_as == other.kept_as)
