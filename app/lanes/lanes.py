"""The rounds of one answer as lanes on a time axis, under mouse and keys: they point the window's cursor, and follow it."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QPointF, QRect, Qt, Slot
from PySide6.QtGui import QAccessible, QAccessibleAnnouncementEvent, QFocusEvent, QHelpEvent, QKeyEvent, QMouseEvent
from PySide6.QtWidgets import QToolTip

from app.lanes.field import WHOLE
from app.lanes.geometry import chip_words, lane_words, time_words
from app.lanes.view import EMPTY, LaneView
from app.look.command import escape_is_wanted
from app.session.cursor import Cursor, Place
from app.session.session import Answer

STEPS_NOTE = "Draft steps are drawn with equal lengths: only their total is measured."
KEYBOARD_REASONS = (Qt.FocusReason.TabFocusReason, Qt.FocusReason.BacktabFocusReason, Qt.FocusReason.ShortcutFocusReason)


class Lanes(LaneView):
    """Paints only the lanes in view, so ten thousand cost no more than twenty."""

    def __init__(self, cursor: Cursor) -> None:
        super().__init__()
        self.setObjectName("lanes")
        self.setAccessibleName("Rounds")
        self.setAccessibleDescription(
            "One row per round. Up and Down move between rounds, Left and Right between tokens, "
            "Return pins the current one, plus and minus zoom."
        )
        self.accessible: object = None
        self.cursor_place = cursor
        self._steered = False  # whether a key pointed at what is shown
        self._column = WHOLE  # the slot that Up and Down keep to
        self._shown: Place | None = None
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.viewport().setMouseTracking(True)
        cursor.moved.connect(self._moved)
        cursor.pinned.connect(self._pinned)

    def show_answer(self, answer: Answer | None, turn: int) -> None:
        """Another answer, or none; `turn` is its index in the session. What is pinned in it is scrolled to."""
        other = answer is not self._answer or turn != self._turn
        super().show_answer(answer, turn)
        if other:
            self._column = WHOLE
            self._pinned(self.cursor_place.pin_place)

    # The cursor

    def place_at(self, point: QPointF) -> Place | None:
        """What a point of the viewport means."""
        found = self.field.at(point.x(), point.y())
        return None if found is None else self._place(*found)

    def _place(self, index: int, slot: int) -> Place:
        if slot == WHOLE:
            return Place(self._turn, index)
        chip = self.field.chips(index)[slot]
        return Place(self._turn, index, chip.proposal, chip.emitted)

    def _here(self, place: Place | None) -> Place | None:
        """A place, if it is in one of these lanes."""
        there = place is not None and place.turn == self._turn and 0 <= place.round < self.field.count
        return place if there else None

    def _slot(self, place: Place) -> int:
        return WHOLE if place.whole_round else self.field.slot_of(place.round, place.proposal, place.emitted)

    def lit_slot(self, index: int) -> int | None:
        """The slot of the place that the cursor shows, if it is in this lane."""
        place = self._here(self._shown)
        return self._slot(place) if place is not None and place.round == index else None

    def is_pinned(self, index: int) -> bool:
        """Whether the pinned place is in this lane, be it the whole round or one token."""
        pin = self._here(self.cursor_place.pin_place)
        return pin is not None and pin.round == index

    @Slot(object)
    def _moved(self, place: Place | None) -> None:
        for changed in (self._here(self._shown), self._here(place)):
            if changed is not None:
                top, row = self.field.top_of(changed.round), self.field.scale.row
                self.viewport().update(QRect(0, top, self.viewport().width(), row))
        self._shown = place

    @Slot(object)
    def _pinned(self, place: Place | None) -> None:
        self.viewport().update()
        if (here := self._here(place)) is not None:
            self._column = self._slot(here)
            self.verticalScrollBar().setValue(self.field.revealing(here.round))

    def _pin(self, place: Place | None) -> None:
        """Pins a place, or lets it go if it is the pinned one."""
        self.cursor_place.pin(None if place == self.cursor_place.pin_place else place)

    def _go(self, index: int, column: int) -> None:
        """Points at a lane and one of its chips, by key."""
        field = self.field
        if not field.count:
            return
        index = min(max(0, index), field.count - 1)
        slot = max(WHOLE, min(column, len(field.chips(index)) - 1))
        self._steered = True
        self.verticalScrollBar().setValue(field.revealing(index))
        self._following = self._following and index == field.count - 1
        self._place_button()
        self.cursor_place.point(self._place(index, slot))
        if QAccessible.isActive():
            QAccessible.updateAccessibility(QAccessibleAnnouncementEvent(self, self.spoken()))

    def spoken(self) -> str:
        """The place pointed at, or else the newest round, in words."""
        field = self.field
        if not field.count:
            return EMPTY
        place = self._here(self.cursor_place.place)
        if place is None:
            return lane_words(field.rounds[field.count - 1])
        slot, round_ = self._slot(place), field.rounds[place.round]
        return lane_words(round_) if slot == WHOLE else f"{chip_words(round_, slot)}, round {place.round + 1}"

    # Qt

    def viewportEvent(self, event: QEvent) -> bool:
        if event.type() == QEvent.Type.Leave:
            self.cursor_place.leave()
        elif isinstance(event, QHelpEvent) and event.type() == QEvent.Type.ToolTip:
            QToolTip.showText(event.globalPos(), self._explanation_at(QPointF(event.pos())), self.viewport())
            return True
        return super().viewportEvent(event)

    def _explanation_at(self, point: QPointF) -> str:
        """A lane's times, where the pointer rests beside its chips."""
        place = self.place_at(point)
        if place is None or not place.whole_round:
            return ""
        round_ = self.field.rounds[place.round]
        steps = f"<p>{STEPS_NOTE}</p>" if round_.milliseconds.measured and len(round_.proposals) > 1 else ""
        return f"<p>Round {place.round + 1}: {time_words(round_)}</p>{steps}"

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        self._steered = False
        self.cursor_place.point(self.place_at(event.position()))

    def mousePressEvent(self, event: QMouseEvent) -> None:
        if event.button() == Qt.MouseButton.LeftButton:
            self._pin(self.place_at(event.position()))

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        """Does not let go again what its first press has pinned."""

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        """Everything was done by the press."""

    def event(self, event: QEvent) -> bool:
        """Escape lets go of what is kept before it stops the answer."""
        return escape_is_wanted(event, lambda: self.cursor_place.pin_place is not None) or super().event(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        key, place = Qt.Key(event.key()), self._here(self.cursor_place.place)
        if self._walk(key, place):
            return
        if key in (Qt.Key.Key_Return, Qt.Key.Key_Enter, Qt.Key.Key_Space) and place is not None:
            self._pin(place)
        elif key in (Qt.Key.Key_Plus, Qt.Key.Key_Equal):
            self.zoom_in()
        elif key == Qt.Key.Key_Minus:
            self.zoom_out()
        elif key == Qt.Key.Key_0:
            self.zoom_fit()
        elif key == Qt.Key.Key_Escape and self.cursor_place.pin_place is not None:
            self.cursor_place.pin(None)
        else:
            super().keyPressEvent(event)

    def _walk(self, key: Qt.Key, place: Place | None) -> bool:
        """Arrow keys and their like; from nowhere they begin at the lowest lane in view."""
        field = self.field
        if place is None:
            start, slot, step = max(field.within(0, round(field.height) - field.scale.row), default=0), WHOLE, 0
        else:
            start, slot, step = place.round, self._slot(place), 1
        if slot == WHOLE:
            self._column = WHOLE
        page = max(1, round(field.height) // field.scale.row - 1)
        rows = {
            Qt.Key.Key_Up: start - step,
            Qt.Key.Key_Down: start + step,
            Qt.Key.Key_PageUp: start - page,
            Qt.Key.Key_PageDown: start + page,
            Qt.Key.Key_Home: 0,
            Qt.Key.Key_End: field.count - 1,
        }
        if key in rows:
            self._go(rows[key], self._column)
            if key == Qt.Key.Key_End:
                self.follow()
        elif key in (Qt.Key.Key_Left, Qt.Key.Key_Right):
            self._go(start, max(WHOLE, slot - 1) if key == Qt.Key.Key_Left else slot + 1)
            now = self._here(self.cursor_place.place)
            self._column = WHOLE if now is None else self._slot(now)
        else:
            return False
        return True

    def focusInEvent(self, event: QFocusEvent) -> None:
        super().focusInEvent(event)
        self.focused = event.reason() in KEYBOARD_REASONS
        self.viewport().update()

    def focusOutEvent(self, event: QFocusEvent) -> None:
        super().focusOutEvent(event)
        self.focused = False
        if self._steered:
            self._steered = False
            self.cursor_place.leave()
        self.viewport().update()
