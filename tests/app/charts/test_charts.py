"""The charts page: what shows of an answer, how it scrolls, and that every chart points at the same round."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from PySide6.QtCore import QEvent, QPoint, QPointF, Qt
from PySide6.QtGui import QImage
from PySide6.QtWidgets import QAbstractButton, QApplication
from pytestqt.qtbot import QtBot

from app.charts.by_round import AlphaChart, ProposalsChart, TauChart
from app.charts.by_time import TimesChart, phase_columns
from app.charts.data import (
    MOST_COLUMNS,
    SHOWN_ROUNDS,
    Material,
    columns,
    empty_words,
    rounds_in_a_column,
    span_of,
    span_words,
)
from app.charts.page import ChartsPage
from app.look import theme as themes
from app.session.cursor import Cursor, Place
from app.session.session import Session
from app.session.shown_answer import Shown
from engine.lens.chart_kinds import CHARTS
from engine.lens.tally import Tally
from engine.types import Round
from tests.app.fakes import STORY, make_round, story_rounds
from tests.app.panel.test_definitions import answered

LONG = story_rounds(STORY * 10)


def test_the_newest_sixty_rounds_show_unless_the_user_asks_for_others() -> None:
    assert (span_of(12).first, span_of(12).last, span_of(12).room) == (0, 12, SHOWN_ROUNDS)
    newest = span_of(1234)
    assert newest.last == 1234 and SHOWN_ROUNDS - 10 < newest.last - newest.first <= SHOWN_ROUNDS
    back = span_of(1234, SHOWN_ROUNDS, 300)
    assert (back.first, back.last) == (240, 300)
    everything = span_of(1234, None)
    assert (everything.first, everything.last) == (0, 1234) and everything.room >= 1234


def test_a_range_that_follows_moves_ten_rounds_at_a_time() -> None:
    firsts = [span_of(rounds).first for rounds in range(1, 400)]
    assert all(first % 10 == 0 for first in firsts)
    assert firsts == sorted(firsts)


@pytest.mark.parametrize("rounds", [1, 59, 60, 61, 240, 241, 999, 10_000, 123_456])
def test_however_long_an_answer_its_columns_stay_few_and_say_what_they_are(rounds: int) -> None:
    span = span_of(rounds, None)
    assert len(range(span.first, span.last, span.each)) <= MOST_COLUMNS
    assert span.first % span.each == 0
    assert (f"mean of {span.each} rounds" in span_words(span, rounds)) == (span.each > 1)


def test_rounds_in_a_column_grow_in_round_steps() -> None:
    assert [rounds_in_a_column(rounds) for rounds in (1, 240, 241, 481, 1201, 10_000)] == [1, 1, 2, 5, 10, 50]


def test_a_column_is_the_mean_of_what_is_known_in_it() -> None:
    rows = np.arange(1000, dtype=float)
    rows[0:5] = np.nan
    x, means = columns(rows, span_of(1000, None))
    assert np.isnan(means[0]) and means[1] == pytest.approx(7.0)
    assert x[1] == 8.0, "rounds 6 to 10"
    assert means.size == x.size == 200


def test_a_place_across_names_the_round_drawn_there_and_back() -> None:
    for span in (span_of(50), span_of(777), span_of(10_000, None)):
        for index in range(span.first, span.last, 37):
            centre = span.centre(index)
            assert centre is not None
            column = span.column(centre)
            assert column is not None and column <= index < column + span.each
        assert span.column(span.last + span.each) is None and span.column(float(span.first)) is None
        assert span.centre(span.last) is None


def test_readouts_name_the_round_and_its_numbers() -> None:
    material = Material(Tally.of(LONG), span_of(len(LONG)))
    index = len(LONG) - 5
    round_ = LONG[index]
    assert ProposalsChart.readout(material, index) == (
        f"round {index + 1}: {round_.accepted} accepted, {round_.rejected} rejected, {round_.unjudged} unjudged"
    )
    assert "interval" in AlphaChart.readout(material, index)
    assert "predicted" in TauChart.readout(material, index)
    staged = next(round_.index for round_ in reversed(LONG) if round_.milliseconds.measured)
    assert "verify" in TimesChart.readout(material, staged)
    assert "not split by phase" in TimesChart.readout(material, staged - 1)


def test_a_column_of_many_rounds_reads_out_their_mean() -> None:
    tally = Tally.of(LONG * 20)
    words = ProposalsChart.readout(Material(tally, span_of(tally.rounds, None)), 7)
    assert words.startswith("rounds 1 to ") and "accepted" in words


def test_times_keep_the_gaps_between_staged_rounds() -> None:
    bars, totals = phase_columns(Material(Tally.of(LONG), span_of(len(LONG), None)))
    assert len(bars) and len(bars) + len(totals) == len(LONG)
    assert bars[:, 0].tolist() == [round_.index + 1 for round_ in LONG if round_.milliseconds.measured]


def test_charts_say_why_they_are_empty() -> None:
    plain = Tally.of([make_round(index, [], "a", started=60.0 * index) for index in range(5)])
    for name in CHARTS:
        assert empty_words(CHARTS[name], None) and empty_words(CHARTS[name], Tally())
        assert not empty_words(CHARTS[name], Tally.of(LONG))
        assert bool(empty_words(CHARTS[name], plain)) == (name in ("proposals", "alpha", "positions", "lengths"))


# The page


@pytest.fixture
def page(qtbot: QtBot) -> ChartsPage:
    return made(qtbot, LONG)


def made(qtbot: QtBot, rounds: Sequence[Round]) -> ChartsPage:
    session, _ = answered(rounds) if rounds else (Session(), None)
    cursor = Cursor()
    page = ChartsPage(Shown(session, cursor, cursor), cursor)
    cursor.setParent(page)
    qtbot.addWidget(page)
    page.set_open(CHARTS)
    page.resize(480, 1400)
    page.set_look(themes.DARK, 1.0)
    page.show()
    qtbot.waitExposed(page)
    page.refresh()
    return page


def viewport_point(page: ChartsPage, index: int) -> QPoint:
    """Where a round is in the chart of proposals."""
    chart = page.sections["proposals"].chart
    span = span_of(len(LONG), page.range.shown, page.range.end)
    centre = span.centre(index)
    assert centre is not None
    return chart.plot.mapFromScene(chart.view.mapViewToScene(QPointF(centre, 0.5)))


def test_pointing_at_a_column_marks_its_round_in_every_chart_per_round(qtbot: QtBot, page: ChartsPage) -> None:
    index = len(LONG) - 20
    qtbot.mouseMove(page.sections["proposals"].chart.plot.viewport(), viewport_point(page, index))
    qtbot.waitUntil(lambda: page.cursor_place.place == Place(0, index))
    for name, section in page.sections.items():
        if CHARTS[name].per_round:
            assert section.chart.marker.isVisible()
            assert section.chart.marker.value() == index + 1, "rounds are numbered from 1"
            assert section.note.words.startswith(f"round {index + 1}: ")
    page.cursor_place.leave()
    assert not any(section.chart.marker.isVisible() for section in page.sections.values())
    assert "expected" in page.curve_names.words


def test_a_proposal_is_marked_at_its_position_and_its_round_at_the_accepted_length(page: ChartsPage) -> None:
    index = next(round_.index for round_ in reversed(LONG) if round_.accepted == 3)
    page.cursor_place.point(Place(0, index, 2))
    assert page.sections["positions"].chart.marker.value() == 3
    assert page.sections["lengths"].chart.marker.value() == 3
    page.cursor_place.point(Place(0, index))
    assert not page.sections["positions"].chart.marker.isVisible()
    assert page.sections["lengths"].chart.marker.isVisible()


def test_a_click_pins_a_round_and_a_second_one_lets_it_go(qtbot: QtBot, page: ChartsPage) -> None:
    viewport, index = page.sections["proposals"].chart.plot.viewport(), len(LONG) - 12
    qtbot.mouseClick(viewport, Qt.MouseButton.LeftButton, pos=viewport_point(page, index))
    assert page.cursor_place.pin_place == Place(0, index)
    qtbot.mouseClick(viewport, Qt.MouseButton.LeftButton, pos=viewport_point(page, index))
    assert page.cursor_place.pin_place is None


def test_the_keyboard_goes_from_round_to_round_and_the_charts_follow(qtbot: QtBot, page: ChartsPage) -> None:
    chart = page.sections["alpha"].chart
    qtbot.keyClick(chart, Qt.Key.Key_Left)
    assert page.cursor_place.place == Place(0, len(LONG) - 1)
    qtbot.keyClick(chart, Qt.Key.Key_Left)
    assert page.cursor_place.place == Place(0, len(LONG) - 2)
    qtbot.keyClick(chart, Qt.Key.Key_Home)
    assert page.cursor_place.place == Place(0, 0)
    assert chart.marker.isVisible(), "the first round has come into sight"
    qtbot.keyClick(chart, Qt.Key.Key_Return)
    assert page.cursor_place.pin_place == Place(0, 0)
    qtbot.keyClick(chart, Qt.Key.Key_End)
    assert page.cursor_place.place == Place(0, len(LONG) - 1) and page.range.end is None


def test_dragging_scrolls_back_and_the_button_returns_to_the_newest(qtbot: QtBot, page: ChartsPage) -> None:
    viewport = page.sections["proposals"].chart.plot.viewport()
    start = QPoint(viewport.width() // 3, viewport.height() // 2)
    qtbot.mousePress(viewport, Qt.MouseButton.LeftButton, pos=start)
    drag(qtbot, viewport, start + QPoint(100, 0))
    qtbot.mouseRelease(viewport, Qt.MouseButton.LeftButton, pos=start + QPoint(100, 0))
    assert page.range.end is not None and page.range.end < len(LONG)
    assert page.cursor_place.pin_place is None, "dragging pins nothing"
    assert page.range.where.text() == span_words(span_of(len(LONG), page.range.shown, page.range.end), len(LONG))
    page.range.few.click()
    assert page.range.end is None and page.range.few.isChecked()


def drag(qtbot: QtBot, viewport: object, to: QPoint) -> None:
    """A move with the left button held, which QTest does not send by itself."""
    from PySide6.QtGui import QMouseEvent
    from PySide6.QtWidgets import QApplication, QWidget

    assert isinstance(viewport, QWidget)
    buttons = Qt.MouseButton.LeftButton
    for place in (to - QPoint(20, 0), to):
        position = QPointF(place)
        event = QMouseEvent(
            QEvent.Type.MouseMove,
            position,
            viewport.mapToGlobal(position),
            Qt.MouseButton.NoButton,
            buttons,
            Qt.KeyboardModifier.NoModifier,
        )
        QApplication.sendEvent(viewport, event)


def test_all_rounds_show_at_the_press_of_a_button(qtbot: QtBot, page: ChartsPage) -> None:
    assert not page.range.slide.isHidden()
    page.range.all.click()
    assert page.range.slide.isHidden() and page.range.where.text().startswith(f"All {len(LONG)} rounds")
    page.range.few.click()
    assert not page.range.slide.isHidden()
    page.range.slide.setValue(0)
    assert page.range.where.text().startswith("Rounds 1 to ")


def test_a_round_pinned_elsewhere_comes_into_sight(page: ChartsPage) -> None:
    page.cursor_place.pin(Place(0, 5))
    assert page.sections["proposals"].chart.marker.isVisible()
    assert page.sections["proposals"].chart.marker.value() == 6


def test_a_folded_chart_stays_folded_and_costs_nothing(page: ChartsPage) -> None:
    told: list[tuple[str, ...]] = []
    page.folded.connect(told.append)
    page.sections["throughput"].fold.click()
    assert told == [tuple(name for name in CHARTS if name != "throughput")]
    page.refresh()
    assert page.sections["throughput"].stale and not page.sections["proposals"].stale
    page.sections["throughput"].fold.click()
    assert not page.sections["throughput"].stale


def test_titles_open_definitions_and_buttons_what_can_be_done(page: ChartsPage) -> None:
    wanted: list[tuple[str, str]] = []
    page.definition_wanted.connect(lambda key, place: wanted.append(("definition", key)))
    page.menu_wanted.connect(lambda name, place: wanted.append(("menu", name)))
    page.sections["tau"].title.click()
    page.sections["lengths"].more.click()
    assert wanted == [("definition", "tau_plot"), ("menu", "lengths")]


def test_without_a_measured_baseline_no_line_is_drawn_and_the_words_say_so(page: ChartsPage) -> None:
    chart = page.sections["throughput"].chart
    assert not chart.plain.isVisible()  # type: ignore[attr-defined]
    assert "no baseline" in page.sections["throughput"].note.words
    assert not page.measure.isHidden()


@pytest.mark.parametrize("rounds", [[], [make_round(0, [], "a")], story_rounds(rule="block"), LONG * 30])
def test_every_chart_paints_what_there_is(qtbot: QtBot, rounds: list[Round]) -> None:
    indexed = [make_round(index, ["a"] * (index % 4), "b", ["c"], started=60.0 * index) for index in range(len(rounds))]
    page = made(qtbot, indexed if len(rounds) > 200 else rounds)
    page.range.all.click()
    picture = QImage(page.size(), QImage.Format.Format_RGB32)
    page.render(picture)
    for theme in (themes.LIGHT, themes.DARK):
        page.set_look(theme, 1.4)
        page.render(picture)
    assert not picture.isNull()


def test_zooming_shows_more_rounds_up_to_all_and_fewer_again(qtbot: QtBot, page: ChartsPage) -> None:
    chart = page.sections["proposals"].chart
    qtbot.keyClick(chart, Qt.Key.Key_Minus)
    assert page.range.shown == 120
    qtbot.keyClick(chart, Qt.Key.Key_Minus)
    assert page.range.shown is None and page.range.all.isChecked()
    for _ in range(5):
        qtbot.keyClick(chart, Qt.Key.Key_Plus)
    assert page.range.shown == 30
    span = page.range.span()
    assert span.last == len(LONG) and span.room == 30


def test_cells_too_low_to_be_told_apart_become_one_bar(page: ChartsPage) -> None:
    chart = page.sections["proposals"].chart
    assert isinstance(chart, ProposalsChart)
    high, low = (chart.cells._cells(8.0, pixels) for pixels in (12.0, 1.6))
    assert sum(len(cells) for cells in low.values()) < sum(len(cells) for cells in high.values())
    for status, cells in high.items():
        assert sum(cell.height() for cell in low[status]) >= sum(cell.height() for cell in cells), "nothing is lost"


def test_one_far_longer_draft_leaves_the_other_rounds_readable(qtbot: QtBot) -> None:
    usual = [make_round(index, ["a"] * (index % 3), "b", ["c"] * (4 - index % 3), started=60.0 * index) for index in range(40)]
    usual[7] = make_round(7, ["a"], "b", ["c"] * 63, started=420.0)
    page = made(qtbot, usual)
    chart = page.sections["proposals"].chart
    assert chart.view.viewRange()[1][1] < 6
    usual[9] = make_round(9, ["a"] * 30, "b", ["c"], started=540.0)
    assert made(qtbot, usual).sections["proposals"].chart.view.viewRange()[1][1] > 31, "what was judged is never cut off"


def test_empty_charts_read_out_no_round(qtbot: QtBot) -> None:
    page = made(qtbot, [make_round(index, [], "a", started=60.0 * index) for index in range(20)])
    chart = page.sections["throughput"].chart
    qtbot.keyClick(chart, Qt.Key.Key_Home)
    qtbot.keyClick(chart, Qt.Key.Key_Return)
    assert page.cursor_place.pin_place == Place(0, 0)
    assert "round 1" in page.sections["throughput"].note.words
    assert page.sections["alpha"].note.words == page.sections["proposals"].note.words == ""


def test_tab_reaches_every_control_of_the_page(qtbot: QtBot, page: ChartsPage) -> None:
    page.measure.show()
    page.activateWindow()
    qtbot.waitUntil(page.isActiveWindow)
    page.setFocus()
    chart = page.sections["proposals"].chart
    assert chart.hasFocus(), "going to the page is going to its first chart"
    reached = set()
    for _ in range(60):
        qtbot.keyClick(QApplication.focusWidget(), Qt.Key.Key_Tab)
        reached.add(QApplication.focusWidget())
    buttons = {button for button in page.findChildren(QAbstractButton) if button.isVisible()}
    charts = {section.chart for section in page.sections.values() if section.chart.kind.per_round}
    assert buttons | charts <= reached
