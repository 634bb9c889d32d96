"""The legend says what the marks mean, and a press on one of them lights its tokens up."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QImage
from pytestqt.qtbot import QtBot

from app.conversation.blocks import AnswerBlock, UserBlock
from app.conversation.transcript import Transcript
from app.look.theme import LIGHT
from app.session.cursor import Cursor
from app.session.session import Session
from engine.lens.pieces import Ghosts, Kind
from engine.lens.shared_wording import LEGEND
from tests.app.conversation.showing import Show, colours_in
from tests.app.fakes import STORY, story_rounds

Open = Callable[..., Transcript]


@pytest.fixture
def open_transcript(show_conversation: Show) -> Open:
    """A conversation with one answer."""

    def opened(ghosts: Ghosts = "all", text: str = STORY, width: int = 700) -> Transcript:
        return show_conversation(story_rounds(text), size=(width, 420), ghosts=ghosts, theme=LIGHT).transcript

    return opened


def bright(transcript: Transcript) -> set[Kind]:
    """The kinds whose tokens are not dimmed."""
    found: set[Kind] = set()
    for chunk in transcript.blocks[1].flow.chunks:
        assert chunk.layout is not None
        dimmed = [part for part in chunk.layout.formats() if part.format.foreground().color().name() == LIGHT.muted]
        for run in chunk.runs:
            if not any(part.start <= run.start < part.start + part.length for part in dimmed):
                found.add(run.kind)
    return found


def texts(transcript: Transcript, kind: Kind) -> list[str]:
    """The runs of a kind as they are shown."""
    chunks = transcript.blocks[1].flow.chunks
    return [chunk.text[run.start : run.end] for chunk in chunks for run in chunk.runs if run.kind == kind]


@pytest.mark.parametrize("kind", LEGEND)
def test_a_press_lights_up_the_tokens_of_one_kind_and_another_press_ends_that(
    qtbot: QtBot, open_transcript: Open, kind: Kind
) -> None:
    transcript = open_transcript()
    everything = bright(transcript)
    assert everything == set(LEGEND)
    height = transcript.blocks[1].height
    button = transcript.legend.buttons[kind]
    qtbot.mouseClick(button, Qt.MouseButton.LeftButton)
    assert bright(transcript) == {kind}
    assert button.isChecked()
    qtbot.mouseClick(button, Qt.MouseButton.LeftButton)
    assert bright(transcript) == everything and transcript.blocks[1].height == height
    assert not button.isChecked()


def test_only_one_kind_is_lit_and_the_prompt_stays_as_it_is(qtbot: QtBot, open_transcript: Open) -> None:
    transcript = open_transcript()
    for kind in ("accepted", "bonus"):
        qtbot.mouseClick(transcript.legend.buttons[kind], Qt.MouseButton.LeftButton)
    assert bright(transcript) == {"bonus"}
    assert [button.kind for button in transcript.legend.buttons.values() if button.isChecked()] == ["bonus"]
    prompt = transcript.blocks[0]
    assert isinstance(prompt, UserBlock) and prompt.style.highlighted is None


def test_ghosts_that_are_hidden_are_shown_while_they_are_lit(qtbot: QtBot, open_transcript: Open) -> None:
    transcript = open_transcript("none")
    assert not texts(transcript, "rejected")
    transcript.legend.buttons["rejected"].click()
    assert texts(transcript, "rejected") and not texts(transcript, "unjudged")
    transcript.legend.buttons["rejected"].click()
    assert not texts(transcript, "rejected")


def test_marks_of_tokens_that_are_left_out_are_pale_unless_lit(open_transcript: Open) -> None:
    transcript = open_transcript("none")
    buttons = transcript.legend.buttons

    def looks() -> list[QImage]:
        return [buttons[kind].grab().toImage() for kind in ("accepted", "rejected", "unjudged")]

    def said() -> list[bool]:
        return ["Not shown now" in buttons[kind].accessibleDescription() for kind in ("accepted", "rejected", "unjudged")]

    none = looks()
    assert said() == [False, True, True]
    transcript.set_ghosts("rejected")
    some = looks()
    assert [one == other for one, other in zip(none, some, strict=True)] == [True, False, True]
    assert said() == [False, False, True]
    transcript.highlight("unjudged")
    highlighted = buttons["unjudged"].grab().toImage()
    transcript.set_ghosts("all")
    assert buttons["unjudged"].grab().toImage() == highlighted, "what is highlighted is shown"


def test_unjudged_tokens_unfold_while_they_are_lit(open_transcript: Open) -> None:
    transcript = open_transcript()
    assert all("⋯" in text for text in texts(transcript, "unjudged"))
    transcript.legend.buttons["unjudged"].click()
    pieces = transcript.session.turns[0].answer.text.pieces
    assert "".join(texts(transcript, "unjudged")) == "".join(piece.text for piece in pieces if piece.kind == "unjudged")
    transcript.legend.buttons["unjudged"].click()
    assert all("⋯" in text for text in texts(transcript, "unjudged"))


def test_marks_of_other_kinds_are_not_drawn(open_transcript: Open) -> None:
    transcript = open_transcript()

    def marks() -> set[str]:
        area = transcript.viewport().rect()
        area.setTop(round(transcript.blocks[1].top) + 20)  # the legend above has marks, too
        names = colours_in(transcript.viewport().grab(area).toImage())
        return {mark for mark in ("accepted_tint", "correction") if getattr(LIGHT, mark) in names}

    assert marks() == {"accepted_tint", "correction"}
    transcript.legend.buttons["correction"].click()
    assert marks() == {"correction"}


def test_the_keyboard_reaches_the_legend_in_one_step_and_walks_in_it(qtbot: QtBot, open_transcript: Open) -> None:
    transcript = open_transcript()
    legend = transcript.legend
    tabbed = [button.kind for button in legend.buttons.values() if button.focusPolicy() & Qt.FocusPolicy.TabFocus]
    assert tabbed == ["accepted"]
    legend.buttons["accepted"].setFocus()
    qtbot.keyClick(legend.buttons["accepted"], Qt.Key.Key_Right)
    assert transcript.focusWidget() is legend.buttons["rejected"]
    qtbot.keyClick(legend.buttons["rejected"], Qt.Key.Key_Return)
    assert bright(transcript) == {"rejected"}
    assert legend.buttons["rejected"].focusPolicy() & Qt.FocusPolicy.TabFocus
    qtbot.keyClick(legend.buttons["rejected"], Qt.Key.Key_Left)
    qtbot.keyClick(legend.buttons["accepted"], Qt.Key.Key_Space)
    assert bright(transcript) == {"accepted"}


def test_every_mark_is_named_and_explained_to_those_who_cannot_see_it(open_transcript: Open) -> None:
    legend = open_transcript().legend
    for kind, words in LEGEND.items():
        button = legend.buttons[kind]
        assert kind in button.accessibleName() and words in button.accessibleDescription()
        assert button.isCheckable()


def test_the_legend_stands_above_the_first_answer_and_stays_in_view_while_something_is_lit(open_transcript: Open) -> None:
    transcript = open_transcript(text=STORY * 12)
    bar, legend = transcript.verticalScrollBar(), transcript.legend
    bar.setValue(0)
    prompt, answer = transcript.blocks[0], transcript.blocks[1]
    assert isinstance(answer, AnswerBlock)
    assert prompt.top + prompt.height - 1 <= legend.y() and legend.geometry().bottom() <= answer.top
    bar.setValue(bar.maximum())
    assert legend.isHidden()
    transcript.highlight("accepted")
    bar.setValue(bar.maximum())
    assert legend.isVisible() and legend.y() == 0
    legend.buttons["accepted"].click()
    assert bar.value() == bar.maximum() and legend.isHidden()


def test_an_empty_conversation_has_no_legend(qtbot: QtBot) -> None:
    transcript = Transcript(Session(), LIGHT, 1.0, "all", Cursor())
    qtbot.addWidget(transcript)
    transcript.show()
    transcript.sync()
    assert transcript.legend.isHidden()


def test_the_legend_wraps_where_it_is_narrow(open_transcript: Open) -> None:
    transcript = open_transcript(width=260)
    transcript.verticalScrollBar().setValue(0)
    legend = transcript.legend
    buttons = list(legend.buttons.values())
    assert len({button.y() for button in buttons}) > 1
    assert all(legend.rect().contains(button.geometry()) for button in buttons)
