"""A combo box for targets or drafters, which also offers files and folders."""

from __future__ import annotations

from PySide6.QtCore import QSize, Qt
from PySide6.QtWidgets import QComboBox, QStyleOptionComboBox

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
