"""The fields in which settings are set, made from the table of settings: the same in the settings window and the popover."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from PySide6.QtCore import QSignalBlocker
from PySide6.QtWidgets import QPlainTextEdit, QWidget

from app.look.fields import GammaBox, NumberField, SeedField, keep_from_wheel
from app.look.widgets import choice_box, push_button
from app.session.setting_table import Choice, Described, GammaNumber, Number, Seed, Switch, Text

Changed = Callable[[str, object], object]
SHORTEST = 22
"""Letters of a choice that are always shown; where there is room, all are."""


@dataclass(frozen=True, slots=True)
class SettingField:
    """A control for one setting. `show` brings it to a value without reporting a change."""

    widget: QWidget
    show: Callable[[Any], None]


def make_field(setting: Described, changed: Changed) -> SettingField:
    """The control for a setting, with its name and help for everybody. `changed` gets the setting's name and its new value."""
    field = _made(setting, changed)
    field.widget.setAccessibleName(setting.title)
    field.widget.setAccessibleDescription(setting.about)
    field.widget.setToolTip(f"<p>{setting.about}</p>")
    return field


def _made(setting: Described, changed: Changed) -> SettingField:
    name = setting.name
    match setting.form:
        case Number() as form:
            return _number(NumberField(form.allowed, form.step, form.decimals), lambda value: changed(name, value))
        case Choice(entries):
            return _choice(entries, lambda value: changed(name, value))
        case Switch():
            return _switch(lambda on: changed(name, on))
        case Text() as form:
            return _text(form, setting.words, lambda value: changed(name, value))
        case GammaNumber():
            return _number(GammaBox(), lambda value: changed(name, value))
        case Seed():
            seed = SeedField()
            seed.describe(setting.about)
            return _number(seed, lambda value: changed(name, value))


def _silently(widget: QWidget, show: Callable[[Any], None]) -> Callable[[Any], None]:
    def shown(value: Any) -> None:
        """Shows a value; whoever listens to changes of the widget hears nothing."""
        blocker = QSignalBlocker(widget)
        show(value)
        del blocker

    return shown


def _number(field: NumberField, changed: Callable[[object], object]) -> SettingField:
    field.taken.connect(changed)
    field.lineEdit().setTextMargins(6, 0, 6, 0)
    return SettingField(field, field.show_value)


def _switch(changed: Callable[[bool], object]) -> SettingField:
    switch = push_button("", "settingSwitch")
    switch.setCheckable(True)

    def show(on: bool) -> None:
        """Checked or not, and the same in words."""
        switch.setChecked(on)
        switch.setText("On" if on else "Off")

    def clicked(on: bool) -> None:
        """The user has turned it."""
        show(on)
        changed(on)

    switch.clicked.connect(clicked)
    return SettingField(switch, show)


def _choice(entries: tuple[tuple[str, Any], ...], changed: Callable[[Any], object]) -> SettingField:
    box = choice_box(entries, SHORTEST)
    box.currentIndexChanged.connect(lambda index: changed(box.itemData(index)))
    keep_from_wheel(box)
    values = [value for _, value in entries]
    return SettingField(box, _silently(box, lambda value: box.setCurrentIndex(values.index(value))))


def _text(form: Text, words: str, changed: Callable[[Any], object]) -> SettingField:
    edit = QPlainTextEdit(placeholderText=words, tabChangesFocus=True)
    edit.setProperty("lines", form.lines)

    def value() -> object:
        """What is written, as the setting has it: line ends within an entry of a list are written as \\n."""
        text = edit.toPlainText()
        return tuple(line.replace("\\n", "\n") for line in text.split("\n") if line) if form.listed else text

    def show(wanted: Any) -> None:
        """Leaves the field alone while it says the same: the text cursor stays."""
        if value() != wanted:
            edit.setPlainText("\n".join(text.replace("\n", "\\n") for text in wanted) if form.listed else wanted)

    edit.textChanged.connect(lambda: changed(value()))
    return SettingField(edit, _silently(edit, show))


def fit_lines(edit: QPlainTextEdit) -> None:
    """Gives a text as much height as its setting has lines."""
    edit.ensurePolished()
    edit.setFixedHeight(edit.fontMetrics().lineSpacing() * int(edit.property("lines")) + 16)
