"""The horizontal scroll bars of code blocks whose lines are too wide."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from PySide6.QtCore import QRect, QSignalBlocker, Qt
from PySide6.QtGui import QWheelEvent
from PySide6.QtWidgets import QScrollBar, QWidget

from app.conversation.blocks import AnswerBlock
from app.conversation.chunks import CodeScroll
from app.conversation.floating_buttons import WidgetPool
from app.conversation.text_flow import BAR
from app.look.widgets import named

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


class CodeBars(WidgetPool[CodeBar, CodeScroll]):
    """A pool of scroll bars, one per wide code block in view.

    Args:
        moved: called when the user has moved a bar.
    """

    def __init__(self, viewport: QWidget, moved: Callable[[], object]) -> None:
        super().__init__(self._bar)
        self._viewport, self._moved = viewport, moved

    def _bar(self) -> CodeBar:
        bar = CodeBar(self._viewport)
        bar.valueChanged.connect(partial(self._slid, bar))
        return bar

    def place(self, column: QRect, in_view: Sequence[tuple[AnswerBlock, float]]) -> None:
        """Puts a bar below every wide block of code.

        Args:
            column: the column of text in viewport coordinates.
            in_view: the answers that are at least partly in view, each with the y of its top in the viewport.
        """
        found = [
            (scroll, round(top + block.origin.y() + scroll.bottom - BAR))
            for block, top in in_view
            for scroll in (block.flow.code_scrolls if block.shown else ())
        ]
        found = [(scroll, y) for scroll, y in found if -BAR < y < self._viewport.height()]
        for (bar, scroll), (_, y) in zip(self.show_for([scroll for scroll, _ in found]), found, strict=True):
            with QSignalBlocker(bar):
                bar.setRange(0, round(scroll.limit))
                bar.setPageStep(round(scroll.right - scroll.left))
                bar.setValue(round(scroll.offset))
            bar.setGeometry(column.left() + round(scroll.left), y, round(scroll.right - scroll.left), round(BAR))

    def _slid(self, bar: CodeBar, value: int) -> None:
        if (scroll := self.thing_of(bar)) is not None and scroll.move(value):
            self._moved()
