"""The shared cursor, by which text, lanes, charts and table highlight the same place; and the answer that the side views show."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from PySide6.QtCore import QObject, Signal, Slot

from app.session.session import Answer, Session


@dataclass(frozen=True, slots=True)
class Place:
    """A round of an answer, and optionally one token in it.

    Attributes:
        turn: index of the turn in its session.
        round: index of the round in its answer.
        proposal: index of the proposal in its round, None if no proposal is meant. An accepted proposal always has this index,
            not that of the emitted token it became.
        emitted: index of the correction, bonus or plain token among the round's emitted tokens, None if no such token is meant.
    """

    turn: int
    round: int
    proposal: int | None = None
    emitted: int | None = None

    @property
    def whole_round(self) -> bool:
        """Whether the place is a whole round rather than one of its tokens."""
        return self.proposal is None and self.emitted is None


class Cursor(QObject):
    """The place highlighted in one session. Views call `point`, `pin` and `leave`, and repaint on `moved`.

    A place under the pointer takes precedence over the pinned one, which shows again when the pointer leaves.

    Signals:
        moved: (Place or None) the highlighted place has changed.
        pinned: (Place or None) a place was pinned by a click or a key, or unpinned.
        marked: the marked places have changed.
    """

    moved = Signal(object)
    pinned = Signal(object)
    marked = Signal()

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._pointed: Place | None = None
        self._pinned: Place | None = None
        self._marks: Mapping[int, Place] = {}

    @property
    def place(self) -> Place | None:
        """The highlighted place: the one under the pointer, else the pinned one."""
        return self._pinned if self._pointed is None else self._pointed

    @property
    def pin_place(self) -> Place | None:
        """The pinned place, even while the pointer highlights another; None if none is pinned."""
        return self._pinned

    def point(self, place: Place | None) -> None:
        """Highlights the place under the pointer; None for no place."""
        before = self.place
        self._pointed = place
        self._emit_if_moved(before)

    def leave(self) -> None:
        """Clears the highlight when the pointer leaves the view."""
        self.point(None)

    def pin(self, place: Place | None) -> None:
        """Pins a place; None unpins it."""
        before, was = self.place, self._pinned
        self._pinned = place
        if was != place:
            self.pinned.emit(place)
        self._emit_if_moved(before)

    @property
    def marks(self) -> Mapping[int, Place]:
        """Additional marked places by round: at most one per round, all in the same answer."""
        return self._marks

    def mark(self, marks: Mapping[int, Place]) -> None:
        """Replaces the marked places. Pass a mapping again after it has grown."""
        if marks or self._marks:
            self._marks = marks
            self.marked.emit()

    def forget(self) -> None:
        """Clears the cursor after the conversation has changed."""
        self._pointed = None
        self.pin(None)

    def _emit_if_moved(self, before: Place | None) -> None:
        if self.place != before:
            self.moved.emit(self.place)


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
