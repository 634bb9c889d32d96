"""The store of chats on a thread of its own, so that neither painting nor the engine ever waits for the disk or for a lock."""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from PySide6.QtCore import QObject, Signal, Slot

from engine.chats import ChatsBusy, ChatsDamaged, ChatsNotSaved, ChatStore
from engine.errors import DraftlightError
from engine.files.logs import explain

Work = Callable[[ChatStore], Any]
Then = Callable[[Any], object]
PAUSE_SECONDS = 2.0
"""Until what could not be written is tried again."""
LAST_SECONDS = 10.0
"""How long closing waits for what is still to be written."""


@dataclass(slots=True, eq=False)
class _Job:
    work: Work
    then: Then | None
    failed: Then | None = None
    once: str = ""
    """Of what is tried only once, what it is told as where it goes wrong. Other jobs wait until they can be done."""


class ChatKeeper(QObject):
    """Does with the store what it is asked to, one thing after the other, and hands results back on the window's thread.

    What cannot be written is kept in its order and tried again until it can be.

    Signals:
        failed: (message) something could not be written, and waits; the same message is said once.
        recovered: everything is written again.
        noted: (message) something the user should be told about the store.
    """

    failed = Signal(str)
    recovered = Signal()
    noted = Signal(str)
    _handed = Signal()

    def __init__(self, make: Callable[[], ChatStore], parent: QObject | None = None) -> None:
        """Args:
        make: opens the store; called on the thread, and again after a failure.
        """
        super().__init__(parent)
        self._make = make
        self._store: ChatStore | None = None
        self._jobs: deque[_Job] = deque()
        self._owed: deque[_Job] = deque()
        self._done: deque[Callable[[], object]] = deque()
        self._wake = threading.Condition()
        self._closing = False
        self._busy = False
        self._trouble = ""
        self._handed.connect(self._hand_over)
        self._thread = threading.Thread(target=self._run, name="chats", daemon=True)
        self._thread.start()

    # On the window's thread

    def write(self, work: Work, then: Then | None = None, failed: Then | None = None) -> None:
        """Has something written, sooner or later and in this order, and calls `then` with what `work` returned; `failed` with a
        sentence for the user if it can never be, because what it is about is gone."""
        self._add(_Job(work, then, failed))

    def read(self, work: Work, then: Then, failed: Then | None = None) -> None:
        """Has something read and calls `then` with it; `failed` with a sentence for the user if that cannot be."""
        self._add(_Job(work, then, failed, once="reading the chats"))

    def attempt(self, work: Work, then: Then, failed: Then) -> None:
        """Has something written that does not wait where it cannot be: then `failed` has a sentence for the user."""
        self._add(_Job(work, then, failed, once="writing the chats"))

    def try_again(self) -> None:
        """Tries at once what waits to be written."""
        self._add(_Job(lambda store: None, None))

    def tidy(self, then: Then | None = None, *, wished: bool = False) -> None:
        """Has the store tidied up (`ChatStore.tidy`) beside whatever else it does, and calls `then` when that is done."""

        def tidied(store: ChatStore) -> None:
            """On the thread that tidies up."""
            with contextlib.suppress(DraftlightError):
                store.tidy(wished=wished)
            if then is not None:
                self._hand(then, None)

        self.read(lambda store: threading.Thread(target=tidied, args=(store,), name="chats-tidy", daemon=True).start(), _nothing)

    @property
    def trouble(self) -> str:
        """Why something that waits could not be written; empty if nothing waits for that."""
        return self._trouble

    @property
    def in_trouble(self) -> bool:
        """Whether something waits because it could not be written."""
        return bool(self._trouble)

    def settle(self, seconds: float) -> None:
        """Waits until everything has been tried, at most so long."""
        with self._wake:
            self._wake.wait_for(lambda: not self._jobs and not self._busy and (not self._owed or bool(self._trouble)), seconds)

    def _add(self, job: _Job) -> None:
        with self._wake:
            self._jobs.append(job)
            self._wake.notify()

    def close(self) -> bool:
        """Writes what is still to be written and closes the store; False if something could not be."""
        with self._wake:
            self._closing = True
            self._wake.notify()
        self._thread.join(LAST_SECONDS)
        self._done.clear()
        return not self._thread.is_alive() and not self._owed

    @Slot()
    def _hand_over(self) -> None:
        while self._done:
            self._done.popleft()()

    # On its own

    def _run(self) -> None:
        while True:
            with self._wake:
                if not self._jobs and not self._closing:
                    self._wake.wait(PAUSE_SECONDS if self._owed else None)
                job = self._jobs.popleft() if self._jobs else None
                ending = self._closing and job is None
                self._busy = True
            if job is not None and job.once:
                self._try(job)
            else:
                if job is not None:
                    self._owed.append(job)
                self._pay()
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
            self._forget(error)
            if job.failed is not None:
                self._hand(job.failed, explain(error, job.once))
            return
        if job.then is not None:
            self._hand(job.then, result)

    def _pay(self) -> None:
        """Writes what is owed, oldest first, as far as that goes."""
        while self._owed:
            job = self._owed[0]
            try:
                store = self._opened()
            except Exception as error:
                self._say(error)
                return
            try:
                result = job.work(store)
            except (ChatsBusy, ChatsDamaged, ChatsNotSaved) as error:
                self._forget(error)
                self._say(error)
                return
            except Exception as error:
                self._owed.popleft()
                self._hand(self.noted.emit if job.failed is None else job.failed, explain(error, "writing the chats"))
                continue
            self._owed.popleft()
            if job.then is not None:
                self._hand(job.then, result)
        if self._trouble:
            self._trouble = ""
            self._hand(lambda _: self.recovered.emit(), None)

    def _say(self, error: Exception) -> None:
        message = explain(error, "writing the chats")
        if message != self._trouble:
            self._trouble = message
            self._hand(self.failed.emit, message)

    def _opened(self) -> ChatStore:
        if self._store is None:
            self._store = self._make()
            for note in self._store.notes:
                self._hand(self.noted.emit, note)
        return self._store

    def _forget(self, error: Exception) -> None:
        """A damaged store is opened anew, which repairs it."""
        if isinstance(error, ChatsDamaged) and self._store is not None:
            with contextlib.suppress(DraftlightError):
                self._store.close()
            self._store = None

    def _hand(self, then: Then, result: Any) -> None:
        self._done.append(lambda: then(result))
        if not self._closing:
            self._handed.emit()


def _nothing(_: object) -> None:
    pass
