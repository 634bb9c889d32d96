"""What a person does with the comparison, and what it shows. The engine plays recorded rounds, one of each column in turn."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import QEvent, QObject, QPoint, QPointF, QRect, QRectF, Qt
from PySide6.QtGui import QAccessible, QColor, QImage, QPaintEvent, QRegion
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractSpinBox,
    QApplication,
    QComboBox,
    QFileDialog,
    QLineEdit,
    QPlainTextEdit,
    QScrollArea,
)
from pytestqt.qtbot import QtBot

from app.compare import column_text
from app.compare.column import CompareColumn, position_of
from app.compare.comparison import ColumnSetup, Comparison, Setup
from app.compare.findings import MISSING
from app.compare.presets import PRESETS
from app.compare.stored import ComparisonRecorder
from app.compare.view import BEFORE_CHANGES, CompareView
from app.conversation.chunks import lines_of
from app.export.kinds import kind_named
from app.look.stylesheet import stylesheet
from app.look.theme import DARK, LIGHT, Theme, body_font
from app.session.chat_keeper import ChatKeeper
from app.session.cursor import Place
from app.session.engine_link import EngineLink
from app.session.settings import Settings
from app.session.token_navigation import place_of
from app.window.window import Window
from engine.chats import ChatStore, Retention
from engine.exports import svg
from engine.rounds.trace import read
from engine.runtime.worker import Engine
from engine.types import Round
from tests.app.driving import type_in, wait_for_answer
from tests.app.fakes import STORY, story_rounds
from tests.app.turns_engine import TurnsEngine
from tests.crossings import crossed
from tests.trees import SECOND_CHOICE

Scripts = Sequence[Sequence[Round]]
OpenView = Callable[..., tuple[CompareView, TurnsEngine]]
Compare = Callable[..., CompareView]
OpenWindow = Callable[..., tuple[Window, CompareView, TurnsEngine]]


def two_rules(settings: Settings) -> Setup:
    """One column under Rejection, one under Gumbel, with one drafter."""
    columns = tuple(ColumnSetup(rule=rule, drafter=settings.drafter) for rule in ("rejection", "gumbel"))
    return Setup("Write a short story.", columns, seed=settings.seed)


@pytest.fixture
def open_view(qtbot: QtBot, home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenView]:
    """Opens comparisons without the rest of the window."""
    monkeypatch.setattr("app.compare.view.REFRESH_SECONDS", 0.005)
    monkeypatch.setattr("app.session.engine_link.BUSY_MS", 5)
    opened: list[tuple[CompareView, EngineLink]] = []

    def open_(scripts: Scripts = (), preset: str | None = None, **changes: Any) -> tuple[CompareView, TurnsEngine]:
        QApplication.setFont(body_font(1.0))  # as the window does
        engine, settings = TurnsEngine(scripts), Settings(**{"drafter": "builtin-draft", **changes})
        link = EngineLink(engine)
        view = CompareView(link, lambda: settings, ComparisonRecorder(ChatKeeper(None), lambda _: None))
        qtbot.addWidget(view)
        opened.append((view, link))
        dress(view, DARK, 1.0)
        view.set_ghosts(settings.compare_ghosts)
        view.resize(1280, 770)
        view.show()
        qtbot.waitExposed(view)
        if preset is None:
            view.show_setup(two_rules(settings), "")
        else:
            view.show_preset(preset)
        return view, engine

    yield open_
    for view, link in opened:
        view.close_down()
        link.close()


@pytest.fixture
def compare(qtbot: QtBot, open_view: OpenView) -> Compare:
    """Opens comparisons as `open_view` does, and runs them to their end."""

    def compared(*arguments: Any, **more: Any) -> CompareView:
        view, engine = open_view(*arguments, **more)
        run(qtbot, view, engine)
        return view

    return compared


def dress(view: CompareView, theme: Theme, scale: float) -> None:
    """Does what the window does to show a theme at a text size."""
    view.setStyleSheet(stylesheet(theme, scale))
    view.set_look(theme, scale)


@pytest.fixture
def open_window(qtbot: QtBot, show_window: Callable[..., Window], monkeypatch: pytest.MonkeyPatch) -> OpenWindow:
    """Opens whole windows on the comparison."""
    monkeypatch.setattr("app.compare.view.REFRESH_SECONDS", 0.005)

    def open_(scripts: Scripts = (), preset: str | None = None, asked: str = "", **settings: Any) -> Any:
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

    return open_


def run(qtbot: QtBot, view: CompareView, engine: TurnsEngine | None = None) -> None:
    """Starts what is set up and waits for its end."""
    qtbot.mouseClick(view.bar.start, Qt.MouseButton.LeftButton)
    assert view.comparison is not None or view.tallies, "it may have ended already where the machine is slow"
    if engine is not None:
        engine.hurry()
    finish(qtbot, view)


def finish(qtbot: QtBot, view: CompareView) -> None:
    qtbot.waitUntil(lambda: not view.running)
    view.refresh()
    QApplication.processEvents()


def start_and_pause(qtbot: QtBot, view: CompareView, engine: TurnsEngine, rounds: int) -> None:
    """Starts what is set up; every column has this many rounds."""
    engine.pause_after = rounds
    qtbot.mouseClick(view.bar.start, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: all(column.answer.tally.rounds == rounds for column in comparison_of(view).columns))
    view.refresh()
    QApplication.processEvents()


def go_on(qtbot: QtBot, view: CompareView, engine: TurnsEngine) -> None:
    engine.pause_after = None
    finish(qtbot, view)


def comparison_of(view: CompareView) -> Comparison:
    assert view.comparison is not None
    return view.comparison


def columns_of(view: CompareView) -> list[CompareColumn]:
    return [column for column in view.columns if column.isVisible()]


def said(view: CompareView) -> str:
    """The words above the columns."""
    return view.difference.words.accessibleDescription()


def relation(column: CompareColumn) -> str:
    return column.relation.text()


def box_of(column: CompareColumn, position: int) -> QRectF:
    """Where the token at a position of the answer is painted."""
    assert column.run is not None
    return column.text.pointing.boxes(place_of(0, column.run.spots[position]))[0]


def text_of(column: CompareColumn, ghosts: bool = False) -> str:
    """The text that is laid out, without what is folded away."""
    block = column.text.answer_block(0)
    assert block is not None
    return block.flow.text_between(0, block.flow.length, keep_ghosts=ghosts)


def set_drafter(column: CompareColumn, name: str) -> None:
    column.controls.drafter.setCurrentIndex(column.controls.drafter.findData(name))


def other_story(at: int = 3) -> list[Round]:
    """The recorded answer, with another token from one round on."""
    rounds = story_rounds()
    changed = rounds[at]
    last = replace(changed.emitted[-1], id=77, text=" ship", bytes=b" ship", margin=None)
    text = "".join(token.text for token in changed.emitted[:-1]) + " ship"
    rounds[at] = replace(changed, emitted=(*changed.emitted[:-1], last), text=text)
    return rounds


# The page in the window.


def test_the_header_button_and_the_key_open_the_comparison_and_lead_back(qtbot: QtBot, open_window: OpenWindow) -> None:
    window, view, _ = open_window()
    assert view.isVisible() and not window.header.isVisible()
    qtbot.mouseClick(view.bar.close_button, Qt.MouseButton.LeftButton)
    assert window.header.isVisible() and window.composer.edit.hasFocus()
    qtbot.mouseClick(window.header.compare, Qt.MouseButton.LeftButton)
    assert view.isVisible() and view.bar.start.hasFocus()
    window.actions_by_id["compareAction"].trigger()
    assert not view.isVisible()


def test_the_newest_prompt_of_the_chat_is_compared(qtbot: QtBot, open_window: OpenWindow) -> None:
    _, view, engine = open_window(preset="", asked="Why is the sky blue?")
    assert view.bar.prompt.toPlainText() == "Why is the sky blue?"
    run(qtbot, view, engine)
    assert engine.comparisons[0].requests[1].messages[-1].content == "Why is the sky blue?"


def test_a_preset_has_its_own_prompt_and_its_recorded_result_is_about_that(open_view: OpenView) -> None:
    view, _ = open_view(preset="with-without")
    assert "lighthouse" in view.bar.prompt.toPlainText()
    view.show_preset("rejection-gumbel")
    view.show_prompt("Why is the sky blue?")
    assert view.shown is None and view.bar.start.text() == "Start"


def test_every_preset_opens_from_the_menu_and_runs(qtbot: QtBot, open_window: OpenWindow) -> None:
    window, view, engine = open_window()
    for number, preset in enumerate(PRESETS, start=1):
        name = "compare" + "".join(part.capitalize() for part in preset.id.split("-")) + "Action"
        window.actions_by_id[name].trigger()
        about = preset.about(view.setup, Settings() if preset.recorded else window.settings)
        assert preset.words in about and view.bar.words.text().endswith(about)
        assert view.bar.words.text() == about or preset.recorded
        run(qtbot, view, engine)
        assert len(engine.comparisons) + len(engine.samplings) == number, preset.id


def test_stop_ends_every_column_and_keeps_what_is_there(qtbot: QtBot, open_window: OpenWindow) -> None:
    window, view, engine = open_window()
    start_and_pause(qtbot, view, engine, 2)
    stop = window.actions_by_id["stopAction"]
    assert stop.isEnabled() and window.status.line.text().startswith("Comparing 2 answers")
    stop.trigger()
    finish(qtbot, view)
    assert engine.stopped == [engine.runs[0], engine.runs[1]]
    assert all(", stopped" in column.figures.accessibleDescription() for column in view.columns[:2])
    assert not stop.isEnabled() and window.status.line.text() == "Comparison done"


def test_a_comparison_goes_on_behind_the_chat_and_is_up_to_date_when_it_is_opened_again(
    qtbot: QtBot, open_window: OpenWindow
) -> None:
    window, view, engine = open_window()
    engine.pause_after = 1
    qtbot.mouseClick(view.bar.start, Qt.MouseButton.LeftButton)
    window.pages.open_conversation()
    engine.pause_after = None
    qtbot.waitUntil(lambda: not view.running)
    window.pages.open_compare()
    assert view.columns[0].text.plain_text() == STORY
    assert "tokens/s" in view.columns[0].figures.text()
    assert window.session.turns == [], "no answer of the comparison is taken for one of the chat"


def test_ghosts_are_kept_apart_from_those_of_the_chat(qtbot: QtBot, open_window: OpenWindow) -> None:
    window, view, engine = open_window()
    run(qtbot, view, engine)
    assert {column.text.ghosts for column in view.columns} == {"none"}, "texts are to be compared here"
    assert "none" in window.status.ghosts.text()
    for ghosts in ("above", "rejected", "all"):
        before = [column.text.grab().toImage() for column in view.columns[:2]]
        window.toggle_ghosts()
        assert [column.text.ghosts for column in view.columns[:2]] == [ghosts] * 2
        assert all(column.text.grab().toImage() != was for column, was in zip(view.columns, before, strict=False))
    assert window.transcript.ghosts == window.settings.ghosts == "above"
    window.toggle_ghosts()
    window.pages.open_conversation()
    assert "above" in window.status.ghosts.text()
    window.toggle_ghosts()
    assert (window.settings.ghosts, window.settings.compare_ghosts) == ("rejected", "none")


# What is found.


def test_two_answers_stream_side_by_side_and_the_first_difference_is_marked_and_explained(
    qtbot: QtBot, open_view: OpenView
) -> None:
    view, engine = open_view([other_story(), story_rounds()])
    start_and_pause(qtbot, view, engine, 2)
    assert relation(view.columns[1]).startswith("Same text as A so far")
    assert view.bar.stop.isVisible() and not view.bar.start.isVisible()
    go_on(qtbot, view, engine)
    asked = engine.comparisons[0].requests
    assert [request.options.rule for request in asked] == ["rejection", "gumbel"]
    assert len({request.options.seed for request in asked}) == 1 and asked[0].options.seed is not None
    assert str(asked[0].options.seed) in view.bar.seed.toolTip()
    position = sum(len(round_.emitted) for round_ in story_rounds()[:4]) - 1
    assert comparison_of(view).divergence == position
    assert f"token {position + 1}:  A “ ship”,  B “ years” (margin 0.2)." in said(view)
    assert f"from token {position + 1} on. Expected: Rejection" in relation(view.columns[1])
    assert view.columns[1].text.plain_text() == STORY
    for column in view.columns[:2]:
        figures = column.figures.accessibleDescription()
        assert "tokens/s" in figures and "expected acceptance" in figures
        assert "alpha" not in figures, "measured on different texts, alphas do not tell which rule accepts more"


def test_a_comparison_without_a_seed_draws_one_each_time(qtbot: QtBot, open_view: OpenView) -> None:
    view, engine = open_view()
    run(qtbot, view, engine)
    run(qtbot, view, engine)
    first, second = (comparison.requests[0].options.seed for comparison in engine.comparisons)
    assert first != second


def tops(view: CompareView) -> list[int]:
    """Where the columns and what is above them stand."""
    area = view.findChild(QScrollArea)
    return [area.y(), view.band.y(), view.legend.y(), view.difference.height()]


@pytest.mark.usefixtures("fonts")
@pytest.mark.parametrize("size", [(1280, 770), pytest.param((2560, 1410), marks=pytest.mark.full), (900, 670)])
def test_the_closing_words_have_their_place_from_the_start(qtbot: QtBot, open_view: OpenView, size: tuple[int, int]) -> None:
    scripts = [story_rounds(), story_rounds(gamma=2), other_story(), story_rounds(gamma=2)]
    view, engine = open_view(scripts, preset="rejection-gumbel")
    view.resize(*size)
    start_and_pause(qtbot, view, engine, 1)
    assert "only Gumbel fixes the draw" in said(view) and not view.difference.go.isVisible()
    assert "kept the text" not in said(view)
    before = tops(view)
    go_on(qtbot, view, engine)
    assert "kept the text" in said(view) and view.difference.go.isVisible()
    assert tops(view) == before
    assert view.difference.words.height() >= view.difference.words.heightForWidth(view.difference.words.width())


def test_the_first_difference_moves_nothing_either(qtbot: QtBot, open_view: OpenView) -> None:
    view, engine = open_view([other_story(), story_rounds()])
    start_and_pause(qtbot, view, engine, 2)
    assert said(view) == "No difference so far."
    before = tops(view)
    go_on(qtbot, view, engine)
    assert said(view).startswith("First difference at token") and tops(view) == before


def test_there_is_no_difference_to_go_to_where_no_texts_have_parted(compare: Compare) -> None:
    view = compare([story_rounds(), story_rounds(gamma=2)] * 2, preset="rejection-gumbel")
    assert "Rejection happened to keep it" in said(view) and not view.difference.go.isVisible()


def test_another_seed_is_not_said_to_be_chosen(qtbot: QtBot, open_view: OpenView) -> None:
    view, _ = open_view(preset="rejection-gumbel")
    assert "This seed was chosen" in view.bar.words.text()
    view.bar.seed.setFocus()
    view.bar.seed.selectAll()
    qtbot.keyClicks(view.bar.seed, "12")
    assert "two drafters under each rule" in view.bar.words.text() and "chosen" not in view.bar.words.text()
    view.columns[0].controls.rule.setCurrentIndex(view.columns[0].controls.rule.findData("match"))
    assert "two drafters" not in view.bar.words.text()


@pytest.mark.parametrize(
    ("scripts", "kind", "words"),
    [
        ([story_rounds()], "same", "Same text as A: {0} of {0} tokens."),
        ([story_rounds(), other_story()], "unexpected", "Unexpected"),
    ],
    ids=["equal", "a broken promise is loud"],
)
def test_the_invariance_badge_counts_equal_tokens(compare: Compare, scripts: Scripts, kind: str, words: str) -> None:
    view = compare(scripts, preset="with-without")
    tokens = sum(len(round_.emitted) for round_ in story_rounds())
    assert words.format(tokens) in relation(view.columns[1]) and view.columns[1].relation.property("kind") == kind
    assert "plain" in view.columns[1].figures.accessibleDescription(), "the first column is the plain run of the second"
    assert (said(view) == "The texts are the same.") == (kind == "same") == (not view.difference.go.isVisible())


def test_what_the_tree_gained_is_said_above_the_columns(compare: Compare) -> None:
    view = compare([story_rounds(gamma=2), [SECOND_CHOICE, *story_rounds()[1:]]], preset="chain-tree")
    assert said(view).startswith("The tree gave ") and "At 1 position the target took a choice of the tree" in said(view)


def test_what_was_found_before_a_change_of_the_settings_says_so(qtbot: QtBot, open_view: OpenView) -> None:
    view, engine = open_view([other_story(), story_rounds()])
    assert not view.outdated
    run(qtbot, view, engine)
    found, prompt = said(view), view.bar.prompt.toPlainText()
    assert not view.outdated and view.status_words == "Comparison done"
    view.bar.prompt.setPlainText("Another prompt")
    assert view.outdated and BEFORE_CHANGES in said(view) and view.status_words.startswith("Changed since")
    view.bar.prompt.setPlainText(prompt)
    assert not view.outdated and said(view) == found


def test_one_failure_is_told_in_its_column_and_the_others_go_on(qtbot: QtBot, open_view: OpenView) -> None:
    view, engine = open_view(preset="with-without")
    engine.failing = {0}
    run(qtbot, view, engine)
    assert "Choose another" in view.columns[0].text.words
    assert said(view) == MISSING and "error" in view.status_words
    assert view.columns[1].text.plain_text() == STORY


# What is seen whole.


@pytest.mark.usefixtures("fonts")
def test_no_line_is_cut_at_the_lower_edge_of_a_text(compare: Compare) -> None:
    view = compare([story_rounds(STORY * 6)] * 2)
    text = view.columns[0].text
    bar, block = text.verticalScrollBar(), text.answer_block(0)
    assert block is not None
    height, background = text.viewport().height(), QColor(text.theme.background).name()
    lines = [
        QRectF(0, block.top + block.origin.y() + chunk.top + line.y(), 1, line.height())
        for chunk in block.flow.chunks
        for line in lines_of(chunk)
    ]

    def painted(picture: QImage, top: float, bottom: float) -> bool:
        """Whether there is text between two heights."""
        rows = range(max(0, round(top)), min(picture.height(), round(bottom)))
        return any(picture.pixelColor(x, y).name() != background for x in range(30, 200) for y in rows)

    cut = 0
    for value in range(bar.maximum() // 2, bar.maximum() // 2 + 40, 3):
        bar.setValue(value)
        picture = text.viewport().grab().toImage()
        at_edge = [line.translated(0, -value) for line in lines if line.top() - value < height]
        last = at_edge[-1]
        if last.bottom() > height:
            cut += 1
            assert not painted(picture, last.top() + 1, height) and painted(picture, at_edge[-2].top(), at_edge[-2].bottom())
    assert cut > 5
    bar.setValue(bar.maximum())
    assert painted(text.viewport().grab().toImage(), lines[-1].top() - bar.maximum(), lines[-1].bottom() - bar.maximum())


@pytest.mark.usefixtures("fonts")
def test_a_text_that_has_room_does_not_scroll(compare: Compare) -> None:
    view = compare()
    text = view.columns[0].text
    block = text.answer_block(0)
    assert block is not None
    view.resize(1280, 770 - text.viewport().height() + round(block.flow.height) + 30)
    QApplication.processEvents()
    assert text.verticalScrollBar().maximum() == 0


@pytest.mark.usefixtures("fonts")
@pytest.mark.parametrize("columns", [2, 4])
def test_a_verdict_ends_with_a_whole_line(qtbot: QtBot, open_view: OpenView, columns: int) -> None:
    rounds = story_rounds()
    long = replace(rounds[1].proposals[0], text=" pneumonoultramicroscopic" * 8, bytes=b"")
    rounds[1] = replace(rounds[1], proposals=(long, *rounds[1].proposals[1:]))
    view, engine = open_view([rounds] * 4)
    for _ in range(columns - 2):
        view.extend()
    run(qtbot, view, engine)
    column = view.columns[0]
    for place in (Place(0, 1, 0), Place(0, 2, 0), Place(0, 4, None, len(rounds[4].emitted) - 1)):
        column.cursor_place.point(place)
        label = column.verdict
        assert label.heightForWidth(label.width()) <= label.height(), label.text()
        assert label.toolTip(), "what has no room is there"
    column.cursor_place.point(Place(0, 1, 0))
    assert "…" in column.verdict.text()


@pytest.mark.usefixtures("fonts")
def test_a_prompt_shows_whole_lines(open_view: OpenView) -> None:
    view, _ = open_view(preset="three-times")
    field = view.bar.prompt
    assert field.blockCount() > 2
    blocks = [field.document().findBlockByNumber(number) for number in range(3)]
    second, third = (field.blockBoundingGeometry(block).translated(field.contentOffset()) for block in blocks[1:])
    assert second.bottom() <= field.viewport().height() + 1 and third.top() >= field.viewport().height() - 4


@pytest.mark.usefixtures("fonts")
def test_the_four_rules_and_their_times_are_seen_whole_on_a_small_screen(qtbot: QtBot, open_view: OpenView) -> None:
    view, engine = open_view([story_rounds(), story_rounds(), other_story(), other_story()], preset="four-rules")
    view.resize(1278, 645)  # 1280 x 720 without a title, a frame and the status line
    run(qtbot, view, engine)
    assert relation(view.columns[2]).startswith("Differs from A")
    figures = [column.figures.accessibleDescription() for column in view.columns]
    assert all("% expected acceptance" in each for each in figures[:3]) and "no expected acceptance" in figures[3]
    assert view.findChild(QScrollArea).verticalScrollBar().maximum() == 0, "nothing has to be scrolled"


def test_samples_stand_at_one_height_after_a_comparison_of_texts(qtbot: QtBot, open_view: OpenView) -> None:
    view, engine = open_view([story_rounds()] * 4, preset="rejection-gumbel")
    run(qtbot, view, engine)
    view.show_preset("random-number")
    run(qtbot, view, engine)
    assert len({column.body.y() for column in view.columns[:3]}) == 1
    assert view.columns[0].figures.minimumHeight() <= view.columns[0].figures.fontMetrics().height() + 4


@pytest.mark.parametrize(("theme", "preset"), crossed([DARK, LIGHT], ["rejection-gumbel", "random-number"], together=1))
def test_the_page_is_painted_in_both_themes_and_at_every_text_size(compare: Compare, theme: Theme, preset: str) -> None:
    view = compare([other_story(), story_rounds()], preset=preset)
    for scale in (0.8, 1.8):
        dress(view, theme, scale)
        view.refresh()
        picture: QImage = view.grab().toImage()
        colours = {picture.pixelColor(x, y).name() for x in range(0, picture.width(), 7) for y in range(0, picture.height(), 7)}
        assert len(colours) > 5


# Pointing and scrolling.


def test_pointing_in_one_column_points_at_the_same_position_in_the_others(qtbot: QtBot, compare: Compare) -> None:
    view = compare([story_rounds(gamma=2), story_rounds(gamma=4)])
    first, second = view.columns[:2]
    assert first.run is not None and second.run is not None
    assert first.run.spots[9].round != second.run.spots[9].round, "the same token came in another round"
    at = box_of(first, 9).center().toPoint()
    qtbot.mouseMove(first.text.viewport(), at)
    place = second.cursor_place.place
    assert place is not None and position_of(second, place) == 9
    qtbot.mouseClick(first.text.viewport(), Qt.MouseButton.LeftButton, pos=at)
    assert second.cursor_place.pin_place == place
    qtbot.keyClick(first.text, Qt.Key.Key_Right)
    walked = second.cursor_place.place
    assert walked is not None and walked != place
    first.cursor_place.forget()
    assert second.cursor_place.place is None


def test_pointing_at_a_bar_of_the_strip_points_at_its_first_token_everywhere(qtbot: QtBot, compare: Compare) -> None:
    view = compare()
    strip = view.columns[0].strip
    places = [strip.round_at(x) for x in range(strip.width())]
    qtbot.mouseMove(strip, QPoint(places.index(4) + 2, 20))
    assert view.columns[0].cursor_place.place == Place(0, 4)
    place = view.columns[1].cursor_place.place
    assert place is not None and place.round == 4
    assert strip.round_at(-5) is None
    edge = places.index(0)
    assert places[edge + 3] == 0 and edge < 12, "beside its left edge there is the first round"


def test_the_verdict_on_a_token_is_told_in_every_column(compare: Compare) -> None:
    view = compare()
    one, two = view.columns[:2]
    assert "Hover over a token" in one.verdict.text()
    one.cursor_place.point(Place(0, 0, proposal=0))
    for column in (one, two):
        assert "“The”" in column.verdict.text() and "accepted, Draft q 0." in column.verdict.text()
    one.cursor_place.leave()
    assert "Hover over a token" in two.verdict.text()


def test_scrolling_one_column_brings_the_others_to_the_same_position(compare: Compare) -> None:
    view = compare([story_rounds(STORY * 12, gamma=2), story_rounds(STORY * 12, gamma=5)])
    one, two = view.columns[0].text, view.columns[1].text
    bar = one.verticalScrollBar()
    assert one.following and bar.value() == bar.maximum() > 0
    bar.setValue(bar.maximum() // 2)
    assert one.anchor is not None
    box = box_of(view.columns[1], one.anchor[0])
    assert abs(box.top()) <= 2 * box.height(), "the same line of the answer stands at the upper edge"
    assert not one.following and not two.following


def test_the_first_difference_is_brought_into_sight_in_every_column(qtbot: QtBot, compare: Compare) -> None:
    long = story_rounds(STORY * 12)
    view = compare([long, [*other_story()[:-1], *long[len(other_story()) - 1 :]]])
    assert view.columns[0].text.verticalScrollBar().value() > 0
    qtbot.mouseClick(view.difference.go, Qt.MouseButton.LeftButton)
    position = comparison_of(view).divergence
    assert position is not None
    for column in view.columns[:2]:
        assert column.text.viewport().rect().contains(box_of(column, position).center().toPoint())
        assert column.cursor_place.pin_place is not None


def test_the_wheel_stops_following_and_the_end_resumes_it(qtbot: QtBot, compare: Compare) -> None:
    view = compare([story_rounds(STORY * 12)])
    text = view.columns[0].text
    qtbot.keyClick(text, Qt.Key.Key_Home)
    assert text.verticalScrollBar().value() == 0 and not text.following
    qtbot.keyClick(text, Qt.Key.Key_End)
    assert text.following
    assert text.pointing.place_at(QPointF(-10, -10)) is None


def test_the_legend_lights_tokens_up_in_every_column(compare: Compare) -> None:
    view = compare()
    rejected = view.legend.buttons["rejected"]
    assert "Not shown now" in rejected.accessibleDescription()
    view.set_ghosts("all")
    assert "Not shown now" not in rejected.accessibleDescription()
    rejected.click()
    assert [column.text.highlighted for column in view.columns] == ["rejected"] * len(view.columns)
    for scale in (1.0, 1.4):
        dress(view, LIGHT, scale)
        block = view.columns[0].text.answer_block(0)
        assert block is not None and block.style.highlighted == "rejected", "another look keeps it"
    rejected.click()
    assert view.columns[0].text.highlighted is None


def test_another_step_of_ghosts_paints_the_whole_text_anew(qtbot: QtBot, compare: Compare) -> None:
    """Of a text that had been scrolled, nothing was painted: only what had come since, and nothing had."""
    view = compare()
    text = view.columns[1].text
    text.scroll_into_view(0)
    QApplication.processEvents()

    class Regions(QObject):
        painted = QRegion()

        def eventFilter(self, watched: QObject, event: QEvent) -> bool:
            if isinstance(event, QPaintEvent):
                self.painted = self.painted.united(event.region())
            return False

    regions = Regions()
    text.viewport().installEventFilter(regions)
    for ghosts in ("above", "rejected", "all"):
        regions.painted = QRegion()
        view.set_ghosts(ghosts)
        qtbot.waitUntil(lambda: regions.painted.boundingRect() == text.viewport().rect())


def test_a_screen_reader_gets_the_text_of_a_column_and_the_token_walked_to(
    qtbot: QtBot, compare: Compare, monkeypatch: pytest.MonkeyPatch
) -> None:
    column_text.install()
    view = compare()
    interface = QAccessible.queryAccessibleInterface(view.columns[1].text)
    assert interface.text(QAccessible.Text.Value) == STORY
    assert interface.text(QAccessible.Text.Name) == "Answer B"
    spoken: list[str] = []
    monkeypatch.setattr(QAccessible, "isActive", lambda: True)
    monkeypatch.setattr(QAccessible, "updateAccessibility", lambda event: spoken.append(event.message()))
    qtbot.keyClick(view.columns[1].text, Qt.Key.Key_Right)
    assert spoken and "The, accepted" in spoken[-1]


# Controls.


def test_numbers_of_a_comparison_are_typed_too(qtbot: QtBot, open_view: OpenView) -> None:
    view, engine = open_view()
    bar, column = view.bar, view.columns[0].controls
    for field, text, value in (
        (column.temperature, "1,15", 1.15),
        (column.gamma, "11", 11),
        (bar.longest, "300", 300),
        (bar.samples, "12", 12),
        (bar.samples, "off", "off"),
        (bar.seed, "123", 123),
    ):
        type_in(qtbot, field, text, Qt.Key.Key_Tab)
        assert field.setting == value and not field.reason, text
    for field, text in ((bar.seed, "-4"), (column.gamma, "999"), (bar.samples, "10001"), (bar.longest, "0")):
        type_in(qtbot, field, text)
        assert field.allowed.short in field.reason and field.text() == text
        qtbot.keyClick(field, Qt.Key.Key_Escape)
    run(qtbot, view, engine)
    asked = engine.comparisons[0].requests[0].options
    assert (asked.temperature, asked.gamma, asked.max_tokens, asked.seed) == (1.15, 11, 300, 123)


def test_a_key_that_starts_takes_the_number_being_typed(qtbot: QtBot, open_window: OpenWindow) -> None:
    _, view, engine = open_window()
    temperature = view.columns[0].controls.temperature
    type_in(qtbot, temperature, "0.95", None)
    qtbot.keyClick(temperature, Qt.Key.Key_Return, Qt.KeyboardModifier.ControlModifier)
    assert engine.comparisons[0].requests[0].options.temperature == 0.95
    qtbot.waitUntil(lambda: not view.running)


def test_settings_of_a_column_are_edited_before_the_start_and_locked_while_running(qtbot: QtBot, open_view: OpenView) -> None:
    view, engine = open_view()
    column = view.columns[0]
    controls = column.controls
    controls.gamma.setValue(5)
    controls.temperature.setValue(0.3)
    set_drafter(column, "ngram")
    assert column.title.toolTip() == column.title.text() == "Rejection, N-gram"
    view.bar.seed.lineEdit().setText("99")
    view.bar.longest.setValue(17)
    engine.hold = True
    qtbot.mouseClick(view.bar.start, Qt.MouseButton.LeftButton)
    asked = engine.comparisons[0].requests[0]
    assert (asked.drafter, asked.options.gamma, asked.options.temperature) == ("ngram", 5, 0.3)
    assert (asked.options.seed, asked.options.max_tokens) == (99, 17)
    assert not controls.isEnabled() and not view.bar.prompt.isEnabled() and not view.bar.presets.isEnabled()
    engine.hold = False
    finish(qtbot, view)
    assert controls.isEnabled()
    set_drafter(column, "none")
    assert not controls.rule.isEnabled() and not controls.gamma.isEnabled(), "nothing is judged without a drafter"
    assert not controls.tree.isEnabled()
    assert column.title.toolTip() == "Rejection, N-gram", "the title is that of the text below it"


def test_columns_are_added_up_to_four_and_removed_down_to_two(qtbot: QtBot, open_view: OpenView) -> None:
    view, engine = open_view()
    for _ in range(3):
        view.extend()
    assert [column.controls.setup.rule for column in columns_of(view)] == ["rejection", "gumbel", "match", "block"]
    assert not view.bar.add.isEnabled()
    run(qtbot, view, engine)
    assert len(engine.comparisons[0].requests) == 4
    qtbot.mouseClick(view.columns[1].remove, Qt.MouseButton.LeftButton)
    assert [column.controls.setup.rule for column in columns_of(view)] == ["rejection", "match", "block"]
    view.remove(0)
    assert len(columns_of(view)) == 2 and not view.columns[0].remove.isVisible()


def test_prompts_of_their_own_stand_in_their_columns(qtbot: QtBot, open_view: OpenView) -> None:
    view, engine = open_view(preset="story-code")
    assert not view.bar.prompt.isVisible()
    assert all(column.controls.prompt.isVisible() for column in view.columns[:2])
    run(qtbot, view, engine)
    assert len({request.messages[-1].content for request in engine.comparisons[0].requests}) == 2
    assert not view.difference.isVisible() and not view.columns[1].relation.isVisible()
    view.columns[0].controls.prompt.setPlainText(" ")
    assert not view.bar.start.isEnabled()


def test_columns_may_differ_in_the_budget_of_their_trees(qtbot: QtBot, open_view: OpenView) -> None:
    view, engine = open_view(preset="chain-tree")
    first, second = (column.controls.tree for column in view.columns[:2])
    assert (first.currentText(), second.currentText()) == ("Chain", "Tree of 8")
    second.setCurrentText("Tree of 16")
    assert [column.title.accessibleName() for column in view.columns[:2]] == [
        "Gumbel, Small draft model, chain",
        "Gumbel, Small draft model, tree of 16",
    ]
    run(qtbot, view, engine)
    assert [request.options.budget for request in engine.comparisons[0].requests] == [None, 16]
    setup = view.setup
    view.show_setup(replace(setup, columns=(setup.columns[0], replace(setup.columns[1], budget=11))), "")
    assert second.currentText() == "Tree of 11" and view.setup.columns[1].budget == 11


@pytest.mark.parametrize("raw", [False, True])
def test_raw_completion_is_for_comparisons_too(qtbot: QtBot, open_view: OpenView, raw: bool) -> None:
    view, engine = open_view(raw=raw, system_prompt="Be brief.")
    run(qtbot, view, engine)
    (asked,) = engine.comparisons
    assert {request.template for request in asked.requests} == {not raw}
    roles = {tuple(message.role for message in request.messages) for request in asked.requests}
    assert roles == {("user",) if raw else ("system", "user")}


def test_every_control_has_a_name_and_is_reached_by_keyboard(qtbot: QtBot, open_view: OpenView) -> None:
    view, engine = open_view()
    view.extend()
    run(qtbot, view, engine)
    assert not view.columns[2].controls.isVisible(), "beside an answer the settings fold away"
    qtbot.mouseClick(view.columns[2].unfold, Qt.MouseButton.LeftButton)
    kinds = (QAbstractButton, QComboBox, QAbstractSpinBox, QLineEdit, QPlainTextEdit)
    controls = [widget for kind in kinds for widget in view.findChildren(kind) if widget.isVisible()]
    own = [control for control in controls if not isinstance(control.parent(), QAbstractSpinBox)]
    assert len(own) > 15
    for control in own:
        words = QAccessible.queryAccessibleInterface(control).text(QAccessible.Text.Name)
        assert words, f"{control} {control.objectName()} has no name"
    view.bar.start.setFocus()
    reached, widget = set(), view.bar.start
    while widget not in reached:
        reached.add(widget)
        qtbot.keyClick(widget, Qt.Key.Key_Tab)
        focused = QApplication.focusWidget()
        assert focused is not None
        widget = focused  # type: ignore[assignment]
    rule = view.columns[2].controls.rule
    assert {view.bar.presets, view.bar.prompt, rule, view.columns[1].text, view.columns[0].remove} <= reached
    assert view.columns[0].unfold in reached


# Samples.


def test_the_random_number_is_drawn_many_times_and_counted_beside_the_closed_form(qtbot: QtBot, open_view: OpenView) -> None:
    view, engine = open_view(preset="random-number")
    run(qtbot, view, engine)
    (asked,) = engine.samplings
    assert [request.options.rule for request in asked.requests] == ["match", "gumbel", "rejection"]
    assert {request.drafter for request in asked.requests} == {"builtin"}, "the target drafts for itself"
    assert not asked.requests[0].template
    assert [len(tally.samples) for tally in view.tallies] == [200, 200, 200]
    match, gumbel, rejection = view.tallies
    assert match.share == pytest.approx(1 / 3, abs=0.01) and match.expected == pytest.approx(1 / 3)
    assert gumbel.share == rejection.share == 1.0
    words = view.columns[0].chart.accessibleDescription()
    assert "67 of 200 samples" in words and "Theory predicts 0.333." in words and "1: 20, 2: 20" in words
    assert not view.columns[0].strip.isVisible()
    view.show_preset("rejection-gumbel")
    assert view.columns[0].strip.isVisible() and view.tallies == []


def test_sampling_can_be_stopped_and_keeps_what_was_counted(qtbot: QtBot, open_view: OpenView) -> None:
    view, engine = open_view(preset="random-number")
    engine.pause_samples = 9
    qtbot.mouseClick(view.bar.start, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: view.tallies[2].judged == 3)
    qtbot.mouseClick(view.bar.stop, Qt.MouseButton.LeftButton)
    finish(qtbot, view)
    assert "3 of 200 samples" in view.columns[0].figures.accessibleDescription()
    assert view.bar.start.hasFocus(), "the button that has disappeared had it"


@pytest.mark.parametrize("writable", [True, False])
def test_samples_are_exported_in_two_clicks(
    qtbot: QtBot, open_view: OpenView, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writable: bool
) -> None:
    view, engine = open_view(preset="random-number")
    assert not view.bar.export.isEnabled()
    run(qtbot, view, engine)
    (tmp_path / "file").write_text("")
    path = tmp_path / ("samples.json" if writable else "file/samples.json")
    monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *_, **__: (str(path), "JSON (*.json)"))
    qtbot.mouseClick(view.bar.export, Qt.MouseButton.LeftButton)
    assert view.banner.isVisible() and view.banner.frame.property("tone") == ("note" if writable else "error")
    if writable:
        assert json.loads(path.read_text(encoding="utf-8"))["settings"][1]["samples"] == 200
        assert str(path) in view.banner.label.text()


# The real engine.


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
    view.bar.longest.setValue(24)
    run(qtbot, view)
    comparison = comparison_of(view)
    found = comparison.relation(1)
    assert found is not None and found.kind in ("same", "near-tie")
    traces = [read(path) for path in comparison.traces]
    assert [trace.missing for trace in traces] == [None, None]
    assert [list(trace.rounds) for trace in traces] == [column.answer.rounds for column in comparison.columns]

    def export(kind: str, name: str) -> str:
        view.exporter.write_answers(comparison, kind_named(kind), tmp_path / name)
        return unescape((tmp_path / name).read_text(encoding="utf-8")) if (tmp_path / name).exists() else ""

    assert len(json.loads(export("json", "both.json"))["answers"]) == 2
    assert view.banner.frame.property("tone") == "note" and view.banner.action.text() == "Show in folder"
    assert window.settings.export_folder == str(tmp_path)
    window.chat.preferences.set(appearance="light")
    card, sentence = export("card-svg", "both.svg"), said(view)
    in_card = "".join(re.findall(r"<text[^>]*>([^<]*)</text>", card)).replace(" ", "")
    assert sentence and sentence.replace(" ", "") in in_card, "the picture says what the page says"
    assert "A: No drafter" in card and "B: " in card, "all answers are on it"
    assert svg.LIGHT.background in card, "in the colours of the window"
    assert f"<p>{sentence}</p>" in export("report", "both.html"), "and so does the report, before all figures"
    with ChatStore() as store:  # as when a limit is set while the comparison is open
        store.import_traces()
        store.traces.retention = Retention(days=0)
        store.tidy(requested=True)
    assert not list(store.traces.folder.iterdir())
    assert not export("json", "gone.json")
    assert view.banner.frame.property("tone") == "error" and "No such file" in view.banner.label.text()
    view.show_preset("random-number")
    view.bar.samples.setValue(8)
    run(qtbot, view)
    assert [tally.judged for tally in view.tallies] == [8, 8, 8]
    assert [tally.accepted for tally in view.tallies[1:]] == [8, 8]
    window.close()
    assert window.ended_in_time


def test_closing_the_window_in_the_middle_of_a_comparison_leaves_whole_traces(
    qtbot: QtBot, home: Path, tiny_pair: tuple[str, str]
) -> None:
    window, view = real_window(qtbot, tiny_pair)
    view.bar.longest.setValue(2500)
    qtbot.mouseClick(view.bar.start, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: all(column.tokens for column in comparison_of(view).columns))
    traces = list(comparison_of(view).traces)
    window.close()
    assert window.ended_in_time
    assert [read(path).missing for path in traces] == [None, None]


# The demonstration.


def values(view: CompareView) -> list[list[str]]:
    """The figures of each rule in the band: text, acceptance, speed."""
    return [[figure.value.text() for figure in field.figures] for field in view.band.fields]


@pytest.mark.usefixtures("fonts")
def test_the_demonstration_opens_with_a_recorded_result_where_the_texts_diverge(qtbot: QtBot, open_window: OpenWindow) -> None:
    window, view, engine = open_window()
    window.pages.open_conversation()
    qtbot.mouseClick(window.column.welcome.demonstrate, Qt.MouseButton.LeftButton)
    assert window.pages.comparing is view and not view.running and not engine.comparisons, "nothing is loaded for it"
    gumbel, rejection = values(view)
    assert (gumbel[0], rejection[0]) == ("Same text", "Different text")
    assert all("accepted" in field[1] and "tokens/s" in field[2] for field in (gumbel, rejection))
    caption = view.band.fields[1].figures[1].caption.text()
    assert re.search(r"\+\d\.\d points \(95%: \d\.\d to \d\.\d\)", caption)
    assert said(view).startswith("Gumbel kept the text when the drafter changed; Rejection did not.")
    assert "only Gumbel fixes the draw" in said(view)
    position = comparison_of(view).divergence
    assert position is not None
    qtbot.waitUntil(lambda: all(column.cursor_place.pin_place is not None for column in view.columns))
    for column in view.columns:
        box = box_of(column, position)
        assert box.top() >= 0 and box.bottom() <= column.text.viewport().height(), "it has been scrolled to"
        assert "Hover" not in column.verdict.text()
    for column in view.columns[2:]:
        assert column.run is not None
        rejected = [proposal.text for proposal in column.run.rejected_at(position).values()]
        assert rejected and all(text in text_of(column, ghosts=True) for text in rejected)
        assert all(f"“{text.replace(' ', '·')}”" in unescape(column.verdict.text()) for text in rejected)
    titles = [column.title.text() for column in view.columns]
    assert titles == ["Trained head", "Small draft model"] * 2, "their rule stands above them"
    assert view.columns[2].title.accessibleName() == "Rejection, Trained head"
    first, second = (QRect(part.mapTo(view, QPoint()), part.size()) for part in (view.band.fields[0], view.columns[1]))
    assert first.right() == pytest.approx(second.right(), abs=3), "a rule is above its two columns"
    view.show_setup(two_rules(window.settings), "")
    assert not view.band.isVisible()


@pytest.mark.parametrize("settings", [{}, {"target": "/models/mine.gguf", "drafter": "ngram"}], ids=["built-in", "own target"])
def test_the_recorded_comparison_is_run_live_with_the_target_in_use(
    qtbot: QtBot, open_view: OpenView, settings: dict[str, Any]
) -> None:
    view, engine = open_view(**settings)
    view.demonstrate()
    assert view.bar.start.text() == "Run it live" and "Recorded with the built-in models" in view.bar.words.text()
    qtbot.mouseClick(view.bar.start, Qt.MouseButton.LeftButton)
    (asked,) = engine.comparisons
    assert {request.target for request in asked.requests} == {settings.get("target", "builtin")}
    assert view.bar.start.text() == "Start" and "Recorded" not in view.bar.words.text()
    finish(qtbot, view)


def test_a_changed_recording_is_no_longer_called_one(open_view: OpenView) -> None:
    view, _ = open_view(preset="rejection-gumbel")
    assert view.bar.start.text() == "Run it live"
    view.columns[0].controls.temperature.stepBy(1)
    assert view.bar.start.text() == "Start"


def test_without_its_recording_the_demonstration_is_ready_to_start(
    open_view: OpenView, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("app.compare.presets.RECORDED", tmp_path)
    view, _ = open_view(preset="rejection-gumbel")
    assert view.shown is None and view.bar.start.text() == "Start" and view.bar.start.isEnabled()
    assert [value[0] for value in values(view)] == ["–", "–"], "on top from the start there is what will be found"


# Thoughts.

THOUGHT = "<think>\nThe user asks for a short story.\nLet me think.\n</think>\n\n"


@pytest.mark.parametrize("marks", [("<think>", "</think>"), ("<|channel>thought", "<channel|>")])
def test_thoughts_are_folded_and_open_where_texts_part_in_them(marks: tuple[str, str], qtbot: QtBot, compare: Compare) -> None:
    """A line above each answer shows or folds them; equal ones stay folded."""
    thought = THOUGHT.replace("<think>", marks[0]).replace("</think>", marks[1])
    view = compare([story_rounds(f"{thought}Here is the story.")] * 2)
    for column in view.columns[:2]:
        assert text_of(column) == "Here is the story."
        assert column.text.thought.isVisible() and column.text.thought.text().startswith("Thought for")
    first = view.columns[0]
    for shows in (True, False):
        qtbot.mouseClick(first.text.thought, Qt.MouseButton.LeftButton)
        assert ("Let me think." in text_of(first)) == shows
    assert first.text.anchor is not None
    first.text.scroll_into_view(2)
    assert "Let me think." in text_of(first), "a token of the thought is to be seen"


def test_a_difference_in_the_thoughts_is_seen(compare: Compare) -> None:
    rounds = story_rounds(f"{THOUGHT}Here it is.")
    emitted = (replace(rounds[2].emitted[0], id=9999), *rounds[2].emitted[1:])
    other = [*rounds[:2], replace(rounds[2], emitted=emitted), *rounds[3:]]
    view = compare([rounds, other])
    assert any("The user asks" in text_of(column) for column in view.columns[:2])
