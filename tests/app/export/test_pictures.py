"""Pictures of charts: whole, the same every time, and with everything needed to know where they come from."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from pytestqt.qtbot import QtBot

from app.export import pictures, share_card
from engine.exports import captions, export
from engine.lens.chart_kinds import CHARTS
from engine.rounds.trace import PlainRun, Trace, read
from engine.values.errors import DraftlightError
from tests.app.fakes import STORY, make_round, story_rounds
from tests.app.panel.test_definitions import answered
from tests.engine.fakes import PATIENCE
from tests.traces import write_trace

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def trace(tmp_path: Path) -> Trace:
    return read(write_trace(tmp_path / "answer.jsonl", story_rounds(STORY * 3)))


def words(svg: str) -> list[str]:
    return [element.text or "" for element in ElementTree.fromstring(svg.encode()).iter(f"{SVG}text")]


def test_every_chart_of_the_window_can_be_a_picture() -> None:
    assert set(CHARTS) == set(export.CHARTS)


@pytest.mark.parametrize("name", CHARTS)
@pytest.mark.parametrize("theme", ["dark", "light"])
def test_a_picture_has_title_axis_and_provenance(trace: Trace, name: str, theme: str) -> None:
    svg = pictures.chart_svg(trace, name, theme)
    said = words(svg)
    assert export.CHARTS[name].title in said
    assert (export.CHARTS[name].up or "milliseconds") in said
    below = " ".join(said)
    for part in ("target SmolLM2-135M-Instruct", "drafter builtin-draft", "rule Gumbel", "gamma 4", "temperature 0.8", "seed 5"):
        assert part in below
    assert "2026-11-21 12:00 UTC" in below and "Draftlight 0.1.0" in below
    assert svg == pictures.chart_svg(trace, name, theme), "the same every time"


def test_the_plain_speed_is_drawn_only_where_it_was_measured(trace: Trace) -> None:
    assert not any("plain" in line for line in words(pictures.chart_svg(trace, "throughput")))
    assert any(
        "plain 12.3, measured" in line
        for line in words(pictures.chart_svg(replace(trace, plain=PlainRun(12.3, 32)), "throughput"))
    )


def test_a_picture_says_when_a_column_is_several_rounds(tmp_path: Path, trace: Trace) -> None:
    long = [make_round(index, ["a"], "b", ["c"], started=60.0 * index) for index in range(1000)]
    read_back = read(write_trace(tmp_path / "long.jsonl", long))
    for name in ("proposals", "alpha", "throughput", "tau"):
        assert any("in bins of 20: their mean" in line for line in words(pictures.chart_svg(read_back, name)))
        assert not any("bins" in line for line in words(pictures.chart_svg(trace, name)))
    assert any("in bins of 5: their mean" in line for line in words(share_card.card_svg(read_back)))


def test_under_block_no_lengths_are_expected(tmp_path: Path) -> None:
    joint = read(write_trace(tmp_path / "block.jsonl", story_rounds(rule="block")))
    assert not any("expected" in line for line in words(pictures.chart_svg(joint, "lengths")))


def test_the_provenance_lists_changes_in_order(tmp_path: Path) -> None:
    changes = [{"index": 2, "rule": "match", "gamma": 4, "drafter": "ngram"}]
    trace = read(write_trace(tmp_path / "changed.jsonl", story_rounds(), changes=changes))
    assert {"rule Gumbel → Match", "drafter builtin-draft → ngram", "gamma 4"} <= set(captions.provenance(trace))


def test_lines_below_a_picture_fit_it() -> None:
    parts = ["x" * 30, "y" * 30, "z" * 500, "a", "b"]
    made = captions.lines(parts, 400, 10)
    assert all(len(line) * 10 * captions.CHARACTER <= 400 for line in made)
    assert made[-1] == "a · b" and any(line.endswith("…") for line in made)


def test_an_unknown_chart_is_an_error(trace: Trace) -> None:
    with pytest.raises(DraftlightError, match="no chart"):
        pictures.chart_svg(trace, "pie")


def test_a_png_has_twice_the_pixels_of_its_drawing(qtbot: QtBot, trace: Trace, tmp_path: Path) -> None:
    from PySide6.QtGui import QImage

    svg = pictures.chart_svg(trace, "alpha")
    path = pictures.save(svg, tmp_path / "alpha.png")
    root = ElementTree.fromstring(svg.encode())
    image = QImage(str(path))
    assert (image.width(), image.height()) == tuple(round(2 * float(root.attrib[side])) for side in ("width", "height"))
    assert path.read_bytes() == pictures.content(svg, ".PNG"), "the same every time"


def test_all_charts_are_saved_together(qtbot: QtBot, trace: Trace, tmp_path: Path) -> None:
    written = pictures.save_charts(trace, tmp_path / "charts")
    assert len(written) == 2 * len(CHARTS) and all(path.stat().st_size > 500 for path in written)
    assert {path.suffix for path in written} == {".png", ".svg"}


def test_a_picture_that_cannot_be_written_is_reported(trace: Trace, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(DraftlightError, match="cannot be written"):
        pictures.save(pictures.chart_svg(trace, "tau"), tmp_path / "file" / "tau.svg")


def test_a_running_answer_is_drawn_from_its_rounds_so_far() -> None:
    session, answer = answered([make_round(0, ["a"], "b", ["c"])])
    answer.trace_path = None
    made = pictures.trace_of(session.turns[0])
    assert len(made.rounds) == 1
    assert "target SmolLM2 135M" in captions.provenance(made) and "seed 1" in captions.provenance(made)
    assert "Draftlight" in " ".join(captions.provenance(made))


def test_a_written_trace_gives_the_provenance(tmp_path: Path) -> None:
    rounds = story_rounds()
    session, answer = answered(rounds)
    answer.trace_path = str(write_trace(tmp_path / "answer.jsonl", rounds))
    assert "2026-11-21 12:00 UTC" in captions.provenance(pictures.trace_of(session.turns[0]))


def test_svg_needs_neither_a_window_nor_qt(trace: Trace) -> None:
    code = (
        "import sys; sys.modules['PySide6'] = None; from engine.rounds.trace import read; from app.export import pictures, "
        "share_card\n"
        "trace = read(sys.argv[1]); print(len(pictures.chart_svg(trace, 'proposals')) + len(share_card.card_svg(trace)))"
    )
    made = subprocess.run(
        [sys.executable, "-c", code, str(trace.path)], capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert made.returncode == 0, made.stderr
    assert int(made.stdout) > 5000
