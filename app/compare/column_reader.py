"""What a screen reader gets of a column's text, which is painted and therefore has no widgets of its own."""

from __future__ import annotations

from PySide6.QtCore import QObject
from PySide6.QtGui import QAccessible, QAccessibleInterface
from PySide6.QtWidgets import QAccessibleWidget

from app.compare.column_text import CompareText


class CompareTextInterface(QAccessibleWidget):
    """A document whose value is the answer in words, without ghosts."""

    def __init__(self, text: CompareText) -> None:
        super().__init__(text, QAccessible.Role.Document, text.accessibleName())

    def text(self, kind: QAccessible.Text) -> str:
        """Gives the whole answer as the value; name and description stay those of the widget."""
        thing = self.object()
        if kind == QAccessible.Text.Value and isinstance(thing, CompareText):
            return thing.plain_text()
        return super().text(kind)


def _factory(_: str, thing: QObject) -> QAccessibleInterface | None:
    if not isinstance(thing, CompareText):
        return None
    # Qt keeps the interface as long as the widget, but not its Python half: the widget does.
    thing.accessible = CompareTextInterface(thing)
    return thing.accessible


def install() -> None:
    """Makes the columns readable; once per process."""
    QAccessible.installFactory(_factory)
