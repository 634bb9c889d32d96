"""The lanes under the hands of a person: pointing, pinning, scrolling, zooming, by mouse and by key."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtCore import QEvent, QPoint, QPointF, QRectF, Qt
from PySide6.QtGui import QAccessible, QColor, QImage, QPainter, QWheelEvent
from PySide6.QtTest import QSignalSpy
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.conversation import screen_reader
from app.lanes.geometry import MAX_ZOOM, MIN_ZOOM, UNTIMED_NOTE, LaneScale, time_text
from app.lanes.lanes import STEPS_NOTE, Lanes
from app.lanes.page import LanesPage
from app.lanes.painter import Lane, LanePainter
from app.look import theme as themes
from app.session.cursor import Cursor, Place, ShownAnswer
from app.session.session import NO_ROUNDS_YET, Answer, Session
from engine.lens.lane_chips import Chip, size_of
from engine.rounds.trace import read
from engine.types import RULES, DecodingOptions, Round
from tests.app.conversation.showing import gain
from tests.app.driving import Open as OpenWindow
from tests.app.driving import wait_for_answer
from tests.app.fakes import STORY, make_round, story_rounds
from tests.traces import write_trace
from tests.trees import SECOND_CHOICE, TO_A_LEAF, tree_round

Open = Callable[..., Lanes]


def answer_of(rounds: Sequence[Round]) -> Answer:
    return gain(Answer(options=DecodingOptions(), drafter="builtin-draft", submitted=0.0), rounds)


@pytest.fixture
def open_lanes(qtbot: QtBot) -> Open:
    """Lanes of 480 x 520 pixels with 50 rounds, unless a test says otherwise."""

    def opened(rounds: Sequence[Round] | Answer | None = None, turn: int = 0) -> Lanes:
        lanes = Lanes(Cursor())
        qtbot.addWidget(lanes)
        lanes.resize(480, 520)
        lanes.set_look(themes.DARK, 1.0)
        with qtbot.waitActive(lanes):
            lanes.show()
        shown = story_rounds(STORY * 10)[:50] if rounds is None else rounds
        lanes.show_answer(shown if isinstance(shown, Answer) else answer_of(shown), turn)
        return lanes

    return opened


def middle_of(lanes: Lanes, index: int, slot: int) -> QPoint:
    """A point on a chip."""
    field = lanes.field
    chip = field.chips(index)[slot]
    return QPointF(
        field.start_of(index) + (chip.column + 0.4) * field.scale.slot_in(size_of(field.rounds[index])[0]),
        field.top_of(index) + field.scale.chip_top + field.scale.chip / 2 + chip.row * field.scale.stack,
    ).toPoint()


def wheel(lanes: Lanes, turned: int, modifiers: Qt.KeyboardModifier = Qt.KeyboardModifier.NoModifier) -> None:
    at = QPointF(200, 200)
    event = QWheelEvent(
        at,
        lanes.mapToGlobal(at),
        QPoint(),
        QPoint(0, turned),
        Qt.MouseButton.NoButton,
        modifiers,
        Qt.ScrollPhase.NoScrollPhase,
        False,
    )
    QApplication.sendEvent(lanes.viewport(), event)


def test_pointing_at_a_chip_points_the_cursor_at_its_token(qtbot: QtBot, open_lanes: Open) -> None:
    lanes = open_lanes([make_round(0, [" a"], " b", [" x", " y"]), make_round(1, [" c"], " d")], turn=2)
    cursor = lanes.cursor_place
    for index, slot, place in (
        (0, 0, Place(2, 0, 0)),
        (0, 2, Place(2, 0, 2)),
        (0, 3, Place(2, 0, None, 1)),
        (1, 1, Place(2, 1, None, 1)),
    ):
        qtbot.mouseMove(lanes.viewport(), middle_of(lanes, index, slot))
        assert cursor.place == place
    qtbot.mouseMove(lanes.viewport(), QPoint(5, lanes.field.top_of(1) + 5))
    assert cursor.place == Place(2, 1)
    qtbot.mouseMove(lanes.viewport(), QPoint(5, 400))
    assert cursor.place is None


def test_a_click_pins_and_a_second_one_unpins(qtbot: QtBot, open_lanes: Open) -> None:
    lanes = open_lanes([make_round(0, [" a"], " b", [" x", " y"])])
    for pinned in (Place(0, 0, 1), None):
        qtbot.mouseClick(lanes.viewport(), Qt.MouseButton.LeftButton, pos=middle_of(lanes, 0, 1))
        assert lanes.cursor_place.pin_place == pinned


def test_leaving_the_lanes_points_at_nothing(qtbot: QtBot, open_lanes: Open) -> None:
    lanes = open_lanes()
    lanes.follow()
    qtbot.mouseMove(lanes.viewport(), middle_of(lanes, 45, 0))
    assert lanes.cursor_place.place is not None
    qtbot.mouseMove(lanes.viewport(), QPoint(-5, -5))
    QApplication.sendEvent(lanes.viewport(), QEvent(QEvent.Type.Leave))
    assert lanes.cursor_place.place is None


KEYS = {
    "<": Qt.Key.Key_Left,
    ">": Qt.Key.Key_Right,
    "^": Qt.Key.Key_Up,
    "v": Qt.Key.Key_Down,
    "H": Qt.Key.Key_Home,
    "E": Qt.Key.Key_End,
    "R": Qt.Key.Key_Return,
}


def walk(qtbot: QtBot, lanes: Lanes, path: str) -> list[Place | None]:
    """Presses the keys of a path; returns the place pointed at after each."""
    found = []
    lanes.setFocus()
    for step in path:
        qtbot.keyClick(lanes, KEYS[step])
        found.append(lanes.cursor_place.place)
    return found


def test_arrow_keys_walk_from_round_to_round_and_from_token_to_token(qtbot: QtBot, open_lanes: Open) -> None:
    lanes = open_lanes([make_round(i, [" a"] * (i % 3), " b", [" x"]) for i in range(6)])
    assert walk(qtbot, lanes, "Hv>") == [Place(0, 0), Place(0, 1), Place(0, 1, 0)]
    assert walk(qtbot, lanes, ">>>")[1:] == [Place(0, 1, None, 1)] * 2, "it stops at the last token"
    assert walk(qtbot, lanes, "vv^") == [Place(0, 2, 2), Place(0, 3, None, 0), Place(0, 2, 2)], "down keeps to the column"
    assert walk(qtbot, lanes, "<<<<")[-2:] == [Place(0, 2)] * 2
    assert walk(qtbot, lanes, "EvR") == [Place(0, 5)] * 3
    assert lanes.cursor_place.pin_place == Place(0, 5)
    assert walk(qtbot, lanes, "^") == [Place(0, 4)]
    lanes.clearFocus()
    assert lanes.cursor_place.place == Place(0, 5), "what a key pointed at is left with the lanes; the pinned place stays"


def test_a_place_pinned_elsewhere_is_scrolled_to_and_one_pointed_at_is_not(open_lanes: Open) -> None:
    lanes = open_lanes()
    assert lanes.is_following
    lanes.cursor_place.point(Place(0, 2, 0))
    assert lanes.is_following
    lanes.cursor_place.pin(Place(0, 2, 0))
    assert not lanes.is_following
    assert 0 <= lanes.field.top_of(2) <= lanes.field.height - lanes.field.scale.row
    before = lanes.field.y
    lanes.cursor_place.pin(Place(1, 40))
    assert lanes.field.y == before, "another turn is not in these lanes"


def test_new_rounds_are_followed_until_the_user_scrolls_away(qtbot: QtBot, open_lanes: Open) -> None:
    rounds = story_rounds(STORY * 20)
    answer = answer_of(rounds[:50])
    lanes = open_lanes(answer)
    bar = lanes.verticalScrollBar()

    def go_on() -> None:
        gain(answer, [rounds[len(answer.rounds)]])
        lanes.show_answer(answer, 0)

    go_on()
    assert bar.value() == bar.maximum() > 0
    assert not lanes.follow_button.isVisible()
    wheel(lanes, 240)
    away = bar.value()
    go_on()
    assert bar.value() == away < bar.maximum()
    assert lanes.follow_button.isVisible()
    qtbot.mouseClick(lanes.follow_button, Qt.MouseButton.LeftButton)
    go_on()
    assert bar.value() == bar.maximum()
    assert not lanes.follow_button.isVisible()


def test_zooming_keeps_what_is_under_the_pointer(open_lanes: Open) -> None:
    lanes = open_lanes()
    lanes.verticalScrollBar().setValue(300)
    lanes.set_zoom(4)
    lanes.horizontalScrollBar().setValue(200)
    field = lanes.field
    lane = (200 + field.y) // field.scale.row
    time = (200 - field.gutter + field.x) / field.scale.per_ms
    wheel(lanes, 120, Qt.KeyboardModifier.ControlModifier)
    assert lanes.zoom == pytest.approx(5)
    assert (200 + field.y) // field.scale.row == lane
    assert (200 - field.gutter + field.x) / field.scale.per_ms == pytest.approx(time, abs=1)


def test_zoom_has_limits_keys_and_a_way_back(qtbot: QtBot, open_lanes: Open) -> None:
    lanes = open_lanes()
    lanes.setFocus()
    zoomed = QSignalSpy(lanes.zoomed)
    for key, limit in ((Qt.Key.Key_Plus, MAX_ZOOM), (Qt.Key.Key_Minus, MIN_ZOOM)):
        for _ in range(60):
            qtbot.keyClick(lanes, key)
        assert lanes.zoom == limit
        lanes.grab()
    qtbot.keyClick(lanes, Qt.Key.Key_0)
    assert lanes.zoom == 1
    assert zoomed.count() < 60, "a limit that is reached is not reached again"


def test_only_visible_lanes_are_painted_and_a_highlight_repaints_one(
    open_lanes: Open, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    lanes = open_lanes(story_rounds(STORY * 60))
    assert lanes.field.count > 900
    QApplication.processEvents()
    painted: list[int] = []
    monkeypatch.setattr(LanePainter, "draw_lane", lambda self, painter, lane, scale: painted.append(lane.round.index))
    lanes.viewport().repaint()
    assert len(painted) <= 520 // lanes.field.scale.row + 2
    assert painted[-1] == lanes.field.count - 1
    painted.clear()
    lanes.cursor_place.point(Place(0, lanes.field.count - 3, 0))
    qtbot.waitUntil(lambda: bool(painted))
    assert set(painted) <= set(range(lanes.field.count - 4, lanes.field.count - 1))


def test_a_new_round_repaints_at_most_two_lanes(open_lanes: Open, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch) -> None:
    rounds = story_rounds(STORY * 20)
    answer = answer_of(rounds[:50])
    lanes = open_lanes(answer)
    QApplication.processEvents()
    painted: list[int] = []
    paint = LanePainter.draw_lane

    def recording(self: LanePainter, painter: QPainter, lane: Lane, scale: LaneScale) -> None:
        painted.append(lane.round.index)
        paint(self, painter, lane, scale)

    monkeypatch.setattr(LanePainter, "draw_lane", recording)
    for index in range(50, 53):
        painted.clear()
        gain(answer, [rounds[index]])
        lanes.show_answer(answer, 0)
        qtbot.waitUntil(lambda: bool(painted))
        assert index in painted
        assert len(set(painted)) <= 4
    screen = lanes.screen().grabWindow(lanes.winId()).toImage()
    assert screen == lanes.grab().toImage().convertToFormat(screen.format())


def test_another_answer_starts_at_its_end_and_no_answer_shows_a_note(qtbot: QtBot, open_lanes: Open) -> None:
    lanes = open_lanes()
    lanes.verticalScrollBar().setValue(0)
    lanes.show_answer(answer_of(story_rounds(STORY * 5)), 1)
    assert lanes.is_following
    assert lanes.verticalScrollBar().value() == lanes.verticalScrollBar().maximum()
    lanes.show_answer(None, 0)
    assert lanes.accessible_text() == NO_ROUNDS_YET
    lanes.setFocus()
    for key in (Qt.Key.Key_Down, Qt.Key.Key_Right, Qt.Key.Key_End, Qt.Key.Key_Return):
        qtbot.keyClick(lanes, key)
    assert lanes.cursor_place.place is None
    assert not lanes.grab().isNull()


def test_the_highlighted_place_has_accessible_text(open_lanes: Open) -> None:
    screen_reader.install()
    lanes = open_lanes([make_round(0, [" a"], " b", [" x", " y"])])
    interface = QAccessible.queryAccessibleInterface(lanes)
    assert interface.role() == QAccessible.Role.List
    assert interface.text(QAccessible.Text.Name) == "Rounds"
    assert "Round 1, Gumbel" in interface.text(QAccessible.Text.Value)
    lanes.cursor_place.point(Place(0, 0, 1))
    assert interface.text(QAccessible.Text.Value) == "“x” rejected, proposal 2 of 3, round 1"


def test_the_time_of_a_round_is_explained_beside_its_chips(open_lanes: Open) -> None:
    lanes = open_lanes([make_round(0, [" a"], " b", [" x"], total=100, staged=True), make_round(1, [], " c", total=40)])
    field = lanes.field
    on_bar = QPointF(60, field.top_of(0) + field.scale.row - 2)
    timed, untimed = (lanes.explanation_at(on_bar + QPointF(0, row * field.scale.row)) for row in (0, 1))
    assert "verify 70.0 ms" in timed and STEPS_NOTE in timed and UNTIMED_NOTE not in timed
    assert time_text(field.rounds[1]) in untimed and UNTIMED_NOTE in untimed
    assert lanes.explanation_at(QPointF(middle_of(lanes, 0, 0))) == ""


@pytest.mark.parametrize("theme", [themes.DARK, themes.LIGHT], ids=lambda theme: theme.name)
def test_measured_and_unmeasured_rounds_look_different(open_lanes: Open, theme: themes.Theme) -> None:
    lanes = open_lanes([make_round(0, [" a"], " b", total=100, staged=True), make_round(1, [" a"], " b", total=100)])
    lanes.set_look(theme, 1.0)
    image = lanes.viewport().grab().toImage()
    field = lanes.field
    rows = []
    for index in (0, 1):
        y = round(field.top_of(index) + field.scale.bar_top + field.scale.bar / 2)
        rows.append([image.pixelColor(round(field.gutter + ms * field.scale.per_ms), y).name() for ms in (10, 50, 91, 97)])
    assert rows[0] == [theme.time_draft, theme.time_verify, theme.time_judge, theme.time_other]
    assert len(set(rows[1])) == 1
    assert rows[1][0] not in rows[0]
    inks = []
    for index in (0, 1):
        x, top = round(field.gutter + 50 * field.scale.per_ms), field.top_of(index) + field.scale.bar_top
        shades = [image.pixelColor(x, round(top + y)).name() for y in range(round(field.scale.bar))]
        inks.append(sum(shade != theme.panel for shade in shades))
    assert inks[0] == field.scale.bar > inks[1] == 2, "a bar, and a thin line"


@pytest.mark.parametrize("zoom", [MIN_ZOOM, 1.0, MAX_ZOOM])
def test_a_divider_survives_the_repaint_of_one_lane(qtbot: QtBot, open_lanes: Open, zoom: float) -> None:
    rounds = [replace(round_, rule="gumbel" if round_.index < 8 else "rejection") for round_ in story_rounds(STORY * 2)[:16]]
    lanes = open_lanes(rounds)
    lanes.set_zoom(zoom)
    lanes.verticalScrollBar().setValue(lanes.field.offset_to_show(8))
    QApplication.processEvents()
    look, field = LanePainter(themes.DARK, 1.0), lanes.field
    top, colour = field.top_of(8), themes.DARK.rule("rejection")
    area = look.divider_area("Rejection from here", top, field.width - 4)

    def ink() -> tuple[str, int]:
        picture = lanes.viewport().grab().toImage()
        places = [(x, y) for x in range(*span(area.left(), area.right())) for y in range(*span(top - 9, top))]
        inside = [picture.pixelColor(x, y).name() for x, y in places]
        return picture.pixelColor(3, top).name(), sum(shade != themes.DARK.panel for shade in inside)

    def span(low: float, high: float) -> tuple[int, int]:
        return round(low) + 1, round(high) - 1

    line, letters = ink()
    assert line == colour and letters > 20
    lanes.viewport().repaint(0, field.top_of(7), lanes.viewport().width(), field.scale.row)
    assert ink() == (line, letters)


@pytest.mark.usefixtures("fonts")
def test_axis_labels_do_not_overlap_the_focus_frame() -> None:
    image = QImage(200, 24, QImage.Format.Format_RGB32)
    painter = QPainter(image)
    LanePainter(themes.LIGHT, 1.0).draw_axis(painter, QRectF(image.rect()), [(0.0, "0.0 s"), (199.0, "1.0 s")])
    painter.end()
    panel = QColor(themes.LIGHT.panel)
    inked = [x for x in range(200) if any(image.pixelColor(x, y) != panel for y in range(5, 24))]
    assert inked and inked[0] >= 4 and inked[-1] <= 195


def test_lanes_under_one_rule_have_no_divider(open_lanes: Open) -> None:
    lanes = open_lanes()
    picture = lanes.viewport().grab().toImage()
    colours = {picture.pixelColor(3, y).name() for y in range(picture.height())}
    assert not colours & {themes.DARK.rule(rule) for rule in RULES}


@pytest.mark.usefixtures("fonts")
@pytest.mark.parametrize("text", ["When", "mmm", "and", "W"])
def test_a_chip_has_at_least_the_first_letter_of_its_token(text: str) -> None:
    def painted(words: str) -> bytes:
        image = QImage(26, 20, QImage.Format.Format_RGB32)
        image.fill(QColor("white"))
        painter = QPainter(image)
        LanePainter(themes.LIGHT, 1.0).draw_chip(painter, Chip("unjudged", words, 0), QRectF(0.5, 0.5, 25, 19), is_readable=True)
        painter.end()
        return bytes(image.constBits())

    assert painted(text) != painted("")


TREES = [make_round(0, [" a"], " b", [" x"]), replace(SECOND_CHOICE, index=1), make_round(2, [" c"], " d")]
"""Between two chains a tree of three rows:

    a (choice 2)    own
    c (choice 1)    b (rejected)    f, which follows b
                    d
                    e, which follows c
