"""How full the target's context is, with what is being written: counted by the engine, at most so often, while typing goes on."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import replace

from PySide6.QtCore import QObject, QTimer, Signal, Slot

from app.session.chat import Chat
from engine.lens.shared_wording import left_out
from engine.types import Message, PromptCounted, Request
from engine.wording import amount

PAUSE_MS = 120
"""From a change to the count; further changes do not put it off."""


class ContextMeter(QObject):
    """Says in words how many tokens the conversation and a draft take. Call `touch` after either may have changed.

    Args:
        draft: what is being written, and the index of the turn that it is to stand beside, or None.

    Signals:
        shown: (words, what will come of it) both empty where nothing is known; the second also where all fits.
    """

    shown = Signal(str, str)

    def __init__(self, chat: Chat, draft: Callable[[], tuple[str, int | None]], parent: QObject) -> None:
        super().__init__(parent)
        self._chat, self._draft = chat, draft
        self._asked: tuple[Request, str] | None = None
        self._counting = self._stopped = False
        self._texts: deque[tuple[str, Callable[[int | None], object]]] = deque()
        self._then: Callable[[int | None], object] | None = None
        self._timer = QTimer(self, singleShot=True, interval=PAUSE_MS)
        self._timer.timeout.connect(self._look)
        chat.link.counted.connect(self._counted)

    def count_text(self, text: str, then: Callable[[int | None], object]) -> None:
        """Counts a text by itself, and calls `then` with its tokens, or None where that cannot be known."""
        self._texts.append((text, then))
        self.touch()

    @Slot()
    def touch(self) -> None:
        """Counts soon."""
        if not self._stopped and not self._timer.isActive():
            self._timer.start()

    def stop(self) -> None:
        """Counts no more."""
        self._stopped = True
        self._timer.stop()

    def look(self) -> None:
        """Says at once what an answer under way takes, which needs no counting; that of a message being written does."""
        if self._chat.session.running is not None and not self._timer.isActive():
            self._look()

    @Slot()
    def _look(self) -> None:
        session = self._chat.session
        draft, instead_of = self._draft()
        if session.model is None or session.replaying:
            self._asked = None
            self.shown.emit("", "")
            return
        if self._texts and not self._counting:
            text, self._then = self._texts.popleft()
            self._counting = True
            self._chat.link.count_prompt(Request((Message("user", text),), template=False))
            return
        if session.running is not None and not draft.strip():
            if used := session.running.cache_length:
                self._asked = None
                self.shown.emit(f"{used:,} of {amount(session.model.context_length, 'token')}", "")
            return
        if self._counting:
            return  # `_counted` looks again
        request = self._chat.draft_request(draft.strip(), instead_of)
        if request is None:
            self._asked = None
            self.shown.emit("", "")
            return
        asked = (replace(request, options=request.options.replace(seed=0)), session.model.sha256)
        if asked != self._asked:
            self._asked, self._counting = asked, True
            self._chat.link.count_prompt(request)

    @Slot(object)
    def _counted(self, count: PromptCounted) -> None:
        self._counting = False
        then, self._then = self._then, None
        if then is not None:
            then(count.tokens)
            self._look()
            return
        self.touch()  # more may have been typed
        if self._asked is None:
            return
        if count.tokens is None or count.limit is None:
            self.shown.emit("", "")
            return
        words = f"{count.tokens:,} of {amount(count.limit, 'token')}"
        if count.tokens >= count.limit:
            self.shown.emit(f"{words}: too long", self._too_long())
        elif count.dropped:
            turns = self._chat.session.turns_of(count.dropped)
            out = f"{amount(turns, 'turn')} left out"
            self.shown.emit(f"{words}, {out}", f"{left_out(turns)}: the context is too small for all. They stay in the chat.")
        elif count.limit - count.tokens < min(self._chat.settings.max_tokens, count.limit // 8):
            left = count.limit - count.tokens
            self.shown.emit(words, f"An answer can have {amount(left, 'token')} at most: then the context is full.")
        else:
            self.shown.emit(words, "")

    def _too_long(self) -> str:
        if self._chat.settings.overflow == "drop":
            return "The message alone is longer than what the model reads. Shorten it, or choose a model with a larger context."
        return (
            "The model cannot read all of this. Shorten the message, start a new chat, or have the oldest turns left out: "
            "“When the context is full” in the sampling options."
        )
