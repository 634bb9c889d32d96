"""The field of lanes on the screen: scrolled, zoomed, followed and painted, new lanes alone where nothing else has changed."""

from __future__ import annotations

from PySide6.QtCore import QPointF, QRect, QRectF, Qt, Signal, Slot
from PySide6.QtGui import QColor, QPainter, QPaintEvent, QResizeEvent, QWheelEvent
from PySide6.QtWidgets import QAbstractScrollArea, QFrame

from app.lanes.field import LaneField
from app.lanes.geometry import MAX_ZOOM, MIN_ZOOM, Clock, change_words
from app.lanes.painter import Lane, LanePainter
from app.look.theme import DARK, Theme
from app.look.widgets import frame_focus, icon_button, tint
from app.session.session import Answer

EMPTY = "Rounds appear here as they are judged."
ZOOM_STEP = 1.25


class LaneView(QAbstractScrollArea):
    """Shows one answer. Call `sync` after it has gained rounds.

    Attributes:
        field: what stands where.
        focused: whether the keyboard's frame is drawn.

    Signals:
        zoomed: zoom or clock has changed.
    """

    zoomed = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.field = LaneField()
        self.focused = False
        self._answer: Answer | None = None
        self._turn = 0
        self._following = True
        self._look = LanePainter(DARK, 1.0)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.viewport().setAttribute(Qt.WidgetAttribute.WA_OpaquePaintEvent)  # what has moved is then not painted again
        self.verticalScrollBar().valueChanged.connect(self._scrolled)
        self.horizontalScrollBar().valueChanged.connect(self._scrolled_sideways)
        self.latest = icon_button("down", "Follow the latest round", self.follow)
        self.latest.setParent(self.viewport())
        self.latest.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.latest.hide()

    def lit_slot(self, index: int) -> int | None:
        """The slot of a lane that is pointed at, `WHOLE` for the lane itself; None if nothing of it is."""
        return None

    def is_pinned(self, index: int) -> bool:
        """Whether a lane is drawn as pinned; never here, where nothing can be pointed at."""
        return False

    # What is shown

    def show_answer(self, answer: Answer | None, turn: int) -> None:
        """Another answer, or none; `turn` is its index in the session."""
        other = answer is not self._answer or turn != self._turn
        if other:
            self._answer, self._turn, self._following = answer, turn, True
        newest = self.field.count - 1  # a pause may follow it now
        self.field.grow([] if answer is None else answer.rounds, anew=other)
        self._fit(None if other else newest)

    def sync(self) -> None:
        """Takes in the rounds that the answer has gained."""
        self.show_answer(self._answer, self._turn)

    def set_look(self, theme: Theme, scale: float) -> None:
        """Makes a new painter for theme and text scale and lays out the lanes, whose height depends on the scale."""
        self._look = LanePainter(theme, scale)
        tint(self.latest, theme, scale)
        self._fit()

    def set_clock(self, clock: Clock) -> None:
        """Where the time of a lane begins: with its own round, or with the answer."""
        if clock != self.field.clock:
            self.field.clock = clock
            self._fit()
            self.zoomed.emit()

    @property
    def zoom(self) -> float:
        """Factor on the time axis; see `LaneField.zoom` for what 1 shows."""
        return self.field.zoom

    def set_zoom(self, zoom: float, at: QPointF | None = None) -> None:
        """Zooms; what is under `at` (the left end of the middle lane by default) stays there."""
        field = self.field
        zoom = min(MAX_ZOOM, max(MIN_ZOOM, zoom))
        if zoom == field.zoom:
            return
        where = QPointF(field.gutter, field.height / 2) if at is None else at
        lane = (where.y() + field.y) / field.scale.row
        time = (where.x() - field.gutter + field.x) / field.scale.per_ms
        following = self._following
        field.zoom = zoom
        self._fit()
        self.horizontalScrollBar().setValue(round(time * field.scale.per_ms - where.x() + field.gutter))
        if not following:
            self.verticalScrollBar().setValue(round(lane * field.scale.row - where.y()))
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

    @property
    def following(self) -> bool:
        """Whether new rounds keep the end in view. It stops when the user scrolls away and resumes at the end."""
        return self._following

    @Slot()
    def follow(self) -> None:
        """Back to the newest round, and stay there."""
        self._following = True
        self.verticalScrollBar().setValue(self.verticalScrollBar().maximum())
        self._place_button()

    # Sizes

    def _fit(self, first: int | None = None) -> None:
        """Sizes and scroll ranges, after anything that they depend on has changed.

        With `first` only the lanes from there on are other than before, and what stands still is not painted again.
        """
        field, look = self.field, self._look
        before = (field.scale, field.gutter, field.count > 0)
        axis = round(22 * look.text_scale)
        field.fit(self.viewport().width(), self.viewport().height() - axis, look.gutter(field.count), look.text_scale)
        following = self._following
        rows, columns = self.verticalScrollBar(), self.horizontalScrollBar()
        rows.setSingleStep(field.scale.row)
        rows.setPageStep(round(field.height))
        rows.setRange(0, max(0, field.tall - int(field.height)))
        if following:
            rows.setValue(rows.maximum())
        self._following = following
        columns.setSingleStep(round(24 * look.text_scale))
        columns.setPageStep(round(field.room))
        columns.setRange(0, max(0, round(field.wide - field.room - 2)))
        self._place_button()
        if first is None or first < 0 or before != (field.scale, field.gutter, field.count > 0):
            self.viewport().update()
        else:
            top = field.top_of(first)
            self.viewport().update(QRect(0, top, self.viewport().width(), round(field.height) - top))

    def _place_button(self) -> None:
        size = round(26 * self._look.text_scale)
        self.latest.setGeometry(self.viewport().width() - size - 8, round(self.field.height) - size - 8, size, size)
        self.latest.setVisible(not self._following and self.verticalScrollBar().maximum() > 0)

    @Slot()
    def _scrolled(self) -> None:
        bar = self.verticalScrollBar()
        moved, self.field.y = self.field.y - bar.value(), bar.value()
        self._following = bar.value() >= bar.maximum()
        self._place_button()
        if self.field.clock == "round" and self.latest.isHidden():
            self.viewport().scroll(0, moved, QRect(0, 0, self.viewport().width(), round(self.field.height)))
        else:  # lanes move sideways as well, or a button stands before them
            self.viewport().update()

    @Slot()
    def _scrolled_sideways(self) -> None:
        self.field.x = self.horizontalScrollBar().value()
        self.viewport().update()

    # Painting

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self.viewport())
        look, field, area = self._look, self.field, event.rect()
        painter.fillRect(area, QColor(look.theme.panel))
        if field.count:
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            marks, height = field.marks(), round(field.height)
            painter.save()
            painter.setClipRect(QRect(0, 0, self.viewport().width(), height).intersected(area))
            look.grid(painter, marks, height)
            for index in field.within(area.top(), area.bottom()):
                self._paint_lane(painter, index)
            painter.restore()
            if area.bottom() >= height:
                look.axis(painter, QRectF(0, height, self.viewport().width(), self.viewport().height() - height), marks)
        else:
            painter.setFont(look.chip_font)
            painter.setPen(QColor(look.theme.faint))
            painter.drawText(self.viewport().rect(), Qt.AlignmentFlag.AlignCenter, EMPTY)
        if self.focused:
            frame_focus(painter, self.viewport().rect().adjusted(0, 0, -1, -1), look.theme)
        painter.end()

    def _paint_lane(self, painter: QPainter, index: int) -> None:
        field, look = self.field, self._look
        round_ = field.rounds[index]
        every = max(1, -(-round(look.label_metrics.height()) // field.scale.row))
        lane = Lane(
            round_,
            field.top_of(index),
            start=field.start_of(index),
            left=field.gutter,
            right=field.width - 4,
            pause=field.pause_after(index),
            lit=self.lit_slot(index),
            pinned=self.is_pinned(index),
            note=change_words(field.rounds[index - 1], round_) if index else "",
            named=index % every == 0,
        )
        look.lane(painter, lane, field.scale)

    # Qt

    def scrollContentsBy(self, dx: int, dy: int) -> None:
        """`_scrolled` and `_scrolled_sideways` know better what is to be painted than everything."""

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit()

    def wheelEvent(self, event: QWheelEvent) -> None:
        turned = event.angleDelta()
        if event.modifiers() & Qt.KeyboardModifier.ControlModifier:
            self.set_zoom(self.zoom * ZOOM_STEP ** (turned.y() / 120), event.position())
            event.accept()
        elif event.modifiers() & Qt.KeyboardModifier.ShiftModifier:
            bar = self.horizontalScrollBar()
            bar.setValue(bar.value() - (turned.y() or turned.x()))
            event.accept()
        else:
            super().wheelEvent(event)
