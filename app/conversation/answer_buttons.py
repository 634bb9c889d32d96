"""The buttons over the text: copy, regenerate and reading view below the newest answer; copy code, show thoughts, continue; and
one that jumps to the end. Also the scroll bars of code."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from PySide6.QtCore import QRect, QSignalBlocker, Qt
from PySide6.QtGui import QGuiApplication, QWheelEvent
from PySide6.QtWidgets import QScrollBar, QToolButton, QWidget

from app.conversation.answer_view import ThoughtButton
from app.conversation.blocks import CONTINUE, AnswerBlock
from app.conversation.chunks import CodeScroll
from app.conversation.floating_buttons import FloatingButtons, WidgetPool, floating
from app.conversation.text_flow import BAR
from app.look.command import native_keys
from app.look.theme import DARK, Theme
from app.look.widgets import named, restyle, tint

STEP = 20
"""Pixels that an arrow key moves a bar by, at any text scale."""


class CodeBar(QScrollBar):
    """A scroll bar that ignores the wheel, so that scrolling the conversation does not stop when a bar comes under the
    pointer."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(Qt.Orientation.Horizontal, parent)
        named(self, "codeBar", "Scroll the code sideways")
        self.setCursor(Qt.CursorShape.ArrowCursor)
        self.setSingleStep(STEP)
        self.hide()

    def wheelEvent(self, event: QWheelEvent) -> None:
        event.ignore()


