"""Asks before the window closes while something could not be saved and would be lost."""

from __future__ import annotations

from PySide6.QtCore import QObject, QTimer, Signal, Slot
from PySide6.QtWidgets import QAbstractButton, QMessageBox, QWidget

from app.look.widgets import Question
from app.session.chat_keeper import ChatKeeper

SETTLE_SECONDS = 2.0
"""Seconds that closing waits for pending writes before it asks."""


class UnsavedGuard(QObject):
    """Keeps the window open while something would be lost, until the user decides otherwise."""

    def __init__(self, keeper: ChatKeeper | None, window: QWidget) -> None:
        super().__init__(window)
        self._keeper, self._window = keeper, window
        self._given_up = False

    def asks(self) -> bool:
        """Returns whether something would be lost. It then asks the user, and the window has to stay open."""
        keeper = self._keeper
        if keeper is None or self._given_up:
            return False
        keeper.settle(SETTLE_SECONDS)
        asked = any(question.isVisible() for question in self._window.findChildren(UnsavedQuestion))
        if keeper.in_trouble and not asked:
            question = UnsavedQuestion(keeper.trouble, self._window)
            question.again.connect(self._try_again)
            question.given_up.connect(self._give_up)
            question.open()
        return keeper.in_trouble

    @Slot()
    def _try_again(self) -> None:
        if self._keeper is not None:
            self._keeper.try_again()
        self._close()

    @Slot()
    def _give_up(self) -> None:
        self._given_up = True
        self._close()

    def _close(self) -> None:
        QTimer.singleShot(0, self._window, self._window.close)  # after the dialog has closed


class UnsavedQuestion(Question):
    """Signals:
    again: the user wants a retry. given_up: the user wants to close in any case.
    """

    again = Signal()
    given_up = Signal()

    def __init__(self, reason: str, parent: QWidget) -> None:
        lost = "If you close the window now, the answers are lost. Draftlight will try to restore your unsent text."
        more = f"{reason}\n\n{lost}"
        super().__init__(parent, "unsavedQuestion", "Your last messages are not saved.", more)
        self.setIcon(QMessageBox.Icon.Warning)
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
