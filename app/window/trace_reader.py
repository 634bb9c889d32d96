"""Reads the traces of stored answers when they come into view, so that the lens works on them as on new answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

from PySide6.QtCore import QObject, Signal, Slot

from app.replay.player import Replay
from app.session.chat_keeper import ChatKeeper
from app.session.cursor import ShownAnswer
from app.session.session import Answer, Session
from engine.chats import ChatStore
from engine.machine.provenance import hardware
from engine.rounds.trace import read
from engine.types import Message, Request


class TraceReader(QObject):
    """Reads one trace after the other on the keeper's thread.

    Signals:
        loaded: (answer) its rounds are loaded.
        failed: (message) its trace cannot be read; the text stays.
    """

    loaded = Signal(object)
    failed = Signal(str)

    def __init__(
        self,
        keeper: ChatKeeper,
        session: Session,
        shown: ShownAnswer,
        unread_in_view: Callable[[], Iterable[Answer]],
        parent: QObject,
    ) -> None:
        """Args:
        shown: the answer whose figures are shown, the most urgent one.
        unread_in_view: returns other answers whose rounds are needed.
        """
        super().__init__(parent)
        self._keeper, self._session, self._shown, self._unread_in_view = keeper, session, shown, unread_in_view
        self._pending: Answer | None = None

    @Slot()
    def read_next(self) -> None:
        """Starts reading the trace of the first answer in use that needs it, unless one is being read."""
        if self._pending is not None or self._session.replaying:
            return
        shown = self._shown.answer
        wanted = [*([] if shown is None else [shown]), *self._unread_in_view()]
        answer = next((answer for answer in wanted if answer.unread and answer.trace_path is not None), None)
        if answer is not None and answer.trace_path is not None:
            self._pending = answer
            path = Path(answer.trace_path)
            self._keeper.read(lambda store: _read_answer(store, path), self._apply, self._report_failure)

    def _apply(self, found: tuple[Answer, Request]) -> None:
        answer, self._pending = self._pending, None
        if answer is not None and answer.unread:
            read_answer, request = found
            self._session.complete(answer, read_answer)
            if answer.request is not None:
                answer.request = replace(
                    answer.request,
                    messages=request.messages,
                    options=read_answer.options,
                    given=request.given,
                    dropped=answer.dropped,
                )
            self.loaded.emit(answer)
        self.read_next()

    def _report_failure(self, message: str) -> None:
        answer, self._pending = self._pending, None
        if answer is not None:
            answer.unread, answer.request = False, None
            self.failed.emit(f"{message} The text of the answer is kept; its rounds are not.")
        self.read_next()


def _read_answer(_: ChatStore, path: Path) -> tuple[Answer, Request]:
    """Returns the answer in a trace, and its request."""
    trace = read(path)
    session = Session()
    replay = Replay(session, trace)
    session.show_replay(replay.turns)
    replay.show(len(trace.rounds))
    messages = tuple(
        Message(role, text)  # type: ignore[arg-type]
        for role, text in trace.messages
        if role in ("system", "user", "assistant")
    )
    answer, local_hardware = replay.answer, hardware()
    answer.model_hash = str(trace.part("target").get("sha256") or "")
    recorded = trace.part("hardware")
    answer.other_machine = any(
        recorded.get(name, local_hardware[name]) != local_hardware[name] for name in ("machine", "processor")
    )
    return answer, Request(messages or (Message("user", ""),), given=trace.given_ids)
