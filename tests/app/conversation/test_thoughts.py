"""What a model thinks before it answers is folded into a line that opens, and every token of it can still be reached."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QToolButton
from pytestqt.qtbot import QtBot

from app.session.cursor import Place
from app.session.session import Session
from app.session.token_navigation import neighbour
from app.window.window import Window
from engine.lens.pieces import GHOSTS
from engine.rounds.trace import read
from engine.types import DecodingOptions, RoundFinished, RunFinished, RunStarted
from tests.app.fakes import FakeEngine, make_round, story_rounds
from tests.traces import write_trace

THOUGHT = "<think>\nThe user asks for a short story.\nLet me think.\n</think>"
ANSWER = "Here is **the story** that you\n\n- wanted."
TEXT = f"{THOUGHT}\n\n{ANSWER}"


def shown_text(window: Window) -> str:
    """The newest answer's text as it stands on the screen, without ghosts."""
    flow = window.transcript.blocks[-1].flow
    return flow.text_between(0, flow.length)


def button(window: Window) -> QToolButton:
    (found,) = (each for each in window.transcript.buttons.thoughts.widgets if each.isVisible())
    return found


def answered(qtbot: QtBot, show_window: Callable[..., Any], text: str = TEXT, **settings: Any) -> Window:
    window: Window = show_window(FakeEngine(story_rounds(text)), **settings)
    window.send("Tell me a story.")
    qtbot.waitUntil(lambda: window.session.running is None)
    return window


def test_the_thought_is_counted_while_it_goes_on_and_then_folded(qtbot: QtBot, show_window: Callable[..., Any]) -> None:
    rounds = story_rounds(TEXT)
    engine = FakeEngine(rounds)
    window = show_window(engine)
    engine.pause_after = 2
    window.send("Tell me a story.")
    qtbot.waitUntil(lambda: len(window.session.turns[0].answer.rounds) == 2)
    begun = sum(len(round_.emitted) for round_ in rounds[:2])
    qtbot.waitUntil(lambda: button(window).text() == f"Thinking · {begun} tokens")
    assert shown_text(window) == ""
    engine.pause_after = None
    qtbot.waitUntil(lambda: window.session.running is None)
    assert shown_text(window) == ANSWER
    last = next(round_ for round_ in rounds if any("</think>" in token.text for token in round_.emitted))
    seconds = (last.started + last.milliseconds.total) / 1000
    emitted = [token.text for round_ in rounds for token in round_.emitted]
    tokens = emitted.index("</think>") + 1
    assert button(window).text() == f"Thought for {seconds:.2f} s · {tokens} tokens"
    assert button(window).accessibleName() == button(window).text()


CHANNELS = (
    "<|channel|>analysis<|message|>Let me think.<|end|><|start|>assistant<|channel|>commentary<|message|>One moment.<|end|>"
    "<|start|>assistant<|channel|>commentary<|message|>Now.<|end|><|start|>assistant<|channel|>final<|message|>"
)


@pytest.mark.parametrize("thought", ["<|channel>thought\nLet me think.\n<channel|>", CHANNELS])
def test_thoughts_in_channels_are_folded_while_they_come_and_then(
    thought: str, qtbot: QtBot, show_window: Callable[..., Any]
) -> None:
    rounds = story_rounds(f"{thought}\n{ANSWER}")
    engine = FakeEngine(rounds)
    window = show_window(engine)
    window.send("Tell me a story.")
    seen: set[str] = set()
    qtbot.waitUntil(lambda: seen.add(shown_text(window)) or window.session.running is None)  # type: ignore[func-returns-value]
    seen.add(shown_text(window))
    assert not any("channel" in text or "think" in text for text in seen)
    assert shown_text(window) == ANSWER
    assert button(window).text().startswith("Thought for ")
    window.transcript.copy_answer()
    assert QGuiApplication.clipboard().text() == ANSWER
    button(window).click()
    assert shown_text(window) == f"{thought}\n{ANSWER}"


@pytest.mark.parametrize("cut", ["<|channel>thought\nLet me", "<|channel|>analysis<|message|>Let me", CHANNELS[:-3]])
def test_a_thought_in_a_channel_that_was_cut_off_says_so(cut: str, qtbot: QtBot, show_window: Callable[..., Any]) -> None:
    window = answered(qtbot, show_window, cut)
    assert button(window).text().endswith(", not finished")
    assert shown_text(window) == ""


def test_a_click_opens_it_where_it_is_and_folds_it_again(qtbot: QtBot, show_window: Callable[..., Any]) -> None:
    window = answered(qtbot, show_window)
    top = button(window).y()
    qtbot.mouseClick(button(window), Qt.MouseButton.LeftButton)
    assert shown_text(window) == TEXT
    assert button(window).y() == top
    flow = window.transcript.blocks[-1].flow
    assert [seam.divider.words for chunk in flow.chunks for seam in chunk.placed_dividers] == ["Answer"]
    qtbot.mouseClick(button(window), Qt.MouseButton.LeftButton)
    assert shown_text(window) == ANSWER


