"""Runs the chat store on a worker thread: a queue of reads and writes, with retries while the store is busy, damaged or full."""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from PySide6.QtCore import QObject, Signal, Slot

from engine.chats import ChatsBusy, ChatsDamaged, ChatsNotSaved, ChatStore
from engine.files.logs import explain
from engine.values.errors import DraftlightError

Work = Callable[[ChatStore], Any]
Callback = Callable[[Any], object]
PAUSE_SECONDS = 2.0
"""Seconds before failed writes are retried."""
LAST_SECONDS = 10.0
"""Maximum seconds that closing waits for pending writes."""


@dataclass(slots=True, eq=False)
class _Job:
    work: Work
    then: Callback | None
    failed: Callback | None = None
    once: str = ""
    """For a job that is tried only once: the activity named in its error message. Other jobs are retried until they succeed."""


class ChatKeeper(QObject):
    """Runs jobs on the chat store one after the other, and delivers results on the window's thread.

    Failed writes stay queued in order and are retried until they succeed.

    Attributes:
        stores: whether there is a store; else writes are dropped, and reads get no result.
        trouble: why queued writes fail; empty if none do.

    Signals:
        failed: (message) a write failed and is queued for retry; the same message is emitted once.
        recovered: all queued writes have succeeded.
        noted: (message) something about the store that the user should know.
    """

    failed = Signal(str)
    recovered = Signal()
    noted = Signal(str)
    _posted = Signal()

    def __init__(self, make: Callable[[], ChatStore] | None, parent: QObject | None = None) -> None:
        """Args:
        make: opens the store; called on the keeper's thread, and again after a failure. None: there is none.
        """
        super().__init__(parent)
        self._make = make
        self.stores = make is not None
        self._store: ChatStore | None = None
        self._jobs: deque[_Job] = deque()
        self._pending: deque[_Job] = deque()
        self._done: deque[Callable[[], object]] = deque()
        self._wake = threading.Condition()
        self._closing = False
        self._busy = False
        self.trouble = ""
        self._posted.connect(self._deliver)
        self._thread = threading.Thread(target=self._run, name="chats", daemon=True)
        if self.stores:
            self._thread.start()

    # On the window's thread.

    def write(self, work: Work, then: Callback | None = None, failed: Callback | None = None) -> None:
        """Queues a write and calls `then` with the result of `work`. Calls `failed` with a message for the user if the write can
        never succeed because its subject no longer exists."""
        self._add(_Job(work, then, failed))

    def read(self, work: Work, then: Callback, failed: Callback | None = None) -> None:
        """Queues a read and calls `then` with the result, or `failed` with a message for the user. It is not retried."""
        self._add(_Job(work, then, failed, once="reading the chats"))

    def attempt(self, work: Work, then: Callback, failed: Callback) -> None:
        """Queues a write that is not retried; if it fails, `failed` gets a message for the user."""
        self._add(_Job(work, then, failed, once="writing the chats"))

    def try_again(self) -> None:
        """Retries the failed writes now."""
        self._add(_Job(lambda store: None, None))

    def tidy(self, then: Callback | None = None, *, requested: bool = False) -> None:
        """Runs `ChatStore.tidy` on another thread, alongside other jobs, and calls `then` when it is done."""

        def tidied(store: ChatStore) -> None:
            """Runs on the tidying thread."""
            with contextlib.suppress(DraftlightError):
                store.tidy(requested=requested)
            if then is not None:
                self._post(then, None)

        self.read(lambda store: threading.Thread(target=tidied, args=(store,), name="chats-tidy", daemon=True).start(), _nothing)

    def settle(self, seconds: float) -> None:
        """Waits until every job has been tried, for at most `seconds`."""
        with self._wake:
            self._wake.wait_for(lambda: not self._jobs and not self._busy and (not self._pending or bool(self.trouble)), seconds)

    def _add(self, job: _Job) -> None:
        if not self.stores:
            return
        with self._wake:
            self._jobs.append(job)
            self._wake.notify()

    def close(self) -> bool:
        """Finishes pending writes and closes the store; returns False if some could not be written."""
        with self._wake:
            self._closing = True
            self._wake.notify()
        if self.stores:
            self._thread.join(LAST_SECONDS)
        self._done.clear()
        return not self._thread.is_alive() and not self._pending

    @Slot()
    def _deliver(self) -> None:
        while self._done:
            self._done.popleft()()

    # On the keeper's thread.

    def _run(self) -> None:
        while True:
            with self._wake:
                if not self._jobs and not self._closing:
                    self._wake.wait(PAUSE_SECONDS if self._pending else None)
                job = self._jobs.popleft() if self._jobs else None
                ending = self._closing and job is None
                self._busy = True
            if job is not None and job.once:
                self._try(job)
            else:
                if job is not None:
                    self._pending.append(job)
                self._run_pending()
            with self._wake:
                self._busy = False
                self._wake.notify_all()
            if ending:
                break
        if self._store is not None:
            with contextlib.suppress(DraftlightError):
                self._store.close()

    def _try(self, job: _Job) -> None:
        try:
            result = job.work(self._opened())
        except Exception as error:
            self._close_if_damaged(error)
            if job.failed is not None:
                self._post(job.failed, explain(error, job.once))
            return
        if job.then is not None:
            self._post(job.then, result)

    def _run_pending(self) -> None:
        """Runs the queued writes, oldest first, until one fails in a way that a retry may cure."""
        while self._pending:
            job = self._pending[0]
            try:
                store = self._opened()
            except Exception as error:
                self._say(error)
                return
            try:
                result = job.work(store)
            except (ChatsBusy, ChatsDamaged, ChatsNotSaved) as error:
                self._close_if_damaged(error)
                self._say(error)
                return
            except Exception as error:
                self._pending.popleft()
                self._post(self.noted.emit if job.failed is None else job.failed, explain(error, "writing the chats"))
                continue
            self._pending.popleft()
            if job.then is not None:
                self._post(job.then, result)
        if self.trouble:
            self.trouble = ""
            self._post(lambda _: self.recovered.emit(), None)

    def _say(self, error: Exception) -> None:
        message = explain(error, "writing the chats")
        if message != self.trouble:
            self.trouble = message
            self._post(self.failed.emit, message)

    def _opened(self) -> ChatStore:
        if self._store is None:
            assert self._make is not None
            self._store = self._make()
            for note in self._store.notes:
                self._post(self.noted.emit, note)
        return self._store

    def _close_if_damaged(self, error: Exception) -> None:
        """Closes a damaged store; reopening repairs it."""
        if isinstance(error, ChatsDamaged) and self._store is not None:
            with contextlib.suppress(DraftlightError):
                self._store.close()
            self._store = None

    def _post(self, then: Callback, result: Any) -> None:
        self._done.append(lambda: then(result))
        if not self._closing:
            self._posted.emit()


def _nothing(_: object) -> None:
    pass
