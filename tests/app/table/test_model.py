"""The table of rounds: what stands in it, how it grows, sorts, is copied and follows the cursor."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from PySide6.QtCore import QEvent, QPoint, Qt
from PySide6.QtGui import QContextMenuEvent
from PySide6.QtTest import QSignalSpy
from PySide6.QtWidgets import QApplication, QMenu
from pytestqt.modeltest import ModelTester
from pytestqt.qtbot import QtBot

from app.look import theme as themes
from app.session.cursor import Cursor, Place, ShownAnswer
from app.session.session import Answer, Session
from app.table.model import COLUMNS, RoundModel, tab_separated
from app.table.page import TablePage
from engine.types import DecodingOptions, Round
from tests.app.fakes import STORY, make_round, story_rounds

TITLES = [column.title for column in COLUMNS]


def answer_of(rounds: list[Round]) -> Answer:
    answer = Answer(options=DecodingOptions(), drafter="builtin-draft", submitted=0.0)
    answer.rounds.extend(rounds)
    return answer


def cell(model: RoundModel, row: int, title: str) -> str:
    text = model.data(model.index(row, TITLES.index(title)))
    assert isinstance(text, str)
    return text


def column(model: RoundModel, title: str) -> list[str]:
    return [cell(model, row, title) for row in range(model.rowCount())]


@pytest.fixture
def open_table(qtbot: QtBot) -> Callable[..., TablePage]:
    def opened(rounds: list[Round], turns: int = 1) -> TablePage:
        session = Session()
        for _ in range(turns):
            session.add_turn("Tell me", DecodingOptions(), "builtin-draft").rounds.extend(rounds)
        cursor = Cursor(QApplication.instance())
        page = TablePage(ShownAnswer(session, cursor, cursor), cursor)
        page.destroyed.connect(cursor.deleteLater)
        qtbot.addWidget(page)
        page.resize(500, 400)
        page.set_look(themes.DARK, 1.0)
        with qtbot.waitActive(page):
            page.show()
        page.refresh()
        QApplication.processEvents()
        return page

    return opened


def test_a_row_has_every_figure_of_its_round(qtbot: QtBot) -> None:
    model = RoundModel()
    model.show_answer(
        answer_of(
            [
                make_round(0, [" a", "\n"], " b", [" x", " y"], total=1234.56, drafter="ngram"),
                make_round(1, [], " c", total=50, staged=True),
            ]
        )
    )
    expected = {
        "Round": "1",
        "Text": " a⏎ b",
        "Emitted": "3",
        "Proposals": "4",
        "Accepted": "2",
        "Rejected": "1",
        "Unjudged": "1",
        "ms": "1,234.6",
        "draft ms": "–",
        "Rows": "5",
        "E match": "0.450",
        "E gumbel": "0.600",
        "E rejection": "0.700",
        "Rule": "Gumbel",
        "Drafter": "N-gram",
        "Position": "40",
    }
    assert {title: cell(model, 0, title) for title in expected} == expected
    assert [cell(model, 1, title) for title in ("draft ms", "verify ms", "judge ms", "other ms", "E match")] == [
        "10.0",
        "35.0",
        "1.5",
        "3.5",
        "–",
    ]


def test_every_column_explains_itself() -> None:
    model = RoundModel()
    for section in range(model.columnCount()):
        assert model.headerData(section, Qt.Orientation.Horizontal)
        assert len(model.headerData(section, Qt.Orientation.Horizontal, Qt.ItemDataRole.ToolTipRole)) > 15


def test_the_model_passes_qts_model_tester(qtmodeltester: ModelTester) -> None:
    model = RoundModel()
    qtmodeltester.check(model)
    rounds = story_rounds(STORY * 3)
    answer = answer_of(rounds[:5])
    for title, order in (("Round", "Ascending"), ("ms", "Descending"), ("Text", "Ascending"), ("draft ms", "Ascending")):
        model.sort(TITLES.index(title), Qt.SortOrder[f"{order}Order"])
        model.show_answer(answer)
        answer.rounds.extend(rounds[len(answer.rounds) : len(answer.rounds) + 7])
        model.show_answer(answer)
        assert model.rowCount() == len(answer.rounds)
    model.show_answer(answer_of(rounds[:2]))
    assert model.rowCount() == 2
    qtmodeltester.check(model)


def test_rounds_come_in_batches(qtbot: QtBot) -> None:
    model = RoundModel()
    rounds = story_rounds(STORY * 3)
    answer = answer_of(rounds[:5])
    model.show_answer(answer)
    spy = QSignalSpy(model.rowsInserted)
    answer.rounds.extend(rounds[5:25])
    model.show_answer(answer)
    model.show_answer(answer)
    assert spy.count() == 1
    assert spy.at(0)[1:] == [5, 24]


def test_sorting_is_by_value_stable_with_missing_values_last() -> None:
    model = RoundModel()
    rounds = [make_round(i, [" a"] * (i % 3), " b", [" x"], total=(70, 9, 100)[i % 3], staged=i % 4 == 0) for i in range(9)]
    model.show_answer(answer_of(rounds))
    model.sort(TITLES.index("ms"))
    assert column(model, "ms") == ["9.0"] * 3 + ["70.0"] * 3 + ["100.0"] * 3
    assert column(model, "Round") == ["2", "5", "8", "1", "4", "7", "3", "6", "9"]
    model.sort(TITLES.index("ms"), Qt.SortOrder.DescendingOrder)
    assert column(model, "Round") == ["3", "6", "9", "1", "4", "7", "2", "5", "8"]
    assert model.headerData(TITLES.index("ms"), Qt.Orientation.Horizontal).endswith("↓")
    for order in (Qt.SortOrder.AscendingOrder, Qt.SortOrder.DescendingOrder):
        model.sort(TITLES.index("draft ms"), order)
        assert column(model, "draft ms")[3:] == ["–"] * 6
    assert all(model.row_of(int(number) - 1) == row for row, number in enumerate(column(model, "Round")))
    model.sort(0, Qt.SortOrder.DescendingOrder)
    assert column(model, "Round") == [str(number) for number in range(9, 0, -1)]
    assert model.row_of(0) == 8
    assert model.row_of(9) is None


def test_a_new_round_is_inserted_in_sort_order() -> None:
    model = RoundModel()
    answer = answer_of([make_round(i, [], " b", total=total) for i, total in enumerate((30, 10, 20))])
    model.show_answer(answer)
    for order, expected in ((Qt.SortOrder.AscendingOrder, [1, 2, 3, 0]), (Qt.SortOrder.DescendingOrder, [4, 0, 3, 2, 1])):
        model.sort(TITLES.index("ms"), order)
        answer.rounds.append(make_round(len(answer.rounds), [], " b", total=25 if len(answer.rounds) == 3 else 40))
        model.show_answer(answer)
        assert [model.round_at(row).index for row in range(model.rowCount())] == expected


def test_selected_rows_are_copied_as_tab_separated_values(qtbot: QtBot, open_table: Callable[..., TablePage]) -> None:
    page = open_table([make_round(i, [" a"], f" b{i}\n", total=12.5) for i in range(5)])
    table = page.table
    table.selectRow(1)
    qtbot.keyClick(table, Qt.Key.Key_Down, Qt.KeyboardModifier.ShiftModifier)
    qtbot.keyClick(table, Qt.Key.Key_C, Qt.KeyboardModifier.ControlModifier)
    lines = QApplication.clipboard().text().splitlines()
    assert lines[0].split("\t") == TITLES
    rows = [dict(zip(TITLES, line.split("\t"), strict=True)) for line in lines[1:]]
    assert [row["Round"] for row in rows] == ["2", "3"]
    assert rows[0]["ms"] == "12.5"
    assert rows[0]["draft ms"] == ""
    assert rows[0]["Text"] == " a b1⏎"
    table.clearSelection()
    page.copy_button.click()
    assert len(QApplication.clipboard().text().splitlines()) == 6, "all rows where none is selected"
    assert tab_separated([]).count("\n") == 1


def test_rows_and_cursor_point_at_each_other(qtbot: QtBot, open_table: Callable[..., TablePage]) -> None:
    page = open_table(story_rounds(STORY * 5), turns=2)
    table, cursor = page.table, page.table.cursor_place
    table.verticalScrollBar().setValue(0)
    middle = table.visualRect(table.rounds.index(3, 0)).center()
    qtbot.mouseMove(table.viewport(), middle)
    assert cursor.place == Place(1, 3)
    QApplication.sendEvent(table.viewport(), QEvent(QEvent.Type.Leave))
    assert cursor.place is None
    qtbot.mouseClick(table.viewport(), Qt.MouseButton.LeftButton, pos=middle)
    assert cursor.pin_place == Place(1, 3)
    cursor.leave()
    cursor.pin(Place(1, 60, 0))
    assert table.currentIndex().row() == 60
    assert table.viewport().rect().contains(table.visualRect(table.currentIndex()).center())
    assert table.rounds.highlighted == 60
    cursor.point(Place(0, 2))
    assert table.rounds.highlighted is None, "another answer's round is not in this table"
    cursor.leave()
    table.setFocus()
    qtbot.keyClick(table, Qt.Key.Key_Down)
    assert cursor.place == Place(1, 61)
    qtbot.keyClick(table, Qt.Key.Key_Return)
    assert cursor.pin_place == Place(1, 61)
    qtbot.keyClick(table, Qt.Key.Key_Return)
    assert cursor.pin_place is None


def test_pointing_finds_its_round_in_a_sorted_table(qtbot: QtBot, open_table: Callable[..., TablePage]) -> None:
    page = open_table(story_rounds(STORY * 2))
    table = page.table
    table.sort_by(TITLES.index("ms"))
    table.sort_by(TITLES.index("ms"))
    assert table.horizontalHeader().sortIndicatorOrder() == Qt.SortOrder.DescendingOrder
    table.cursor_place.pin(Place(0, 7))
    assert table.rounds.round_at(table.currentIndex().row()).index == 7
    qtbot.mouseMove(table.viewport(), QPoint(40, 60))
    assert table.cursor_place.place == Place(0, table.rounds.round_at(table.rowAt(60)).index)


def test_the_newest_round_stays_in_view_unless_the_user_has_scrolled(open_table: Callable[..., TablePage]) -> None:
    rounds = story_rounds(STORY * 5)
    page = open_table(rounds[:40])
    answer, bar = page.table.shown.answer, page.table.verticalScrollBar()
    assert answer is not None
    assert bar.value() == bar.maximum() > 0

    def gain() -> None:
        answer.rounds.append(rounds[len(answer.rounds)])
        page.refresh()
        QApplication.processEvents()

    gain()
    assert bar.value() == bar.maximum()
    bar.setValue(30)
    gain()
    assert bar.value() == 30


def test_the_menu_sorts_by_key(open_table: Callable[..., TablePage]) -> None:
    page = open_table(story_rounds())
    QApplication.sendEvent(page.table, QContextMenuEvent(QContextMenuEvent.Reason.Keyboard, QPoint(10, 10), QPoint(10, 10)))
    menu = page.table.findChild(QMenu)
    assert menu is not None
    words = {action.text(): action for action in menu.actions()}
    by = words["Sort by"].menu()
    assert isinstance(by, QMenu)
    assert [action.text() for action in by.actions()] == TITLES
    by.actions()[TITLES.index("Accepted")].trigger()
    accepted = [int(text) for text in column(page.table.rounds, "Accepted")]
    assert accepted == sorted(accepted)
    menu.close()


def test_an_empty_table_shows_a_note(open_table: Callable[..., TablePage]) -> None:
    page = open_table([])
    assert "appear here" in page.note.text()
    assert not page.copy_button.isEnabled()
