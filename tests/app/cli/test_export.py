"""`draftlight export` writes answers from their traces, and says in one line what is wrong."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from app.cli.entry import main
from engine.exports.export import read_export
from engine.rounds.metrics import summarise
from engine.rounds.trace import read
from tests.app.fakes import story_rounds
from tests.engine.fakes import PATIENCE
from tests.traces import write_trace

Capture = pytest.CaptureFixture[str]
ROOT = Path(__file__).parents[3]


@pytest.fixture
def traces(tmp_path: Path) -> list[Path]:
    folder = tmp_path / "traces"
    return [write_trace(folder / f"{name}.jsonl", story_rounds(f"A {name} light on the point.")) for name in ("first", "second")]


def test_json_of_files_and_folders_goes_to_standard_output(traces: list[Path], capsys: Capture) -> None:
    assert main(["export", str(traces[0])]) == 0
    assert len(json.loads(capsys.readouterr().out)["answers"]) == 1
    assert main(["export", str(traces[0].parent), "--format", "json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["answers"]) == 2


def test_an_answer_under_two_rules_is_named_as_such(tmp_path: Path, capsys: Capture) -> None:
    rounds = [replace(round_, rule="gumbel" if round_.index < 4 else "rejection") for round_ in story_rounds()]
    path = write_trace(tmp_path / "switched.jsonl", rounds)
    assert main(["export", str(path)]) == 0
    said = capsys.readouterr().err
    assert f"{path}: rule or drafter changed in this answer. Gumbel in 4 rounds: alpha " in said
    assert f"; Rejection in {len(rounds) - 4} rounds: alpha " in said


@pytest.mark.parametrize("table", ["rounds", "proposals", "answers"])
def test_each_csv_table_can_be_printed(table: str, traces: list[Path], capsys: Capture) -> None:
    assert main(["export", *map(str, traces), "--format", "csv", "--table", table]) == 0
    rounds = [round_ for path in traces for round_ in read(path).rounds]
    lines = {"rounds": len(rounds), "proposals": sum(len(round_.proposals) for round_ in rounds), "answers": 2}[table]
    assert len(capsys.readouterr().out.splitlines()) == 1 + lines


@pytest.mark.parametrize("ending", ["json", "csv", "parquet"])
def test_files_are_written_as_their_names_end_and_named(ending: str, traces: list[Path], tmp_path: Path, capsys: Capture) -> None:
    output = tmp_path / f"out.{ending}"
    assert main(["export", str(traces[0]), "--output", str(output)]) == 0
    beside = (
        [] if ending == "json" else [str(tmp_path / f"out-{table}.{ending}") for table in ("proposals", "answers", "stretches")]
    )
    assert capsys.readouterr().out.splitlines() == [str(output), *beside]
    (rounds,) = read_export(output).values()
    assert summarise(rounds) == summarise(read(traces[0]).rounds)


def test_a_report_and_a_chart_are_printed_or_written(traces: list[Path], tmp_path: Path, capsys: Capture) -> None:
    assert main(["export", str(traces[0]), "--format", "html"]) == 0
    assert capsys.readouterr().out.startswith("<!DOCTYPE html>")
    assert main(["export", str(traces[0]), "--format", "html", "--output", str(tmp_path)]) == 0
    assert capsys.readouterr().out.strip() == str(tmp_path / "first.html"), "into a folder under the trace's name"
    assert main(["export", str(traces[0]), "--output", str(tmp_path / "chart.svg"), "--chart", "tau", "--theme", "dark"]) == 0
    assert "<svg" in (tmp_path / "chart.svg").read_text(encoding="utf-8")


def test_a_cut_off_trace_is_exported_as_far_as_it_goes_and_said_so(traces: list[Path], capsys: Capture) -> None:
    content = traces[0].read_bytes()
    traces[0].write_bytes(content[: len(content) * 2 // 3])
    assert main(["export", str(traces[0])]) == 0
    printed = capsys.readouterr()
    assert "cut off" in printed.err
    assert json.loads(printed.out)["answers"][0]["missing"]


@pytest.mark.parametrize("name", ["missing.jsonl", "empty folder", "foreign.txt"])
def test_a_file_that_is_no_trace_is_refused_by_name(name: str, tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "empty folder").mkdir()
    (tmp_path / "foreign.txt").write_text("hello\n")
    assert main(["export", str(tmp_path / name)]) == 1
    printed = capsys.readouterr()
    assert name in printed.err
    assert printed.err.count("\n") == 1


def test_an_unwritable_path_is_named(traces: list[Path], tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "file").touch()
    assert main(["export", str(traces[0]), "--output", str(tmp_path / "file" / "out.csv")]) == 1
    assert "cannot be written" in capsys.readouterr().err


@pytest.mark.parametrize("form", ["parquet", "png", "card"])
def test_binary_formats_need_a_file(form: str, traces: list[Path], capsys: Capture) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["export", str(traces[0]), "--format", form])
    assert ended.value.code == 2
    assert "--output" in capsys.readouterr().err


def test_without_pyarrow_parquet_says_how_to_get_it(
    traces: list[Path], tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert main(["export", str(traces[0]), "--output", str(tmp_path / "out.parquet")]) == 1
    assert "draftlight[parquet]" in capsys.readouterr().err
    assert list(tmp_path.glob("out*")) == []


def test_pictures_are_written_without_a_display(traces: list[Path], tmp_path: Path) -> None:
    """In a process of its own, which must do without an application or a platform that somebody else has chosen."""
    outputs = [tmp_path / name for name in ("out.png", "card.png", "card.svg")]
    commands = [
        ["export", *map(str, traces), *form, "--output", str(output), "--theme", "dark"]
        for output, form in zip(outputs, [[], ["--format", "card"], ["--format", "card"]], strict=True)
    ]
    commands.append(["export", str(traces[0]), "--format", "card", "--output", str(tmp_path)])
    program = (
        "import json, sys; from app.cli.entry import main; sys.exit(any([main(command) for command in json.loads(sys.argv[1])]))"
    )
    bare = {name: value for name, value in os.environ.items() if name not in ("QT_QPA_PLATFORM", "DISPLAY", "WAYLAND_DISPLAY")}
    arguments = [sys.executable, "-c", program, json.dumps(commands)]
    done = subprocess.run(arguments, cwd=ROOT, env=bare, capture_output=True, text=True, timeout=PATIENCE)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [*map(str, outputs), str(tmp_path / "first.png")]
    for output in outputs:
        content = output.read_bytes()
        assert content.startswith(b"\x89PNG") if output.suffix == ".png" else b"<svg" in content


@pytest.mark.parametrize("form", ["csv", "parquet"])
@pytest.mark.parametrize(("typed", "stem"), [("out.txt", "out"), ("report.v2", "report.v2"), ("out", "out")])
def test_files_that_belong_together_have_the_ending_of_their_format(
    form: str, typed: str, stem: str, traces: list[Path], tmp_path: Path, capsys: Capture
) -> None:
    assert main(["export", str(traces[0]), "--format", form, "--output", str(tmp_path / typed)]) == 0
    names = [f"{stem}.{form}", *(f"{stem}-{table}.{form}" for table in ("proposals", "answers", "stretches"))]
    assert capsys.readouterr().out.splitlines() == [str(tmp_path / name) for name in names]
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_file()) == sorted(names)


@pytest.mark.parametrize("form", ["json", "html", "svg"])
def test_a_single_file_has_the_name_that_was_given(form: str, traces: list[Path], tmp_path: Path) -> None:
    assert main(["export", str(traces[0]), "--format", form, "--output", str(tmp_path / "report.v2")]) == 0
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["report.v2"]


@pytest.mark.parametrize("form", ["json", "csv"])
def test_files_that_would_be_replaced_are_named_first(
    form: str, traces: list[Path], tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ["export", str(traces[0]), "--output", str(tmp_path / f"out.{form}")]
    there = tmp_path / ("out.json" if form == "json" else "out-answers.csv")
    there.write_text("mine")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    for answer, status in (("n", 1), ("", 1), ("y", 0)):
        assert there.read_text() == "mine"
        terminal = io.StringIO(answer)
        terminal.isatty = lambda: True  # type: ignore[method-assign]
        monkeypatch.setattr(sys, "stdin", terminal)
        assert main(command) == status
        printed = capsys.readouterr()
        assert f"replace {there}?" in printed.err and bool(printed.out) == (status == 0)
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    assert main(command) == 0
    assert f"replacing {tmp_path / 'out'}" in capsys.readouterr().err


def test_a_trace_is_never_overwritten_by_its_export(traces: list[Path], capsys: Capture) -> None:
    before = traces[0].read_bytes()
    assert main(["export", str(traces[0]), "--format", "json", "--output", str(traces[0])]) == 1
    assert "another name" in capsys.readouterr().err
    assert traces[0].read_bytes() == before


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--output", "a.xlsx"], "--format"),
        (["--output", "a.card"], "--format"),
        (["--format", "png", "--output", "a.svg"], ".png"),
        (["--format", "svg", "--output", "a.png"], ".svg"),
        (["--format", "card", "--output", "card"], ".png or .svg"),
        (["--output", "no-such-folder/"], "the folder no-such-folder/ does not exist"),
        (["--output", ""], "empty"),
    ],
)
def test_a_name_that_does_not_fit_its_content_is_refused_before_anything_is_written(
    words: list[str], said: str, traces: list[Path], tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        main(["export", str(traces[0]), *words])
    assert ended.value.code == 2
    assert said in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["traces"]


def test_a_name_too_long_for_any_file_is_refused_in_one_line(traces: list[Path], tmp_path: Path, capsys: Capture) -> None:
    assert main(["export", str(traces[0]), "--output", str(tmp_path / ("n" * 300 + ".json"))]) == 1
    assert "another folder or name" in capsys.readouterr().err
