"""The buttons over the conversation: those of the newest answer, those on code and above thoughts, and the way to its end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from PySide6.QtCore import QRect
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QToolButton, QWidget

from app.conversation.answer_view import ThoughtButton
from app.conversation.blocks import AnswerBlock, Block
from app.conversation.floating_buttons import FloatingButtons, floating
from app.look.theme import DARK, Theme
from app.look.widgets import named, tint


class AnswerButtons:
    """Stand where the layout says; what a press does is up to the view.

    Attributes:
        latest: goes to the end, where that is not in view.
        copy, regenerate, reading: at the right end of the newest answer's last line of figures, once it is done.
        thoughts, codes: as many as there are in view.
    """

    def __init__(self, viewport: QWidget, turn_thought: Callable[[AnswerBlock], object]) -> None:
        self._viewport = viewport
        self._look: tuple[Theme, float] = (DARK, 1.0)
        self.latest = self._tool("Jump to the latest text", "down")
        self.latest.setProperty("floating", True)
        self.copy = self._tool("Copy the answer", "copy")
        self.regenerate = self._tool("Regenerate", "regenerate")
        self.reading = self._tool("Reading view", "reading")
        self.reading.setCheckable(True)
        self.thoughts = FloatingButtons[ThoughtButton, AnswerBlock](partial(ThoughtButton, viewport), turn_thought)
        self.codes = FloatingButtons[QToolButton, str](self._code_button, lambda code: QGuiApplication.clipboard().setText(code))

    def _tool(self, words: str, icon: str) -> QToolButton:
        button = named(floating(self._viewport, "iconButton"), words=words, tip=words)
        button.setProperty("drawing", icon)
        return button

    def more(self) -> QToolButton:
        """One more button, for the menu of a message."""
        button = self._tool("More about this message", "more")
        tint(button, *self._look)
        return button

    def _code_button(self) -> QToolButton:
        button = self._tool("Copy the code", "copy")
        tint(button, *self._look)
        return button

    def set_look(self, theme: Theme, scale: float) -> None:
        """Draws all of them in the theme's colours at the text scale."""
        self._look = theme, scale
        for button in (self.latest, self.copy, self.regenerate, self.reading, *self.codes.buttons):
            tint(button, theme, scale)
        for thought in self.thoughts.buttons:
            thought.set_look(theme, scale)

    def place(
        self, column: QRect, scrolled: int, newest: Block | None, in_view: Sequence[tuple[AnswerBlock, float]], may_repeat: bool
    ) -> None:
        """Puts every button where it belongs.

        Args:
            column: where the text stands in the viewport. scrolled: pixels that are out of sight above.
            in_view: the answers of which something is in view, with the height of their tops there.
            may_repeat: whether the newest answer can be made again.
        """
        size = round(26 * self._look[1])
        done = isinstance(newest, AnswerBlock) and not newest.answer.running
        if isinstance(newest, AnswerBlock) and done:
            y = round(newest.top + newest.footer_top - scrolled - 5)
            for place, button in enumerate((self.regenerate, self.copy, self.reading)):
                button.setGeometry(column.right() - (place + 1) * size - 4 * place, y, size, size)
        self._place_codes(column, in_view, size)
        self._place_thoughts(column, in_view)
        self.copy.setVisible(done)
        self.reading.setVisible(done)
        self.regenerate.setVisible(done and may_repeat)
        self.latest.setGeometry(column.center().x() - size // 2, self._viewport.height() - size - 10, size, size)

    def _place_codes(self, column: QRect, in_view: Sequence[tuple[AnswerBlock, float]], size: int) -> None:
        """A button at the right end of the first line of every block of code that is in view and closed."""
        tops: list[int] = []
        codes: list[str] = []
        for block, top_of_block in in_view:
            corner = top_of_block + block.origin.y()
            for top, bottom, code in block.flow.codes if block.shown else ():
                if corner + bottom > 0 and -size < round(corner + top) < self._viewport.height():
                    tops.append(round(corner + top))
                    codes.append(block.code_text(code))
        for top, (button, _) in zip(tops, self.codes.show_for(codes), strict=True):
            button.setGeometry(column.right() - size, top, size, size)

    def _place_thoughts(self, column: QRect, in_view: Sequence[tuple[AnswerBlock, float]]) -> None:
        """Above every answer in view before which the model has thought, a button says how long, and shows or folds what."""
        found = {block: round(top + block.head) for block, top in in_view if block.fold}
        theme, scale = self._look
        for button, block in self.thoughts.show_for([*found]):
            button.show_answer(block.answer, theme, scale)
            button.place(column, found[block], block.fold, scale)
