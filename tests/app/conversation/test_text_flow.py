"""Text that grows round by round is laid out like text that was there at once."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
from PySide6.QtCore import QPointF
from PySide6.QtGui import QColor, QFont, QImage, QPainter, QTextCharFormat, QTextLayout
from pytestqt.qtbot import QtBot

from app.conversation import line_formats
from app.conversation.chunks import lines_of, slice_units, x_of
from app.conversation.letter_formats import Style
from app.conversation.markdown_source import shown
from app.conversation.text_flow import MAX_LINES, Flow
from app.conversation.token_boxes import fragments_of, spot_at
from app.look import theme as themes
from app.session.answer_pieces import AnswerPieces
from engine.lens.pieces import Kind, Piece, Spot
from tests.app.conversation.flows import boxes_of
from tests.app.conversation.markdown_texts import HOSTILE, RICH, at_random_borders, random_markdown
from tests.app.fakes import story_rounds

MIXED = "An emoji 😀 and 日本語, a\ttab.\n\n```python\nfor token in answer:\n    print(token)\n```\nDone. " * 6


def flow(width: float = 420, markdown: bool = False) -> Flow:
    return Flow(Style(themes.DARK, themes.reading_font(1), themes.mono_font(1)), width, markdown)


def pieces(text: str) -> list[Piece]:
    answer = AnswerPieces()
    for round_ in story_rounds(text):
        answer.add(round_)
    return answer.pieces


def lines(laid_out: Flow) -> list[str]:
    return [
        slice_units(chunk.text, line.textStart(), line.textStart() + line.textLength())
        for chunk in laid_out.chunks
        for line in lines_of(chunk)
    ]


def check_runs(laid_out: Flow) -> None:
    """The runs of a chunk are its whole text, and each chunk begins where the one before ends."""
    for chunk in laid_out.chunks:
        assert "".join(slice_units(chunk.text, run.start, run.end) for run in chunk.runs) == chunk.text
    assert [chunk.start for chunk in laid_out.chunks[1:]] == [chunk.start + chunk.length for chunk in laid_out.chunks[:-1]]


def places(laid_out: Flow) -> list[tuple[tuple[float, ...], Kind, Spot]]:
    """Where every token stands, and every mark."""
    return [
        (box.rect.translated(0, chunk.top).getRect(), box.kind, box.spot)
        for of in (laid_out.boxes, laid_out.whole_boxes)
        for chunk in laid_out.chunks
        for box in of(chunk)
    ]


GROWN = [(False, MIXED), (False, "one long paragraph without any end " * 25), (True, "rich"), *((True, name) for name in HOSTILE)]


@pytest.mark.parametrize(("markdown", "name"), GROWN, ids=lambda value: str(value)[:20])
def test_growing_gives_the_same_lines_and_keeps_every_letter(
    qtbot: QtBot, monkeypatch: pytest.MonkeyPatch, markdown: bool, name: str
) -> None:
    monkeypatch.setattr(line_formats, "LONG_OPEN", 400)  # some of the texts are longer
    tokens = pieces(HOSTILE[name])[:200] if name in HOSTILE else pieces(RICH if name == "rich" else name)
    together, grown = flow(markdown=markdown), flow(markdown=markdown)
    together.append(tokens)
    for piece in tokens:
        grown.append([piece])
        if not markdown:
            places(grown)  # what is known of lines above is kept
    for laid_out in (together, grown):
        laid_out.finish()
        assert laid_out.text_between(0, laid_out.length, keep_ghosts=True) == "".join(shown(piece.text) for piece in tokens)
        answer = "".join(shown(piece.text) for piece in tokens if not piece.ghost)
        assert laid_out.text_between(0, laid_out.length) == answer, "copied without ghosts"
    assert lines(grown) == lines(together)
    assert grown.height == pytest.approx(together.height)
    assert markdown or places(grown) == places(together)
    assert max(len(lines_of(chunk)) for chunk in grown.chunks) <= MAX_LINES


def tokens_in(words: list[str]) -> list[Piece]:
    """One piece for each of these, accepted."""
    return [Piece(word, "accepted", Spot(index, True, 0)) for index, word in enumerate(words)]


@pytest.mark.parametrize("width", [230, 300, 420])
def test_a_token_that_wraps_has_one_frame_that_is_open_at_the_break(qtbot: QtBot, width: float) -> None:
    """A word that moves to the next line leaves no frame around its blank behind."""
    words = [
        "The",
        " keeper",
        " climbed",
        " two-hundred-and-eleven-steps-every-evening-without-complaint",
        " and",
        " lit",
        " it",
    ] * 9
    laid_out = flow(width)
    laid_out.append(tokens_in(words))
    torn = 0
    for index, word in enumerate(words):
        spot = Spot(index, True, 0)
        boxes = fragments_of(laid_out, spot, spot)
        edges = [(box.open_left, box.open_right) for box in boxes]
        expected = [(at > 0, at < len(boxes) - 1) for at in range(len(boxes))]
        assert edges == expected, word
        assert len(boxes) == 1 or len(word) > 20, f"{word!r} fits a line"
        assert all(box.rect.width() > 8 for box in boxes)
        torn += len(boxes) > 1
    assert torn > 5 and len(laid_out.chunks) > 1, "also across chunks"


RIGHT_TO_LEFT = "كان حارس המגדלור المنارة يصعد كل ليلة الدرج الحلزوني الطويل ليضيء"


@pytest.mark.parametrize("width", [150, 260, 420])
@pytest.mark.parametrize("mixed", [False, True])
def test_boxes_of_right_to_left_text_are_where_qt_paints_its_selection(qtbot: QtBot, width: float, mixed: bool) -> None:
    words = [" " + word for word in RIGHT_TO_LEFT.split()]
    if mixed:
        words = [part for pair in zip(words, [" the", " keeper", " went", " 12"] * 3, strict=False) for part in pair]
    words += [" ليضيء-المصباح-ويرشد-السفن-عبر-الضباب-الكثيف-إلى-الميناء-الآمن"]
    laid_out = flow(width)
    laid_out.append(tokens_in(words))
    seen = 0
    for chunk in laid_out.chunks:
        assert chunk.layout is not None
        for run in chunk.runs:
            image = QImage(round(width) + 40, round(chunk.height) + 8, QImage.Format.Format_RGB32)
            image.fill(0)
            selected = QTextLayout.FormatRange()
            selected.start, selected.length = run.start + run.blanks, run.length - run.blanks
            look = QTextCharFormat()
            look.setBackground(QColor("red"))
            look.setForeground(QColor("red"))
            selected.format = look
            painter = QPainter(image)
            chunk.layout.draw(painter, QPointF(0, 0), [selected])
            painter.end()
            boxes = [box.rect for box in laid_out.whole_boxes(chunk) if box.spot == run.spot]
            for index in range(chunk.layout.lineCount()):
                line = chunk.layout.lineAt(index)
                y = round(line.y()) + 1
                red = {x for x in range(image.width()) if image.pixelColor(x, y) == QColor("red")}
                ours = {x for box in boxes if abs(box.top() - line.y()) < 1 for x in range(round(box.left()), round(box.right()))}
                assert len(red ^ ours) <= 4 * max(1, len(boxes)), (words[run.spot.round], index)
                seen += bool(red)
    assert seen >= len(words)


def test_offsets_and_points_agree_also_behind_characters_of_two_units(qtbot: QtBot) -> None:
    laid_out = flow()
    laid_out.append([Piece("😀😀 abc", "plain")])
    (line,) = lines_of(laid_out.chunks[0])
    for offset in (0, 2, 4, 5, 6, 8):
        assert laid_out.offset_at(QPointF(x_of(line, offset), 5)) == offset
    assert laid_out.text_between(4, laid_out.length) == " abc"


def test_fenced_code_is_set_in_its_own_font_and_ghosts_open_no_fence(qtbot: QtBot) -> None:
    laid_out = flow()
    laid_out.append([Piece("```", "rejected"), Piece("text\n```py\ncode\n```\nend", "plain")])
    assert [(chunk.text, chunk.code) for chunk in laid_out.chunks] == [
        ("```text", False),
        ("```py", True),
        ("code", True),
        ("```", True),
        ("end", False),
    ]


def test_every_run_lies_within_its_chunk_whatever_the_pieces(qtbot: QtBot) -> None:
    chance = random.Random(5)
    kinds: tuple[Kind, ...] = ("accepted", "correction", "bonus", "plain", "rejected", "unjudged")
    laid_out = flow(200)
    for index in range(300):
        text = "".join(chance.choice(["a", "bc ", "😀", "\n", " ", "日"]) for _ in range(chance.randint(0, 6)))
        kind = chance.choice(kinds)
        text = text.replace("\n", "⏎") if kind in ("rejected", "unjudged") else text
        laid_out.append([Piece(text, kind, Spot(index, True, 0))])
    check_runs(laid_out)
    boxes = [box.rect for chunk in laid_out.chunks for box in laid_out.boxes(chunk)]
    assert all(-1 <= box.left() <= box.right() <= laid_out.width + 7 for box in boxes)


@pytest.mark.parametrize("width", [160, 420, 900])
@pytest.mark.parametrize("text", [MIXED, RICH], ids=["mixed", "rich"])
def test_every_token_is_found_under_its_own_letters(qtbot: QtBot, text: str, width: float) -> None:
    laid_out = flow(width, markdown=text == RICH)
    laid_out.append(pieces(text))
    laid_out.finish()
    for piece in pieces(text):
        boxes = boxes_of(laid_out, piece.spot, piece.spot)
        assert boxes or not piece.text.strip(" "), piece
        if boxes and laid_out.reveal(boxes[0]):
            boxes = boxes_of(laid_out, piece.spot, piece.spot)
        assert not boxes or spot_at(laid_out, boxes[0].center()) == piece.spot, piece


@pytest.mark.parametrize("blanks", [0, 1, 2])
@pytest.mark.parametrize("room", [0.0, 0.3, 1.0, 3.0, 7.0])
def test_a_newline_and_blanks_behind_a_full_line_are_found_and_cover_no_letter(qtbot: QtBot, room: float, blanks: int) -> None:
    """The line is as wide as its letters, in whatever font, or a little wider."""
    texts = ["a", " line", " of", " til", "l", *[" "] * blanks, "\n"]
    shown = [Piece(text, "accepted", Spot(index, True, 0)) for index, text in enumerate(texts)]
    letters = flow(2000)
    letters.append(shown[:5])
    laid_out = flow(letters.natural_width + room)
    laid_out.append([*shown, Piece("next", "plain", Spot(len(shown), True, 0))])
    assert len(lines(laid_out)) == 2, "the letters fill one line"
    boxes = [boxes_of(laid_out, piece.spot, piece.spot) for piece in shown]
    assert [len(found) for found in boxes] == [1] * len(shown)
    for piece, (box,) in zip(shown, boxes, strict=True):
        for share in (0.05, 0.5, 0.95):
            assert spot_at(laid_out, QPointF(box.left() + share * box.width(), box.center().y())) == piece.spot, piece
    for (before,), (behind,) in pairwise(boxes):
        assert before.right() <= behind.left() + 0.5
    assert boxes[-1][0].right() <= laid_out.width + 12


def test_a_whole_round_is_all_of_its_tokens_and_beside_the_text_is_none(qtbot: QtBot) -> None:
    laid_out = flow()
    laid_out.append(pieces("word " * 300))
    whole = boxes_of(laid_out, Spot(7, False, 0), Spot(7, True, 99))
    singly = [
        box for piece in pieces("word " * 300) if piece.spot.round == 7 for box in boxes_of(laid_out, piece.spot, piece.spot)
    ]
    assert whole == singly
    assert spot_at(laid_out, QPointF(laid_out.width + 50, 10)) is None
    assert spot_at(laid_out, QPointF(10, laid_out.height + 100)) is None


# Markdown, every letter kept


@pytest.mark.parametrize("seed", range(4))
def test_the_text_of_random_markdown_at_random_borders_is_the_answer(qtbot: QtBot, seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(12):
        text = random_markdown(chance)
        laid_out = flow(chance.choice((120, 420)), markdown=True)
        for index, part in enumerate(at_random_borders(text, chance)):
            kind = chance.choice(("accepted", "correction", "bonus"))
            laid_out.append([Piece("ghost**", "rejected")] * (chance.random() < 0.3))
            laid_out.append([Piece(part, kind, Spot(index, True, 0))])
        laid_out.finish()
        assert laid_out.text_between(0, laid_out.length) == shown(text)
        check_runs(laid_out)


def test_markup_has_its_formats_and_ghosts_have_their_own(qtbot: QtBot) -> None:
    laid_out = flow(markdown=True)
    laid_out.append([Piece("a **bo", "plain"), Piece("xx", "rejected"), Piece("ld** `c`", "plain")])
    laid_out.finish()
    (chunk,) = laid_out.chunks
    assert chunk.layout is not None
    ranges = chunk.layout.formats()
    found = [(each.start, each.length, QTextCharFormat(each.format)) for each in ranges]  # type: ignore[attr-defined]
    bold = [(start, length) for start, length, look in found if look.fontWeight() == QFont.Weight.DemiBold]
    assert bold == [(4, 2), (8, 2)], "in the weight that the typeface has"
    assert [(start, length) for start, length, look in found if look.fontStrikeOut()] == [(6, 2)]
    faint = [start for start, _, look in found if look.foreground().color().name() == themes.DARK.faint]
    assert faint == [2, 10, 13, 15]


def test_bold_italic_is_bold_although_the_typeface_has_no_semibold_italic(qtbot: QtBot) -> None:
    laid_out = flow(markdown=True)
    laid_out.append([Piece("***both***", "plain")])
    laid_out.finish()
    (chunk,) = laid_out.chunks
    assert chunk.layout is not None
    looks = [QTextCharFormat(each.format) for each in chunk.layout.formats() if each.start == 3]  # type: ignore[attr-defined]
    assert any(look.fontItalic() and look.fontWeight() == QFont.Weight.Bold for look in looks)


def test_the_open_block_alone_is_laid_out_again(qtbot: QtBot) -> None:
    laid_out = flow(markdown=True)
    laid_out.append(pieces(RICH))
    before = [chunk.layout for chunk in laid_out.chunks]
    laid_out.append([Piece("more **text**\n", "plain")])
    kept = sum(old is chunk.layout for old, chunk in zip(before, laid_out.chunks, strict=False))
    assert kept >= len(before) - 3
    assert laid_out.changed_top >= laid_out.chunks[kept - 1].top
