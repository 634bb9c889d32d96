"""Where the user writes: Enter sends, Shift+Enter starts a line."""

from __future__ import annotations

from PySide6.QtCore import QSize, Qt, Signal, Slot
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QHBoxLayout, QLabel, QPlainTextEdit, QPushButton, QSizePolicy, QVBoxLayout, QWidget

from app.look import theme as themes
from app.look.theme import Theme
from app.look.widgets import ElidedLabel, FocusFrame, named, spaced
from app.look.wording import DEFINITIONS

MAX_LINES = 9
SHARE = 0.5
"""Of the height below the header, at most, for a long message with all that is around it."""


class PromptEdit(QPlainTextEdit):
    """Grows with its text up to `most_lines` lines.

    Signals:
        submitted: Enter was pressed. recalled: Up was pressed in an empty field.
    """

    submitted = Signal()
    recalled = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.most_lines = MAX_LINES
        named(self, "composer", "Message", "Enter sends, Shift+Enter starts a new line, Escape stops the answer.")
        self.setPlaceholderText("Ask something")
        self.setTabChangesFocus(True)
        self.setFrameShape(QPlainTextEdit.Shape.NoFrame)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.document().setDocumentMargin(2)
        self.document().documentLayout().documentSizeChanged.connect(self.fit)

    def fit(self) -> None:
        """Takes the height its lines need."""
        lines = min(self.most_lines, max(1, round(self.document().size().height())))
        self.setFixedHeight(self.fontMetrics().lineSpacing() * lines + 8)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        enter = event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter)
        if enter and not event.modifiers() & Qt.KeyboardModifier.ShiftModifier:
            self.submitted.emit()
        elif event.key() == Qt.Key.Key_Up and not self.toPlainText():
            self.recalled.emit()
        else:
            super().keyPressEvent(event)


