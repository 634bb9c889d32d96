"""How the conversation and the panel beside it share the width of the window."""

from __future__ import annotations

from PySide6.QtCore import Qt, Slot
from PySide6.QtWidgets import QSplitter, QWidget


class PanelSplitter(QSplitter):
    """The panel gets about a third of the width, until the user has said otherwise."""

    def __init__(self, conversation: QWidget, panel: QWidget) -> None:
        super().__init__(Qt.Orientation.Horizontal)
        self._divided_by_hand = False
        self.setChildrenCollapsible(False)
        self.setHandleWidth(1)
        self.addWidget(conversation)
        self.addWidget(panel)
        self.splitterMoved.connect(self._divided)

    @Slot()
    def _divided(self) -> None:
        self._divided_by_hand = True

    def divide(self, width: int, scale: float) -> None:
        """Divides a window of so many pixels at a text scale anew; leaves it as the user has divided it."""
        if not self._divided_by_hand:
            panel = round(max(340 * scale, min(560 * scale, width * 0.37)))
            self.setSizes([width - panel, panel])
