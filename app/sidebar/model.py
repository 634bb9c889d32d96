"""The rows of the list of chats: headings, and chats below them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

from PySide6.QtCore import QAbstractListModel, QModelIndex, QPersistentModelIndex, Qt, Signal

from app.sidebar.days import grouped
from engine.chats import Hit, Listed

Index = QModelIndex | QPersistentModelIndex


@dataclass(frozen=True, slots=True)
class Row:
    """A heading, or a chat with what a search found in it.

    Attributes:
        excerpt, marks: as in `engine.chats.Hit`; empty where the title was found.
        title_marks: where the words stand in the title, if that was found.
        message: number of the message that was found.
    """

    title: str
    about: Listed | None = None
    excerpt: str = ""
    marks: tuple[tuple[int, int], ...] = ()
    title_marks: tuple[tuple[int, int], ...] = ()
    message: int | None = None


class ChatsModel(QAbstractListModel):
    """Signals:
    renamed: (number, title) the user gave a chat another title.
    """

    renamed = Signal(int, str)

    def __init__(self, today: Callable[[], date] = date.today) -> None:
        super().__init__()
        self._today = today
        self._rows: list[Row] = []

    def show_chats(self, chats: Sequence[Listed]) -> None:
        """All chats, under headings."""
        rows: list[Row] = []
        for heading, group in grouped(chats, self._today()):
            rows.append(Row(heading))
            rows += [Row(about.title, about) for about in group]
        self._replace(rows)

    def show_hits(self, hits: Sequence[Hit]) -> None:
        """What a search found."""
        self._replace(
            [
                Row(hit.about.title, hit.about, title_marks=hit.marks)
                if hit.message is None
                else Row(hit.about.title, hit.about, hit.excerpt, hit.marks, message=hit.message)
                for hit in hits
            ]
        )

    def _replace(self, rows: list[Row]) -> None:
        if rows != self._rows:
            self.beginResetModel()
            self._rows = rows
            self.endResetModel()

    def row_of(self, number: int | None) -> int | None:
        """Where a chat stands; None if it does not."""
        return next((at for at, row in enumerate(self._rows) if row.about is not None and row.about.id == number), None)

    def at(self, index: Index) -> Row | None:
        """The row of an index; None without one."""
        return self._rows[index.row()] if index.isValid() and index.row() < len(self._rows) else None

    @property
    def chats(self) -> int:
        """How many chats there are."""
        return sum(row.about is not None for row in self._rows)

    # Qt

    def rowCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008 - Qt's own signature
        return 0 if parent.isValid() else len(self._rows)

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        """The title, and for screen readers also whether the chat is pinned and what was found in it."""
        row = self.at(index)
        if row is None:
            return None
        if role in (Qt.ItemDataRole.DisplayRole, Qt.ItemDataRole.EditRole):
            return row.title
        if role == Qt.ItemDataRole.ToolTipRole and row.about is not None:
            return row.title
        if role == Qt.ItemDataRole.AccessibleTextRole:
            pinned = ", pinned" if row.about is not None and row.about.pinned else ""
            return f"{row.title}{pinned}" + (f". {row.excerpt}" if row.excerpt else "")
        return None

    def setData(self, index: Index, value: Any, role: int = Qt.ItemDataRole.EditRole) -> bool:
        row = self.at(index)
        if row is None or row.about is None or role != Qt.ItemDataRole.EditRole:
            return False
        if str(value).strip() != row.title:
            self.renamed.emit(row.about.id, str(value))
        return True

    def flags(self, index: Index) -> Qt.ItemFlag:
        """Headings cannot be chosen; chats can, and be renamed."""
        row = self.at(index)
        if row is None or row.about is None:
            return Qt.ItemFlag.NoItemFlags
        return Qt.ItemFlag.ItemIsEnabled | Qt.ItemFlag.ItemIsSelectable | Qt.ItemFlag.ItemIsEditable
