"""The rows of the list of chats: pinned ones first, then by the day of their last change, each group below its heading."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from itertools import groupby
from typing import Any

from PySide6.QtCore import QAbstractListModel, QMimeData, QModelIndex, QPersistentModelIndex, Qt, Signal

from app.look.widgets import plain_tip
from engine.chats import ChatSummary, Hit
from engine.values.wording import amount

FOLDERS, ALL_CHATS, PINNED = "Folders", "All chats", "Pinned"
CHAT_MIME_TYPE = "application/x-draftlight-chat"
"""MIME type of a dragged chat: its id in decimal digits."""

Index = QModelIndex | QPersistentModelIndex


@dataclass(frozen=True, slots=True)
class Row:
    """A heading, a folder, or a chat with its search match.

    Attributes:
        folder: name of a folder, empty for the row that leads out of the shown one; None for other rows.
        chat_count: number of chats in the folder.
        excerpt, marks: as in `engine.chats.Hit`; empty if the title matched.
        title_marks: positions of the matches in the title.
        message: id of the message that matched.
    """

    title: str
    about: ChatSummary | None = None
    excerpt: str = ""
    marks: tuple[tuple[int, int], ...] = ()
    title_marks: tuple[tuple[int, int], ...] = ()
    message: int | None = None
    folder: str | None = None
    chat_count: int = 0


class ChatsModel(QAbstractListModel):
    """Signals:
    renamed: (number, title) the user changed the title of a chat.
    folder_renamed: (old name, new name) the user renamed a folder.
    moved: (number, folder) the user dragged a chat into a folder, or out of it.
    """

    renamed = Signal(int, str)
    folder_renamed = Signal(str, str)
    moved = Signal(int, str)

    def __init__(self, today: Callable[[], date] = date.today) -> None:
        super().__init__()
        self._today = today
        self._rows: list[Row] = []

    def show_chats(self, chats: Sequence[ChatSummary], folder: str | None = None) -> None:
        """Shows the folders and all chats, or the chats of one folder, under headings."""
        rows: list[Row] = []
        if folder is None:
            names = Counter(about.folder for about in chats if about.folder)
            folders = [Row(name, folder=name, chat_count=names[name]) for name in sorted(names, key=str.casefold)]
            rows += [Row(FOLDERS), *folders] if folders else []
        else:
            rows.append(Row(ALL_CHATS, folder=""))
            chats = [about for about in chats if about.folder == folder]
        today = self._today()
        for heading, group in groupby(chats, lambda about: heading_of(about, today)):
            rows.append(Row(heading))
            rows += [Row(about.title, about) for about in group]
        self._replace(rows)

    def show_hits(self, hits: Sequence[Hit]) -> None:
        """Shows the matches of a search."""
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
        """Returns the row of a chat; None if it is not listed."""
        return next((at for at, row in enumerate(self._rows) if row.about is not None and row.about.id == number), None)

    def at(self, index: Index) -> Row | None:
        """Returns the row at an index; None if the index is invalid."""
        return self._rows[index.row()] if index.isValid() and index.row() < len(self._rows) else None

    def row_of_folder(self, folder: str) -> int | None:
        """Returns the row of a folder; None if it is not listed."""
        return next((at for at, row in enumerate(self._rows) if row.folder == folder), None)

    @property
    def chat_count(self) -> int:
        """Number of listed chats."""
        return sum(row.about is not None for row in self._rows)

    # Qt model.

    def rowCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008 - Qt's own signature
        return 0 if parent.isValid() else len(self._rows)

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        """Returns the title; for screen readers also whether the chat is pinned, and the excerpt."""
        row = self.at(index)
        if row is None:
            return None
        if role in (Qt.ItemDataRole.DisplayRole, Qt.ItemDataRole.EditRole):
            return row.title
        if role == Qt.ItemDataRole.ToolTipRole and row.about is not None:
            return plain_tip(row.title)
        if role == Qt.ItemDataRole.AccessibleTextRole:
            if row.folder is not None:
                return f"Folder {row.title}, {amount(row.chat_count, 'chat')}" if row.folder else ALL_CHATS
            pinned = ", pinned" if row.about is not None and row.about.pinned else ""
            kind = "Comparison " if row.about is not None and row.about.comparison else ""
            return f"{kind}{row.title}{pinned}" + (f". {row.excerpt}" if row.excerpt else "")
        return None

    def setData(self, index: Index, value: Any, role: int = Qt.ItemDataRole.EditRole) -> bool:
        row = self.at(index)
        if row is None or role != Qt.ItemDataRole.EditRole or (row.about is None and not row.folder):
            return False
        if str(value).strip() != row.title:
            if row.about is not None:
                self.renamed.emit(row.about.id, str(value))
            elif row.folder and str(value).strip():
                self.folder_renamed.emit(row.folder, str(value).strip())
        return True

    def flags(self, index: Index) -> Qt.ItemFlag:
        """Returns the flags: headings cannot be selected; chats and folders can be, and renamed. Chats can be dragged onto
        folders."""
        row = self.at(index)
        if row is None or (row.about is None and row.folder is None):
            return Qt.ItemFlag.NoItemFlags
        selectable = Qt.ItemFlag.ItemIsEnabled | Qt.ItemFlag.ItemIsSelectable
        if row.about is not None:
            return selectable | Qt.ItemFlag.ItemIsEditable | Qt.ItemFlag.ItemIsDragEnabled
        return selectable | Qt.ItemFlag.ItemIsDropEnabled | (Qt.ItemFlag.ItemIsEditable if row.folder else Qt.ItemFlag(0))

    def mimeTypes(self) -> list[str]:
        """Returns the MIME type of dragged chats."""
        return [CHAT_MIME_TYPE]

    def mimeData(self, indexes: Sequence[QModelIndex]) -> QMimeData:
        """Returns the id of the dragged chat."""
        data = QMimeData()
        rows = [row for index in indexes if (row := self.at(index)) is not None and row.about is not None]
        if rows and rows[0].about is not None:
            data.setData(CHAT_MIME_TYPE, str(rows[0].about.id).encode())
        return data

    def supportedDropActions(self) -> Qt.DropAction:
        """Returns only the move action: a chat is in one folder at a time."""
        return Qt.DropAction.MoveAction

    def canDropMimeData(self, data: QMimeData, action: Qt.DropAction, row: int, column: int, parent: Index) -> bool:
        """Returns whether the target is a folder: chats cannot be dropped between rows."""
        target = self.at(parent)
        return data.hasFormat(CHAT_MIME_TYPE) and target is not None and target.folder is not None

    def dropMimeData(self, data: QMimeData, action: Qt.DropAction, row: int, column: int, parent: Index) -> bool:
        """Emits which chat was dropped on which folder."""
        target = self.at(parent)
        if target is None or target.folder is None or not data.hasFormat(CHAT_MIME_TYPE):
            return False
        self.moved.emit(int(bytes(data.data(CHAT_MIME_TYPE).data()).decode()), target.folder)
        return True


def heading_of(about: ChatSummary, today: date) -> str:
    """Returns the heading of a chat; days are in local time."""
    if about.pinned:
        return PINNED
    day = datetime.fromtimestamp(about.updated).date()
    if day >= today:
        return "Today"
    if day == today - timedelta(days=1):
        return "Yesterday"
    if day >= today - timedelta(days=7):
        return "Previous 7 days"
    if day >= today - timedelta(days=30):
        return "Previous 30 days"
    return f"{day:%B}" if day.year == today.year else f"{day:%B %Y}"


def day_and_time(moment: float) -> str:
    """Returns a Unix time as local date and time, in words."""
    local = datetime.fromtimestamp(moment)
    return f"{local.day} {local:%B %Y, %H:%M}"