class AnswerButtons:
    """Creates and places the buttons; the view handles the clicks.

    Attributes:
        latest: jumps to the end; visible while the end is not in view.
        copy, regenerate, reading: below the newest answer once it is done; `reading` switches between token and reading view.
        thoughts, codes, continues: one button in view for each thought (shows or folds it), code block (copies it) and answer
            that ended early (continues it).
        bars: the horizontal scroll bars of the code blocks in view that are too wide.
    """

    def __init__(
        self,
        viewport: QWidget,
        toggle_thought: Callable[[AnswerBlock], object],
        continue_turn: Callable[[int], object],
        code_moved: Callable[[], object],
    ) -> None:
        self._viewport, self._code_moved = viewport, code_moved
        self._look: tuple[Theme, float] = (DARK, 1.0)
        self.latest = self._tool("Jump to the latest text", "down")
        self.latest.setProperty("floating", True)
        self.copy = self._tool("Copy the answer", "copy")
        self.regenerate = self._tool("Regenerate", "regenerate")
        self.reading = self._tool("Reading view", "reading")
        self.reading.setCheckable(True)
        self.thoughts = FloatingButtons[ThoughtButton, AnswerBlock](partial(ThoughtButton, viewport), toggle_thought)
        self.continues = FloatingButtons[QToolButton, int](self._continue_button, continue_turn)
        self.codes = FloatingButtons[QToolButton, str](
            partial(self._tool, "Copy the code", "copy"), lambda code: QGuiApplication.clipboard().setText(code)
        )
        self.bars = WidgetPool[CodeBar, CodeScroll](self._bar)

    def _tool(self, words: str, icon: str) -> QToolButton:
        button = named(floating(self._viewport, "iconButton"), label=words, tip=words)
        button.setProperty("drawing", icon)
        tint(button, *self._look)
        return button

    def more(self) -> QToolButton:
        """Returns another button for the menu of a message."""
        return self._tool("More about this message", "more")

    def _bar(self) -> CodeBar:
        bar = CodeBar(self._viewport)
        bar.valueChanged.connect(partial(self._slid, bar))
        return bar

    def _slid(self, bar: CodeBar, value: int) -> None:
        if (scroll := self.bars.thing_of(bar)) is not None and scroll.move(value):
            self._code_moved()

    def _continue_button(self) -> QToolButton:
        button = floating(self._viewport, "continueButton")
        button.setText(CONTINUE)
        button.setAccessibleName("Continue the answer")
        return button

    def set_look(self, theme: Theme, scale: float) -> None:
        """Redraws all buttons in the theme's colours at the text scale."""
        self._look = theme, scale
        for button in (self.latest, self.copy, self.regenerate, self.reading, *self.codes.widgets):
            tint(button, theme, scale)
        for thought in self.thoughts.widgets:
            thought.set_look(theme, scale)

    def place(
        self,
        column: QRect,
        scrolled: int,
        newest: AnswerBlock | None,
        in_view: Sequence[tuple[AnswerBlock, float]],
        may_repeat: bool,
        unfinished: Sequence[tuple[int, AnswerBlock, float]],
    ) -> None:
        """Places every button.

        Args:
            column: the column of text in viewport coordinates. scrolled: pixels of the document above the viewport.
            in_view: the answers that are at least partly in view, each with the y of its top in the viewport.
            may_repeat: whether the newest answer can be regenerated.
            unfinished: the answers in view that can be continued now, with the indices of their turns.
        """
        size = round(26 * self._look[1])
        done = newest is not None and not newest.answer.running
        if newest is not None and done:
            y = round(newest.top + newest.footer_top - scrolled - 5)
            for place, button in enumerate((self.regenerate, self.copy, self.reading)):
                button.setGeometry(column.right() - (place + 1) * size - 4 * place, y, size, size)
        self._place_codes(column, in_view, size)
        self._place_bars(column, in_view)
        self._place_thoughts(column, in_view)
        self._place_continues(column, newest, unfinished, size)
        self.copy.setVisible(done)
        self.reading.setVisible(done)
        self.regenerate.setVisible(done and may_repeat)
        self.latest.setGeometry(column.center().x() - size // 2, self._viewport.height() - size - 10, size, size)

    def _place_codes(self, column: QRect, in_view: Sequence[tuple[AnswerBlock, float]], size: int) -> None:
        """Places a copy button at the right end of the first line of every closed code block in view."""
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

    def _place_bars(self, column: QRect, in_view: Sequence[tuple[AnswerBlock, float]]) -> None:
        """Places a scroll bar below every wide block of code in view."""
        found = [
            (scroll, round(top + block.origin.y() + scroll.bottom - BAR))
            for block, top in in_view
            for scroll in (block.flow.code_scrolls if block.shown else ())
        ]
        found = [(scroll, y) for scroll, y in found if -BAR < y < self._viewport.height()]
        for (bar, scroll), (_, y) in zip(self.bars.show_for([scroll for scroll, _ in found]), found, strict=True):
            with QSignalBlocker(bar):
                bar.setRange(0, round(scroll.limit))
                bar.setPageStep(round(scroll.right - scroll.left))
                bar.setValue(round(scroll.offset))
            bar.setGeometry(column.left() + round(scroll.left), y, round(scroll.right - scroll.left), round(BAR))

    def _place_continues(
        self, column: QRect, newest: AnswerBlock | None, unfinished: Sequence[tuple[int, AnswerBlock, float]], size: int
    ) -> None:
        """Places a Continue button left of the other buttons of each answer that can be continued, where there is room."""
        blocks = {turn: (block, top) for turn, block, top in unfinished if block.may_show_continue}
        for button, turn in self.continues.show_for([*blocks]):
            block, top = blocks[turn]
            full = block.answer.finish == "context"
            tip = "The context is full: goes on without the oldest turns" if full else "Goes on with the answer where it ended"
            button.setToolTip(f"{tip} ({native_keys('Ctrl+Shift+Return')})" if block is newest else tip)
            button.setAccessibleDescription(tip)
            if button.property("earlier") != (earlier := block is not newest):
                restyle(button, "earlier", earlier)
            right = column.right() - (4 * size + 12 if block is newest else size) - 6
            width = round(block.continue_width) - 8
            button.setGeometry(right - width, round(top + block.footer_top - 5), width, size)

    def _place_thoughts(self, column: QRect, in_view: Sequence[tuple[AnswerBlock, float]]) -> None:
        """Places a button above every answer in view that has thoughts; it says how long they took, and shows or folds them."""
        found = {block: round(top + block.head) for block, top in in_view if block.fold}
        theme, scale = self._look
        for button, block in self.thoughts.show_for([*found]):
            button.show_answer(block.answer, theme, scale)
            button.place(column, found[block], block.fold, scale)
