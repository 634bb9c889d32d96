"""While an answer grows, the text leads; what is told about it follows as often as it may cost, and at the end at once."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pytestqt.qtbot import QtBot

from app.session.lazy_engine import LazyEngine
from app.session.settings import Settings
from app.window.window import Window
from tests.app.driving import status
from tests.app.fakes import STORY, FakeEngine, story_rounds

NEVER = (1.0, 3600.0, 3600.0)


def told(window: Window) -> tuple[int, int, str, str]:
    """Rounds in text and lanes, and what the status line and the first tile say."""
    block = window.transcript.answer_block(0)
    rounds = 0 if block is None else len({piece.spot.round for piece in block.answer.text.pieces[: block.shown]})
    lanes = window.panel.rounds.lanes.field.count
    return rounds, lanes, status(window), window.panel.figures.tiles["tau"].value.text()


@pytest.mark.parametrize("end", ["by itself", "stopped"])
def test_at_its_end_an_answer_is_shown_in_full_at_once(
    qtbot: QtBot, show_window: Callable[..., Window], monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    monkeypatch.setattr("app.window.view_updates.TEXT_THROTTLE", NEVER)
    monkeypatch.setattr("app.window.view_updates.VIEWS_THROTTLE", NEVER)
    engine = FakeEngine(story_rounds(STORY * 2))
    window = show_window(engine, panel_page="rounds")
    at_end = []
    window.chat.received.connect(lambda _: None if window.session.running else at_end.append(told(window)))
    engine.pause_after = 9
    window.send("Tell me a story.")
    qtbot.waitUntil(lambda: bool(window.session.turns) and window.session.turns[0].answer.tally.rounds == 9)
    behind = told(window)
    assert behind[0] < 9 and behind[1] < 9, "what comes after a frame waits for the next one"
    window.stop() if end == "stopped" else engine.hurry()
    engine.pause_after = 9 if end == "stopped" else None
    qtbot.waitUntil(lambda: bool(at_end))
    answer = window.session.turns[0].answer
    many = len(answer.rounds)
    words = "Stopped" if end == "stopped" else "Done: end of answer"
    assert at_end[0] == (many, many, words, f"{answer.tally.summary.tau:.2f}")
    assert many == 9 if end == "stopped" else many > 9


def test_each_round_is_shown_if_frames_are_cheap(
    qtbot: QtBot, show_window: Callable[..., Window], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.window.view_updates.VIEWS_THROTTLE", (1.0, 0.0, 0.0))
    engine = FakeEngine(story_rounds(STORY * 2))
    window = show_window(engine, panel_page="rounds")
    engine.pause_after = 9
    window.send("Tell me a story.")
    qtbot.waitUntil(lambda: bool(window.session.turns) and window.session.turns[0].answer.tally.rounds == 9)
    qtbot.waitUntil(lambda: told(window)[:3] == (9, 9, "Generating, round 9"))
    window.stop()
    qtbot.waitUntil(lambda: window.session.running is None)


def test_frames_are_deferred_while_the_engine_computes_except_the_last(
    qtbot: QtBot, show_window: Callable[..., Window], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.look.throttle.MAX_DEFERRAL", 3600.0)
    for pace in ("TEXT_THROTTLE", "VIEWS_THROTTLE"):
        monkeypatch.setattr(f"app.window.view_updates.{pace}", (1.0, 0.0, 0.0))
    engine = FakeEngine(story_rounds(STORY * 2))
    lazy = LazyEngine(lambda settings, after: engine, Settings())
    assert not lazy.is_computing
    window = show_window(lazy, panel_page="rounds")
    engine.is_computing, engine.pause_after = True, 9
    window.send("Tell me a story.")
    qtbot.waitUntil(lambda: bool(window.session.turns) and window.session.turns[0].answer.tally.rounds == 9)
    behind = told(window)
    assert behind[0] < 9 and behind[1] < 9
    engine.is_computing = False
    qtbot.waitUntil(lambda: told(window)[:3] == (9, 9, "Generating, round 9"))
    engine.is_computing, engine.pause_after = True, None
    engine.hurry()
    qtbot.waitUntil(lambda: window.session.running is None)
    many = len(window.session.turns[0].answer.rounds)
    assert many > 9
    assert told(window)[:2] == (many, many)
