"""Rounds become text with ghosts in the right places."""

from __future__ import annotations

from dataclasses import replace

from app.session.answer_pieces import AnswerPieces
from engine.lens.pieces import Piece, Spot, visible
from engine.types import Round
from tests.app.fakes import emitted, make_round, story_rounds


def kinds(answer: AnswerPieces) -> list[tuple[str, str]]:
    return [(piece.text, piece.kind) for piece in answer.pieces]


def test_ghosts_stand_between_the_accepted_tokens_and_the_correction() -> None:
    answer = AnswerPieces()
    answer.add(make_round(0, ["The", " lamp"], " burned", [" was", " lit"]))
    assert kinds(answer) == [
        ("The", "accepted"),
        (" lamp", "accepted"),
        (" was", "rejected"),
        (" lit", "unjudged"),
        (" burned", "correction"),
    ]
    assert answer.text == "The lamp burned"


def test_bonus_and_plain_tokens_are_told_apart() -> None:
    answer = AnswerPieces()
    answer.add(make_round(0, ["a"], "b"))
    answer.add(make_round(1, [], "c"))
    assert kinds(answer) == [("a", "accepted"), ("b", "bonus"), ("c", "plain")]


def test_the_shown_text_is_the_engines_text() -> None:
    answer = AnswerPieces()
    rounds = story_rounds()
    for round_ in rounds:
        answer.add(round_)
    shown = "".join(piece.text for piece in answer.pieces if not piece.ghost)
    assert shown == answer.text == "".join(round_.text for round_ in rounds)


def test_held_back_text_waits_with_whatever_follows_it() -> None:
    answer = AnswerPieces()
    answer.add(make_round(0, ["one", " ST"], "O", [" x"], text="one"))
    assert kinds(answer) == [("one", "accepted")]
    answer.add(make_round(1, [], "RY", text=" STORY"))
    assert kinds(answer)[1:] == [(" ST", "accepted"), (" x", "rejected"), ("O", "correction"), ("RY", "plain")]


def test_a_token_is_cut_where_a_stop_text_begins() -> None:
    answer = AnswerPieces()
    answer.add(make_round(0, ["ab"], "cdEND", text="abcd", finish="stop"))
    assert kinds(answer) == [("ab", "accepted"), ("cd", "bonus")]


def test_a_character_of_two_tokens_belongs_to_the_one_that_completes_it() -> None:
    first = replace(emitted("", "accepted"), bytes=b"\xf0\x9f")
    second = replace(emitted("😀", "bonus"), bytes=b"\x98\x80")
    round_: Round = replace(make_round(0, ["x"], "y"), emitted=(first, second), text="😀")
    answer = AnswerPieces()
    answer.add(round_)
    assert [piece for piece in answer.pieces if piece.text] == [Piece("😀", "bonus", Spot(0, True, 1))]


def test_bytes_that_never_became_a_character_are_still_shown() -> None:
    answer = AnswerPieces()
    round_ = replace(make_round(0, [], "", finish="length"), text="\N{REPLACEMENT CHARACTER}")
    answer.add(round_)
    assert answer.pieces[-1].text == "\N{REPLACEMENT CHARACTER}"


def test_every_piece_names_its_token_in_reading_order() -> None:
    answer = AnswerPieces()
    rounds = story_rounds()
    for round_ in rounds:
        answer.add(round_)
    assert [piece.spot for piece in answer.pieces] == sorted(piece.spot for piece in answer.pieces)
    for piece in answer.pieces:
        round_ = rounds[piece.spot.round]
        token = round_.emitted[piece.spot.at] if piece.spot.own else round_.proposals[piece.spot.at]
        assert piece.text == (visible(token.text, token.bytes, within_text=True) if piece.ghost else token.text)
        assert answer.pieces[answer.place_of(piece.spot) or 0] == piece


def test_a_branch_begins_with_what_was_kept_and_the_chosen_token() -> None:
    answer = AnswerPieces()
    answer.begin("The last lamp", " lamp")
    answer.add(make_round(0, [" went"], " out"))
    assert kinds(answer)[:3] == [("The last", "given"), (" lamp", "chosen"), (" went", "accepted")]
    assert answer.text == "The last lamp went out"
    assert answer.first_of_round(0) == 2
