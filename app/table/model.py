"""The table model of an answer's rounds: one row per round, sortable, and copyable into any spreadsheet."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from PySide6.QtCore import QAbstractTableModel, QModelIndex, QObject, QPersistentModelIndex, Qt
from PySide6.QtGui import QColor

from app.look.wording import RULE_TITLES, drafter_title, number
from app.session.session import Answer
from engine.lens.pieces import visible
from engine.rounds.metrics import mean_expected
from engine.types import EXPECTED_RULES, Round, Rule

Value = int | float | str | None
Index = QModelIndex | QPersistentModelIndex
Role = Qt.ItemDataRole
LEFT = int(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter)
RIGHT = int(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
ROOT_INDEX = QModelIndex()


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column with one figure of each round.

    Attributes:
        value: returns the value for sorting and copying; None if a round has none.
        decimals: number of decimals shown; None shows a number as it is.
        sample: a text as wide as the column.
    """

    title: str
    explanation: str
    value: Callable[[Round], Value]
    sample: str
    decimals: int | None = None

    def text(self, round_: Round) -> str:
        """Returns the displayed text."""
        value = self.value(round_)
        if isinstance(value, str):
            return value
        if self.decimals is not None:
            return number(value, self.decimals)
        return "–" if value is None else f"{value:,}"


def _time(part: str) -> Callable[[Round], Value]:
    return lambda round_: getattr(round_.milliseconds, part)


def _expected_column(rule: Rule) -> TableColumn:
    explanation = (
        f"Mean acceptance probability that theory predicts for {RULE_TITLES[rule]}, over the positions judged in this round; "
        "in a tree, for a single draw."
    )
    return TableColumn(f"E {rule}", explanation, lambda round_: mean_expected(round_, rule), "0.000", 3)


def _time_column(part: str, explanation: str) -> TableColumn:
    return TableColumn(f"{part} ms", explanation + " Known only for rounds timed by phase.", _time(part), "verify ms", 1)


COLUMNS = (
    TableColumn("Round", "Number of the round in the answer, from 1.", lambda round_: round_.index + 1, "10,000"),
    TableColumn(
        "Text",
        "What the round added to the answer; ⏎ is a line break.",
        lambda round_: visible(round_.text, within_text=True) if round_.text else "",
        "a few words of the text",
    ),
    TableColumn("Emitted", "Tokens that the round added to the answer.", lambda round_: len(round_.emitted), "Emitted"),
    TableColumn("Proposals", "Tokens that the drafter proposed.", lambda round_: len(round_.proposals), "Proposals"),
    TableColumn("Accepted", "Proposals that were accepted.", lambda round_: round_.accepted, "Accepted"),
    TableColumn("Rejected", "Proposals that were rejected, at most one per round.", lambda round_: round_.rejected, "Rejected"),
    TableColumn(
        "Unjudged",
        "Proposals without a verdict: after the rejected one, and other choices of a tree.",
        lambda round_: round_.unjudged,
        "Unjudged",
    ),
    TableColumn("ms", "Total milliseconds of the round.", _time("total"), "1,000.0", 1),
    _time_column("draft", "Milliseconds of drafting."),
    _time_column("verify", "Milliseconds of the target's forward pass."),
    _time_column("judge", "Milliseconds of judging."),
    _time_column("other", "Remaining milliseconds of the round."),
    TableColumn("Rows", "Rows of the target's forward pass.", lambda round_: round_.rows, "Rows"),
    *(_expected_column(rule) for rule in EXPECTED_RULES),
    TableColumn("Rule", "The rule used in this round.", lambda round_: RULE_TITLES[round_.rule], "Rejection"),
    TableColumn(
        "Drafter",
        "The drafter that proposed in this round.",
        lambda round_: drafter_title(round_.drafted_by),
        "Small draft model",
    ),
    TableColumn("Position", "Index of the round's first token, prompt included.", lambda round_: round_.position, "100,000"),
)


