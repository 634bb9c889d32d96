"""The one place everything points at: token in the text, chip in a lane, point of a chart and row of a table agree on it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from PySide6.QtCore import QObject, Signal


@dataclass(frozen=True, slots=True)
class Place:
    """A round of an answer and, in it, perhaps one token.

    Attributes:
        turn: index of the turn in its session.
        round: index of the round in its answer.
        proposal: index of the proposal in its round, None if none is meant. An accepted proposal is meant by this index, not by
            that of the token it became.
        emitted: index of the correction, bonus or plain token among the round's emitted tokens, None if none is meant.
    """

    turn: int
    round: int
    proposal: int | None = None
    emitted: int | None = None

    @property
    def whole_round(self) -> bool:
        """Whether the round is meant and none of its tokens."""
        return self.proposal is None and self.emitted is None


class Cursor(QObject):
    """What is pointed at in one session. Views call `point`, `pin` and `leave`, and repaint when `moved` says so.

    A pinned place stays while the pointer wanders over nothing; pointing elsewhere shows that place as long as it lasts.

    Signals:
        moved: (Place or None) the place that is shown has changed.
        pinned: (Place or None) a place was fixed by a click or a key, or let go.
        marked: other places are marked.
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
        """What is shown: the place pointed at, else the pinned one."""
        return self._pinned if self._pointed is None else self._pointed

    @property
    def pin_place(self) -> Place | None:
        """The place that is fixed, even while the pointer shows another; None if none is."""
        return self._pinned

    def point(self, place: Place | None) -> None:
        """The pointer is over a place, or over none."""
        before = self.place
        self._pointed = place
        self._tell(before)

    def leave(self) -> None:
        """The pointer has left the view."""
        self.point(None)

    def pin(self, place: Place | None) -> None:
        """Fixes a place; None lets it go."""
        before, was = self.place, self._pinned
        self._pinned = place
        if was != place:
            self.pinned.emit(place)
        self._tell(before)

    @property
    def marks(self) -> Mapping[int, Place]:
        """Places that are marked wherever they are shown, by their round; at most one in a round, and all of one answer."""
        return self._marks

    def mark(self, marks: Mapping[int, Place]) -> None:
        """Marks these places and no others. A mapping that has grown is given again."""
        if marks or self._marks:
            self._marks = marks
            self.marked.emit()

    def forget(self) -> None:
        """Nothing is shown or pinned: the conversation has changed."""
        self._pointed = None
        self.pin(None)

    def _tell(self, before: Place | None) -> None:
        if self.place != before:
            self.moved.emit(self.place)
