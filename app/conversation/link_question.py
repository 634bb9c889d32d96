"""A question before a link of an answer is opened: the user reads the address first, because a model wrote it."""

from __future__ import annotations

from PySide6.QtCore import QUrl, Slot
from PySide6.QtGui import QDesktopServices, QGuiApplication
from PySide6.QtWidgets import QAbstractButton, QMessageBox, QWidget

from app.look.widgets import Question

OPENED = ("http", "https", "mailto")
LONGEST = 500
"""Characters of an address that are shown."""


class LinkQuestion(Question):
    """Asks whether to open an address. Any address can be copied, but only web and mail addresses can be opened."""

    def __init__(self, address: str, parent: QWidget) -> None:
        may_open = QUrl(address).scheme().lower() in OPENED
        question = "Open this link in your browser?" if may_open else "This link does not lead to a web page."
        super().__init__(parent, "linkQuestion", question, address if len(address) <= LONGEST else f"{address[:LONGEST]}…")
        self.address = address
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
