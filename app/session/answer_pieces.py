"""The text of an answer as it grows, and where in it each token stands."""

from __future__ import annotations

from bisect import bisect_left

from engine.lens.pieces import Piece, ReadingOrder, Spot
from engine.types import Round


class AnswerPieces:
    """The pieces of one answer, grown round by round.

    Attributes:
        pieces: everything released so far, ghosts included, in reading order.
        text: the answer itself, without ghosts.
    """

    def __init__(self) -> None:
        self.pieces: list[Piece] = []
        self.text = ""
        self._order = ReadingOrder()
        self._places: dict[Spot, int] = {}

    def begin(self, given: str, chosen: str = "") -> None:
        """The answer begins with text that was decided before it, the last part of which is the token the user chose."""
        kept = given.removesuffix(chosen)
        self._take([Piece(kept, "given"), Piece(given[len(kept) :], "chosen")])
        self.text += given

    def place_of(self, spot: Spot) -> int | None:
        """Index of the first piece of a token; None while it is held back, and for one that is not in the text."""
        return self._places.get(spot)

    def first_of_round(self, round_: int) -> int:
        """Index of the first piece of a round, or of what follows where it has none."""
        return bisect_left(self.pieces, Spot(round_, False, 0), key=lambda piece: piece.spot)

    def _take(self, pieces: list[Piece]) -> None:
        for piece in pieces:
            self._places.setdefault(piece.spot, len(self.pieces))
            self.pieces.append(piece)

    def add(self, round_: Round) -> list[Piece]:
        """Takes in the next round and returns the pieces it released."""
        released = self._order.add(round_)
        self._take(released)
        self.text += round_.text
        return released
