"""The report and its charts show what the rounds say, load nothing, run nothing, and need no display."""

from __future__ import annotations

import math
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import get_args
from xml.etree import ElementTree

import numpy as np
import pytest

from app.panel.definitions import define
from app.session.session import Answer
from app.verdict.verdict import judge
from engine.exports.export import CHARTS, chart_svg, read_traces, to_html
from engine.exports.report import details
from engine.exports.svg import DARK, ticks
from engine.exports.svg_charts import MAX_COLUMNS, draw
from engine.lens.chart_spec import (
    Area,
    Bars,
    ChartSpec,
    Fill,
    Key,
    Level,
    Line,
    Mark,
    Panel,
    Part,
    Whiskers,
    axis_with_halves,
    integer_axis,
)
from engine.lens.pieces import GHOST_STEPS, Ghosts, pieces
from engine.lens.shared_wording import FINISH_WORDS
from engine.rounds.metrics import summarise
from engine.rounds.trace import Trace
from engine.types import DecodingOptions, Emitted, Milliseconds, Proposal, Round, Rule
from engine.values.errors import DraftlightError
from tests.app.fakes import STORY, make_round, story_rounds
from tests.engine.rounds.test_metrics import random_rounds
from tests.traces import write_trace
from tests.trees import SECOND_CHOICE

HOSTILE = '</span><script>alert("x")</script><img src=x onerror=alert(1)>&amp;"\'\x00\x1b[31m'


