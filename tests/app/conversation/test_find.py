"""Words are found in what is shown, whatever their case, and never in ghosts."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from app.conversation.find import FindBar
from tests.app.conversation.showing import Conversation, Show
from tests.app.fakes import STORY

PROMPT = "THE lamp, in 𝓤𝓷𝓲𝓬𝓸𝓭𝓮: the end"


@pytest.fixture
def shown(show_conversation: Show) -> Conversation:
    return show_conversation(prompt=PROMPT, ghosts="all")


@pytest.fixture
def bar(qtbot: QtBot, shown: Conversation) -> FindBar:
    made = FindBar(shown.transcript)
    qtbot.addWidget(made)
    made.open()
    return made


def test_every_occurrence_is_counted_marked_and_reached(qtbot: QtBot, shown: Conversation, bar: FindBar) -> None:
    qtbot.keyClicks(bar.field, "tHe")
    many = (PROMPT + STORY).lower().count("the")
    assert bar.count.text() == f"1 of {many}"
    selected = []
    for _ in range(many):
        selected.append(shown.transcript.selected_text())
        qtbot.keyClick(bar.field, Qt.Key.Key_Return)
    assert {text.lower() for text in selected} == {"the"}
    assert bar.count.text() == f"1 of {many}", "behind the last comes the first"
    qtbot.keyClick(bar.field, Qt.Key.Key_Return, Qt.KeyboardModifier.ShiftModifier)
    assert bar.count.text() == f"{many} of {many}"
    assert sum(len(block.found) for block in shown.transcript.blocks) == many


def test_ghosts_are_not_found_and_words_may_stand_around_them(shown: Conversation, bar: FindBar) -> None:
    flow = shown.transcript.blocks[1].flow
    assert "wall" in flow.text_between(0, flow.length, keep_ghosts=True)
    bar.field.setText("wall")
    assert bar.count.text() == "Not found"
    bar.field.setText("the last lamp on the point had burned")
    assert bar.count.text() == "1 of 1"
    assert shown.transcript.selected_text() == "The last lamp on the point had burned"


def test_escape_closes_the_bar_and_removes_the_marks(qtbot: QtBot, shown: Conversation, bar: FindBar) -> None:
    bar.field.setText("the")
    qtbot.keyClick(bar.field, Qt.Key.Key_Escape)
    assert not bar.isVisible()
    assert all(block.found == [] for block in shown.transcript.blocks)
