"""Runs disk and network work off the window's thread and delivers the results on it."""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

from PySide6.QtCore import QObject, Signal, Slot

from engine.files.logs import explain
from engine.values.errors import DraftlightError

Result = TypeVar("Result")
LAST_SECONDS = 2.0
"""Maximum seconds that closing waits for threads to end. A thread that waits longer for the network ends with the program."""


class Background(QObject):
    """Runs each task on its own thread, so that a search waits neither for a slow disk nor for a download."""

    _handed = Signal()

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self._done: deque[Callable[[], object]] = deque()
        self._threads: list[threading.Thread] = []
        self._waiting: dict[int, tuple[Callable[[Any], object], Callable[[Any], object]]] = {}
        self._numbers = itertools.count()
        self._closed = False
        self._handed.connect(self._hand_over)

    def do(
        self,
        work: Callable[[], Result],
        then: Callable[[Result], object],
        failed: Callable[[DraftlightError], object],
        what: str,
    ) -> None:
        """Runs `work` on a thread and calls `then` with its result, or `failed` with an error worded for the user.

        Args:
            what: names the activity for the log, as "listing the models".
        """
        number = next(self._numbers)
        self._waiting[number] = (then, failed)

        def run() -> None:
            """Runs on the thread. It holds no Qt object but this one: an object whose last reference it dropped would be
            destroyed there."""
            try:
                result = work()
            except DraftlightError as error:
                told: DraftlightError = error
                self.hand(lambda: self._end(number, told, 1))
            except Exception as error:
                unexpected = DraftlightError(explain(error, what))
                self.hand(lambda: self._end(number, unexpected, 1))
            else:
                self.hand(lambda: self._end(number, result, 0))

        self._threads = [thread for thread in self._threads if thread.is_alive()]
        thread = threading.Thread(target=run, name=what, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _end(self, number: int, outcome: Any, which: int) -> None:
        self._waiting.pop(number)[which](outcome)

    def hand(self, then: Callable[[], Any]) -> None:
        """Calls a function on the window's thread; may be called from any other thread."""
        if not self._closed:
            self._done.append(then)
            with contextlib.suppress(RuntimeError):  # the window has just been destroyed
                self._handed.emit()

    @Slot()
    def _hand_over(self) -> None:
        while self._done and not self._closed:
            self._done.popleft()()

    def close(self) -> None:
        """Stops delivering results."""
        self._closed = True
        self._done.clear()
        self._waiting.clear()
        for thread in self._threads:
            thread.join(LAST_SECONDS / len(self._threads))
