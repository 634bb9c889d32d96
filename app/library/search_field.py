"""A search field above a list: Down moves to the list, Escape clears the field before it closes anything."""

from __future__ import annotations

from PySide6.QtCore import QEvent, Qt, Signal
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QLineEdit, QListView

from app.look.widgets import named


class SearchField(QLineEdit):
    """The search field of a list.

    Signals:
        changed: (words) the search words have changed.
    """

    changed = Signal(str)

    def __init__(self, label: str, list_view: QListView) -> None:
        super().__init__()
        named(self, "modelSearch", label, "Down goes to the results.")
        self.setPlaceholderText(label)
        self.setClearButtonEnabled(True)
        self._list_view = list_view
        self.textChanged.connect(self._emit_changed)

    def _emit_changed(self, text: str) -> None:
        self.changed.emit(text.strip())

    def event(self, event: QEvent) -> bool:
        """Uses Escape for clearing while the field has text."""
        if event.type() == QEvent.Type.ShortcutOverride and isinstance(event, QKeyEvent):
            if event.key() == Qt.Key.Key_Escape and self.text():
                event.accept()
                return True
        return super().event(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() == Qt.Key.Key_Escape and self.text():
            self.clear()
        elif event.key() in (Qt.Key.Key_Down, Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self._list_view.setFocus(Qt.FocusReason.TabFocusReason)
        else:
            super().keyPressEvent(event)
