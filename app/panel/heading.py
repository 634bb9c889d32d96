"""Which of several answers the panel shows, and the way to the one before and after."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QHBoxLayout, QSizePolicy, QWidget

from app.look.theme import Theme
from app.look.widgets import ElidedLabel, icon_button, tint
from app.session.shown_answer import Shown


class Heading(QWidget):
    """A line of words with two arrows; hidden while there is one answer."""

    def __init__(self, shown: Shown) -> None:
        super().__init__()
        self.shown = shown
        self.words = ElidedLabel()
        self.words.setObjectName("panelHeading")
        self.words.setTextFormat(Qt.TextFormat.PlainText)
        self.words.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        self.back = icon_button("left", "Show the previous answer", self._back)
        self.forth = icon_button("right", "Show the next answer", self._forth)
        row = QHBoxLayout(self)
        row.setContentsMargins(16, 8, 10, 0)
        row.setSpacing(2)
        row.addWidget(self.words, 1)
        row.addWidget(self.back)
        row.addWidget(self.forth)
        self.hide()

    def refresh(self) -> None:
        """Names the answer that shows."""
        turns, turn = self.shown.session.turns, self.shown.turn
        self.setVisible(len(turns) > 1)
        if len(turns) > 1:
            words = f"Answer {turn + 1} of {len(turns)}: {' '.join(turns[turn].prompt.split())}"
            if words != self.words.text():
                self.words.setText(words)
                self.words.setToolTip(words)
        self.back.setEnabled(turn > 0)
        self.forth.setEnabled(turn < len(turns) - 1)

    def _back(self) -> None:
        self.shown.choose(self.shown.turn - 1)

    def _forth(self) -> None:
        self.shown.choose(self.shown.turn + 1)

    def set_look(self, theme: Theme, scale: float) -> None:
        """Tints the arrows and sizes them to the text scale."""
        tint(self.back, theme, scale)
        tint(self.forth, theme, scale)
