"""A box that offers targets or drafters, and files and folders beside them."""

from __future__ import annotations

from PySide6.QtCore import QSize, Qt
from PySide6.QtWidgets import (
    QComboBox,
    QStyleOptionComboBox,
)

BUILT_IN = " (built in)"


class ModelSelector(QComboBox):
    """A list of models that takes only the room of the chosen one, whose name it shows without the remark behind it."""

    def initStyleOption(self, option: QStyleOptionComboBox) -> None:
        super().initStyleOption(option)
        room = self.width() - self.fontMetrics().height() - 6
        option.currentText = self.fontMetrics().elidedText(self._shown, Qt.TextElideMode.ElideMiddle, room)

    @property
    def _shown(self) -> str:
        return self.currentText().removesuffix(BUILT_IN)

    def sizeHint(self) -> QSize:
        metrics = self.fontMetrics()
        widest = metrics.horizontalAdvance("m" * 18)
        return QSize(min(widest, metrics.horizontalAdvance(self._shown)) + metrics.height() + 10, super().sizeHint().height())

    def minimumSizeHint(self) -> QSize:
        return self.sizeHint()

    def showPopup(self) -> None:
        metrics = self.view().fontMetrics()
        widest = max(metrics.horizontalAdvance(self.itemText(index)) for index in range(self.count()))
        self.view().setMinimumWidth(widest + 3 * metrics.height())
        super().showPopup()
