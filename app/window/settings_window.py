"""The settings window: every setting of the table with its description, a search, and resets of one or all."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from PySide6.QtCore import QSize, Qt, Slot
from PySide6.QtGui import QResizeEvent, QShowEvent
from PySide6.QtWidgets import QDialog, QGridLayout, QLabel, QLineEdit, QPlainTextEdit, QWidget

from app.export.dialog import show_folder
from app.look.flow_layout import wrapping
from app.look.placing import FRAME
from app.look.widgets import dialog_button, in_column, named, plain_tip, push_button, scrolling, text_label
from app.session.chat import Chat
from app.session.setting_table import SETTINGS, Described, Section, Text
from app.window.setting_fields import SettingField, fit_lines, make_field
from engine.files.logs import log_path
from engine.files.paths import data_folder

SIZE, MIN_SIZE = QSize(680, 640), QSize(320, 240)
VIEW_SETTINGS = ("appearance", "text_scale", "reading", "ghosts", "compare_ghosts")
"""Settings that no answer depends on, so that a chat does not remember them."""
STACK_BELOW_LETTERS = 76
"""Width in letters below which controls are placed below their descriptions."""


class SettingRow(QWidget):
    """One setting: title and description at the left, its control and the reset button at the right."""

    def __init__(self, setting: Described, changed: Callable[[str, object], object], reset: Callable[[str], object]) -> None:
        super().__init__()
        self.setting = setting
        self.field: SettingField = make_field(setting, changed)
        title = named(QLabel(setting.title), "settingTitle")
        title.setBuddy(self.field.widget)
        about = named(QLabel(setting.about, wordWrap=True), "settingWords")
        self.reset = push_button("Reset", "smallButton")
        policy = self.reset.sizePolicy()
        policy.setRetainSizeWhenHidden(True)
        self.reset.setSizePolicy(policy)
        self.reset.clicked.connect(partial(reset, setting.name))
        self._stacked: bool | None = None
        grid = self._grid = QGridLayout(self)
        grid.setContentsMargins(0, 7, 0, 7)
        grid.setHorizontalSpacing(14)
        grid.setVerticalSpacing(2)
        grid.setColumnStretch(0, 1)
        grid.addWidget(title, 0, 0)
        grid.addWidget(about, 1, 0)
        self.stack(False)

    def stack(self, stacked: bool) -> None:
        """Places the control below the description in a narrow window; a text field always is."""
        if stacked == self._stacked:
            return
        self._stacked = stacked
        grid, control, middle = self._grid, self.field.widget, Qt.AlignmentFlag.AlignVCenter
        grid.removeWidget(control)
        grid.removeWidget(self.reset)
        if isinstance(control, QPlainTextEdit):
            grid.addWidget(self.reset, 0, 1, 2, 1, middle)
            grid.addWidget(control, 2, 0, 1, 2)
        elif stacked:
            grid.addWidget(self.reset, 0, 1, 2, 1, middle)
            grid.addWidget(control, 2, 0, 1, 2, Qt.AlignmentFlag.AlignLeft)
        else:
            grid.addWidget(control, 0, 1, 2, 1, Qt.AlignmentFlag.AlignRight | middle)
            grid.addWidget(self.reset, 0, 2, 2, 1, middle)

    def show_value(self, value: object, default: object, is_undo: bool) -> None:
        """Shows a value. The button resets a value that differs from the default or, if `is_undo`, undoes that reset."""
        self.field.show(value)
        self.reset.setVisible(is_undo or value != default)
        self.reset.setText("Undo" if is_undo else "Reset")
        self.reset.setAccessibleName(f"{'Undo reset of' if is_undo else 'Reset'} {self.setting.title}")
        tip = "Bring back what was written" if is_undo else f"Back to the default: {self.setting.said(default)}"
        self.reset.setToolTip(f"<p>{tip}</p>")


class SettingsWindow(QDialog):
    """Shows every setting as new chats have it, and applies changes at once."""

    def __init__(self, chat: Chat, parent: QWidget) -> None:
        super().__init__(parent)
        self.setWindowTitle("Settings")
        named(self, "settingsWindow", "Settings")
        self._chat = chat
        self._before_reset: dict[str, object] = {}
        self._reset_texts: dict[str, object] = {}
        """The old values of texts that were reset one by one, until another text is entered."""
        self.search = named(
            QLineEdit(placeholderText="Search settings", clearButtonEnabled=True),
            "settingsSearch",
            "Search settings",
            "Finds words in names and descriptions.",
        )
        self.search.textChanged.connect(self._find)
        self.no_matches = text_label("settingWords")
        self.rows: dict[str, SettingRow] = {}
        self._headings: dict[Section, QLabel] = {}
        self._body = named(QWidget(), "panelBody")
        column = in_column(self.no_matches, margins=(0, 0, 14, 0), parent=self._body)
        for setting in SETTINGS:
            if setting.section not in self._headings:
                self._headings[setting.section] = heading = QLabel(setting.section)
                heading.setObjectName("settingSection")
                heading.setContentsMargins(0, 14, 0, 2)
                column.addWidget(heading)
            self.rows[setting.name] = row = SettingRow(setting, self._set_one, self.reset)
            column.addWidget(row)
        column.addStretch(1)
        self.area = scrolling(self._body)
        in_column(self.search, (self.area, 1), self._foot(), spacing=12, margins=(22, 18, 22, 16), parent=self)
        self._find("")
        chat.changed.connect(self.show_settings)

    def _foot(self) -> QWidget:
        self.data = dialog_button("Open data folder", partial(_open, data_folder), plain_tip(str(data_folder())))
        self.logs = dialog_button("Open logs", partial(_open, lambda: log_path().parent), plain_tip(str(log_path().parent)))
        self.reset_all = dialog_button("Reset all", self._reset_all)
        self.close_button = dialog_button("Close", self.reject)
        return wrapping(8, self.data, self.logs, self.reset_all, self.close_button)

    @Slot()
    def show_settings(self) -> None:
        """Updates every control to the current settings, without emitting changes."""
        settings = self._chat.preferences.for_new_chats
        for name, row in self.rows.items():
            value, default = getattr(settings, name), settings.default(name)
            if value != default:
                self._reset_texts.pop(name, None)
            row.show_value(value, default, name in self._reset_texts)
        self.reset_all.setText("Undo reset" if self._before_reset else "Reset all")
        self.reset_all.setAccessibleName(self.reset_all.text())
        self.reset_all.setEnabled(
            bool(self._before_reset) or any(getattr(settings, name) != settings.default(name) for name in self.rows)
        )

    def _set_one(self, name: str, value: object) -> None:
        self._before_reset = {}
        self._change(name, value)

    def _change(self, name: str, value: object) -> None:
        if name in VIEW_SETTINGS:
            self._chat.preferences.set(**{name: value})
        else:
            self._chat.change(name, value)

    def reset(self, name: str) -> None:
        """Resets one setting to its default, or undoes the reset of a text."""
        row, settings = self.rows[name], self._chat.preferences.for_new_chats
        value = self._reset_texts.pop(name, settings.default(name))
        if isinstance(row.setting.form, Text) and value == settings.default(name):
            self._reset_texts[name] = getattr(settings, name)
        self._set_one(name, value)
        (row.field.widget if row.reset.isHidden() else row.reset).setFocus()

    def _reset_all(self) -> None:
        """Resets all settings, or undoes that."""
        settings = self._chat.preferences.for_new_chats
        values = self._before_reset or {name: settings.default(name) for name in self.rows}
        self._before_reset = {} if self._before_reset else {name: getattr(settings, name) for name in self.rows}
        for name, value in values.items():
            if getattr(self._chat.preferences.for_new_chats, name) != value:
                self._change(name, value)
        self.show_settings()

    @Slot(str)
    def _find(self, query: str) -> None:
        found = {name for name, row in self.rows.items() if row.setting.found_by(query)}
        for name, row in self.rows.items():
            row.setVisible(name in found)
        for section, heading in self._headings.items():
            heading.setVisible(any(self.rows[name].setting.section == section for name in found))
        self.no_matches.setText(f"No settings match “{query.strip()}”. Models and drafters are chosen at the top of the window.")
        self.no_matches.setVisible(not found)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        for row in self.rows.values():
            row.stack(self.width() < STACK_BELOW_LETTERS * self.fontMetrics().averageCharWidth())

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        for row in self.rows.values():
            if isinstance(row.field.widget, QPlainTextEdit):
                fit_lines(row.field.widget)
        self.search.setFocus()
        self.search.selectAll()

    def open(self) -> None:
        """Shows the window beside the main one, or brings it to the front; both stay usable."""
        scale = self._chat.settings.text_scale
        available = self.screen().availableGeometry().marginsRemoved(FRAME).size()
        self.show_settings()
        self.setMinimumSize((MIN_SIZE * scale).boundedTo(available))
        if not self.isVisible():
            self.resize((SIZE * scale).boundedTo(available))
            self.show()
        self.raise_()
        self.activateWindow()


def _open(folder: Callable[[], Path]) -> None:
    """Opens a folder in the desktop's file manager, creating it if needed."""
    path = folder()
    path.mkdir(parents=True, exist_ok=True)
    show_folder(path)
