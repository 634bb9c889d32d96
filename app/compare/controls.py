"""The controls of a comparison: those shared by all columns, and those of each column."""

from __future__ import annotations

from dataclasses import replace

from PySide6.QtCore import QSignalBlocker, Qt, Signal
from PySide6.QtGui import QAction, QResizeEvent
from PySide6.QtWidgets import (
    QComboBox,
    QLabel,
    QMenu,
    QPlainTextEdit,
    QToolButton,
    QWidget,
)

from app.compare.comparison import USUAL, ColumnSetup, Setup, budget_words, drafter_words
from app.compare.presets import PRESETS
from app.look.command import native_keys
from app.look.fields import GammaBox, NumberField, SeedField, TemperatureBox, fit_widths, require_focus_for_wheel
from app.look.flow_layout import wrapping
from app.look.selectors import USUAL_DRAFTER, ModelSelector
from app.look.theme import Theme
from app.look.widgets import LabelledControl, attach_menu, icon_button, in_column, in_row, named, push_button, tint
from app.look.wording import RULE_NOTES, RULE_TITLES
from engine.types import RANGES, RULES, Budget, Gamma
from engine.values.drafter_kinds import DRAFTERS, NO_DRAFTER
from engine.values.ranges import Range

PROMPT_LINES = 2
TREES = 4, 8, 16, 32, 64
"""Numbers of nodes to choose from."""
NARROW_BAR = 860
"""Width of the window below which the shared controls get their own row below the buttons."""
TITLE_BAR = 1120
"""Width of the window from which the title has room beside the shared controls."""
NARROW = 360
"""Width of a column below which its lists are shown without labels."""


class PromptField(QPlainTextEdit):
    """A prompt field of a few lines. Enter starts a new line, since prompts here may be whole paragraphs."""

    def __init__(self, words: str) -> None:
        super().__init__()
        named(self, "comparePrompt", words)
        self.setPlaceholderText("Prompt for every column" if words == "Prompt" else "Prompt for this column")
        self.setTabChangesFocus(True)
        self.document().setDocumentMargin(3)

    def set_look(self, scale: float) -> None:
        """Sets the height to `PROMPT_LINES` whole lines at the text scale."""
        self.ensurePolished()
        around = 2 * (2 + 1) + round(self.document().documentMargin())  # padding and border in the style sheet
        self.setFixedHeight(PROMPT_LINES * self.fontMetrics().lineSpacing() + around)


