"""The arrows beside a message that has siblings: other answers to the same prompt, or other versions of a prompt."""

from __future__ import annotations

from functools import partial

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QLabel, QToolButton, QWidget

from app.look.theme import Theme
from app.look.widgets import icon_button, in_row, named, tint


class SiblingSwitch(QWidget):
    """Shows "1/2" between two arrows.

    Signals:
        stepped: (turn, -1 or 1, whether prompts) the user wants the previous or the next answer or prompt.
    """

    stepped = Signal(int, int, bool)

    def __init__(self, parent: QWidget, prompts: bool) -> None:
        super().__init__(parent)
        self.turn, self.prompts = 0, prompts
        named(self, "siblingSwitch", "Wordings of this prompt" if prompts else "Answers to this prompt")
        self.setCursor(Qt.CursorShape.ArrowCursor)
        self.back = self._arrow("Previous wording of this prompt" if prompts else "Previous answer to this prompt", "left", -1)
        self.forth = self._arrow("Next wording of this prompt" if prompts else "Next answer to this prompt", "right", 1)
        self.words = named(QLabel(), "siblingWords")
        in_row(self.back, self.words, self.forth, parent=self)
        self.hide()

    def _arrow(self, words: str, icon: str, by: int) -> QToolButton:
        button = icon_button(icon, words, partial(self._step, by))
        button.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        return button

    def _step(self, by: int) -> None:
        self.stepped.emit(self.turn, by, self.prompts)

    def set_look(self, theme: Theme, scale: float) -> None:
        """Redraws both arrows in the theme's colours at the text scale."""
        tint(self.back, theme, scale)
        tint(self.forth, theme, scale)

    def show_place(self, turn: int, index: int, many: int, running: bool) -> None:
        """Shows the message at `index` of `many` siblings in a turn; hides itself if there is only one."""
        self.turn = turn
        self.setAccessibleDescription(f"{index + 1} of {many}")
        self.words.setText(f"{index + 1}/{many}")
        self.back.setEnabled(index > 0 and not running)
        self.forth.setEnabled(index + 1 < many and not running)
        self.setVisible(many > 1)
        self.adjustSize()
