"""A link of an answer is opened only when the user has read where it leads and says so: a model wrote it."""

from __future__ import annotations

from PySide6.QtCore import Qt, QUrl, Slot
from PySide6.QtGui import QDesktopServices, QGuiApplication
from PySide6.QtWidgets import QAbstractButton, QMessageBox, QWidget

from app.look.widgets import without_markup

OPENED = ("http", "https", "mailto")
LONGEST = 500
"""Characters of an address that are shown."""


class LinkQuestion(QMessageBox):
    """Asks whether to open an address. It can be copied in any case; what is no page or mail address cannot be opened."""

    def __init__(self, address: str, parent: QWidget) -> None:
        super().__init__(parent)
        self.address = address
        self.setObjectName("linkQuestion")
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        may_open = QUrl(address).scheme().lower() in OPENED
        self.setText("Open this link in your browser?" if may_open else "This link does not lead to a web page.")
        self.setInformativeText(address if len(address) <= LONGEST else f"{address[:LONGEST]}…")
        without_markup(self)
        self.opens = self.addButton("Open", QMessageBox.ButtonRole.AcceptRole)
        self.opens.setEnabled(may_open)
        self.copies = self.addButton("Copy link", QMessageBox.ButtonRole.ActionRole)
        self.setDefaultButton(self.addButton(QMessageBox.StandardButton.Cancel))
        self.buttonClicked.connect(self._chosen)

    @Slot(QAbstractButton)
    def _chosen(self, button: QAbstractButton) -> None:
        if button is self.opens:
            QDesktopServices.openUrl(QUrl(self.address))
        elif button is self.copies:
            QGuiApplication.clipboard().setText(self.address)