class Page(HTMLParser):
    """What a browser would make of a page: tags with attributes, and the text of the answer without and with ghosts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text, self.answer, self.ghosts = "", "", ""
        self._open: list[tuple[str, str]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: Sequence[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "input", "br", "rect", "line", "polyline", "polygon", "circle", "path"):
            self._open.append((tag, dict(attrs).get("class") or ""))

    def handle_endtag(self, tag: str) -> None:
        if self._open and self._open[-1][0] == tag:
            self._open.pop()

    def handle_data(self, data: str) -> None:
        self.text += data
        if any(name == "answer" for _, name in self._open):
            if any(tag == "del" for tag, _ in self._open):
                self.ghosts += data
            else:
                self.answer += data


def trace_of(path: Path, rounds: Sequence[Round], prompt: str = "Tell me a story.", **header: object) -> Trace:
    (trace,) = read_traces([write_trace(path, rounds, prompt, **header)])  # type: ignore[arg-type]
    return trace


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    return trace_of(tmp_path_factory.mktemp("traces") / "story.jsonl", story_rounds())


@pytest.fixture(scope="module")
def switched(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    """An answer whose rule changed after its tenth round."""
    rounds = [replace(round_, rule="gumbel" if round_.index < 10 else "rejection") for round_ in story_rounds()]
    return trace_of(tmp_path_factory.mktemp("traces") / "switched.jsonl", rounds)


@pytest.fixture(scope="module")
def page(story: Trace) -> Page:
    """The report on the story."""
    return Page(to_html([story]))


def test_the_report_shows_answer_figures_and_provenance(story: Trace, page: Page) -> None:
    assert page.answer == STORY
    assert " been" in page.ghosts
    summary = summarise(story.rounds)
    assert summary.alpha is not None and summary.tau is not None and summary.throughput is not None
    figures = (f"{summary.alpha:.2f}", f"{summary.tau:.2f}", f"{summary.throughput:,.1f}")
    for words in (*figures, "Tell me a story.", FINISH_WORDS["eos"]):
        assert words in page.text
    for words in ("a" * 64, "b" * 64, "mlx 0.32.4", "cores 2", "story.jsonl", "temperature 0.8", "Wilson"):
        assert words in page.text
    assert sum(tag == "svg" for tag, _ in page.tags) == sum(not kind.needs_trees for kind in CHARTS.values())
    assert sum(tag == "tr" for tag, _ in page.tags) == 1 + len(story.rounds)


def test_tokens_show_state_without_colour_and_reason_on_hover(page: Page) -> None:
    told = [(tag, attributes["class"], attributes["data-d"]) for tag, attributes in page.tags if "data-d" in attributes]
    assert {state for _, state, _ in told} == {"accepted", "rejected", "unjudged", "correction", "bonus"}
    assert all((tag == "del") == (state in ("rejected", "unjudged")) for tag, state, _ in told)
    rejected = next(details for _, state, details in told if state == "rejected")
    assert rejected is not None and all(words in rejected for words in ("p 0.300", "q 0.400", "chance to accept", "Gumbel"))


def test_unjudged_tokens_are_folded_and_open_with_tab(story: Trace) -> None:
    rounds, html = story.rounds, to_html([story])
    folds = [attributes for tag, attributes in Page(html).tags if attributes.get("class") == "fold"]
    assert [int(fold["data-n"] or 0) for fold in folds] == [round_.unjudged for round_ in rounds if round_.unjudged]
    assert all(fold["tabindex"] == "0" and "unjudged" in (fold["aria-label"] or "") for fold in folds)
    assert html.count('<del class="unjudged" data-d=') == sum(round_.unjudged for round_ in rounds), "each is still there"
    assert ".fold .unjudged, .fold:focus-within::before { display: none; }" in html
    assert "margin: 0 3px; white-space: nowrap; }" in html, "the sign and its number are not parted at the end of a line"


def test_only_words_lose_their_blank_at_the_end_of_a_line(tmp_path: Path) -> None:
    """A browser sets a blank at the end of a line, underlined or struck through, unless white space is collapsed there: which
    must change nothing where blanks count."""
    texts = ["if", " x", ":\n", " ", "   y", " =", " 1", "  #", " two  blanks", " end"]
    rounds = [make_round(index, [], text, started=60.0 * index) for index, text in enumerate(texts)]
    page = Page(to_html([trace_of(tmp_path / "code.jsonl", rounds)]))
    words = ["data-word" in attributes for _, attributes in page.tags if "data-d" in attributes]
    assert [text for text, word in zip(texts, words, strict=True) if word] == [" x", " =", " 1", " end"]
    assert page.answer == "".join(texts)
    ghosts = [make_round(0, ["a"], "\n", ["b"], started=0.0), make_round(1, [], " c", started=60.0)]
    page = Page(to_html([trace_of(tmp_path / "ghosts.jsonl", ghosts)]))
    assert sum("data-word" in attributes for _, attributes in page.tags) == 1, "the ghost, and nothing behind the line's end"


def test_a_change_of_gamma_alone_divides_the_text_too(story: Trace) -> None:
    changed = replace(story, changes=({"index": 5, "rule": "gumbel", "gamma": 2, "drafter": "head"},))
    assert 'data-words="Gamma 2 from here"' in to_html([changed])
    assert "from here" not in to_html([story])


def test_a_token_that_was_copied_says_so() -> None:
    base = make_round(0, ["one"], "two", ["three"])
    copied = replace(base, proposals=tuple(replace(proposal, q=1.0, copied=True) for proposal in base.proposals))
    told = {piece.text: details(copied, piece.spot, 0.8) for piece in pieces([copied])}
    assert all("The proposal here was copied" in told[text] for text in ("one", "three"))
    assert "copied by the drafter" in told["one"] and "copied by the drafter" not in told["two"]
    assert not any("copied" in details(base, piece.spot, 0.8) for piece in pieces([base]))


def test_a_token_outside_of_the_draft_vocabulary_says_so() -> None:
    outside = replace(make_round(0, ["one"], "two", ["three"]), outside_draft_vocabulary=True)
    told = {piece.text: "is not in the draft vocabulary" in details(outside, piece.spot, 0.8) for piece in pieces([outside])}
    assert told == {"one": False, "two": True, "three": True}


@pytest.mark.parametrize("rule", ["match", "gumbel", "rejection", "block"])
@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_the_report_gives_the_reason_that_the_card_gives(rule: Rule, temperature: float, tmp_path: Path) -> None:
    rounds = [*story_rounds(rule=rule), make_round(99, [], " end", rule=rule)]
    rounds = [replace(round_, index=index) for index, round_ in enumerate(rounds)]
    trace = trace_of(tmp_path / "story.jsonl", rounds, options={"temperature": temperature})
    page = Page(to_html([trace]))
    told = [attributes["data-d"] or "" for _, attributes in page.tags if "data-d" in attributes]
    answer = Answer(DecodingOptions(temperature=temperature), "head", 0.0)
    answer.rounds.extend(trace.rounds)
    spots = [piece.spot for piece in pieces(trace.rounds) if piece.text]
    assert len(told) == len(spots)
    for words, spot in zip(told, spots, strict=True):
        verdict = judge(answer, spot)
        assert verdict is not None
        assert verdict.decision in words.split("\n")
        assert set(verdict.unknown) <= set(words.split("\n"))


def test_texts_of_users_and_models_are_escaped(tmp_path: Path) -> None:
    token = Emitted(1, HOSTILE, HOSTILE.encode(), "correction")
    proposal = Proposal(2, HOSTILE, HOSTILE.encode(), "rejected")
    round_ = Round(0, 3, HOSTILE, "gumbel", (proposal,), (token,), (), Milliseconds(5.0), 2, 3, text=HOSTILE, finish="eos")
    header = {"target": {"name": HOSTILE}, "options": {HOSTILE: HOSTILE}, "versions": {HOSTILE: HOSTILE}, "seed": HOSTILE}
    trace = trace_of(tmp_path / "hostile.jsonl", [round_], HOSTILE, **header)
    page = Page(to_html([trace, trace]))
    assert not {tag for tag, _ in page.tags} & {"script", "img", "iframe", "link", "object", "embed", "base", "form"}
    assert not any(name.startswith("on") for _, attributes in page.tags for name in attributes)
    assert 'alert("x")' in page.answer
    assert "\x00" not in page.text and "\x1b" not in page.text


def test_no_control_character_reaches_the_page(tmp_path: Path) -> None:
    controls = "".join(map(chr, [*range(0x20), *range(0x7F, 0xA0)]))
    html = to_html([trace_of(tmp_path / "controls.jsonl", story_rounds()[:3], prompt=controls)])
    assert not set(html) & (set(controls) - set("\n\t"))
    assert "␀" in html and "␡" in html


def test_printed_report_uses_the_light_theme() -> None:
    assert "@media screen and (prefers-color-scheme: dark)" in to_html([])


def test_the_report_loads_nothing_and_forbids_it(story: Trace) -> None:
    html = to_html([story, story])
    assert "default-src 'none'" in html
    assert "://" not in html and "@import" not in html
    page = Page(html)
    links = [value for _, attributes in page.tags for name, value in attributes.items() if name in ("href", "src")]
    assert links == ["#answer1", "#answer2"]
    assert set(re.findall(r"url\(([^)]*)\)", html)) <= {f"#a{i}-{name}-hatch0" for i in (1, 2) for name in CHARTS}
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(ids) == len(set(ids))


def test_a_cut_or_failed_answer_says_so(tmp_path: Path) -> None:
    path = write_trace(tmp_path / "cut.jsonl", story_rounds())
    path.write_bytes(path.read_bytes()[:-400])
    assert "cut off" in Page(to_html(read_traces([path]))).text
    failed = trace_of(tmp_path / "failed.jsonl", story_rounds()[:2], summary={"error": "Out of memory.", "finish": None})
    assert "Out of memory." in Page(to_html([failed])).text


@pytest.mark.parametrize("rounds", [[], story_rounds(), random_rounds(4, 300), [make_round(0, [], "x", finish="eos")]])
def test_charts_of_any_answer_are_sound_documents_with_words(rounds: list[Round], tmp_path: Path) -> None:
    trace, space = trace_of(tmp_path / "trace.jsonl", rounds), "{http://www.w3.org/2000/svg}"
    for kind in CHARTS.values():
        svg = chart_svg([trace], kind.name, "dark")
        root = ElementTree.fromstring(svg.encode())
        assert root.tag == f"{space}svg"
        assert root.findtext(f"{space}title") == kind.title
        assert root.findtext(f"{space}desc")
        keys = ("x", "y", "width", "height", "r")
        assert all(math.isfinite(float(part.attrib[key])) for part in root.iter() for key in keys if key in part.attrib)
        assert len(svg) < 200_000, "a long answer is thinned"
        assert DARK.panel in svg


def test_an_unknown_chart_is_refused(story: Trace) -> None:
    with pytest.raises(DraftlightError, match="no chart 'x'"):
        chart_svg([story], "x")
    with pytest.raises(DraftlightError, match="no answer"):
        chart_svg([], "tau")


def columns_of(rounds: list[Round], tmp_path: Path) -> list[str]:
    """What a picture says of each column of its proposals."""
    svg = chart_svg([trace_of(tmp_path / "trace.jsonl", rounds)], "proposals")
    return re.findall(r"<title>(Rounds? .*?)</title>", svg)


@pytest.mark.parametrize("count", [1, 5, 96, 97, 400])
def test_every_round_is_in_one_column_of_a_picture(count: int, tmp_path: Path) -> None:
    found = columns_of(random_rounds(5, count), tmp_path)
    ends = [[int(number.replace(",", "")) for number in re.findall("[0-9,]+", words.partition(":")[0])] for words in found]
    assert [index for first, *last in ends for index in range(first, (last or [first])[0] + 1)] == list(range(1, count + 1))
    assert len(found) <= MAX_COLUMNS
    assert len({last[-1] - last[0] for last in ends[:-1]}) <= 1, "bins of one size"


def test_charts_per_round_share_their_horizontal_axis(tmp_path: Path) -> None:
    """A round stands at one place in every picture: the numbers below them are the same, at the same places."""
    trace = trace_of(tmp_path / "story.jsonl", story_rounds(STORY * 3))
    below = []
    for kind in CHARTS.values():
        if kind.per_round:
            root = ElementTree.fromstring(chart_svg([trace], kind.name).encode())
            texts = [part for part in root.iter("{http://www.w3.org/2000/svg}text") if part.get("text-anchor") == "middle"]
            lowest = max(float(part.attrib["y"]) for part in texts if "transform" not in part.attrib)
            below.append([(part.text, part.attrib["x"]) for part in texts if float(part.attrib["y"]) == lowest])
    assert len(below) == 5 and below[0] and all(other == below[0] for other in below)


@pytest.mark.parametrize("name", [kind.name for kind in CHARTS.values() if kind.per_round])
def test_a_labelled_divider_stands_where_the_rule_changed(story: Trace, switched: Trace, name: str) -> None:
    labels = [chart_svg([trace], name).count(">Rejection</text>") for trace in (story, switched)]
    assert labels[1] == labels[0] + 1


@pytest.mark.parametrize("name", [kind.name for kind in CHARTS.values() if kind.per_round])
def test_a_change_of_gamma_has_its_divider_in_pictures_as_in_the_window(story: Trace, name: str) -> None:
    """The same words, half a round before the first round with the new gamma: where the window's charts have it, too."""
    before, after = ({"index": at, "rule": "gumbel", "gamma": gamma, "drafter": "head"} for at, gamma in ((3, 4), (10, 2)))
    parts = list(ElementTree.fromstring(chart_svg([replace(story, changes=(before, after))], name).encode()).iter())
    words = [part for part in parts if (part.text or "").startswith("Gamma")]
    assert [part.text for part in words] == ["Gamma 2"]
    below = {part.text: float(part.attrib["x"]) for part in parts if part.get("text-anchor") == "middle" and "x" in part.attrib}
    at_5, at_10 = below["5"], below["10"]
    assert float(words[0].attrib["x"]) == pytest.approx(at_10 + (at_10 - at_5) / 10 + 4, abs=0.11)


