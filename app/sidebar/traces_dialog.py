"""The dialog that shows the disk space of traces and sets how long they are kept."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from PySide6.QtCore import Qt, QUrl, Slot
from PySide6.QtGui import QDesktopServices
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

from app.look.fields import NumberField
from app.look.placing import visible_part
from app.look.widgets import ReadOnlyTable, TransientDialog, in_column, in_row, named, stretch
from app.session.chat import Chat
from engine.chats import ChatStore, Listed, Retention
from engine.values.ranges import Range
from engine.values.wording import size

WORDS = (
    "Each answer has a trace: every round of it, for the lens, replays and exports. Messages are kept in any case, and an answer "
    "without its trace still shows its text. What you choose also holds for comparisons and other runs."
)
MEGABYTE = 1_000_000
USUAL_DAYS, USUAL_MEGABYTES = 90, 1000
OTHERS = "Comparisons and other runs"
Sizes = tuple[tuple[Listed, ...], dict[int, int], int, int, Retention, Path]


class TracesDialog(TransientDialog):
    """Lists the sizes of traces (by chat, of other runs, and in total) and lets the user choose how long they are kept."""

    def __init__(self, chat: Chat, parent: QWidget) -> None:
        super().__init__(parent, "tracesDialog", "Traces")
        self._chat = chat
        self._folder = Path()
        self._kept: tuple[Retention, tuple[bool, bool, int, int]] | None = None
        words = QLabel(WORDS, wordWrap=True)
        self.total = named(QLabel("Reading sizes…"), "keysHeading")
        self.table = ReadOnlyTable("tracesTable", "Chats and other runs by the size of their traces", ["Chat", "Traces"])
        self.table.setSelectionMode(QAbstractItemView.SelectionMode.NoSelection)
        self.forever = QRadioButton("Keep all of them")
        self.by_days, self.days, row_of_days = _limit("Keep those of the last", Range(1, 3650, whole=True), "days")
        self.by_size, self.most, row_of_size = _limit("Keep the newest, up to", Range(10, 1_000_000, whole=True), "MB")
        self.days.show_value(USUAL_DAYS)
        self.most.show_value(USUAL_MEGABYTES)
        self.choices = QButtonGroup(self)
        for choice in (self.forever, self.by_days, self.by_size):
            self.choices.addButton(choice)
        self.forever.setChecked(True)
        self.buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Save | QDialogButtonBox.StandardButton.Cancel)
        opens = self.buttons.addButton("Show in folder", QDialogButtonBox.ButtonRole.ActionRole)
        opens.clicked.connect(self._show_folder)
        self.buttons.accepted.connect(self.accept)
        self.buttons.rejected.connect(self.reject)
        in_column(
            words,
            self.total,
            (self.table, 1),
            self.forever,
            row_of_days,
            row_of_size,
            self.buttons,
            spacing=10,
            margins=(20, 18, 20, 16),
            parent=self,
        )
        room = visible_part(parent)
        line = self.fontMetrics().lineSpacing()
        self.resize(min(room.width() - 60, 34 * line), min(room.height() - 80, 32 * line))
        self.forever.setFocus()
        if chat.keeper is not None:
            chat.keeper.read(_sizes, self._show, self._failed)

    def _failed(self, message: str) -> None:
        if isValid(self):
            self.total.setText(message)

    def _show(self, sizes: Sizes) -> None:
        if not isValid(self):  # the dialog was closed while they were read
            return
        chats, by_chat, others, total, kept, self._folder = sizes
        self.total.setText(f"{size(total)} in all, kept {kept.words}")
        amounts = [*((about.title, by_chat.get(about.id, 0)) for about in chats), (OTHERS, others)]
        largest = sorted((each for each in amounts if each[1]), key=lambda each: -each[1])
        self.table.setRowCount(len(largest))
        for row, (title, taken) in enumerate(largest):
            amount = QTableWidgetItem(size(taken))
            amount.setTextAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
            self.table.setItem(row, 0, QTableWidgetItem(title))
            self.table.setItem(row, 1, amount)
        if kept.days is not None:
            self.by_days.setChecked(True)
            self.days.show_value(round(min(kept.days, self.days.maximum())))
        elif kept.bytes is not None:
            self.by_size.setChecked(True)
            self.most.show_value(round(min(kept.bytes / MEGABYTE, self.most.maximum())))
        self._kept = kept, self._controls

    @property
    def _controls(self) -> tuple[bool, bool, int, int]:
        return self.by_days.isChecked(), self.by_size.isChecked(), int(self.days.value()), int(self.most.value())

    @property
    def chosen(self) -> Retention:
        """The retention set by the controls. Unchanged controls keep the previous one, since the command line accepts limits that
        they cannot show."""
        if self._kept is not None and self._kept[1] == self._controls:
            return self._kept[0]
        if self.by_days.isChecked():
            return Retention(days=self.days.value())
        return Retention(bytes=int(self.most.value()) * MEGABYTE) if self.by_size.isChecked() else Retention()

    @Slot()
    def accept(self) -> None:
        """Saves the choice; traces beyond it are deleted on a separate thread."""
        if self._chat.keeper is not None:
            self._chat.keeper.write(partial(_keep, self.chosen), self._chat.tell_stored)
            self._chat.keeper.tidy(self._chat.tell_stored, wished=True)
        super().accept()

    @Slot()
    def _show_folder(self) -> None:
        QDesktopServices.openUrl(QUrl.fromLocalFile(str(self._folder)))


def _limit(words: str, allowed: Range, unit: str) -> tuple[QRadioButton, NumberField, QHBoxLayout]:
    """Returns a radio button with a number field; changing the number selects it."""
    choice = QRadioButton(words)
    number = named(NumberField(allowed), label=f"{words}, in {unit}", tip=f"{allowed.short} {unit}")
    number.taken.connect(lambda _: choice.setChecked(True))
    row = in_row(choice, number, QLabel(unit), stretch(), spacing=8)
    return choice, number, row


def _sizes(store: ChatStore) -> Sizes:
    traces = store.traces
    by_chat, others = traces.bytes_by_conversation(), traces.bytes_of_others()
    return store.conversations(), by_chat, others, traces.bytes(), traces.retention, traces.folder


def _keep(kept: Retention, store: ChatStore) -> None:
    store.traces.retention = kept
