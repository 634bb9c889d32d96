"""The accessible interface of the lanes, which are painted and therefore have no widgets of their own."""

from __future__ import annotations

from PySide6.QtGui import QAccessible
from PySide6.QtWidgets import QAccessibleWidget

from app.lanes.lanes import Lanes


class LanesInterface(QAccessibleWidget):
    """A list whose value is the round, or the token in it, that is pointed at."""

    def __init__(self, lanes: Lanes) -> None:
        super().__init__(lanes, QAccessible.Role.List, lanes.accessibleName())

    def text(self, kind: QAccessible.Text) -> str:
        """Returns the round or token pointed at as the value; name and description stay those of the widget."""
        lanes = self.object()
        if kind == QAccessible.Text.Value and isinstance(lanes, Lanes):
            return lanes.accessible_text()
        return super().text(kind)
