"""Markdown that is read while it grows looks like Markdown that is read as a whole."""

from __future__ import annotations

import random

import pytest

from app.conversation import line_looks
from app.conversation.line_looks import CODE, FENCE, NO_LOOK, LineLooks, Look, Span, looks_of
from app.conversation.markdown_source import Flag, shown
from tests.app.conversation.markdown_texts import HOSTILE, RICH, at_random_borders, random_markdown


def stream(looks: LineLooks, part: str) -> None:
    head, *rest = part.split("\n")
    looks.add(head)
    for line in rest:
        looks.end_line()
        looks.add(line)


def grown(text: str, chance: random.Random) -> tuple[list[Look], list[tuple[int, list[Look]]]]:
    """The looks of a text's lines at its end, and those of the finished ones whenever a block was finished."""
    looks, current, finished = LineLooks(True), dict[int, Look](), list[tuple[int, list[Look]]]()
    for part in at_random_borders(text, chance):
        before = looks.finished
        stream(looks, part)
        current.update(looks.changes())
        if looks.finished > before:
            finished.append((looks.finished, [current.get(number, NO_LOOK) for number in range(looks.finished)]))
    looks.finish()
    current.update(looks.changes())
    return [current.get(number, NO_LOOK) for number in range(text.count("\n") + 1)], finished


@pytest.mark.parametrize("seed", range(12))
def test_growing_gives_the_looks_of_the_whole_and_a_finished_block_never_changes(seed: int) -> None:
    chance = random.Random(seed)
    ended_early = 0
    for _ in range(60):
        text = shown(random_markdown(chance))
        at_the_end, finished = grown(text, chance)
        assert at_the_end == looks_of(text), text
        for count, looks in finished:
            assert looks == at_the_end[:count], text
            ended_early += count < len(at_the_end)
    assert ended_early > 20, "blocks are finished before the text is"


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_text_grows_to_the_same_looks(name: str) -> None:
    text = shown(HOSTILE[name])
    assert grown(text, random.Random(1))[0] == looks_of(text)


def test_a_splitter_that_ends_blocks_at_every_blank_line_would_be_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin of the first test: what would be wrong with the simplest rule."""
    advance = LineLooks._advance

    def hasty(looks: LineLooks, line: str) -> None:
        advance(looks, line)
        if not line.strip() and looks._lines:
            looks._finish(len(looks._lines))

    monkeypatch.setattr(LineLooks, "_advance", hasty)
    text = "```\na\n\nb\n```\n"
    assert grown(text, random.Random(1))[0] != looks_of(text)


def test_a_rich_answer_line_by_line() -> None:
    text = "# One *two*\n\nA **b** `c`\n- x\n> q\n```py\nif x:\n```\n| a | b |\n|---|---|\n"
    heading, _, words, item, quote, fence, code, closing, head, delimiters, _ = looks_of(text)
    assert (heading.kind, heading.level) == ("heading", 1)
    assert heading.spans == (
        Span(0, 2, Flag.SYNTAX),
        Span(6, 7, Flag.SYNTAX),
        Span(7, 10, Flag.ITALIC),
        Span(10, 11, Flag.SYNTAX),
    )
    assert [(span.start, span.flags) for span in words.spans] == [
        (2, Flag.SYNTAX), (4, Flag.BOLD), (5, Flag.SYNTAX), (8, Flag.SYNTAX), (9, Flag.CODE), (10, Flag.SYNTAX),
    ]  # fmt: skip
    assert (item.hang, item.spans) == (2, (Span(0, 2, Flag.SYNTAX),))
    assert (quote.hang, quote.spans[-1]) == (2, Span(2, 3, Flag.QUOTED))
    assert (fence, closing) == (FENCE, FENCE)
    assert (code.kind, code.spans[0]) == ("code", Span(0, 2, Flag.CODE, "keyword"))
    assert (head.kind, delimiters.kind) == ("table", "table")
    assert Span(2, 3, Flag.BOLD) in head.spans


def test_bold_is_set_as_soon_as_it_closes_and_code_is_coloured_when_its_fence_closes() -> None:
    looks = LineLooks(True)
    stream(looks, "so **bo")
    assert looks.changes().get(0, NO_LOOK).spans == ()
    stream(looks, "ld**")
    assert Span(5, 9, Flag.BOLD) in looks.changes()[0].spans
    stream(looks, "\n\n```py\nif x:\n")
    changed = looks.changes()
    assert (changed[2], changed[3]) == (FENCE, CODE)
    stream(looks, "```\n")
    assert "keyword" in [span.ink for span in looks.changes()[3].spans]


def test_what_is_read_at_a_token_does_not_grow_with_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counts the letters given to the parser: per token as many at the end of a long answer as at its beginning."""
    read, letters = line_looks.read, [0]

    def counted(source: str, references: bool = True) -> object:
        letters[0] += len(source)
        return read(source, references)

    monkeypatch.setattr(line_looks, "read", counted)
    chance, looks, costs = random.Random(2), LineLooks(True), []
    for _ in range(12):
        before = letters[0]
        for part in at_random_borders(RICH, chance, 4):
            stream(looks, part)
        costs.append(letters[0] - before)
    assert max(costs[6:]) < 1.2 * max(costs[:3])
    assert max(costs) < 40 * len(RICH), "a line is read again only when something in it may have closed"


def test_an_endless_line_is_not_copied_for_every_token_and_is_whole_in_the_end() -> None:
    looks, longest = LineLooks(True), 0
    for _ in range(4000):
        looks.add("**bold** ")
        longest = max(longest, len(looks._lines[-1]))
    assert longest <= line_looks.LONG_LINE + 9
    looks.finish()
    looks.add("`more`")
    looks.end_line()
    looks.add("*next*")
    looks.finish()
    assert looks._lines == ["**bold** " * 4000 + "`more`", "*next*"]
    short = LineLooks(True)
    for _ in range(200):  # longer than is read while it grows, short enough to be read in the end
        short.add("**bold** ")
    short.finish()
    assert short.changes()[0] == looks_of("**bold** " * 200)[0]


def test_code_is_known_by_its_lines_as_soon_as_it_is_closed() -> None:
    looks = LineLooks(True)
    stream(looks, "a\n\n```py\nx = 1\n")
    assert looks.codes == []
    stream(looks, "```\n\n- b\n\n  ```\n  y\n  ```")
    assert [(code.first, code.last, code.text) for code in looks.codes] == [(2, 5, "x = 1")]
    looks.finish()
    assert [(code.first, code.last, code.language, code.text) for code in looks.codes] == [
        (2, 5, "py", "x = 1"),
        (8, 11, "", "y"),
    ]


def test_without_markdown_only_fences_are_told_apart() -> None:
    looks, found = LineLooks(False), dict[int, Look]()
    stream(looks, "# a **b**\n```py\n**c**\n```\nd")
    found.update(looks.changes())
    assert [found.get(number, NO_LOOK) for number in range(5)] == [NO_LOOK, FENCE, CODE, FENCE, NO_LOOK]
