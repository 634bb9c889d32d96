"""A change of rule at a low temperature offers one at which the rules differ."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from app.window.window import Window
from engine.types import Rule
from tests.app.driving import Open, wait_for_answer


def choose(qtbot: QtBot, window: Window, rule: Rule) -> None:
    """Presses the button of a rule in the header."""
    qtbot.mouseClick(window.header.rule.buttons[rule], Qt.MouseButton.LeftButton)
    assert window.settings.rule == rule


@pytest.mark.parametrize("temperature", [0.0, 0.2])
def test_the_first_touch_of_a_rule_offers_a_warmer_temperature(qtbot: QtBot, share_window: Open, temperature: float) -> None:
    window, engine = share_window(drafter="builtin-draft", temperature=temperature)
    choose(qtbot, window, "rejection")
    banner = window.banner
    assert banner.isVisible() and banner.action.isVisible() and banner.action.text() == "Set temperature to 0.8"
    same = "the same" if temperature == 0 else "nearly the same"
    assert banner.label.text().startswith(f"At temperature {temperature:g} all rules accept {same} tokens")
    qtbot.mouseClick(banner.action, Qt.MouseButton.LeftButton)
    assert window.settings.temperature == window.header.temperature.value() == 0.8
    assert not banner.isVisible() and not engine.requests
    choose(qtbot, window, "match")
    assert not banner.isVisible(), "now they differ"


def test_after_an_answer_the_offer_answers_again_with_the_same_seed(qtbot: QtBot, share_window: Open) -> None:
    window, engine = share_window(drafter="builtin-draft", temperature=0.2)
    window.send("Tell me a story.")
    wait_for_answer(qtbot, window)
    choose(qtbot, window, "rejection")
    assert window.banner.action.text() == "Answer again at 0.8"
    qtbot.mouseClick(window.banner.action, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: window.session.running is None and len(window.session.turns[0].answers) == 2)
    first, second = (request.options for request in engine.requests)
    assert (second.temperature, second.rule) == (0.8, "rejection") and second.seed == window.session.turns[0].answers[
        0
    ].options.seed
    assert first.temperature == 0.2


def test_the_offer_is_only_made_where_it_helps(qtbot: QtBot, share_window: Open) -> None:
    window, _ = share_window(drafter="builtin-draft", temperature=0.2)
    choose(qtbot, window, "block")
    assert window.banner.isVisible()
    window.header.changed.emit("temperature", 0.9)
    qtbot.waitUntil(lambda: not window.banner.isVisible())
    usual = {"drafter": "builtin-draft", "top_k": 0}
    rules: tuple[Rule, ...] = ("match", "rejection", "match")
    for rule, (setting, value) in zip(rules, (("drafter", "none"), ("drafter", "ngram"), ("top_k", 2)), strict=True):
        window.chat.preferences.set(**{"temperature": 0.2, **usual, setting: value})
        choose(qtbot, window, rule)
        assert not window.banner.isVisible(), f"{setting} {value} makes the rules alike at any temperature"
    window.chat.preferences.set(**usual)
    choose(qtbot, window, "gumbel")
    assert window.banner.isVisible()