def test_the_reading_view_folds_too(qtbot: QtBot, show_window: Callable[..., Any]) -> None:
    window = answered(qtbot, show_window, reading=True)
    assert shown_text(window) == ANSWER
    button(window).click()
    assert shown_text(window) == TEXT


def test_the_answer_is_copied_without_the_thought(qtbot: QtBot, show_window: Callable[..., Any]) -> None:
    window = answered(qtbot, show_window)
    window.transcript.copy_answer()
    assert QGuiApplication.clipboard().text() == ANSWER
    window.transcript.select_all()
    assert window.transcript.selected_text() == f"Tell me a story.\n\n{ANSWER}"


def test_code_behind_a_thought_is_copied_as_it_was_written(qtbot: QtBot, show_window: Callable[..., Any]) -> None:
    window = answered(qtbot, show_window, f"{THOUGHT}\n\nThis:\n```\n\tone\n```\nand that.")
    block = window.transcript.answer_block(0)
    assert block is not None
    for _ in range(2):
        (code,) = (code for _, _, code in block.flow.codes)
        assert block.code_text(code) == "\tone"
        button(window).click()
        block = window.transcript.answer_block(0)
        assert block is not None


def test_keys_walk_past_what_is_folded_and_a_token_pinned_elsewhere_opens_it(
    qtbot: QtBot, show_window: Callable[..., Any]
) -> None:
    window = answered(qtbot, show_window)
    answer = window.session.turns[0].answer
    turns = window.session.turns
    first = neighbour(turns, Place(0, -1), 1, GHOSTS)
    assert first is not None
    assert answer.rounds[first.round].text and "Here" in answer.rounds[first.round].text
    window.cursor_place.pin(Place(0, 1, emitted=0))
    assert answer.shows_thought
    assert shown_text(window) == TEXT
    assert window.transcript.pointing.boxes(Place(0, 1, emitted=0))
    again = neighbour(turns, Place(0, -1), 1, GHOSTS)
    assert again is not None and again.round == 0


def test_answers_without_a_thought_have_no_such_line(qtbot: QtBot, show_window: Callable[..., Any]) -> None:
    window = answered(qtbot, show_window, "Is <think> a mark?")
    assert not any(each.isVisible() for each in window.transcript.buttons.thoughts.widgets)
    assert shown_text(window) == "Is <think> a mark?"


def test_what_only_begins_like_a_thought_is_shown_when_the_answer_ends(qtbot: QtBot, show_window: Callable[..., Any]) -> None:
    window = answered(qtbot, show_window, "<thi")
    assert shown_text(window) == "<thi"


def test_a_thought_that_was_cut_off_says_so(qtbot: QtBot, show_window: Callable[..., Any]) -> None:
    window = answered(qtbot, show_window, "<think>\nand so on")
    assert button(window).text().endswith(" tokens, not finished")
    assert shown_text(window) == ""
    window.transcript.copy_answer()
    assert QGuiApplication.clipboard().text() == "<think>\nand so on"


def test_a_replay_folds_thoughts_also_where_the_prompt_has_opened_them(
    qtbot: QtBot, show_window: Callable[..., Any], tmp_path: Path
) -> None:
    rounds = story_rounds(TEXT.removeprefix("<think>\n"))
    path = write_trace(tmp_path / "trace.jsonl", rounds, read="<|im_start|>assistant\n<think>\n")
    window = show_window(FakeEngine())
    window.replay_controller.show(read(path))
    window.replay_controller.go_to(len(rounds))
    assert shown_text(window) == ANSWER
    assert button(window).text().startswith("Thought for ")


@pytest.mark.parametrize("given", ["<think>\nLet me", f"{THOUGHT}\n\nHere"])
def test_a_branch_begins_with_the_thought_it_was_given(given: str) -> None:
    session = Session(clock=lambda: 0.0)
    answer = session.add_turn("hi", DecodingOptions(seed=1), "none")
    answer.run_id, answer.shows_thought = 1, False
    session.apply(RunStarted(1, DecodingOptions(seed=1), 9, "none", None, given))
    rest = TEXT.removeprefix(given)
    session.apply(RoundFinished(1, make_round(0, [], rest[:3])))
    session.apply(RoundFinished(1, make_round(1, [], rest[3:])))
    assert "".join(piece.text for piece in answer.text.pieces[answer.folded :]).lstrip() in (ANSWER, rest[3:])
    assert answer.text.answer == ANSWER
    session.apply(RunFinished(1, "eos", TEXT, 2, 1.0, 0.1, 0.1, None))
    assert answer.thought_words.startswith("Thought")
