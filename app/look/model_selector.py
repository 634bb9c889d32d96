"""A box that offers targets or drafters, and files and folders beside them."""

from __future__ import annotations

from PySide6.QtCore import QSize, Qt
from PySide6.QtWidgets import QComboBox, QStyleOptionComboBox

from engine.values.drafter_kinds import DRAFTERS, SMALL_DRAFT

BUILT_IN = " (built in)"
USUAL_DRAFTER = DRAFTERS[SMALL_DRAFT].title
"""The longest name of those drafters that most people choose from."""


class ModelSelector(QComboBox):
    """A list of models; it shows the name of the chosen one without the remark behind it.

    Args:
        example: the name it has room for, whichever is chosen, so that nothing beside it moves; longer names are cut in the
            middle. Without one it takes the room of the chosen name.
    """

    def __init__(self, example: str = "") -> None:
        super().__init__()
        self._example = example

    def initStyleOption(self, option: QStyleOptionComboBox) -> None:
        super().initStyleOption(option)
        room = self.width() - self.fontMetrics().height() - 6
        option.currentText = self.fontMetrics().elidedText(self._shown, Qt.TextElideMode.ElideMiddle, room)

    @property
    def _shown(self) -> str:
        name = self.currentText().removesuffix(BUILT_IN)
        return name.split(" (")[0] if self.currentData() in DRAFTERS else name

    def sizeHint(self) -> QSize:
        metrics = self.fontMetrics()
        widest = metrics.horizontalAdvance(self._example or "m" * 18)
        room = widest if self._example else min(widest, metrics.horizontalAdvance(self._shown))
        return QSize(room + metrics.height() + 10, super().sizeHint().height())

    def minimumSizeHint(self) -> QSize:
        return self.sizeHint()

    def showPopup(self) -> None:
        metrics = self.view().fontMetrics()
        widest = max(metrics.horizontalAdvance(self.itemText(index)) for index in range(self.count()))
        self.view().setMinimumWidth(widest + 3 * metrics.height())
        super().showPopup()
