"""Files that are dropped on the window: the first who knows what they are takes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from PySide6.QtCore import QEvent, QMimeData, QObject
from PySide6.QtGui import QDropEvent
from PySide6.QtWidgets import QWidget

Taker = tuple[Callable[[QMimeData], Any], Callable[[Any], object]]
"""Finds among what is dragged what it knows, nothing if there is none; and takes what it found."""


class Dropping(QObject):
    """Asks one after the other. Whoever takes any file has to stand last."""

    def __init__(self, parent: QWidget, *takers: Taker) -> None:
        super().__init__(parent)
        self._takers = takers
        parent.setAcceptDrops(True)

    def watch(self, *targets: QWidget) -> None:
        """From now on files can be dropped on these."""
        for target in targets:
            target.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if not isinstance(event, QDropEvent) or not self._offer(event.mimeData(), event.type() == QEvent.Type.Drop):
            return False
        event.acceptProposedAction()
        return True

    def take(self, data: QMimeData) -> bool:
        """Has what was dropped elsewhere, on the program's icon, taken as if it had been dropped here; False if nobody does."""
        return self._offer(data, dropped=True)

    def _offer(self, data: QMimeData, dropped: bool) -> bool:
        for find, take in self._takers:
            if found := find(data):
                if dropped:
                    take(found)
                return True
        return False
