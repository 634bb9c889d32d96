"""Reads the traces of stored answers when they come into view, so that the lens works on them as on new answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

from PySide6.QtCore import QObject, Signal, Slot

from app.replay.player import Replay
from app.session.chat_keeper import ChatKeeper
from app.session.session import Answer, Session
from app.session.shown_answer import ShownAnswer
from engine.chats import ChatStore
from engine.machine.provenance import hardware
from engine.rounds.trace import read
from engine.types import Message, Request


class TraceReader(QObject):
    """Reads one trace after the other on the keeper's thread.

    Signals:
        taken_in: (answer) its rounds are loaded.
        unreadable: (message) its trace cannot be read; the text stays.
    """

    taken_in = Signal(object)
    unreadable = Signal(str)

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
        self._reading: Answer | None = None

    @Slot()
    def look(self) -> None:
        """Starts reading the trace of the first answer in use that needs it, unless one is being read."""
        if self._reading is not None or self._session.replaying:
            return
        shown = self._shown.answer
        wanted = [*([] if shown is None else [shown]), *self._unread_in_view()]
        answer = next((answer for answer in wanted if answer.unread and answer.trace_path is not None), None)
        if answer is not None and answer.trace_path is not None:
            self._reading = answer
            path = Path(answer.trace_path)
            self._keeper.read(lambda store: _answer_of(store, path), self._read, self._failed)

    def _read(self, found: tuple[Answer, Request]) -> None:
        answer, self._reading = self._reading, None
        if answer is not None and answer.unread:
            read_answer, asked = found
            self._session.take_in(answer, read_answer)
            if answer.request is not None:
                answer.request = replace(
                    answer.request,
                    messages=asked.messages,
                    options=read_answer.options,
                    given=asked.given,
                    dropped=answer.dropped,
                )
            self.taken_in.emit(answer)
        self.look()

    def _failed(self, message: str) -> None:
        answer, self._reading = self._reading, None
        if answer is not None:
            answer.unread, answer.request = False, None
            self.unreadable.emit(f"{message} The text of the answer is kept; its rounds are not.")
        self.look()


def _answer_of(_: ChatStore, path: Path) -> tuple[Answer, Request]:
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
    answer, here = replay.answer, hardware()
    answer.model_hash = str(trace.part("target").get("sha256") or "")
    known = trace.part("hardware")
    answer.other_machine = any(known.get(name, here[name]) != here[name] for name in ("machine", "processor"))
    return answer, Request(messages or (Message("user", ""),), given=trace.given_ids)
