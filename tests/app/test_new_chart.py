"""A chart is one function (`tests/toy_chart.py`) and one line (in the fixture below): everything else takes it from there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyqtgraph as pg
import pytest
from pytestqt.qtbot import QtBot

from app.cli.entry import main
from app.export import pictures
from app.panel.definitions import define
from app.session import settings as stored
from app.session.cursor import Place
from app.session.settings import Settings
from engine.exports.export import read_traces, to_html
from engine.lens.chart_kinds import CHARTS
from tests.app.charts.test_charts import made
from tests.app.fakes import story_rounds
from tests.app.panel.test_definitions import answered
from tests.toy_chart import KIND
from tests.traces import write_trace


@pytest.fixture(autouse=True)
def line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(CHARTS, "accepts", KIND)


def test_the_page_draws_it_and_says_what_it_shows(qtbot: QtBot) -> None:
    rounds = story_rounds()
    page = made(qtbot, rounds)
    page.resize(400, 2000)
    section = page.sections["accepts"]
    assert "accepts" in page.open and section.title.text() == KIND.title
    assert section.chart.objectName() == "acceptsPlot"
    (drawn,) = (item for item in section.chart.views[0].addedItems if isinstance(item, pg.PlotDataItem))
    assert drawn.yData.tolist() == [round_.accepted for round_ in rounds]
    assert section.note.longest_text == "━━ accepted"
    page.cursor_place.point(Place(0, 2))
    assert section.note.longest_text == f"round 3: {rounds[2].accepted} accepted"


def test_its_definition_is_found() -> None:
    told = define(KIND.key, answered(story_rounds())[1])
    assert (told.title, told.formula, told.numbers, told.explanation) == (KIND.title, KIND.formula, (), KIND.definition)


def test_the_settings_keep_whether_it_is_open(tmp_path: Path) -> None:
    stored.save(tmp_path / "settings.json", Settings(charts=("accepts",)))
    assert stored.load(tmp_path / "settings.json") == (Settings(charts=("accepts",)), "")


def test_report_picture_and_command_line_draw_it(qapp: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With the application of all tests: a picture would make one of its own, beside which no window can be made any more."""
    path = write_trace(tmp_path / "story.jsonl", story_rounds())
    (trace,) = read_traces([path])
    assert KIND.title in to_html([trace]) and KIND.definition in to_html([trace])
    assert {"story-accepts.svg", "story-accepts.png"} <= {file.name for file in pictures.save_charts(trace, tmp_path / "all")}
    assert main(["export", str(path), "--format", "svg", "--chart", "accepts"]) == 0
    assert "Accepted proposals." in capsys.readouterr().out
