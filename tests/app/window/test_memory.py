"""A model for which there is not memory enough: the message says so and has a button that loads it anyway."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from engine.types import DrafterReady, DrafterRefused, LoadFailed, LoadStarted, RunFailed
from tests.app.fakes import FakeEngine

WORDS = "large needs about 43.2 GB of memory, but only 21.9 GB are available. Choose a smaller model."


class SmallMachine(FakeEngine):
    """Has no memory for a large target or drafter unless it is told to ignore that."""

    def answer_load(self, target: str, drafter: str) -> None:
        if target == "large" and "large" not in self.forced:
            self.say(LoadStarted(target), LoadFailed(target, WORDS, may_force=True))
        elif drafter == "large" and "large" not in self.forced:
            self.say(DrafterRefused(drafter, WORDS, may_force=True))
        else:
            super().answer_load(target, drafter)


def press_load_anyway(qtbot: QtBot, window: Any) -> None:
    qtbot.waitUntil(lambda: window.banner.action.isVisible())
    assert WORDS in window.banner.label.text()
    assert window.banner.action.text() == "Load anyway"
    qtbot.mouseClick(window.banner.action, Qt.MouseButton.LeftButton)


def test_a_target_can_be_loaded_anyway(qtbot: QtBot, show_window: Callable[..., Any]) -> None:
    engine = SmallMachine()
    window = show_window(engine)
    window.chat.change("target", "large")
    qtbot.waitUntil(lambda: window.settings.target == "builtin")
    assert engine.forced == []
    press_load_anyway(qtbot, window)
    assert (engine.forced, engine.loads[-1]) == (["large"], ("large", "auto"))
    qtbot.waitUntil(lambda: window.session.target == "large")
    assert not window.banner.isVisible()


def test_a_drafter_can_be_loaded_anyway(qtbot: QtBot, show_window: Callable[..., Any]) -> None:
    engine = SmallMachine()
    window = show_window(engine)
    window.chat.change("drafter", "large")
    press_load_anyway(qtbot, window)
    assert (engine.forced, engine.loads[-1]) == (["large"], ("builtin", "large"))
    qtbot.waitUntil(lambda: window.session.drafter == "large")
    assert window.settings.drafter == "large"


def test_a_message_refused_for_a_full_context_has_the_button_too(qtbot: QtBot, show_window: Callable[..., Any]) -> None:
    engine = SmallMachine()
    window = show_window(engine)
    engine.hold = True
    window.send("hello")
    engine.say(failed := LoadFailed("builtin", WORDS, may_force=True), RunFailed(engine.runs[0], WORDS, refused=failed))
    qtbot.waitUntil(lambda: window.session.running is None)
    assert window.composer.text == "hello"
    press_load_anyway(qtbot, window)
    assert engine.forced == ["builtin"]


def test_other_failures_do_not_offer_to_load_anyway(qtbot: QtBot, show_window: Callable[..., Any]) -> None:
    engine = SmallMachine()
    window = show_window(engine)
    engine.say(LoadFailed("builtin", WORDS, may_force=True))
    qtbot.waitUntil(lambda: window.banner.action.isVisible())
    for words in ("Something else.", WORDS):  # the event makes the offer, not the words
        window.chat.say(words)
        assert not window.banner.action.isVisible()
    engine.say(DrafterRefused("ngram", "It does not fit."), DrafterReady("none", False))
    qtbot.waitUntil(lambda: "does not fit" in window.banner.label.text())
    assert not window.banner.action.isVisible()
