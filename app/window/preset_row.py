"""The row of presets above the sampling options: the current preset, and a menu to save, delete and tie presets to the model."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from PySide6.QtCore import QSignalBlocker, Qt, Signal, Slot
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QLineEdit, QMenu, QToolButton, QWidget

from app.look.banner import Banner
from app.look.fields import keep_from_wheel
from app.look.theme import Theme
from app.look.widgets import choice_box, give_menu, icon_button, in_column, in_row, named, push_button, tint
from app.look.wording import target_title
from app.session.chat import Chat
from app.session.presets import LONGEST_NAME

NONE = "None"


class NameField(QLineEdit):
    """Signals:
    left: Escape was pressed, which would otherwise close the whole popover.
    """

    left = Signal()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() == Qt.Key.Key_Escape:
            self.left.emit()
        else:
            super().keyPressEvent(event)


class PresetRow(QWidget):
    """Shows the presets of the settings and carries out the user's choices.

    Signals:
        grown: its height has changed.
    """

    grown = Signal()

    def __init__(self, chat: Chat, banner: Banner) -> None:
        super().__init__()
        self._chat, self._banner = chat, banner
        words = "A system prompt and sampling options saved under a name. Choosing a preset sets both."
        self.box = named(choice_box(shortest=14), "presetBox", "Preset", words, f"<p>{words}</p>")
        self.box.activated.connect(self._picked)
        keep_from_wheel(self.box)
        self.more = icon_button("more", "Save, update or delete presets, or tie one to the model")
        self.more.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        self.menu = QMenu(self)
        self.menu.aboutToShow.connect(self._fill_menu)
        give_menu(self.more, self.menu)
        self.name = named(NameField(), "presetName", "Preset name", "Enter saves, Escape cancels.")
        self.name.setPlaceholderText("Preset name")
        self.name.setMaxLength(LONGEST_NAME)
        self.name.returnPressed.connect(self._save)
        self.name.textChanged.connect(self._show_save)
        self.name.left.connect(self._leave_name)
        self.save = push_button("Save", "quietButton", self._save)
        self.naming = QWidget()
        in_row((self.name, 1), self.save, spacing=8, parent=self.naming)
        in_column(in_row((self.box, 1), self.more, spacing=4), self.naming, spacing=6, parent=self)
        self.naming.hide()

    @Slot()
    def refresh(self) -> None:
        """Lists the presets and selects the active one."""
        settings = self._chat.settings
        blocker = QSignalBlocker(self.box)
        self.box.clear()
        self.box.addItem(NONE, "")
        tied = settings.preset_for(settings.target)
        for preset in settings.presets:
            name = f"“{preset.name}”" if preset.name.casefold() == NONE.casefold() else preset.name
            self.box.addItem(f"{name} (for this model)" if preset is tied else name, preset.name)
        current = settings.preset_in_force
        self.box.setCurrentIndex(0 if current is None else self.box.findData(current.name))
        del blocker

    @Slot(int)
    def _picked(self, index: int) -> None:
        if name := self.box.itemData(index):
            self._chat.use_preset(name)
        self.refresh()

    def _fill_menu(self) -> None:
        self.menu.clear()
        settings, current = self._chat.settings, self._chat.settings.preset_in_force
        self.menu.addAction("Save as…", self.ask_for_name)
        for preset in settings.presets if current is None else ():
            self.menu.addAction(f"Update “{preset.name}”", partial(self._chat.save_preset, preset.name))
        self.menu.addSeparator()
        tied = settings.preset_for(settings.target)
        if current is not None:
            tie = self.menu.addAction(f"Use “{current.name}” for {target_title(settings.target)}")
            tie.setCheckable(True)
            tie.setChecked(tied is current)
            tie.triggered.connect(lambda on: self._chat.tie_preset(current.name if on else ""))
            self.menu.addAction(f"Delete “{current.name}”", partial(self._delete, current.name))
        elif tied is not None:
            self.menu.addAction(
                f"Stop using “{tied.name}” for {target_title(settings.target)}", partial(self._chat.tie_preset, "")
            )

    def ask_for_name(self) -> None:
        """Opens the field for a name."""
        self.naming.show()
        self.grown.emit()
        self.name.clear()
        self.name.setFocus(Qt.FocusReason.OtherFocusReason)

    @Slot(str)
    def _show_save(self, name: str) -> None:
        """Labels the button "Replace" if a preset of this name exists."""
        taken = any(preset.name == name.strip() for preset in self._chat.settings.presets)
        self.save.setText("Replace" if taken else "Save")

    @Slot()
    def _leave_name(self) -> None:
        self.naming.hide()
        self.grown.emit()
        self.box.setFocus()

    @Slot()
    def _save(self) -> None:
        if name := self.name.text().strip():
            self._leave_name()
            self._chat.save_preset(name)

    def _delete(self, name: str) -> None:
        """Deletes a preset and offers to undo it."""
        undo = self._chat.delete_preset(name)
        self._banner.show_message(f"The preset “{name}” is deleted.", "note")
        self._banner.offer("Undo", partial(self._bring_back, undo))

    def _bring_back(self, undo: Callable[[], None]) -> None:
        self._banner.hide()
        undo()

    def set_look(self, theme: Theme, scale: float) -> None:
        """Restyles the button."""
        tint(self.more, theme, scale)
