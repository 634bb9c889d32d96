"""Answers that are done, rendered: every letter knows its token, and what is copied is Markdown."""

from __future__ import annotations

import random

import pytest
from PySide6.QtCore import QPointF
from pytestqt.qtbot import QtBot

from app.conversation.chunks import slice_units
from app.conversation.letter_formats import Style
from app.conversation.line_formats import units
from app.conversation.markdown_source import shown
from app.conversation.reading_view import ReadingFlow, Rendered
from app.conversation.token_boxes import gap_before, spot_at
from app.look import theme as themes
from engine.lens.pieces import Piece, Spot
from tests.app.conversation.flows import boxes_of
from tests.app.conversation.markdown_texts import HOSTILE, RICH, at_random_borders, random_markdown

COPIED = """# Title

A **bold words** and `code` a [link](http://x.org) $\\alpha$

- one
- two

> quoted

```py
x = 1
y
```

end
"""


def tokens(text: str, seed: int = 1) -> list[Piece]:
    parts = at_random_borders(text, random.Random(seed), 5)
    return [Piece(part, "accepted", Spot(index, True, 0)) for index, part in enumerate(parts)]


def reading(pieces: list[Piece], width: float = 520, scale: float = 1.0) -> ReadingFlow:
    return ReadingFlow(Style(themes.DARK, themes.reading_font(scale), themes.mono_font(scale)), width, pieces)


def rendered(flow: ReadingFlow) -> str:
    return "\n".join(chunk.text.replace("\u2028", "|") for chunk in flow.chunks)


def test_syntax_and_ghosts_are_gone(qtbot: QtBot) -> None:
    ghost = Piece("ghost", "rejected", Spot(0, False, 0))
    words = rendered(
        reading([ghost, *tokens("# A **b**\n\n- `c`\n- [ ] d\n\n> e\n\n| f | g |\n|--|--|\n| 1 | 2 |\n\n```py\nh\n```\n")])
    )
    assert words == "A b\nc\n☐ d\ne\nf|g\n1|2\nh"


@pytest.mark.parametrize("width", [160, 520])
@pytest.mark.parametrize("name", ["rich", *HOSTILE])
def test_every_letter_stands_in_the_column_and_is_found_as_its_token(qtbot: QtBot, name: str, width: float) -> None:
    pieces = tokens(RICH if name == "rich" else HOSTILE[name])[:1500]
    flow = reading(pieces, width)
    missed = 0
    for chunk in flow.chunks:
        assert "".join(slice_units(chunk.text, run.start, run.end) for run in chunk.runs) == chunk.text
        assert [run.spot for run in chunk.runs] == sorted(run.spot for run in chunk.runs)
        for box in flow.whole_boxes(chunk):
            assert box.rect.left() >= -1 and box.rect.right() <= (width + 20 if chunk.window is None else chunk.extent)
    for piece in pieces:
        for box in boxes_of(flow, piece.spot, piece.spot)[:1]:
            box = boxes_of(flow, piece.spot, piece.spot)[0] if flow.reveal(box) else box
            missed += spot_at(flow, box.center()) != piece.spot
        assert not gap_before(flow, piece.spot).isNull()
    assert missed <= (3 if name in ("rich", "right to left", "bad links") else name == "surrogates"), (
        "two directions, or two letters drawn as one"
    )


def test_a_point_in_a_table_finds_the_cell_it_is_in(qtbot: QtBot) -> None:
    flow = reading(tokens("| one | two |\n|---|---|\n| a long cell of many words that needs lines | x |\n"), 220)
    (chunk,) = [chunk for chunk in flow.chunks if chunk.text.endswith("x")]
    x = units(chunk.text) - 1
    assert isinstance(chunk, Rendered)
    box = next(box for box in flow.whole_boxes(chunk) if box.rect.left() > chunk.columns[1])
    point = QPointF(box.rect.center().x(), chunk.top + box.rect.center().y())
    assert flow.offset_at(point, on_letter=True) == chunk.start + x
    assert spot_at(flow, point) == chunk.runs[-1].spot


@pytest.mark.parametrize("name", ["rich", *HOSTILE])
def test_copying_everything_gives_the_answer(qtbot: QtBot, name: str) -> None:
    text = RICH if name == "rich" else HOSTILE[name]
    flow = reading([Piece(text, "accepted", Spot(0, True, 0))])
    assert flow.text_between(0, flow.length) == shown(text).replace("\r", " ")


@pytest.mark.parametrize(
    ("selected", "copied"),
    [
        ("Title", "# Title"),
        ("itl", "itl"),
        ("bold words", "bold words"),
        ("words and", "**words** and"),
        ("A bold", "A **bold**"),
        ("and code", "and `code`"),
        ("link", "link"),
        ("a link", "a [link](http://x.org)"),
        ("x = 1", "x = 1"),
        ("x = 1\ny", "x = 1\ny"),
        ("quoted\nx = 1\ny\n", "> quoted\n\n```py\nx = 1\ny\n```"),
        ("one\ntwo", "- one\n- two"),
        ("ne\ntwo", "ne\n- two"),
        ("α", "\\alpha"),
    ],
)
def test_a_part_is_copied_as_markdown_made_whole(qtbot: QtBot, selected: str, copied: str) -> None:
    flow = reading(tokens(COPIED))
    text = "".join(chunk.text + "\n" for chunk in flow.chunks)
    start = text.index(selected)
    assert flow.text_between(start, start + len(selected)) == copied


def test_random_selections_are_never_empty_and_never_fail(qtbot: QtBot) -> None:
    chance = random.Random(4)
    for _ in range(60):
        flow = reading(tokens(random_markdown(chance)))
        for _ in range(10):
            first, last = sorted((chance.randint(0, flow.length), chance.randint(0, flow.length)))
            words = flow.text_between(first, last)
            assert isinstance(words, str)
            flow.link_at(first)


def test_links_are_found_at_their_letters(qtbot: QtBot) -> None:
    flow = reading(tokens("see [here **now**](http://x.org) or ![a picture](http://y.org/z.png)"))
    words = flow.chunks[0].text
    assert words == "see here now or a picture"
    assert [flow.link_at(words.index(word)) for word in ("see", "now", "or", "picture")] == [
        "", "http://x.org", "", "http://y.org/z.png",
    ]  # fmt: skip


def test_blocks_of_code_know_where_they_stand_and_what_they_say(qtbot: QtBot) -> None:
    flow = reading(tokens("a\n\n```py\nx\n\ny\n```\n\n- b\n\n  ```\n  z\n  ```\n"))
    assert [code.text for _, _, code in flow.codes] == ["x\n\ny", "z"]
    for top, bottom, _ in flow.codes:
        assert 0 < top < bottom <= flow.height


def test_an_answer_without_letters_can_be_shown(qtbot: QtBot) -> None:
    for text in ("", "\n\n", "***", "- ", "```\n```"):
        flow = reading(tokens(text))
        assert flow.height >= 0 and flow.text_between(0, flow.length) == text
