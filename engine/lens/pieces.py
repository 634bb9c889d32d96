"""From rounds to text in reading order: runs of text, each with what became of its token. The window, the terminal and what is
exported show answers by it.

A ghost (a rejected or unjudged proposal) stands where its token would have stood: behind the accepted tokens of its
round and before the correction. Text is shown only as far as the engine has released it (`Round.text`), so a possible
beginning of a stop text stays back together with whatever follows it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from engine.types import Candidate, Draw, Round

Kind = Literal["accepted", "correction", "bonus", "plain", "rejected", "unjudged", "given", "chosen"]
"""What became of a token. Given ones begin an answer that branches off another; the chosen one is where it leaves it."""
GHOSTS: frozenset[Kind] = frozenset(("rejected", "unjudged"))
Ghosts = Literal["none", "rejected", "all"]
"""How many of them are shown in a text."""
GHOST_STEPS: tuple[Ghosts, ...] = ("none", "rejected", "all")
HIDDEN: dict[Ghosts, frozenset[Kind]] = {"none": GHOSTS, "rejected": frozenset(("unjudged",)), "all": frozenset()}
"""What each step leaves out."""


def hidden_kinds(ghosts: Ghosts, lit: Kind | None) -> frozenset[Kind]:
    """What is left out of a text that shows so many ghosts; the kind that is lit up is shown in any case."""
    return HIDDEN[ghosts] - {lit}


class Spot(NamedTuple):
    """A token of one answer: an index among its round's proposals or, behind them, among its emitted tokens.

    As in `app.session.cursor.Place`, an accepted proposal is meant by its index there and not by that of the token it became.
    Spots sort in reading order.

    Attributes:
        own: the token is one the target added (correction, bonus or plain).
    """

    round: int
    own: bool
    at: int


NOWHERE = Spot(-1, True, 0)
"""Of text that no round made: a prompt, or what an answer was given to begin with."""


@dataclass(frozen=True, slots=True)
class Piece:
    """The text of one token, or the part of it that a stop text left over, and which token of its answer that is."""

    text: str
    kind: Kind
    spot: Spot = NOWHERE

    @property
    def ghost(self) -> bool:
        """Whether it is a rejected or unjudged proposal, which is shown but is no part of the answer."""
        return self.kind in GHOSTS


class ReadingOrder:
    """Takes the rounds of an answer one by one; what a possible stop text holds back waits here."""

    def __init__(self) -> None:
        self._waiting: deque[Piece] = deque()

    def add(self, round: Round) -> list[Piece]:
        """The pieces that the round releases. Without ghosts their texts join to `round.text`."""
        self._waiting.extend(_in_order(round))
        released = []
        remaining = len(round.text)
        while self._waiting and (self._waiting[0].ghost or len(self._waiting[0].text) <= remaining):
            piece = self._waiting.popleft()
            remaining -= 0 if piece.ghost else len(piece.text)
            released.append(piece)
        if remaining and self._waiting:
            piece = self._waiting[0]
            released.append(replace(piece, text=piece.text[:remaining]))
            self._waiting[0] = replace(piece, text=piece.text[remaining:])
        elif remaining:  # bytes that never completed a character are flushed as text of the last token
            spot = spot_of_emitted(round, len(round.emitted) - 1)
            released.append(Piece(round.text[-remaining:], kind_of(round, spot) if round.emitted else "plain", spot))
        return released


def pieces(rounds: Iterable[Round]) -> Iterator[Piece]:
    """A whole answer in reading order."""
    order = ReadingOrder()
    for round in rounds:
        yield from order.add(round)


def folded(pieces: Iterable[Piece]) -> Iterator[Piece]:
    """The same with the unjudged proposals of each round as one piece, which counts them and stands for the first."""
    run: list[Piece] = []
    for piece in pieces:
        if run and (piece.kind != "unjudged" or piece.spot.round != run[0].spot.round):
            yield _fold(run)
            run = []
        if piece.kind == "unjudged":
            run.append(piece)
        else:
            yield piece
    if run:
        yield _fold(run)


def _fold(run: list[Piece]) -> Piece:
    """One sign for a run of unjudged proposals; it keeps the blank that the first of them begins with."""
    return replace(run[0], text=f"{' ' * run[0].text.startswith(' ')}⋯\N{WORD JOINER}{len(run)}")


def fold_of(round: Round) -> Spot:
    """The token that the fold of a round's unjudged proposals stands for; there must be one."""
    return next(Spot(round.index, False, at) for at, proposal in enumerate(round.proposals) if proposal.status == "unjudged")


