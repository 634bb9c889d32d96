"""The selection in the conversation: from a letter of one block to a letter of the same or another block."""

from __future__ import annotations

from collections.abc import Sequence

from app.conversation.blocks import Block

Position = tuple[int, int]
"""A border between two letters: the index of a block, and a character offset in it."""


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
