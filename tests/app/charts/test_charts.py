"""The charts page: what shows of an answer, how it scrolls, and that every chart points at the same round."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import get_args

import numpy as np
import pyqtgraph as pg
import pytest
from PySide6.QtCore import QEvent, QPoint, QPointF, Qt
from PySide6.QtGui import QImage, QWheelEvent
from PySide6.QtWidgets import QAbstractButton, QApplication
from pytestqt.qtbot import QtBot

from app.charts.chart import Chart, Label, fit_labels
from app.charts.data import DEFAULT_ROUNDS, MIN_BIN, ROUNDS_STEP, bin_text, rounds_per_column, span_of, span_text
from app.charts.page import ChartsPage
from app.look import theme as themes
from app.look.stylesheet import stylesheet
from app.session.cursor import Cursor, Place, ShownAnswer
from app.session.session import Session
from engine.lens.bins import RoundSpan, column_quantiles, columns
from engine.lens.chart_kinds import CHARTS
from engine.lens.chart_spec import Area, Bars, ChartSpec, Fill, Level, Line, Panel, Part, Whiskers, axis_with_halves, integer_axis
from engine.lens.tally import Tally
from engine.types import Round
from tests.app.fakes import STORY, make_round, story_rounds
from tests.app.panel.test_definitions import answered
from tests.engine.lens.test_charts import mixed_rules

LONG = story_rounds(STORY * 10)


def test_the_newest_sixty_rounds_show_unless_the_user_asks_for_others() -> None:
    assert (span_of(12).first, span_of(12).last, span_of(12).room) == (0, 12, ROUNDS_STEP), "a short answer fills its charts"
    assert [span_of(rounds).room for rounds in (20, 21, 41, 60, 900)] == [20, 40, 60, 60, DEFAULT_ROUNDS]
    newest = span_of(1234)
    assert newest.last == 1234 and DEFAULT_ROUNDS - 10 < newest.last - newest.first <= DEFAULT_ROUNDS
    back = span_of(1234, DEFAULT_ROUNDS, 300)
    assert (back.first, back.last) == (240, 300)
    everything = span_of(1234, None)
    assert (everything.first, everything.last) == (0, 1234) and everything.room >= 1234


def test_a_range_that_follows_moves_ten_rounds_at_a_time() -> None:
    firsts = [span_of(rounds).first for rounds in range(1, 400)]
    assert all(first % 10 == 0 for first in firsts)
    assert firsts == sorted(firsts)


@pytest.mark.parametrize("width", [250, 410, 630, 2000])
@pytest.mark.parametrize("rounds", [1, 59, 60, 61, 240, 241, 999, 10_000, 123_456])
def test_bins_of_long_answers_are_visible_and_described(rounds: int, width: int) -> None:
    span = span_of(rounds, None, width=width)
    assert span.each == 1 or width / (span.room / span.each) >= MIN_BIN
    assert span.first % span.each == 0 and span.last == rounds
    assert (f"Bins of {span.each:,} rounds" in bin_text(span)) == (span.each > 1)


def test_bins_grow_in_round_steps_and_are_finer_in_a_wide_plot() -> None:
    assert [rounds_per_column(rounds, 400) for rounds in (1, 100, 101, 133, 2000, 10_000)] == [1, 1, 2, 5, 50, 200]
    assert [rounds_per_column(2000, width) for width in (250, 630, 1300)] == [50, 20, 10]


def test_one_round_is_not_counted_in_the_plural() -> None:
    assert span_text(span_of(1), 1) == "1 round"


def test_a_column_is_the_mean_of_what_is_known_in_it() -> None:
    rows = np.arange(1000, dtype=float)
    rows[0:5] = np.nan
    x, means = columns(rows, span_of(1000, None, width=1200))
    assert np.isnan(means[0]) and means[1] == pytest.approx(7.0)
    assert x[1] == 8.0, "rounds 6 to 10"
    assert means.size == x.size == 200


def test_x_positions_map_to_rounds_and_back() -> None:
    for span in (span_of(50), span_of(777), span_of(10_000, None)):
        for index in range(span.first, span.last, 37):
            centre = span.centre(index)
            assert centre is not None
            column = span.column(centre)
            assert column is not None and column <= index < column + span.each
        assert span.column(span.last + span.each) is None and span.column(float(span.first)) is None
        assert span.column(span.first + 0.41) == span.first, "the edge of the plot belongs to the first column"
        assert span.column(span.last + 0.55) is not None, "and to the last"
        assert span.centre(span.last) is None


def test_the_spread_of_a_bin_holds_most_of_its_rounds_and_nothing_of_the_others() -> None:
    rows = np.concatenate((np.arange(100, dtype=float), np.full(50, np.nan), [7.0]))
    low_high = column_quantiles(rows, RoundSpan(0, len(rows), 50, len(rows)))
    assert low_high[0].tolist() == [5.0, 44.0] and low_high[1].tolist() == [55.0, 94.0]
    assert np.isnan(low_high[2]).all(), "nothing is known there"
    assert low_high[3].tolist() == [7.0, 7.0]


def test_labels_stay_inside_the_plot_or_are_omitted() -> None:
    labels = [Label(30.0, "Rejection", "side"), Label(31.0, "55"), Label(5.0, "64"), Label(59.0, "Gumbel", "side")]
    found = fit_labels(labels, (0.0, 60.0), 300.0, lambda words: 6.0 * len(words))
    assert [label.text for label in found] == ["Rejection", "64", "Gumbel"]
    assert found[-1].left < 59.0 - 6, "on the side that has room"
    assert fit_labels(labels, (0.0, 60.0), 0.0, len) == []
    near = [Label(6.0, "Rejection", "side"), Label(16.0, "Gamma 3", "side")]  # 62 pixels for 54
    assert len(fit_labels(near, (0.0, 60.0), 372.0, lambda words: 6.0 * len(words))) == 2


# The page


@pytest.fixture
def page(qtbot: QtBot) -> ChartsPage:
    return made(qtbot, LONG)


def made(qtbot: QtBot, rounds: Sequence[Round]) -> ChartsPage:
    session, _ = answered(rounds) if rounds else (Session(), None)
    cursor = Cursor()
    page = ChartsPage(ShownAnswer(session, cursor, cursor), cursor)
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
    span = page.range.span()
    centre = span.centre(index)
    assert centre is not None
    return chart.plot.mapFromScene(chart.views[0].mapViewToScene(QPointF(centre, 0.5)))


def test_pointing_at_a_column_marks_its_round_in_every_chart_per_round(qtbot: QtBot, page: ChartsPage) -> None:
    index = len(LONG) - 20
    qtbot.mouseMove(page.sections["proposals"].chart.plot.viewport(), viewport_point(page, index))
    qtbot.waitUntil(lambda: page.cursor_place.place == Place(0, index))
    for name, section in page.sections.items():
        if CHARTS[name].per_round:
            assert section.chart.marker.isVisible()
            assert section.chart.marker.value() == index + 1, "rounds are numbered from 1"
            assert section.readout.longest_text.startswith(f"round {index + 1}: ")
    assert page.sections["proposals"].note.longest_text == "█ accepted  ▨ rejected  □ unjudged", "the legend of the columns stays"
    page.cursor_place.leave()
    assert not any(section.chart.marker.isVisible() for section in page.sections.values())
    assert page.sections["proposals"].readout.longest_text == "below:  ━━ accepted  expected:  ┈┈ Match  ━┈ Gumbel  ╍╍ Rejection"


def test_a_proposal_is_marked_at_its_position_and_its_round_at_the_accepted_length(page: ChartsPage) -> None:
    index = next(round_.index for round_ in reversed(LONG) if round_.accepted == 3)
    page.cursor_place.point(Place(0, index, 2))
    assert page.sections["positions"].chart.marker.value() == 3
    assert page.sections["lengths"].chart.marker.value() == 3
    page.cursor_place.point(Place(0, index))
    assert not page.sections["positions"].chart.marker.isVisible()
    assert page.sections["lengths"].chart.marker.isVisible()


def test_a_click_pins_a_round_and_a_second_one_unpins_it(qtbot: QtBot, page: ChartsPage) -> None:
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
    assert page.range.range_label.text() == span_text(page.range.span(), len(LONG))
    page.range.latest_button.click()
    assert page.range.end is None and page.range.latest_button.isChecked()


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


def wheel(chart: Chart, turned: int) -> None:
    viewport, at = chart.plot.viewport(), QPointF(100, 60)
    event = QWheelEvent(
        at,
        viewport.mapToGlobal(at),
        QPoint(),
        QPoint(0, turned),
        Qt.MouseButton.NoButton,
        Qt.KeyboardModifier.ControlModifier,
        Qt.ScrollPhase.NoScrollPhase,
        False,
    )
    QApplication.sendEvent(viewport, event)


@pytest.mark.parametrize("parts", [1, 30], ids=["wheel", "trackpad"])
def test_a_wheel_and_a_trackpad_zoom_alike(qtbot: QtBot, page: ChartsPage, parts: int) -> None:
    chart = page.sections["proposals"].chart
    steps: list[int] = []
    chart.zoomed.connect(steps.append)
    for turned in (120, 120, -120):
        for _ in range(parts):
            wheel(chart, turned // parts)
        wheel(chart, 0)  # so a gesture of a trackpad begins and ends
    assert steps == [-1, -1, 1]


def test_all_rounds_show_at_the_press_of_a_button(qtbot: QtBot, page: ChartsPage) -> None:
    assert not page.range.scroll_bar.isHidden()
    page.range.all_button.click()
    assert page.range.scroll_bar.isHidden() and page.range.range_label.text().startswith(f"All {len(LONG)} rounds")
    page.range.latest_button.click()
    assert not page.range.scroll_bar.isHidden()
    page.range.scroll_bar.setValue(0)
    assert page.range.range_label.text().startswith("Rounds 1 to ")


def test_a_round_pinned_elsewhere_is_scrolled_into_view(page: ChartsPage) -> None:
    page.cursor_place.pin(Place(0, 5))
    assert page.sections["proposals"].chart.marker.isVisible()
    assert page.sections["proposals"].chart.marker.value() == 6


def test_a_folded_chart_stays_folded_and_costs_nothing(page: ChartsPage) -> None:
    told: list[tuple[str, ...]] = []
    page.folded.connect(told.append)
    page.sections["throughput"].fold.click()
    assert told == [tuple(name for name in CHARTS if name != "throughput")]
    page.refresh()
    assert page.sections["throughput"].is_stale and not page.sections["proposals"].is_stale
    page.sections["throughput"].fold.click()
    assert not page.sections["throughput"].is_stale


def test_titles_open_definitions_and_buttons_what_can_be_done(page: ChartsPage) -> None:
    wanted: list[tuple[str, str]] = []
    page.definition_requested.connect(lambda key, place: wanted.append(("definition", key)))
    page.menu_requested.connect(lambda name, place: wanted.append(("menu", name)))
    page.sections["tau"].title.click()
    page.sections["lengths"].more.click()
    assert wanted == [("definition", "tau_plot"), ("menu", "lengths")]


def test_without_a_measured_baseline_no_line_is_drawn(page: ChartsPage) -> None:
    assert not levels_of(page.sections["throughput"].chart)
    assert "no baseline" in page.sections["throughput"].note.longest_text
    assert not page.measure.isHidden()


@pytest.mark.parametrize("rounds", [[], [make_round(0, [], "a")], story_rounds(rule="block"), LONG * 30])
def test_every_chart_paints_what_there_is(qtbot: QtBot, rounds: list[Round]) -> None:
    indexed = [make_round(index, ["a"] * (index % 4), "b", ["c"], started=60.0 * index) for index in range(len(rounds))]
    page = made(qtbot, indexed if len(rounds) > 200 else rounds)
    page.range.all_button.click()
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
    assert page.range.shown is None and page.range.all_button.isChecked()
    for _ in range(5):
        qtbot.keyClick(chart, Qt.Key.Key_Plus)
    assert page.range.shown == 30
    span = page.range.span()
    assert span.last == len(LONG) and span.room == 30


def test_one_far_longer_draft_leaves_the_other_rounds_readable(qtbot: QtBot) -> None:
    usual = [make_round(index, ["a"] * (index % 3), "b", ["c"] * (4 - index % 3), started=60.0 * index) for index in range(40)]
    usual[7] = make_round(7, ["a"], "b", ["c"] * 63, started=420.0)
    page = made(qtbot, usual)
    chart = page.sections["proposals"].chart
    assert chart.views[0].viewRange()[1][1] < 6
    usual[9] = make_round(9, ["a"] * 30, "b", ["c"], started=540.0)
    assert made(qtbot, usual).sections["proposals"].chart.views[0].viewRange()[1][1] > 31, "what was judged is never cut off"


def test_the_first_round_shows_in_every_chart_as_a_dot(qtbot: QtBot) -> None:
    page = made(qtbot, story_rounds()[:1])
    for name in ("alpha", "tau"):
        assert "o" in [line.opts["symbol"] for line in lines_of(page.sections[name].chart)]
    page = made(qtbot, LONG)
    assert [line.opts["symbol"] for line in lines_of(page.sections["alpha"].chart)] == [None]


def test_a_draft_that_does_not_fit_is_marked_with_its_length(qtbot: QtBot) -> None:
    rounds = [make_round(index, ["a"], "b", ["c"] * 3, started=60.0 * index) for index in range(40)]
    usual = made(qtbot, rounds)
    assert not labels_of(usual.sections["proposals"].chart)
    rounds[7] = make_round(7, ["a"], "b", ["c"] * 54, started=420.0)
    cut = made(qtbot, rounds)
    assert labels_of(cut.sections["proposals"].chart) == ["55"]


def lines_of(chart: Chart) -> list[pg.PlotDataItem]:
    return [item for view in chart.views for item in view.addedItems if isinstance(item, pg.PlotDataItem)]


def levels_of(chart: Chart) -> list[float]:
    """The heights of the reference lines across a chart."""
    every = [item for view in chart.views for item in view.addedItems if isinstance(item, pg.InfiniteLine)]
    return [line.value() for line in every if line.isVisible() and line.angle == 0]


def labels_of(chart: Chart) -> list[str]:
    QApplication.processEvents()
    return [text.toPlainText() for text in chart.label_view.addedItems if text.isVisible()]


@pytest.mark.usefixtures("fonts")
def test_every_chart_has_a_labelled_divider_at_a_change(qtbot: QtBot) -> None:
    page = made(qtbot, mixed_rules())
    page.refresh()
    for name, section in page.sections.items():
        if CHARTS[name].per_round:
            lines = [[item for item in view.addedItems if isinstance(item, pg.InfiniteLine)] for view in section.chart.views]
            shown = [[line.value() for line in panel if line.isVisible() and line.angle == 90] for panel in lines]
            assert shown == [[20.5]] * len(section.chart.views), "between rounds 20 and 21"
            assert labels_of(section.chart) == ["Rejection, N-gram"]
    page = made(qtbot, LONG)
    assert not any(labels_of(section.chart) for section in page.sections.values())


def test_expectations_have_their_own_axis(page: ChartsPage) -> None:
    chart = page.sections["proposals"].chart
    above, strip = chart.views
    curves = lines_of(chart)
    assert len(curves) == 4 and all(curve.getViewBox() is strip for curve in curves)
    assert above.sceneBoundingRect().bottom() <= strip.sceneBoundingRect().top()
    assert above.viewRange()[0] == strip.viewRange()[0], "the same rounds across"
    assert max(float(np.nanmax(curve.yData)) for curve in curves) <= strip.viewRange()[1][1]


@pytest.mark.parametrize("width", [320, 480, 700])
def test_rounds_have_the_same_x_position_in_every_chart(page: ChartsPage, width: int) -> None:
    page.resize(width, 1600)
    QApplication.processEvents()
    per_round = [section.chart for name, section in page.sections.items() if CHARTS[name].per_round]
    ends = {tuple(round(chart.views[0].mapViewToScene(QPointF(place, 0)).x(), 2) for place in (1.0, 60.0)) for chart in per_round}
    assert len(per_round) == 5 and len(ends) == 1


@pytest.mark.usefixtures("fonts")
@pytest.mark.parametrize("width", [320, 400, 480, 700])
def test_no_note_is_cut_off(qtbot: QtBot, width: int) -> None:
    for rounds in (mixed_rules(), story_rounds(rule="block"), [make_round(index, [], "a") for index in range(20)]):
        page = made(qtbot, rounds)
        page.setStyleSheet(stylesheet(themes.DARK, 1.0))
        page.resize(width, 1600)
        page.set_look(themes.DARK, 1.0)
        QApplication.processEvents()
        for section in page.sections.values():
            for note in (section.note, section.readout):
                assert not note.text().endswith("…"), note.longest_text


def test_empty_charts_read_out_no_round(qtbot: QtBot) -> None:
    page = made(qtbot, [make_round(index, [], "a", started=60.0 * index) for index in range(20)])
    chart = page.sections["throughput"].chart
    qtbot.keyClick(chart, Qt.Key.Key_Home)
    qtbot.keyClick(chart, Qt.Key.Key_Return)
    assert page.cursor_place.pin_place == Place(0, 0)
    assert "round 1" in page.sections["throughput"].note.longest_text
    assert page.sections["alpha"].note.longest_text == page.sections["proposals"].note.longest_text == ""


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


def test_any_description_is_drawn_mark_by_mark(qtbot: QtBot) -> None:
    """The drawer knows no particular chart: a made-up one with every kind of mark is drawn, and then another in its place."""
    x, low, high = np.arange(1.0, 5.0), np.full(4, 0.5), np.full(4, 1.5)
    parts = tuple(Part("accepted", fill) for fill in get_args(Fill))
    bars = Bars(x, np.full((4, len(parts)), 0.2), parts, 0.3)
    marks = (
        bars,
        Area(x, low, high, "accent"),
        Whiskers(x, low, high, "dim"),
        Level(1.0, "dim"),
        Line(x, high, "accent", dots=2),
    )
    spec = ChartSpec(integer_axis(0.5, 4.5, 1, 4), (Panel(axis_with_halves(2.0), marks),))
    chart = Chart(replace(CHARTS["tau"], name="toy"))
    qtbot.addWidget(chart)
    chart.set_look(themes.DARK, 1.0)
    chart.show_spec(spec)
    chart.resize(300, 120)
    chart.show()
    qtbot.waitExposed(chart)
    shown = chart.grab().toImage()
    for left_out in range(len(marks)):
        others = (*marks[:left_out], *marks[left_out + 1 :])
        chart.show_spec(replace(spec, panels=(Panel(axis_with_halves(2.0), others),)))
        assert chart.grab().toImage() != shown, f"{marks[left_out]} is painted"
    chart.show_spec(spec)
    assert chart.grab().toImage() == shown


def test_a_chart_has_an_accessible_description(page: ChartsPage) -> None:
    tally = Tally.of(LONG)
    assert f"{tally.summary.alpha:.2f} over the whole answer" in page.sections["alpha"].chart.accessibleDescription()
    assert "1:" in page.sections["positions"].chart.accessibleDescription()
