"""Schedules updates of the views: at once, or throttled while an answer grows."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QObject, QTimer, Signal, Slot

from app.look.throttle import Throttle
from app.session.chat import Chat
from app.session.session import Answer
from engine.types import Event, RoundFinished

TEXT_THROTTLE = 0.02, 0.033, 0.2
VIEWS_THROTTLE = 0.015, 0.08, 0.8
MOTION_THROTTLE = 0.01, 0.033, 0.2
"""Throttles (share of one core, minimum and maximum seconds between frames): `TEXT_THROTTLE` for the text of a growing answer,
`VIEWS_THROTTLE` for all other views of it, `MOTION_THROTTLE` for frames between two rounds. If the engine uses every core,
painting slows it down."""
TICK_MS = 250


class ViewUpdates(QObject):
    """Signals to the views what has changed.

    Args:
        is_moving: returns whether verdicts are just appearing in the running answer.

    Signals:
        refreshed: the session or the settings have changed; every view updates completely.
        text_grown, views_grown: the running answer has new rounds and nothing else has changed; for its text and for all other
            views. Both are throttled, and `refreshed` follows at the end. `text_grown` also comes while verdicts appear.
        ticked: emitted every quarter of a second while a model loads or an answer has not begun yet.
    """

    refreshed = Signal()
    text_grown = Signal()
    views_grown = Signal()
    ticked = Signal()

    def __init__(self, chat: Chat, parent: QObject, is_moving: Callable[[], bool] = lambda: False) -> None:
        super().__init__(parent)
        self._is_moving = is_moving
        self._session = chat.session
        self._growing: Answer | None = None
        self._stopped = False
        self._text = Throttle(self._show_text, *TEXT_THROTTLE, self, lambda: chat.link.is_computing)
        self._motion = Throttle(
            self.text_grown.emit,
            *MOTION_THROTTLE,
            self,
            lambda: chat.link.is_computing,
            immediate=False,
            goes_on=lambda: self._growing is not None and is_moving(),
        )
        self._views = Throttle(self.views_grown.emit, *VIEWS_THROTTLE, self, lambda: chat.link.is_computing)
        self._clock = QTimer(self, interval=TICK_MS)
        self._clock.timeout.connect(self.ticked)

    @Slot(list)
    def handle(self, events: list[Event]) -> None:
        """Handles events that the session has applied."""
        if all(isinstance(event, RoundFinished) for event in events):
            if self._session.running is self._growing is not None:
                self._text.touch()
                self._views.touch()
                return
            if self._session.measurement is not None:
                return  # a plain run shows nothing until its speed is known
        self.refresh()

    def _show_text(self) -> None:
        """Shows new rounds. What moves in them moves on in frames of its own if no round comes soon."""
        self._motion.stop()
        self.text_grown.emit()
        if self._is_moving():
            self._motion.touch()

    @Slot()
    def refresh(self) -> None:
        """Updates every view, and cancels throttled updates."""
        answer = self._session.running
        self._text.stop()
        self._views.stop()
        self._motion.stop()
        self._growing = answer if answer is not None and answer.rounds else None
        self.refreshed.emit()
        if self._growing is not None and self._is_moving():
            self._motion.touch()
        ticking = self._session.loading is not None or (answer is not None and answer.state != "generating")
        if ticking != self._clock.isActive() and not self._stopped:
            self._clock.start() if ticking else self._clock.stop()

    @Slot()
    def stop(self) -> None:
        """Stops all throttles and the timer: the window is closing."""
        self._stopped, self._growing = True, None
        self._clock.stop()
        self._text.stop()
        self._views.stop()
        self._motion.stop()
