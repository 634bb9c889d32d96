"""Markdown that is read while it grows looks like Markdown that is read as a whole."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from app.conversation import line_formats
from app.conversation.line_formats import CODE, FENCE, PLAIN_LINE, LineFormat, LineFormatter, Span
from app.conversation.markdown_source import Flag, shown
from tests.app.conversation.flows import formats_of
from tests.app.conversation.markdown_texts import HOSTILE, RICH, at_random_borders, random_markdown


def stream(looks: LineFormatter, part: str) -> None:
    head, *rest = part.split("\n")
    looks.add(head)
    for line in rest:
        looks.end_line()
        looks.add(line)


def grown(parts: list[str]) -> tuple[list[LineFormat], list[tuple[int, list[LineFormat]]]]:
    """The looks of a text's lines at its end, and those of the finished ones whenever a block was finished."""
    looks, current, finished = LineFormatter(True), dict[int, LineFormat](), list[tuple[int, list[LineFormat]]]()
    for part in parts:
        before = looks.finished
        stream(looks, part)
        current.update(looks.changes())
        if looks.finished > before:
            finished.append((looks.finished, [current.get(number, PLAIN_LINE) for number in range(looks.finished)]))
    looks.finish()
    current.update(looks.changes())
    return [current.get(number, PLAIN_LINE) for number in range("".join(parts).count("\n") + 1)], finished


@pytest.mark.parametrize("seed", [*range(4), *(pytest.param(seed, marks=pytest.mark.full) for seed in range(4, 12))])
def test_growing_gives_the_looks_of_the_whole_and_a_finished_block_never_changes(seed: int) -> None:
    chance = random.Random(seed)
    ended_early = 0
    for _ in range(60):
        text = shown(random_markdown(chance))
        at_the_end, finished = grown(at_random_borders(text, chance))
        assert at_the_end == formats_of(text), text
        for count, looks in finished:
            assert looks == at_the_end[:count], text
            ended_early += count < len(at_the_end)
    assert ended_early > 20, "blocks are finished before the text is"


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_text_grows_to_the_same_looks(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_formats, "LONG_OPEN", 500)  # some of the texts are longer
    text = shown(HOSTILE[name][:1500])
    assert grown(at_random_borders(text, random.Random(1)))[0] == formats_of(text)


CUT = {
    "fence": "a\n```py\nif x:\n\n    # y\n``\n```\n~~~\n```\n~~~\nb `` ` `` c\n````\n```\n````",
    "fence in a list": "- a\n  ```py\n  x = 1\n\n  y\n  ```\n- b\n\n      code\n\n1. ~~~\n   z\nout\n2. ```\nin",
    "table": "a | b\n--- | ---\n1 | `x \\| y`\n\n| a |\n|---|\n| **b** |\nnot\n\n# h | i\n|---|---|\n|\n",
    "table in a quote": "> a | b\n> --|--\n> 1 | 2\n\n3",
    "list or table": "- a\n- b | c\n--|--\n- d | e\n|---|---|\n\n1. x | y\n2. z\n--|--",
    "heading or list": "Here:\n- a\n-\n- - b\n---\nHere\n---\nso\n===\n* * *\na\n=\n> b\n=\n1) c\n2. d\n-\n\n  e",
    "nested lists": "1. a\n   - b\n     - c\n\n       d\n   - e\n\n2. f\n   > g\nlazy\n\n   > - h\n",
    "marks of lists": "- i\n * j\n  + k\n   - l\n    - m",
    "link": '[a *b*](http://c.d/e_f_g "t") https://a.b/c_(d)_. ![i](j) [x\ny](z) <http://q.r>, [u](v\nw',
    "TeX": "$$\na\n# b\n- c\n\n$$\nx = **y**\n$$\nd $e_f$ \\(g*h*\\) $$\ni\n$$\n",
    "TeX that begins like a heading": "$$\n#\n$$",
    "TeX in a list": "- j\n\\[\n- k\n\\]\n> $$\n> l\n> $$\n- a\n$$\n- b\n$$\n",
    "emphasis over lines": "**a\nb** *c\nd\n\ne* ~~f\ng~~ `h\ni` ***j** k\nl*\n# **m\nn**",
    "letters beyond 16 bits": "😀 **😀\n`😀`** [😀](😀)\n- 😀\n\n| 😀 |\n|--|\n| *😀* |\r\n\tx\x00\u2028",
}
"""Texts in which the next letter changes what the ones before it are."""


@pytest.mark.parametrize("name", CUT)
def test_text_cut_anywhere_grows_to_the_same_looks(name: str) -> None:
    text = shown(CUT[name])
    expected = formats_of(text)
    for at in range(len(text)):
        assert grown([text[:at], text[at:]])[0] == expected, text[:at]
    assert grown([*text])[0] == expected
    assert grown(text.splitlines(keepends=True))[0] == expected


ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("path", ["README.md", "ARCHITECTURE.md"])
def test_a_real_document_grows_to_the_same_looks(path: str) -> None:
    text = shown((ROOT / path).read_text(encoding="utf-8"))
    end, finished = grown(at_random_borders(text, random.Random(3), 120))
    assert end == formats_of(text)
    assert finished and all(looks == end[:count] for count, looks in finished)


