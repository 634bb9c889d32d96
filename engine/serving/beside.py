"""Work that is done beside the engine thread, which it may fall behind."""

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
"""Rows of the target's logits that unfinished tasks may hold: twelve rounds of four proposals. At 152,000 ids a row takes
0.6 MB, so that is 39 MB; with the drafter's rows, those before filters, weights and noise 230 MB at most. A single round may
hold 65 rows. This bounds how late figures are shown and how long the end of a stopped answer waits."""

LONGEST_WAIT = 0.02
"""Seconds after which what is shown of a round is worked out although the next one does not wait yet: a slow drafter, or one that
has much to read first, is not waited for."""

HEAD_START = 0.0005
"""Seconds from where a wait is told of to where a task begins: what is waited for is handed over first, since a task that has
Python's lock by then holds that up for milliseconds."""

Task = Callable[[], object]


class Beside:
    """Does one task after another, in the order in which they are put, on a thread of its own.

    It may fall behind, so that a long task does not hold up the thread that puts tasks, but by no more than `ROWS_BEHIND`: then
    `put` waits for room. Otherwise memory would fill up, and what is shown would be ever older than what is decoded.

    A task begins when the thread that put it is about to wait and calls `begin`, or a little later by itself: two threads that
    compute in Python at once take the interpreter's lock from each other at every operation of numpy, and both are slower for
    it. Once another task stands behind it, it begins at once.

    Numpy computes without that lock, so tasks made of its operations run while MLX computes. Nothing may be asked of MLX here.
    Use it as a context, which waits for all that was put. Like the engine thread it keeps no process from ending, which a pool
    of `concurrent.futures` does.
    """

    def __init__(self) -> None:
        self._tasks: SimpleQueue[tuple[Task, int] | None] = SimpleQueue()
        self._done = threading.Condition()
        self._behind = self._rows = 0  # of what was put and is not done
        self._error: BaseException | None = None
        self._may_begin = threading.Event()
        self._is_needed = threading.Event()
        self._thread = threading.Thread(target=self._work, name="draftlight-beside", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._hurry()
        self._tasks.put(None)
        self._thread.join()
        if self._error is not None:  # only where another error is on its way
            _log.error("What was left to do of an answer failed too.", exc_info=self._error)

    @property
    def behind(self) -> int:
        """The number of tasks that were put and are not done."""
        return self._behind

    def put(self, task: Task, rows: int = 1) -> None:
        """Takes the task, once there is room for as many rows as it holds. If an earlier one has failed, waits for all that were
        put and raises what the first failure raised; then nothing is taken."""
        if self._error is not None:
            self.wait()
        with self._done:
            if self._behind:
                self._hurry()
            else:
                self._may_begin.clear()
                self._is_needed.clear()
            self._done.wait_for(lambda: not self._behind or self._rows + rows <= ROWS_BEHIND)
            self._behind += 1
            self._rows += rows
        self._tasks.put((task, rows))

    def begin(self) -> None:
        """Begins the tasks that were put. The thread that puts tasks calls it whenever it is about to wait."""
        self._may_begin.set()

    def wait(self) -> None:
        """Waits until all tasks are done. Raises the first failure, once."""
        self._hurry()
        with self._done:
            self._done.wait_for(lambda: not self._behind)
        error, self._error = self._error, None
        if error is not None:
            raise error

    def _hurry(self) -> None:
        self._is_needed.set()
        self.begin()

    def _work(self) -> None:
        while (taken := self._tasks.get()) is not None:
            task, rows = taken
            with contextlib.suppress(MemoryError):
                self._may_begin.wait(LONGEST_WAIT)
                self._is_needed.wait(HEAD_START)
            try:
                task()
            except BaseException as error:  # of any kind: whoever waits would do so for good
                if self._error is None:
                    self._error = error
            del task, taken  # with the arrays that they hold
            with self._done:
                self._behind -= 1
                self._rows -= rows
                self._done.notify()
