"""A scroll area that paints what it shows itself."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtGui import QFocusEvent
from PySide6.QtWidgets import QAbstractScrollArea, QFrame, QWidget

KEYBOARD_REASONS = (Qt.FocusReason.TabFocusReason, Qt.FocusReason.BacktabFocusReason, Qt.FocusReason.ShortcutFocusReason)
"""Focus that came by key is shown; a click needs no frame."""


class PaintedView(QAbstractScrollArea):
    """Attributes:
    focused: whether the keyboard came by key, which shows a frame (`marks.frame_focus`).
    """

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.focused = False
        self.setFrameShape(QFrame.Shape.NoFrame)

    def focusInEvent(self, event: QFocusEvent) -> None:
        super().focusInEvent(event)
        self.focused = event.reason() in KEYBOARD_REASONS
        self.viewport().update()

    def focusOutEvent(self, event: QFocusEvent) -> None:
        super().focusOutEvent(event)
        self.focused = False
        self.viewport().update()
