"""A change of rule leaves a labelled line in the text, exactly where it took effect, and no letter of it is copied."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import pytest
from PySide6.QtCore import QPointF, QRectF
from PySide6.QtGui import QColor, QImage, QPainter
from pytestqt.qtbot import QtBot

from app.conversation.blocks import AnswerBlock
from app.conversation.chunks import lines_of
from app.conversation.letter_formats import Style
from app.look import theme as themes
from app.session.session import Answer
from engine.lens.pieces import GHOST_STEPS, Ghosts
from engine.types import DecodingOptions, Round, Rule
from tests.app.conversation.showing import gain
from tests.app.fakes import STORY, make_round, story_rounds


def style(theme: themes.Theme = themes.DARK) -> Style:
    return Style(theme, themes.reading_font(1.0), themes.mono_font(1.0))


def switched(rounds: Sequence[Round], *changes: tuple[int, Rule]) -> list[Round]:
    """The rounds under gumbel, and under another rule from each of these on."""
    made = []
    for round_ in rounds:
        rule: Rule = next((rule for first, rule in reversed(changes) if round_.index >= first), "gumbel")
        made.append(replace(round_, rule=rule))
    return made


def block_of(rounds: Sequence[Round], ghosts: Ghosts = "rejected", width: float = 400.0, temperature: float = 0.8) -> AnswerBlock:
    answer = Answer(DecodingOptions(temperature=temperature), "head", 0.0, state="generating")
    gain(answer, rounds)
    return AnswerBlock(style(), width, answer, ghosts)


def words(block: AnswerBlock) -> list[str]:
    return [seam.divider.words for chunk in block.flow.chunks for seam in chunk.placed_dividers]


def test_each_change_has_a_divider_and_the_first_to_leave_the_seeds_text_says_so(qapp: object) -> None:
    rounds = switched(story_rounds(STORY * 2), (6, "rejection"), (14, "match"))
    block = block_of(rounds)
    assert words(block) == ["Rejection from here; the text now depends on the drafter", "Match from here"]
    assert words(block_of(rounds, temperature=0.0)) == ["Rejection from here", "Match from here"]
    assert words(block_of(story_rounds())) == []


@pytest.mark.parametrize("ghosts", GHOST_STEPS)
@pytest.mark.parametrize("first", [1, 5, 9, 16])
def test_it_stands_where_the_first_token_of_the_new_rule_begins(qapp: object, first: int, ghosts: Ghosts) -> None:
    rounds = switched(story_rounds(STORY * 2), (first, "match"))
    block = block_of(rounds, ghosts)
    ((chunk, seam),) = [(chunk, seam) for chunk in block.flow.chunks for seam in chunk.placed_dividers]
    boxes = [box for chunk in block.flow.chunks for box in block.flow.whole_boxes(chunk) if box.spot.round >= first]
    inside = [box for box in block.flow.whole_boxes(chunk) if box.spot.round >= first]
    assert inside and len(boxes) >= len(inside)
    line = next(line for line in lines_of(chunk) if line.y() >= seam.top)
    here = [box for box in inside if abs(box.rect.top() - line.y()) < 1]
    leftmost = min(box.rect.left() for box in here)
    assert leftmost - 1 <= seam.x <= min(box.rect.right() for box in here), "at its letters, behind its blanks"
    before = [box for box in block.flow.whole_boxes(chunk) if box.spot.round < first and abs(box.rect.top() - line.y()) < 1]
    assert all(box.rect.right() <= seam.x + 1 for box in before)


def test_room_is_made_for_it_and_no_line_overlaps(qapp: object) -> None:
    rounds, changed = story_rounds(STORY * 2), switched(story_rounds(STORY * 2), (6, "match"), (14, "gumbel"))
    plain, divided = block_of(rounds), block_of(changed)
    assert divided.flow.height == pytest.approx(plain.flow.height + 2 * divided.flow.divider_room)
    for chunk in divided.flow.chunks:
        lines = lines_of(chunk)
        for upper, lower in pairwise(lines):
            assert lower.y() >= upper.y() + upper.height() - 1
        for seam in chunk.placed_dividers:
            rows = [(line.y(), line.y() + line.height()) for line in lines]
            assert not any(top < seam.top + divided.flow.divider_room - 2 and bottom > seam.top + 2 for top, bottom in rows)


def test_the_divider_is_no_part_of_the_text(qapp: object) -> None:
    rounds = switched(story_rounds(STORY * 2), (6, "rejection"))
    plain, divided = block_of(story_rounds(STORY * 2)), block_of(rounds)
    assert divided.flow.text_between(0, divided.flow.length) == plain.flow.text_between(0, plain.flow.length) == STORY * 2
    assert divided.flow.length == plain.flow.length


def test_growing_round_by_round_gives_what_laying_out_at_once_gives(qapp: object) -> None:
    rounds = switched(story_rounds(STORY * 6), (6, "rejection"), (7, "gumbel"), (50, "match"))
    whole = block_of(rounds)
    answer = Answer(DecodingOptions(), "head", 0.0, state="generating")
    grown = AnswerBlock(style(), 400.0, answer, "rejected")
    for round_ in rounds:
        gain(answer, [round_])
        grown.grow()
    assert words(grown) == words(whole) and grown.flow.height == pytest.approx(whole.flow.height)
    for one, other in zip(*(block.flow.chunks for block in (grown, whole)), strict=True):
        assert [(seam.x, seam.top) for seam in one.placed_dividers] == [(seam.x, seam.top) for seam in other.placed_dividers]


def test_it_keeps_its_place_in_a_list_a_table_and_code(qapp: object) -> None:
    """Lines that Markdown sets anew once they are whole keep the divider where it was."""
    text = ["# Head", "\n", "- one", " item", "\n", "- two", "\n\n", "```", "py", "\n", "x", " = 1", "\n", "```", "\n"]
    text += ["| a |", " b |", "\n", "| - |", " - |", "\n", "| 1 |", " 2 |", "\n", "**bold", "**", " end"]
    rounds = [make_round(index, [], word) for index, word in enumerate(text)]
    for first in range(1, len(rounds)):
        block = block_of(switched(rounds, (first, "match")))
        block.answer.state = "finished"
        block.grow()
        assert words(block) == ["Match from here"], first
        assert block.flow.text_between(0, block.flow.length) == "".join(text)


MARGIN = 4
"""Pixels left of the text, for the mark of a divider before the first token of a line."""


@pytest.mark.parametrize("theme", [themes.DARK, themes.LIGHT])
@pytest.mark.parametrize("width", [130.0, 700.0])
def test_the_line_is_painted_in_the_rules_colour_across_the_text(qtbot: QtBot, theme: themes.Theme, width: float) -> None:
    answer = Answer(DecodingOptions(), "head", 0.0, state="generating")
    gain(answer, switched(story_rounds(), (6, "rejection")))
    block = AnswerBlock(style(theme), width, answer, "rejected")
    image = QImage(round(width) + MARGIN, round(block.height) + 1, QImage.Format.Format_RGB32)
    image.fill(QColor(theme.background))
    painter = QPainter(image)
    painter.translate(MARGIN, 0)
    block.paint(painter, QRectF(image.rect()), None)
    painter.end()
    ((chunk, seam),) = [(chunk, seam) for chunk in block.flow.chunks for seam in chunk.placed_dividers]
    origin = block.origin + QPointF(0, chunk.top)
    y = round(origin.y() + round(seam.top + block.flow.divider_room / 2))
    colour = QColor(theme.rule("rejection"))
    assert image.pixelColor(MARGIN, y) == colour
    assert image.pixelColor(MARGIN + round(seam.x) - 1, round(origin.y() + seam.bottom) - 3) == colour
