"""Shows how full the target's context is, including the draft message. The engine counts; counts are throttled while typing."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import replace

from PySide6.QtCore import QObject, Signal, Slot

from app.look.throttle import trailing_throttle
from app.session.chat import Chat
from engine.lens.shared_wording import unseen_words
from engine.types import Message, PromptCounted, Request
from engine.values.wording import amount

PAUSE_SECONDS = 0.12
"""Seconds from a change to the count; further changes do not extend the delay."""


class ContextMeter(QObject):
    """Reports how many tokens the conversation and a draft message take. Call `touch` after either may have changed.

    Args:
        draft: returns the draft, and the index of the turn whose prompt it would replace, or None.

    Signals:
        shown: (usage, consequence) both empty if the usage is unknown; the second also if everything fits.
    """

    shown = Signal(str, str)

    def __init__(self, chat: Chat, draft: Callable[[], tuple[str, int | None]], parent: QObject) -> None:
        super().__init__(parent)
        self._chat, self._draft = chat, draft
        self._asked: tuple[Request, str] | None = None
        self._counting = self._stopped = False
        self._texts: deque[tuple[str, Callable[[int | None], object]]] = deque()
        self._then: Callable[[int | None], object] | None = None
        self._counts = trailing_throttle(self._look, PAUSE_SECONDS, self)
        chat.link.counted.connect(self._counted)

    def count_text(self, text: str, then: Callable[[int | None], object]) -> None:
        """Counts a text on its own and calls `then` with the number of tokens, or None if they cannot be counted."""
        self._texts.append((text, then))
        self.touch()

    @Slot()
    def touch(self) -> None:
        """Schedules a count."""
        if not self._stopped:
            self._counts.touch()

    def stop(self) -> None:
        """Stops counting."""
        self._stopped = True
        self._counts.stop()

    def look(self) -> None:
        """Updates the display at once while an answer runs, whose size is known without counting. A draft still waits for its
        count."""
        if self._chat.session.running is not None and not self._counts.is_scheduled:
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
            return  # `_counted` calls `_look` again
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
        self.touch()  # the user may have typed more
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
            self.shown.emit(f"{words}, {out}", f"{unseen_words(turns)}: the context is too small for all. They stay in the chat.")
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
