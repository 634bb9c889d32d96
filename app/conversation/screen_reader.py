"""The accessible interface of the conversation, which is painted and therefore has no widgets of its own.

It is one text that can be read letter by letter: prompts, and answers without ghosts, in the reading view without syntax. The
screen reader's cursor is the window's token cursor, and the description of the conversation is the verdict on its token.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate
from typing import Any

from PySide6.QtCore import QObject, QPoint, QPointF, QRect
from PySide6.QtGui import QAccessible, QAccessibleInterface, QAccessibleTextInterface
from PySide6.QtWidgets import QAccessibleWidget

from app.conversation.chunks import slice_units
from app.conversation.line_formats import units
from app.conversation.reading_view import ReadingFlow
from app.conversation.transcript import Transcript
from app.lanes.lanes import Lanes, LanesInterface
from app.session.attachments import in_short
from app.session.cursor import Place
from app.session.token_navigation import place_of, spot_of
from engine.lens.pieces import NOWHERE, Spot


def plain_text(transcript: Transcript) -> str:
    """Returns the conversation in words: prompts, and answers without ghosts, in the reading view without Markdown syntax."""
    last = len(transcript.session.turns) - 1
    return _before_answers(transcript)[-1] + _words_of(transcript, last) if last >= 0 else ""


def spoken(transcript: Transcript, turn: int) -> list[tuple[str, Spot]]:
    """Returns the text of an answer in the current view, in parts of one token each, without ghosts."""
    block = transcript.answer_block(turn)
    if block is not None and isinstance(block.flow, ReadingFlow):
        return block.flow.spoken
    return [(piece.text, piece.spot) for piece in transcript.session.turns[turn].answer.text.pieces if not piece.ghost]


def _words_of(transcript: Transcript, turn: int) -> str:
    return "".join(text for text, _ in spoken(transcript, turn))


def _before_answers(transcript: Transcript) -> list[str]:
    """Returns for every turn the conversation in words up to the first letter of its answer."""
    found, text, session = list[str](), "", transcript.session
    for index, turn in enumerate(session.turns):
        text += "\n" if text else ""
        text += f"({transcript.dropped_words})\n" if index and index == session.dropped_turns else ""
        text += f"You: {in_short(turn.prompt)}\n{turn.answer.model or 'Answer'}: "
        found.append(text)
        text += _words_of(transcript, index)
    return found


def _answer_starts(transcript: Transcript) -> list[int]:
    """Offset of each answer's first letter in the conversation's text, in UTF-16 units."""
    return [units(before) for before in _before_answers(transcript)]


def offset_of(transcript: Transcript, place: Place | None) -> int:
    """Returns the offset of a token in the conversation's text; for a ghost, the offset at which it was proposed."""
    turns = transcript.session.turns
    if place is None or not 0 <= place.turn < len(turns):
        return 0
    spot = spot_of(place, turns[place.turn].answer)
    before = () if spot is None else (text for text, other in spoken(transcript, place.turn) if other < spot)
    return _answer_starts(transcript)[place.turn] + sum(map(units, before))


def place_at(transcript: Transcript, offset: int) -> Place | None:
    """The token at an offset of the conversation's text; None in a prompt."""
    starts = _answer_starts(transcript)
    turn = bisect_right(starts, offset) - 1
    if turn < 0:
        return None
    parts = [part for part in spoken(transcript, turn) if part[0]]
    ends = list(accumulate(units(text) for text, _ in parts))
    index = bisect_right(ends, offset - starts[turn])
    if index >= len(parts) or parts[index][1] == NOWHERE:
        return None
    return place_of(turn, parts[index][1])


class ConversationText(QAccessibleTextInterface):
    """The conversation letter by letter. Offsets count UTF-16 units.

    PySide does not bind attributes and selections. So the verdict on a token is the description of the conversation, and it is
    announced whenever the reader's cursor moves to the token.
    """

    def __init__(self, transcript: Transcript) -> None:
        super().__init__()
        self._transcript = transcript

    def text(self, startOffset: int, endOffset: int) -> str:
        """The part of the conversation between two offsets, ghosts left out."""
        return slice_units(plain_text(self._transcript), startOffset, endOffset)

    def characterCount(self) -> int:
        return units(plain_text(self._transcript))

    def cursorPosition(self) -> int:
        return offset_of(self._transcript, self._transcript.pointing.cursor.place)

    def setCursorPosition(self, position: int) -> None:
        if (place := place_at(self._transcript, position)) is not None:
            self._transcript.pointing.go(place)

    def characterRect(self, offset: int) -> QRect:
        transcript = self._transcript
        area = transcript.pointing.area(place_at(transcript, offset))
        return QRect(transcript.viewport().mapToGlobal(area.topLeft()), area.size())

    def offsetAtPoint(self, point: QPoint) -> int:
        transcript = self._transcript
        place = transcript.pointing.place_at(QPointF(transcript.viewport().mapFromGlobal(point)))
        return -1 if place is None else offset_of(transcript, place)

    def scrollToSubstring(self, startIndex: int, endIndex: int) -> None:
        if (place := place_at(self._transcript, startIndex)) is not None:
            self._transcript.pointing.show(place)

    # Selecting is left to Ctrl+A and the mouse.

    def selectionCount(self) -> int:
        return 0

    def addSelection(self, startOffset: int, endOffset: int) -> None: ...

    def removeSelection(self, selectionIndex: int) -> None: ...

    def setSelection(self, selectionIndex: int, startOffset: int, endOffset: int) -> None: ...


class TranscriptInterface(QAccessibleWidget):
    """A document whose value is the conversation in words, without ghosts; its description is the verdict on the token pointed
    at."""

    def __init__(self, transcript: Transcript) -> None:
        super().__init__(transcript, QAccessible.Role.Document, transcript.accessibleName())
        self._letters = ConversationText(transcript)

    def text(self, kind: QAccessible.Text) -> str:
        """Returns the conversation as the value and the verdict on the token pointed at as the description."""
        transcript = self.object()
        if isinstance(transcript, Transcript):
            if kind == QAccessible.Text.Value:
                return plain_text(transcript)
            verdict = transcript.verdict_at(transcript.pointing.cursor.place)
            if kind == QAccessible.Text.Description and verdict is not None:
                return verdict.brief
        return super().text(kind)

    def interface_cast(self, kind: QAccessible.InterfaceType) -> Any:
        """Returns `ConversationText` for the text interface; Qt handles other kinds."""
        if kind == QAccessible.InterfaceType.TextInterface:
            return self._letters
        return super().interface_cast(kind)


def _factory(_: str, thing: QObject) -> QAccessibleInterface | None:
    # Qt keeps the interface as long as the widget, but not its Python half: the widget does.
    if isinstance(thing, Transcript):
        thing.accessible = TranscriptInterface(thing)
        return thing.accessible
    if isinstance(thing, Lanes):
        thing.accessible = LanesInterface(thing)
        return thing.accessible
    return None


def install() -> None:
    """Installs the accessible interface; once per process."""
    QAccessible.installFactory(_factory)
