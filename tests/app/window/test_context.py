"""How full the context is while typing, and what happens when it is full, in the window and on a scripted engine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QPushButton
from pytestqt.qtbot import QtBot

from app.conversation.screen_reader import plain_text
from app.session.context_meter import PAUSE_SECONDS, ContextMeter
from app.window.messages import LEAVE_OUT
from app.window.window import Window
from engine.types import PromptCounted, Request, RunFailed, RunStarted
from tests.app.driving import Open
from tests.app.fakes import MODEL, FakeEngine, story_rounds

FULL = "The conversation is 9,000 tokens long, but SmolLM2 reads at most 8,192. Leave out the oldest turns."


class SmallEngine(FakeEngine):
    """Reads four messages at most: more are refused, or the oldest are left out."""

    full = False

    def _dropped(self, request: Request) -> int:
        over = max(0, len(request.messages) - 4) if self.full else 0
        return over + over % 2

    def _begin(self, number: int, request: Request) -> None:
        super()._begin(number, request)
        if not (dropped := self._dropped(request)):
            return
        said = self._said.pop(), self._said.pop()
        if request.overflow == "stop":
            self._run = None
            self.say(RunFailed(number, FULL, may_drop=True))
        else:
            started = next(event for event in said if isinstance(event, RunStarted))
            self.say(replace(started, dropped=dropped), next(event for event in said if event is not started))

    def _count(self, number: int, request: Request) -> None:
        super()._count(number, request)
        dropped = self._dropped(request)
        if dropped:
            self._said.pop()
            kept = request.overflow == "drop"
            self.say(PromptCounted(number, 8000 if kept else 9000, MODEL.context_length, dropped if kept else 0))


def ask(qtbot: QtBot, window: Window, text: str) -> None:
    many = len(window.session.turns)
    window.composer.set_text(text)
    qtbot.keyClick(window.composer.edit, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: len(window.session.turns) == many + 1 and window.session.running is None)


def shown(window: Window) -> tuple[str, str]:
    context = window.composer.context
    return context.text(), context.accessibleDescription()


def test_the_tokens_of_conversation_and_draft_are_shown_while_typing(qtbot: QtBot, open_window: Open) -> None:
    window, engine = open_window(story_rounds("one two three"), system_prompt="Be brief.")
    assert shown(window)[0] == ""
    qtbot.keyClicks(window.composer.edit, "four words of text")
    qtbot.waitUntil(lambda: shown(window)[0] == "6 of 8,192 tokens")
    assert len(engine.counts) < len("four words of text"), "not for every letter"
    assert engine.counts[-1].messages[-1].content == "four words of text"
    ask(qtbot, window, "four words of text")
    said = len(window.session.turns[0].answer.text.text.split())
    qtbot.waitUntil(lambda: shown(window)[0] == f"{6 + said} of 8,192 tokens")
    window.messages.edit_last()
    window.composer.set_text("two words")
    qtbot.waitUntil(lambda: shown(window)[0] == "4 of 8,192 tokens")
    counted = len(engine.counts)
    window.findChild(ContextMeter).touch()
    qtbot.wait(round(1500 * PAUSE_SECONDS))
    assert len(engine.counts) == counted, "what is known is not counted again"
    window.new_chat()
    window.composer.set_text("")
    qtbot.waitUntil(lambda: not window.composer.context.isVisible())


def test_a_full_context_offers_to_leave_out_the_oldest_turns(qtbot: QtBot, show_window: Callable[..., Any]) -> None:
    engine = SmallEngine()
    window = show_window(engine)
    for text in ("first", "second"):
        ask(qtbot, window, text)
    engine.full = True
    window.composer.set_text("third")
    qtbot.waitUntil(lambda: shown(window)[0] == "9,000 of 8,192 tokens: too long")
    assert "“When the context is full”" in shown(window)[1] and window.composer.context.property("warns")
    qtbot.keyClick(window.composer.edit, Qt.Key.Key_Return)
    action: QPushButton = window.banner.action
    qtbot.waitUntil(lambda: window.banner.label.text() == FULL and action.isVisible())
    assert (window.composer.text, len(window.session.turns), action.text()) == ("third", 2, LEAVE_OUT)
    assert window.transcript.dropped_words == ""
    action.click()
    assert window.settings.overflow == "drop"
    qtbot.waitUntil(lambda: len(window.session.turns) == 3 and window.session.running is None)
    assert engine.requests[-1].overflow == "drop" and engine.requests[-1].dropped == 0
    assert not window.banner.isVisible()
    words = "The model no longer sees the oldest turn: the context is too small for all"
    assert window.transcript.dropped_words == words
    said = plain_text(window.transcript)
    assert said.index(f"({words})") < said.index("You: second") and said.index("You: first") < said.index(words)
    blocks = window.transcript.blocks
    assert [getattr(block, "above", "") for block in blocks] == ["", "", words, "", "", ""]
    ask(qtbot, window, "fourth")
    assert engine.requests[-1].dropped == 2, "what is left out stays out"
    assert window.session.dropped_turns == 2
    window.composer.set_text("fifth")
    qtbot.waitUntil(lambda: shown(window)[1].startswith("The model no longer sees the oldest 3 turns"))


def test_an_answer_that_fills_the_context_can_go_on_without_the_oldest_turns(qtbot: QtBot, share_window: Open) -> None:
    window, engine = share_window(story_rounds("Once upon a time there was a lamp", finish="context"))
    ask(qtbot, window, "first")
    assert not window.banner.isVisible(), "nothing could be left out"
    ask(qtbot, window, "second")
    assert window.banner.isVisible() and window.banner.action.text() == LEAVE_OUT
    before = window.session.turns[-1].answer
    window.banner.action.click()
    qtbot.waitUntil(lambda: window.session.turns[-1].answer is not before and window.session.running is None)
    asked = engine.requests[-1]
    assert (asked.overflow, asked.given) == ("drop", before.ids)
    assert len(window.session.turns[-1].answers) == 2