def test_no_column_of_a_picture_is_cut_off_without_a_number(tmp_path: Path) -> None:
    rounds = [make_round(index, ["a"], "b", ["c"] * 3, started=60.0 * index) for index in range(40)]
    usual = chart_svg([trace_of(tmp_path / "usual.jsonl", rounds)], "proposals")
    rounds[7] = make_round(7, ["a"], "b", ["c"] * 54, started=420.0)
    cut = chart_svg([trace_of(tmp_path / "cut.jsonl", rounds)], "proposals")
    assert "▲55" in cut and "▲" not in usual


def test_the_words_of_a_divider_and_the_number_of_a_cut_column_never_overlap(tmp_path: Path) -> None:
    rounds = [make_round(index, ["a"], "b", ["c"] * 3, started=60.0 * index) for index in range(40)]
    rounds[10] = make_round(10, ["a"], "b", ["c"] * 54, started=600.0)
    divided = replace(trace_of(tmp_path / "cut.jsonl", rounds), changes=({"index": 10, "gamma": 5},))
    root = ElementTree.fromstring(chart_svg([divided], "proposals").encode())
    places = {part.text: float(part.attrib["x"]) for part in root.iter("{http://www.w3.org/2000/svg}text") if part.text}
    assert places["Gamma 5"] + 5.6 * len("Gamma 5") <= places["▲55"], "the words stand on the other side of their line"
    rounds[9] = make_round(9, ["a"], "b", ["c"] * 54, started=540.0)
    crowded = replace(trace_of(tmp_path / "crowded.jsonl", rounds), changes=({"index": 10, "gamma": 5},))
    assert ">▲<" in chart_svg([crowded], "proposals"), "without room for its number a column is still marked"


