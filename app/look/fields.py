"""Input fields shared by the window's settings and those of a comparison."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from decimal import Decimal

from PySide6.QtCore import QEvent, QObject, QPoint, QSignalBlocker, Qt, QTimer, Signal, Slot
from PySide6.QtGui import (
    QFocusEvent,
    QFont,
    QFontMetrics,
    QHideEvent,
    QKeyEvent,
    QKeySequence,
    QValidator,
    QWheelEvent,
)
from PySide6.QtWidgets import QAbstractSpinBox, QDoubleSpinBox, QLabel, QWidget

from app.look import theme as themes
from app.look.widgets import FocusFrame, announce, named
from engine.lens.shared_wording import CHAIN
from engine.types import RANGES, SEED_LIMIT
from engine.values.ranges import Range

RANDOM, LAST, LAST_SHORT = "random", "random (last {})", "last {}"
DECIMALS = 12
"""Decimals that a value keeps; more would show rounding errors of floats."""
REASON_MS = 8000
"""Milliseconds for which the reason of a refused text stays after the field was left."""
TEMPORARY_REASONS = (Qt.FocusReason.PopupFocusReason, Qt.FocusReason.ActiveWindowFocusReason, Qt.FocusReason.MenuBarFocusReason)
"""Reasons of a focus loss after which the field gets the focus back: its menu was opened, or another window is active."""


class NumberField(QDoubleSpinBox):
    """A number field. Text is typed freely and applied as a whole: by Enter, by leaving the field, by an arrow key, and before
    a command's key acts. Escape restores the value.

    Text that is not a number in the range is refused. The reason is shown below the field, already during typing if more
    characters cannot make it valid. Decimal point and comma are both accepted, in every system language.

    Args:
        allowed: the range. Its keywords, if it has some, stand for 0 and the whole numbers below it.
        step: increment of an arrow key.
        decimals: minimum number of decimals shown.

    Signals:
        taken: (value, as in `setting`) the user has set another value.
        edited: the text has changed, also during typing.
    """

    taken = Signal(object)
    edited = Signal()

    def __init__(self, allowed: Range, step: float = 1, decimals: int = 0) -> None:
        super().__init__()
        self.allowed = allowed
        self._min_decimals = decimals
        self._reason: QLabel | None = None
        self._reason_timer = QTimer(self, singleShot=True, interval=REASON_MS)
        self._reason_timer.timeout.connect(self._hide_reason)
        self.setKeyboardTracking(False)
        self.setDecimals(0 if allowed.whole else DECIMALS)
        self.setRange(min(allowed.lowest, *self._keywords) if self._keywords else allowed.lowest, allowed.highest)
        self.setSingleStep(step)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setValue(self.minimum())
        self.lineEdit().textChanged.connect(self._typed)
        self.valueChanged.connect(self._changed)
        self.editingFinished.connect(self.commit)

    def set_face(self, font: QFont) -> None:
        """Sets the font of the field and of its editor: an editor with a style sheet does not inherit the field's font."""
        self.setFont(font)
        self.lineEdit().setFont(font)

    # Values

    @property
    def _keywords(self) -> dict[float, str]:
        """The keywords by the values that stand for them."""
        return {-place: word for place, word in enumerate(self.allowed.keywords)}

    @property
    def range_text(self) -> str:
        """The allowed values, as worded in messages."""
        return self.allowed.words

    @property
    def has_pending_text(self) -> bool:
        """Whether the text differs from that of the value in force."""
        return self.cleanText() != self.textFromValue(super().value())

    def value(self) -> int | float:
        """Returns the value of the text if it has one, else the value in force."""
        value = super().value()
        if self.has_pending_text:
            with contextlib.suppress(ValueError):
                value = self._parse(self.cleanText())
        return int(value) if self.allowed.whole else value

    @property
    def setting(self) -> object:
        """The value as the settings store it, possibly a keyword of the range."""
        value = self.value()
        return self._keywords.get(value, value)

    def show_value(self, value: object) -> None:
        """Shows the value in force, without reporting a change. A text that is being typed stays."""
        known = {word: number for number, word in self._keywords.items()}
        number = float(value) if isinstance(value, (int, float)) else known.get(str(value), 0.0)
        if number == super().value() and (self.has_pending_text or self.cleanText()):
            return
        edit, blocker = self.lineEdit(), QSignalBlocker(self)
        typed = (edit.text(), edit.cursorPosition()) if self.has_pending_text and self.hasFocus() else None
        self.setRange(min(self.minimum(), number), max(self.maximum(), number))  # older files may exceed the range
        super().setValue(number)
        if typed is not None:
            edit.setText(typed[0])
            edit.setCursorPosition(typed[1])
        del blocker

    def _parse(self, text: str) -> float:
        """Reads a typed text. Raises ValueError."""
        normalised = text.strip().lower()
        begun = [number for number, word in self._keywords.items() if normalised and word.startswith(normalised)]
        if begun or (self._keywords and normalised == "0"):
            return begun[0] if begun else 0.0
        return self.allowed.read(normalised)

    def _may_become_valid(self, text: str) -> bool:
        """Returns whether more characters can make a number of the range of a text that is none."""
        normalised = text.strip().lower()
        if normalised in ("", ".", ","):
            return True
        if not self.allowed.whole and normalised.endswith(("e", "e-", "e+")):
            return normalised[0].isdigit()
        extended = Range(0, self.allowed.highest, self.allowed.whole)
        try:
            return extended.read(normalised) < self.allowed.lowest
        except ValueError:
            return False

    def textFromValue(self, value: float) -> str:
        """Returns the text of a value: with a decimal point and all its decimals, at least those of the field."""
        if value in self._keywords:
            return self._keywords[value]
        if self.allowed.whole:
            return str(int(value))
        shortest = format(Decimal(repr(round(value, DECIMALS))), "f")
        fixed = f"{value:.{self._min_decimals}f}"
        return fixed if len(fixed.partition(".")[2]) >= len(shortest.partition(".")[2].rstrip("0")) else shortest

    def validate(self, text: str, position: int) -> tuple[QValidator.State, str, int]:
        """Accepts any text while it is typed; a refused one is explained, not swallowed."""
        return QValidator.State.Acceptable, text, position

    def valueFromText(self, text: str) -> float:
        """Returns the value of a text, or the one in force if it has none."""
        try:
            return self._parse(text)
        except ValueError:
            return super().value()

    @Slot()
    def _changed(self) -> None:
        self.taken.emit(self.setting)

    @Slot()
    def _typed(self) -> None:
        text = self.cleanText()
        try:
            self._parse(text)
            self._hide_reason()
        except ValueError:
            if not self.has_pending_text or self._may_become_valid(text):
                self._hide_reason()
            else:
                self._show_reason(f"“{_short(text)}” is not possible: {self.range_text}.")
        self.edited.emit()

    @Slot()
    def commit(self) -> bool:
        """Applies the typed text. Returns False, and shows the reason, if it is not a value in the range."""
        if not self.has_pending_text:
            return True
        text = self.cleanText()
        try:
            value = self._parse(text)
        except ValueError:
            self._show_reason(f"“{_short(text)}” is not possible: {self.range_text}." if text else f"Type {self.range_text}.")
            return False
        self._hide_reason()
        self._set(value)
        return True

    def _set(self, value: float) -> None:
        edit = self.lineEdit()
        blocker = QSignalBlocker(edit)  # the new text was not typed
        edit.setText(self.prefix() + self.textFromValue(value) + self.suffix())
        del blocker
        super().setValue(value)
        self.edited.emit()

    def restore(self) -> None:
        """Shows the value in force in place of what is typed."""
        self._hide_reason()
        self.lineEdit().setText(self.prefix() + self.textFromValue(super().value()) + self.suffix())

    def _leave(self) -> None:
        """Applies the typed text or, if it is invalid, restores the value and shows the reason."""
        if self.has_pending_text and not self.commit():
            text = self.cleanText()
            self.restore()
            value_text = self.textFromValue(super().value()) or "empty"
            typed = f"“{_short(text)}” was not applied" if text else "It cannot be empty"
            self._show_reason(f"{typed}: {self.range_text}. It stays {value_text}.")
            self._reason_timer.start()

    # Keys

    def stepBy(self, steps: int) -> None:
        """Applies the typed number and adds steps to it, within the range."""
        if not self.commit():
            return
        value = round(super().value() + steps * self.singleStep(), DECIMALS)
        self._set(min(max(value, self.minimum()), self.maximum()))
        self.selectAll()

    def stepEnabled(self) -> QAbstractSpinBox.StepEnabledFlag:
        """Enables both directions: a step beyond the range ends at its limit."""
        return QAbstractSpinBox.StepEnabledFlag.StepUpEnabled | QAbstractSpinBox.StepEnabledFlag.StepDownEnabled

    def event(self, event: QEvent) -> bool:
        """Handles keys before the commands of the window do."""
        if event.type() != QEvent.Type.ShortcutOverride or not isinstance(event, QKeyEvent):
            return super().event(event)
        if event.key() == Qt.Key.Key_Escape and self.has_pending_text:
            event.accept()
            return True
        handled = super().event(event)
        keys = QKeySequence(event.keyCombination())
        typed = event.isAccepted()  # the field handles the key, so no command runs
        if not typed and self._is_valid and any(keys in action.shortcuts() for action in self.window().actions()):
            self.commit()  # the command must use the typed value
        return handled

    @property
    def _is_valid(self) -> bool:
        try:
            self._parse(self.cleanText())
        except ValueError:
            return False
        return True

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            if self.commit():
                self.selectAll()
                self.editingFinished.emit()
                event.ignore()  # a dialog may handle it as well
            else:
                self.lineEdit().selectAll()
        elif event.key() == Qt.Key.Key_Escape and self.has_pending_text:
            self.restore()
            self.selectAll()
        else:
            super().keyPressEvent(event)

    def wheelEvent(self, event: QWheelEvent) -> None:
        """Ignores the wheel unless the field has the focus, so that the wheel scrolls the page."""
        super().wheelEvent(event) if self.hasFocus() else event.ignore()

    def focusInEvent(self, event: QFocusEvent) -> None:
        super().focusInEvent(event)
        if not self.has_pending_text:
            self._hide_reason()

    def focusOutEvent(self, event: QFocusEvent) -> None:
        is_temporary = event.reason() in TEMPORARY_REASONS and not self._is_valid
        typed = self.lineEdit().text()
        if not is_temporary:
            self._leave()
        super().focusOutEvent(event)
        if is_temporary and self.lineEdit().text() != typed:
            self.lineEdit().setText(typed)

    def hideEvent(self, event: QHideEvent) -> None:
        """Applies the typed text before the field is hidden."""
        self._leave()
        self._hide_reason()
        super().hideEvent(event)

    # Why a text is refused

    @property
    def reason(self) -> str:
        """The reason shown below the field; empty for none."""
        return self._reason.text() if self._reason is not None and not self._reason.isHidden() else ""

    def _show_reason(self, reason: str) -> None:
        self._reason_timer.stop()
        window = self.window()
        if self._reason is None or self._reason.parentWidget() is not window:
            self._hide_reason()
            self._reason = named(QLabel(window, textFormat=Qt.TextFormat.PlainText, wordWrap=True), "fieldReason")
            self._reason.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        label = self._reason
        label.setText(reason)
        label.ensurePolished()
        extra_width = label.contentsMargins().left() + label.contentsMargins().right() + 24
        metrics = label.fontMetrics()
        label.resize(min(metrics.horizontalAdvance(reason) + extra_width, window.width() - 8, 26 * metrics.height()), 0)
        label.resize(label.width(), label.heightForWidth(label.width()))
        parent = self.parentWidget()
        frame = parent if isinstance(parent, FocusFrame) else self
        below = frame.mapTo(window, QPoint(0, frame.height() + 4))
        if below.y() + label.height() > window.height():
            below = frame.mapTo(window, QPoint(0, -label.height() - 4))
        label.move(max(4, min(below.x(), window.width() - label.width() - 4)), max(0, below.y()))
        label.show()
        label.raise_()
        announce(self, reason)

    @Slot()
    def _hide_reason(self) -> None:
        self._reason_timer.stop()
        if self._reason is not None:
            self._reason.hide()


