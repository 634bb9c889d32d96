"""The share card says what was asked, how it was decoded and with what, and cuts no word in half."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from pytestqt.qtbot import QtBot

from app.export import share_card
from app.export.card_text import code_width, estimated_width, lay_out
from app.export.kinds import PICTURES
from engine.exports import svg
from engine.exports.export import write
from engine.lens.pieces import GHOST_STEPS
from engine.rounds.metrics import stretches, summarise
from engine.rounds.trace import PlainRun, Trace, read
from tests.app.export.test_pictures import SVG, words
from tests.app.fakes import STORY, make_round, story_rounds
from tests.traces import write_trace

ROUNDS = story_rounds(STORY * 3)


@pytest.fixture
def trace(tmp_path: Path) -> Trace:
    return read(write_trace(tmp_path / "answer.jsonl", ROUNDS))


def made(tmp_path: Path, **header: object) -> Trace:
    return read(write_trace(tmp_path / "other.jsonl", ROUNDS, **header))  # type: ignore[arg-type]


@pytest.mark.parametrize("theme", ["dark", "light"])
def test_a_card_has_prompt_answer_figures_legend_and_provenance(trace: Trace, theme: str) -> None:
    svg = share_card.card_svg(trace, theme)
    said = " ".join(words(svg))
    summary = summarise(ROUNDS)
    assert "story." in said and "Draftlight" in said
    assert f"{summary.alpha:.2f}" in said and f"{summary.tau:.2f}" in said and f"expected {summary.predicted_tau:.2f}" in said
    for state in ("accepted", "rejected", "unjudged", "correction", "bonus"):
        assert state in said
    for part in ("seed 5", "temperature 0.8", "gamma 4", "target SHA-256 aaaaaaaaaaaaaaaa", "MLX 0.32.4", "2026-11-21 12:00 UTC"):
        assert part in said
    assert svg == share_card.card_svg(trace, theme), "the same every time"


@pytest.mark.parametrize(("temperature", "said"), [(0.8, ["top-p 0.9", "top-k 1", "min-p 1"]), (0, [])])
def test_a_card_names_the_filters_that_the_answer_had(tmp_path: Path, temperature: float, said: list[str]) -> None:
    filters = {"top_p": 0.9, "top_k": 1, "min_p": 1, "repetition_penalty": 1.1}
    card = " ".join(words(share_card.card_svg(made(tmp_path, options={"temperature": temperature, **filters}))))
    assert "repetition penalty 1.1" in card
    assert [part for part in ("top-p 0.9", "top-k 1", "min-p 1") if part in card] == said


def test_a_card_says_where_the_rule_changed_and_gives_the_figures_of_each(tmp_path: Path) -> None:
    rounds = [replace(round_, rule="gumbel" if round_.index < 6 else "rejection") for round_ in ROUNDS]
    trace = read(write_trace(tmp_path / "switched.jsonl", rounds))
    card = share_card.card_svg(trace)
    said = " ".join(words(card))
    for part in stretches(rounds):
        title = {"gumbel": "Gumbel", "rejection": "Rejection"}[part.rule]
        summary = part.summary
        assert f"{title} in {summary.rounds} rounds: alpha {summary.alpha:.2f}, tau {summary.tau:.2f}" in said
    assert "The figures above are of the whole answer" in said
    assert "[Rejection from here]" in said, "in the text"
    assert "dashed: Rejection from round 7" in said and 'stroke-dasharray="4 3"' in card, "and over the rounds"
    assert "whole answer" not in " ".join(words(share_card.card_svg(read(write_trace(tmp_path / "one.jsonl", ROUNDS)))))


def test_a_card_shows_a_speed_up_only_if_it_was_measured(trace: Trace) -> None:
    without = words(share_card.card_svg(trace))
    assert "Speed-up" not in without and any("no speed-up: no plain run measured" in line for line in without)
    measured = words(share_card.card_svg(replace(trace, plain=PlainRun(10.0, 32))))
    assert "Speed-up" in measured and "× plain 10.0" in measured
    assert not any("no plain run" in line for line in measured)


@pytest.mark.parametrize(
    "prompt",
    ["", "x" * 4000, "日本語の長い文章" * 200, '<&> "quotes" \x00\x1b', "two\n\nlines\n\n\n" * 50, "👩‍👩‍👧 family"],
)
def test_a_card_of_any_prompt_is_well_formed_and_stays_inside(tmp_path: Path, prompt: str) -> None:
    rounds = [make_round(0, [prompt or "a"], " b", [prompt or "c"])]
    trace = read(write_trace(tmp_path / "odd.jsonl", rounds, prompt=prompt))
    root = ElementTree.fromstring(share_card.card_svg(trace).encode())
    width, height = (float(root.attrib[side]) for side in ("width", "height"))
    for element in root.iter(f"{SVG}text"):
        left, length = float(element.attrib["x"]), float(element.attrib.get("textLength", 0))
        assert 0 <= left + length <= width and 0 < float(element.attrib["y"]) < height
    for element in root.iter(f"{SVG}rect"):
        assert float(element.attrib.get("x", 0)) + float(element.attrib["width"]) <= width + 1


def test_an_answer_without_rounds_or_proposals_still_has_a_card(tmp_path: Path) -> None:
    nothing = read(write_trace(tmp_path / "none.jsonl", []))
    assert "Nothing was decoded." in words(share_card.card_svg(nothing))
    plain = read(write_trace(tmp_path / "plain.jsonl", [make_round(0, [], "a")]))
    assert "Nothing was proposed" in words(share_card.card_svg(plain))


def test_the_card_of_a_comparison_has_every_answer_under_its_letter(tmp_path: Path) -> None:
    answers = []
    for place, rule in enumerate(("match", "gumbel", "rejection")):
        rounds = [replace(round_, rule=rule) for round_ in ROUNDS]
        path = write_trace(tmp_path / f"{rule}.jsonl", rounds, options={"rule": rule, "temperature": 0.8, "seed": place})
        answers.append(read(path))
    path = tmp_path / "comparison.svg"
    write(answers, PICTURES["card"], path, compared=True)
    card = path.read_text(encoding="utf-8")
    said = words(card)
    titles = [text for text in said if text[:3] in ("A: ", "B: ", "C: ")]
    assert [title[3:].split(",")[0] for title in titles] == ["Match", "Gumbel", "Rejection"]
    root = ElementTree.fromstring(card)
    width, height = (float(root.attrib[side]) for side in ("width", "height"))
    assert width == 2 * share_card.WIDTH and height < 2 * width, "two beside each other"
    ids = [element.attrib["id"] for element in root.iter(f"{SVG}pattern")]
    assert len(ids) == len(set(ids)) == 3, "each hatches with its own pattern"
    write(answers, PICTURES["card"], path)
    assert not {title[:1] for title in words(path.read_text(encoding="utf-8"))} & {"B"}, "of a chat, the latest alone"


def test_a_card_is_written_as_png_and_as_svg(qtbot: QtBot, trace: Trace, tmp_path: Path) -> None:
    from PySide6.QtGui import QImage

    (pixels,) = write([trace], PICTURES["card"], tmp_path / "card.PNG", theme="dark")
    (drawn,) = write([trace], PICTURES["card"], tmp_path / "card.svg")
    picture, drawing = QImage(str(pixels)), ElementTree.fromstring(drawn.read_bytes())
    assert picture.width() == 2 * share_card.WIDTH
    assert float(drawing.attrib["width"]) == share_card.WIDTH


def test_text_is_laid_out_by_words_and_cut_with_an_ellipsis() -> None:
    tokens = [(f" word{index}", "accepted") for index in range(200)]
    runs, whole = lay_out(tokens, 300, 3, 20, estimated_width)
    assert not whole and runs[-1].text == "…"
    assert max(run.line for run in runs) == 2
    assert all(run.left + run.width <= 300 + 1e-6 for run in runs)
    assert all(run.left == 0 for run in runs if run.indent == 0 and run.text.startswith("word"))


def test_tokens_of_one_word_stay_together() -> None:
    runs, whole = lay_out(
        [("aaaa", "accepted"), (" bb", "accepted"), ("bb", "correction"), ("cc", "bonus")], 75, 9, 20, estimated_width
    )
    assert whole
    lines = {run.text: run.line for run in runs}
    assert lines["bb"] == lines["cc"] == 1 and lines["aaaa"] == 0


def test_empty_lines_are_left_out_and_others_kept() -> None:
    runs, _ = lay_out([("one\n\n\n", "plain"), ("two\n", "plain"), ("three", "plain")], 500, 9, 20, estimated_width)
    assert [(run.text, run.line) for run in runs if run.text] == [("one", 0), ("two", 1), ("three", 2)]


def test_a_word_longer_than_the_last_line_keeps_what_fits() -> None:
    runs, whole = lay_out([("x" * 500, "plain")], 200, 2, 20, estimated_width)
    assert not whole and [run.line for run in runs] == [0, 1, 1]
    assert len(runs[1].text) > 5 and runs[-1].text == "…"
    assert all(run.left + run.width <= 200 + 1e-6 for run in runs)


def test_a_long_prompt_fills_its_lines_word_by_word(trace: Trace, tmp_path: Path) -> None:
    asked = read(write_trace(tmp_path / "long.jsonl", ROUNDS, prompt="one two three " * 80))
    bubble = [line for line in words(share_card.card_svg(asked)) if line in ("one", "two", "three")]
    assert len(bubble) > 20


def test_a_very_long_draft_stays_inside_the_strip(tmp_path: Path) -> None:
    rounds = [make_round(index, ["a"], "b", ["c"] * (63 if index == 7 else 2), started=60.0 * index) for index in range(40)]
    root = ElementTree.fromstring(share_card.card_svg(read(write_trace(tmp_path / "long.jsonl", rounds))).encode())
    caption = next(e for e in root.iter(f"{SVG}text") if (e.text or "").startswith("Proposals per round"))
    assert "drafts of up to 64 cut off" in (caption.text or "")
    top = float(caption.attrib["y"]) + 14
    cells = [e for e in root.iter(f"{SVG}rect") if top - 60 < float(e.attrib.get("y", 0)) < top + share_card.STRIP]
    heights = sorted({round(float(e.attrib["height"]), 2) for e in cells if float(e.attrib["y"]) >= top - 1})
    assert all(float(e.attrib["y"]) >= top - 1 for e in cells)
    assert heights[-1] > 10, "the usual rounds can be seen"


def test_a_card_shows_the_chosen_ghosts(tmp_path: Path) -> None:
    trace = read(write_trace(tmp_path / "story.jsonl", story_rounds()))
    rejected = next(p.text.strip() for round_ in trace.rounds for p in round_.proposals if p.status == "rejected")
    shown = {ghosts: words(share_card.card_svg(trace, ghosts=ghosts)) for ghosts in GHOST_STEPS}
    assert [rejected in shown[ghosts] for ghosts in GHOST_STEPS] == [False, True, True, True]
    assert [any(word.startswith("⋯") for word in shown[ghosts]) for ghosts in GHOST_STEPS] == [False, False, False, True]


CODE = "Count:\n\n```python\ndef f(words):\n    for word in words:\n        yield word\n```\nDone here."


def test_code_on_a_card_keeps_its_fixed_width_its_indentation_and_its_marks(tmp_path: Path) -> None:
    """The left edges of lines of code differ by four cells for each level, whatever the tokens are."""
    trace = read(write_trace(tmp_path / "code.jsonl", story_rounds(CODE)))
    root = ElementTree.fromstring(share_card.card_svg(trace, ghosts="none"))
    said = [(each.text or "", each) for each in root.iter(f"{SVG}text")]
    fixed = [(words, float(each.get("x", "0"))) for words, each in said if "mono" in (each.get("font-family") or "").lower()]
    plain = [words for words, each in said if each.get("font-family") is None]
    left = {words: x for words, x in fixed if words in ("def", "for", "yield")}
    cell = code_width(" ", share_card.TEXT)
    assert left["for"] - left["def"] == pytest.approx(4 * cell) and left["yield"] - left["def"] == pytest.approx(8 * cell)
    assert "Done" in plain and "here." in plain and "def" not in plain
    assert svg.LIGHT.accepted_tint in share_card.card_svg(trace, "light", ghosts="none")


def test_blank_tokens_add_to_the_indentation() -> None:
    runs, _ = lay_out([("a", "x"), ("\n", "x"), ("  ", "x"), ("  ", "x"), ("b", "x")], 500, 4, 20, estimated_width)
    assert [(run.text, run.line) for run in runs] == [("a", 0), ("b", 1)]
    assert runs[1].indent == pytest.approx(estimated_width("    ", 20))


def test_the_picture_of_a_comparison_has_its_verdict(tmp_path: Path, trace: Trace) -> None:
    verdict = ("Gumbel: same text with both drafters: 53 of 53 tokens.", "First difference at token 12: A “sea”, B “<wall>”.")
    (path,) = write([trace, trace], PICTURES["card"], tmp_path / "both.svg", compared=True, verdict=verdict)
    said = words(path.read_text(encoding="utf-8"))
    assert {word for sentence in verdict for word in sentence.split()} <= set(said)
    without = ElementTree.fromstring(share_card.compared_svg([trace, trace]))
    with_it = ElementTree.parse(path).getroot()
    assert float(with_it.get("height", "0")) > float(without.get("height", "0"))
    (alone,) = write([trace], PICTURES["card"], tmp_path / "one.svg")
    assert "Gumbel:" not in words(alone.read_text(encoding="utf-8"))