class RoundModel(QAbstractTableModel):
    """The rounds of an answer, sorted by a column.

    It sorts the rounds itself: a proxy model would query ten thousand values several times each, which would block the window.

    Attributes:
        highlighted: index of the highlighted round, None if there is none; `highlight_colour` is its background.
    """

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.highlighted: int | None = None
        self.highlight_colour = QColor()
        self._answer: Answer | None = None
        self._order: list[int] = []  # indices of rounds, row by row
        self._column, self._descending = 0, False

    def show_answer(self, answer: Answer | None) -> None:
        """Shows another answer, or the new rounds of the same one."""
        rounds = [] if answer is None else answer.rounds
        if answer is not self._answer or len(rounds) < len(self._order):
            self.beginResetModel()
            self._answer = answer
            self._order = self._sorted(range(len(rounds)))
            self.endResetModel()
        elif new := range(len(self._order), len(rounds)):
            self._insert(new)

    def _insert(self, new: range) -> None:
        """Inserts new rounds: at the end if the table is in round order, else where the sorting places them."""
        if self._column == 0 and not self._descending:
            self.beginInsertRows(ROOT_INDEX, new.start, new.stop - 1)
            self._order.extend(new)
            self.endInsertRows()
            return
        for index in new:
            row = bisect_right(self._order, self._key(index), key=self._key)
            self.beginInsertRows(ROOT_INDEX, row, row)
            self._order.insert(row, index)
            self.endInsertRows()

    def round_at(self, row: int) -> Round:
        """Returns the round in a row of the sorted table; there must be an answer."""
        assert self._answer is not None
        return self._answer.rounds[self._order[row]]

    def row_of(self, index: int) -> int | None:
        """Returns the row of a round; None if the table has no such round."""
        if not 0 <= index < len(self._order):
            return None
        if self._column == 0:
            return len(self._order) - 1 - index if self._descending else index
        return self._order.index(index)

    # Sorting.

    def _key(self, index: int) -> tuple[bool, Any]:
        """Returns the sort key of a round; rounds without a value come last in either order."""
        assert self._answer is not None
        value = COLUMNS[self._column].value(self._answer.rounds[index])
        if value is None:
            return True, index
        if self._descending:
            return False, _ReverseOrder(value)
        return False, value

    def _sorted(self, indices: range | list[int]) -> list[int]:
        return list(indices) if self._column == 0 and not self._descending else sorted(indices, key=self._key)

    def sort(self, column: int, order: Qt.SortOrder = Qt.SortOrder.AscendingOrder) -> None:
        """Sorts the rows by a column and keeps the selection. A negative column means round order."""
        self.layoutAboutToBeChanged.emit()
        before = self.persistentIndexList()
        rounds = [self._order[index.row()] for index in before]
        self._column, self._descending = max(0, column), order == Qt.SortOrder.DescendingOrder and column >= 0
        self._order = self._sorted(range(len(self._order)))
        rows = {index: row for row, index in enumerate(self._order)} if before else {}
        after = [self.index(rows[round_], index.column()) for round_, index in zip(rounds, before, strict=True)]
        self.changePersistentIndexList(before, after)
        self.headerDataChanged.emit(Qt.Orientation.Horizontal, 0, len(COLUMNS) - 1)
        self.layoutChanged.emit()

    # Qt model.

    def rowCount(self, parent: Index = ROOT_INDEX) -> int:
        return 0 if parent.isValid() else len(self._order)

    def columnCount(self, parent: Index = ROOT_INDEX) -> int:
        return 0 if parent.isValid() else len(COLUMNS)

    def data(self, index: Index, role: int = Role.DisplayRole) -> Any:
        """Returns text and alignment of a cell and, for the highlighted row, its background; None for every other role."""
        if role == Role.DisplayRole:
            return COLUMNS[index.column()].text(self.round_at(index.row()))
        if role == Role.TextAlignmentRole:
            return LEFT if isinstance(COLUMNS[index.column()].value(self.round_at(index.row())), str) else RIGHT
        if role == Role.BackgroundRole and self.highlighted is not None and self._order[index.row()] == self.highlighted:
            return self.highlight_colour
        return None

    def headerData(self, section: int, orientation: Qt.Orientation, role: int = Role.DisplayRole) -> Any:
        if orientation == Qt.Orientation.Horizontal and 0 <= section < len(COLUMNS):
            if role == Role.DisplayRole:
                arrow = (" ↓" if self._descending else " ↑") if section == self._column else ""
                return COLUMNS[section].title + arrow
            if role == Role.ToolTipRole:
                return f"<p>{COLUMNS[section].explanation}</p>"
            if role == Role.TextAlignmentRole:
                return LEFT if COLUMNS[section].title in ("Text", "Rule", "Drafter") else RIGHT
        return None


class _ReverseOrder:
    """A value with reversed order, so that equal ones keep the order of the rounds."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __lt__(self, other: _ReverseOrder) -> bool:
        return bool(other.value < self.value)


def tab_separated(rounds: list[Round]) -> str:
    """Returns a header line and one line per round, in the tab-separated format of spreadsheets."""
    lines = ["\t".join(column.title for column in COLUMNS)]
    for round_ in rounds:
        values = (column.value(round_) for column in COLUMNS)
        lines.append("\t".join("" if value is None else str(value) for value in values))
    return "\n".join(lines) + "\n"
