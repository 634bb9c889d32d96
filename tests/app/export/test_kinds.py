"""Exporting from the window: what the dialog offers, what is meant by a name and a kind, and what is remembered."""

from __future__ import annotations

import csv
import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtGui import QDesktopServices, QImage
from PySide6.QtSvg import QSvgRenderer
from PySide6.QtWidgets import QFileDialog
from pytestqt.qtbot import QtBot

from app.export.dialog import ReplaceQuestion
from app.export.kinds import ExportKind, chosen_kind, export_session, filters, free_name, kind_named, kinds
from app.export.pictures import save_charts
from app.look import colours
from app.session.settings import Settings, load
from app.window.window import Window
from engine.exports import svg
from engine.exports.export import CHARTS, chart_svg, read_export, read_traces
from engine.rounds.metrics import summarise
from engine.types import Message, Request, RunFinished
from tests.app.fakes import FakeEngine, story_rounds
from tests.traces import write_trace

HTML, JSON, CSV = (kind_named(name) for name in ("html", "json", "csv"))


@pytest.mark.parametrize(
    "name, chosen, kind, written",
    [
        ("a.html", HTML, HTML, "a.html"),
        ("a", HTML, HTML, "a.html"),
        ("a.b", HTML, HTML, "a.b.html"),
        ("a.csv", HTML, CSV, "a.csv"),  # the ending was typed
        ("a.html", CSV, CSV, "a.csv"),  # another kind was chosen, and the dialog left the ending
        ("a.csv", CSV, CSV, "a.csv"),
        ("A.JSON", HTML, JSON, "A.JSON"),
        ("report.txt", HTML, HTML, "report.html"),
        ("report.v2", HTML, HTML, "report.v2.html"),
        ("report.v2.txt", CSV, CSV, "report.v2.csv"),
        ("report.tar.gz", CSV, CSV, "report.csv"),
        ("report.", CSV, CSV, "report.csv"),
        ("report.csv.txt", CSV, CSV, "report.csv"),
        ("2026.11.27", CSV, CSV, "2026.11.27.csv"),
    ],
)
def test_name_and_kind_give_the_path(name: str, chosen: ExportKind, kind: ExportKind, written: str, tmp_path: Path) -> None:
    assert chosen_kind(tmp_path / name, chosen.filter, HTML) == (kind, tmp_path / written)


def test_a_name_changed_after_the_dialog_overwrites_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.csv").touch()
    assert chosen_kind(tmp_path / "a.html", CSV.filter, HTML)[1] == tmp_path / "a (2).csv"
    assert chosen_kind(tmp_path / "a.csv", CSV.filter, CSV)[1] == tmp_path / "a.csv", "about this one it has asked"
    (tmp_path / "a (2).csv").touch()
    assert free_name(tmp_path / "a.csv") == tmp_path / "a (3).csv"


@pytest.mark.parametrize("kind", kinds(), ids=lambda kind: kind.id)
def test_every_file_of_an_export_has_the_ending_of_its_kind(qapp: Any, kind: ExportKind, tmp_path: Path) -> None:
    stem, trace = "report.v2", str(write_trace(tmp_path / "story.jsonl", story_rounds()))
    chosen, path = chosen_kind(tmp_path / "out" / stem, kind.filter, kind)
    written = export_session([trace], path, chosen)
    assert sorted(written) == sorted((tmp_path / "out").iterdir())
    assert {file.suffix for file in written} == {kind.ending}
    assert written[0].name == stem + kind.ending
    assert all(file.name.startswith(f"{stem}-") for file in written[1:])


def test_kinds_have_names_and_endings_of_their_own() -> None:
    assert len({kind.id for kind in kinds()}) == len({kind.ending for kind in kinds()}) == len(kinds())
    assert kind_named("from a later version") == HTML
    assert filters().count(";;") == len(kinds()) - 1


def test_pictures_have_the_colours_of_the_window() -> None:
    for theme, palette in ((colours.DARK, svg.DARK), (colours.LIGHT, svg.LIGHT)):
        for field in dataclasses.fields(palette):
            assert getattr(palette, field.name) == getattr(theme, field.name), field.name


