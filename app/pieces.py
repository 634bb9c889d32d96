"""From rounds to what stands in the transcript: runs of text, each with what became of its token.

A ghost (a rejected or unjudged proposal) stands where its token would have stood: behind the accepted tokens of its
round and before the correction. Text is shown only as far as the engine has released it (`Round.text`), so a possible
beginning of a stop text stays back together with whatever follows it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

from engine.types import Candidate, Origin, Proposal, Round

Kind = Literal["accepted", "correction", "bonus", "plain", "rejected", "unjudged", "given", "chosen"]
"""What became of a token. Given ones begin an answer that branches off another; the chosen one is where it leaves it."""
GHOSTS: frozenset[Kind] = frozenset(("rejected", "unjudged"))


class Spot(NamedTuple):
    """A token of one answer: an index among its round's proposals or, behind them, among its emitted tokens.

    As in `app.cursor.Place`, an accepted proposal is meant by its index there and not by that of the token it became. Spots
    sort in reading order.

    Attributes:
        own: the token is one the target added (correction, bonus or plain).
    """

    round: int
    own: bool
    at: int


_VISIBLE = {ord(" "): "·", ord("\n"): "⏎", ord("\r"): "⏎", ord("\t"): "⇥"}
NOWHERE = Spot(-1, True, 0)
"""Of text that no round made: a prompt, or what an answer was given to begin with."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Part of the transcript: the text of one token, and which token of its answer that is."""

    text: str
    kind: Kind
    spot: Spot = NOWHERE

    @property
    def ghost(self) -> bool:
        return self.kind in GHOSTS


def visible(text: str, data: bytes = b"") -> str:
    """A token by itself with everything to be seen: blanks as dots, line breaks and tabs as arrows, half characters as bytes.

    Args:
        data: the token's bytes, where they are known; a token that completes a character has only part of it.
    """
    if data:
        try:
            text = data.decode()
        except UnicodeDecodeError:
            if not text or "\N{REPLACEMENT CHARACTER}" in text:
                return _quoted(data.hex(" ").upper())
    text = text.replace("\r\n", "\n").translate(_VISIBLE)
    return "".join(letter if letter.isprintable() else _quoted(f"{ord(letter):02X}") for letter in text) or _quoted("nothing")


def candidate_words(candidate: Candidate) -> str:
    """A likely token by itself. A round records its text but not its bytes, so half characters are told apart by their ids."""
    return _quoted(f"bytes, id {candidate.id}") if "\N{REPLACEMENT CHARACTER}" in candidate.text else visible(candidate.text)


def ghost_text(proposal: Proposal) -> str:
    """A proposal that never became text, on one line: white space is spelled out, half characters are their bytes."""
    if "\N{REPLACEMENT CHARACTER}" in proposal.text or (not proposal.text and proposal.bytes):
        return _quoted(proposal.bytes.hex(" ").upper())
    shown = proposal.text.replace("\r\n", "\n").translate({**_VISIBLE, ord(" "): " "})
    return shown.replace(" ", "·") if shown and not shown.strip() else shown


def _quoted(words: str) -> str:
    return f"\N{SINGLE LEFT-POINTING ANGLE QUOTATION MARK}{words}\N{SINGLE RIGHT-POINTING ANGLE QUOTATION MARK}"


class AnswerText:
    """The pieces of one answer, grown round by round.

    Attributes:
        pieces: everything released so far, ghosts included, in reading order.
        text: the answer itself, without ghosts.
    """

    def __init__(self) -> None:
        self.pieces: list[Piece] = []
        self.text = ""
        self._waiting: deque[Piece] = deque()
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
        self._waiting.extend(_in_order(round_))
        released = list(self._release(round_))
        self._take(released)
        self.text += round_.text
        return released

    def _release(self, round_: Round) -> Iterator[Piece]:
        remaining = len(round_.text)
        while self._waiting:
            piece = self._waiting[0]
            if piece.ghost:
                yield self._waiting.popleft()
            elif len(piece.text) <= remaining:
                remaining -= len(piece.text)
                yield self._waiting.popleft()
            else:
                if remaining:
                    yield Piece(piece.text[:remaining], piece.kind, piece.spot)
                    self._waiting[0] = Piece(piece.text[remaining:], piece.kind, piece.spot)
                return
        if remaining:  # bytes that never completed a character are flushed as text of the last token
            last: Origin = round_.emitted[-1].origin if round_.emitted else "plain"
            yield Piece(round_.text[-remaining:], last, spot_of_emitted(round_, len(round_.emitted) - 1))


def spot_of_emitted(round_: Round, index: int) -> Spot:
    """The token that stands at `index` among a round's emitted ones."""
    accepted = index >= 0 and round_.emitted[index].origin == "accepted"
    return Spot(round_.index, not accepted, max(0, index))


def kind_of(round_: Round, spot: Spot) -> Kind:
    """What became of a token that the round has."""
    return round_.emitted[spot.at].origin if spot.own else round_.proposals[spot.at].status


def _in_order(round_: Round) -> Iterator[Piece]:
    for index, token in enumerate(round_.emitted):
        if token.origin == "accepted":
            yield Piece(token.text, "accepted", Spot(round_.index, False, index))
    for index, proposal in enumerate(round_.proposals):
        if proposal.status != "accepted":
            yield Piece(ghost_text(proposal), proposal.status, Spot(round_.index, False, index))
    for index, token in enumerate(round_.emitted):
        if token.origin != "accepted":
            yield Piece(token.text, token.origin, Spot(round_.index, True, index))