class CompareBar(QWidget):
    """The shared controls and the buttons of the view.

    Signals:
        back, started, stopped, extended, exported: its buttons.
        preset: (id) a preset was chosen.
        edited: the user changed a value.
    """

    back = Signal()
    started = Signal()
    stopped = Signal()
    extended = Signal()
    exported = Signal()
    preset = Signal(str)
    edited = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.setObjectName("header")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self._narrow, self._scale = False, 1.0
        self._own_prompts = False
        self._template = True
        self.close_button = icon_button("back", "Back to the chat", self.back.emit)
        self.title = named(QLabel("Compare"), "wordmark")
        self.presets = named(QToolButton(), "presetButton")
        self.presets.setText("Presets")
        named(self.presets, label="Presets", description="Ready-made comparisons.")
        self.presets.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        menu = QMenu(self.presets)
        for preset in PRESETS:
            action = QAction(preset.title, menu)
            action.setToolTip(preset.words)
            action.triggered.connect(lambda _=False, name=preset.id: self.preset.emit(name))
            menu.addAction(action)
        menu.setToolTipsVisible(True)
        attach_menu(self.presets, menu)
        self.prompt = PromptField("Prompt")
        self.prompt.textChanged.connect(self.edited)
        self.words = named(QLabel(wordWrap=True), "ruleNote")
        self.seed = self._seed()
        self.longest = self._number("Max tokens", "Maximum number of tokens in an answer.", RANGES["max_tokens"])
        self.samples = self._number(
            "Samples",
            "Short answers to draw and count, each with the next seed. Off (0) shows one answer per column instead.",
            replace(RANGES["samples"], keywords=("off",)),
        )
        words = "Off leaves out top-p, top-k, min-p, the repetition penalty and the system prompt that are set for the chat."
        self.filters = named(QComboBox(), label="Filters", description=words, tip=words)
        self.filters.addItem("off", True)
        self.filters.addItem("as in the chat", False)
        self.filters.currentIndexChanged.connect(self.edited)
        require_focus_for_wheel(self.filters)
        self.add = icon_button("new-chat", "Add a column", self.extended.emit)
        self.export = icon_button("export", "Export the comparison…", self.exported.emit)
        self._start_tip = f"Start the comparison ({native_keys('Ctrl+Return')})"
        self.start = named(push_button("Start", "sendButton", self.started), tip=self._start_tip)
        self.stop = named(push_button("Stop", "stopButton", self.stopped), label="Stop the comparison")
        self.stop.hide()
        self._arrange()

    def _seed(self) -> SeedField:
        seed = named(SeedField(), "compareSeed", "Seed of every column")
        seed.describe(f"Seed of every column, {RANGES['seed'].short}. Leave empty to draw a new one for each comparison.")
        seed.edited.connect(self.edited)
        return seed

    def _number(self, name: str, words: str, allowed: Range) -> NumberField:
        words = f"{words} Range: {allowed.short}."
        field = named(NumberField(allowed), label=name, description=words, tip=words)
        field.edited.connect(self.edited)
        return field

    def _arrange(self) -> None:
        chips = self._chips = wrapping(
            6,
            self.presets,
            LabelledControl("Seed", self.seed),
            LabelledControl("Max tokens", self.longest),
            LabelledControl("Samples", self.samples),
            LabelledControl("Filters", self.filters),
            expands=True,
        )
        top = Qt.AlignmentFlag.AlignTop
        row = self._row = in_row(
            *((widget, 0, top) for widget in (self.close_button, self.title)),
            (chips, 1),
            *((widget, 0, top) for widget in (self.add, self.export, self.start, self.stop)),
            spacing=10,
        )
        self._column = in_column(row, self.words, self.prompt, spacing=7, margins=(12, 10, 12, 8), parent=self)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._make_room()

    def _make_room(self) -> None:
        """Moves the shared controls to rows of their own in a narrow window."""
        narrow = self.width() < NARROW_BAR * self._scale
        self.title.setVisible(narrow or self.width() >= TITLE_BAR * self._scale)
        if narrow != self._narrow:
            self._narrow = narrow
            before = self._row if narrow else self._column
            before.removeWidget(self._chips)
            if narrow:
                self._column.insertWidget(1, self._chips)
            else:
                self._row.insertWidget(2, self._chips, 1)
            self._row.setStretch(1, 1 if narrow else 0)

    @property
    def _shared(self) -> tuple[QWidget, ...]:
        """The controls shared by all columns."""
        return self.prompt, self.seed, self.longest, self.samples, self.filters

    # Values.

    def show_setup(self, setup: Setup, words: str) -> None:
        """Sets the controls to a comparison; `words` describe what it shows."""
        blockers = [QSignalBlocker(control) for control in self._shared]
        self._own_prompts, self._template = setup.own_prompts, setup.template
        self.prompt.setPlainText(setup.prompt)
        self.prompt.setVisible(not setup.own_prompts)
        for field, value in ((self.seed, setup.seed), (self.longest, setup.max_tokens), (self.samples, setup.samples)):
            field.restore()  # discards text typed for another comparison
            field.show_value(value)
        self.filters.setCurrentIndex(self.filters.findData(setup.unfiltered))
        self.show_words(words)
        del blockers

    def show_words(self, words: str) -> None:
        """Shows a description below the controls; an empty text hides the line."""
        self.words.setText(words)
        self.words.setVisible(bool(words))

    def setup(self, columns: tuple[ColumnSetup, ...]) -> Setup:
        """Returns the comparison set by the controls."""
        return Setup(
            prompt=self.prompt.toPlainText(),
            columns=columns,
            seed=self.seed.seed,
            max_tokens=int(self.longest.value()),
            samples=int(self.samples.value()),
            template=self._template,
            own_prompts=self._own_prompts,
            unfiltered=self.filters.currentData(),
        )

    def show_drawn_seed(self, seed: int | None) -> None:
        """Shows in the empty field which seed was drawn last."""
        self.seed.show_last(seed)

    def set_state(self, running: bool, may_start: bool, may_add: bool, may_export: bool, recorded: bool = False) -> None:
        """Enables the controls that can be used now. `recorded`: a recorded result is shown."""
        self.start.setText("Run it live" if recorded else "Start")
        if running and self.start.hasFocus():
            self.stop.show()
            self.stop.setFocus()
        elif not running and self.stop.hasFocus():
            self.start.show()
            self.start.setFocus()
        self.stop.setVisible(running)
        self.start.setVisible(not running)
        self.start.setEnabled(may_start)
        self.start.setToolTip(self._start_tip if may_start else "Type a prompt first")
        self.add.setEnabled(may_add and not running)
        self.export.setEnabled(may_export)
        self.export.setToolTip("Export the comparison…" if may_export else "Nothing to export yet")
        for control in (self.presets, *self._shared):
            control.setEnabled(not running)

    def set_look(self, theme: Theme, scale: float) -> None:
        """Tints the buttons and makes the number fields just wide enough for their longest values."""
        for button in (self.close_button, self.add, self.export):
            tint(button, theme, scale)
        fit_widths(scale, ((self.longest, "4096"), (self.samples, "10000")))
        self.seed.set_look(scale)
        self.title.setFixedHeight(round(32 * scale))
        self._scale = scale
        self._make_room()
        self.prompt.set_look(scale)


