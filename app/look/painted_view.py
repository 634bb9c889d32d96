"""Base class of scroll areas that paint their own content."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtGui import QFocusEvent
from PySide6.QtWidgets import QAbstractScrollArea, QFrame, QWidget

KEYBOARD_REASONS = (Qt.FocusReason.TabFocusReason, Qt.FocusReason.BacktabFocusReason, Qt.FocusReason.ShortcutFocusReason)
"""Reasons for which the focus frame is shown: focus by keyboard. After a click no frame is needed."""


class PaintedView(QAbstractScrollArea):
    """A scroll area that paints its own content.

    Attributes:
        has_keyboard_focus: whether it got the focus by keyboard, which shows a focus frame (`marks.draw_focus_frame`).
    """

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.has_keyboard_focus = False
        self.setFrameShape(QFrame.Shape.NoFrame)

    def focusInEvent(self, event: QFocusEvent) -> None:
        super().focusInEvent(event)
        self.has_keyboard_focus = event.reason() in KEYBOARD_REASONS
        self.viewport().update()

    def focusOutEvent(self, event: QFocusEvent) -> None:
        super().focusOutEvent(event)
        self.has_keyboard_focus = False
        self.viewport().update()
