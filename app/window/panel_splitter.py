"""Divides the window's width between the conversation and the side panel."""

from __future__ import annotations

from PySide6.QtCore import Qt, Slot
from PySide6.QtWidgets import QSplitter, QWidget


class PanelSplitter(QSplitter):
    """Gives the panel about a third of the width until the user moves the divider."""

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
        """Divides a window of `width` pixels at a text scale, unless the user has moved the divider."""
        if not self._divided_by_hand:
            panel = round(max(340 * scale, min(560 * scale, width * 0.37)))
            self.setSizes([width - panel, panel])