"""


def test_a_lane_is_as_high_as_its_tree_and_every_choice_can_be_pointed_at(qtbot: QtBot, open_lanes: Open) -> None:
    lanes = open_lanes(TREES)
    field = lanes.field
    heights = [field.top_of(index + 1) - field.top_of(index) for index in range(2)]
    assert heights[0] == field.scale.row and heights[1] == field.height_of(1) == field.scale.row + 3 * field.scale.stack
    for index, round_ in enumerate(TREES):
        for slot, chip in enumerate(field.chips(index)):
            qtbot.mouseMove(lanes.viewport(), middle_of(lanes, index, slot))
            assert lanes.cursor_place.place == Place(0, index, chip.proposal, chip.emitted), (round_, chip)
    beside = QPoint(middle_of(lanes, 1, 5).x(), middle_of(lanes, 1, 4).y())
    qtbot.mouseMove(lanes.viewport(), beside)
    assert lanes.cursor_place.place == Place(0, 1), "an empty place belongs to the round"


def test_arrow_keys_walk_through_a_tree_and_on_to_the_next_round(qtbot: QtBot, open_lanes: Open) -> None:
    lanes = open_lanes(TREES)
    walk(qtbot, lanes, "H")
    assert walk(qtbot, lanes, ">v") == [Place(0, 0, 0), Place(0, 1, 0)], "into the text of the tree"
    assert walk(qtbot, lanes, "v^") == [Place(0, 1, 2), Place(0, 1, 0)], "the other choice for the position"
    assert walk(qtbot, lanes, ">vvv") == [Place(0, 1, None, 1), Place(0, 1, 1), Place(0, 1, 3), Place(0, 1, 4)]
    assert walk(qtbot, lanes, "<") == [Place(0, 1, 2)], "to the left is what it follows"
    assert walk(qtbot, lanes, ">^^>>") == [Place(0, 1, 4), Place(0, 1, 3), Place(0, 1, 1), Place(0, 1, 5), Place(0, 1, 5)]
    assert walk(qtbot, lanes, "v^") == [Place(0, 2, None, 1), Place(0, 1, None, 1)], "below the last choice comes the next round"
    assert walk(qtbot, lanes, "^") == [Place(0, 0, None, 1)], "and above the first the one before"
    walk(qtbot, lanes, "v<")
    assert lanes.accessible_text() == "“a” accepted, choice 2 of 2 at depth 1, round 2"


def test_a_choice_that_was_not_reached_has_a_solid_outline_in_the_colour_of_accepted_tokens(open_lanes: Open) -> None:
    made = tree_round((-1, 0, "accepted"), (0, 0, "accepted"), (-1, 1, "unjudged"), (2, 0, "unjudged"), (2, 1, "unjudged"))
    proposals = tuple(replace(token, id=made.proposals[1].id if at == 3 else token.id) for at, token in enumerate(made.proposals))
    lanes = open_lanes([replace(made, proposals=proposals)])
    picture = lanes.viewport().grab().toImage()

    def outline(slot: int) -> int:
        at, half = middle_of(lanes, 0, slot), round(lanes.field.scale.chip / 2)
        row = [picture.pixelColor(at.x() + x, at.y() + y) for x in range(-12, 12) for y in range(-half - 1, -half + 3)]
        accepted = QColor(themes.DARK.accepted)
        return sum(abs(shade.green() - accepted.green()) + abs(shade.red() - accepted.red()) < 30 for shade in row)

    assert outline(3) >= 20 and outline(4) == 0


def test_trees_far_down_are_found_and_scrolled_to(open_lanes: Open) -> None:
    rounds = [replace(SECOND_CHOICE if index % 2 else TREES[0], index=index) for index in range(400)]
    lanes = open_lanes(rounds)
    field = lanes.field
    assert lanes.verticalScrollBar().value() == field.total_height - int(field.height)
    lanes.cursor_place.pin(Place(0, 301, 0))
    assert 0 <= field.top_of(301) <= field.height - field.height_of(301)
    seen = field.lanes_between(0, round(field.height))
    assert 301 in seen and len(seen) < 20
    for index in seen:
        inside = field.top_of(index) + 1
        assert not 0 <= inside < field.height or field.lane_at(inside)[0] == index
    lanes.set_zoom(2, QPointF(100, 200))
    assert lanes.field.lane_at(200)[0] in seen
    lanes.grab()


def page_of(qtbot: QtBot, rounds: Sequence[Round], chains: str = "") -> LanesPage:
    """The page of the lanes with an answer."""
    session, cursor = Session(), Cursor()
    answer = session.add_turn("A question.", DecodingOptions(), "head")
    answer.chains = chains
    gain(answer, rounds)
    page = LanesPage(ShownAnswer(session, cursor), cursor)
    qtbot.addWidget(page)
    page.set_look(themes.DARK, 1.0)
    page.refresh()
    page.show()
    return page


@pytest.mark.parametrize("reason", ["Block judges the proposals of a round as one chain, so no trees are drafted.", ""])
def test_the_reason_for_chains_stands_above_the_lanes(qtbot: QtBot, reason: str) -> None:
    page = page_of(qtbot, story_rounds(), reason)
    assert (page.chains.text(), page.chains.isVisible()) == (reason, bool(reason))


@pytest.mark.parametrize(("rounds", "shown"), [((SECOND_CHOICE, replace(TO_A_LEAF, index=1)), True), (story_rounds(), False)])
def test_the_key_of_trees_stands_below_lanes_with_trees_only(qtbot: QtBot, rounds: Sequence[Round], shown: bool) -> None:
    assert page_of(qtbot, rounds).tree_key.isVisible() == shown


def test_a_replay_of_trees_has_the_same_lanes_as_the_answer(qtbot: QtBot, open_window: OpenWindow, tmp_path: Path) -> None:
    window, engine = open_window()
    engine.rounds = [replace(SECOND_CHOICE, index=0), replace(TO_A_LEAF, index=1), replace(TREES[0], index=2, finish="eos")]
    window.send("Tell me a story.")
    wait_for_answer(qtbot, window)
    field = window.panel.rounds.lanes.field
    window.panel.refresh()
    live = [(field.rows_of(index), field.chips(index)) for index in range(field.count)]
    assert [rows for rows, _ in live] == [4, 3, 1]
    window.replay_controller.show(read(write_trace(tmp_path / "trees.jsonl", engine.rounds)))
    window.replay_controller.go_to(2)
    window.panel.refresh()
    assert [(field.rows_of(index), field.chips(index)) for index in range(field.count)] == live[:2]
    window.replay_controller.go_to(3)
    window.panel.refresh()
    assert [(field.rows_of(index), field.chips(index)) for index in range(field.count)] == live
