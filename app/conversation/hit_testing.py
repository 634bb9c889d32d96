"""Hit testing in the conversation: what a point is over, such as a letter, a link, a figure, or a block of code; and the
selection from one letter to another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from PySide6.QtCore import QPointF

from app.conversation.blocks import AnswerBlock, Block, settings_words
from app.conversation.chunks import CodeScroll
from app.conversation.token_boxes import spot_at
from app.look.wording import DEFINITIONS

SUMMARY_EXPLAINED = f"<p>Tokens and time since the prompt was read. Click for all figures.</p><p>{DEFINITIONS['invariant']}</p>"
Position = tuple[int, int]
"""A border between two letters: the index of a block, and a character offset in it."""


@dataclass(frozen=True, slots=True)
class Hit:
    """The block at the height of a point, and the point relative to the block's top left corner."""

    index: int
    block: Block
    point: QPointF

    @property
    def turn(self) -> int:
        """Index of the turn that the block belongs to."""
        return self.index // 2

    @property
    def answer(self) -> AnswerBlock | None:
        """The block if it is an answer; None for a prompt."""
        return self.block if isinstance(self.block, AnswerBlock) else None

    @property
    def _in_flow(self) -> QPointF:
        return self.point - self.block.origin

    @property
    def position(self) -> Position:
        """The border between two letters that is nearest to the point."""
        return self.index, self.block.flow.offset_at(self._in_flow)

    @property
    def link(self) -> str:
        """Address of the link under the point; empty if there is none."""
        flow = self.block.flow
        if self.answer is None or spot_at(flow, self._in_flow) is None:
            return ""
        return flow.link_at(flow.offset_at(self._in_flow, on_letter=True))

    @property
    def link_to_open(self) -> str:
        """Address of the link that a click opens. In the token view there is none, because a click pins a token."""
        return self.link if self.answer is not None and self.answer.shows_reading_view else ""

    @property
    def figure(self) -> str:
        """Key of the definition of the figure under the point; empty if there is none."""
        if self.answer is None or not 0 <= (inside := self.point.y() - self.answer.footer_top) <= self.answer.foot:
            return ""
        return self.answer.figure_at(self.point.x(), inside)

    @property
    def explanation(self) -> str:
        """The tooltip: all settings over an answer's header, an explanation of the summary over its footer."""
        answer, y = self.answer, self.point.y()
        if answer is None:
            return ""
        if y <= answer.head:
            return ", ".join(settings_words(answer.answer))
        return SUMMARY_EXPLAINED if 0 <= y - answer.footer_top <= answer.foot else ""

    @property
    def code(self) -> str:
        """The code of the closed code block at the height of the point; empty outside of one."""
        answer, y = self.answer, self._in_flow.y()
        if answer is None or not answer.shown:
            return ""
        return next((answer.code_text(code) for top, bottom, code in answer.flow.codes if top <= y < bottom), "")

    @property
    def code_scroll(self) -> CodeScroll | None:
        """The code block at the height of the point, if it can be scrolled sideways."""
        answer, y = self.answer, self._in_flow.y()
        if answer is None or not answer.shown:
            return None
        return next((scroll for scroll in answer.flow.code_scrolls if scroll.top <= y < scroll.bottom), None)


class Selection:
    """A range of letters, in either direction.

    Attributes:
        anchor, end: the positions where it was begun and where it ends; None if nothing is selected.
    """

    anchor: Position | None = None
    end: Position | None = None

    def select(self, anchor: Position | None, end: Position | None) -> None:
        """Selects the text between two positions; None clears the selection."""
        self.anchor, self.end = anchor, end

    def __bool__(self) -> bool:
        return None not in (self.anchor, self.end) and self.anchor != self.end

    def within(self, index: int, length: int) -> tuple[int, int] | None:
        """Returns start and end of the selection in a block of this length; None if it has no part in the block."""
        if self.anchor is None or self.end is None or not self:
            return None
        (first, start), (last, end) = sorted((self.anchor, self.end))
        if not first <= index <= last:
            return None
        return start if index == first else 0, end if index == last else length

    def text(self, blocks: Sequence[Block]) -> str:
        """Returns the selected text without ghosts; turns are separated by a blank line."""
        parts = []
        for index, block in enumerate(blocks):
            if (span := self.within(index, block.flow.length)) is not None:
                parts.append(block.flow.text_between(*span))
        return "\n\n".join(filter(None, parts))
