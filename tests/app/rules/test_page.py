"""The page that judges an answer again: what it says, what it lists and marks, and that each round is judged once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from PySide6.QtCore import QPoint, QRect, Qt
from PySide6.QtGui import QColor, QImage
from PySide6.QtWidgets import QApplication, QWidget
from pytestqt.qtbot import QtBot

from app.look import theme as themes
from app.look.marks import MIN_BRACKET_WIDTH
from app.rules import page as page_module
from app.rules.page import EMPTY_NOTE, RulesPage
from app.session.cursor import Cursor, Place, ShownAnswer
from app.session.session import Answer, Session, Turn
from app.session.settings import Settings
from app.window.window import Window
from engine.exports.tables import options_of
from engine.lens.rejudge import rejudge
from engine.lens.rejudge_words import limits, summary
from engine.rounds.trace import read
from engine.types import Round
from tests.app.fakes import FakeEngine

PATH = Path(__file__).parents[2] / "references" / "rejudge" / "gumbel-draft-model.jsonl"
TRACE = read(PATH)
OPTIONS = options_of(TRACE)
Open = Callable[..., Window]


def answer(rounds: int | None = None, state: str = "finished", **options: object) -> Answer:
    made = Answer(options=OPTIONS.replace(**options), drafter="builtin-draft", submitted=0.0, state=state)  # type: ignore[arg-type]
    grow(made, TRACE.rounds[:rounds])
    return made


def grow(made: Answer, rounds: tuple[Round, ...]) -> None:
    for current in rounds:
        made.rounds.append(current)
        made.text.add(current)


@pytest.fixture
def cursor() -> Cursor:
    return Cursor()


@pytest.fixture
def page(qtbot: QtBot, cursor: Cursor) -> RulesPage:
    """The page by itself, on a session that tests fill."""
    made = RulesPage(ShownAnswer(Session(), cursor), cursor)
    made.set_look(themes.DARK, 1.0)
    qtbot.addWidget(made)
    made.resize(420, 700)
    made.show()
    return made


def show(page: RulesPage, *answers: Answer) -> None:
    page.shown.session.turns = [Turn("Tell me.", made) for made in answers]
    page.shown.sync()
    page.refresh()


def wanted(rule: str, gamma: int | None = None) -> list[Place]:
    """The places that change, judged by themselves."""
    judged = rejudge(TRACE.rounds, OPTIONS, rule, gamma)
    return [Place(0, found.round, found.change.spot.at) for found in judged.rounds if found.change is not None]


def listed(page: RulesPage) -> list[Place | None]:
    return [page.list.place_of(page.list.changes.index(row)) for row in range(page.list.changes.rowCount())]


def test_the_summary_is_directly_below_the_controls(page: RulesPage) -> None:
    page.resize(420, 1400)
    show(page)
    QApplication.processEvents()
    assert page.list.isHidden(), "so there is height that nobody needs"
    assert page.headline.geometry().top() - page.keep_marks.geometry().bottom() < 40


def test_the_changes_are_summarised_and_listed(page: RulesPage) -> None:
    show(page, answer())
    judged = rejudge(TRACE.rounds, OPTIONS, "rejection")
    assert [page.headline.text(), *page.details.text().splitlines()] == summary(judged)
    assert page.headline.property("alone") is False, "the finding stands out"
    assert page.notes.text() == " ".join(limits(judged)) and page.notes.isVisible()
    assert listed(page) == wanted("rejection") and len(wanted("rejection")) > 5
    row = page.list.changes.row(0)
    assert (row.sign, row.before, row.token) == ("+", "", "The")
    assert row.description == "rejected; Rejection would have accepted it" and row.figures.startswith("p 0.285   q 0.490")
    assert row.after == "As the last light"


@pytest.mark.usefixtures("fonts")
@pytest.mark.parametrize("width", [320, 380, 474, 560])
def test_no_line_of_the_summary_is_cut_off(page: RulesPage, width: int) -> None:
    show(page, answer())
    page.resize(width, 600)
    for rule in ("rejection", "match"):
        page.rule.buttons[rule].click()
        QApplication.processEvents()
        for label in (page.headline, page.details, page.notes):
            assert label.isHidden() or label.height() >= label.heightForWidth(label.width()), label.text()


@pytest.mark.usefixtures("fonts")
def test_in_a_low_panel_the_page_scrolls_and_nothing_lies_over_anything(page: RulesPage) -> None:
    show(page, answer())
    page.resize(474, 260)
    QApplication.processEvents()
    parts = [page.keep_marks, page.headline, page.details, page.notes, page.list]
    places = [part.geometry() for part in parts]
    assert all(above.bottom() < below.top() for above, below in pairwise(places))
    assert all(label.height() >= label.heightForWidth(label.width()) for label in parts[1:4])
    assert places[-1].height() >= 2 * page.list.sizeHintForRow(0) > 0
    assert page.area.verticalScrollBar().maximum() > 0
    page.resize(474, 900)
    QApplication.processEvents()
    assert page.area.verticalScrollBar().maximum() == 0


def test_another_rule_and_fewer_proposals_are_judged_at_once(page: RulesPage) -> None:
    show(page, answer())
    page.rule.buttons["match"].click()
    assert listed(page) == wanted("match") and "Match would have proposed" in page.list.changes.row(0).description
    assert page.notes.text() == "After the first change in a round, the drafts are unknown."
    page.gamma.setCurrentIndex(page.gamma.findData(1))
    page.gamma.activated.emit(page.gamma.currentIndex())
    assert listed(page) == wanted("match", 1)
    assert [page.gamma.itemData(index) for index in range(page.gamma.count())] == [None, 1, 2, 3]
    page.rule.buttons["gumbel"].click()
    assert not listed(page) and page.list.isHidden() and "12 instead of 13" in page.headline.text()


def test_the_rule_that_did_not_judge_is_offered_until_one_is_chosen(page: RulesPage) -> None:
    show(page, answer(rule="rejection"))
    assert page.rule.rule == "gumbel"
    page.rule.buttons["match"].click()
    show(page, answer())
    assert page.rule.rule == "match"


def test_a_growing_answer_is_judged_round_by_round(page: RulesPage, monkeypatch: pytest.MonkeyPatch) -> None:
    judged: list[int] = []
    add = page_module.Rejudge.add
    monkeypatch.setattr(page_module.Rejudge, "add", lambda self, current: (judged.append(current.index), add(self, current))[1])
    made = answer(0, "generating")
    show(page, made)
    assert page.headline.text() == EMPTY_NOTE
    resets: list[int] = []
    page.list.changes.modelReset.connect(lambda: resets.append(1))
    for current in TRACE.rounds:
        grow(made, (current,))
        page.refresh()
    assert judged == list(range(len(TRACE.rounds))) and not resets
    assert listed(page) == wanted("rejection")


def test_a_shortened_answer_is_judged_again(page: RulesPage) -> None:
    made = answer()
    show(page, made)
    del made.rounds[10:]
    page.refresh()
    assert listed(page) == [place for place in wanted("rejection") if place.round < 10]


@pytest.mark.parametrize(
    ("options", "said"),
    [({"temperature": 0}, "At temperature 0"), ({"seed": None}, "seed of this answer is not recorded")],
)
def test_answers_that_cannot_be_judged_again_are_explained(page: RulesPage, options: dict[str, object], said: str) -> None:
    show(page, answer(**options))
    assert said in page.headline.text() and not listed(page) and page.list.isHidden()


def test_rounds_without_what_the_rule_compares_are_named_as_the_reason(page: RulesPage) -> None:
    made = answer(0)
    bare = (
        replace(current, proposals=tuple(replace(one, q=None, p=None) for one in current.proposals)) for current in TRACE.rounds
    )
    grow(made, tuple(bare))
    show(page, made)
    assert page.headline.text().startswith("Analysis was off") and not page.notes.isVisible()


def test_an_empty_conversation_shows_a_note(page: RulesPage) -> None:
    show(page)
    assert page.headline.text() == EMPTY_NOTE and page.focusProxy() is page.rule.buttons["rejection"]


def test_marks_show_while_the_page_does_or_if_kept(page: RulesPage, cursor: Cursor) -> None:
    show(page, answer())
    assert list(cursor.marks.values()) == wanted("rejection")
    page.hide()
    assert not cursor.marks
    page.keep_marks.setChecked(True)
    assert list(cursor.marks.values()) == wanted("rejection")
    page.keep_marks.setChecked(False)
    assert not cursor.marks
    page.show()
    page.rule.buttons["match"].click()
    assert list(cursor.marks.values()) == wanted("match")
    show(page)
    assert not cursor.marks


def test_a_click_pins_the_place_and_a_pin_selects_the_row(page: RulesPage, cursor: Cursor, qtbot: QtBot) -> None:
    show(page, answer())
    places, rows = wanted("rejection"), page.list
    rectangle = rows.visualRect(rows.changes.index(1))
    qtbot.mouseClick(rows.viewport(), Qt.MouseButton.LeftButton, pos=rectangle.center())
    assert cursor.pin_place == places[1]
    cursor.pin(places[3])
    assert rows.currentIndex().row() == 3 and rows.selectionModel().isRowSelected(3)
    cursor.pin(Place(0, places[3].round, emitted=0))
    assert not rows.selectionModel().hasSelection()
    rows.setFocus()
    qtbot.keyClick(rows, Qt.Key.Key_Down)
    assert cursor.place == places[4]
    qtbot.keyClick(rows, Qt.Key.Key_Return)
    assert cursor.pin_place == places[4]
    qtbot.keyClick(rows, Qt.Key.Key_Return)
    assert cursor.pin_place is None


def test_another_turn_is_shown_with_its_own_places(page: RulesPage, cursor: Cursor) -> None:
    show(page, answer(), answer(rounds=12))
    assert {place.turn for place in cursor.marks.values()} == {1}
    page.shown.choose(0)
    page.refresh()
    assert listed(page) == wanted("rejection") and {place.turn for place in cursor.marks.values()} == {0}


def test_a_row_has_accessible_text(page: RulesPage) -> None:
    show(page, answer())
    index = page.list.changes.index(0)
    spoken = index.data(Qt.ItemDataRole.AccessibleTextRole)
    assert spoken.startswith("“The” rejected; Rejection would have accepted it. p 0.285")


# In the window


@pytest.fixture
def open_window(qtbot: QtBot, home: Path) -> Iterator[Open]:
    windows: list[Window] = []

    def opened(**settings: object) -> Window:
        window = Window(FakeEngine(), Settings(appearance="dark", **settings), None)  # type: ignore[arg-type]
        qtbot.addWidget(window)
        windows.append(window)
        window.resize(1280, 800)
        with qtbot.waitActive(window):
            window.show()
        window.replay_controller.open(PATH)
        window.replay_controller.go_to(10_000)
        QApplication.processEvents()
        window.panel.refresh()
        return window

    yield opened
    for window in windows:
        window.close()


def picture(widget: QWidget) -> QImage:
    image = QImage(widget.size(), QImage.Format.Format_RGB32)
    widget.render(image, QPoint())
    return image


def differing(before: QImage, after: QImage) -> list[QPoint]:
    rows = (np.frombuffer(image.constBits(), np.uint32).reshape(image.height(), image.width()) for image in (before, after))
    return [QPoint(int(x), int(y)) for y, x in np.argwhere(np.not_equal(*rows))]


def test_changed_tokens_have_brackets_in_the_text(qtbot: QtBot, open_window: Open) -> None:
    window = open_window(panel_page="rules")
    transcript = window.transcript
    qtbot.waitUntil(lambda: transcript.verticalScrollBar().maximum() == 0)  # the note about the beginning has made room
    marked = picture(transcript.viewport())
    window.panel.show_page("table")
    found = differing(picture(transcript.viewport()), marked)
    assert found
    boxes = [box for place in wanted("rejection") for box in transcript.pointing.boxes(place)]
    reach = [box.adjusted(-MIN_BRACKET_WIDTH, -5, MIN_BRACKET_WIDTH, 0) for box in boxes]
    assert all(any(area.contains(point.toPointF()) for area in reach) for point in found)
    assert all(any(area.contains(point.toPointF()) for point in found) for area in reach)
    assert QColor(transcript.theme.text) == marked.pixelColor(found[0])


def test_kept_marks_are_shown_over_the_rounds_too(open_window: Open) -> None:
    window = open_window(panel_page="rules")
    window.panel.rules.keep_marks.setChecked(True)
    window.panel.show_page("rounds")
    lanes = window.panel.rounds.lanes
    assert dict(window.cursor_place.marks) == {place.round: place for place in wanted("rejection")}
    marked = picture(lanes.viewport())
    window.panel.rules.keep_marks.setChecked(False)
    assert differing(picture(lanes.viewport()), marked)


def test_the_page_is_reached_by_key_and_from_the_menu(qtbot: QtBot, open_window: Open) -> None:
    window = open_window(side_panel=False, ghosts="none")
    qtbot.keyClick(window, Qt.Key.Key_4, Qt.KeyboardModifier.ControlModifier)
    changes, card = window.panel.rules.list, window.verdicts.card
    assert window.panel.page == "rules" and changes.hasFocus()
    assert window.settings.panel_page == "rules"
    assert window.cursor_place.place is None, "opening the page lays no card over the conversation"
    hidden = (place for place in wanted("rejection") if window.transcript.pointing.area(place).isEmpty())
    place = next(hidden)
    changes.setCurrentIndex(changes.changes.index(wanted("rejection").index(place)))
    qtbot.keyClick(changes, Qt.Key.Key_Down)
    assert window.cursor_place.place == place

    def panel() -> QRect:
        return QRect(window.panel.mapTo(window, QPoint(0, 0)), window.panel.size())

    qtbot.waitUntil(lambda: card.isVisible() and card.geometry().right() > panel().left() - 40)
    assert not card.geometry().intersects(panel()), "what the keys go through stays in sight"
    window.transcript.setFocus()
    assert window.cursor_place.place is None
    qtbot.waitUntil(card.isHidden)
