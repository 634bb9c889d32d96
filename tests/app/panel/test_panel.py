"""The panel beside the conversation: its pages, which one shows, and that hidden ones cost nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.look import theme as themes
from app.look.stylesheet import stylesheet
from app.panel.figure_tiles import FigureTiles
from app.panel.panel import WAITING
from app.session.cursor import Cursor, Place, ShownAnswer
from app.session.plain_baseline import Baseline
from app.session.session import Session
from app.session.settings import PANEL_PAGES
from app.session.settings import load as load_settings
from app.window.window import Window
from engine.types import DecodingOptions
from tests.app.driving import wait_for_answer
from tests.app.fakes import STORY, FakeEngine, story_rounds
from tests.app.panel.test_definitions import answered
from tests.app.shared_window import SharedWindow
from tests.crossings import crossed

Open = Callable[..., Window]


@pytest.fixture
def open_window(qtbot: QtBot, share_window: Callable[..., tuple[Window, FakeEngine]]) -> Open:
    """The shared window, with one answer unless a test says otherwise."""

    def opened(answers: int = 1, **settings: Any) -> Window:
        window, _ = share_window(story_rounds(STORY * 3), size=(1280, 800), **settings)
        for _ in range(answers):
            window.send("Tell me a story.")
            wait_for_answer(qtbot, window)
        window.panel.refresh()
        return window

    return opened


def test_every_page_is_focused_by_its_key(qtbot: QtBot, open_window: Open) -> None:
    window = open_window(side_panel=False)
    panel = window.panel
    for key, page in ((Qt.Key.Key_1, "rounds"), (Qt.Key.Key_2, "charts"), (Qt.Key.Key_3, "table")):
        qtbot.keyClick(window, key, Qt.KeyboardModifier.ControlModifier)
        assert panel.isVisible()
        assert panel.page == page == window.settings.panel_page
        focus = QApplication.focusWidget()
        assert focus is not None
        assert panel.isAncestorOf(focus)
    panel.tabs.setFocus()
    qtbot.keyClick(panel.tabs, Qt.Key.Key_Left)
    assert panel.page == "charts"
    assert panel.tabs.accessibleName()


def test_before_the_first_answer_the_panel_has_one_sentence_and_then_everything(
    qtbot: QtBot, open_window: Open, window_of_module: SharedWindow
) -> None:
    window, engine = open_window(answers=0), window_of_module.engine
    panel = window.panel
    parts = (*panel.figures.tiles.values(), panel.tabs, panel.rounds.legend, panel.heading)
    assert panel.waiting.isVisible() and panel.waiting.text() == WAITING
    assert not any(part.isVisible() for part in parts)
    qtbot.keyClick(window, Qt.Key.Key_2, Qt.KeyboardModifier.ControlModifier)
    assert panel.page == "charts" and panel.waiting.isVisible(), "the page is remembered"
    qtbot.keyClick(window, Qt.Key.Key_1, Qt.KeyboardModifier.ControlModifier)
    engine.hold = True
    window.send("Tell me a story.")
    panel.refresh()
    assert panel.waiting.isVisible(), "there are no figures yet"
    engine.hold = False
    qtbot.waitUntil(panel.tabs.isVisible)
    assert not panel.waiting.isVisible() and all(part.isVisible() for part in parts)
    wait_for_answer(qtbot, window)
    window.send("And another.")
    panel.refresh()
    assert panel.tabs.isVisible(), "a second answer takes nothing away"
    wait_for_answer(qtbot, window)
    window.new_chat()
    qtbot.waitUntil(panel.waiting.isVisible)


def test_a_narrow_window_explains_why_the_panel_stays_hidden(qtbot: QtBot, open_window: Open) -> None:
    window = open_window(answers=0)
    window.resize(700, 700)
    qtbot.keyClick(window, Qt.Key.Key_3, Qt.KeyboardModifier.ControlModifier)
    assert window.banner.isVisible()
    assert "too narrow" in window.banner.label.text()
    assert window.settings.panel_page == "table"


def test_the_chosen_page_is_saved(show_window: Open, tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    window = show_window(FakeEngine(), path)
    assert window.panel.page == "rounds"
    window.panel.tabs.setCurrentIndex(2)
    assert json.loads(path.read_text())["panel_page"] == "table"
    path.write_text('{"panel_page": "poetry"}')
    settings, note = load_settings(path)
    assert settings.panel_page == "rounds"
    assert "panel_page" in note


def test_only_the_shown_page_is_updated(qtbot: QtBot, open_window: Open) -> None:
    window = open_window(answers=0)
    panel = window.panel
    panel.show_page("table")  # a hidden page keeps the rounds of the test before
    panel.show_page("rounds")
    window.send("Tell me a story.")
    wait_for_answer(qtbot, window)
    panel.refresh()
    count = len(window.session.turns[0].answer.rounds)
    assert panel.rounds.lanes.field.count == count
    assert panel.table.table.rounds.rowCount() == 0
    panel.show_page("table")
    assert panel.table.table.rounds.rowCount() == count


def test_the_lanes_fill_with_the_answer_under_way(qtbot: QtBot, open_window: Open) -> None:
    window = open_window(answers=0)
    window.send("Tell me a story.")
    wait_for_answer(qtbot, window)
    rounds = window.session.turns[0].answer.rounds
    qtbot.waitUntil(lambda: window.panel.rounds.lanes.field.count == len(rounds))
    assert window.panel.rounds.lanes.is_following
    assert "verify" in window.panel.rounds.legend.accessibleDescription()


def test_the_lanes_show_the_answer_with_the_pin(qtbot: QtBot, open_window: Open) -> None:
    window = open_window(answers=2)
    panel, cursor = window.panel, window.cursor_place
    assert panel.shown.turn == 1
    cursor.point(Place(0, 3))
    assert panel.shown.turn == 1, "pointing alone turns no page"
    cursor.leave()
    cursor.pin(Place(0, 3, 1))
    assert panel.shown.turn == 0
    qtbot.waitUntil(lambda: panel.rounds.lanes.accessible_text().endswith("round 4"))
    lanes = panel.rounds.lanes
    assert 0 <= lanes.field.top_of(3) < lanes.field.height
    cursor.pin(Place(1, 0))
    assert panel.shown.turn == 1
    cursor.pin(Place(0, 0))
    window.send("Another story.")
    wait_for_answer(qtbot, window)
    panel.refresh()
    assert panel.shown.turn == 2, "a new answer is followed"


def test_a_low_panel_hides_its_heading(qtbot: QtBot, open_window: Open) -> None:
    window = open_window()
    window.resize(1100, 470)
    QApplication.processEvents()
    assert window.panel.isVisible() and window.panel.heading.isHidden()
    window.send("Another story.")
    wait_for_answer(qtbot, window)
    window.panel.refresh()
    assert not window.panel.heading.isHidden(), "it is the way to the other answers"
    window.resize(1100, 800)
    QApplication.processEvents()
    assert not window.panel.heading.isHidden()


def test_the_panel_names_the_answer_it_shows_where_there_are_several(qtbot: QtBot, open_window: Open) -> None:
    window = open_window()
    panel = window.panel
    assert panel.heading.title.text() == "Figures of this answer" and panel.heading.back.isHidden()
    tops = [widget.y() for widget in (panel.figures, panel.tabs, panel.stack)]
    window.send("Another\nstory.")
    wait_for_answer(qtbot, window)
    panel.refresh()
    QApplication.processEvents()
    assert [widget.y() for widget in (panel.figures, panel.tabs, panel.stack)] == tops, "nothing moves"
    assert panel.heading.title.text() == "Answer 2 of 2: Another story."
    assert not panel.heading.forward.isEnabled()
    qtbot.mouseClick(panel.heading.back, Qt.MouseButton.LeftButton)
    assert panel.shown.turn == 0
    qtbot.waitUntil(lambda: panel.heading.title.text() == "Answer 1 of 2: Tell me a story.")
    assert not panel.heading.back.isEnabled()
    window.cursor_place.pin(Place(1, 2))
    qtbot.waitUntil(lambda: panel.heading.title.text().startswith("Answer 2 of 2"))


@pytest.mark.usefixtures("fonts")
@pytest.mark.parametrize("width", [320, 400, 480, 700, 1100])
def test_the_figures_are_not_cut_off_and_aligned_at_every_width(qtbot: QtBot, width: int) -> None:
    figures = FigureTiles()
    qtbot.addWidget(figures)
    figures.setStyleSheet(stylesheet(themes.DARK, 1.0))
    figures.set_look(1.0)
    figures.resize(width, 200)
    figures.show()
    QApplication.processEvents()
    empty = [tile.pos() for tile in figures.tiles.values()]
    answer = answered(story_rounds(STORY * 3))[1]
    figures.show_answer(answer, None)
    QApplication.processEvents()
    if width > 320:
        assert [tile.pos() for tile in figures.tiles.values()] == empty, "they stand where they will from the beginning"
    figures.show_answer(answer, Baseline(10.0, 32))
    QApplication.processEvents()
    for tile in figures.tiles.values():
        for label in (tile.name, tile.value, tile.unit):
            assert label.width() >= label.sizeHint().width(), f"{tile.accessibleName()} is cut off"
    across = len({tile.x() for tile in figures.tiles.values()})
    assert across in {320: (2, 3), 1100: (6,)}.get(width, (3,)), "a narrow font fits three of them even here"
    widths = {tile.width() for tile in figures.tiles.values()}
    assert max(widths) - min(widths) <= 8, "about as wide as each other"


def test_the_shown_answer_follows_the_conversation() -> None:
    session, cursor = Session(), Cursor()
    shown = ShownAnswer(session, cursor)
    assert shown.answer is None
    assert shown.turn == 0
    first = session.add_turn("a", DecodingOptions(), "none")
    second = session.add_turn("b", DecodingOptions(), "none")
    shown.sync()
    assert shown.answer is second
    shown.choose(0)
    assert shown.answer is first
    shown.choose(7)
    assert shown.answer is second, "there is no eighth turn"
    shown.choose(0)
    session.clear()
    shown.sync()
    assert shown.answer is None


def test_the_answer_clock_and_the_zoom_have_buttons(qtbot: QtBot, open_window: Open) -> None:
    window = open_window()
    page = window.panel.rounds
    page.clock.click()
    clocks = [page.lanes.field.clock]
    page.clock.click()
    assert [*clocks, page.lanes.field.clock] == ["answer", "round"]
    assert not page.fit.isEnabled()
    page.zoom_in.click()
    assert page.lanes.zoom > 1
    page.fit.click()
    assert page.lanes.zoom == 1
    page.zoom_out.click()
    assert page.lanes.zoom < 1
    for button in (page.clock, page.zoom_out, page.fit, page.zoom_in, window.panel.table.copy_button):
        assert button.accessibleName()


@pytest.mark.parametrize(
    ("page", "size"), crossed(PANEL_PAGES, [(940, 600, 1.0), (1280, 800, 1.4), (2560, 1440, 1.0)], together=1)
)
def test_every_page_paints_at_every_size(open_window: Open, page: str, size: tuple[int, int, float]) -> None:
    width, height, scale = size
    window = open_window(text_scale=scale, panel_page=page)
    for appearance in ("dark", "light"):
        window.chat.preferences.set(appearance=appearance)
        window.resize(width, height)
        QApplication.processEvents()
        assert not window.panel.grab().isNull()
        shown = window.panel.stack.currentWidget()
        assert shown is not None
        assert window.panel.rect().contains(shown.geometry())
