"""The heading of the panel: which answer it shows, with buttons for the previous and the next one."""

from __future__ import annotations

from PySide6.QtWidgets import QSizePolicy, QWidget

from app.look.theme import Theme
from app.look.widgets import ElidedLabel, icon_button, in_row, named, tint
from app.session.cursor import ShownAnswer

SINGLE_ANSWER = "Figures of this answer"


class Heading(QWidget):
    """A line of text with two arrows. Its space is reserved from the start, so that a second answer moves nothing.

    If rule or drafter changed, the text also says which stretches of the answer the figures cover.
    """

    def __init__(self, shown: ShownAnswer) -> None:
        super().__init__()
        self.shown = shown
        self._is_low = False
        self.title = named(ElidedLabel(), "panelHeading")
        self.stretches = named(ElidedLabel(), "figuresAbout", "What the figures are of")
        for label in (self.title, self.stretches):
            label.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        self.stretches.hide()
        self.back = icon_button("left", "Show the previous answer", self._back)
        self.forward = icon_button("right", "Show the next answer", self._forward)
        in_row((self.title, 1), (self.stretches, 3), self.back, self.forward, spacing=2, margins=(16, 5, 10, 0), parent=self)

    def refresh(self, about: str = "") -> None:
        """Shows the name of the shown answer, and `about`: which stretches of it the figures cover."""
        turns, turn = self.shown.session.turns, self.shown.turn
        position = f"Answer {turn + 1} of {len(turns)}" if len(turns) > 1 else ""
        full_title = f"{position}: {' '.join(turns[turn].prompt.split())}" if position else SINGLE_ANSWER
        title = position if position and about else full_title
        if title != self.title.text():
            self.title.setText(title)
        self.title.setToolTip(full_title if position else "")
        if about != self.stretches.text():
            self.stretches.setText(about)
            self.stretches.setToolTip(about)
        self.stretches.setVisible(bool(about))
        self.title.setVisible(bool(position) or not about)
        for button in (self.back, self.forward):
            button.setVisible(bool(position))
        self.setVisible(bool(position) or not self._is_low)
        self.back.setEnabled(turn > 0)
        self.forward.setEnabled(turn < len(turns) - 1)

    def set_low(self, low: bool) -> None:
        """Hides the line in a low panel, unless there are several answers."""
        if low != self._is_low:
            self._is_low = low
            self.setVisible(len(self.shown.session.turns) > 1 or not low)

    def _back(self) -> None:
        self.shown.choose(self.shown.turn - 1)

    def _forward(self) -> None:
        self.shown.choose(self.shown.turn + 1)

    def set_look(self, theme: Theme, scale: float) -> None:
        """Tints the arrows and sizes them to the text scale; the height of the line does not depend on them."""
        tint(self.back, theme, scale)
        tint(self.forward, theme, scale)
        self.setFixedHeight(round(27 * scale) + 5)
