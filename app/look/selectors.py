"""The selectors of the header: a button for each rule, and a combo box for targets or drafters."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtWidgets import QButtonGroup, QComboBox, QFrame, QHBoxLayout, QPushButton, QSizePolicy, QStyleOptionComboBox

from app.look.widgets import named, spaced
from app.look.wording import RULE_NOTES, RULE_TITLES
from engine.types import RULES, Rule
from engine.values.drafter_kinds import DRAFTERS, SMALL_DRAFT

_SHORT = Qt.ItemDataRole.UserRole + 1
"""Role of what is shown of an entry while the list is closed."""
USUAL_DRAFTER = DRAFTERS[SMALL_DRAFT].title
"""The longest name of the drafters that most users choose from."""


class ModelSelector(QComboBox):
    """A list of models. Closed, it shows the short title of the chosen one, without its remark.

    Args:
        example: the name whose width it always has, so that nothing next to it moves; longer names are elided in the middle.
            Without one the width follows the chosen name.
    """

    def __init__(self, example: str = "") -> None:
        super().__init__()
        self._example = example

    def add_model(self, title: str, value: str, remark: str = "") -> None:
        """Adds a model, with a remark in parentheses."""
        self.addItem(f"{title} ({remark})" if remark else title, value)
        short = DRAFTERS[value].short_title if value in DRAFTERS else ""
        self.setItemData(self.count() - 1, short or title, _SHORT)

    def initStyleOption(self, option: QStyleOptionComboBox) -> None:
        super().initStyleOption(option)
        available_width = self.width() - self.fontMetrics().height() - 6
        option.currentText = self.fontMetrics().elidedText(self._display_name, Qt.TextElideMode.ElideMiddle, available_width)

    @property
    def _display_name(self) -> str:
        return self.currentData(_SHORT) or self.currentText()

    def sizeHint(self) -> QSize:
        metrics = self.fontMetrics()
        example_width = metrics.horizontalAdvance(self._example or "m" * 18)
        available_width = example_width if self._example else min(example_width, metrics.horizontalAdvance(self._display_name))
        return QSize(available_width + metrics.height() + 10, super().sizeHint().height())

    def minimumSizeHint(self) -> QSize:
        return self.sizeHint()

    def showPopup(self) -> None:
        metrics = self.view().fontMetrics()
        longest_width = max(metrics.horizontalAdvance(self.itemText(index)) for index in range(self.count()))
        self.view().setMinimumWidth(longest_width + 3 * metrics.height())
        super().showPopup()


class RuleSelector(QFrame):
    """One button per rule; arrow keys move between them.

    Args:
        rules: the rules to choose from. name: object name for automation. label: name for screen readers.

    Signals:
        chosen: the user picked another rule.
    """

    chosen = Signal(str)

    def __init__(self, rules: Sequence[Rule] = RULES, name: str = "ruleSelector", label: str = "Acceptance rule") -> None:
        super().__init__()
        named(self, name, label, "How proposed tokens are judged. Can be changed during an answer.")
        row = spaced(QHBoxLayout(self))
        group = QButtonGroup(self)
        self.buttons: dict[Rule, QPushButton] = {}
        for rule in rules:
            button = QPushButton(RULE_TITLES[rule])
            button.setCheckable(True)
            button.setProperty("rule", rule)
            button.setAccessibleName(f"Rule {RULE_TITLES[rule]}")
            button.setAccessibleDescription(RULE_NOTES[rule])
            button.setToolTip(RULE_NOTES[rule])
            group.addButton(button)
            row.addWidget(button)
            self.buttons[rule] = button
        group.buttonClicked.connect(self._clicked)
        self.setSizePolicy(QSizePolicy.Policy.Maximum, QSizePolicy.Policy.Fixed)

    @property
    def rule(self) -> Rule:
        """The rule whose button is pressed."""
        return next(rule for rule, button in self.buttons.items() if button.isChecked())

    def set_rule(self, rule: Rule) -> None:
        """Presses a rule's button without emitting `chosen`."""
        self.buttons[rule].setChecked(True)
        for name, button in self.buttons.items():  # Tab must reach the checked button; Qt ensures that only after its first focus
            button.setFocusPolicy(Qt.FocusPolicy.StrongFocus if name == rule else Qt.FocusPolicy.ClickFocus)

    def _clicked(self) -> None:
        self.chosen.emit(self.rule)