def test_the_columns_add_up_to_the_figures_of_the_answer(tmp_path: Path) -> None:
    rounds = random_rounds(5, 90)
    accepted = [int(words.partition(": ")[2].split()[0]) for words in columns_of(rounds, tmp_path)]
    assert sum(accepted) == summarise(rounds).accepted


def test_every_chart_has_one_title_and_definition_in_window_picture_and_report(tmp_path: Path) -> None:
    traces = [trace_of(tmp_path / "story.jsonl", [*story_rounds(), replace(SECOND_CHOICE, index=len(story_rounds()))])]
    page = Page(to_html(traces))
    for kind in CHARTS.values():
        assert kind.title in page.text and kind.definition in page.text
        told = define(kind.key, None)
        assert (told.title, told.explanation) == (kind.title, kind.definition)
        assert kind.title in chart_svg(traces, kind.name)


def test_any_description_becomes_a_picture_mark_by_mark() -> None:
    """The drawer knows no particular chart: each mark of a made-up one, left out, is missing in the picture."""
    x, low, high = np.arange(1.0, 5.0), np.full(4, 0.5), np.full(4, 1.5)
    parts = tuple(Part("accepted", fill) for fill in get_args(Fill))
    bars = Bars(x, np.full((4, len(parts)), 0.2), parts, 0.3, numbers=("7",) * 4, titles=("a bar",) * 4)
    marks = (
        bars,
        Area(x, low, high, "accent"),
        Whiskers(x, low, high, "dim"),
        Level(1.0, "dim"),
        Line(x, high, "accent", dots=2),
    )

    def drawn(*marks: Mark) -> str:
        notes = ((Key("dim", "line", "a line"), Key("dim", "hatch", "hatched")),)
        panels = (Panel(axis_with_halves(2.0), marks),)
        return draw("toy", ChartSpec(integer_axis(0.5, 4.5, 1, 4), panels, notes=notes), DARK).document()

    whole = drawn(*marks)
    assert ElementTree.fromstring(whole.encode()) is not None
    assert whole.count(">7<") == 4 and whole.count("A bar") == 4 and whole.count(">hatched<") == 1
    lengths = [len(drawn(*marks[:place], *marks[place + 1 :])) for place in range(len(marks))]
    assert all(length < len(whole) for length in lengths)


