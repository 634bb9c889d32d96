"""Rejected proposals above the text: the line holds the answer alone, and no line moves when a proposal is rejected."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from PySide6.QtCore import QPoint, QRectF, Qt
from PySide6.QtGui import QFontMetricsF
from pytestqt.qtbot import QtBot

from app.compare.column_text import TextBlock
from app.conversation.chunks import GhostAbove, lines_of, x_of
from app.conversation.draft_strip import draft_strip
from app.conversation.find import find
from app.conversation.letter_formats import Style
from app.conversation.reading_view import ReadingFlow
from app.conversation.text_flow import INSET, Flow
from app.conversation.token_boxes import fragments_of, spot_at
from app.look import theme as themes
from app.session.answer_pieces import AnswerPieces
from app.session.cursor import Place
from app.session.session import Answer
from app.session.settings import Settings
from engine.lens.pieces import Piece, Spot
from engine.types import DecodingOptions
from tests.app.conversation.markdown_texts import RICH
from tests.app.conversation.showing import Show, gain
from tests.app.driving import Open, answered
from tests.app.fakes import STORY, make_round, story_rounds
from tests.trees import SECOND_CHOICE, TO_A_LEAF

CODE = "See:\n\n```python\nfor token in answer:\n    print(token, end='')\n```\nDone, and more text follows here. "
TEXTS = {"story": STORY, "code": CODE * 3, "rich": RICH, "rtl": "שלום עולם and then שלום again. " * 5}
texts = pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)


def flow(width: float = 420, above: bool = True) -> Flow:
    style = Style(themes.DARK, themes.reading_font(1), themes.mono_font(1), ghosts_above=above)
    return Flow(style, width, markdown=True)


def pieces(text: str) -> list[Piece]:
    answer = AnswerPieces()
    for round_ in story_rounds(text):
        answer.add(round_)
    return [piece for piece in answer.pieces if piece.kind != "unjudged"]


def whole(text: str, width: float = 420, above: bool = True) -> Flow:
    made = flow(width, above)
    made.append(pieces(text))
    made.finish()
    return made


def line_places(laid_out: Flow) -> list[tuple[float, float, float]]:
    return [(chunk.top + line.y(), line.x(), line.height()) for chunk in laid_out.chunks for line in lines_of(chunk)]


def ghosts(laid_out: Flow) -> Iterator[tuple[GhostAbove, QRectF]]:
    """The ghosts with their areas in the flow."""
    for chunk in laid_out.chunks:
        for ghost in laid_out.ghosts_above(chunk):
            yield ghost, chunk.outside(ghost.rect)


@texts
def test_the_line_holds_the_answer_alone(qtbot: QtBot, text: str) -> None:
    kept = "".join(piece.text for piece in pieces(text) if not piece.ghost)
    made = whole(text)
    assert made.text_between(0, made.length, keep_ghosts=True) == kept.replace("\t", "    ")
    inline = whole(text, above=False)
    assert len(inline.text_between(0, inline.length, keep_ghosts=True)) > len(kept), "the twin: ghosts in the line"


@texts
@pytest.mark.parametrize("width", [170, 420])
def test_every_rejected_proposal_is_above_its_place_and_none_over_another(qtbot: QtBot, text: str, width: float) -> None:
    made = whole(text, width)
    rejected = [piece.spot for piece in pieces(text) if piece.kind == "rejected"]
    found = list(ghosts(made))
    assert [ghost.spot for ghost, _ in found] == rejected
    tops = sorted({top for top, _, _ in line_places(made)})
    for number, (_, area) in enumerate(found):
        assert area.left() >= 0
        line = next(top for top in tops if top > area.center().y())
        assert area.top() < line < area.bottom() + 4, "in the strip over its line"
        for _, other in found[number + 1 : number + 4]:
            assert not area.adjusted(0.5, 3, -0.5, -3).intersects(other.adjusted(0.5, 3, -0.5, -3))


def test_a_rejected_proposal_begins_where_its_replacement_begins(qtbot: QtBot) -> None:
    rounds = [make_round(0, ["Once", " upon"], " a", [" the"]), make_round(1, [" time", " there", " was"], " nothing", [" more"])]
    answer = AnswerPieces()
    for round_ in rounds:
        answer.add(round_)
    made = flow()
    made.append([piece for piece in answer.pieces if piece.kind != "unjudged"])
    for (ghost, area), spot in zip(ghosts(made), (Spot(0, True, 2), Spot(1, True, 3)), strict=True):
        (box,) = fragments_of(made, spot, spot)
        blank = QFontMetricsF(made.style.text).horizontalAdvance(" ")
        assert area.left() == pytest.approx(box.rect.left() + blank, abs=1.5)
        assert ghost.text in ("the", "more")


@texts
def test_lines_have_one_height_whether_a_proposal_was_rejected_or_not(qtbot: QtBot, text: str) -> None:
    with_ghosts, without = whole(text), flow()
    without.append([piece for piece in pieces(text) if not piece.ghost])
    without.finish()
    assert line_places(with_ghosts) == line_places(without)
    assert list(ghosts(with_ghosts)) and not list(ghosts(without))


def test_while_text_streams_no_line_moves_down_or_up(qtbot: QtBot) -> None:
    streamed, seen = flow(260), list[float]()
    for piece in pieces(STORY * 2):
        streamed.append([piece])
        tops = [top for top, _, _ in line_places(streamed)]
        both = min(len(seen), len(tops))
        assert tops[:both] == pytest.approx(seen[:both], abs=0.1)
        seen = tops


def test_streamed_in_random_parts_ghosts_have_the_same_places(qtbot: QtBot) -> None:
    for text in TEXTS.values():
        streamed, left, draw = flow(300), pieces(text), random.Random(5)
        while left:
            count = draw.randint(1, 9)
            streamed.append(left[:count])
            left = left[count:]
        streamed.finish()
        for (ghost, area), (other, other_area) in zip(ghosts(streamed), ghosts(whole(text, 300)), strict=True):
            assert ghost.text == other.text and area.getRect() == pytest.approx(other_area.getRect(), abs=0.1)


def test_letters_of_code_stay_in_their_columns(qtbot: QtBot) -> None:
    advance = QFontMetricsF(themes.mono_font(1)).horizontalAdvance("0")

    def in_columns(made: Flow) -> bool:
        code = [chunk for chunk in made.chunks if chunk.line_format.kind == "code"]
        assert code
        lines = [(chunk, line) for chunk in code for line in lines_of(chunk)]
        kept = "".join(piece.text for piece in pieces(CODE) if not piece.ghost)
        is_source = all(chunk.text in kept for chunk, _ in lines)
        return is_source and all(
            abs(x_of(line, at) - INSET - at * advance) < 1 for chunk, line in lines for at in range(len(chunk.text))
        )

    assert in_columns(whole(CODE))
    assert not in_columns(whole(CODE, above=False)), "the twin: ghosts in the line move the letters"


def test_a_point_on_a_ghost_is_that_token(qtbot: QtBot) -> None:
    made = whole(STORY)
    for ghost, area in ghosts(made):
        assert spot_at(made, area.center()) == ghost.spot
        assert made.ghost_above(ghost.spot) is not None
    assert made.ghost_above(Spot(0, True, 0)) is None


def test_a_new_user_sees_them_above_and_old_settings_stay(qtbot: QtBot, open_window: Open) -> None:
    assert Settings().ghosts == "above"
    window, _ = open_window()
    assert "above the text" in window.status.ghosts.toolTip()
    answered(qtbot, window)
    made = window.transcript.blocks[1].flow
    assert made.text_between(0, made.length, keep_ghosts=True) == STORY
    assert len(list(ghosts(made))) == sum(round_.rejected for round_ in window.session.turns[0].answer.rounds)
    window.transcript.select_all()
    assert window.transcript.selected_text().endswith(STORY)
    assert not find(window.transcript.blocks, "wall"), "a rejected word is not found"
    assert "point at" in window.transcript.legend.buttons["unjudged"].accessibleDescription()
    window.chat.preferences.set(reading=True)
    assert isinstance(window.transcript.blocks[1].flow, ReadingFlow)
    assert not list(ghosts(window.transcript.blocks[1].flow))
    window.chat.preferences.set(reading=False, ghosts="all")
    made = window.transcript.blocks[1].flow
    assert not list(ghosts(made)) and {"rejected", "unjudged"} <= {run.kind for chunk in made.chunks for run in chunk.runs}


def test_pointing_at_a_round_shows_its_unjudged_proposals(show_conversation: Show) -> None:
    shown = show_conversation()
    round_ = next(each for each in shown.answer.rounds if each.rejected and each.unjudged)
    place, pointing = Place(0, round_.index, proposal=round_.accepted), shown.transcript.pointing
    calm = shown.transcript.grab().toImage()
    shown.hover(place)
    assert shown.cursor.place == place
    strip = pointing.rest_of_draft(place)
    assert strip is not None
    assert [text for _, text, _ in strip.tokens] == [text for text, _ in draft_strip(round_)]
    assert {kind for _, _, kind in strip.tokens} == {"rejected", "unjudged"}
    area = strip.rect.toAlignedRect()
    assert shown.transcript.grab(area).toImage() != calm.copy(area)
    shown.hover(QPoint(1, 1))
    assert shown.cursor.place is None and shown.transcript.grab().toImage() == calm, "and nothing of it stays"
    shown.transcript.set_ghosts("all")
    assert pointing.rest_of_draft(place) is None, "the text shows them"


@pytest.mark.parametrize("round_", [SECOND_CHOICE, TO_A_LEAF], ids=["second choice", "to a leaf"])
def test_the_strip_of_a_tree_has_the_choices_that_ended_its_path(round_: Any) -> None:
    tokens = draft_strip(round_)
    assert tokens
    choices = round_.choices(round_.accepted)
    named = [text for text, _ in tokens if not text.startswith("+")]
    if choices:
        assert named == [choice.text.strip() for choice in choices]
    else:
        assert len(named) == round_.unjudged


def test_a_long_draft_is_counted_not_listed() -> None:
    long = make_round(0, [], " a", [f" w{number}" for number in range(40)])
    tokens = draft_strip(long)
    assert tokens[-1][0] == f"+{40 - (len(tokens) - 1)}" and len(tokens) < 20


def test_a_ghost_without_a_replacement_stands_at_the_end(qtbot: QtBot) -> None:
    made = flow()
    base = make_round(0, ["Once"], "", [" upon"])
    answer = AnswerPieces()
    answer.add(replace(base, emitted=base.emitted[:1], text="Once"))
    made.append(answer.pieces)
    ((ghost, area),) = ghosts(made)
    (box,) = fragments_of(made, Spot(0, False, 0), Spot(0, False, 0))
    assert ghost.text == "upon" and area.left() >= box.rect.right() - 1


def test_compared_texts_can_have_them_above_too(qtbot: QtBot) -> None:
    style = Style(themes.DARK, themes.reading_font(1), themes.mono_font(1))
    answer = gain(Answer(DecodingOptions(), "head", 0.0), story_rounds())
    block = TextBlock(style, 300, answer, "above", frozenset())
    assert block.flow.text_between(0, block.flow.length, keep_ghosts=True) == STORY
    assert len(list(ghosts(block.flow))) == sum(round_.rejected for round_ in answer.rounds)


def test_choices_of_a_tree_unfold_above_the_token_pointed_at_by_key(qtbot: QtBot, show_conversation: Show) -> None:
    shown = show_conversation([SECOND_CHOICE, replace(TO_A_LEAF, index=1, finish="eos")])
    seen: dict[int, list[str]] = {}
    for _ in range(5):
        qtbot.keyClick(shown.transcript, Qt.Key.Key_Right)
        place = shown.cursor.place
        assert place is not None
        strip = shown.transcript.pointing.rest_of_draft(place)
        assert strip is not None, "in both rounds something was not judged"
        assert shown.transcript.viewport().rect().contains(strip.rect.toAlignedRect())
        seen[place.round] = [text for _, text, _ in strip.tokens]
    assert seen == {0: ["b", "d", "+3 not reached"], 1: ["b", "c"]}
