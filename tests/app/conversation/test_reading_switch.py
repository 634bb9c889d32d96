"""From the tokens of an answer to the reading view and back, and its links."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QWidget
from pytestqt.qtbot import QtBot

from app.conversation.link_question import LinkQuestion
from app.conversation.reading_view import ReadingFlow, rects_of
from tests.app.conversation.showing import PROMPT, Show
from tests.app.driving import Open
from tests.app.fakes import story_rounds

MARKDOWN = (
    "# Lamps\n\nThe **lamp** had *burned* for `forty` years. "
    + "Word after word it goes on. " * 30
    + "\n\n```py\nif x:\n\treturn 1\n```\n\n- one [link](https://example.org/a)\n- two\n\n"
    + "\n\n".join(f"Paragraph **{number}** says something about the sea and the shore, at some length." for number in range(40))
    + "\n"
)


def test_an_answer_is_in_the_reading_view_once_it_is_done_and_the_choice_is_kept(
    qtbot: QtBot, open_window: Open, tmp_path: Path
) -> None:
    path = tmp_path / "settings.json"
    window, engine = open_window(story_rounds(), path)
    engine.pause_after = 12
    window.actions_by_id["readingAction"].trigger()
    window.send("Tell me of lamps.")
    qtbot.waitUntil(lambda: engine.pause_after is not None and len(window.session.turns[0].answer.rounds) >= 12)
    block = window.transcript.answer_block(0)
    assert block is not None and not isinstance(block.flow, ReadingFlow), "tokens while it streams"
    engine.pause_after = None
    qtbot.waitUntil(lambda: window.session.running is None)
    block = window.transcript.answer_block(0)
    assert block is not None and isinstance(block.flow, ReadingFlow)
    assert window.transcript.buttons.reading.isVisible() and window.transcript.buttons.reading.isChecked()
    assert json.loads(path.read_text())["reading"] is True
    window.transcript.buttons.reading.click()
    block = window.transcript.answer_block(0)
    assert block is not None and not isinstance(block.flow, ReadingFlow)
    assert not window.actions_by_id["readingAction"].isChecked()


@pytest.mark.parametrize("share", [0.0, 0.3, 0.7])
def test_the_place_is_kept_from_one_view_to_the_other_and_back(show_conversation: Show, share: float) -> None:
    transcript = show_conversation(story_rounds(MARKDOWN)).transcript
    bar, pointing = transcript.verticalScrollBar(), transcript.pointing
    bar.setValue(round(share * bar.maximum()))
    scrolled, top = bar.value(), pointing.landmarks()
    transcript.set_reading(True)
    place, y = next((place, y) for place, y in top if pointing.area(place).width() > 6)  # a token without letters is narrow
    # at the top the legend, which the reading view has no use for, leaves its room to the text
    assert abs(pointing.area(place).top() - y) <= 1 or (share == 0 and bar.value() == 0)
    transcript.set_reading(False)
    assert abs(bar.value() - scrolled) <= 1


def test_a_pinned_token_stays_where_it_is(show_conversation: Show) -> None:
    shown = show_conversation(story_rounds(MARKDOWN), ghosts="all")
    transcript, bar = shown.transcript, shown.transcript.verticalScrollBar()
    bar.setValue(bar.maximum() // 2)
    place = [place for place, _ in transcript.pointing.landmarks() if place.emitted is not None][6]
    shown.cursor.pin(place)
    before = transcript.pointing.area(place).top()
    transcript.set_reading(True)
    assert shown.cursor.pin_place == place
    assert abs(transcript.pointing.area(place).top() - before) <= 1


def test_what_is_copied_is_markdown_in_both_views_and_code_is_code(show_conversation: Show) -> None:
    transcript, clipboard = show_conversation(story_rounds(MARKDOWN)).transcript, QGuiApplication.clipboard()
    bar = transcript.verticalScrollBar()
    for reading in (False, True):
        transcript.set_reading(reading)
        transcript.select_all()
        assert transcript.selected_text() == f"{PROMPT}\n\n{MARKDOWN.replace(chr(9), '    ')}"
        bar.setValue(0)
        while not (buttons := [button for button in transcript.buttons.codes.widgets if button.isVisible()]):
            assert bar.value() < bar.maximum()
            bar.setValue(bar.value() + 100)
        clipboard.clear()
        buttons[0].click()
        assert clipboard.text() == "if x:\n\treturn 1", "with the tab that the model wrote"


def test_a_click_on_a_link_asks_for_it(qtbot: QtBot, show_conversation: Show) -> None:
    transcript = show_conversation(story_rounds("See [this](https://example.org/a) now.\n"), reading=True).transcript
    asked: list[str] = []
    transcript.link_wanted.connect(asked.append)
    block = transcript.answer_block(0)
    assert block is not None
    (box,) = rects_of(block.flow.chunks[0], 4, 8)
    point = (transcript.corner_of(block) + box.center()).toPoint()
    qtbot.mouseClick(transcript.viewport(), Qt.MouseButton.LeftButton, pos=point)
    assert asked == ["https://example.org/a"]


def test_a_link_is_opened_only_after_asking(open_window: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr(
        "app.conversation.link_question.QDesktopServices.openUrl", lambda url: opened.append(url.toString()) or True
    )
    window, _ = open_window()
    for button in ("copies", "opens"):
        window.transcript.link_wanted.emit("https://example.org/a")
        question = window.findChildren(LinkQuestion)[-1]
        assert question.informativeText() == "https://example.org/a" and opened == []
        getattr(question, button).click()
    assert QGuiApplication.clipboard().text() == opened[0] == "https://example.org/a"


def test_what_is_no_page_is_not_opened(qtbot: QtBot) -> None:
    parent = QWidget()
    qtbot.addWidget(parent)
    question = LinkQuestion("ftp://example.org/x", parent)
    assert not question.opens.isEnabled()
