"""Long pasted texts: attached to the message like a file; a preview shows the text and can put it into the message instead."""

from __future__ import annotations

from collections.abc import Collection

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtWidgets import QPlainTextEdit, QWidget

from app.look import theme as themes
from app.look.placing import limit_to_screen
from app.look.widgets import TransientDialog, in_column, in_row, named, push_button, stretch
from app.session.attachments import Attachment

MOST_LETTERS, MOST_LINES = 4000, 60
"""Limits above which a pasted text becomes an attachment; in the field, it would hide the conversation."""
SIZE = QSize(680, 520)


def is_long(text: str) -> bool:
    """Returns whether a pasted text is attached instead of inserted into the field."""
    return bool(text.strip()) and (len(text) > MOST_LETTERS or text.count("\n") >= MOST_LINES)


def pasted(text: str, taken: Collection[str]) -> Attachment:
    """Returns a pasted text as an attachment, with a name that is not in `taken`."""
    number, name = 1, "Pasted text.txt"
    while name in taken:
        number += 1
        name = f"Pasted text {number}.txt"
    return Attachment(name, text.replace("\r\n", "\n").replace("\r", "\n"))


class AttachmentPreview(TransientDialog):
    """A dialog with the whole text of an attachment.

    Signals:
        unfolded: the user wants the text in the message field instead.
    """

    unfolded = Signal()

    def __init__(self, attachment: Attachment, scale: float, parent: QWidget) -> None:
        super().__init__(parent, "attachmentPreview", attachment.name)
        self.words = named(QPlainTextEdit(attachment.text, readOnly=True), "attachmentText", attachment.name)
        self.words.setFont(themes.mono_font(scale))
        self.words.setLineWrapMode(QPlainTextEdit.LineWrapMode.NoWrap)
        self.unfold = push_button("Put it in as text", "quietButton", self._unfold)
        close = push_button("Close", "quietButton", self.reject)
        in_column(
            (self.words, 1), in_row(self.unfold, stretch(), close, spacing=8), spacing=10, margins=(14, 14, 14, 12), parent=self
        )
        self.resize(limit_to_screen(parent, SIZE))
        self.words.setFocus(Qt.FocusReason.OtherFocusReason)

    def _unfold(self) -> None:
        self.accept()
        self.unfolded.emit()
