"""The controls of a replay, shown below the text in place of the message field."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

from PySide6.QtCore import QPointF, QRect, QSize, Qt, Signal
from PySide6.QtGui import QKeyEvent, QMouseEvent, QResizeEvent
from PySide6.QtWidgets import (
    QComboBox,
    QFrame,
    QLabel,
    QSizePolicy,
    QSlider,
    QStyle,
    QStyleOptionSlider,
    QWidget,
)

from app.look.fields import require_focus_for_wheel
from app.look.theme import Theme
from app.look.widgets import ElidedLabel, choice_box, icon_button, in_column, in_row, named, push_button, tint
from app.replay.player import SPEEDS, TIMINGS, Player, Timing

TIMING_TITLES: dict[Timing, str] = {"recorded": "As recorded", "even": "Even steps", "phases": "Slow motion"}
TIMING_NOTES: dict[Timing, str] = {
    "recorded": "Rounds appear at their recorded times.",
    "even": "Every round takes the same time: half a second at speed 1.",
    "phases": "Stops at each phase of a round: draft, verify, judge, commit.",
}

CLOSE_TITLE, CLOSE_TITLE_SHORT = "Back to the conversation", "Back"
MIN_WIDTH = 150
"""Minimum pixels at text scale 1 for the slider and for the trace's name, including the gaps in their rows."""


class ScrubSlider(QSlider):
    """A slider that jumps to the position of a click."""

    def __init__(self) -> None:
        super().__init__(Qt.Orientation.Horizontal)
        named(self, "replaySlider", "Position in the answer")
        self.setPageStep(10)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        position, handle = event.position(), self._handle()
        if event.button() == Qt.MouseButton.LeftButton and not handle.contains(position.toPoint()):
            groove_width = max(1, self.width() - handle.width())
            self.setValue(
                QStyle.sliderValueFromPosition(
                    self.minimum(), self.maximum(), round(position.x() - handle.width() / 2), groove_width
                )
            )
            # Between two rounds, the handle is not exactly below the pointer, and Qt would treat the click as one beside it.
            event = QMouseEvent(
                event.type(),
                QPointF(self._handle().center()),
                event.globalPosition(),
                event.button(),
                event.buttons(),
                event.modifiers(),
            )
        super().mousePressEvent(event)

    def _handle(self) -> QRect:
        option = QStyleOptionSlider()
        self.initStyleOption(option)
        return self.style().subControlRect(QStyle.ComplexControl.CC_Slider, option, QStyle.SubControl.SC_SliderHandle, self)


