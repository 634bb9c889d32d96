"""What a person does with the comparison, and what it shows. The engine plays recorded rounds, one of each column in turn."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import QEvent, QObject, QPoint, QPointF, Qt
from PySide6.QtGui import QAccessible, QColor, QImage, QPaintEvent, QRegion
from PySide6.QtWidgets import QAbstractButton, QAbstractSpinBox, QApplication, QComboBox, QFileDialog, QLineEdit, QPlainTextEdit
from pytestqt.qtbot import QtBot

from app.compare import column_text
from app.compare.column import position_of
from app.compare.comparison import ColumnSetup, Setup
from app.compare.presets import PRESETS
from app.compare.view import BEFORE_CHANGES, CompareView
from app.export.kinds import kind_named
from app.look.theme import LIGHT
from app.session.cursor import Place
from app.session.settings import Settings
from app.window.window import Window
from engine.chats import ChatStore, Retention
from engine.exports import svg
from engine.rounds.trace import read
from engine.runtime.worker import Engine
from engine.types import (
    Round,
)
from tests.app.driving import hasten, type_in, wait_for_answer
from tests.app.fakes import STORY, story_rounds
from tests.app.turns_engine import TurnsEngine
from tests.crossings import crossed
from tests.trees import SECOND_CHOICE

Open = Callable[..., tuple[Window, CompareView, TurnsEngine]]


def two_rules(settings: Settings) -> Setup:
    """One column under Rejection, one under Gumbel, with one drafter."""
    columns = tuple(ColumnSetup(rule=rule, drafter=settings.drafter) for rule in ("rejection", "gumbel"))
    return Setup("Write a short story.", columns, seed=settings.seed)


@pytest.fixture
def open_compare(qtbot: QtBot, show_window: Callable[..., Window], monkeypatch: pytest.MonkeyPatch) -> Open:
    """Opens windows on the comparison."""
    monkeypatch.setattr("app.compare.view.REFRESH_SECONDS", 0.005)

    def opened(
        scripts: Sequence[Sequence[Round]] = (), preset: str | None = None, asked: str = "", **settings: Any
    ) -> tuple[Window, CompareView, TurnsEngine]:
        engine = TurnsEngine(scripts)
        window = show_window(engine, size=(1280, 800), **{"drafter": "builtin-draft", **settings})
        if asked:
            window.send(asked)
            wait_for_answer(qtbot, window)
        window.pages.open_compare(preset or "")
        view = window.pages.compare
        assert view is not None
        if preset is None:
            view.show_setup(two_rules(window.settings), "")
        return window, view, engine

    return opened


def run(qtbot: QtBot, view: CompareView) -> None:
    """Starts what is set up and waits for its end."""
    qtbot.mouseClick(view.bar.start, Qt.MouseButton.LeftButton)
    assert view.comparison is not None or view.tallies, "it may have ended already where the machine is slow"
    hasten(view.window())
    qtbot.waitUntil(lambda: not view.running)
    view.refresh()


def other_story(at: int = 3) -> list[Round]:
    """The recorded answer, with another token from one round on."""
    rounds = story_rounds()
    changed = rounds[at]
    last = replace(changed.emitted[-1], id=77, text=" ship", bytes=b" ship", margin=None)
    text = "".join(token.text for token in changed.emitted[:-1]) + " ship"
    rounds[at] = replace(changed, emitted=(*changed.emitted[:-1], last), text=text)
    return rounds


def test_the_header_button_and_the_key_open_the_comparison_and_lead_back(qtbot: QtBot, open_compare: Open) -> None:
    window, view, _ = open_compare()
    assert view.isVisible() and not window.header.isVisible()
    qtbot.mouseClick(view.bar.close_button, Qt.MouseButton.LeftButton)
    assert window.header.isVisible()
    assert window.composer.edit.hasFocus()
    qtbot.mouseClick(window.header.compare, Qt.MouseButton.LeftButton)
    assert view.isVisible() and view.bar.start.hasFocus()
    window.actions_by_id["compareAction"].trigger()
    assert not view.isVisible()


def test_the_newest_prompt_of_the_chat_is_compared_unless_a_preset_has_its_own(qtbot: QtBot, open_compare: Open) -> None:
    _, view, engine = open_compare(preset="", asked="Why is the sky blue?")
    assert view.bar.prompt.toPlainText() == "Why is the sky blue?"
    run(qtbot, view)
    assert engine.comparisons[0].requests[1].messages[-1].content == "Why is the sky blue?"
    view.show_preset("with-without")
    assert "lighthouse" in view.bar.prompt.toPlainText()
    view.show_preset("rejection-gumbel")
    view.show_prompt("Why is the sky blue?")
    assert view.shown is None and view.bar.start.text() == "Start", "the recorded result is about its own prompt"


def test_two_answers_stream_side_by_side_and_the_first_difference_is_marked_and_explained(
    qtbot: QtBot, open_compare: Open
) -> None:
    _, view, engine = open_compare([other_story(), story_rounds()])
    engine.pause_after = 2
    qtbot.mouseClick(view.bar.start, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: view.columns[1].relation.text().startswith("Same text as A so far"))
    assert view.bar.stop.isVisible() and not view.bar.start.isVisible()
    engine.pause_after = None
    qtbot.waitUntil(lambda: not view.running)
    asked = engine.comparisons[0].requests
    assert [request.options.rule for request in asked] == ["rejection", "gumbel"]
    assert len({request.options.seed for request in asked}) == 1 and asked[0].options.seed is not None
    assert f"The last one was {asked[0].options.seed}." in view.bar.seed.toolTip()
    view.refresh()
    position = sum(len(round_.emitted) for round_ in story_rounds()[:3]) + len(story_rounds()[3].emitted) - 1
    assert view.comparison is not None and view.comparison.divergence == position
    assert (
        view.difference.words.accessibleDescription()
        == f"First difference at token {position + 1}:  A “ ship”,  B “ years” (margin 0.2)."
    )
    assert f"Differs from A from token {position + 1} on. Expected: Rejection" in view.columns[1].relation.text()
    assert view.columns[1].text.plain_text() == STORY
    for column in view.columns[:2]:
        figures = column.figures.accessibleDescription()
        assert "tokens/s" in figures and "expected acceptance" in figures
        assert "alpha" not in figures, "measured on different texts, alphas do not tell which rule accepts more"


def moved(view: CompareView) -> list[int]:
    """Where the columns and what is above them stand."""
    QApplication.processEvents()
    return [view._area.y(), view.band.y(), view.legend.y(), view.difference.height()]


@pytest.mark.usefixtures("fonts")
@pytest.mark.parametrize("size", [(1280, 800), pytest.param((2560, 1440), marks=pytest.mark.full), (900, 700)])
def test_the_closing_words_have_their_place_from_the_start(qtbot: QtBot, open_compare: Open, size: tuple[int, int]) -> None:
    scripts = [story_rounds(), story_rounds(gamma=2), other_story(), story_rounds(gamma=2)]
    window, view, engine = open_compare(scripts, preset="rejection-gumbel")
    window.resize(*size)
    engine.pause_after = 1
    qtbot.mouseClick(view.bar.start, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: all(column.answer.tally.rounds for column in view.comparison.columns))  # type: ignore[union-attr]
    view.refresh()
    assert "only Gumbel fixes the draw" in view.difference.words.text() and not view.difference.go.isVisible()
    assert "kept the text" not in view.difference.words.text()
    before = moved(view)
    engine.pause_after = None
    qtbot.waitUntil(lambda: not view.running)
    view.refresh()
    assert "kept the text" in view.difference.words.text() and view.difference.go.isVisible()
    assert moved(view) == before
    assert view.difference.words.height() >= view.difference.words.heightForWidth(view.difference.words.width())


def test_another_seed_is_not_said_to_be_chosen(qtbot: QtBot, open_compare: Open) -> None:
    _, view, _ = open_compare(preset="rejection-gumbel")
    assert "This seed was chosen" in view.bar.words.text()
    view.bar.seed.setFocus()
    view.bar.seed.selectAll()
    qtbot.keyClicks(view.bar.seed, "12")
    assert "two drafters under each rule" in view.bar.words.text() and "chosen" not in view.bar.words.text()
    view.extend()
    assert not view.bar.words.isVisible() or len(view._shown) == 4
    view.columns[0].controls.rule.setCurrentIndex(view.columns[0].controls.rule.findData("match"))
    assert "two drafters" not in view.bar.words.text()


def test_there_is_no_difference_to_go_to_where_no_texts_have_parted(qtbot: QtBot, open_compare: Open) -> None:
    _, view, _ = open_compare([story_rounds(), story_rounds(gamma=2)] * 2, preset="rejection-gumbel")
    run(qtbot, view)
    assert "Rejection happened to keep it" in view.difference.words.text() and not view.difference.go.isVisible()


def test_the_first_difference_moves_nothing_either(qtbot: QtBot, open_compare: Open) -> None:
    _, view, engine = open_compare([other_story(), story_rounds()])
    engine.pause_after = 2
    qtbot.mouseClick(view.bar.start, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: all(column.answer.tally.rounds == 2 for column in view.comparison.columns))  # type: ignore[union-attr]
    view.refresh()
    assert view.difference.words.text() == "No difference so far."
    before = moved(view)
    engine.pause_after = None
    qtbot.waitUntil(lambda: not view.running)
    view.refresh()
    assert "First difference at token" in view.difference.words.text() and moved(view) == before


@pytest.mark.usefixtures("fonts")
def test_no_line_is_cut_at_the_lower_edge_of_a_text(qtbot: QtBot, open_compare: Open) -> None:
    _, view, _ = open_compare([story_rounds(STORY * 6)] * 2)
    run(qtbot, view)
    text = view.columns[0].text
    bar = text.verticalScrollBar()
    background = QColor(text.theme.background)
    for value in range(bar.maximum() // 2, bar.maximum() // 2 + 40):
        bar.setValue(value)
        end = round(text._whole_lines(text._block))  # type: ignore[arg-type]
        assert text.viewport().height() - 40 < end <= text.viewport().height()
        picture = text.viewport().grab().toImage()
        below = {picture.pixelColor(x, y).name() for x in range(30, 200) for y in range(end + 1, picture.height())}
        assert below <= {background.name()}, "there is nothing of the next line"
    bar.setValue(bar.maximum())
    assert text._whole_lines(text._block) == text.viewport().height()  # type: ignore[arg-type]


@pytest.mark.usefixtures("fonts")
def test_a_text_that_has_room_does_not_scroll(qtbot: QtBot, open_compare: Open) -> None:
    _, view, _ = open_compare()
    run(qtbot, view)
    text = view.columns[0].text
    assert text._block is not None
    view.window().resize(1280, 800 - text.viewport().height() + round(text._block.flow.height) + 30)
    QApplication.processEvents()
    assert text.verticalScrollBar().maximum() == 0


@pytest.mark.usefixtures("fonts")
@pytest.mark.parametrize("columns", [2, 4])
def test_a_verdict_ends_with_a_whole_line(qtbot: QtBot, open_compare: Open, columns: int) -> None:
    rounds = story_rounds()
    long = replace(rounds[1].proposals[0], text=" pneumonoultramicroscopic" * 8, bytes=b"")
    rounds[1] = replace(rounds[1], proposals=(long, *rounds[1].proposals[1:]))
    _, view, _ = open_compare([rounds] * 4)
    for _ in range(columns - 2):
        view.extend()
    run(qtbot, view)
    column = view.columns[0]
    for place in (Place(0, 1, 0), Place(0, 2, 0), Place(0, 4, None, len(rounds[4].emitted) - 1)):
        column.cursor_place.point(place)
        label = column.verdict
        assert label.heightForWidth(label.width()) <= label.height(), label.text()
        assert label.toolTip()
    fitting = column._fitting("“a”", "word " * 200)
    assert fitting.endswith("word …") and len(fitting) < 500, "what has no room is in the tooltip"
    column.verdict.setText(f"<span>“a”</span> {fitting}")
    assert column.verdict.heightForWidth(column.verdict.width()) <= column.verdict.height()


@pytest.mark.usefixtures("fonts")
def test_a_prompt_shows_whole_lines(qtbot: QtBot, open_compare: Open) -> None:
    _, view, _ = open_compare(preset="three-times")
    field = view.bar.prompt
    assert view.bar.prompt.blockCount() > 2
    block = field.document().firstBlock()
    heights = []
    while block.isValid():
        heights.append(field.blockBoundingGeometry(block).translated(field.contentOffset()))
        block = block.next()
    assert heights[1].bottom() <= field.viewport().height() + 1 and heights[2].top() >= field.viewport().height() - 4


@pytest.mark.usefixtures("fonts")
def test_the_four_rules_and_their_times_are_seen_whole_on_a_small_screen(qtbot: QtBot, open_compare: Open) -> None:
    window, view, _ = open_compare([story_rounds(), story_rounds(), other_story(), other_story()], preset="four-rules")
    window.resize(1278, 675)  # 1280 x 720 without a title and a frame
    run(qtbot, view)
    QApplication.processEvents()
    assert view.columns[2].relation.text().startswith("Differs from A")
    said = [column.figures.accessibleDescription() for column in view.columns]
    assert all("% expected acceptance" in each for each in said[:3]) and "no expected acceptance" in said[3]
    assert view._area.verticalScrollBar().maximum() == 0, "nothing has to be scrolled"


def test_samples_stand_at_one_height_after_a_comparison_of_texts(qtbot: QtBot, open_compare: Open) -> None:
    _, view, _ = open_compare([story_rounds()] * 4, preset="rejection-gumbel")
    run(qtbot, view)
    view.show_preset("random-number")
    run(qtbot, view)
    QApplication.processEvents()
    assert len({column.body.y() for column in view.columns[:3]}) == 1
    assert view.columns[0].figures.minimumHeight() <= view.columns[0].figures.fontMetrics().height() + 4


def test_the_invariance_badge_counts_equal_tokens_and_a_broken_promise_is_loud(qtbot: QtBot, open_compare: Open) -> None:
    _, view, _ = open_compare(preset="with-without")
    run(qtbot, view)
    tokens = sum(len(round_.emitted) for round_ in story_rounds())
    assert view.columns[1].relation.text() == f"Same text as A: {tokens} of {tokens} tokens."
    assert "plain" in view.columns[1].figures.text().replace("&nbsp;", " ")
    assert view.difference.words.text() == "The texts are the same." and not view.difference.go.isVisible()
    _, broken, _ = open_compare([story_rounds(), other_story()], preset="with-without")
    run(qtbot, broken)
    assert broken.columns[1].relation.property("kind") == "unexpected"
    assert "Unexpected" in broken.columns[1].relation.text()


def test_pointing_in_one_column_points_at_the_same_position_in_the_others(qtbot: QtBot, open_compare: Open) -> None:
    _, view, _ = open_compare([story_rounds(gamma=2), story_rounds(gamma=4)])
    run(qtbot, view)
    assert view.comparison is not None
    first, second = view.comparison.columns
    assert first.spots[9].round != second.spots[9].round, "the same token came in another round"
    area = view.columns[0].text._boxes(9)[0]
    qtbot.mouseMove(view.columns[0].text.viewport(), area.center().toPoint())
    place = view.columns[1].cursor_place.place
    assert place is not None and position_of(view.columns[1], place) == 9
    qtbot.mouseClick(view.columns[0].text.viewport(), Qt.MouseButton.LeftButton, pos=area.center().toPoint())
    assert view.columns[1].cursor_place.pin_place == place
    qtbot.keyClick(view.columns[0].text, Qt.Key.Key_Right)
    moved = view.columns[1].cursor_place.place
    assert moved is not None and moved != place
    view.columns[0].cursor_place.forget()
    assert view.columns[1].cursor_place.place is None


def test_pointing_at_a_bar_of_the_strip_points_at_its_first_token_everywhere(qtbot: QtBot, open_compare: Open) -> None:
    _, view, _ = open_compare()
    run(qtbot, view)
    strip = view.columns[0].strip
    x = round(strip._x(story_rounds()[4].started / 1e3)) + 3
    qtbot.mouseMove(strip, QPoint(x, 20))
    assert view.columns[0].cursor_place.place == Place(0, 4)
    place = view.columns[1].cursor_place.place
    assert place is not None and place.round == 4
    assert strip.round_at(-5) is None
    assert strip.round_at(strip._area.left() - 2) == 0, "beside its left edge there is the first round"


def test_what_was_found_before_a_change_of_the_settings_says_so(qtbot: QtBot, open_compare: Open) -> None:
    window, view, _ = open_compare([other_story(), story_rounds()])
    assert not view.outdated
    run(qtbot, view)
    found, prompt = view.difference.words.text(), view.bar.prompt.toPlainText()
    assert not view.outdated and window.status.line.text() == "Comparison done"
    view.bar.prompt.setPlainText("Another prompt")
    assert view.outdated and BEFORE_CHANGES in view.difference.words.text()
    assert window.status.line.text() == "Changed since this comparison. Start compares again"
    view.bar.prompt.setPlainText(prompt)
    assert not view.outdated and view.difference.words.text() == found


def test_scrolling_one_column_brings_the_others_to_the_same_position(qtbot: QtBot, open_compare: Open) -> None:
    long = story_rounds(STORY * 12, gamma=2), story_rounds(STORY * 12, gamma=5)
    _, view, _ = open_compare(long)
    run(qtbot, view)
    one, two = view.columns[0].text, view.columns[1].text
    assert one.following and one.verticalScrollBar().value() == one.verticalScrollBar().maximum() > 0
    one.verticalScrollBar().setValue(one.verticalScrollBar().maximum() // 2)
    here, there = one.anchor, two.anchor
    assert here is not None and there is not None
    assert abs(two._top_of(here[0])) <= 1.5 * two._line, "the same line of the answer stands at the upper edge"
    assert not one.following and not two.following


def test_the_first_difference_is_brought_into_sight_in_every_column(qtbot: QtBot, open_compare: Open) -> None:
    long = story_rounds(STORY * 12)
    _, view, _ = open_compare([long, [*other_story()[:-1], *long[len(other_story()) - 1 :]]])
    run(qtbot, view)
    assert view.columns[0].text.verticalScrollBar().value() > 0
    qtbot.mouseClick(view.difference.go, Qt.MouseButton.LeftButton)
    assert view.comparison is not None and (position := view.comparison.divergence) is not None
    for column in view.columns[:2]:
        assert column.text.viewport().rect().contains(column.text._boxes(position)[0].center().toPoint())
        assert column.cursor_place.pin_place is not None


def test_numbers_of_a_comparison_are_typed_too(qtbot: QtBot, open_compare: Open) -> None:
    _, view, engine = open_compare()
    bar, column = view.bar, view.columns[0].controls
    for field, text, value in (
        (column.temperature, "0.45", 0.45),
        (column.temperature, "1,15", 1.15),
        (column.gamma, "11", 11),
        (bar.longest, "300", 300),
        (bar.samples, "12", 12),
        (bar.samples, "off", "off"),
        (bar.seed, "123", 123),
    ):
        type_in(qtbot, field, text, Qt.Key.Key_Tab)
        assert field.setting == value and not field.reason, text
    for field, text in (
        (bar.seed, "-4"),
        (column.gamma, "999"),
        (bar.samples, "10001"),
        (bar.longest, "0"),
        (column.temperature, "5,5"),
    ):
        type_in(qtbot, field, text)
        assert field.allowed.short in field.reason and field.text() == text
        qtbot.keyClick(field, Qt.Key.Key_Escape)
    type_in(qtbot, column.temperature, "0.95", None)
    qtbot.keyClick(column.temperature, Qt.Key.Key_Return, Qt.KeyboardModifier.ControlModifier)
    asked = engine.comparisons[0].requests[0].options
    assert (asked.temperature, asked.gamma, asked.max_tokens, asked.seed) == (0.95, 11, 300, 123)
    qtbot.waitUntil(lambda: not view.running)


def test_settings_of_a_column_are_edited_before_the_start_and_locked_while_running(qtbot: QtBot, open_compare: Open) -> None:
    _, view, engine = open_compare()
    controls = view.columns[0].controls
    controls.gamma.setValue(5)
    controls.temperature.setValue(0.3)
    controls.drafter.setCurrentIndex(controls.drafter.findData("ngram"))
    assert view.columns[0].title.toolTip() == view.columns[0].title.text() == "Rejection, N-gram"
    view.bar.seed.setText("99")
    view.bar.longest.setValue(17)
    engine.hold = True
    qtbot.mouseClick(view.bar.start, Qt.MouseButton.LeftButton)
    asked = engine.comparisons[0].requests[0]
    assert (asked.drafter, asked.options.gamma, asked.options.temperature) == ("ngram", 5, 0.3)
    assert (asked.options.seed, asked.options.max_tokens) == (99, 17)
    assert not controls.isEnabled() and not view.bar.prompt.isEnabled() and not view.bar.presets.isEnabled()
    engine.hold = False
    qtbot.waitUntil(lambda: not view.running)
    assert controls.isEnabled()
    controls.drafter.setCurrentIndex(controls.drafter.findData("none"))
    assert not controls.rule.isEnabled() and not controls.gamma.isEnabled(), "nothing is judged without a drafter"
    assert view.columns[0].title.toolTip() == "Rejection, N-gram", "the title is that of the text below it"


def test_columns_are_added_up_to_four_and_removed_down_to_two(qtbot: QtBot, open_compare: Open) -> None:
    _, view, engine = open_compare()
    for _ in range(3):
        view.extend()
    assert [column.controls.setup.rule for column in view._shown] == ["rejection", "gumbel", "match", "block"]
    assert not view.bar.add.isEnabled()
    run(qtbot, view)
    assert len(engine.comparisons[0].requests) == 4
    qtbot.mouseClick(view.columns[1].remove, Qt.MouseButton.LeftButton)
    assert [column.controls.setup.rule for column in view._shown] == ["rejection", "match", "block"]
    view.remove(0)
    assert len(view._shown) == 2 and not view.columns[0].remove.isVisible()


def test_stop_ends_every_column_and_keeps_what_is_there(qtbot: QtBot, open_compare: Open) -> None:
    window, view, engine = open_compare()
    engine.pause_after = 2
    qtbot.mouseClick(view.bar.start, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: all(len(column.answer.rounds) == 2 for column in view.comparison.columns))  # type: ignore[union-attr]
    assert window.actions_by_id["stopAction"].isEnabled()
    assert window.status.line.text() == "Comparing 2 answers, one round each in turn"
    window.actions_by_id["stopAction"].trigger()
    qtbot.waitUntil(lambda: not view.running)
    assert engine.stopped == [engine.runs[0], engine.runs[1]]
    view.refresh()
    assert all(", stopped" in column.figures.text().replace("&nbsp;", " ") for column in view.columns[:2])
    assert not window.actions_by_id["stopAction"].isEnabled()
    assert window.status.line.text() == "Comparison done"


def test_one_failure_is_told_in_its_column_and_the_others_go_on(qtbot: QtBot, open_compare: Open) -> None:
    window, view, engine = open_compare(preset="with-without")
    engine.failing = {0}
    run(qtbot, view)
    assert view.columns[0].text.words == "This drafter does not fit. Choose another."
    assert view.difference.words.text() == "Some answers are missing, so nothing can be concluded."
    assert window.status.line.text() == "Comparison ended with an error"
    assert view.columns[1].text.plain_text() == STORY


def test_a_comparison_goes_on_behind_the_chat_and_is_up_to_date_when_it_is_opened_again(qtbot: QtBot, open_compare: Open) -> None:
    window, view, engine = open_compare()
    engine.pause_after = 1
    qtbot.mouseClick(view.bar.start, Qt.MouseButton.LeftButton)
    window.pages.open_conversation()
    engine.pause_after = None
    qtbot.waitUntil(lambda: not view.running)
    window.pages.open_compare()
    assert view.columns[0].text.plain_text() == STORY
    assert "tokens/s" in view.columns[0].figures.text()
    assert window.session.turns == [], "no answer of the comparison is taken for one of the chat"


def test_prompts_of_their_own_stand_in_their_columns(qtbot: QtBot, open_compare: Open) -> None:
    _, view, engine = open_compare(preset="story-code")
    assert not view.bar.prompt.isVisible()
    assert all(column.controls.prompt.isVisible() for column in view.columns[:2])
    run(qtbot, view)
    assert len({request.messages[-1].content for request in engine.comparisons[0].requests}) == 2
    assert not view.difference.isVisible() and not view.columns[1].relation.isVisible()
    view.columns[0].controls.prompt.setPlainText(" ")
    assert not view.bar.start.isEnabled()


def test_the_random_number_is_drawn_many_times_and_counted_beside_the_closed_form(qtbot: QtBot, open_compare: Open) -> None:
    _, view, engine = open_compare(preset="random-number")
    run(qtbot, view)
    (asked,) = engine.samplings
    assert [request.options.rule for request in asked.requests] == ["match", "gumbel", "rejection"]
    assert {request.drafter for request in asked.requests} == {"builtin"}, "the target drafts for itself"
    assert not asked.requests[0].template
    assert [len(tally.samples) for tally in view.tallies] == [200, 200, 200]
    match, gumbel, rejection = view.tallies
    assert match.share == pytest.approx(1 / 3, abs=0.01) and match.expected == pytest.approx(1 / 3)
    assert gumbel.share == rejection.share == 1.0
    words = view.columns[0].chart.accessibleDescription()
    assert "First proposal accepted in 67 of 200 samples" in words and "Theory predicts 0.333." in words
    assert "1: 20, 2: 20" in words
    assert not view.columns[0].strip.isVisible()
    view.show_preset("rejection-gumbel")
    assert view.columns[0].strip.isVisible() and view.tallies == []


def test_sampling_can_be_stopped_and_keeps_what_was_counted(qtbot: QtBot, open_compare: Open) -> None:
    _, view, engine = open_compare(preset="random-number")
    engine.pause_samples = 9
    qtbot.mouseClick(view.bar.start, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: view.tallies[2].judged == 3)
    qtbot.mouseClick(view.bar.stop, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: not view.running)
    view.refresh()
    assert "3 of 200 samples" in view.columns[0].figures.accessibleDescription()


def test_samples_are_exported_in_two_clicks(
    qtbot: QtBot, open_compare: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, view, _ = open_compare(preset="random-number")
    assert not view.bar.export.isEnabled()
    run(qtbot, view)
    path = tmp_path / "samples.json"
    monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *_, **__: (str(path), "JSON (*.json)"))
    qtbot.mouseClick(view.bar.export, Qt.MouseButton.LeftButton)
    assert json.loads(path.read_text(encoding="utf-8"))["settings"][1]["samples"] == 200
    assert view.banner.isVisible() and str(path) in view.banner.label.text()


def test_an_export_that_cannot_be_written_says_so(qtbot: QtBot, open_compare: Open, tmp_path: Path) -> None:
    _, view, _ = open_compare(preset="random-number")
    run(qtbot, view)
    (tmp_path / "taken").write_text("")
    view.exporter.write_samples(view.shown, tmp_path / "taken" / "samples.json")
    assert view.banner.isVisible() and view.banner.frame.property("tone") == "error"


def test_every_preset_opens_from_the_menu_and_runs(qtbot: QtBot, open_compare: Open) -> None:
    window, view, engine = open_compare()
    for number, preset in enumerate(PRESETS, start=1):
        name = "compare" + "".join(part.capitalize() for part in preset.id.split("-")) + "Action"
        window.actions_by_id[name].trigger()
        about = preset.about(view.setup, Settings() if preset.recorded else window.settings)
        assert view.bar.words.text().removeprefix(f"Recorded with the built-in models ({view._recorded_on}). ") == about
        assert preset.words in view.bar.words.text()
        run(qtbot, view)
        assert len(engine.comparisons) + len(engine.samplings) == number, preset.id


def test_columns_may_differ_in_the_budget_of_their_trees(qtbot: QtBot, open_compare: Open) -> None:
    _, view, engine = open_compare(preset="chain-tree")
    first, second = (column.controls.tree for column in view.columns[:2])
    assert (first.currentText(), second.currentText()) == ("Chain", "Tree of 8")
    second.setCurrentText("Tree of 16")
    assert view.columns[1].title.accessibleName() == "Gumbel, Small draft model, tree of 16"
    assert view.columns[0].title.text() == "Gumbel, Small draft model, chain"
    run(qtbot, view)
    assert [request.options.budget for request in engine.comparisons[0].requests] == [None, 16]
    setup = view.setup
    view.show_setup(replace(setup, columns=(setup.columns[0], replace(setup.columns[1], budget=11))), "")
    assert second.currentText() == "Tree of 11" and view.setup.columns[1].budget == 11
    view.columns[1].controls.drafter.setCurrentIndex(view.columns[1].controls.drafter.findData("none"))
    assert not second.isEnabled()


def test_what_the_tree_gained_is_said_above_the_columns(qtbot: QtBot, open_compare: Open) -> None:
    _, view, _ = open_compare([story_rounds(gamma=2), [SECOND_CHOICE, *story_rounds()[1:]]], preset="chain-tree")
    run(qtbot, view)
    said = view.difference.words.accessibleDescription()
    assert said.startswith("The tree gave ") and "At 1 position the target took a choice of the tree" in said


def test_every_control_has_a_name_and_is_reached_by_keyboard(qtbot: QtBot, open_compare: Open) -> None:
    window, view, _ = open_compare()
    view.extend()
    run(qtbot, view)
    assert not view.columns[2].controls.isVisible(), "beside an answer the settings fold away"
    qtbot.mouseClick(view.columns[2].unfold, Qt.MouseButton.LeftButton)
    kinds = (QAbstractButton, QComboBox, QAbstractSpinBox, QLineEdit, QPlainTextEdit)
    controls = [widget for kind in kinds for widget in view.findChildren(kind) if widget.isVisible()]
    own = [control for control in controls if not isinstance(control.parent(), QAbstractSpinBox)]
    assert len(own) > 15
    for control in own:
        words = QAccessible.queryAccessibleInterface(control).text(QAccessible.Text.Name)
        assert words, f"{control} {control.objectName()} has no name"
    reached = set()
    widget = view.bar.start
    for _ in range(80):
        reached.add(widget)
        qtbot.keyClick(widget, Qt.Key.Key_Tab)
        focused = QApplication.focusWidget()
        assert focused is not None
        widget = focused  # type: ignore[assignment]
    for needed in (
        view.bar.presets,
        view.bar.prompt,
        view.columns[2].controls.rule,
        view.columns[1].text,
        view.columns[0].remove,
        view.columns[0].unfold,
    ):
        assert needed in reached
    assert window.isVisible()


def test_the_legend_lights_tokens_up_in_every_column(qtbot: QtBot, open_compare: Open) -> None:
    _, view, _ = open_compare()
    run(qtbot, view)
    view.legend.buttons["rejected"].click()
    assert [column.text.highlighted for column in view.columns] == ["rejected"] * len(view.columns)
    block = view.columns[0].text.answer_block(0)
    assert block is not None and block.style.highlighted == "rejected"
    view.set_look(LIGHT, 1.4)
    block = view.columns[0].text.answer_block(0)
    assert block is not None and block.style.highlighted == "rejected", "another look keeps it"
    view.legend.buttons["rejected"].click()
    assert view.columns[0].text.highlighted is None


def test_ghosts_are_shown_and_hidden_in_every_column_and_kept_apart_from_those_of_the_chat(
    qtbot: QtBot, open_compare: Open
) -> None:
    window, view, _ = open_compare()
    run(qtbot, view)
    assert {column.text.ghosts for column in view.columns} == {"none"}, "texts are to be compared here"
    assert "none" in window.status.ghosts.text()
    rejected = view.legend.buttons["rejected"]
    assert "Not shown now" in rejected.accessibleDescription()
    for ghosts in ("above", "rejected", "all"):
        before = [column.text.grab().toImage() for column in view.columns[:2]]
        window.toggle_ghosts()
        for column, was in zip(view.columns[:2], before, strict=False):
            assert column.text.ghosts == ghosts
            assert column.text.grab().toImage() != was
    assert "Not shown now" not in rejected.accessibleDescription()
    assert window.transcript.ghosts == window.settings.ghosts == "above"
    window.toggle_ghosts()
    window.pages.open_conversation()
    assert "above" in window.status.ghosts.text()
    window.toggle_ghosts()
    assert (window.settings.ghosts, window.settings.compare_ghosts) == ("rejected", "none")


def test_another_step_of_ghosts_paints_the_whole_text_anew(qtbot: QtBot, open_compare: Open) -> None:
    """Of a text that had been scrolled, nothing was painted: only what had come since, and nothing had."""
    window, view, _ = open_compare()
    run(qtbot, view)
    text = view.columns[1].text
    text.scroll_into_view(0)
    qtbot.wait(50)

    class Regions(QObject):
        painted = QRegion()

        def eventFilter(self, watched: QObject, event: QEvent) -> bool:
            if isinstance(event, QPaintEvent):
                self.painted = self.painted.united(event.region())
            return False

    regions = Regions()
    text.viewport().installEventFilter(regions)
    for _ in range(3):
        regions.painted = QRegion()
        window.toggle_ghosts()
        qtbot.waitUntil(lambda: regions.painted.boundingRect() == text.viewport().rect())


@pytest.mark.parametrize(("appearance", "preset"), crossed(["dark", "light"], ["rejection-gumbel", "random-number"], together=1))
def test_the_page_is_painted_in_both_themes_and_at_every_text_size(
    qtbot: QtBot, open_compare: Open, appearance: str, preset: str
) -> None:
    window, view, _ = open_compare([other_story(), story_rounds()], preset=preset, appearance=appearance)
    run(qtbot, view)
    for scale in (0.8, 1.8):
        window.chat.preferences.set(text_scale=scale)
        view.refresh()
        picture: QImage = view.grab().toImage()
        colours = {picture.pixelColor(x, y).name() for x in range(0, picture.width(), 7) for y in range(0, picture.height(), 7)}
        assert len(colours) > 5


def test_the_wheel_stops_following_and_the_end_resumes_it(qtbot: QtBot, open_compare: Open) -> None:
    _, view, _ = open_compare([story_rounds(STORY * 12)])
    run(qtbot, view)
    text = view.columns[0].text
    qtbot.keyClick(text, Qt.Key.Key_Home)
    assert text.verticalScrollBar().value() == 0 and not text.following
    qtbot.keyClick(text, Qt.Key.Key_End)
    assert text.following
    assert text.pointing.place_at(QPointF(-10, -10)) is None


def test_the_verdict_on_a_token_is_told_in_every_column(qtbot: QtBot, open_compare: Open) -> None:
    _, view, _ = open_compare()
    run(qtbot, view)
    one, two = view.columns[:2]
    assert "Hover over a token" in one.verdict.text()
    one.cursor_place.point(Place(0, 0, proposal=0))
    for column in (one, two):
        assert "“The”" in column.verdict.text() and "accepted, Draft q 0." in column.verdict.text()
    one.cursor_place.leave()
    assert "Hover over a token" in two.verdict.text()


def test_a_screen_reader_gets_the_text_of_a_column_and_the_token_walked_to(
    qtbot: QtBot, open_compare: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    column_text.install()
    _, view, _ = open_compare()
    run(qtbot, view)
    interface = QAccessible.queryAccessibleInterface(view.columns[1].text)
    assert interface.text(QAccessible.Text.Value) == STORY
    assert interface.text(QAccessible.Text.Name) == "Answer B"
    said: list[str] = []
    monkeypatch.setattr(QAccessible, "isActive", lambda: True)
    monkeypatch.setattr(QAccessible, "updateAccessibility", lambda event: said.append(event.message()))
    qtbot.keyClick(view.columns[1].text, Qt.Key.Key_Right)
    assert said and "The, accepted" in said[-1]


def real_window(qtbot: QtBot, tiny_pair: tuple[str, str]) -> tuple[Window, CompareView]:
    window = Window(Engine(), Settings(target=tiny_pair[0], drafter=tiny_pair[1], seed=3, temperature=0.8))
    qtbot.addWidget(window)
    window.resize(1280, 800)
    window.show()
    window.chat.models.load()
    window.pages.open_compare("with-without")
    assert window.pages.compare is not None
    return window, window.pages.compare


def test_the_real_engine_gives_one_text_with_and_without_a_drafter_and_its_traces_are_exported(
    qtbot: QtBot, home: Path, tiny_pair: tuple[str, str], tmp_path: Path
) -> None:
    window, view = real_window(qtbot, tiny_pair)
    run(qtbot, view)
    relation = view.comparison.relation(1) if view.comparison is not None else None
    assert relation is not None and relation.kind in ("same", "near-tie")
    assert view.comparison is not None
    traces = [read(path) for path in view.comparison.traces]
    assert [trace.missing for trace in traces] == [None, None]
    assert [list(trace.rounds) for trace in traces] == [column.answer.rounds for column in view.comparison.columns]
    view.exporter.write_answers(view.shown, kind_named("json"), tmp_path / "both.json")
    assert view.banner.frame.property("tone") == "note" and view.banner.action.text() == "Show in folder"
    window.chat.preferences.set(appearance="light")
    view.exporter.write_answers(view.shown, kind_named("card-svg"), tmp_path / "both.svg")
    card = (tmp_path / "both.svg").read_text(encoding="utf-8")
    shown = [
        view.difference.words.accessibleDescription(),
    ]
    in_card = "".join(re.findall(r"<text[^>]*>([^<]*)</text>", card))
    for sentence in filter(None, shown):
        assert unescape(in_card).replace(" ", "").find(sentence.replace(" ", "")) >= 0, "the picture says what the page says"
    assert any(shown)
    view.exporter.write_answers(view.shown, kind_named("report"), tmp_path / "both.html")
    report = unescape((tmp_path / "both.html").read_text(encoding="utf-8"))
    assert all(f"<p>{sentence}</p>" in report for sentence in filter(None, shown)), "and so does the report, before all figures"
    assert "A: No drafter" in card and "B: " in card, "all answers are on it"
    assert svg.LIGHT.background in card, "in the colours of the window"
    assert len(json.loads((tmp_path / "both.json").read_text(encoding="utf-8"))["answers"]) == 2
    assert window.settings.export_folder == str(tmp_path)
    with ChatStore() as store:  # as when a limit is set while the comparison is open
        store.import_traces()
        store.traces.retention = Retention(days=0)
        store.tidy(requested=True)
    assert not list(store.traces.folder.iterdir())
    view.exporter.write_answers(view.shown, kind_named("json"), tmp_path / "gone.json")
    assert view.banner.frame.property("tone") == "error"
    assert "cannot be read: No such file" in view.banner.label.text()
    assert not (tmp_path / "gone.json").exists()
    view.show_preset("random-number")
    view.bar.samples.setValue(20)
    run(qtbot, view)
    assert [tally.judged for tally in view.tallies] == [20, 20, 20]
    assert [tally.accepted for tally in view.tallies[1:]] == [20, 20]
    window.close()
    assert window.ended_in_time


def test_closing_the_window_in_the_middle_of_a_comparison_leaves_whole_traces(
    qtbot: QtBot, home: Path, tiny_pair: tuple[str, str]
) -> None:
    window, view = real_window(qtbot, tiny_pair)
    view.bar.longest.setValue(2500)
    qtbot.mouseClick(view.bar.start, Qt.MouseButton.LeftButton)
    assert view.comparison is not None
    qtbot.waitUntil(lambda: all(column.tokens for column in view.comparison.columns))  # type: ignore[union-attr]
    traces = list(view.comparison.traces)
    window.close()
    assert window.ended_in_time
    assert [read(path).missing for path in traces] == [None, None]


def values(view: CompareView) -> list[list[str]]:
    """The figures of each rule in the band: text, acceptance, speed."""
    return [[figure.value.text() for figure in field.figures] for field in view.band.fields]


@pytest.mark.usefixtures("fonts")
@pytest.mark.parametrize("settings", [{}, {"target": "/models/mine.gguf", "drafter": "ngram"}], ids=["built-in", "own target"])
def test_the_demonstration_opens_with_a_recorded_result_where_the_texts_diverge(
    qtbot: QtBot, open_compare: Open, settings: dict[str, Any]
) -> None:
    window, view, engine = open_compare([story_rounds(), story_rounds(), other_story(), story_rounds()], **settings)
    window.pages.open_conversation()
    qtbot.mouseClick(window.column.welcome.demonstrate, Qt.MouseButton.LeftButton)
    assert window.pages.comparing is view and not view.running and not engine.comparisons, "nothing is loaded for it"
    gumbel, rejection = values(view)
    assert (gumbel[0], rejection[0]) == ("Same text", "Different text")
    assert all("accepted" in field[1] and "tokens/s" in field[2] for field in (gumbel, rejection))
    assert re.fullmatch(
        r"of the same proposals: \+\d\.\d points \(95%: \d\.\d to \d\.\d\)", view.band.fields[1].figures[1].caption.text()
    )
    said = view.difference.words.accessibleDescription()
    assert said.startswith("Gumbel kept the text when the drafter changed; Rejection did not.")
    assert "only Gumbel fixes the draw, so that the drafter cannot change the text" in said
    position = None if view.comparison is None else view.comparison.divergence
    assert position is not None
    qtbot.waitUntil(lambda: all(column.cursor_place.pin_place is not None for column in view.columns))
    for column in view.columns:
        (box,) = column.text._boxes(position)
        assert box.top() >= 0 and box.bottom() <= column.text.viewport().height(), "it has been scrolled to"
        assert "Hover" not in column.verdict.text()
    for column in view.columns[2:]:
        rejected = [proposal.text for proposal in column.run.rejected_at(position).values()]  # type: ignore[union-attr]
        block = column.text._block
        assert block is not None and rejected
        assert all(text in block.flow.text_between(0, block.flow.length, keep_ghosts=True) for text in rejected)
        assert all(f"“{text.replace(' ', '·')}”" in unescape(column.verdict.text()) for text in rejected)
    titles = [column.title.text() for column in view.columns]
    assert titles == ["Trained head", "Small draft model"] * 2, "their rule stands above them"
    assert [column.title.accessibleName() for column in view.columns][2] == "Rejection, Trained head"
    assert view.bar.start.text() == "Run it live" and "Recorded with the built-in models" in view.bar.words.text()
    qtbot.mouseClick(view.bar.start, Qt.MouseButton.LeftButton)
    (asked,) = engine.comparisons
    assert {request.target for request in asked.requests} == {window.settings.target}
    assert view.bar.start.text() == "Start" and "Recorded" not in view.bar.words.text()
    hasten(window)
    qtbot.waitUntil(lambda: not view.running)
    half = view.band.fields[0]
    assert half.mapTo(view, half.rect().topRight()).x() == pytest.approx(
        view.columns[1].mapTo(view, QPoint()).x() + view.columns[1].width(), abs=3
    )
    view.show_setup(two_rules(window.settings), "")
    assert not view.band.isVisible()


def test_a_changed_recording_is_no_longer_called_one(qtbot: QtBot, open_compare: Open) -> None:
    _, view, _ = open_compare(preset="rejection-gumbel")
    assert view.bar.start.text() == "Run it live"
    view.columns[0].controls.temperature.setValue(0.5)
    view.columns[0].controls._edited()
    assert view.bar.start.text() == "Start"


def test_without_its_recording_the_demonstration_is_ready_to_start(
    qtbot: QtBot, open_compare: Open, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("app.compare.presets.RECORDED", tmp_path)
    _, view, _ = open_compare(preset="rejection-gumbel")
    assert view.shown is None and view.bar.start.text() == "Start" and view.bar.start.isEnabled()
    assert [value[0] for value in values(view)] == ["–", "–"], "on top from the start there is what will be found"


@pytest.mark.parametrize("raw", [False, True])
def test_raw_completion_is_for_comparisons_too(qtbot: QtBot, open_compare: Open, raw: bool) -> None:
    _, view, engine = open_compare((story_rounds(), story_rounds()), raw=raw, system_prompt="Be brief.")
    run(qtbot, view)
    (asked,) = engine.comparisons
    assert {request.template for request in asked.requests} == {not raw}
    roles = {tuple(message.role for message in request.messages) for request in asked.requests}
    assert roles == {("user",) if raw else ("system", "user")}


THOUGHT = "<think>\nThe user asks for a short story.\nLet me think.\n</think>\n\n"


@pytest.mark.parametrize("marks", [("<think>", "</think>"), ("<|channel>thought", "<channel|>")])
def test_thoughts_are_folded_and_open_where_texts_part_in_them(marks: tuple[str, str], qtbot: QtBot, open_compare: Open) -> None:
    """A line above each answer shows or folds them; equal ones stay folded, a difference in one shows itself."""
    thought = THOUGHT.replace("<think>", marks[0]).replace("</think>", marks[1])
    scripts = [story_rounds(f"{thought}Here is the story.") for _ in range(2)]
    _, view, _ = open_compare(scripts)
    run(qtbot, view)
    for column in view.columns[:2]:
        assert column.run is not None and column.run.answer.folded
        flow = column.text._block.flow
        assert flow.text_between(0, flow.length) == "Here is the story."
        assert column.text.thought.isVisible() and column.text.thought.text().startswith("Thought for")
    first = view.columns[0].text
    qtbot.mouseClick(first.thought, Qt.MouseButton.LeftButton)
    assert "Let me think." in first._block.flow.text_between(0, first._block.flow.length)
    qtbot.mouseClick(first.thought, Qt.MouseButton.LeftButton)
    assert "Let me think." not in first._block.flow.text_between(0, first._block.flow.length)
    assert first.anchor is not None
    first.scroll_into_view(2)
    assert first.run is not None and not first.run.answer.folded, "a token of the thought is to be seen"


def test_a_difference_in_the_thoughts_is_seen(qtbot: QtBot, open_compare: Open) -> None:
    rounds = story_rounds(f"{THOUGHT}Here it is.")
    emitted = (replace(rounds[2].emitted[0], id=9999), *rounds[2].emitted[1:])
    other = [*rounds[:2], replace(rounds[2], emitted=emitted), *rounds[3:]]
    _, view, _ = open_compare([rounds, other])
    run(qtbot, view)
    shown = [column.run.answer.shows_thought for column in view.columns[:2] if column.run is not None]
    assert any(shown)