def test_a_reader_that_ends_blocks_at_every_blank_line_would_be_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin of the tests above: what would be wrong with the simplest rule."""

    def hasty(lines: list[str]) -> tuple[list[int], bool]:
        return [0, *(number for number, line in enumerate(lines) if number and not line)], False

    monkeypatch.setattr(line_formats, "_outline", hasty)
    text = "```\na\n\nb\n```\n"
    assert grown([*text])[0] != formats_of(text)


def test_a_rich_answer_line_by_line() -> None:
    text = "# One *two*\n\nA **b** `c`\n- x\n> q\n```py\nif x:\n```\n| a | b |\n|---|---|\n"
    heading, _, words, item, quote, fence, code, closing, head, delimiters, _ = formats_of(text)
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
    looks = LineFormatter(True)
    stream(looks, "so **bo")
    assert looks.changes().get(0, PLAIN_LINE).spans == ()
    stream(looks, "ld**")
    assert Span(5, 9, Flag.BOLD) in looks.changes()[0].spans
    stream(looks, "\n\n```py\nif x:\n")
    changed = looks.changes()
    assert (changed[2], changed[3]) == (FENCE, CODE)
    stream(looks, "```\n")
    assert "keyword" in [span.ink for span in looks.changes()[3].spans]


def test_what_is_read_at_a_token_does_not_grow_with_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counts the letters given to the parser: per token as many at the end of a long answer as at its beginning."""
    read, letters = line_formats.read, [0]

    def counted(source: str, references: bool = True) -> object:
        letters[0] += len(source)
        return read(source, references)

    monkeypatch.setattr(line_formats, "read", counted)
    chance, looks, costs = random.Random(2), LineFormatter(True), []
    for _ in range(8):
        before = letters[0]
        for part in at_random_borders(RICH, chance, 4):
            stream(looks, part)
            looks.changes()
        costs.append(letters[0] - before)
    assert max(costs[4:]) < 1.2 * max(costs[:3])
    assert max(costs) < 30 * len(RICH), "a block is parsed again only when something in it may have closed"


def test_an_endless_line_is_not_parsed_at_every_token_but_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_formats, "LONG_OPEN", 200)
    looks, spans = LineFormatter(True), 0
    for _ in range(100):
        looks.add("**bold** ")
        spans = max(spans, len(looks.changes().get(0, PLAIN_LINE).spans))
    assert spans < 3 * 30
    looks.finish()
    assert looks.changes()[0] == formats_of("**bold** " * 100)[0]


def test_a_line_behind_a_long_open_block_continues_its_table_or_code() -> None:
    words, rows = "words " * (line_formats.LONG_OPEN // 200), 40
    for head, row, kind in (
        ("| a | b |\n|---|---|\n", f"| {words} | **2** |\n", "table"),
        ("- a\n\n  ```\n", f"  {words}\n", "code"),
    ):
        looks, current = LineFormatter(True), dict[int, LineFormat]()
        for part in [head, *[row] * rows]:
            stream(looks, part)
            current.update(looks.changes())
        last = head.count("\n") + rows - 1
        assert current[last].kind == kind
        looks.finish()
        current.update(looks.changes())
        assert [current.get(number, PLAIN_LINE) for number in range(last + 2)] == formats_of(head + row * rows)


def test_a_list_after_a_line_of_text_does_not_begin_as_a_heading() -> None:
    looks, kinds = LineFormatter(True), set[str]()
    for letter in "Here:\n- a\n- b\n\nThere:\n--\n":
        stream(looks, letter)
        kinds.update(look.kind for look in looks.changes().values() if looks.finished < 3)
    assert kinds == {"text"}


def test_code_is_known_by_its_lines_as_soon_as_it_is_closed() -> None:
    looks = LineFormatter(True)
    stream(looks, "a\n\n```py\nx = 1\n")
    looks.changes()
    assert looks.codes == []
    stream(looks, "```\n\n- b\n\n  ```\n  y\n")
    looks.changes()
    assert [(code.first, code.last, code.text) for code in looks.codes] == [(2, 5, "x = 1")]
    stream(looks, "  ```")
    looks.changes()
    assert [(code.first, code.last, code.language, code.text) for code in looks.codes] == [
        (2, 5, "py", "x = 1"),
        (8, 11, "", "y"),
    ]


def test_without_markdown_only_fences_are_told_apart() -> None:
    looks, found = LineFormatter(False), dict[int, LineFormat]()
    stream(looks, "# a **b**\n```py\n**c**\n```\nd")
    found.update(looks.changes())
    assert [found.get(number, PLAIN_LINE) for number in range(5)] == [PLAIN_LINE, FENCE, CODE, FENCE, PLAIN_LINE]
