"""Steps from token to token in reading order through a conversation; converts between places and tokens."""

from __future__ import annotations

from collections.abc import Sequence

from app.session.cursor import Place
from app.session.session import Answer, Turn
from engine.lens.pieces import NOWHERE, Kind, Spot, spot_of_emitted


def place_of(turn: int, spot: Spot) -> Place:
    """Returns the place of a token in the answer of a turn."""
    return Place(turn, spot.round, emitted=spot.at) if spot.own else Place(turn, spot.round, proposal=spot.at)


def spot_of(place: Place, answer: Answer) -> Spot | None:
    """Returns the token at a place; None for a whole round and for a round that the answer lacks."""
    if place.whole_round or not 0 <= place.round < len(answer.rounds):
        return None
    if place.proposal is not None:
        return Spot(place.round, False, place.proposal)
    assert place.emitted is not None
    round_ = answer.rounds[place.round]
    return spot_of_emitted(round_, place.emitted) if place.emitted < len(round_.emitted) else None


def token_at(turns: Sequence[Turn], place: Place | None) -> tuple[Answer, Spot] | None:
    """Returns a token and its answer; None for a whole round and for a place that the turns lack."""
    if place is None or not 0 <= place.turn < len(turns):
        return None
    answer = turns[place.turn].answer
    spot = spot_of(place, answer)
    return None if spot is None else (answer, spot)


def neighbour(turns: Sequence[Turn], place: Place, by: int, hidden: frozenset[Kind], rounds: bool = False) -> Place | None:
    """Returns the previous or next token from a place, through all answers; None at either end.

    Args:
        by: -1 or 1.
        hidden: kinds of pieces left out of the text, which are skipped.
        rounds: goes to the first token of the previous or next round instead.
    """
    for turn in range(place.turn, len(turns) if by > 0 else -1, by):
        answer = turns[turn].answer
        index = _start(answer, place, by) if turn == place.turn else (0 if by > 0 else len(answer.text.pieces) - 1)
        while 0 <= index < len(answer.text.pieces):
            piece = answer.text.pieces[index]
            counts = piece.spot != NOWHERE and piece.kind not in hidden and index >= answer.folded
            if counts and rounds:
                counts = turn != place.turn or piece.spot.round != place.round
                if counts and by < 0:
                    return _first(answer, turn, piece.spot.round, hidden)
            if counts:
                return place_of(turn, piece.spot)
            index += by
    return None


def _start(answer: Answer, place: Place, by: int) -> int:
    """Returns the index of the piece next to a place. A whole round is entered at its near end."""
    spot = spot_of(place, answer)
    if spot is None:
        at_near_end = answer.text.first_of_round(place.round)
        return at_near_end if by > 0 else at_near_end - 1
    at = answer.text.place_of(spot)
    if at is None:
        return answer.text.first_of_round(place.round)
    while by > 0 and at + 1 < len(answer.text.pieces) and answer.text.pieces[at + 1].spot == spot:
        at += 1  # a token can span two pieces if it might have begun a stop text
    return at + by


def _first(answer: Answer, turn: int, round_: int, hidden: frozenset[Kind]) -> Place | None:
    for piece in answer.text.pieces[max(answer.folded, answer.text.first_of_round(round_)) :]:
        if piece.kind not in hidden:
            return place_of(turn, piece.spot)
    return None
