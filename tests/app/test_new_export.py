"""An export format is one file (`tests/toy_export.py`) and one line (in the fixture below): window and command line find it."""

from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtWidgets import QFileDialog
from pytestqt.qtbot import QtBot

from app.cli.entry import main
from app.export.kinds import kind_named
from app.session.settings import Settings, load
from app.window.window import Window
from engine.exports import export
from engine.exports.formats import FORMATS, ExportFormat
from engine.rounds.metrics import summarise
from tests.app.fakes import STORY, FakeEngine, story_rounds
from tests.traces import write_trace

LINE = ExportFormat("plain", "the text alone", {".txt": "Text"}, "tests.toy_export:make", "tests.toy_export:read_back")


@pytest.fixture(autouse=True)
def line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(FORMATS, "plain", LINE)


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    return write_trace(tmp_path / "story.jsonl", story_rounds())


def test_the_engine_writes_it_and_reads_it_back(trace: Path, tmp_path: Path) -> None:
    written = export.write(export.read_traces([trace]), "plain", tmp_path / "out.txt")
    assert [path.name for path in written] == ["out.txt", "out-sources.txt"]
    assert written[0].read_text(encoding="utf-8") == STORY
    assert {name: summarise(rounds) for name, rounds in export.read_export(written[0]).items()} == {
        "story": summarise(story_rounds())
    }


def test_the_export_dialog_offers_it_and_remembers_it(
    qtbot: QtBot, home: Path, trace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def choose(parent: object, title: str, offered: str, filters: str, chosen: str) -> tuple[str, str]:
        asked.append(filters)
        return str(tmp_path / "window.txt"), "Text: the text alone (*.txt)"

    monkeypatch.setattr(QFileDialog, "getSaveFileName", choose)
    window = Window(FakeEngine(), Settings(), tmp_path / "settings.json")
    qtbot.addWidget(window)
    answer = window.session.add_turn("hello", Settings().options(), "none")
    answer.state, answer.trace_path = "finished", str(trace)
    window.chat.changed.emit()
    window.actions_by_id["exportAction"].trigger()
    assert "Text: the text alone (*.txt)" in asked[0].split(";;")
    assert (tmp_path / "window.txt").read_text(encoding="utf-8") == STORY
    assert load(tmp_path / "settings.json")[0].export_kind == "plain"
    assert kind_named("plain").form is LINE
    window.close()


def test_the_command_line_takes_it_by_name_and_by_ending(trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["export", "--help"])
    assert "plain (the text alone)" in " ".join(capsys.readouterr().out.split())
    assert main(["export", str(trace), "--format", "plain"]) == 0
    assert capsys.readouterr().out == STORY
    assert main(["export", str(trace), "--format", "plain", "--table", "rounds"]) == 0
    assert capsys.readouterr().out == STORY, "it has no such table, so its first part is printed"
    assert main(["export", str(trace), "--output", str(tmp_path / "by-name.txt")]) == 0
    assert (tmp_path / "by-name.txt").read_text(encoding="utf-8") == STORY
    assert main(["export", str(trace), "--format", "plain", "--output", str(tmp_path)]) == 0
    assert (tmp_path / "story.txt").exists()
