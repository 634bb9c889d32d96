"""Runs an answer again without a drafter to measure the plain speed, on request and while the window is idle."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QObject, QTimer, Signal, Slot

from app.session.engine_link import EngineLink
from app.session.plain_baseline import FEWEST_TOKENS, LONGEST_PROMPT, plain_request
from app.session.session import Answer, PlainMeasurement, Session
from app.session.settings import Settings
from engine.types import Event, RunFailed, RunFinished
from engine.values.errors import DraftlightError
from engine.values.events import number_of

PAUSE_MS = 3000
"""Milliseconds without any activity, including typing, before an automatic measurement starts."""


class PlainMeasurer(QObject):
    """Starts a plain run for the shown answer if it lacks one, after `PAUSE_MS` without activity or on request.

    Typing cancels an automatic run, which is repeated later; any other engine request cancels every run. Call `touch` after any
    change, and `postpone` when the user types.

    Attributes:
        shown: returns the answer whose figures are shown.

    Signals:
        said: (message, tone, action) as `Chat.said`.
        changed: a measurement has begun or was cancelled.
    """

    said = Signal(str, str, object)
    changed = Signal()

    def __init__(self, session: Session, link: EngineLink, settings: Callable[[], Settings], parent: QObject) -> None:
        super().__init__(parent)
        self._session, self._link, self._settings = session, link, settings
        self.shown: Callable[[], Answer | None] = lambda: None
        self._unmeasurable: set[int] = set()  # runs of answers for which a plain run failed or was too short
        self._stopped = False
        self._timer = QTimer(self, singleShot=True, interval=PAUSE_MS)
        self._timer.timeout.connect(self._measure_shown)

    # While the window is idle

    @Slot()
    def touch(self) -> None:
        """Schedules a measurement if one is needed."""
        if self._due() is None:
            self._timer.stop()
        elif not self._timer.isActive() and not self._stopped:
            self._timer.start()

    @Slot()
    def postpone(self) -> None:
        """Cancels an automatic measurement, and restarts the pause."""
        if self._session.measurement is not None and self._session.measurement.is_automatic:
            self.cancel()
            self.changed.emit()
        self._timer.stop()
        self.touch()

    def stop(self) -> None:
        """Stops measuring: the window is closing."""
        self._stopped = True
        self._timer.stop()

    def _due(self) -> Answer | None:
        """Returns the answer that needs a plain run; None if there is none."""
        session, answer = self._session, self.shown()
        if answer is None or answer.made_in is None or answer.run_id in self._unmeasurable or not self._settings().measure_plain:
            return None
        known = session.baseline(answer)
        if not session.may_measure(answer) or session.why_not_measured(answer) or (known is not None and known.fits):
            return None
        is_short = answer.tally.summary.emitted < FEWEST_TOKENS or answer.prefill[1] > LONGEST_PROMPT
        return None if is_short or session.loading is not None else answer

    @Slot()
    def _measure_shown(self) -> None:
        answer = self._due()
        if answer is None:
            return
        if self._link.busy:  # a comparison or a benchmark is running
            self._timer.start()
            return
        self.measure(answer, is_automatic=True)

    # The plain run

    def measure(self, answer: Answer, is_automatic: bool = False) -> None:
        """Measures the baseline of an answer: answers its prompt briefly without a drafter, outside the conversation.

        Args:
            is_automatic: the measurement is automatic, so failures are not reported.
        """
        session = self._session
        if answer.request is None or session.running is not None or session.measurement is not None:
            return
        reason, tone = session.why_not_measured(answer), "note"
        if not reason:
            try:
                session.measurement = PlainMeasurement(self._link.submit(plain_request(answer.request)), answer, is_automatic)
            except DraftlightError as error:
                reason, tone = str(error), "error"
        if not reason:
            self.changed.emit()
        elif not is_automatic:
            self.said.emit(reason, tone, None)

    def cancel(self) -> None:
        """Ends the plain run and drops its events."""
        if self._session.measurement is not None:
            self._link.forget()
            self._session.measurement = None

    def takes(self, event: Event) -> bool:
        """Handles an event of the plain run; returns False for any other event."""
        measurement = self._session.measurement
        if measurement is None or number_of(event) != measurement.run_id:
            return False
        if isinstance(event, RunFinished | RunFailed):
            self._session.measurement = None
            self._take_end(measurement, event)
        return True

    def _take_end(self, measurement: PlainMeasurement, end: RunFinished | RunFailed) -> None:
        answer, tone = measurement.answer, "note"
        if isinstance(end, RunFailed):
            words, tone = f"The plain speed could not be measured. {end.message}", "error"
        else:
            measured = answer.request is not None and self._session.baselines.add(answer.request, end) is not None
            if measured or end.finish == "cancelled":  # a cancelled run is repeated later
                return
            words = f"The plain run ended before {FEWEST_TOKENS} tokens, which is too short to measure its speed."
        if answer.run_id is not None:
            self._unmeasurable.add(answer.run_id)
        if not measurement.is_automatic:
            self.said.emit(words, tone, None)
