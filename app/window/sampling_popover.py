"""The popover with what is set once and then left alone: filters, limits, stop sequences, system prompt."""

from __future__ import annotations

from PySide6.QtCore import QPoint, QSignalBlocker, Qt, Signal
from PySide6.QtWidgets import (
    QComboBox,
    QDoubleSpinBox,
    QFormLayout,
    QFrame,
    QHBoxLayout,
    QLabel,
    QPlainTextEdit,
    QPushButton,
    QScrollArea,
    QSpinBox,
    QVBoxLayout,
    QWidget,
)

from app.look.fields import keep_from_wheel
from app.look.widgets import named, spaced
from app.session.settings import Settings
from engine.types import KV_BITS, ModelInfo

NUMBERS = (
    # setting, title, what it does, lowest, highest, step, decimals
    ("top_p", "Top-p", "Keeps the most likely tokens up to this total probability. 1 turns it off.", 0.0, 1.0, 0.05, 2),
    ("top_k", "Top-k", "Keeps only this many of the most likely tokens. 0 turns it off.", 0, 100_000, 10, 0),
    ("min_p", "Min-p", "Drops tokens below this share of the most likely one's probability. 0 turns it off.", 0.0, 1.0, 0.01, 2),
    ("repetition_penalty", "Repetition penalty", "Above 1 makes recent tokens less likely. 1 turns it off.", 0.1, 3.0, 0.05, 2),
    ("max_tokens", "Max tokens", "Maximum number of tokens in an answer.", 1, 100_000, 64, 0),
)

NO_SWITCH = "The chat template of this model has no switch for thinking."
CHOICES: tuple[tuple[str, str, str, tuple[tuple[str, object], ...]], ...] = (
    # setting, title, what it does, entries with their values
    (
        "thinking",
        "Thinking",
        "Whether a model that can do so thinks before it answers.",
        (("As the model has it", "auto"), ("On", "on"), ("Off", "off")),
    ),
    (
        "raw",
        "Prompt",
        "As raw text, each message is continued as it stands; neither earlier messages nor the system prompt are read.",
        (("In the model's chat template", False), ("Raw text to continue", True)),
    ),
    (
        "overflow",
        "When the context is full",
        "What happens once the conversation is too long for the model: you are told, or the model no longer sees the oldest "
        "turns. They stay in the chat.",
        (("Stop and say so", "stop"), ("Leave out the oldest turns", "drop")),
    ),
    (
        "kv_bits",
        "K/V cache",
        "Fewer bits for the target's keys and values take less memory in long conversations, and change its text a little.",
        (("Full precision", None), *((f"{bits} bits", bits) for bits in KV_BITS)),
    ),
)


