"""Runs tasks on a thread next to the engine thread, which may lag behind it."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable
from queue import SimpleQueue
from types import TracebackType
from typing import Self

_log = logging.getLogger(__name__)

ROWS_BEHIND = 64
"""Rows of the target's logits that unfinished tasks may hold: twelve rounds of four proposals. At 152,000 ids a row takes 0.6
MB, so that is 39 MB; with the drafter's rows, those before filters, weights and noise, at most 230 MB. A single round may hold
65 rows. The limit bounds how late figures are shown, and how long a stopped answer takes to end."""

MAX_START_DELAY = 0.02
"""Seconds after which a task starts even if the engine thread has not begun to wait, as with a slow drafter or one that has
much to read first."""

HEAD_START = 0.0005
"""Delay in seconds between `begin` and the start of a task. The engine thread first submits the work that it will wait for; a
task that took Python's interpreter lock earlier would delay that by milliseconds."""

Task = Callable[[], object]


class OverlapExecutor:
    """Executor that runs tasks one after another, in the order of submission, on its own thread.

    It may lag, so that a long task does not block the submitting thread, but by at most `ROWS_BEHIND`: then `put` waits for
    room. Otherwise memory would fill up, and the display would lag further and further behind decoding.

    A task starts when the submitting thread is about to wait and calls `begin`, or after `MAX_START_DELAY`. Two threads that
    compute in Python at once take the interpreter lock from each other at every numpy operation, which slows down both. If
    another task is queued behind it, a task starts at once.

    Numpy computes without that lock, so tasks made of its operations run while MLX computes. Tasks must not call MLX. To be
    used as a context manager, which waits for all submitted tasks. The thread is a daemon, like the engine thread, so it does
    not keep the process alive; threads of a `concurrent.futures` pool would.
    """

    def __init__(self) -> None:
        self._tasks: SimpleQueue[tuple[Task, int] | None] = SimpleQueue()
        self._done = threading.Condition()
        self._unfinished = self._rows = 0  # of unfinished tasks
        self._error: BaseException | None = None
        self._may_begin = threading.Event()
        self._is_needed = threading.Event()
        self._thread = threading.Thread(target=self._work, name="draftlight-overlap", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._flush()
        self._tasks.put(None)
        self._thread.join()
        if self._error is not None:  # only if another error is being raised
            _log.error("What was left to do of an answer failed too.", exc_info=self._error)

    @property
    def unfinished(self) -> int:
        """Number of unfinished tasks."""
        return self._unfinished

    def put(self, task: Task, rows: int = 1) -> None:
        """Submits a task once there is room for its rows. If an earlier task has failed, waits for all submitted tasks, raises
        the first failure and does not submit the task."""
        if self._error is not None:
            self.wait()
        with self._done:
            if self._unfinished:
                self._flush()
            else:
                self._may_begin.clear()
                self._is_needed.clear()
            self._done.wait_for(lambda: not self._unfinished or self._rows + rows <= ROWS_BEHIND)
            self._unfinished += 1
            self._rows += rows
        self._tasks.put((task, rows))

    def begin(self) -> None:
        """Lets the submitted tasks start. The submitting thread calls it whenever it is about to wait."""
        self._may_begin.set()

    def wait(self) -> None:
        """Waits until all tasks are done. Raises the first failure, once."""
        self._flush()
        with self._done:
            self._done.wait_for(lambda: not self._unfinished)
        error, self._error = self._error, None
        if error is not None:
            raise error

    def _flush(self) -> None:
        self._is_needed.set()
        self.begin()

    def _work(self) -> None:
        while (entry := self._tasks.get()) is not None:
            task, rows = entry
            with contextlib.suppress(MemoryError):
                self._may_begin.wait(MAX_START_DELAY)
                self._is_needed.wait(HEAD_START)
            try:
                task()
            except BaseException as error:  # of any kind: otherwise `wait` would never return
                if self._error is None:
                    self._error = error
            del task, entry  # frees the arrays they hold
            with self._done:
                self._unfinished -= 1
                self._rows -= rows
                self._done.notify()
