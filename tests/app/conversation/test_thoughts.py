"""What a model thinks before it answers is folded into a line that opens, and every token of it can still be reached."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QToolButton
from pytestqt.qtbot import QtBot

from app.session.cursor import Place
from app.session.session import Session
from app.session.token_navigation import neighbour
from engine.lens.pieces import GHOSTS
from engine.rounds.trace import read
from engine.types import DecodingOptions, RoundFinished, RunFinished, RunStarted
from tests.app.conversation.showing import PROMPT, Conversation, Show
from tests.app.driving import Open
from tests.app.fakes import make_round, story_rounds
from tests.traces import write_trace

THOUGHT = "<think>\nThe user asks for a short story.\nLet me think.\n</think>"
ANSWER = "Here is **the story** that you\n\n- wanted."
TEXT = f"{THOUGHT}\n\n{ANSWER}"


def visible_buttons(shown: Conversation) -> list[QToolButton]:
    return [each for each in shown.transcript.buttons.thoughts.widgets if each.isVisible()]


def button(shown: Conversation) -> QToolButton:
    (found,) = visible_buttons(shown)
    return found


def test_the_thought_is_counted_while_it_goes_on_and_then_folded(show_conversation: Show) -> None:
    rounds = story_rounds(TEXT)
    shown = show_conversation(rounds[:2], finished=False)
    begun = sum(len(round_.emitted) for round_ in rounds[:2])
    assert button(shown).text() == f"Thinking · {begun} tokens" and shown.shown_text() == ""
    shown.add(rounds[2:])
    shown.finish()
    assert shown.shown_text() == ANSWER
    last = next(round_ for round_ in rounds if any("</think>" in token.text for token in round_.emitted))
    seconds = (last.started + last.milliseconds.total) / 1000
    emitted = [token.text for round_ in rounds for token in round_.emitted]
    tokens = emitted.index("</think>") + 1
    assert button(shown).text() == button(shown).accessibleName() == f"Thought for {seconds:.2f} s · {tokens} tokens"


CHANNELS = (
    "<|channel|>analysis<|message|>Let me think.<|end|><|start|>assistant<|channel|>commentary<|message|>One moment.<|end|>"
    "<|start|>assistant<|channel|>commentary<|message|>Now.<|end|><|start|>assistant<|channel|>final<|message|>"
)


@pytest.mark.parametrize("thought", ["<|channel>thought\nLet me think.\n<channel|>", CHANNELS])
def test_thoughts_in_channels_are_folded_while_they_come_and_then(show_conversation: Show, thought: str) -> None:
    rounds = story_rounds(f"{thought}\n{ANSWER}")
    shown = show_conversation([], finished=False)
    for round_ in rounds:
        shown.add([round_])
        assert not re.search("channel|think", shown.shown_text())
    shown.finish()
    assert shown.shown_text() == ANSWER
    assert button(shown).text().startswith("Thought for ")
    shown.transcript.copy_answer()
    assert QGuiApplication.clipboard().text() == ANSWER
    button(shown).click()
    assert shown.shown_text() == f"{thought}\n{ANSWER}"


@pytest.mark.parametrize(
    "cut", ["<think>\nand so on", "<|channel>thought\nLet me", "<|channel|>analysis<|message|>Let me", CHANNELS[:-3]]
)
def test_a_thought_that_was_cut_off_says_so_and_is_what_can_be_copied(show_conversation: Show, cut: str) -> None:
    shown = show_conversation(story_rounds(cut))
    assert button(shown).text().endswith(" tokens, not finished")
    assert shown.shown_text() == ""
    shown.transcript.copy_answer()
    assert QGuiApplication.clipboard().text() == cut


def test_a_click_opens_it_where_it_is_and_folds_it_again(qtbot: QtBot, show_conversation: Show) -> None:
    shown = show_conversation(story_rounds(TEXT))
    top = button(shown).y()
    qtbot.mouseClick(button(shown), Qt.MouseButton.LeftButton)
    assert (shown.shown_text(), button(shown).y()) == (TEXT, top)
    flow = shown.transcript.blocks[-1].flow
    assert [seam.divider.words for chunk in flow.chunks for seam in chunk.placed_dividers] == ["Answer"]
    qtbot.mouseClick(button(shown), Qt.MouseButton.LeftButton)
    assert shown.shown_text() == ANSWER


def test_the_reading_view_folds_too(show_conversation: Show) -> None:
    shown = show_conversation(story_rounds(TEXT), reading=True)
    assert shown.shown_text() == ANSWER
    button(shown).click()
    assert shown.shown_text() == TEXT


def test_the_answer_is_copied_without_the_thought(show_conversation: Show) -> None:
    transcript = show_conversation(story_rounds(TEXT)).transcript
    transcript.copy_answer()
    assert QGuiApplication.clipboard().text() == ANSWER
    transcript.select_all()
    assert transcript.selected_text() == f"{PROMPT}\n\n{ANSWER}"


def test_code_behind_a_thought_is_copied_as_it_was_written(show_conversation: Show) -> None:
    shown = show_conversation(story_rounds(f"{THOUGHT}\n\nThis:\n```\n\tone\n```\nand that."))
    for _ in range(2):
        block = shown.transcript.answer_block(0)
        assert block is not None
        (code,) = (code for _, _, code in block.flow.codes)
        assert block.code_text(code) == "\tone"
        button(shown).click()


def test_keys_walk_past_what_is_folded_and_a_token_pinned_elsewhere_opens_it(show_conversation: Show) -> None:
    shown = show_conversation(story_rounds(TEXT))
    answer, turns, folded = shown.answer, shown.session.turns, Place(0, 1, emitted=0)
    first = neighbour(turns, Place(0, -1), 1, GHOSTS)
    assert first is not None and "Here" in answer.rounds[first.round].text
    shown.cursor.pin(folded)
    assert answer.shows_thought and shown.shown_text() == TEXT
    assert shown.transcript.pointing.boxes(folded)
    again = neighbour(turns, Place(0, -1), 1, GHOSTS)
    assert again is not None and again.round == 0


@pytest.mark.parametrize("text", ["Is <think> a mark?", "<thi"])
def test_what_only_looks_like_a_thought_is_shown(show_conversation: Show, text: str) -> None:
    shown = show_conversation(story_rounds(text))
    assert shown.shown_text() == text and not visible_buttons(shown)


def test_a_replay_folds_thoughts_also_where_the_prompt_has_opened_them(open_window: Open, tmp_path: Path) -> None:
    rounds = story_rounds(TEXT.removeprefix("<think>\n"))
    path = write_trace(tmp_path / "trace.jsonl", rounds, read="<|im_start|>assistant\n<think>\n")
    window, _ = open_window()
    window.replay_controller.show(read(path))
    window.replay_controller.go_to(len(rounds))
    flow = window.transcript.blocks[-1].flow
    assert flow.text_between(0, flow.length) == ANSWER
    (found,) = (each for each in window.transcript.buttons.thoughts.widgets if each.isVisible())
    assert found.text().startswith("Thought for ")


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