@pytest.mark.parametrize("chart", CHARTS)
def test_charts_are_drawings_that_qt_can_show(qapp: Any, chart: str, tmp_path: Path) -> None:
    path = tmp_path / f"{chart}.svg"
    path.write_text(chart_svg(read_traces([write_trace(tmp_path / "story.jsonl", story_rounds())]), chart), encoding="utf-8")
    renderer = QSvgRenderer(str(path))
    assert renderer.isValid() and renderer.defaultSize().width() > 400


# In the window


@pytest.fixture
def window(qtbot: QtBot, home: Path, tmp_path: Path) -> Iterator[Window]:
    """A window that shows a conversation of two answers."""
    opened = Window(FakeEngine(), Settings(appearance="light"), tmp_path / "settings.json")
    qtbot.addWidget(opened)
    opened.resize(1280, 800)
    opened.show()
    qtbot.waitExposed(opened)
    for name in ("first", "second"):
        answer = opened.session.add_turn(name, Settings().options(), "none")
        answer.state, answer.trace_path = "finished", str(write_trace(tmp_path / f"{name}.jsonl", story_rounds()))
    opened.chat.changed.emit()
    yield opened
    opened.close()


def choose(monkeypatch: pytest.MonkeyPatch, path: Path | str, kind: ExportKind) -> list[tuple[Any, ...]]:
    """The next save dialog is answered so; returns what dialogs were asked."""
    asked: list[tuple[Any, ...]] = []

    def answer(*arguments: Any) -> tuple[str, str]:
        asked.append(arguments)
        return str(path), kind.filter

    monkeypatch.setattr(QFileDialog, "getSaveFileName", answer)
    return asked


def test_every_kind_is_written_from_the_menu(window: Window, tmp_path: Path, monkeypatch: Any) -> None:
    for kind in kinds():
        path = tmp_path / "out" / f"export{kind.ending}"
        choose(monkeypatch, path, kind)
        window.actions_by_id["exportAction"].trigger()
        assert path.stat().st_size > 500, kind
        assert str(path) in window.banner.label.text()
        if kind.id in ("json", "csv", "parquet"):
            assert {name: summarise(rounds) for name, rounds in read_export(path).items()} == {
                name: summarise(story_rounds()) for name in ("first", "second")
            }
    if kind.id == "card":
        assert not QImage(str(path)).isNull()


@pytest.mark.parametrize("kind", [HTML, JSON, CSV, kind_named("card-svg")], ids=lambda kind: kind.id)
def test_a_measured_plain_run_goes_into_every_export(kind: ExportKind, window: Window, tmp_path: Path, monkeypatch: Any) -> None:
    """Of two answers the last one was measured against a plain run; what is not known is missing, with the reason."""
    for turn in window.session.turns:
        turn.answer.drafter = "builtin-draft"
        turn.answer.request = Request((Message("user", turn.prompt),), turn.answer.options, drafter="builtin-draft")
    last = window.session.turns[-1].answer
    assert last.request is not None
    window.session.baselines.add(last.request, RunFinished(1, "eos", "", 32, 4.0, 0.1, 0.2, None))
    path = tmp_path / "out" / f"export{kind.ending}"
    choose(monkeypatch, path, kind)
    window.actions_by_id["exportAction"].trigger()
    text, speed_up = path.read_text(encoding="utf-8"), summarise(story_rounds()).throughput / 8.0
    if kind.id == "json":
        unknown, known = json.loads(text)["answers"]
        assert (known["plain_throughput"], known["plain_tokens"], known["speed_up_missing"]) == (8.0, 32, None)
        assert known["speed_up"] == pytest.approx(speed_up)
        assert unknown["plain_throughput"] is None and unknown["speed_up"] is None
        assert unknown["speed_up_missing"] == "no plain run measured"
    elif kind.id == "csv":
        unknown, known = csv.DictReader((tmp_path / "out" / "export-answers.csv").read_text(encoding="utf-8").splitlines())
        assert float(known["speed_up"]) == pytest.approx(speed_up) and known["speed_up_missing"] == ""
        assert unknown["speed_up"] == "" and unknown["speed_up_missing"] == "no plain run measured"
    else:
        assert f"{speed_up:.2f}" in text and "× plain" in text and "8.0" in text
        assert ("No plain run measured" in text) == (kind == HTML), "of the first answer, which is not on the card"


