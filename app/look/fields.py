"""Fields that are shared by the window's settings and those of a comparison."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QObject, Qt
from PySide6.QtGui import QValidator
from PySide6.QtWidgets import QSpinBox, QWidget

from engine.types import MAX_GAMMA

AUTO = "auto"


class GammaBox(QSpinBox):
    """The number of proposals per round; 0 is shown as "auto", and both can be typed, "auto" also by its beginning."""

    def __init__(self) -> None:
        super().__init__()
        self.setRange(0, MAX_GAMMA)
        self.setSpecialValueText(AUTO)

    def validate(self, text: str, position: int) -> tuple[QValidator.State, str, int]:
        typed = text.strip().lower()
        if typed and AUTO.startswith(typed):
            whole = typed == AUTO
            return (QValidator.State.Acceptable if whole else QValidator.State.Intermediate), text, position
        return super().validate(text, position)

    def fixup(self, text: str) -> str:
        typed = text.strip().lower()
        return AUTO if typed and AUTO.startswith(typed) else super().fixup(text)

    def valueFromText(self, text: str) -> int:
        return 0 if text.strip().lower() == AUTO else super().valueFromText(text)


class _WheelOnlyWithFocus(QObject):
    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() == QEvent.Type.Wheel and isinstance(watched, QWidget) and not watched.hasFocus():
            event.ignore()  # whatever scrolls below it gets the wheel
            return True
        return False


def keep_from_wheel(*controls: QWidget) -> None:
    """A wheel that passes over these does not change them; it does once they have the keyboard."""
    for control in controls:
        control.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        control.installEventFilter(_WheelOnlyWithFocus(control))