class ReplayBar(QWidget):
    """Buttons, a slider over the rounds, speed and timing. `show_player` updates it to the player's state.

    The bar handles comma, full stop, Home and End, wherever in it the focus is. Space is a command of the window.

    Signals:
        toggled: play or pause.
        stepped: (rounds, or phases in slow motion) forward or back.
        moved: (rounds shown) jump to a position.
        speed_chosen: (factor).
        timing_chosen: (timing).
        close_requested: back to the conversation.
    """

    toggled = Signal()
    stepped = Signal(int)
    moved = Signal(int)
    speed_chosen = Signal(float)
    timing_chosen = Signal(str)
    close_requested = Signal()

    def __init__(self) -> None:
        super().__init__()
        named(self, "replayBar", "Replay")
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self._theme: Theme | None = None
        self._scale = 1.0
        self._end = 0
        self._position = _Position(0, 0, 0.0, 0.0)
        self._is_narrow = False
        self.start = icon_button("to-start", "Go to start (Home)", lambda: self.moved.emit(0))
        self.back = icon_button("step-back", "Previous round (,)", lambda: self.stepped.emit(-1))
        self.play = icon_button("play", "Play (Space)", self.toggled.emit)
        self.play.setObjectName("playButton")
        self.forward = icon_button("step-forward", "Next round (.)", lambda: self.stepped.emit(1))
        self.end = icon_button("to-end", "Go to end (End)", lambda: self.moved.emit(self._end))
        self.slider = ScrubSlider()
        self.slider.valueChanged.connect(self.moved)
        self.position = named(QLabel(), "replayPlace", "Round and time")
        self.name = named(ElidedLabel(), "replayName", "Trace")
        self.name.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        self.speed = _choice("Speed", [(f"{speed:g}×", speed) for speed in SPEEDS])
        self.speed.setCurrentIndex(SPEEDS.index(1.0))
        self.speed.activated.connect(lambda index: self.speed_chosen.emit(self.speed.itemData(index)))
        self.timing = _choice("Timing", [(TIMING_TITLES[timing], timing) for timing in TIMINGS])
        self.timing.activated.connect(lambda index: self.timing_chosen.emit(self.timing.itemData(index)))
        require_focus_for_wheel(self.slider, self.speed, self.timing)
        self.close_button = named(
            push_button(CLOSE_TITLE, "replayClose", self.close_requested), label=CLOSE_TITLE, tip="Close the replay (Esc)"
        )
        self._arrange()

    def _arrange(self) -> None:
        self.frame = named(QFrame(), "composerFrame")
        in_column(
            in_row(self.start, self.back, self.play, self.forward, self.end, 8, (self.slider, 1), 10, self.position, spacing=2),
            in_row((self.name, 1), self.timing, self.speed, self.close_button, spacing=8),
            spacing=6,
            margins=(12, 8, 12, 9),
            parent=self.frame,
        )
        self.margins = in_row(self.frame, margins=(44, 6, 44, 16), parent=self)

    def show_trace(self, name: str, note: str, player: Player) -> None:
        """Shows a newly opened trace; `note` says what the file lacks."""
        text = f"{name} · {note}" if note else name
        self.name.setText(text)
        self.name.setToolTip(f"<p>{escape(text)}</p>")
        self.name.setAccessibleDescription(text)
        self._end = player.count
        self.slider.blockSignals(True)
        self.slider.setRange(0, player.count)
        self.slider.blockSignals(False)
        self.show_player(player)
        self._fit()

    def show_player(self, player: Player) -> None:
        """Updates to the player's state, without emitting signals."""
        self.slider.blockSignals(True)
        self.slider.setValue(player.shown)
        self.slider.blockSignals(False)
        self._position = _Position(player.shown, player.count, player.seconds, player.total_seconds)
        self.position.setText(self._position.text(self._is_narrow))
        self.position.setAccessibleDescription(self._position.text())
        self.slider.setAccessibleDescription(self._position.text())
        self.timing.setCurrentIndex(TIMINGS.index(player.timing))
        self.timing.setToolTip(TIMING_NOTES[player.timing])
        self.speed.setCurrentIndex(SPEEDS.index(player.speed))
        self.back.setEnabled(player.shown > 0 or player.phase != "commit")
        self.forward.setEnabled(not player.is_at_end)
        steps = player.timing == "phases"
        self.speed.setEnabled(not steps)
        for button, title in (
            (self.back, "Previous phase (,)" if steps else "Previous round (,)"),
            (self.forward, "Next phase (.)" if steps else "Next round (.)"),
            (self.play, "Next phase (Space)" if steps else "Pause (Space)" if player.is_playing else "Play (Space)"),
        ):
            named(button, label=title, tip=title)
        icon_name = "pause" if player.is_playing else "play"
        if self.play.property("drawing") != icon_name:
            self.play.setProperty("drawing", icon_name)
            if self._theme is not None:
                tint(self.play, self._theme, self._scale)

    def set_look(self, theme: Theme, scale: float) -> None:
        """Draws the icons of the buttons in the theme's colours, Play larger than the others."""
        self._theme, self._scale = theme, scale
        for button in (self.start, self.back, self.play, self.forward, self.end):
            tint(button, theme, scale)
        size = round(22 * scale)
        self.play.setIconSize(QSize(size, size))

    def set_column(self, left: int, width: int, total_width: int) -> None:
        """Aligns the frame with the transcript's column."""
        self.margins.setContentsMargins(max(10, left - 14), 6, max(10, total_width - left - width - 14), 16)
        self._fit()

    def _fit(self) -> None:
        """Shortens the texts if the slider or the trace's name would have too little room."""
        end, metrics, button = self._position.end(), self.position.fontMetrics(), self.close_button
        title_growth = button.fontMetrics().horizontalAdvance(CLOSE_TITLE) - button.fontMetrics().horizontalAdvance(button.text())
        buttons = (self.start, self.back, self.play, self.forward, self.end)
        slider_row = sum(part.sizeHint().width() for part in buttons) + metrics.horizontalAdvance(end.text())
        name_row = sum(part.sizeHint().width() for part in (self.timing, self.speed, button)) + title_growth
        outer = self.margins.contentsMargins()
        available = self.width() - outer.left() - outer.right() - max(slider_row, name_row)
        self._is_narrow = available < round(MIN_WIDTH * self._scale)
        self.position.setText(self._position.text(self._is_narrow))
        self.position.setMinimumWidth(metrics.horizontalAdvance(end.text(self._is_narrow)) + 4)
        button.setText(CLOSE_TITLE_SHORT if self._is_narrow else CLOSE_TITLE)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit()

    def handle_key(self, event: QKeyEvent) -> bool:
        """Handles the replay keys; returns False for any other key."""
        if event.modifiers() & ~(Qt.KeyboardModifier.KeypadModifier | Qt.KeyboardModifier.ShiftModifier):
            return False
        match Qt.Key(event.key()):
            case Qt.Key.Key_Comma:
                self.stepped.emit(-1)
            case Qt.Key.Key_Period:
                self.stepped.emit(1)
            case Qt.Key.Key_Home:
                self.moved.emit(0)
            case Qt.Key.Key_End:
                self.moved.emit(self._end)
            case _:
                return False
        return True

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if not self.handle_key(event):
            super().keyPressEvent(event)


@dataclass(frozen=True)
class _Position:
    """The position of a replay: rounds shown and in all, seconds elapsed and in all."""

    shown: int
    count: int
    seconds: float
    total: float

    def end(self) -> _Position:
        """Returns the end position, whose text is the longest."""
        return _Position(self.count, self.count, self.total, self.total)

    def text(self, short: bool = False) -> str:
        """Returns round and time in words, shorter if requested."""
        if short:
            return f"{self.shown:,} of {self.count:,}  ·  {_clock(self.seconds)}"
        return f"Round {self.shown:,} of {self.count:,}  ·  {_clock(self.seconds)} of {_clock(self.total)}"


def _clock(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < 60 else f"{int(seconds // 60)}:{seconds % 60:04.1f}"


def _choice(name: str, entries: list[tuple[str, float]] | list[tuple[str, Timing]]) -> QComboBox:
    return named(choice_box(entries), "replayChoice", name, tip=name)
