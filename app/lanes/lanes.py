"""The view of one answer's rounds as lanes on a time axis. Mouse and keys move the window's cursor, and the view follows it."""

from __future__ import annotations

from typing import Literal

from PySide6.QtCore import QEvent, QPointF, QRect, QRectF, Qt, Signal, Slot
from PySide6.QtGui import (
    QAccessible,
    QAccessibleAnnouncementEvent,
    QColor,
    QFocusEvent,
    QHelpEvent,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QResizeEvent,
    QWheelEvent,
)
from PySide6.QtWidgets import QAccessibleWidget, QToolTip

from app.lanes.field import WHOLE_LANE, LaneField
from app.lanes.geometry import MAX_ZOOM, MIN_ZOOM, UNTIMED_NOTE, Clock, lane_text, time_text
from app.lanes.painter import Lane, LanePainter
from app.look.marks import PaintedView, draw_focus_frame, draw_text_in
from app.look.theme import DARK, Theme
from app.look.widgets import icon_button, named, tint
from app.session.cursor import Cursor, Place
from app.session.session import NO_ROUNDS_YET, Answer
from engine.lens.lane_chips import chip_text

ZOOM_STEP = 1.25
ARROWS: dict[int, Literal["left", "right", "up", "down"]] = {
    Qt.Key.Key_Left: "left",
    Qt.Key.Key_Right: "right",
    Qt.Key.Key_Up: "up",
    Qt.Key.Key_Down: "down",
}
STEPS_NOTE = "Draft steps are drawn with equal lengths: only their total is measured."


