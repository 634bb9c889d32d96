"""From rounds to what stands in the transcript: runs of text, each with what became of its token.

A ghost (a rejected or unjudged proposal) stands where its token would have stood: behind the accepted tokens of its
round and before the correction. Text is shown only as far as the engine has released it (`Round.text`), so a possible
beginning of a stop text stays back together with whatever follows it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from engine.types import Origin, Proposal, Round

Kind = Literal["accepted", "correction", "bonus", "plain", "rejected", "unjudged"]
GHOSTS: frozenset[Kind] = frozenset(("rejected", "unjudged"))


@dataclass(frozen=True, slots=True)
class Piece:
    """Part of the transcript: the text of one token, and the round it came from."""

    text: str
    kind: Kind
    round: int

    @property
    def ghost(self) -> bool:
        return self.kind in GHOSTS


def ghost_text(proposal: Proposal) -> str:
    """A proposal that never became text, on one line: white space is spelled out, half characters are their bytes."""
    if "\N{REPLACEMENT CHARACTER}" in proposal.text or (not proposal.text and proposal.bytes):
        return (
            "\N{SINGLE LEFT-POINTING ANGLE QUOTATION MARK}"
            + proposal.bytes.hex(" ").upper()
            + "\N{SINGLE RIGHT-POINTING ANGLE QUOTATION MARK}"
        )
    shown = proposal.text.replace("\r\n", "\n").replace("\n", "⏎").replace("\r", "⏎").replace("\t", "⇥")
    return shown.replace(" ", "·") if shown and not shown.strip() else shown


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

    def add(self, round_: Round) -> list[Piece]:
        """Takes in the next round and returns the pieces it released."""
        self._waiting.extend(_in_order(round_))
        released = list(self._release(round_))
        self.pieces.extend(released)
        self.text += round_.text
        return released

    def _release(self, round_: Round) -> Iterator[Piece]:
        remaining = len(round_.text)
        last: Origin = round_.emitted[-1].origin if round_.emitted else "plain"
        while self._waiting:
            piece = self._waiting[0]
            if piece.ghost:
                yield self._waiting.popleft()
            elif len(piece.text) <= remaining:
                remaining -= len(piece.text)
                yield self._waiting.popleft()
            else:
                if remaining:
                    yield Piece(piece.text[:remaining], piece.kind, piece.round)
                    self._waiting[0] = Piece(piece.text[remaining:], piece.kind, piece.round)
                return
        if remaining:  # bytes that never completed a character are flushed as text of no token
            yield Piece(round_.text[-remaining:], last, round_.index)


def _in_order(round_: Round) -> Iterator[Piece]:
    for token in round_.emitted:
        if token.origin == "accepted":
            yield Piece(token.text, "accepted", round_.index)
    for proposal in round_.proposals:
        if proposal.status != "accepted":
            yield Piece(ghost_text(proposal), proposal.status, round_.index)
    for token in round_.emitted:
        if token.origin != "accepted":
            yield Piece(token.text, token.origin, round_.index)
