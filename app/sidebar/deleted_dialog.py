"""The dialog of deleted chats that can still be restored."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt, Signal, Slot
from PySide6.QtWidgets import QAbstractItemView, QDialogButtonBox, QLabel, QTableWidgetItem, QWidget

from app.look.widgets import ReadOnlyTable, TransientDialog, in_column
from app.sidebar.model import day_and_time
from engine.chats import RESTORABLE_DAYS, ChatSummary

DESCRIPTION = f"Deleted chats can be restored for {RESTORABLE_DAYS} days."


class DeletedDialog(TransientDialog):
    """Lists deleted chats, last deleted first, and restores the selected ones. It closes when none is left.

    Signals:
        restored: (numbers) restore these chats.
    """

    restored = Signal(list)

    def __init__(self, chats: Sequence[ChatSummary], parent: QWidget) -> None:
        super().__init__(parent, "deletedDialog", "Deleted chats")
        self.table = ReadOnlyTable("deletedTable", "Deleted chats", ["Chat", "Deleted"])
        self.table.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.table.setRowCount(len(chats))
        for row, about in enumerate(chats):
            title = QTableWidgetItem(about.title)
            title.setData(Qt.ItemDataRole.UserRole, about.id)
            self.table.setItem(row, 0, title)
            self.table.setItem(row, 1, QTableWidgetItem(day_and_time(about.deleted or 0.0)))
        self.buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close)
        self.buttons.rejected.connect(self.reject)
        self.restore = self.buttons.addButton("Restore", QDialogButtonBox.ButtonRole.ActionRole)
        self.restore.setDefault(True)
        self.restore.clicked.connect(self._restore)
        self.table.doubleClicked.connect(self._restore)
        self.table.itemSelectionChanged.connect(self._update_button)
        self.table.selectRow(0)
        in_column(QLabel(DESCRIPTION), (self.table, 1), self.buttons, spacing=10, margins=(20, 18, 20, 16), parent=self)
        self.resize_to_lines(36, 22)
        self.table.setFocus()

    def _selected_rows(self) -> list[int]:
        return sorted(index.row() for index in self.table.selectionModel().selectedRows())

    @Slot()
    def _update_button(self) -> None:
        self.restore.setEnabled(bool(self._selected_rows()))

    @Slot()
    def _restore(self) -> None:
        rows = self._selected_rows()
        if not rows:  # a double click may clear the selection
            return
        items = [self.table.item(row, 0) for row in rows]
        self.restored.emit([item.data(Qt.ItemDataRole.UserRole) for item in items if item is not None])
        for row in reversed(rows):
            self.table.removeRow(row)
        if not self.table.rowCount():
            self.accept()
        else:
            self.table.selectRow(min(rows[0], self.table.rowCount() - 1))
