"""A combo box for targets or drafters, which also offers files and folders."""

from __future__ import annotations

from PySide6.QtCore import QSize, Qt
from PySide6.QtWidgets import QComboBox, QStyleOptionComboBox

from engine.values.drafter_kinds import DRAFTERS, SMALL_DRAFT

BUILT_IN = " (built in)"
USUAL_DRAFTER = DRAFTERS[SMALL_DRAFT].title
"""The longest name of the drafters that most users choose from."""


class ModelSelector(QComboBox):
    """A list of models. It displays the name of the chosen one without the remark after it.

    Args:
        example: the name whose width it always has, so that nothing next to it moves; longer names are elided in the middle.
            Without one the width follows the chosen name.
    """

    def __init__(self, example: str = "") -> None:
        super().__init__()
        self._example = example

    def initStyleOption(self, option: QStyleOptionComboBox) -> None:
        super().initStyleOption(option)
        available_width = self.width() - self.fontMetrics().height() - 6
        option.currentText = self.fontMetrics().elidedText(self._display_name, Qt.TextElideMode.ElideMiddle, available_width)

    @property
    def _display_name(self) -> str:
        name = self.currentText().removesuffix(BUILT_IN)
        return name.split(" (")[0] if self.currentData() in DRAFTERS else name

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