class Composer(QWidget):
    """The field, what it hints at, and the buttons that send and stop.

    Signals:
        sent: (text) the user wants an answer. stopped: Stop. recalled: the last prompt is wanted back.
    """

    sent = Signal(str)
    stopped = Signal()
    recalled = Signal()

    def __init__(self) -> None:
        super().__init__()
        self._running = False
        self._raw = False
        self._room = 1000
        self._theme: Theme | None = None
        self.frame = FocusFrame()
        self.frame.setObjectName("composerFrame")
        self.edit = PromptEdit()
        self.frame.watch(self.edit)
        self.frame.setCursor(Qt.CursorShape.IBeamCursor)
        self.edit_note = QLabel("Editing the last prompt. Press Esc to cancel.")
        self.edit_note.setObjectName("editNote")
        self.hint = ElidedLabel()
        self.hint.setObjectName("composerHint")
        self.hint.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        self.context = QLabel()
        named(self.context, "contextUse", "Context use")
        self.send = self._button("sendButton", "Send", "send", "Send the message (Enter)")
        self.stop = self._button("stopButton", "Stop", "stop", "Stop the answer (Esc)")
        self.send.clicked.connect(self.submit)
        self.stop.clicked.connect(self.stopped)
        self.edit.submitted.connect(self.submit)
        self.edit.recalled.connect(self.recalled)
        self.edit.textChanged.connect(self._refresh)
        inner = spaced(QVBoxLayout(self.frame), 8, (14, 10, 10, 9))
        inner.addWidget(self.edit_note)
        inner.addWidget(self.edit)
        row = spaced(QHBoxLayout(), 12)
        row.addWidget(self.hint, 1)
        row.addWidget(self.context)
        row.addWidget(self.send)
        row.addWidget(self.stop)
        inner.addLayout(row)
        self.margins = QHBoxLayout(self)
        self.margins.setContentsMargins(44, 6, 44, 16)
        self.margins.addWidget(self.frame)
        self.set_running(False)
        self.set_editing("")

    def _button(self, name: str, title: str, drawing: str, words: str) -> QPushButton:
        button = QPushButton(title)
        button.setObjectName(name)
        button.setProperty("drawing", drawing)
        button.setAccessibleName(title)
        button.setAccessibleDescription(words)
        button.setToolTip(words)
        button.setCursor(Qt.CursorShape.ArrowCursor)
        return button

    @property
    def text(self) -> str:
        """The prompt as typed so far, blanks at its ends included."""
        return self.edit.toPlainText()

    def set_text(self, text: str) -> None:
        """Puts another prompt in the field, with the text cursor at its end and the keyboard on it."""
        self.edit.setPlainText(text)
        self.edit.moveCursor(self.edit.textCursor().MoveOperation.End)
        self.edit.setFocus()

    def set_running(self, running: bool) -> None:
        """Stop stands in Send's place while an answer is under way."""
        had_focus = self.send.hasFocus() or self.stop.hasFocus()
        self._running = running
        self.send.setVisible(not running)
        self.stop.setVisible(running)
        if had_focus:
            (self.stop if running else self.edit).setFocus()
        self._refresh()

    def set_raw(self, raw: bool) -> None:
        """Whether the model goes on with what is written, so that blanks and line breaks at its ends count."""
        self._raw = raw
        self.edit.setPlaceholderText("Write the beginning of a text" if raw else "Ask something")

    def show_hint(self, words: str) -> None:
        """What to know while writing; empty for what the keys do."""
        self.hint.setText(words or ("Esc to stop" if self._running else "Enter to send, Shift+Enter for a new line"))

    def show_context(self, words: str, why: str = "") -> None:
        """How full the context is; empty where that is not known. `why`: what will come of it, where it does not fit."""
        if words == self.context.text() and why == self.context.accessibleDescription():
            return
        self.context.setText(words)
        self.context.setAccessibleDescription(why or words)
        self.context.setToolTip(f"<p>{why or DEFINITIONS['context']}</p>")
        self.context.setVisible(bool(words))
        if self.context.property("warns") != bool(why):
            self.context.setProperty("warns", bool(why))
            self.context.style().unpolish(self.context)
            self.context.style().polish(self.context)

    def set_editing(self, what: str) -> None:
        """Shows the note that something is being edited, "the last prompt"; an empty text hides it."""
        self.edit_note.setText(f"Editing {what}. Press Esc to cancel.")
        self.edit_note.setVisible(bool(what))
        self.set_room(self._room)

    def _refresh(self) -> None:
        ready = bool(self.text.strip())
        self.send.setEnabled(ready)
        if self._theme is not None:
            self.send.setIcon(themes.icon("send", self._theme.on_accent if ready else self._theme.faint))

    @Slot()
    def submit(self) -> None:
        """Sends what is written, if an answer can be asked for."""
        if self.text.strip() and not self._running:
            self.sent.emit(self.text if self._raw else self.text.strip())

    def set_look(self, theme: Theme, scale: float) -> None:
        """Sets the prompt in the reading font, fits the field's height to it, and recolours the buttons."""
        font = themes.reading_font(scale)
        self.edit.setFont(font)
        self.set_room(self._room)
        self._theme = theme
        self._refresh()
        for button in (self.send, self.stop):
            button.setIconSize(QSize(round(15 * scale), round(15 * scale)))
        self.stop.setIcon(themes.icon("stop", theme.background))

    def set_room(self, height: int) -> None:
        """Leaves half the height of a low window to the conversation."""
        self._room = height
        around = self.sizeHint().height() - self.edit.height()
        self.edit.most_lines = max(1, min(MAX_LINES, int((SHARE * height - around) / self.edit.fontMetrics().lineSpacing())))
        self.edit.fit()

    def set_column(self, left: int, width: int, whole: int) -> None:
        """Aligns the frame with the transcript's column."""
        self.margins.setContentsMargins(max(10, left - 14), 6, max(10, whole - left - width - 14), 16)
