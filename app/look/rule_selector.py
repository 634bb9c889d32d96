"""A button for each rule: used in the header, and for judging again."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QButtonGroup, QFrame, QHBoxLayout, QPushButton, QSizePolicy

from app.look.widgets import named, spaced
from app.look.wording import RULE_NOTES, RULE_TITLES
from engine.types import RULES, Rule


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