def test_an_answer_of_one_round_has_its_throughput_in_a_picture(tmp_path: Path) -> None:
    one = chart_svg([trace_of(tmp_path / "one.jsonl", story_rounds()[:1])], "throughput")
    assert "<circle" in one and CHARTS["throughput"].waiting not in one


def test_ticks_are_round_numbers_inside_the_range() -> None:
    assert ticks(0, 1, 4) == [0, 0.5, 1.0]
    assert ticks(0, 47) == [0, 10, 20, 30, 40]
    assert ticks(3, 3) == [3]


def test_a_report_is_made_without_qt(tmp_path: Path) -> None:
    path = write_trace(tmp_path / "story.jsonl", story_rounds())
    code = (
        "import sys; from app.cli.entry import main; status = main(sys.argv[1:]);"
        "assert not any(name.startswith(('PySide6', 'mlx')) for name in sys.modules); sys.exit(status)"
    )
    command = [sys.executable, "-c", code, "export", str(path), "--output", str(tmp_path / "report.html")]
    subprocess.run(command, check=True, capture_output=True, cwd=Path(__file__).parents[3])
    assert (tmp_path / "report.html").stat().st_size > 10_000


def test_a_change_of_rule_divides_the_answer_and_its_figures(switched: Trace) -> None:
    html = to_html([switched])
    page = Page(html)
    dividers = [attributes["data-words"] for _, attributes in page.tags if attributes.get("class") == "switch"]
    assert dividers == ["Rejection from here; the text now depends on the drafter"]
    assert page.answer == STORY, "the divider is no part of the text"
    assert Page(html.partition("<i class=switch")[0]).answer == "".join(round_.text for round_ in switched.rounds[:10])
    for part in (switched.rounds[:10], switched.rounds[10:]):
        summary = summarise(part)
        assert summary.alpha is not None and summary.alpha_low is not None and summary.predicted_tau is not None
        assert f"{summary.alpha:.2f}{summary.alpha_low:.2f} to {summary.alpha_high:.2f}" in page.text
        assert f"{summary.predicted_tau:.2f}" in page.text
        judged = sum(len(round_.expected) for round_ in part)
        assert f"Expected of {judged} judged tokens: Match " in page.text


