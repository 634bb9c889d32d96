"""Editing the text of an answer: the edited text becomes another version, and the answer itself stays as it is."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal, Slot
from PySide6.QtGui import QFont, QKeyEvent
from PySide6.QtWidgets import QDialogButtonBox, QLabel, QPlainTextEdit, QWidget

from app.look.command import native_keys
from app.look.placing import visible_part
from app.look.widgets import DiscardQuestion, TransientDialog, in_column, named

WORDS = (
    "What you keep stands beside the answer as another version, and your next messages build on it. It has no rounds and no "
    "figures, because nobody generated it."
)


class TextOfAnswer(QPlainTextEdit):
    """The text field of the editor.

    Signals:
        submitted: Enter was pressed with Ctrl, which is Command on a Mac.
    """

    submitted = Signal()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        enter = event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter)
        if enter and event.modifiers() & Qt.KeyboardModifier.ControlModifier:
            self.submitted.emit()
        else:
            super().keyPressEvent(event)


class AnswerEditor(TransientDialog):
    """A dialog with the text of an answer to edit.

    Signals:
        edited: (text) the user wants this text as another version.
    """

    edited = Signal(str)

    def __init__(self, text: str, font: QFont, parent: QWidget) -> None:
        super().__init__(parent, "answerEditor", "Edit answer")
        self._before = text
        words = QLabel(WORDS, wordWrap=True)
        self.edit = TextOfAnswer(text)
        self.edit.setFont(font)
        self.edit.setTabChangesFocus(True)
        keeping = native_keys("Ctrl+Return")
        named(self.edit, "answerText", "Text of the answer", f"{keeping} keeps it, Escape leaves the answer as it is.")
        self.buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Cancel)
        self.keep = self.buttons.addButton("Keep as another version", QDialogButtonBox.ButtonRole.AcceptRole)
        self.keep.setToolTip(keeping)
        self.buttons.accepted.connect(self.accept)
        self.buttons.rejected.connect(self.reject)
        self.edit.textChanged.connect(self._show_state)
        self.edit.submitted.connect(self.keep.click)
        in_column(words, (self.edit, 1), self.buttons, spacing=12, margins=(20, 18, 20, 16), parent=self)
        room = visible_part(parent)
        line = self.edit.fontMetrics().lineSpacing()
        wide = min(room.width() - 60, round(self.edit.fontMetrics().averageCharWidth() * 84))
        self.resize(wide, min(room.height() - 80, 200 + line * max(8, min(24, len(text) // 60 + text.count("\n")))))
        self._show_state()
        self.edit.setFocus()

    @property
    def _rewritten(self) -> bool:
        text = self.edit.toPlainText()
        return bool(text.strip()) and text != self._before

    @Slot()
    def _show_state(self) -> None:
        self.keep.setEnabled(self._rewritten)

    @Slot()
    def accept(self) -> None:
        """Emits the text and closes."""
        self.edited.emit(self.edit.toPlainText())
        super().accept()

    @Slot()
    def reject(self) -> None:
        """Closes without keeping the text, after asking if there is something to lose."""
        if not self._rewritten:
            super().reject()
            return
        question = DiscardQuestion(self, "Discard your changes?", "The answer stays as it is.", "Keep editing")
        question.discard_button.clicked.connect(self._discard)
        question.open()

    def _discard(self) -> None:
        super().reject()
