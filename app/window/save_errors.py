"""Reports failed reads and writes of the chat store, offers retries, and asks before the window closes with unsaved data."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QObject, QTimer, Signal, Slot
from PySide6.QtWidgets import QAbstractButton, QMessageBox, QWidget

from app.look.banner import Banner
from app.look.widgets import Question
from app.session.chat import Chat
from app.session.chat_keeper import ChatKeeper

SETTLE_SECONDS = 2.0
"""Time that closing waits for pending writes before it asks, in seconds."""


class SaveErrors(QObject):
    """Watches for failed writes to the chat store. Nothing is lost while the window is open: writes are retried, and the window
    stays open until they succeed or the user gives up."""

    def __init__(self, chat: Chat, keeper: ChatKeeper, banner: Banner, window: QWidget) -> None:
        super().__init__(window)
        self._keeper, self._banner, self._window = keeper, banner, window
        self._may_close = False
        keeper.failed.connect(self._report_failure)
        keeper.recovered.connect(self._report_recovery)
        keeper.noted.connect(self.show_note)
        chat.drafts.refused.connect(self._report_unsaved_draft)
        window.installEventFilter(self)

    @Slot(str)
    def show_note(self, message: str) -> None:
        """Shows a note about the chat store."""
        self._banner.show_message(message, "note")

    @Slot(str)
    def _report_failure(self, message: str) -> None:
        """Reports a failed write. The data stays in this window, and the write is retried."""
        keeper = self._keeper
        self._banner.show_message(
            f"{message} Until then this window keeps it and tries again.", is_valid=lambda: bool(keeper.trouble)
        )
        self._banner.show_action("Try again", keeper.try_again, keeps_message=True)

    @Slot()
    def _report_recovery(self) -> None:
        self.show_note("The chats are saved again.")

    @Slot(str)
    def _report_unsaved_draft(self, message: str) -> None:
        """Reports with a note, not an error, that drafts cannot be stored; they stay in the window."""
        if not self._keeper.trouble:
            self.show_note(f"Your unsent text is not saved. {message}")

    # Closing.

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Keeps the window open and asks the user, if unsaved data would be lost."""
        if event.type() != QEvent.Type.Close or self._may_close:
            return False
        keeper = self._keeper
        keeper.settle(SETTLE_SECONDS)
        if not keeper.trouble:
            return False
        if not any(question.isVisible() for question in self._window.findChildren(UnsavedQuestion)):
            question = UnsavedQuestion(keeper.trouble, self._window)
            question.retry_requested.connect(self._try_again)
            question.close_requested.connect(self._close_anyway)
            question.open()
        event.ignore()
        return True

    @Slot()
    def stop(self) -> None:
        """Stops asking: the window is closing."""
        self._may_close = True

    @Slot()
    def _try_again(self) -> None:
        self._keeper.try_again()
        self._close()

    @Slot()
    def _close_anyway(self) -> None:
        self._may_close = True
        self._close()

    def _close(self) -> None:
        QTimer.singleShot(0, self._window, self._window.close)  # after the dialog has closed


class UnsavedQuestion(Question):
    """Signals:
    retry_requested: the user wants a retry. close_requested: the user wants to close in any case.
    """

    retry_requested = Signal()
    close_requested = Signal()

    def __init__(self, reason: str, parent: QWidget) -> None:
        warning = "If you close the window now, the answers are lost. Draftlight will try to restore your unsent text."
        details = f"{reason}\n\n{warning}"
        super().__init__(parent, "unsavedQuestion", "Your last messages are not saved.", details)
        self.setIcon(QMessageBox.Icon.Warning)
        self.retry_button = self.addButton("Try again", QMessageBox.ButtonRole.AcceptRole)
        self.close_button = self.addButton("Close anyway", QMessageBox.ButtonRole.DestructiveRole)
        self.setDefaultButton(self.retry_button)
        self.setEscapeButton(self.addButton(QMessageBox.StandardButton.Cancel))
        self.buttonClicked.connect(self._chosen)

    @Slot(QAbstractButton)
    def _chosen(self, button: QAbstractButton) -> None:
        if button is self.retry_button:
            self.retry_requested.emit()
        elif button is self.close_button:
            self.close_requested.emit()
