"""The conversation in the window: what is in view, selected, copied and said."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QAccessible, QColor, QGuiApplication
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.conversation import screen_reader
from app.conversation.blocks import STOPPED_EMPTY, footer_words
from app.conversation.hit_testing import SUMMARY_EXPLAINED
from app.look.theme import DARK, LIGHT, Theme
from app.session.cursor import Place
from app.session.session import NO_ROUNDS_YET
from engine.lens.pieces import GHOST_STEPS
from tests.app.conversation.showing import PROMPT, Show
from tests.app.driving import Open, answered, ask, status, wait_for_answer
from tests.app.fakes import STORY, story_rounds


def test_one_key_shows_no_ghosts_then_rejected_ones_then_all(qtbot: QtBot, open_window: Open) -> None:
    window, _ = open_window(ghosts="all")
    answered(qtbot, window)

    def shown() -> tuple[str, set[str], str]:
        flow = window.transcript.blocks[1].flow
        kinds: set[str] = {run.kind for chunk in flow.chunks for run in chunk.runs}
        checked = next(step for step in GHOST_STEPS if window.actions_by_id[f"{step}GhostsAction"].isChecked())
        return window.settings.ghosts, kinds & {"rejected", "unjudged"}, f"{window.status.ghosts.text()}, {checked}"

    assert shown() == ("all", {"rejected", "unjudged"}, "Ghosts: all, all")
    qtbot.keyClick(window, Qt.Key.Key_G, Qt.KeyboardModifier.ControlModifier)
    assert shown() == ("none", set(), "Ghosts: none, none")
    assert window.transcript.session.turns[0].answer.text.text == STORY
    width = window.status.ghosts.width()
    qtbot.mouseClick(window.status.ghosts, Qt.MouseButton.LeftButton)
    assert shown() == ("above", set(), "Ghosts: above, above")
    qtbot.keyClick(window, Qt.Key.Key_G, Qt.KeyboardModifier.ControlModifier)
    assert shown() == ("rejected", {"rejected"}, "Ghosts: rejected, rejected")
    window.actions_by_id["allGhostsAction"].trigger()
    assert shown() == ("all", {"rejected", "unjudged"}, "Ghosts: all, all")
    assert window.status.ghosts.width() == width, "a press moves nothing"


@pytest.mark.usefixtures("fonts")
@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
def test_selected_ghosts_stay_dim_and_struck(show_conversation: Show, theme: Theme) -> None:
    shown = show_conversation(ghosts="all", theme=theme)
    transcript = shown.transcript
    transcript.select_all()
    rejected = [round_ for round_ in shown.answer.rounds if round_.rejected]
    long = next(round_ for round_ in rejected if len(round_.proposals[round_.accepted].text) > 4)
    box = transcript.pointing.area(Place(0, long.index, proposal=long.accepted))
    image = transcript.viewport().grab(box).toImage()
    ground, ink = QColor(theme.selection).lightnessF(), QColor(theme.text).lightnessF()
    inside = range(image.width() // 3, image.width() - 3)  # behind the blank that the token begins with
    rows = [[(image.pixelColor(x, y).lightnessF() - ground) / (ink - ground) for x in inside] for y in range(image.height())]
    assert max(map(max, rows)) < 0.85, "dimmer than what will be copied"
    assert max(map(min, rows)) > 0.2, "a line goes through it"


def test_an_answer_tells_what_it_was_made_with_and_what_changed(qtbot: QtBot, open_window: Open) -> None:
    window, engine = open_window(seed=7, gamma=4, drafter="builtin-draft")
    engine.pause_after = 2
    ask(qtbot, window)
    qtbot.waitUntil(lambda: "Generating, round 2" in status(window))
    window.header.rule.buttons["match"].click()
    window.header.gamma.setValue(6)
    window.chat.change("drafter", "ngram")
    engine.pause_after = None
    wait_for_answer(qtbot, window)
    made_with = "Small draft model → N-gram, Gumbel → Match, gamma 4 → 6, temperature 0.2, seed 7"
    block = window.transcript.blocks[-1]
    window.transcript.verticalScrollBar().setValue(0)
    hit = window.transcript.hit(QPointF(0, block.top + 4))
    assert hit is not None and hit.explanation == made_with


def test_an_empty_answer_promises_nothing(qtbot: QtBot, open_window: Open) -> None:
    window, engine = open_window()
    engine.hold = True
    ask(qtbot, window)
    window.composer.stop.click()
    wait_for_answer(qtbot, window)
    words = footer_words(window.session.turns[0].answer, "", "", "")
    assert [text for text, _, _ in words] == [STOPPED_EMPTY]
    lanes = window.panel.pages["rounds"].lanes
    qtbot.waitUntil(lambda: lanes.accessible_text() == "The answer was stopped before its first round.")
    window.new_chat()
    qtbot.waitUntil(lambda: lanes.accessible_text() == NO_ROUNDS_YET)


def test_new_text_stays_in_view_until_the_user_scrolls_away(qtbot: QtBot, open_window: Open) -> None:
    window, _ = open_window(rounds=story_rounds(STORY * 40))
    window.resize(900, 600)
    ask(qtbot, window)
    bar = window.transcript.verticalScrollBar()
    qtbot.waitUntil(lambda: bar.maximum() > 100)
    assert bar.value() == bar.maximum()
    window.transcript.setFocus()
    qtbot.keyClick(window.transcript, Qt.Key.Key_Home)
    length = window.session.turns[0].answer.tally.rounds
    qtbot.waitUntil(lambda: window.session.turns[0].answer.tally.rounds > length + 5)
    assert bar.value() == 0
    qtbot.waitUntil(window.transcript.buttons.latest.isVisible)
    qtbot.mouseClick(window.transcript.buttons.latest, Qt.MouseButton.LeftButton)
    length = window.session.turns[0].answer.tally.rounds
    qtbot.waitUntil(lambda: window.session.turns[0].answer.tally.rounds > length + 5)
    assert bar.value() == bar.maximum()
    window.chat.stop()
    wait_for_answer(qtbot, window)


def test_the_conversation_can_be_selected_and_copied_without_ghosts(qtbot: QtBot, show_conversation: Show) -> None:
    transcript = show_conversation().transcript
    qtbot.keyClick(transcript, Qt.Key.Key_A, Qt.KeyboardModifier.ControlModifier)
    qtbot.keyClick(transcript, Qt.Key.Key_C, Qt.KeyboardModifier.ControlModifier)
    assert QGuiApplication.clipboard().text() == f"{PROMPT}\n\n{STORY}"
    qtbot.mouseClick(transcript.buttons.copy, Qt.MouseButton.LeftButton)
    assert QGuiApplication.clipboard().text() == STORY


def test_the_mouse_selects_what_it_passes(qtbot: QtBot, show_conversation: Show) -> None:
    transcript = show_conversation().transcript
    viewport, block = transcript.viewport(), transcript.blocks[1]
    corner = QPoint(transcript.column.left(), round(block.top + block.origin.y()) + 6)
    qtbot.mousePress(viewport, Qt.MouseButton.LeftButton, pos=corner)
    QApplication.processEvents()
    QTest.mouseMove(viewport, corner + QPoint(90, 0))
    qtbot.waitUntil(lambda: bool(transcript.selected_text()))
    assert STORY.startswith(transcript.selected_text())
    qtbot.mouseDClick(viewport, Qt.MouseButton.LeftButton, pos=corner + QPoint(8, 0))
    assert transcript.selected_text() == "The"


def test_the_figures_of_an_answer_explain_themselves(show_conversation: Show) -> None:
    transcript = show_conversation().transcript
    block = transcript.blocks[1]
    footer, text = (transcript.hit(QPointF(0, block.top + y)) for y in (block.height - 40, 40))
    assert footer is not None and footer.explanation == SUMMARY_EXPLAINED
    assert text is not None and text.explanation == ""


def test_a_screen_reader_knows_the_role_and_the_name_of_the_conversation(show_conversation: Show) -> None:
    screen_reader.install()
    interface = QAccessible.queryAccessibleInterface(show_conversation().transcript)
    assert interface is not None
    assert interface.role() == QAccessible.Role.Document
    assert interface.text(QAccessible.Text.Name) == "Conversation"
