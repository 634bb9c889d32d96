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
CLOSE_TIMEOUT = 2.0
"""Maximum seconds that closing waits for threads to end. A thread that waits longer for the network ends with the program."""


class Background(QObject):
    """Runs each task on its own thread, so that a search waits neither for a slow disk nor for a download."""

    _call_queued = Signal()

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self._calls: deque[Callable[[], object]] = deque()
        self._threads: list[threading.Thread] = []
        self._callbacks: dict[int, tuple[Callable[[Any], object], Callable[[Any], object]]] = {}
        self._task_ids = itertools.count()
        self._is_closed = False
        self._call_queued.connect(self._run_calls)

    def run(
        self,
        work: Callable[[], Result],
        on_result: Callable[[Result], object],
        on_error: Callable[[DraftlightError], object],
        activity: str,
    ) -> None:
        """Runs `work` on a thread and calls `on_result` with its result, or `on_error` with an error worded for the user.

        Args:
            activity: names the activity for the log, as "listing the models".
        """
        task = next(self._task_ids)
        self._callbacks[task] = (on_result, on_error)

        def run() -> None:
            """Runs on the thread. It holds no Qt object but this one: an object whose last reference it dropped would be
            destroyed there."""
            try:
                result = work()
            except DraftlightError as error:
                known: DraftlightError = error
                self.call_on_window_thread(lambda: self._finish(task, known, 1))
            except Exception as error:
                unexpected = DraftlightError(explain(error, activity))
                self.call_on_window_thread(lambda: self._finish(task, unexpected, 1))
            else:
                self.call_on_window_thread(lambda: self._finish(task, result, 0))

        self._threads = [thread for thread in self._threads if thread.is_alive()]
        thread = threading.Thread(target=run, name=activity, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _finish(self, task: int, outcome: Any, callback: int) -> None:
        self._callbacks.pop(task)[callback](outcome)

    def call_on_window_thread(self, call: Callable[[], Any]) -> None:
        """Calls a function on the window's thread; may be called from any other thread."""
        if not self._is_closed:
            self._calls.append(call)
            with contextlib.suppress(RuntimeError):  # the window has just been destroyed
                self._call_queued.emit()

    @Slot()
    def _run_calls(self) -> None:
        while self._calls and not self._is_closed:
            self._calls.popleft()()

    def close(self) -> None:
        """Stops delivering results."""
        self._is_closed = True
        self._calls.clear()
        self._callbacks.clear()
        for thread in self._threads:
            thread.join(CLOSE_TIMEOUT / len(self._threads))