class ColumnControls(QWidget):
    """The controls of one column.

    Signals:
        edited: the user changed a value.
    """

    edited = Signal()

    def __init__(self, letter: str) -> None:
        super().__init__()
        self._letter = letter
        self._scale = 1.0
        self.rule = QComboBox()
        self._name(self.rule, "Rule", "How this column's proposals are judged.")
        for rule in RULES:
            self.rule.addItem(RULE_TITLES[rule], rule)
            self.rule.setItemData(self.rule.count() - 1, RULE_NOTES[rule], Qt.ItemDataRole.ToolTipRole)
        self.drafter = ModelSelector(USUAL_DRAFTER)
        self._name(self.drafter, "Drafter", "What proposes tokens in this column.")
        self.gamma = GammaBox()
        self._name(self.gamma, "Gamma", f"Gamma: proposals per round, {RANGES['gamma'].short} (0).")
        self.temperature = TemperatureBox()
        self._name(
            self.temperature,
            "Temperature",
            f"Temperature, {RANGES['temperature'].short}: 0 always takes the most likely token; higher values are more varied.",
        )
        self.tree = QComboBox()
        self._name(
            self.tree,
            "Tree",
            "Whether a round proposes a chain, or a tree of at most this many tokens: several for one position.",
        )
        for budget in dict.fromkeys((None, USUAL.budget, *TREES)):
            self._add_budget(budget)
        require_focus_for_wheel(self.rule, self.drafter, self.tree)
        self.prompt = PromptField(f"Prompt for column {letter}")
        self.prompt.hide()
        for box in (self.rule, self.drafter, self.tree):
            box.currentIndexChanged.connect(self._edited)
        self.gamma.edited.connect(self._edited)
        self.temperature.edited.connect(self._edited)
        self.prompt.textChanged.connect(self.edited)
        self.named = tuple(
            LabelledControl(name, box) for name, box in (("Drafter", self.drafter), ("Rule", self.rule), ("Tree", self.tree))
        )
        others = (LabelledControl("Gamma", self.gamma), LabelledControl("Temp.", self.temperature))
        chips = wrapping(6, *self.named, *others, expands=True)
        in_column(self.prompt, chips, spacing=7, parent=self)

    def _add_budget(self, budget: Budget) -> None:
        self.tree.addItem(budget_words(budget).capitalize(), budget)

    def _name(self, control: QWidget, name: str, words: str) -> None:
        named(control, label=f"{name} of column {self._letter}", description=words, tip=words)

    def show_setup(self, column: ColumnSetup, own_prompt: bool, names: tuple[str, ...], target: str) -> None:
        """Sets the controls to a column; `names` are additional drafters to choose from."""
        blockers = [
            QSignalBlocker(box) for box in (self.rule, self.drafter, self.gamma, self.temperature, self.tree, self.prompt)
        ]
        self.drafter.clear()
        for name in dict.fromkeys((*DRAFTERS, target, *names, column.drafter)):
            self.drafter.add_model(drafter_words(name, target), name)
        self.drafter.setCurrentIndex(self.drafter.findData(column.drafter))
        self.rule.setCurrentIndex(self.rule.findData(column.rule))
        self.gamma.show_value(column.gamma)
        self.temperature.show_value(column.temperature)
        if self._index_of(column.budget) < 0:
            self._add_budget(column.budget)
        self.tree.setCurrentIndex(self._index_of(column.budget))
        self.prompt.setPlainText(column.prompt)
        self.prompt.setVisible(own_prompt)
        self._show_use()
        del blockers

    @property
    def has_own_prompt(self) -> bool:
        """Whether this column has a prompt of its own."""
        return not self.prompt.isHidden()

    @property
    def setup(self) -> ColumnSetup:
        """The column settings set by the controls."""
        gamma: Gamma = int(self.gamma.value()) or "auto"
        return ColumnSetup(
            rule=self.rule.currentData(),
            drafter=self.drafter.currentData(),
            gamma=gamma,
            temperature=self.temperature.value(),
            prompt=self.prompt.toPlainText(),
            budget=self.tree.currentData(),
        )

    def _index_of(self, budget: Budget) -> int:
        """Returns the index of a budget in the list, -1 if it is not there. `QComboBox.findData` does not find None."""
        return next((index for index in range(self.tree.count()) if self.tree.itemData(index) == budget), -1)

    def _edited(self) -> None:
        self._show_use()
        self.edited.emit()

    def _show_use(self) -> None:
        """Disables rule, gamma and tree without a drafter: there is nothing to judge."""
        drafts = self.drafter.currentData() != NO_DRAFTER
        self.rule.setEnabled(drafts)
        self.gamma.setEnabled(drafts)
        self.tree.setEnabled(drafts)

    def set_running(self, running: bool) -> None:
        """Locks the settings while answers run, since they apply only from the start."""
        self.setEnabled(not running)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Hides the labels of the lists in a narrow column: their contents explain them."""
        super().resizeEvent(event)
        for chip in self.named:
            chip.words.setVisible(event.size().width() >= NARROW * self._scale)

    def set_look(self, theme: Theme, scale: float) -> None:
        """Applies the fixed-width font to the number fields and makes them just wide enough for their longest values."""
        self._scale = scale
        fit_widths(scale, ((self.gamma, "auto"), (self.temperature, "0.80")))
        self.prompt.set_look(scale)
