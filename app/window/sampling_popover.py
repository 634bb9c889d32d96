"""The popover with the settings that are rarely changed: presets, filters, limits, stop sequences, system prompt."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from PySide6.QtCore import QPoint, QSignalBlocker, Qt, Signal, Slot
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QFormLayout, QFrame, QHBoxLayout, QLabel, QLineEdit, QMenu, QPlainTextEdit, QToolButton, QWidget

from app.look.banner import Banner
from app.look.fields import require_focus_for_wheel
from app.look.theme import Theme
from app.look.widgets import attach_menu, choice_box, icon_button, in_column, in_row, named, push_button, scrolling, tint
from app.look.wording import target_title
from app.session.chat import Chat
from app.session.setting_table import BY_NAME
from app.session.settings import LONGEST_NAME
from app.window.setting_fields import SettingField, fit_lines, make_field
from engine.types import Sampling

NUMBERS = ("top_p", "top_k", "min_p", "repetition_penalty", "max_tokens", "budget")
TEXTS = ("stop", "system_prompt")
CHOICES = ("thinking", "raw", "overflow", "kv_bits")
NO_THINKING_SWITCH = "The chat template of this model has no switch for thinking."
NO_PRESET = "None"
"""Instead of a preset."""


class SamplingPopover(QFrame):
    """Floats below its button; all changes apply from the next answer on."""

    def __init__(self, chat: Chat, banner: Banner, parent: QWidget) -> None:
        """Args:
        banner: offers to undo when several settings were replaced at once.
        """
        super().__init__(parent, Qt.WindowType.Popup | Qt.WindowType.FramelessWindowHint | Qt.WindowType.NoDropShadowWindowHint)
        named(self, "popover", "Sampling options")
        self._chat, self._banner = chat, banner
        self._knows_model = False
        self._sampling: Sampling = ()
        self.body = named(QWidget(), "panelBody")
        form = QFormLayout(self.body)
        form.setContentsMargins(0, 0, 0, 0)
        form.setHorizontalSpacing(18)
        form.setVerticalSpacing(9)
        form.setFieldGrowthPolicy(QFormLayout.FieldGrowthPolicy.AllNonFixedFieldsGrow)
        self.presets = PresetRow(chat, banner)
        self.recommended = push_button("", "quietButton", self._use_recommended)
        form.addRow("Preset", self.presets)
        self.presets.height_changed.connect(self._fit_screen)
        form.addRow("Recommended", self.recommended)
        self.fields: dict[str, SettingField] = {}
        for name in (*NUMBERS, *TEXTS, *CHOICES):
            field = self.fields[name] = make_field(BY_NAME[name], chat.change_here)
            form.addRow(BY_NAME[name].title, field.widget)
        hint = named(QLabel("These take effect with the next answer."), "fieldHint")
        reset = push_button("Reset to defaults", "quietButton", self._reset)
        foot = QHBoxLayout()
        foot.addWidget(hint, 1)
        foot.addWidget(reset)
        self.area = scrolling(self.body)  # for large text on a low screen
        in_column(self.area, foot, spacing=14, margins=(18, 16, 18, 14), parent=self)
        chat.preferences.replaced.connect(self._offer_undo)
        chat.changed.connect(self.show_settings)
        self.show_settings()

    @Slot()
    def show_settings(self) -> None:
        """Updates the fields to the settings of the chat, without changing them."""
        self.presets.refresh()
        self._show_recommended()
        for name, field in self.fields.items():
            field.show(getattr(self._chat.settings, name))

    @Slot()
    def show_model(self) -> None:
        """Disables the settings that the loaded model does not support, and explains it."""
        model, box, about = self._chat.session.model, self.fields["thinking"].widget, BY_NAME["thinking"].words
        self._sampling = () if model is None or model.sampling is None else model.sampling
        self._knows_model = model is not None
        self._show_recommended()
        switches = model is None or model.switches_thinking
        box.setEnabled(switches)
        box.setToolTip(f"<p>{about if switches else NO_THINKING_SWITCH}</p>")
        box.setAccessibleDescription(about if switches else NO_THINKING_SWITCH)

    def _show_recommended(self) -> None:
        """Shows the publisher's recommended sampling on the button that applies it."""
        texts = [
            f"{BY_NAME[name].title.lower()}{f' {value:g}' if isinstance(value, (int, float)) else ''}"
            for name, value in self._sampling
            if name in BY_NAME
        ]
        summary = ",\n".join(", ".join(texts[first : first + 2]) for first in range(0, len(texts), 2))
        is_applied = all(getattr(self._chat.settings, name) == value for name, value in self._sampling)
        self.recommended.setText(summary or ("None for this model" if self._knows_model else "No model loaded yet"))
        self.recommended.setEnabled(bool(self._sampling) and not is_applied)
        tooltip = f"The sampling that the publisher of the model recommends{' is set' if is_applied else ': click to set it'}."
        self.recommended.setAccessibleName(f"Recommended by the model: {' '.join(summary.split()) or 'nothing'}")
        if not summary:
            tooltip = (
                "The publisher of this model recommends no sampling." if self._knows_model else "Known once the model is loaded."
            )
        self.recommended.setToolTip(f"<p>{tooltip}</p>")

    def _use_recommended(self) -> None:
        for name, value in self._sampling:
            self._chat.change_here(name, value)

    def _reset(self) -> None:
        defaults = {name: self._chat.settings.default(name) for name in self.fields}
        self._chat.replace(defaults, words="The sampling options have been reset.")

    @Slot(str, object, object)
    def _offer_undo(self, message: str, names: Sequence[str], undo: Callable[[], None]) -> None:
        """Offers to undo, as long as none of these settings has changed again."""
        new_values = {name: getattr(self._chat.settings, name) for name in names}
        self._banner.show_message(
            message, "note", lambda: all(getattr(self._chat.settings, name) == value for name, value in new_values.items())
        )
        self._banner.show_action("Undo", undo)

    def open_at(self, name: str, button: QWidget) -> None:
        """Shows the popover below a button, with the focus on a setting, or on the presets with "preset"."""
        self.open_below(button)
        (self.presets.box if name == "preset" else self.fields[name].widget).setFocus(Qt.FocusReason.PopupFocusReason)

    def open_below(self, button: QWidget) -> None:
        """Shows the popover with its right edge below a button, inside the screen."""
        self.ensurePolished()
        for name in TEXTS:
            if isinstance(edit := self.fields[name].widget, QPlainTextEdit):
                fit_lines(edit)
        screen = button.screen().availableGeometry()
        self._fit_screen()
        corner = button.mapToGlobal(QPoint(button.width(), button.height() + 6))
        left = max(screen.left() + 8, corner.x() - self.width())
        self.move(left, min(corner.y(), screen.bottom() - self.height() - 8))
        self.show()
        self.fields["top_p"].widget.setFocus(Qt.FocusReason.PopupFocusReason)

    @Slot()
    def _fit_screen(self) -> None:
        self.fit(self.screen().availableGeometry().height() - 16)

    def fit(self, max_height: int) -> None:
        """Sets the height to that of all fields, up to a maximum; beyond it they scroll."""
        for child in self.body.findChildren(QWidget):
            child.ensurePolished()
        _recompute_layout(self.presets)
        _recompute_layout(self.body)  # its cached size is from before the fields had their heights
        content_size = self.body.sizeHint()
        self.area.setFixedHeight(content_size.height())
        _recompute_layout(self)  # else the popover keeps the size that it had with larger text
        overflow = self.sizeHint().height() - max_height
        if overflow > 0:
            self.area.setFixedHeight(max(1, content_size.height() - overflow))
        bar = self.area.verticalScrollBar().sizeHint().width() + 6 if overflow > 0 else 0
        self.area.setMinimumWidth(content_size.width() + bar)
        _recompute_layout(self)
        self.resize(max(420, self.sizeHint().width()), self.sizeHint().height())