def _short(text: str) -> str:
    return text if len(text) <= 24 else f"{text[:23]}…"


class GammaBox(NumberField):
    """The number of proposals per round, or "auto", whose value is 0. Typing its beginning, or 0, selects it."""

    def __init__(self) -> None:
        super().__init__(RANGES["gamma"])


class BudgetBox(NumberField):
    """The number of tokens that a tree proposes, "auto", or "chain", for which the settings store None."""

    def __init__(self) -> None:
        super().__init__(RANGES["budget"])

    @property
    def setting(self) -> object:
        """The budget as the settings store it."""
        return None if super().setting == CHAIN else super().setting

    def show_value(self, value: object) -> None:
        """Shows the budget in force, "chain" for None, without reporting a change."""
        super().show_value(CHAIN if value is None else value)


class TemperatureBox(NumberField):
    """A temperature, in steps of a tenth."""

    def __init__(self) -> None:
        super().__init__(RANGES["temperature"], step=0.1, decimals=2)


def fit_widths(scale: float, examples: Iterable[tuple[NumberField, str]]) -> None:
    """Sets the fixed-width font of number fields, and each one's width to that of its longest value."""
    mono = themes.mono_font(scale, 13)
    for control, example in examples:
        control.set_face(mono)
        control.setFixedWidth(QFontMetrics(mono).horizontalAdvance(example) + 8)