def test_the_first_export_takes_two_clicks_and_the_next_offers_the_same(
    window: Window, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = choose(monkeypatch, tmp_path / "out.csv", CSV)
    window.actions_by_id["exportAction"].trigger()
    _, _, offered, offered_kinds, chosen = asked[0]
    assert offered.endswith("draftlight-second.html") and offered_kinds == filters() and chosen == HTML.filter
    assert load(tmp_path / "settings.json")[0].export_kind == "csv"
    asked = choose(monkeypatch, tmp_path / "again.csv", CSV)
    window.actions_by_id["exportAction"].trigger()
    assert asked[0][2] == str(tmp_path / "draftlight-second.csv") and asked[0][4] == CSV.filter


def test_a_missing_folder_is_not_proposed(window: Window, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    window.chat.preferences.set(export_folder=str(tmp_path / "gone"))
    asked = choose(monkeypatch, "", HTML)
    window.actions_by_id["exportAction"].trigger()
    assert "gone" not in asked[0][2]
    assert not window.banner.isVisible(), "leaving the dialog says nothing"


def test_the_note_shows_the_folder(window: Window, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []
    monkeypatch.setattr(QDesktopServices, "openUrl", lambda url: shown.append(url.toLocalFile()))
    choose(monkeypatch, tmp_path / "out.json", JSON)
    window.actions_by_id["exportAction"].trigger()
    assert window.banner.action.isVisible() and window.banner.action.accessibleName() == "Show in folder"
    window.banner.action.click()
    assert shown == [str(tmp_path)]
    window.banner.show_message("Something else.")
    assert not window.banner.action.isVisible(), "the button goes with its message"


def test_a_failed_export_is_reported_and_its_folder_not_saved(
    window: Window, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    choose(monkeypatch, tmp_path / "file" / "out.json", JSON)
    window.actions_by_id["exportAction"].trigger()
    assert "cannot be written" in window.banner.label.text()
    assert not window.banner.action.isVisible()
    assert window.settings.export_kind == "html"


def test_a_replay_exports_the_trace_it_shows(window: Window, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    window.replay_controller.open(write_trace(tmp_path / "replayed.jsonl", story_rounds()))
    choose(monkeypatch, tmp_path / "out.json", JSON)
    window.actions_by_id["exportAction"].trigger()
    assert list(read_export(tmp_path / "out.json")) == ["replayed"]


@pytest.mark.parametrize("replaces", [True, False])
def test_other_files_are_replaced_only_after_a_question(
    replaces: bool, window: Window, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = tmp_path / "out-answers.csv"
    mine.write_text("mine")
    asked: list[str] = []

    def answer(question: ReplaceQuestion) -> int:
        asked.append(question.informativeText())
        (question.replace_button if replaces else question.escapeButton()).click()
        return 0

    monkeypatch.setattr(ReplaceQuestion, "exec", answer)
    choose(monkeypatch, tmp_path / "out.csv", CSV)
    window.actions_by_id["exportAction"].trigger()
    assert len(asked) == 1 and "out-answers.csv" in asked[0] and "out.csv" not in asked[0]
    assert (mine.read_text() != "mine") == replaces and (tmp_path / "out.csv").exists() == replaces
    assert window.banner.isVisible() == replaces, "nothing was written, nothing is said"


def test_all_charts_replace_no_picture_without_a_question(qapp: Any, tmp_path: Path) -> None:
    trace = read_traces([write_trace(tmp_path / "story.jsonl", story_rounds())])[0]
    mine, asked = tmp_path / "story-tau.svg", []
    mine.write_text("mine")
    assert save_charts(trace, tmp_path, may_replace=lambda existing: bool(asked.append(existing))) == ()
    assert asked == [[mine]] and mine.read_text() == "mine" and not (tmp_path / "story-tau.png").exists()