class Lanes(PaintedView):
    """Shows one answer. Only the lanes in view are painted, so ten thousand cost no more than twenty.

    Attributes:
        field: the layout of the lanes.
        is_following: whether new rounds keep the end in view. It stops when the user scrolls away and resumes at the end.

    Signals:
        zoomed: zoom or clock has changed.
    """

    zoomed = Signal()

    def __init__(self, cursor: Cursor) -> None:
        super().__init__()
        named(
            self,
            "lanes",
            "Rounds",
            "One row per round. Up and Down move between rounds, and in a tree between the choices for a position; Left and "
            "Right between tokens. Enter pins the current one, plus and minus zoom.",
        )
        self.accessible: object = None
        self.cursor_place = cursor
        self._pointed_by_key = False  # whether a key pointed at what is shown
        self._column = WHOLE_LANE  # the column that Up and Down keep to
        self._shown: Place | None = None
        self.field = LaneField()
        self._answer: Answer | None = None
        self._turn = 0
        self.is_following = True
        self._look = LanePainter(DARK, 1.0)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.viewport().setMouseTracking(True)
        self.viewport().setAttribute(Qt.WidgetAttribute.WA_OpaquePaintEvent)  # what has moved is then not painted again
        self.verticalScrollBar().valueChanged.connect(self._scroll_vertically)
        self.horizontalScrollBar().valueChanged.connect(self._scroll_horizontally)
        self.follow_button = icon_button("down", "Follow the latest round", self.follow)
        self.follow_button.setParent(self.viewport())
        self.follow_button.setProperty("floating", True)
        self.follow_button.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.follow_button.hide()
        cursor.moved.connect(self._moved)
        cursor.pinned.connect(self._pinned)
        cursor.marked.connect(self._marked)

    # What is shown

    def show_answer(self, answer: Answer | None, turn: int) -> None:
        """Shows what the answer has gained, or else another answer, or none, and scrolls to its pinned place.

        Args:
            turn: index of its turn in the session.
        """
        is_other = answer is not self._answer or turn != self._turn
        if is_other:
            self._answer, self._turn, self.is_following = answer, turn, True
        newest = self.field.count - 1  # a pause may follow it now
        self.field.grow([] if answer is None else answer.rounds, reset=is_other)
        self._fit(None if is_other else newest)
        if is_other:
            self._column = WHOLE_LANE
            self._pinned(self.cursor_place.pin_place)

    @property
    def _empty_text(self) -> str:
        return NO_ROUNDS_YET if self._answer is None else self._answer.waiting_words

    def set_look(self, theme: Theme, scale: float) -> None:
        """Makes a new painter for theme and text scale and lays out the lanes, whose height depends on the scale."""
        self._look = LanePainter(theme, scale)
        tint(self.follow_button, theme, scale)
        self._fit()

    def set_clock(self, clock: Clock) -> None:
        """Sets the origin of a lane's time: the start of its own round, or of the answer."""
        if clock != self.field.clock:
            self.field.clock = clock
            self._fit()
            self.zoomed.emit()

    @property
    def zoom(self) -> float:
        """Factor on the time axis; see `LaneField.zoom` for what 1 shows."""
        return self.field.zoom

    def set_zoom(self, zoom: float, at: QPointF | None = None) -> None:
        """Zooms around the point `at`, by default the left end of the middle lane."""
        field = self.field
        zoom = min(MAX_ZOOM, max(MIN_ZOOM, zoom))
        if zoom == field.zoom:
            return
        anchor = QPointF(field.gutter, field.height / 2) if at is None else at
        lane, share = field.lane_at(anchor.y())
        time = (anchor.x() - field.gutter + field.x) / field.scale.per_ms
        following = self.is_following
        field.zoom = zoom
        self._fit()
        self.horizontalScrollBar().setValue(round(time * field.scale.per_ms - anchor.x() + field.gutter))
        if not following:
            self.verticalScrollBar().setValue(round(field.offset_of(lane, share) - anchor.y()))
        self.zoomed.emit()

    @Slot()
    def zoom_in(self) -> None:
        """Stretches the time axis by the factor `ZOOM_STEP`; emits `zoomed` unless at the limit."""
        self.set_zoom(self.zoom * ZOOM_STEP)

    @Slot()
    def zoom_out(self) -> None:
        """Shrinks the time axis by the factor `ZOOM_STEP`; emits `zoomed` unless at the limit."""
        self.set_zoom(self.zoom / ZOOM_STEP)

    @Slot()
    def zoom_fit(self) -> None:
        """Goes back to zoom 1, at which a typical round, or a screenful on the answer's clock, fits the view."""
        self.set_zoom(1.0)

    @Slot()
    def follow(self) -> None:
        """Scrolls to the newest round and follows new ones."""
        self.is_following = True
        self.verticalScrollBar().setValue(self.verticalScrollBar().maximum())
        self._update_follow_button()

    # Sizes

    def _fit(self, first: int | None = None) -> None:
        """Updates sizes and scroll ranges.

        With `first`, only the lanes from that index on have changed, and the others are not repainted if they did not move.
        """
        field, painter = self.field, self._look
        before = (field.scale, field.gutter, field.count > 0)
        axis = round(22 * painter.text_scale)
        field.fit(self.viewport().width(), self.viewport().height() - axis, painter.gutter_width(field.count), painter.text_scale)
        following = self.is_following
        rows, columns = self.verticalScrollBar(), self.horizontalScrollBar()
        rows.setSingleStep(field.scale.row)
        rows.setPageStep(round(field.height))
        rows.setRange(0, max(0, field.total_height - int(field.height)))
        if following:
            rows.setValue(rows.maximum())
        self.is_following = following
        columns.setSingleStep(round(24 * painter.text_scale))
        columns.setPageStep(round(field.lanes_width))
        columns.setRange(0, max(0, round(field.total_width - field.lanes_width - 2)))
        self._update_follow_button()
        if first is None or first < 0 or before != (field.scale, field.gutter, field.count > 0):
            self.viewport().update()
        else:
            top = field.top_of(first)
            self.viewport().update(QRect(0, top, self.viewport().width(), round(field.height) - top))

    def _update_follow_button(self) -> None:
        size = round(26 * self._look.text_scale)
        self.follow_button.setGeometry(self.viewport().width() - size - 8, round(self.field.height) - size - 8, size, size)
        self.follow_button.setVisible(not self.is_following and self.verticalScrollBar().maximum() > 0)

    @Slot()
    def _scroll_vertically(self) -> None:
        bar = self.verticalScrollBar()
        moved, self.field.y = self.field.y - bar.value(), bar.value()
        self.is_following = bar.value() >= bar.maximum()
        self._update_follow_button()
        if self.field.clock == "round" and self.follow_button.isHidden():
            self.viewport().scroll(0, moved, QRect(0, 0, self.viewport().width(), round(self.field.height)))
        else:  # lanes move sideways as well, or a button stands before them
            self.viewport().update()

    @Slot()
    def _scroll_horizontally(self) -> None:
        self.field.x = self.horizontalScrollBar().value()
        self.viewport().update()

    # Painting

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self.viewport())
        look, field, area = self._look, self.field, event.rect()
        painter.fillRect(area, QColor(look.theme.panel))
        if field.count:
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            marks, height = field.axis_ticks(), round(field.height)
            painter.save()
            painter.setClipRect(QRect(0, 0, self.viewport().width(), height).intersected(area))
            look.draw_grid(painter, marks, height)
            for index in field.lanes_between(area.top(), area.bottom()):
                self._paint_lane(painter, index)
            self._paint_dividers(painter, area)
            painter.restore()
            if area.bottom() >= height:
                look.draw_axis(painter, QRectF(0, height, self.viewport().width(), self.viewport().height() - height), marks)
        else:
            painter.setFont(look.chip_font)
            draw_text_in(
                painter,
                look.theme.faint,
                self.viewport().rect(),
                Qt.AlignmentFlag.AlignCenter | Qt.TextFlag.TextWordWrap,
                self._empty_text,
            )
        if self.has_keyboard_focus:
            draw_focus_frame(painter, self.viewport().rect().adjusted(0, 0, -1, -1), look.theme)
        painter.end()

    def _paint_dividers(self, painter: QPainter, area: QRect) -> None:
        """Paints the dividers over the lanes, because their words overlap the lanes on both sides."""
        for divider in () if self._answer is None else self._answer.dividers:
            top, right = self.field.top_of(divider.first), self.field.width - 4
            label = self._look.divider_area(divider.from_here, top, right)
            if divider.first < self.field.count and label.top() <= area.bottom() and label.bottom() >= area.top():
                self._look.draw_divider(painter, divider.from_here, self._look.theme.rule(divider.rule), top, right)

    def _paint_lane(self, painter: QPainter, index: int) -> None:
        field, look, cursor = self.field, self._look, self.cursor_place
        number_interval = max(1, -(-round(look.label_metrics.height()) // field.scale.row))
        lane = Lane(
            field.rounds[index],
            field.top_of(index),
            start=field.start_of(index),
            left=field.gutter,
            right=field.width - 4,
            pause=field.pause_after(index),
            highlighted=self._slot_in(index, self._shown),
            marked=self._slot_in(index, cursor.marks.get(index)),
            pinned=self._slot_in(index, cursor.pin_place) is not None,
            rows=field.rows_of(index),
            is_numbered=index % number_interval == 0,
        )
        look.draw_lane(painter, lane, field.scale)

    # The cursor

    def place_at(self, point: QPointF) -> Place | None:
        """Returns the place at a point of the viewport; None if there is none."""
        found = self.field.at(point.x(), point.y())
        return None if found is None else self._place(*found)

    def _place(self, index: int, slot: int) -> Place:
        if slot == WHOLE_LANE:
            return Place(self._turn, index)
        chip = self.field.chips(index)[slot]
        return Place(self._turn, index, chip.proposal, chip.emitted)

    def _in_lanes(self, place: Place | None) -> Place | None:
        """Returns the place if it is in one of these lanes, else None."""
        is_in_lanes = place is not None and place.turn == self._turn and 0 <= place.round < self.field.count
        return place if is_in_lanes else None

    def _slot(self, place: Place) -> int:
        return WHOLE_LANE if place.whole_round else self.field.slot_of(place.round, place.proposal, place.emitted)

    def _slot_in(self, index: int, place: Place | None) -> int | None:
        """Returns the slot of a place, `WHOLE_LANE` for the whole round; None if the place is not in this lane."""
        found = self._in_lanes(place)
        return self._slot(found) if found is not None and found.round == index else None

    @Slot(object)
    def _moved(self, place: Place | None) -> None:
        for changed in (self._in_lanes(self._shown), self._in_lanes(place)):
            if changed is not None:
                top, height = self.field.top_of(changed.round), self.field.height_of(changed.round)
                self.viewport().update(QRect(0, top, self.viewport().width(), height))
        self._shown = place

    @Slot()
    def _marked(self) -> None:
        self.viewport().update()

    @Slot(object)
    def _pinned(self, place: Place | None) -> None:
        self.viewport().update()
        if (pinned := self._in_lanes(place)) is not None:
            self._column = self.field.column_of(pinned.round, self._slot(pinned))
            self.verticalScrollBar().setValue(self.field.offset_to_show(pinned.round))

    def _pin(self, place: Place | None) -> None:
        """Pins a place, or unpins it if it is the pinned one."""
        self.cursor_place.pin(None if place == self.cursor_place.pin_place else place)

    def _point_at(self, index: int, column: int, slot: int | None = None) -> None:
        """Points at a lane and one of its tokens, by key: at a slot, or in a column at the token of the text."""
        field = self.field
        if not field.count:
            return
        index = min(max(0, index), field.count - 1)
        self._pointed_by_key = True
        self.verticalScrollBar().setValue(field.offset_to_show(index))
        self.is_following = self.is_following and index == field.count - 1
        self._update_follow_button()
        self.cursor_place.point(self._place(index, field.slot_in_text(index, column) if slot is None else slot))
        if QAccessible.isActive():
            QAccessible.updateAccessibility(QAccessibleAnnouncementEvent(self, self.accessible_text()))

    def accessible_text(self) -> str:
        """Describes the place pointed at, or else the newest round."""
        field = self.field
        if not field.count:
            return self._empty_text
        place = self._in_lanes(self.cursor_place.place)
        if place is None:
            return lane_text(field.rounds[field.count - 1])
        slot, round_ = self._slot(place), field.rounds[place.round]
        return lane_text(round_) if slot == WHOLE_LANE else f"{chip_text(round_, slot)}, round {place.round + 1}"

    # Qt

    def scrollContentsBy(self, dx: int, dy: int) -> None:
        """Does nothing: `_scroll_vertically` and `_scroll_horizontally` repaint less than everything."""

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit()

    def wheelEvent(self, event: QWheelEvent) -> None:
        delta = event.angleDelta()
        if event.modifiers() & Qt.KeyboardModifier.ControlModifier:
            self.set_zoom(self.zoom * ZOOM_STEP ** (delta.y() / 120), event.position())
            event.accept()
        elif event.modifiers() & Qt.KeyboardModifier.ShiftModifier:
            bar = self.horizontalScrollBar()
            bar.setValue(bar.value() - (delta.y() or delta.x()))
            event.accept()
        else:
            super().wheelEvent(event)

    def viewportEvent(self, event: QEvent) -> bool:
        if event.type() == QEvent.Type.Leave:
            self.cursor_place.leave()
        elif isinstance(event, QHelpEvent) and event.type() == QEvent.Type.ToolTip:
            QToolTip.showText(event.globalPos(), self.explanation_at(QPointF(event.pos())), self.viewport())
            return True
        return super().viewportEvent(event)

    def explanation_at(self, point: QPointF) -> str:
        """Returns the tooltip with a lane's times; empty over its chips."""
        place = self.place_at(point)
        if place is None or not place.whole_round:
            return ""
        round_ = self.field.rounds[place.round]
        note = UNTIMED_NOTE if not round_.milliseconds.measured else STEPS_NOTE if max(round_.depths, default=0) > 1 else ""
        return f"<p>Round {place.round + 1}: {time_text(round_)}</p>{f'<p>{note}</p>' if note else ''}"

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        self._pointed_by_key = False
        self.cursor_place.point(self.place_at(event.position()))

    def mousePressEvent(self, event: QMouseEvent) -> None:
        if event.button() == Qt.MouseButton.LeftButton:
            self._pin(self.place_at(event.position()))

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        """Does nothing: its second press would unpin what the first one pinned."""

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        """Does nothing: the press did everything."""

    def keyPressEvent(self, event: QKeyEvent) -> None:
        key, place = Qt.Key(event.key()), self._in_lanes(self.cursor_place.place)
        if self._move_by_key(key, place):
            return
        if key in (Qt.Key.Key_Return, Qt.Key.Key_Enter, Qt.Key.Key_Space) and place is not None:
            self._pin(place)
        elif key in (Qt.Key.Key_Plus, Qt.Key.Key_Equal):
            self.zoom_in()
        elif key == Qt.Key.Key_Minus:
            self.zoom_out()
        elif key == Qt.Key.Key_0:
            self.zoom_fit()
        else:
            super().keyPressEvent(event)

    def _move_by_key(self, key: Qt.Key, place: Place | None) -> bool:
        """Handles arrow and page keys; without a place they start at the lowest lane in view."""
        field = self.field
        if place is None:
            start, slot, step = max(field.lanes_between(0, round(field.height) - field.scale.row), default=0), WHOLE_LANE, 0
        else:
            start, slot, step = place.round, self._slot(place), 1
        if slot == WHOLE_LANE:
            self._column = WHOLE_LANE
        page = max(1, round(field.height) // field.scale.row - 1)
        rows = {
            Qt.Key.Key_Up: start - step,
            Qt.Key.Key_Down: start + step,
            Qt.Key.Key_PageUp: start - page,
            Qt.Key.Key_PageDown: start + page,
            Qt.Key.Key_Home: 0,
            Qt.Key.Key_End: field.count - 1,
        }
        beside = field.neighbour(start, slot, ARROWS[key]) if field.count and key in ARROWS else None
        if beside is not None or key in (Qt.Key.Key_Left, Qt.Key.Key_Right):
            self._point_at(start, WHOLE_LANE, slot if beside is None else beside)
            current = self._in_lanes(self.cursor_place.place)
            self._column = WHOLE_LANE if current is None else field.column_of(current.round, self._slot(current))
        elif key in rows:
            self._point_at(rows[key], self._column)
            if key == Qt.Key.Key_End:
                self.follow()
        else:
            return False
        return True

    def focusOutEvent(self, event: QFocusEvent) -> None:
        super().focusOutEvent(event)
        if self._pointed_by_key:
            self._pointed_by_key = False
            self.cursor_place.leave()


class LanesInterface(QAccessibleWidget):
    """The accessible interface of the lanes, which are painted and have no widgets of their own: a list whose value is the round,
    or the token in it, that is pointed at."""

    def __init__(self, lanes: Lanes) -> None:
        super().__init__(lanes, QAccessible.Role.List, lanes.accessibleName())

    def text(self, kind: QAccessible.Text) -> str:
        """Returns the round or token pointed at as the value; name and description stay those of the widget."""
        lanes = self.object()
        if kind == QAccessible.Text.Value and isinstance(lanes, Lanes):
            return lanes.accessible_text()
        return super().text(kind)