class SeedField(NumberField):
    """A seed; an empty field means a random one. The placeholder shows the last drawn seed, worded so that it is not taken for
    a value."""

    NO_SEED = -1
    """Value that means no seed."""

    def __init__(self) -> None:
        self._description, self._last, self._scale = "", "", 1.0
        super().__init__(RANGES["seed"])
        self.setMinimum(self.NO_SEED)
        self.show_value(None)
        self.edited.connect(self._show_last)

    def describe(self, description: str) -> None:
        """Sets the description, for the tooltip and screen readers."""
        self._description = description
        self._show_last()

    @property
    def seed(self) -> int | None:
        """The seed that is set or typed; None if the field is empty."""
        value = int(self.value())
        return None if value == self.NO_SEED else value

    @property
    def setting(self) -> object:
        """The seed as the settings store it."""
        return self.seed

    @property
    def range_text(self) -> str:
        """The allowed values, as worded in messages."""
        return f"{self.allowed.words}, or nothing for a random one"

    def _parse(self, text: str) -> float:
        return super()._parse(text) if text.strip() else self.NO_SEED

    def textFromValue(self, value: float) -> str:
        """Returns the digits of a seed; an empty text for none."""
        return "" if value == self.NO_SEED else super().textFromValue(value)

    def show_value(self, value: object) -> None:
        """Shows the seed in force, from its first digit; an empty field for None."""
        super().show_value(self.NO_SEED if value is None else value)
        if not self.hasFocus():
            self.lineEdit().setCursorPosition(0)
        self._show_last()

    def show_last(self, seed: int | None) -> None:
        """Shows the seed drawn last; None if there was none."""
        self._last = "" if seed is None else str(seed)
        self._show_last()

    def set_look(self, scale: float) -> None:
        """Sets the width to that of the longest seed, typed or as placeholder. Digits use the fixed-width font, placeholders
        the font of controls."""
        self._scale = scale
        longest = str(SEED_LIMIT - 1)
        typed = QFontMetrics(themes.mono_font(scale, 13)).horizontalAdvance(longest)
        drawn = QFontMetrics(themes.body_font(scale)).horizontalAdvance(LAST_SHORT.format(longest))
        self.setFixedWidth(max(typed, drawn) + 8)
        self._show_last()

    @Slot()
    def _show_last(self) -> None:
        self.set_face(themes.mono_font(self._scale, 13) if self.text() else themes.body_font(self._scale))
        texts = [words.format(self._last) for words in (LAST, LAST_SHORT) if self._last]
        fitting = (words for words in texts if self.fontMetrics().horizontalAdvance(words) <= self.width() - 4)
        self.lineEdit().setPlaceholderText(next(fitting, RANDOM))
        last = f" The last one was {self._last}." if self._last else ""
        self.setToolTip(self._description + last)
        self.setAccessibleDescription(self._description + last)


class _WheelOnlyWithFocus(QObject):
    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() == QEvent.Type.Wheel and isinstance(watched, QWidget) and not watched.hasFocus():
            event.ignore()  # the area below it scrolls
            return True
        return False


def require_focus_for_wheel(*controls: QWidget) -> None:
    """Makes controls ignore the wheel unless they have the focus, so that scrolling past them does not change them."""
    for control in controls:
        control.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        control.installEventFilter(_WheelOnlyWithFocus(control))
