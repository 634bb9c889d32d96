"""The text of a growing answer in reading order, the position of each token in it, and where its thought ends."""

from __future__ import annotations

from bisect import bisect_left

from engine.lens.pieces import NOWHERE, Piece, ReadingOrder, Spot
from engine.lens.thoughts import ThoughtFinder
from engine.types import Round


class AnswerPieces:
    """The pieces of one answer, appended round by round.

    Attributes:
        pieces: everything released so far in reading order, ghosts included.
        text: the answer itself, without ghosts.
        thought: finds the thinking part at the beginning; `thought_tokens` is the number of the rounds' tokens in it.
        answer_at: index of the first piece after the thought and its trailing blank lines; None until there is one.
        answer_start: character offset of that piece in the text.
    """

    def __init__(self) -> None:
        self.pieces: list[Piece] = []
        self.text = ""
        self.thought = ThoughtFinder()
        self.thought_tokens = 0
        self.answer_at: int | None = None
        self.answer_start = 0
        self._order = ReadingOrder()
        self._places: dict[Spot, int] = {}

    def begin(self, given: str, chosen: str = "") -> None:
        """Starts the answer with text decided beforehand. It ends with `chosen`, the token that the user picked."""
        kept = given.removesuffix(chosen)
        parts = self._thought_and_answer(kept)
        self._take([*(Piece(part, "given") for part in parts), Piece(given[len(kept) :], "chosen")])
        self.text += given

    def open_thought(self) -> None:
        """Starts the answer inside a thought that the prompt has opened."""
        self.thought = ThoughtFinder(opened=True)

    @property
    def answer(self) -> str:
        """The text after the thought."""
        return self.text[self.thought.end :].lstrip() if self.thought.end else self.text

    def _thought_and_answer(self, text: str) -> list[str]:
        """Splits text after the thought it begins with."""
        finder = ThoughtFinder(opened=self.thought.state == "open")
        finder.take(text)
        parts = [text[: finder.end], text[finder.end :]]
        return [part for part in parts if part] or [text]

    def place_of(self, spot: Spot) -> int | None:
        """Returns the index of a token's first piece; None while the token is held back, and for tokens outside the text."""
        return self._places.get(spot)

    def first_of_round(self, round_: int) -> int:
        """Returns the index of the first piece of a round, or of the next round that has one."""
        return bisect_left(self.pieces, Spot(round_, False, 0), key=lambda piece: piece.spot)

    def _take(self, pieces: list[Piece]) -> None:
        for piece in pieces:
            if not piece.ghost:
                self._look_for_thought(piece)
            self._places.setdefault(piece.spot, len(self.pieces))
            self.pieces.append(piece)

    def _look_for_thought(self, piece: Piece) -> None:
        before = self.thought.state
        self.thought.take(piece.text)
        if self.thought.state == "closed" and self.answer_at is None:
            behind = piece.text if before == "closed" else piece.text[len(piece.text) - self.thought.behind :]
            if behind.strip():
                self.answer_at, self.answer_start = len(self.pieces), self.thought.length - len(piece.text)
        if before in ("undecided", "open") and self.answer_at is None and piece.spot != NOWHERE:
            self.thought_tokens += 1

    def add(self, round_: Round) -> list[Piece]:
        """Appends the next round and returns the pieces that it released."""
        released = self._order.add(round_)
        self._take(released)
        self.text += round_.text
        return released
