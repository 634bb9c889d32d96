"""The lines above an answer say what it was made with, whole, and leave room for what else stands there."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QRectF
from PySide6.QtGui import QColor, QImage, QPainter

from app.conversation.blocks import LONGEST_LINE, AnswerBlock, footer_words, settings_words
from app.conversation.figure_line import placed
from app.conversation.letter_formats import LONGEST_WORD, Style
from app.conversation.reading_view import ReadingFlow
from app.look import theme as themes
from app.session.session import Answer
from engine.types import SEED_LIMIT, DecodingOptions, RunChanged
from tests.app.conversation.showing import gain
from tests.app.fakes import STORY, story_rounds


def block_of(width: float, changes: tuple[RunChanged, ...] = (), model: str = "SmolLM2 135M") -> AnswerBlock:
    answer = Answer(DecodingOptions(seed=SEED_LIMIT - 1, gamma=4), "builtin-draft", 0.0, model=model, state="finished")
    answer.changes.extend(changes)
    gain(answer, story_rounds(STORY * 2))
    style = Style(themes.DARK, themes.reading_font(1.0), themes.mono_font(1.0))
    return AnswerBlock(style, width, answer, "rejected")


def shown(block: AnswerBlock) -> str:
    """What of the lines above the text has room, as it is painted."""
    lines = (placed(block.small, block.width - block.reserved, words) for words in block.header)
    return " ".join(word.text for line in lines for word in line)


@pytest.mark.usefixtures("fonts", "qapp")
def test_the_first_words_of_a_line_stand_below_the_text_and_only_later_ones_keep_away() -> None:
    font = themes.body_font(1.0)
    first, second = placed(font, 500, [("  end of answer", "", False), ("  same", "", False)])
    assert first.left == 0 and second.left > first.right


@pytest.mark.usefixtures("fonts", "qapp")
@pytest.mark.parametrize("width", [300.0, 420.0, 535.0, 1100.0])
def test_every_setting_stands_whole_above_the_answer_the_longest_seed_too(width: float) -> None:
    block = block_of(width)
    assert shown(block) == " ".join(["SmolLM2 135M", *settings_words(block.answer)])
    assert str(SEED_LIMIT - 1) in shown(block)
    assert block.origin.y() == block.head and (block.head > block.line) == (width < 1000)
    assert block.footer_top > block.head + block.flow.height - 1


@pytest.mark.usefixtures("fonts", "qapp")
@pytest.mark.parametrize("width", [300.0, 420.0, 535.0, 1100.0])
def test_every_figure_stands_whole_below_the_answer_and_is_explained_where_it_stands(width: float) -> None:
    block = block_of(width)
    block.answer.finish = "length"
    block.grow()
    lines = [[word.text for word in placed(block.small, block.footer_width, words)] for words in block.footer()]
    told = [text.strip() for text, _, _ in footer_words(block.answer, "", "", "")]
    assert [word for line in lines for word in line] == told and "any drafter gives this text" in told
    assert block.footer_top + block.foot < block.height, "what follows stands below them"
    assert block.foot > block.line or len(lines) == 1
    tops = [block.line / 2, *(block.line + (place + 0.5) * block.line_step for place in range(len(lines) - 1))]
    found = [{block.figure_at(float(x), top) for x in range(0, int(width), 3)} - {""} for top in tops]
    assert found == [{"invariant" if "drafter" in word else "answer" for word in (line[0], line[-1])} for line in lines]


@pytest.mark.usefixtures("fonts", "qapp")
def test_buttons_beside_the_settings_get_their_room() -> None:
    block, plain = block_of(535.0), block_of(535.0)
    block.reserve(90.0)
    assert len(block.header) >= len(plain.header) and str(SEED_LIMIT - 1) in shown(block)
    assert block.height - plain.height == pytest.approx(block.head - plain.head)


@pytest.mark.usefixtures("qapp")
def test_a_model_without_a_name_and_no_room_at_all_are_painted_too() -> None:
    for block in (block_of(400.0, model=""), block_of(20.0)):
        picture = QImage(400, 200, QImage.Format.Format_RGB32)
        painter = QPainter(picture)
        block.paint(painter, QRectF(0, 0, 400, 200), None)
        painter.end()


@pytest.mark.usefixtures("qapp")
def test_a_change_of_gamma_alone_divides_the_text() -> None:
    block = block_of(400.0, (RunChanged(1, 5, "gumbel", 2, "builtin-draft"),))
    placed_dividers = [seam.divider.words for chunk in block.flow.chunks for seam in chunk.placed_dividers]
    assert placed_dividers == [divider.from_here for divider in block.answer.dividers] == ["Gamma 2 from here"]
    assert not [seam for chunk in block_of(400.0).flow.chunks for seam in chunk.placed_dividers]


@pytest.mark.usefixtures("fonts", "qapp")
@pytest.mark.parametrize("letter", ["x", "x "])
def test_what_has_an_endless_line_stays_token_by_token_in_the_reading_view(letter: str) -> None:
    style = Style(themes.DARK, themes.reading_font(1.0), themes.mono_font(1.0))
    for length, reads in ((LONGEST_WORD * 2, True), (LONGEST_LINE + 2, False)):
        answer = Answer(DecodingOptions(), "none", 0.0, state="finished")
        answer.text.begin((letter * length)[:length] + "\n")
        block = AnswerBlock(style, 500.0, answer, "all", reading=True)
        assert isinstance(block.flow, ReadingFlow) is reads
        assert block.flow.natural_width <= 500, "words longer than a line are broken"


def painted(block: AnswerBlock, clip: QRectF, on: QImage) -> QImage:
    """What is in the clip is painted over what was there."""
    painter = QPainter(on)
    painter.setClipRect(clip)
    painter.fillRect(clip, QColor(block.style.theme.background))
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    block.paint(painter, clip, None)
    painter.end()
    return on


@pytest.mark.usefixtures("fonts", "qapp")
@pytest.mark.parametrize("lower", [0.0, 40.0])
def test_what_a_round_has_changed_is_all_that_needs_to_be_painted(lower: float) -> None:
    """And where painting begins 40 pixels lower, something is missing."""
    style = Style(themes.LIGHT, themes.reading_font(1.0), themes.mono_font(1.0))
    answer = Answer(DecodingOptions(seed=7), "head", 0.0, model="SmolLM2 135M", state="generating")
    block, same = AnswerBlock(style, 430.0, answer, "all"), True
    whole = QRectF(0, 0, 460, 700)
    grown = QImage(460, 700, QImage.Format.Format_RGB32)
    painted(block, whole, grown)
    for round_ in story_rounds("# Title\n\nSome **bold words** and `code`.\n\n* one\n* two\n\n" + STORY * 2):
        gain(answer, [round_])
        bottom = block.height
        first = not block.shown
        block.grow()
        top = 0.0 if first else round(block.changed_top - 4 + lower)
        painted(block, QRectF(0, top, 460, round(max(bottom, block.height)) - top), grown)
        same = same and grown == painted(block, whole, QImage(460, 700, QImage.Format.Format_RGB32))
    assert same is not bool(lower)
