"""Passes dropped files to the first handler that recognises them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from PySide6.QtCore import QEvent, QMimeData, QObject
from PySide6.QtGui import QDropEvent
from PySide6.QtWidgets import QWidget

Taker = tuple[Callable[[QMimeData], Any], Callable[[Any], object]]
"""A pair of functions: one returns the part of the dragged data that it recognises, falsy for none; the other uses it."""


class Dropping(QObject):
    """Tries the handlers in order. A handler that takes any file has to be last."""

    def __init__(self, parent: QWidget, *takers: Taker) -> None:
        super().__init__(parent)
        self._takers = takers
        parent.setAcceptDrops(True)

    def watch(self, *targets: QWidget) -> None:
        """Accepts drops on these widgets."""
        for target in targets:
            target.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if not isinstance(event, QDropEvent) or not self._offer(event.mimeData(), event.type() == QEvent.Type.Drop):
            return False
        event.acceptProposedAction()
        return True

    def take(self, data: QMimeData) -> bool:
        """Handles data that was dropped elsewhere, such as on the program's icon. Returns False if no handler takes it."""
        return self._offer(data, dropped=True)

    def _offer(self, data: QMimeData, dropped: bool) -> bool:
        for find, take in self._takers:
            if found := find(data):
                if dropped:
                    take(found)
                return True
        return False
