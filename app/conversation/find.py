"""Finding words in the open chat: the search, the highlighting of matches and the find bar."""

from __future__ import annotations

from functools import partial

from PySide6.QtCore import QEvent, QObject, Qt, Slot
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QFrame, QLabel, QLineEdit, QWidget

from app.conversation.blocks import Block
from app.conversation.chunks import slice_units
from app.conversation.text_flow import Flow
from app.conversation.transcript import Transcript
from app.look.theme import Theme
from app.look.widgets import icon_button, in_row, named, tint
from engine.lens.pieces import GHOSTS

Match = tuple[int, int, int]
"""Index of a block, and the start and end of a match in its flow."""


def occurrences(flow: Flow, words: str) -> list[tuple[int, int]]:
    """Returns the matches in a text without its ghosts, ignoring case, as (start, end) offsets in the flow."""
    wanted = words.casefold()
    if not wanted:
        return []
    letters: list[str] = []
    starts: list[int] = []
    ends: list[int] = []
    for chunk in flow.chunks:
        for run in chunk.runs:
            if run.kind in GHOSTS:
                continue
            place = chunk.start + run.start
            for letter in slice_units(chunk.text, run.start, run.end):
                behind = place + (2 if ord(letter) > 0xFFFF else 1)
                for folded in letter.casefold():
                    letters.append(folded)
                    starts.append(place)
                    ends.append(behind)
                place = behind
        if chunk.newline is not None:
            letters.append("\n")
            starts.append(chunk.start + chunk.length - 1)
            ends.append(chunk.start + chunk.length)
    text, found, at = "".join(letters), list[tuple[int, int]](), 0
    while (at := text.find(wanted, at)) >= 0:
        found.append((starts[at], ends[at + len(wanted) - 1]))
        at += len(wanted)
    return found


def find(blocks: list[Block], words: str) -> list[Match]:
    """Highlights all matches of `words` in the blocks and returns them in reading order; no matches if `words` is empty."""
    found: list[Match] = []
    for index, block in enumerate(blocks):
        block.found = occurrences(block.flow, words)
        found += [(index, start, end) for start, end in block.found]
    return found


class FindBar(QWidget):
    """A search field with buttons for the next and the previous match; matches are highlighted while it is open."""

    def __init__(self, view: Transcript) -> None:
        super().__init__()
        self._view = view
        self._matches: list[Match] = []
        self._at = 0
        self.frame = named(QFrame(), "banner")
        self.frame.setProperty("tone", "note")
        named(self, "findBar", "Find in this chat")
        self.field = named(
            QLineEdit(placeholderText="Find in this chat"),
            "findField",
            "Find in this chat",
            "Enter goes to the next, Shift+Enter to the previous, Esc closes.",
        )
        self.field.installEventFilter(self)
        self.field.textChanged.connect(self._find)
        self.count = named(QLabel(), "composerHint", "Found")
        self.back = icon_button("left", "Previous (Shift+Enter)", partial(self._step, -1))
        self.forth = icon_button("right", "Next (Enter)", partial(self._step, 1))
        self.dismiss = icon_button("close", "Close (Esc)", self._stop)
        in_row(
            (self.field, 1), self.count, self.back, self.forth, self.dismiss, spacing=4, margins=(10, 5, 6, 5), parent=self.frame
        )
        self.margins = in_row(self.frame, margins=(16, 6, 16, 2), parent=self)
        self.hide()

    def open(self) -> None:
        """Shows the bar with the words of the last search."""
        self.show()
        self.field.setFocus(Qt.FocusReason.ShortcutFocusReason)
        self.field.selectAll()
        self._find(self.field.text())

    @Slot(str)
    def _find(self, words: str) -> None:
        self._mark(words)
        top = self._view.verticalScrollBar().value()
        self._go_to(next((at for at, (index, start, _) in enumerate(self._matches) if self._view.top_of(index, start) >= top), 0))

    def _mark(self, words: str) -> None:
        """Finds all matches and highlights them."""
        self._matches = find(self._view.blocks, words)
        self._view.viewport().update()

    def _step(self, by: int) -> None:
        self._mark(self.field.text())  # the text may have grown
        if self._matches:
            self._go_to((self._at + by) % len(self._matches))

    @Slot()
    def _stop(self) -> None:
        """Closes the bar and removes the highlighting; the last match stays selected."""
        self.hide()
        self._mark("")
        self._view.setFocus(Qt.FocusReason.ShortcutFocusReason)

    def _go_to(self, at: int) -> None:
        """Goes to the match at an index."""
        self._at, many = at, len(self._matches)
        if many:
            self._view.go_to_range(*self._matches[at])
        words = f"{at + 1:,} of {many:,}" if many else "Not found" if self.field.text() else ""
        self.count.setText(words)
        self.count.setAccessibleDescription(words)
        for button in (self.back, self.forth):
            button.setEnabled(many > 0)

    def set_look(self, theme: Theme, scale: float) -> None:
        """Draws the buttons in the theme's colours."""
        for button in (self.back, self.forth, self.dismiss):
            tint(button, theme, scale)

    def set_column(self, left: int, width: int, whole: int) -> None:
        """Aligns the frame with the message field."""
        self.margins.setContentsMargins(max(10, left - 14), 6, max(10, whole - left - width - 14), 2)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if isinstance(event, QKeyEvent) and event.key() == Qt.Key.Key_Escape:
            if event.type() == QEvent.Type.ShortcutOverride:
                event.accept()
            elif event.type() == QEvent.Type.KeyPress:
                self._stop()
            return True
        if isinstance(event, QKeyEvent) and event.type() == QEvent.Type.KeyPress:
            if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
                self._step(-1 if event.modifiers() & Qt.KeyboardModifier.ShiftModifier else 1)
                return True
        return False
