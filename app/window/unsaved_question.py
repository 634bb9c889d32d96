"""Closing the window while something could not be saved is asked about, since it would be lost."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal, Slot
from PySide6.QtWidgets import QAbstractButton, QMessageBox, QWidget

from app.look.widgets import without_markup


class UnsavedQuestion(QMessageBox):
    """Signals:
    again: the user has made room and wants it tried again. given_up: it is to be closed in any case.
    """

    again = Signal()
    given_up = Signal()

    def __init__(self, reason: str, parent: QWidget) -> None:
        super().__init__(parent)
        self.setObjectName("unsavedQuestion")
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setIcon(QMessageBox.Icon.Warning)
        self.setText("Your last messages are not saved.")
        self.setInformativeText(f"{reason}\n\nIf you close the window now, they are lost.")
        without_markup(self)
        self.tries = self.addButton("Try again", QMessageBox.ButtonRole.AcceptRole)
        self.closes = self.addButton("Close anyway", QMessageBox.ButtonRole.DestructiveRole)
        self.setDefaultButton(self.tries)
        self.setEscapeButton(self.addButton(QMessageBox.StandardButton.Cancel))
        self.buttonClicked.connect(self._chosen)

    @Slot(QAbstractButton)
    def _chosen(self, button: QAbstractButton) -> None:
        if button is self.tries:
            self.again.emit()
        elif button is self.closes:
            self.given_up.emit()