class SamplingPopover(QFrame):
    """Floats below its button; everything in it takes effect with the next answer.

    Signals:
        changed: (name of the setting, its new value).
        closed: it went away.
    """

    changed = Signal(str, object)

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent, Qt.WindowType.Popup | Qt.WindowType.FramelessWindowHint | Qt.WindowType.NoDropShadowWindowHint)
        named(self, "popover", "Sampling options")
        self.body = QWidget()
        self.body.setObjectName("panelBody")
        form = QFormLayout(self.body)
        form.setContentsMargins(0, 0, 0, 0)
        form.setHorizontalSpacing(18)
        form.setVerticalSpacing(9)
        form.setFieldGrowthPolicy(QFormLayout.FieldGrowthPolicy.AllNonFixedFieldsGrow)
        self.numbers: dict[str, QSpinBox | QDoubleSpinBox] = {}
        for name, title, words, lowest, highest, step, decimals in NUMBERS:
            box = self._number(name, title, words, lowest, highest, step, decimals)
            form.addRow(title, box)
        self.stop = self._text("stop", "Stop sequences", "One per line. The answer ends before the first one that appears.", 2)
        self.system = self._text(
            "system_prompt", "System prompt", "Placed before the conversation. Leave empty for the model's default.", 4
        )
        form.addRow("Stop sequences", self.stop)
        form.addRow("System prompt", self.system)
        self.choices: dict[str, QComboBox] = {}
        for name, title, words, entries in CHOICES:
            form.addRow(title, self._choice(name, title, words, entries))
        hint = QLabel("These take effect with the next answer.")
        hint.setObjectName("fieldHint")
        reset = QPushButton("Reset to defaults")
        reset.setObjectName("quietButton")
        reset.clicked.connect(self._reset)
        foot = QHBoxLayout()
        foot.addWidget(hint, 1)
        foot.addWidget(reset)
        column = spaced(QVBoxLayout(self), 14, (18, 16, 18, 14))
        self.area = QScrollArea()  # for large text on a low screen
        self.area.setFrameShape(QFrame.Shape.NoFrame)
        self.area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.area.setWidgetResizable(True)
        self.area.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.area.setWidget(self.body)
        column.addWidget(self.area)
        column.addLayout(foot)

    def _number(
        self, name: str, title: str, words: str, lowest: float, highest: float, step: float, decimals: int
    ) -> QSpinBox | QDoubleSpinBox:
        box: QSpinBox | QDoubleSpinBox
        if decimals:
            box = QDoubleSpinBox()
            box.setDecimals(decimals)
            box.setRange(lowest, highest)
            box.setSingleStep(step)
            box.valueChanged.connect(lambda value: self.changed.emit(name, round(value, 4)))
        else:
            box = QSpinBox()
            box.setRange(int(lowest), int(highest))
            box.setSingleStep(int(step))
            box.valueChanged.connect(lambda value: self.changed.emit(name, value))
        box.lineEdit().setTextMargins(6, 0, 6, 0)
        box.setAccessibleName(title)
        box.setAccessibleDescription(words)
        box.setToolTip(words)
        keep_from_wheel(box)
        self.numbers[name] = box
        return box

    def _choice(self, name: str, title: str, words: str, entries: tuple[tuple[str, object], ...]) -> QComboBox:
        box = QComboBox()
        box.setProperty("look", "choice")
        for text, value in entries:
            box.addItem(text, value)
        box.setAccessibleName(title)
        box.setAccessibleDescription(words)
        box.setToolTip(f"<p>{words}</p>")
        box.currentIndexChanged.connect(lambda index: self.changed.emit(name, box.itemData(index)))
        keep_from_wheel(box)
        self.choices[name] = box
        return box

    def _text(self, name: str, title: str, words: str, lines: int) -> QPlainTextEdit:
        edit = QPlainTextEdit()
        edit.setAccessibleName(title)
        edit.setAccessibleDescription(words)
        edit.setPlaceholderText(words)
        edit.setToolTip(words)
        edit.setTabChangesFocus(True)
        edit.setProperty("lines", lines)
        edit.textChanged.connect(lambda: self.changed.emit(name, _value(name, edit.toPlainText())))
        return edit

    def show_settings(self, settings: Settings) -> None:
        """Brings the fields to the settings, without reporting a change."""
        blockers = [QSignalBlocker(field) for field in (*self.numbers.values(), *self.choices.values(), self.stop, self.system)]
        for name, box in self.numbers.items():
            box.setValue(getattr(settings, name))
        if _value("stop", self.stop.toPlainText()) != settings.stop:
            self.stop.setPlainText("\n".join(text.replace("\n", "\\n") for text in settings.stop))
        if self.system.toPlainText() != settings.system_prompt:
            self.system.setPlainText(settings.system_prompt)
        for name, choice in self.choices.items():
            values = [choice.itemData(index) for index in range(choice.count())]
            choice.setCurrentIndex(values.index(getattr(settings, name)))
        del blockers

    def show_model(self, model: ModelInfo | None) -> None:
        """Leaves out what the loaded model has no use for, and says so."""
        box, words = self.choices["thinking"], CHOICES[0][2]
        switches = model is None or model.switches_thinking
        box.setEnabled(switches)
        box.setToolTip(f"<p>{words if switches else NO_SWITCH}</p>")
        box.setAccessibleDescription(words if switches else NO_SWITCH)

    def _reset(self) -> None:
        defaults = Settings()
        for name in (*self.numbers, *self.choices, "stop", "system_prompt"):
            self.changed.emit(name, getattr(defaults, name))
        self.show_settings(defaults)

    def open_below(self, button: QWidget) -> None:
        """Shows the popover with its right edge below a button, inside the screen."""
        self.ensurePolished()
        for edit in (self.stop, self.system):
            edit.ensurePolished()
            edit.setFixedHeight(edit.fontMetrics().lineSpacing() * int(edit.property("lines")) + 16)
        screen = button.screen().availableGeometry()
        self._fit(screen.height() - 16)
        corner = button.mapToGlobal(QPoint(button.width(), button.height() + 6))
        left = max(screen.left() + 8, corner.x() - self.width())
        self.move(left, min(corner.y(), screen.bottom() - self.height() - 8))
        self.show()
        self.numbers["top_p"].setFocus(Qt.FocusReason.PopupFocusReason)

    def _fit(self, most: int) -> None:
        """As high as all fields, but no higher than that; then they scroll."""
        _measure_anew(self.body)  # it has measured the fields before they had their heights
        whole = self.body.sizeHint()
        self.area.setFixedHeight(whole.height())
        _measure_anew(self)  # and keeps the popover as large as it was with larger text
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


def _value(name: str, text: str) -> object:
    if name != "stop":
        return text
    return tuple(line.replace("\\n", "\n") for line in text.split("\n") if line)
