"""Fields that are shared by the window's settings and those of a comparison."""

from __future__ import annotations

from collections.abc import Iterable

from PySide6.QtCore import QEvent, QObject, Qt
from PySide6.QtGui import QFontMetrics, QRegularExpressionValidator, QValidator
from PySide6.QtWidgets import QDoubleSpinBox, QLineEdit, QSpinBox, QWidget

from app.look import theme as themes
from engine.types import MAX_GAMMA, SEED_LIMIT

AUTO = "auto"
RANDOM, LAST, LAST_ALONE = "random", "random (last {})", "last {}"


class GammaBox(QSpinBox):
    """The number of proposals per round; 0 is shown as "auto", and both can be typed, "auto" also by its beginning."""

    def __init__(self) -> None:
        super().__init__()
        self.setRange(0, MAX_GAMMA)
        self.setSpecialValueText(AUTO)

    def validate(self, text: str, position: int) -> tuple[QValidator.State, str, int]:
        """Takes "auto" and what it begins with besides numbers."""
        typed = text.strip().lower()
        if typed and AUTO.startswith(typed):
            whole = typed == AUTO
            return (QValidator.State.Acceptable if whole else QValidator.State.Intermediate), text, position
        return super().validate(text, position)

    def fixup(self, text: str) -> str:
        """Makes "auto" of what it begins with."""
        typed = text.strip().lower()
        return AUTO if typed and AUTO.startswith(typed) else super().fixup(text)

    def valueFromText(self, text: str) -> int:
        """The number that is typed, 0 for "auto"."""
        return 0 if text.strip().lower() == AUTO else super().valueFromText(text)


class DecimalBox(QDoubleSpinBox):
    """A number with decimals, written with a full stop as everywhere in the window; a comma that is typed becomes one."""

    def validate(self, text: str, position: int) -> tuple[QValidator.State, str, int]:
        """Takes the comma of most keypads, too."""
        return super().validate(text.replace(",", "."), position)


class TemperatureBox(DecimalBox):
    """A temperature, in steps of a tenth."""

    def __init__(self) -> None:
        super().__init__(singleStep=0.1, decimals=2)
        self.setRange(0, 5)


def just_wide_enough(scale: float, examples: Iterable[tuple[QWidget, str]]) -> None:
    """Sets number fields in the fixed-width font, each as wide as its longest value."""
    mono = themes.mono_font(scale, 13)
    for control, example in examples:
        control.setFont(mono)
        control.setFixedWidth(QFontMetrics(mono).horizontalAdvance(example) + 8)


class SeedField(QLineEdit):
    """A seed, or nothing for a random one. What was drawn last is said in the empty field, in words that look like no value."""

    def __init__(self) -> None:
        super().__init__()
        self._words, self._last, self._scale = "", "", 1.0
        self.setValidator(QRegularExpressionValidator(r"\d{0,16}", self))
        self.textChanged.connect(self._show_last)

    def describe(self, words: str) -> None:
        """What the field is for, as tooltip and for screen readers."""
        self._words = words
        self._show_last()

    @property
    def seed(self) -> int | None:
        """The seed that is typed, at most the largest there is; None in the empty field."""
        text = self.text().strip()
        return min(int(text), SEED_LIMIT - 1) if text else None

    def show_seed(self, seed: int | None) -> None:
        """Shows a seed that stays, or none."""
        self.setText("" if seed is None else str(seed))
        self.setCursorPosition(0)

    def show_last(self, seed: int | None) -> None:
        """Says which seed was drawn last; None where none was."""
        self._last = "" if seed is None else str(seed)
        self._show_last()

    def set_look(self, scale: float) -> None:
        """As wide as the longest seed, typed or last drawn; digits in the fixed-width font, words in the font of other words."""
        self._scale = scale
        longest = str(SEED_LIMIT - 1)
        typed = QFontMetrics(themes.mono_font(scale, 13)).horizontalAdvance(longest)
        drawn = QFontMetrics(themes.body_font(scale)).horizontalAdvance(LAST_ALONE.format(longest))
        self.setFixedWidth(max(typed, drawn) + 8)
        self._show_last()

    def _show_last(self) -> None:
        self.setFont(themes.mono_font(self._scale, 13) if self.text() else themes.body_font(self._scale))
        wordings = [words.format(self._last) for words in (LAST, LAST_ALONE) if self._last]
        fitting = (words for words in wordings if self.fontMetrics().horizontalAdvance(words) <= self.width() - 4)
        self.setPlaceholderText(next(fitting, RANDOM))
        last = f" The last one was {self._last}." if self._last else ""
        self.setToolTip(self._words + last)
        self.setAccessibleDescription(self._words + last)


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
