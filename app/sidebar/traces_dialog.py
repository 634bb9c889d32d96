"""The dialog that shows the disk space of traces and sets how long they are kept."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from PySide6.QtCore import Qt, Slot
from PySide6.QtWidgets import (
    QAbstractItemView,
    QButtonGroup,
    QDialogButtonBox,
    QHBoxLayout,
    QLabel,
    QRadioButton,
    QTableWidgetItem,
    QWidget,
)
from shiboken6 import isValid

from app.export.dialog import show_folder
from app.look.fields import NumberField
from app.look.widgets import ReadOnlyTable, TransientDialog, in_column, in_row, named, stretch
from app.session.chat import Chat
from engine.chats import ChatStore, ChatSummary, Retention
from engine.values.ranges import Range
from engine.values.wording import size

DESCRIPTION = (
    "Each answer has a trace: every round of it, for the lens, replays and exports. Messages are kept in any case, and an answer "
    "without its trace still shows its text. What you choose also holds for comparisons and other runs."
)
MEGABYTE = 1_000_000
DEFAULT_DAYS, DEFAULT_MEGABYTES = 90, 1000
OTHER_RUNS = "Comparisons and other runs"
Sizes = tuple[tuple[ChatSummary, ...], dict[int, int], int, int, Retention, Path]


class TracesDialog(TransientDialog):
    """Lists the sizes of traces (by chat, of other runs, and in total) and lets the user choose how long they are kept."""

    def __init__(self, chat: Chat, parent: QWidget) -> None:
        super().__init__(parent, "tracesDialog", "Traces")
        self._chat = chat
        self._folder = Path()
        self._loaded: tuple[Retention, tuple[bool, bool, int, int]] | None = None
        description = QLabel(DESCRIPTION, wordWrap=True)
        self.total = named(QLabel("Reading sizes…"), "keysHeading")
        self.table = ReadOnlyTable("tracesTable", "Chats and other runs by the size of their traces", ["Chat", "Traces"])
        self.table.setSelectionMode(QAbstractItemView.SelectionMode.NoSelection)
        self.keep_all = QRadioButton("Keep all of them")
        self.by_days, self.days, row_of_days = _limit_row("Keep those of the last", Range(1, 3650, whole=True), "days")
        self.by_size, self.megabytes, row_of_size = _limit_row("Keep the newest, up to", Range(10, 1_000_000, whole=True), "MB")
        self.days.show_value(DEFAULT_DAYS)
        self.megabytes.show_value(DEFAULT_MEGABYTES)
        self.choices = QButtonGroup(self)
        for choice in (self.keep_all, self.by_days, self.by_size):
            self.choices.addButton(choice)
        self.keep_all.setChecked(True)
        self.buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Save | QDialogButtonBox.StandardButton.Cancel)
        folder_button = self.buttons.addButton("Show in folder", QDialogButtonBox.ButtonRole.ActionRole)
        folder_button.clicked.connect(lambda: show_folder(self._folder))
        self.buttons.accepted.connect(self.accept)
        self.buttons.rejected.connect(self.reject)
        in_column(
            description,
            self.total,
            (self.table, 1),
            self.keep_all,
            row_of_days,
            row_of_size,
            self.buttons,
            spacing=10,
            margins=(20, 18, 20, 16),
            parent=self,
        )
        self.resize_to_lines(34, 32)
        self.keep_all.setFocus()
        chat.keeper.read(_read_sizes, self._show, self._show_failure)

    def _show_failure(self, message: str) -> None:
        if isValid(self):
            self.total.setText(message)

    def _show(self, sizes: Sizes) -> None:
        if not isValid(self):  # the dialog was closed while they were read
            return
        chats, by_chat, other_bytes, total, retention, self._folder = sizes
        self.total.setText(f"{size(total)} in all, kept {retention.words}")
        amounts = [*((about.title, by_chat.get(about.id, 0)) for about in chats), (OTHER_RUNS, other_bytes)]
        largest = sorted((each for each in amounts if each[1]), key=lambda each: -each[1])
        self.table.setRowCount(len(largest))
        for row, (title, bytes_used) in enumerate(largest):
            amount = QTableWidgetItem(size(bytes_used))
            amount.setTextAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
            self.table.setItem(row, 0, QTableWidgetItem(title))
            self.table.setItem(row, 1, amount)
        if retention.days is not None:
            self.by_days.setChecked(True)
            self.days.show_value(round(min(retention.days, self.days.maximum())))
        elif retention.bytes is not None:
            self.by_size.setChecked(True)
            self.megabytes.show_value(round(min(retention.bytes / MEGABYTE, self.megabytes.maximum())))
        self._loaded = retention, self._controls

    @property
    def _controls(self) -> tuple[bool, bool, int, int]:
        return self.by_days.isChecked(), self.by_size.isChecked(), int(self.days.value()), int(self.megabytes.value())

    @property
    def retention(self) -> Retention:
        """The retention that the controls show; the stored one while they are unchanged. The command line accepts limits that the
        controls cannot show, such as half a day, and opening the dialog must not round them."""
        if self._loaded is not None and self._loaded[1] == self._controls:
            return self._loaded[0]
        if self.by_days.isChecked():
            return Retention(days=self.days.value())
        return Retention(bytes=int(self.megabytes.value()) * MEGABYTE) if self.by_size.isChecked() else Retention()

    @Slot()
    def accept(self) -> None:
        """Saves the choice; traces beyond it are deleted on a separate thread."""
        self._chat.keeper.write(partial(_set_retention, self.retention), self._chat.recorder.notify)
        self._chat.keeper.tidy(self._chat.recorder.notify, requested=True)
        super().accept()


def _limit_row(title: str, allowed: Range, unit: str) -> tuple[QRadioButton, NumberField, QHBoxLayout]:
    """Returns a radio button, its number field, and the row that contains both. Changing the number checks the radio button."""
    choice = QRadioButton(title)
    number = named(NumberField(allowed), label=f"{title}, in {unit}", tip=f"{allowed.short} {unit}")
    number.lineEdit().setTextMargins(6, 0, 6, 0)
    number.taken.connect(lambda _: choice.setChecked(True))
    row = in_row(choice, number, QLabel(unit), stretch(), spacing=8)
    return choice, number, row


def _read_sizes(store: ChatStore) -> Sizes:
    traces = store.traces
    by_chat, other_bytes = traces.bytes_by_conversation(), traces.bytes_of_unreferenced()
    return store.conversations(), by_chat, other_bytes, traces.bytes(), traces.retention, traces.folder


def _set_retention(retention: Retention, store: ChatStore) -> None:
    store.traces.retention = retention
