"""Converts rounds to text in reading order: pieces of text, each with the fate of its token. Window, terminal and exports use it.

A ghost (a rejected or unjudged proposal) has the place that its token would have had: after the accepted tokens of its round and
before the correction. In a tree the ghosts beside accepted tokens are with the others, in the order of the record. Text is shown
only as far as the engine has released it (`Round.text`), so a possible beginning of a stop text is held back together with
everything after it.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal, NamedTuple

from engine.types import Candidate, Draw, Emitted, Proposal, Round

Kind = Literal["accepted", "correction", "bonus", "plain", "rejected", "unjudged", "given", "chosen"]
"""Fate of a token. Given ones begin an answer that branches off another; the chosen one is the first of the branch."""
GHOSTS: frozenset[Kind] = frozenset(("rejected", "unjudged"))
Ghosts = Literal["none", "above", "rejected", "all"]
"""Which ghosts are shown: none, rejected ones small above the text, rejected ones in the text, or all in the text."""
GHOST_STEPS: tuple[Ghosts, ...] = ("none", "above", "rejected", "all")
HIDDEN: dict[Ghosts, frozenset[Kind]] = {
    "none": GHOSTS,
    "above": frozenset(("unjudged",)),
    "rejected": frozenset(("unjudged",)),
    "all": frozenset(),
}
"""Kinds that each setting hides."""


def hidden_kinds(ghosts: Ghosts, lit: Kind | None) -> frozenset[Kind]:
    """Returns the kinds that are hidden at a ghost setting; the highlighted kind is always shown."""
    return HIDDEN[ghosts] - {lit}


class Spot(NamedTuple):
    """Identifies a token of one answer: an index among its round's proposals, or among its emitted tokens, which come after
    those.

    As in `app.session.cursor.Place`, an accepted proposal is identified by its index as a proposal, not by that of the emitted
    token. Spots sort in reading order.

    Attributes:
        own: True for a token that the target added (correction, bonus or plain).
    """

    round: int
    own: bool
    at: int


NOWHERE = Spot(-1, True, 0)
"""Spot of text that no round produced: a prompt, or the given beginning of an answer."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Text of one token, or what a stop text left of it, and the token's spot in its answer."""

    text: str
    kind: Kind
    spot: Spot = NOWHERE

    @property
    def ghost(self) -> bool:
        """Whether it is a rejected or unjudged proposal, which is shown but is not part of the answer."""
        return self.kind in GHOSTS


class ReadingOrder:
    """Takes the rounds of an answer one by one, and buffers pieces that a possible stop text holds back."""

    def __init__(self) -> None:
        self._buffer: deque[Piece] = deque()

    def add(self, round: Round) -> list[Piece]:
        """Returns the pieces that the round releases. Without ghosts their texts join to `round.text`."""
        self._buffer.extend(_pieces_in_order(round))
        released = []
        remaining = len(round.text)
        while self._buffer and (self._buffer[0].ghost or len(self._buffer[0].text) <= remaining):
            piece = self._buffer.popleft()
            remaining -= 0 if piece.ghost else len(piece.text)
            released.append(piece)
        if remaining and self._buffer:
            piece = self._buffer[0]
            released.append(replace(piece, text=piece.text[:remaining]))
            self._buffer[0] = replace(piece, text=piece.text[remaining:])
        elif remaining:  # bytes that never complete a character are flushed as text of the last token
            spot = spot_of_emitted(round, len(round.emitted) - 1)
            released.append(Piece(round.text[-remaining:], kind_of(round, spot) if round.emitted else "plain", spot))
        return released


def pieces(rounds: Iterable[Round]) -> Iterator[Piece]:
    """Yields the pieces of a whole answer in reading order."""
    order = ReadingOrder()
    for round in rounds:
        yield from order.add(round)


def folded(pieces: Iterable[Piece]) -> Iterator[Piece]:
    """Yields the pieces with each round's unjudged proposals as one, which counts them and has the spot of the first."""
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
    """Returns one symbol for a run of unjudged proposals; it keeps a leading blank of the first."""
    return replace(run[0], text=f"{' ' * run[0].text.startswith(' ')}⋯\N{WORD JOINER}{len(run)}")


def fold_of(round: Round) -> Spot:
    """Returns the spot of the fold of a round's unjudged proposals: that of the first one. There must be one."""
    return next(
        Spot(round.index, False, index) for index, proposal in enumerate(round.proposals) if proposal.status == "unjudged"
    )


def _pieces_in_order(round: Round) -> Iterator[Piece]:
    tokens = [(spot_of_emitted(round, index), token) for index, token in enumerate(round.emitted)]
    yield from (Piece(token.text, token.origin, spot) for spot, token in tokens if not spot.own)
    for index, proposal in enumerate(round.proposals):
        if proposal.status != "accepted":
            shown = visible(proposal.text, proposal.bytes, within_text=True)
            yield Piece(shown, proposal.status, Spot(round.index, False, index))
    yield from (Piece(token.text, token.origin, spot) for spot, token in tokens if spot.own)


def spot_of_emitted(round: Round, index: int) -> Spot:
    """Returns the spot of the token at `index` among a round's emitted ones."""
    accepted = 0 <= index < len(round.proposals) and round.emitted[index].origin == "accepted"
    return Spot(round.index, not accepted, max(0, index))


def place_of(round: Round, spot: Spot) -> int:
    """Returns the index in its round, from 0, of the position that a token has or was proposed for."""
    return spot.at if spot.own else round.depths[spot.at] - 1