def _in_order(round: Round) -> Iterator[Piece]:
    tokens = [(spot_of_emitted(round, index), token) for index, token in enumerate(round.emitted)]
    yield from (Piece(token.text, token.origin, spot) for spot, token in tokens if not spot.own)
    for index, proposal in enumerate(round.proposals):
        if proposal.status != "accepted":
            shown = visible(proposal.text, proposal.bytes, running=True)
            yield Piece(shown, proposal.status, Spot(round.index, False, index))
    yield from (Piece(token.text, token.origin, spot) for spot, token in tokens if spot.own)


def spot_of_emitted(round: Round, index: int) -> Spot:
    """The token that stands at `index` among a round's emitted ones."""
    accepted = 0 <= index < len(round.proposals) and round.emitted[index].origin == "accepted"
    return Spot(round.index, not accepted, max(0, index))


def kind_of(round: Round, spot: Spot) -> Kind:
    """What became of a token that the round has."""
    return round.emitted[spot.at].origin if spot.own else round.proposals[spot.at].status


_MARKS = str.maketrans({"\n": "⏎", "\r": "⏎", "\t": "⇥"})
_CONTROLS = {code: chr(0x2400 + code) for code in range(0x20) if chr(code) not in "\n\t"} | {0x7F: "\N{SYMBOL FOR DELETE}"}
_CONTROLS |= {code: f"‹{code:02X}›" for code in (*range(0x80, 0xA0), 0x202D, 0x202E)}
"""The last two turn the direction of all that follows, letters of any script, so that a line reads as another one."""
LONGEST_TOKEN = 200
"""Letters that are shown of a token by itself. No vocabulary has one as long; one of a million would hold the window up."""


def visible(text: str, data: bytes = b"", running: bool = False) -> str:
    """A token on one line with everything to be seen: blanks as dots, line breaks and tabs as arrows, control characters as their
    pictures or numbers, half characters as bytes. Never empty, and never longer than anybody reads.

    Args:
        data: the token's bytes, where they are known; a token that completes a character has only part of it.
        running: it stands among other text, so blanks stay blanks unless there is nothing else.
    """
    if data:
        try:
            text = data.decode()
        except UnicodeDecodeError:
            if not text or "\N{REPLACEMENT CHARACTER}" in text:
                return f"‹{data[:LONGEST_TOKEN].hex(' ').upper()}{'…' * (len(data) > LONGEST_TOKEN)}›"
    if len(text) > LONGEST_TOKEN:
        text = f"{text[:LONGEST_TOKEN]}…"
    text = without_controls(text.replace("\r\n", "\n").translate(_MARKS))
    if not running or not text.strip():
        text = text.replace(" ", "·")
    return "".join(letter if letter.isprintable() else f"‹{ord(letter):02X}›" for letter in text) or "‹nothing›"


def visible_candidate(candidate: Candidate | Draw) -> str:
    """A likely token by itself. A round records its text but not its bytes, so half characters are told apart by their ids."""
    return f"‹bytes, id {candidate.id}›" if "\N{REPLACEMENT CHARACTER}" in candidate.text else visible(candidate.text)


def without_controls(text: str) -> str:
    """Text of any length in which nothing commands a terminal or breaks a document; line breaks and tabs stay what they are."""
    return text.translate(_CONTROLS)
