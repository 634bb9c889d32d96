"""Tracks which answer the side views show: the newest, or the one in which a token was pinned."""

from __future__ import annotations

from PySide6.QtCore import QObject, Signal, Slot

from app.session.cursor import Cursor, Place
from app.session.session import Answer, Session


class ShownAnswer(QObject):
    """Follows the newest answer until the user chooses another; the next new answer is followed again.

    Signals:
        changed: another answer is shown.
    """

    changed = Signal()

    def __init__(self, session: Session, cursor: Cursor, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.session = session
        self._chosen: int | None = None
        self._newest: Answer | None = None
        cursor.pinned.connect(self._pinned)

    @property
    def turn(self) -> int:
        """Index of the shown turn; 0 in an empty conversation."""
        newest = len(self.session.turns) - 1
        return max(0, newest) if self._chosen is None or self._chosen > newest else self._chosen

    @property
    def answer(self) -> Answer | None:
        """The shown answer; None in an empty conversation."""
        turns = self.session.turns
        return turns[self.turn].answer if turns else None

    def choose(self, turn: int) -> None:
        """Shows the answer of a turn."""
        before = self.answer
        self._chosen = turn if 0 <= turn < len(self.session.turns) - 1 else None
        if self.answer is not before:
            self.changed.emit()

    def sync(self) -> None:
        """Updates after the session has changed; a new answer is followed."""
        if self.session.answer is not self._newest:
            self._newest, self._chosen = self.session.answer, None
            self.changed.emit()

    @Slot(object)
    def _pinned(self, place: Place | None) -> None:
        if place is not None:
            self.choose(place.turn)
