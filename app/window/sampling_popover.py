"""The popover with the settings that are rarely changed: filters, limits, stop sequences, system prompt."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from PySide6.QtCore import QPoint, Qt, Slot
from PySide6.QtWidgets import QFormLayout, QFrame, QHBoxLayout, QLabel, QPlainTextEdit, QWidget

from app.look.banner import Banner
from app.look.widgets import in_column, named, push_button, scrolling
from app.session.chat import Chat
from app.session.setting_table import BY_NAME
from app.window.preset_row import PresetRow
from app.window.setting_fields import SettingField, fit_lines, make_field
from engine.types import Sampling

NUMBERS = ("top_p", "top_k", "min_p", "repetition_penalty", "max_tokens")
TEXTS = ("stop", "system_prompt")
CHOICES = ("thinking", "raw", "overflow", "kv_bits")
NO_SWITCH = "The chat template of this model has no switch for thinking."


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
        self.presets.grown.connect(self._fit_screen)
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
        chat.replaced_settings.connect(self._offer_settings_back)
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
        model, box, words = self._chat.session.model, self.fields["thinking"].widget, BY_NAME["thinking"].words
        self._sampling = () if model is None or model.sampling is None else model.sampling
        self._knows_model = model is not None
        self._show_recommended()
        switches = model is None or model.switches_thinking
        box.setEnabled(switches)
        box.setToolTip(f"<p>{words if switches else NO_SWITCH}</p>")
        box.setAccessibleDescription(words if switches else NO_SWITCH)

    def _show_recommended(self) -> None:
        """Shows the publisher's recommended sampling on the button that applies it."""
        told = [
            f"{BY_NAME[name].title.lower()}{f' {value:g}' if isinstance(value, (int, float)) else ''}"
            for name, value in self._sampling
            if name in BY_NAME
        ]
        said = ",\n".join(", ".join(told[first : first + 2]) for first in range(0, len(told), 2))
        in_force = all(getattr(self._chat.settings, name) == value for name, value in self._sampling)
        self.recommended.setText(said or ("None for this model" if self._knows_model else "No model loaded yet"))
        self.recommended.setEnabled(bool(self._sampling) and not in_force)
        words = f"The sampling that the publisher of the model recommends{' is set' if in_force else ': click to set it'}."
        self.recommended.setAccessibleName(f"Recommended by the model: {' '.join(said.split()) or 'nothing'}")
        if not said:
            words = (
                "The publisher of this model recommends no sampling." if self._knows_model else "Known once the model is loaded."
            )
        self.recommended.setToolTip(f"<p>{words}</p>")

    def _use_recommended(self) -> None:
        for name, value in self._sampling:
            self._chat.change_here(name, value)

    def _reset(self) -> None:
        defaults = {name: self._chat.settings.default(name) for name in self.fields}
        self._chat.replace(defaults, words="The sampling options have been reset.")

    @Slot(str, object, object)
    def _offer_settings_back(self, words: str, names: Sequence[str], undo: Callable[[], None]) -> None:
        """Offers to undo, as long as none of these settings has changed again."""
        after = {name: getattr(self._chat.settings, name) for name in names}
        self._banner.show_message(
            words, "note", lambda: all(getattr(self._chat.settings, name) == value for name, value in after.items())
        )
        self._banner.offer("Undo", partial(self._bring_back, undo))

    def _bring_back(self, undo: Callable[[], None]) -> None:
        self._banner.hide()
        undo()

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
        self._fit(self.screen().availableGeometry().height() - 16)

    def _fit(self, most: int) -> None:
        """Sets the height to that of all fields, up to a maximum; beyond it they scroll."""
        for child in self.body.findChildren(QWidget):
            child.ensurePolished()
        _measure_anew(self.presets)
        _measure_anew(self.body)  # its cached size is from before the fields had their heights
        whole = self.body.sizeHint()
        self.area.setFixedHeight(whole.height())
        _measure_anew(self)  # else the popover keeps the size that it had with larger text
        over = self.sizeHint().height() - most
        if over > 0:
            self.area.setFixedHeight(max(1, whole.height() - over))
        bar = self.area.verticalScrollBar().sizeHint().width() + 6 if over > 0 else 0
        self.area.setMinimumWidth(whole.width() + bar)
        _measure_anew(self)
        self.resize(max(420, self.sizeHint().width()), self.sizeHint().height())


def _measure_anew(widget: QWidget) -> None:
    if (layout := widget.layout()) is not None:
        layout.invalidate()
        layout.activate()
