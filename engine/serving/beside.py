"""Work that is done beside the engine thread, while that waits."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable
from queue import SimpleQueue
from types import TracebackType
from typing import Self

_log = logging.getLogger(__name__)

LONGEST_WAIT = 0.02
"""Seconds after which what is shown of a round is worked out although the next one does not wait yet: a slow drafter, or one that
has much to read first, is not waited for."""

HEAD_START = 0.0005
"""Seconds from where a wait is told of to where a task begins: what is waited for is handed over first, since a task that has
Python's lock by then holds that up for milliseconds."""

WORTH_A_THREAD = 0.5
"""Of the time that a task takes, the share that whoever puts it has to wait anyway for another thread to do it."""


class Beside:
    """Does one task after another, on a thread of its own where that is worth it, never more than one behind.

    A task begins where whoever put it there is about to wait and says so, or a little later by itself. Two threads that go on in
    Python at once take the interpreter's lock from each other at every operation of numpy, and both are slower for it. So where
    waits have become too short for the tasks, they are done at once, on the thread that puts them.

    Numpy computes without that lock, so tasks made of its operations run while MLX computes. Nothing may be asked of MLX here.
    Use it as a context, which waits for all that was put. Like the engine thread it keeps no process from ending, which a pool
    of `concurrent.futures` does.
    """

    def __init__(self) -> None:
        self._tasks: SimpleQueue[Callable[[], object] | None] = SimpleQueue()
        self._is_free = threading.Event()
        self._is_free.set()
        self._error: BaseException | None = None
        self._may_begin = threading.Event()
        self._is_needed = threading.Event()
        self._took = 0.0
        self._waiting_since: float | None = None
        self._waited: float | None = None
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

    def put(self, task: Callable[[], object]) -> None:
        """Takes the task, once the one before is done. Raises what that one raised; then nothing is taken."""
        self.wait()
        waited, self._waited = self._waited, None
        if waited is not None and waited < WORTH_A_THREAD * self._took:
            self._do(task)
            return
        self._is_free.clear()
        self._may_begin.clear()
        self._is_needed.clear()
        self._tasks.put(task)

    def begin(self) -> None:
        """Begins what was put, if anything was."""
        self._may_begin.set()

    def waits(self) -> None:
        """Whoever puts tasks is about to wait, until it `resumes`: begins what was put."""
        self._waiting_since = time.perf_counter()
        self.begin()

    def resumes(self) -> None:
        """The wait is over."""
        if self._waiting_since is not None:
            self._waited = (self._waited or 0.0) + time.perf_counter() - self._waiting_since
            self._waiting_since = None

    def wait(self) -> None:
        """Until all that was put is done. Raises what the last task raised, once."""
        self._hurry()
        self._is_free.wait()
        error, self._error = self._error, None
        if error is not None:
            raise error

    def _hurry(self) -> None:
        self._is_needed.set()
        self.begin()

    def _work(self) -> None:
        while (task := self._tasks.get()) is not None:
            with contextlib.suppress(MemoryError):
                self._may_begin.wait(LONGEST_WAIT)
                self._is_needed.wait(HEAD_START)
            self._do(task)
            del task  # with the arrays that it holds
            self._is_free.set()

    def _do(self, task: Callable[[], object]) -> None:
        """Does it, and keeps what it raises. What it takes is told in the thread's own time: another may hold it up."""
        began = time.thread_time()
        try:
            task()
        except BaseException as error:  # of any kind: whoever waits would do so for good
            self._error = error
        self._took = time.thread_time() - began