def test_an_answer_under_one_rule_has_no_divider_and_no_table_of_stretches(page: Page) -> None:
    assert not any(attributes.get("class") == "switch" for _, attributes in page.tags)
    assert "By rule and drafter" not in page.text and "The rules at the same positions" in page.text


@pytest.mark.parametrize("ghosts", GHOST_STEPS)
def test_a_report_opens_with_the_ghosts_that_were_shown_and_lets_the_reader_choose(story: Trace, ghosts: Ghosts) -> None:
    page = Page(to_html([story, story], ghosts))
    switches = [attributes for tag, attributes in page.tags if tag == "input"]
    assert [switch["value"] for switch in switches] == [step for step in GHOST_STEPS if step != "above"] * 2
    assert [switch["value"] for switch in switches if "checked" in switch] == ["rejected" if ghosts == "above" else ghosts] * 2
    assert len({switch["name"] for switch in switches}) == 2, "each answer has a switch of its own"
    assert " been" in page.ghosts, "what is hidden is there to be shown"


def test_code_in_a_report_is_marked_as_code_and_keeps_every_blank(tmp_path: Path) -> None:
    code = "Count:\n\n```python\ndef f(words):\n    for word in words:\n        yield word\n```\nDone here."
    page = to_html(read_traces([write_trace(tmp_path / "code.jsonl", story_rounds(code))]))
    answer = page.split("<div class=answer>", 1)[1].split("</div>", 1)[0]
    shown = re.sub(r"<del .*?</del>|<b class=fold.*?</b>", "", answer, flags=re.DOTALL)
    fixed = "".join(re.findall(r"<code>(.*?)</code>", shown, flags=re.DOTALL))
    assert fixed == "```python\ndef f(words):\n    for word in words:\n        yield word\n```"
    assert re.search(r'class="accepted"[^>]*><code>', shown), "the colours of tokens stay"
    assert "data-word" in shown and "data-word><code>" not in shown, "no blank of code may collapse"
    assert "code" in page.split("<style>")[1] and "monospace" in page
