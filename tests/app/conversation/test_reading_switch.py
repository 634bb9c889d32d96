"""From the tokens of an answer to the reading view and back, and its links."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from PySide6.QtCore import QPointF, Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QWidget
from pytestqt.qtbot import QtBot

from app.conversation.link_question import LinkQuestion
from app.conversation.reading_view import ReadingFlow, rects_of
from tests.app.driving import Open, ask, wait_for_answer
from tests.app.fakes import story_rounds

MARKDOWN = (
    "# Lamps\n\nThe **lamp** had *burned* for `forty` years. "
    + "Word after word it goes on. " * 30
    + "\n\n```py\nif x:\n\treturn 1\n```\n\n- one [link](https://example.org/a)\n- two\n\n"
    + "\n\n".join(f"Paragraph **{number}** says something about the sea and the shore, at some length." for number in range(40))
    + "\n"
)


def test_an_answer_is_read_without_syntax_once_it_is_done_and_the_choice_is_kept(
    qtbot: QtBot, open_window: Open, tmp_path: Path
) -> None:
    path = tmp_path / "settings.json"
    window, engine = open_window(story_rounds(MARKDOWN), path)
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
def test_the_place_is_kept_from_one_view_to_the_other_and_back(qtbot: QtBot, open_window: Open, share: float) -> None:
    window, _ = open_window(story_rounds(MARKDOWN))
    ask(qtbot, window)
    wait_for_answer(qtbot, window)
    transcript, bar = window.transcript, window.transcript.verticalScrollBar()
    bar.setValue(round(share * bar.maximum()))
    scrolled, top = bar.value(), transcript.pointing.landmarks()
    window.toggle_reading()
    lettered = [(place, y) for place, y in top if transcript.pointing._letters(place)]
    place, y = lettered[0]
    # at the top the legend, which the reading view has no use for, leaves its room to the text
    assert abs(transcript.pointing.area(place).top() - y) <= 1 or (share == 0 and bar.value() == 0)
    window.toggle_reading()
    assert abs(bar.value() - scrolled) <= 1


def test_a_pinned_token_stays_where_it_is(qtbot: QtBot, open_window: Open) -> None:
    window, _ = open_window(story_rounds(MARKDOWN), ghosts="all")
    ask(qtbot, window)
    wait_for_answer(qtbot, window)
    transcript, bar = window.transcript, window.transcript.verticalScrollBar()
    bar.setValue(bar.maximum() // 2)
    place = [place for place, _ in transcript.pointing.landmarks() if place.emitted is not None][6]
    window.cursor_place.pin(place)
    before = transcript.pointing.area(place).top()
    window.toggle_reading()
    assert window.cursor_place.pin_place == place
    assert abs(transcript.pointing.area(place).top() - before) <= 1


def test_what_is_copied_is_markdown_in_both_views_and_code_is_code(qtbot: QtBot, open_window: Open) -> None:
    window, _ = open_window(story_rounds(MARKDOWN))
    ask(qtbot, window)
    wait_for_answer(qtbot, window)
    transcript, clipboard = window.transcript, QGuiApplication.clipboard()
    bar = transcript.verticalScrollBar()

    def scrolled_to_code() -> bool:
        if not any(button.isVisible() for button in transcript.buttons.codes.widgets):
            bar.setValue((bar.value() + 30) % (bar.maximum() + 1))
        return any(button.isVisible() for button in transcript.buttons.codes.widgets)

    for _ in range(2):
        transcript.select_all()
        assert transcript.selected_text() == f"Tell me a story.\n\n{MARKDOWN.replace(chr(9), '    ')}"
        qtbot.waitUntil(scrolled_to_code)
        clipboard.clear()
        next(button for button in transcript.buttons.codes.widgets if button.isVisible()).click()
        assert clipboard.text() == "if x:\n\treturn 1", "with the tab that the model wrote"
        window.toggle_reading()


def test_a_link_is_opened_only_after_asking(qtbot: QtBot, open_window: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr(
        "app.conversation.link_question.QDesktopServices.openUrl", lambda url: opened.append(url.toString()) or True
    )
    window, _ = open_window(story_rounds("See [this](https://example.org/a) now.\n"), reading=True)
    ask(qtbot, window)
    wait_for_answer(qtbot, window)
    transcript = window.transcript
    block = transcript.answer_block(0)
    assert block is not None
    (box,) = rects_of(block.flow.chunks[0], 4, 8)
    corner = QPointF(transcript.column.left(), block.top - transcript.verticalScrollBar().value()) + block.origin
    point = (corner + box.center()).toPoint()
    qtbot.mouseClick(transcript.viewport(), Qt.MouseButton.LeftButton, pos=point)
    question = window.findChild(LinkQuestion)
    assert question is not None and question.informativeText() == "https://example.org/a" and opened == []
    question.copies.click()
    assert QGuiApplication.clipboard().text() == "https://example.org/a" and opened == []
    qtbot.mouseClick(transcript.viewport(), Qt.MouseButton.LeftButton, pos=point)
    question = window.findChildren(LinkQuestion)[-1]
    question.opens.click()
    assert opened == ["https://example.org/a"]


def test_what_is_no_page_is_not_opened(qtbot: QtBot) -> None:
    parent = QWidget()
    qtbot.addWidget(parent)
    question = LinkQuestion("ftp://example.org/x", parent)
    assert not question.opens.isEnabled()
