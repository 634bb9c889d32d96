"""Measures the plain speed for the shown answer while the window is idle."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QObject, QTimer, Slot

from app.session.chat import Chat
from app.session.plain_baseline import FEWEST_TOKENS, LONGEST_PROMPT
from app.session.session import Answer

PAUSE_MS = 3000
"""Milliseconds without any activity, typing included, before a measurement starts."""


class IdleMeasurer(QObject):
    """Starts a plain run for a shown answer that lacks one, after `PAUSE_MS` without activity.

    Typing cancels the run, which is repeated later; any other engine request cancels it, too. Call `touch` after any change, and
    `hold_off` when the user types.
    """

    def __init__(self, chat: Chat, shown: Callable[[], Answer | None], parent: QObject) -> None:
        """Args:
        shown: returns the answer whose figures are shown.
        """
        super().__init__(parent)
        self._chat, self._shown = chat, shown
        self._stopped = False
        self._timer = QTimer(self, singleShot=True, interval=PAUSE_MS)
        self._timer.timeout.connect(self._measure)

    @Slot()
    def touch(self) -> None:
        """Schedules a measurement if one is needed."""
        if self._due() is None:
            self._timer.stop()
        elif not self._timer.isActive() and not self._stopped:
            self._timer.start()

    @Slot()
    def hold_off(self) -> None:
        """Cancels a measurement that the user did not ask for, and restarts the pause."""
        self._chat.stop_unasked_measuring()
        self._timer.stop()
        self.touch()

    def stop(self) -> None:
        """Stops measuring."""
        self._stopped = True
        self._timer.stop()

    def _due(self) -> Answer | None:
        """Returns the answer that needs a plain run; None if there is none."""
        chat, session, answer = self._chat, self._chat.session, self._shown()
        if answer is None or answer.made_in is None or answer.run_id in chat.unmeasurable or not chat.settings.measure_plain:
            return None
        known = session.baseline(answer)
        if not session.may_measure(answer) or session.why_not_measured(answer) or (known is not None and known.fits):
            return None
        is_short = answer.tally.summary.emitted < FEWEST_TOKENS or answer.prefill[1] > LONGEST_PROMPT
        return None if is_short or session.loading is not None else answer

    @Slot()
    def _measure(self) -> None:
        answer = self._due()
        if answer is None:
            return
        if self._chat.link.busy:  # a comparison or a benchmark is running
            self._timer.start()
            return
        self._chat.measure_plain(answer, unasked=True)
