"""Creates the controls for settings from the table of settings, for the settings window and the popover."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from PySide6.QtCore import QSignalBlocker
from PySide6.QtWidgets import QPlainTextEdit, QWidget

from app.look.fields import BudgetBox, GammaBox, NumberField, SeedField, require_focus_for_wheel
from app.look.widgets import choice_box, push_button
from app.session.setting_table import BudgetNumber, Choice, Described, GammaNumber, Number, Seed, Switch, Text
from engine.types import RANGES

Changed = Callable[[str, object], object]
MIN_CHARACTERS = 22
"""Minimum width of a choice in letters; it grows if there is room."""


@dataclass(frozen=True, slots=True)
class SettingField:
    """A control for one setting. `show` sets its value without emitting a change."""

    widget: QWidget
    show: Callable[[Any], None]


def make_field(setting: Described, changed: Changed) -> SettingField:
    """Returns the control for a setting, with its title, description and tooltip. `changed` gets the setting's name and its new
    value."""
    field = _make_control(setting, changed)
    field.widget.setAccessibleName(setting.title)
    field.widget.setAccessibleDescription(setting.about)
    field.widget.setToolTip(f"<p>{setting.about}</p>")
    return field


def _make_control(setting: Described, changed: Changed) -> SettingField:
    name = setting.name
    match setting.form:
        case Number() as form:
            return _number(NumberField(RANGES[name], form.step, form.decimals), lambda value: changed(name, value))
        case Choice(entries):
            return _choice(entries, lambda value: changed(name, value))
        case Switch():
            return _switch(lambda on: changed(name, on))
        case Text() as form:
            return _text(form, setting.words, lambda value: changed(name, value))
        case GammaNumber():
            return _number(GammaBox(), lambda value: changed(name, value))
        case BudgetNumber():
            return _number(BudgetBox(), lambda value: changed(name, value))
        case Seed():
            seed = SeedField()
            seed.describe(setting.about)
            return _number(seed, lambda value: changed(name, value))


def _without_signals(widget: QWidget, show: Callable[[Any], None]) -> Callable[[Any], None]:
    def set_value(value: Any) -> None:
        """Shows a value without emitting the widget's signals."""
        blocker = QSignalBlocker(widget)
        show(value)
        del blocker

    return set_value


def _number(field: NumberField, changed: Callable[[object], object]) -> SettingField:
    field.taken.connect(changed)
    field.lineEdit().setTextMargins(6, 0, 6, 0)
    return SettingField(field, field.show_value)


def _switch(changed: Callable[[bool], object]) -> SettingField:
    switch = push_button("", "settingSwitch")
    switch.setCheckable(True)

    def show(on: bool) -> None:
        """Sets the checked state and its label."""
        switch.setChecked(on)
        switch.setText("On" if on else "Off")

    def clicked(on: bool) -> None:
        """Handles a click."""
        show(on)
        changed(on)

    switch.clicked.connect(clicked)
    return SettingField(switch, show)


def _choice(entries: tuple[tuple[str, Any], ...], changed: Callable[[Any], object]) -> SettingField:
    box = choice_box(entries, MIN_CHARACTERS)
    box.currentIndexChanged.connect(lambda index: changed(box.itemData(index)))
    require_focus_for_wheel(box)
    values = [value for _, value in entries]
    return SettingField(box, _without_signals(box, lambda value: box.setCurrentIndex(values.index(value))))


def _text(form: Text, placeholder: str, changed: Callable[[Any], object]) -> SettingField:
    edit = QPlainTextEdit(placeholderText=placeholder, tabChangesFocus=True)
    edit.setProperty("lines", form.lines)

    def value() -> object:
        """Returns the text as a setting value: in a list, \\n stands for a line break within an entry."""
        text = edit.toPlainText()
        return tuple(line.replace("\\n", "\n") for line in text.split("\n") if line) if form.listed else text

    def show(wanted: Any) -> None:
        """Sets the text only if it differs, to keep the text cursor."""
        if value() != wanted:
            edit.setPlainText("\n".join(text.replace("\n", "\\n") for text in wanted) if form.listed else wanted)

    edit.textChanged.connect(lambda: changed(value()))
    return SettingField(edit, _without_signals(edit, show))


def fit_lines(edit: QPlainTextEdit) -> None:
    """Sets the height of a text field to the number of lines of its setting."""
    edit.ensurePolished()
    edit.setFixedHeight(edit.fontMetrics().lineSpacing() * int(edit.property("lines")) + 16)