class NameField(QLineEdit):
    """Signals:
    cancelled: Escape was pressed, which would otherwise close the whole popover.
    """

    cancelled = Signal()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() == Qt.Key.Key_Escape:
            self.cancelled.emit()
        else:
            super().keyPressEvent(event)


class PresetRow(QWidget):
    """The current preset, and a menu to save, delete and tie presets to the model.

    Signals:
        height_changed: its height has changed.
    """

    height_changed = Signal()

    def __init__(self, chat: Chat, banner: Banner) -> None:
        super().__init__()
        self._chat, self._banner = chat, banner
        words = "A system prompt and sampling options saved under a name. Choosing a preset sets both."
        self.box = named(choice_box(min_characters=14), "presetBox", "Preset", words, f"<p>{words}</p>")
        self.box.activated.connect(self._use_preset)
        require_focus_for_wheel(self.box)
        self.more = icon_button("more", "Save, update or delete presets, or tie one to the model")
        self.more.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        self.menu = QMenu(self)
        self.menu.aboutToShow.connect(self._fill_menu)
        attach_menu(self.more, self.menu)
        self.name = named(NameField(), "presetName", "Preset name", "Enter saves, Escape cancels.")
        self.name.setPlaceholderText("Preset name")
        self.name.setMaxLength(LONGEST_NAME)
        self.name.returnPressed.connect(self._save)
        self.name.textChanged.connect(self._show_save)
        self.name.cancelled.connect(self._close_name_field)
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
        self.box.addItem(NO_PRESET, "")
        tied = settings.preset_for(settings.target)
        for preset in settings.presets:
            name = f"“{preset.name}”" if preset.name.casefold() == NO_PRESET.casefold() else preset.name
            self.box.addItem(f"{name} (for this model)" if preset is tied else name, preset.name)
        current = settings.preset_in_force
        self.box.setCurrentIndex(0 if current is None else self.box.findData(current.name))
        del blocker

    @Slot(int)
    def _use_preset(self, index: int) -> None:
        if name := self.box.itemData(index):
            self._chat.preferences.use_preset(name)
        self.refresh()

    def _fill_menu(self) -> None:
        self.menu.clear()
        settings, current = self._chat.settings, self._chat.settings.preset_in_force
        self.menu.addAction("Save as…", self.ask_for_name)
        for preset in settings.presets if current is None else ():
            self.menu.addAction(f"Update “{preset.name}”", partial(self._chat.preferences.save_preset, preset.name))
        self.menu.addSeparator()
        tied = settings.preset_for(settings.target)
        if current is not None:
            tie = self.menu.addAction(f"Use “{current.name}” for {target_title(settings.target)}")
            tie.setCheckable(True)
            tie.setChecked(tied is current)
            tie.triggered.connect(lambda on: self._chat.preferences.tie_preset(current.name if on else ""))
            self.menu.addAction(f"Delete “{current.name}”", partial(self._delete, current.name))
        elif tied is not None:
            self.menu.addAction(
                f"Stop using “{tied.name}” for {target_title(settings.target)}", partial(self._chat.preferences.tie_preset, "")
            )

    def ask_for_name(self) -> None:
        """Opens the field for a name."""
        self.naming.show()
        self.height_changed.emit()
        self.name.clear()
        self.name.setFocus(Qt.FocusReason.OtherFocusReason)

    @Slot(str)
    def _show_save(self, name: str) -> None:
        """Labels the button "Replace" if a preset of this name exists."""
        exists = any(preset.name == name.strip() for preset in self._chat.settings.presets)
        self.save.setText("Replace" if exists else "Save")

    @Slot()
    def _close_name_field(self) -> None:
        self.naming.hide()
        self.height_changed.emit()
        self.box.setFocus()

    @Slot()
    def _save(self) -> None:
        if name := self.name.text().strip():
            self._close_name_field()
            self._chat.preferences.save_preset(name)

    def _delete(self, name: str) -> None:
        """Deletes a preset and offers to undo it."""
        undo = self._chat.preferences.delete_preset(name)
        self._banner.show_message(f"The preset “{name}” is deleted.", "note")
        self._banner.show_action("Undo", undo)

    def set_look(self, theme: Theme, scale: float) -> None:
        """Restyles the button."""
        tint(self.more, theme, scale)


def _recompute_layout(widget: QWidget) -> None:
    if (layout := widget.layout()) is not None:
        layout.invalidate()
        layout.activate()
