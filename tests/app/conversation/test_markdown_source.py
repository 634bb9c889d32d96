"""Rendered text knows its source, whatever was written."""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable

import pytest

from app.conversation.markdown_source import Document, Flag, link_in, read, shown
from app.conversation.tex import unicode_of
from tests.app.conversation.markdown_texts import HOSTILE, RICH, random_markdown


def texts(document: Document) -> list[tuple[str, str]]:
    return [(part.kind, "".join(segment.text for segment in part.all_segments)) for part in document.parts]


def check_places(document: Document) -> None:
    """Every segment has its own stretch of the source, in order; one as long as its text is that text."""
    behind = 0
    for part in document.parts:
        for segment in part.all_segments:
            assert behind <= segment.start < segment.end <= len(document.source)
            behind = segment.end
            source = document.source[segment.start : segment.end]
            if not segment.flags & Flag.MATH and len(source) == len(segment.text) and "\u2028" not in segment.text:
                assert source.replace("\n", " ") == segment.text


@pytest.mark.parametrize("name", ["rich", *HOSTILE])
def test_every_letter_has_its_place(name: str) -> None:
    document = read(shown(RICH if name == "rich" else HOSTILE[name]))
    check_places(document)
    for pair in document.pairs:
        assert 0 <= pair.open_start < pair.open_end <= pair.close_start < pair.close_end <= len(document.source)


def test_random_markdown_has_its_places() -> None:
    chance = random.Random(3)
    for _ in range(300):
        check_places(read(shown(random_markdown(chance))))


def test_what_is_rendered() -> None:
    source = "# A *b* #\n\n- one\n- [x](http://y)\n\n> q\n\n| a | b \\| c |\n|---|---|\n| `1` |\n\n***\n\n```py\nx\n```\n"
    assert texts(read(source)) == [
        ("heading", "A b"), ("text", "one"), ("text", "x"), ("text", "q"), ("row", "ab | c"), ("row", "1"), ("rule", ""),
        ("code", "x"),
    ]  # fmt: skip
    assert [part.marker for part in read("3. a\n4. b\n\n- c\n").parts] == ["3.", "4.", "•"]


@pytest.mark.parametrize(
    ("source", "rendered"),
    [
        ("<b>x</b> <script>", "<b>x</b> <script>"),
        ("&amp; &lt; \\* \\a", "& < * \\a"),
        ("![alt](http://x.org/a.png)", "alt"),
        ("![](http://x.org/a.png)", "http://x.org/a.png"),
        ("[a](javascript:alert(1))", "[a](javascript:alert(1))"),
        ("costs $5 and $6, or $7-$8", "costs $5 and $6, or $7-$8"),
        ("so $x^2$ and \\(\\alpha\\) and $$y$$", "so x² and α and y"),
        ("**open and *never", "**open and *never"),
        ("snake_case_name", "snake_case_name"),
        ("a\nb", "a\u2028b"),
    ],
)
def test_inline_text(source: str, rendered: str) -> None:
    assert texts(read(source))[0][1] == rendered


def test_links_are_found_also_where_they_are_only_addresses() -> None:
    document = read("[a **b**](http://x.org) <http://y.org> see http://z.org/q_(r). ![i](http://p.org) `http://no.org`")
    found = [(segment.text, segment.href) for part in document.parts for segment in part.all_segments if segment.href]
    assert found == [
        ("a ", "http://x.org"), ("b", "http://x.org"), ("http://y.org", "http://y.org"), ("http://z.org/q_(r)", "http://z.org/q_(r)"),
        ("i", "http://p.org"),
    ]  # fmt: skip


def test_links_defined_elsewhere_are_told_only_by_the_whole() -> None:
    assert texts(read(HOSTILE["references"])) == [("text", "a and b")]
    assert texts(read(HOSTILE["references"], references=False))[0] == ("text", "[a][b] and [b]")


def test_code_keeps_its_letters_and_an_unknown_language_is_no_error() -> None:
    for language in ("python", "nosuch", "", "{.py}", "c++"):
        code = read(f"```{language}\nx = '1'\n\n  y\n```").parts[0].code
        assert code is not None and code.text == "x = '1'\n\n  y"


@pytest.mark.parametrize(
    ("tex", "text"),
    [
        (r"\alpha^2 + \beta_{i}", "α² + βᵢ"),
        (r"\frac{a+b}{2}", "(a+b)/2"),
        (r"\frac{1}{2}", "½"),
        (r"\sqrt{\pi}", "√π"),
        (r"\sum_{i=1}^n x_i \leq \infty", "∑ᵢ₌₁ⁿ xᵢ ≤ ∞"),
        (r"e^{i\pi}", "e^(iπ)"),
        (r"\mathbb{R}^n \to \text{reals}", "ℝⁿ → reals"),
        (r"\nosuch{x} y", r"\nosuch{x} y"),
        (r"\left( \hat{x} \right)", "( x̂ )"),
        ("{", "{"),
        ("}", "}"),
        ("^", "^"),
        (r"\frac", "/"),
    ],
)
def test_mathematics_becomes_letters_where_there_are_some(tex: str, text: str) -> None:
    assert unicode_of(tex).replace("()", "") == text


def calls_of(function: Callable[[], object]) -> int:
    """Returns the number of function calls, of Python and C, that a call makes."""
    count = 0

    def note(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        function()
    finally:
        sys.setprofile(before)
    return count


@pytest.mark.parametrize(
    "repeated",
    [
        "\\[\n",
        "\\[ x\n",
        "> \\[\n",
        "- \\[\n",
        "\\[\n$$\n",
        "$$ x\n",
        "\\( ",
        "$a",
        "[",
        "![](",
        "**a ",
        "`a``b",
        "- a\n",
        "|a|b|\n",
    ],
)
def test_reading_is_linear_in_the_length(repeated: str) -> None:
    read(repeated * 10)
    few, many = (calls_of(lambda times=times: read(repeated * times)) for times in (100, 400))
    assert many < 4 * 1.3 * few


def seconds(function: Callable[[], object]) -> float:
    """Returns the processor time of the faster of two calls, since some loops of Python's own make no calls to count."""
    times = []
    for _ in range(2):
        start = time.thread_time()
        function()
        times.append(time.thread_time() - start)
    return min(times)


@pytest.mark.parametrize(("behind", "own"), [(")" * 60_000, ")"), (")." * 30_000, ")"), (".)!" * 4, ".)")])
def test_what_stands_behind_an_address_is_looked_at_once(behind: str, own: str) -> None:
    text = f"see http://x.org/a({behind}"
    assert [segment.href for segment in read(text).parts[0].all_segments if segment.href] == [f"http://x.org/a({own}"]
    assert seconds(lambda: read(text)) < 1.0  # looking at the whole for each parenthesis takes 3


def test_the_links_of_a_line_do_not_slow_the_search_for_one() -> None:
    assert [link_in("x *[b](c)* y", at) for at in range(12)] == ["", "", *["c"] * 8, "", ""]
    line = "*a* [b](c) " * 800
    assert link_in(line, len(line) // 2 + 5) == "c"
    assert seconds(lambda: link_in(line, 0)) < 3 * seconds(lambda: read(line, references=False))


def test_a_block_of_mathematics_may_have_many_lines() -> None:
    (part,) = read("\\[\n" + "x\n" * 48 + "\\]").parts
    assert part.kind == "math"
    assert not [part for part in read("\\[\n" + "x\n" * 5000 + "\\]").parts if part.kind == "math"]