def judged_at(round: Round, spot: Spot) -> Proposal | None:
    """Returns the proposal with the verdict on the position of a token: the token itself, or the rejected one that it replaces.
    None for an unjudged proposal, and if nothing was proposed there."""
    proposal = round.proposals[spot.at] if spot.at < len(round.proposals) else None
    return None if proposal is None or proposal.status == "unjudged" else proposal


def where_proposed(round: Round, at: int) -> str:
    """Returns the position of a proposal in its round, in words: "proposal 2 of 4"; in a tree, "choice 2 of 3 at depth 1"."""
    if not round.is_tree:
        return f"proposal {at + 1} of {len(round.proposals)}"
    proposal = round.proposals[at]
    siblings = sum(each.parent == proposal.parent for each in round.proposals)
    return f"choice {proposal.rank + 1} of {max(siblings, proposal.rank + 1)} at depth {round.depths[at]}"


def kind_of(round: Round, spot: Spot) -> Kind:
    """Returns the kind of a token of the round."""
    return round.emitted[spot.at].origin if spot.own else round.proposals[spot.at].status


_MARKS = str.maketrans({"\n": "⏎", "\r": "⏎", "\t": "⇥"})
_CONTROLS = {code: chr(0x2400 + code) for code in range(0x20) if chr(code) not in "\n\t"} | {0x7F: "\N{SYMBOL FOR DELETE}"}
_CONTROLS |= {code: f"‹{code:02X}›" for code in (*range(0x80, 0xA0), 0x202D, 0x202E)}
"""Control characters as visible symbols. The last two change the direction of all following text, letters of any script, so that
a line reads as another one."""
MAX_TOKEN_LENGTH = 200
"""Maximum number of characters shown of a token by itself. No real token is longer; one of a million characters would block the
window."""


def visible(text: str, data: bytes = b"", within_text: bool = False) -> str:
    """Returns a token on one line with everything visible: blanks as dots, line breaks and tabs as arrows, control characters as
    symbols or numbers, incomplete characters as bytes. Never empty, and cut at `MAX_TOKEN_LENGTH` characters.

    Args:
        data: the token's bytes, if known; a token that completes a character has only part of it.
        within_text: True inside other text, so blanks stay blanks unless there is nothing else.
    """
    if data:
        try:
            text = data.decode()
        except UnicodeDecodeError:
            if not text or "\N{REPLACEMENT CHARACTER}" in text:
                return f"‹{data[:MAX_TOKEN_LENGTH].hex(' ').upper()}{'…' * (len(data) > MAX_TOKEN_LENGTH)}›"
    if len(text) > MAX_TOKEN_LENGTH:
        text = f"{text[:MAX_TOKEN_LENGTH]}…"
    text = without_controls(text.replace("\r\n", "\n").translate(_MARKS))
    if not within_text or not text.strip():
        text = text.replace(" ", "·")
    return "".join(letter if letter.isprintable() else f"‹{ord(letter):02X}›" for letter in text) or "‹nothing›"


def quoted(token: Proposal | Emitted) -> str:
    """Returns a token by itself, everything visible, in quotation marks."""
    return f"“{visible(token.text, token.bytes)}”"


def visible_candidate(candidate: Candidate | Draw) -> str:
    """Returns a candidate token by itself. A round records its text but not its bytes, so the id identifies an incomplete
    character."""
    return f"‹bytes, id {candidate.id}›" if "\N{REPLACEMENT CHARACTER}" in candidate.text else visible(candidate.text)


def without_controls(text: str) -> str:
    """Returns text in which no control character can affect a terminal or a document; line breaks and tabs are unchanged."""
    return text.translate(_CONTROLS)


_FENCE = re.compile(r"[ >]*(?P<mark>`{3,}(?=[^`]*$)|~{3,})(?P<rest>.*)$")


class CodeSplitter:
    """Separates text from code, by Markdown fences, while the tokens of an answer arrive in reading order: pictures and reports
    set code in a fixed-width font.

    Args:
        text: the whole answer without ghosts. offset: offset in it at which the first token begins.
    """

    def __init__(self, text: str, offset: int = 0) -> None:
        self._edges = [edge for start, end in _fenced(text) for edge in (start, end)]
        self._offset = offset

    def parts(self, text: str, is_ghost: bool = False) -> list[tuple[str, bool]]:
        """Returns a token's text in parts, each with whether it is code. A ghost is not part of the answer, and is not
        divided."""
        if is_ghost:
            return [(text, self._is_code(self._offset))]
        start, self._offset = self._offset, self._offset + len(text)
        cuts = [start, *(edge for edge in self._edges if start < edge < self._offset), self._offset]
        return [(text[first - start : last - start], self._is_code(first)) for first, last in pairwise(cuts)]

    def _is_code(self, offset: int) -> bool:
        return sum(edge <= offset for edge in self._edges) % 2 == 1


def _fenced(text: str) -> Iterator[tuple[int, int]]:
    """Yields start and end of each block, including its fences but not the final line feed. A block without an end extends to the
    end of the text."""
    offset, start, mark = 0, -1, ""
    for line in text.split("\n"):
        fence = _FENCE.match(line)
        if fence is not None and start < 0:
            start, mark = offset, fence["mark"]
        elif fence is not None and fence["mark"].startswith(mark) and not fence["rest"].strip():
            yield start, offset + len(line)
            start = -1
        offset += len(line) + 1
    if start >= 0:
        yield start, max(len(text), start + 1)
