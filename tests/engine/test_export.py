"""What is exported says the same as the traces it came from, and a spreadsheet runs none of it."""

from __future__ import annotations

import csv
import io
import json
import random
import stat
from collections.abc import Sequence
from pathlib import Path

import pytest

from engine import export
from engine.errors import DraftlightError
from engine.export import (
    answers_csv,
    guarded,
    read_json,
    read_rounds_csv,
    read_traces,
    rounds_csv,
    to_json,
    total,
    unguarded,
    write_csv,
    write_json,
)
from engine.metrics import Summary, summarise
from engine.trace import Trace, Writer
from engine.types import Emitted, Expected, Milliseconds, Proposal, Round
from tests.engine.test_metrics import random_rounds

NASTY = (
    "=1+1",
    "+1",
    "-1",
    "@SUM(A1)",
    "\t=1",
    "\r=1",
    "\n=1",
    " =1",
    "＝1",
    "'",
    "'=1",
    "''",
    'a"b',
    "a,b",
    "a\nb",
    "é",
    "\x00",
    "\ud83d",
)


def write(path: Path, rounds: Sequence[Round], prompt: str = "hi") -> Path:
    header = {
        "created": "2026-11-21T12:00:00.000+00:00",
        "target": {"name": "builtin"},
        "drafter": {"name": "ngram"},
        "options": {"rule": "gumbel", "temperature": 0.8, "seed": 5, "gamma": 4},
        "prompt": {"messages": [{"role": "user", "content": prompt}], "ids": [1, 2, 3]},
    }
    writer = Writer(path, header)
    for round in rounds:
        writer.round(round)
    writer.summary({"finish": "eos", "prefill_seconds": 0.5, "seconds_to_first_token": 0.75})
    writer.close()
    return path


@pytest.fixture
def traces(tmp_path: Path) -> tuple[Trace, ...]:
    first = write(tmp_path / "one" / "answer.jsonl", random_rounds(1, 12), "=danger")
    second = write(tmp_path / "two" / "answer.jsonl", random_rounds(2, 7))
    return read_traces([first, second])


def summaries(traces: Sequence[Trace]) -> dict[str, Summary]:
    return dict(zip(("answer", "answer (2)"), (summarise(trace.rounds) for trace in traces), strict=True))


def test_json_read_back_gives_the_same_summaries(traces: tuple[Trace, ...], tmp_path: Path) -> None:
    (path,) = write_json(traces, tmp_path / "out" / "metrics.json")
    assert {name: summarise(rounds) for name, rounds in read_json(path).items()} == summaries(traces)


def test_csv_read_back_gives_the_same_summaries(traces: tuple[Trace, ...], tmp_path: Path) -> None:
    rounds_path, answers_path = write_csv(traces, tmp_path / "metrics.csv")
    assert answers_path.name == "metrics-answers.csv"
    assert {name: summarise(rounds) for name, rounds in read_rounds_csv(rounds_path).items()} == summaries(traces)


def test_the_table_of_answers_holds_the_summaries_and_settings(traces: tuple[Trace, ...]) -> None:
    rows = list(csv.DictReader(io.StringIO(answers_csv(traces), newline="")))
    for row, (name, summary) in zip(rows, summaries(traces).items(), strict=True):
        assert row["trace"] == name
        for figure in ("rounds", "emitted", "proposals", "accepted", "rejected", "unjudged"):
            assert int(row[figure]) == getattr(summary, figure)
        for figure in ("alpha", "alpha_low", "draft_yield", "tau", "predicted_tau", "seconds", "throughput"):
            assert float(row[figure]) == getattr(summary, figure)
        assert (row["target"], row["drafter"], row["seed"], row["finish"]) == ("builtin", "ngram", "5", "eos")
        assert (row["prompt_tokens"], row["prefill_seconds"]) == ("3", "0.5")
    assert rows[0]["prompt"] == "'=danger"


def test_the_json_holds_every_answer_with_its_figures_and_the_total(traces: tuple[Trace, ...]) -> None:
    document = json.loads(to_json(traces))
    assert document["schema"] == "draftlight.metrics/1"
    assert [answer["trace"] for answer in document["answers"]] == ["answer", "answer (2)"]
    assert document["answers"][0]["summary"]["alpha"] == summarise(traces[0].rounds).alpha
    assert len(document["answers"][0]["rounds"]) == 12
    assert document["answers"][0]["options"]["seed"] == 5
    assert document["total"]["rounds"] == 19


def test_the_total_adds_counts_and_seconds(traces: tuple[Trace, ...]) -> None:
    together, parts = total(traces), [summarise(trace.rounds) for trace in traces]
    for figure in ("rounds", "emitted", "proposals", "accepted", "rejected", "unjudged"):
        assert getattr(together, figure) == sum(getattr(part, figure) for part in parts)
    assert together.seconds == pytest.approx(sum(part.seconds for part in parts))
    assert together.throughput == pytest.approx(together.emitted / together.seconds)


def nasty_round(text: str) -> Round:
    return Round(
        index=0,
        position=0,
        drafter=text,
        rule="block",
        proposals=(Proposal(1, text, b"", "rejected"),),
        emitted=(Emitted(1, text, b"", "correction"),),
        expected=(Expected(0.25, 0.5, 0.75),),
        milliseconds=Milliseconds(1.5),
        rows=2,
        cache_length=9,
        text=text,
        finish="eos",
    )


@pytest.mark.parametrize("text", NASTY)
def test_no_cell_can_begin_a_formula_and_every_text_comes_back(text: str, tmp_path: Path) -> None:
    traces = read_traces([write(tmp_path / "answer.jsonl", [nasty_round(text)], text)])
    for table in (rounds_csv(traces), answers_csv(traces)):
        for row in csv.reader(io.StringIO(table, newline="")):
            assert not any(cell.lstrip()[:1] in tuple("=+-@＝＋－＠") and cell.strip() for cell in row)
    (row,) = csv.DictReader(io.StringIO(rounds_csv(traces), newline=""))
    assert unguarded(row["proposed_text"]) == text
    path, _ = write_csv(traces, tmp_path / "metrics.csv")
    ((found,),) = read_rounds_csv(path).values()
    assert found.drafter == (text if text != "\ud83d" else "\\ud83d")
    assert (row["expected_match"], row["expected_gumbel"], row["expected_rejection"]) == ("0.25", "0.5", "0.75")


def test_guarding_can_be_undone_and_leaves_ordinary_text_alone() -> None:
    chance = random.Random(1)
    for _ in range(2000):
        text = "".join(chance.choice("=+-@'\t\r\n ab") for _ in range(chance.randrange(5)))
        assert unguarded(guarded(text)) == text
    assert guarded("a=b") == "a=b"
    assert guarded("") == ""


def test_a_trace_without_rounds_or_summary_is_exported_as_far_as_it_goes(tmp_path: Path) -> None:
    path = write(tmp_path / "answer.jsonl", [])
    path.write_bytes(path.read_bytes().split(b"\n")[0] + b"\n")
    traces = read_traces([path])
    document = json.loads(to_json(traces))
    assert document["answers"][0]["finish"] is None
    assert "cut off" in document["answers"][0]["missing"]
    assert rounds_csv(traces).count("\r\n") == 1
    assert total([]) == summarise([])


def test_writing_replaces_the_whole_file_or_leaves_it(
    traces: tuple[Trace, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "out"
    path = folder / "metrics.json"
    write_json(traces[:1], path)
    before = path.read_text()
    write_json(traces, path)
    assert path.read_text() != before
    whole = path.read_text()

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(export.os, "fsync", full)
    with pytest.raises(DraftlightError, match="No space left"):
        write_json(traces[:1], path)
    assert path.read_text() == whole
    assert [entry.name for entry in folder.iterdir()] == ["metrics.json"], "nothing is left behind"
    ordinary = folder / "ordinary"
    ordinary.touch()
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE(ordinary.stat().st_mode)


@pytest.mark.parametrize("content", ["", "hello", "{}", '{"schema":"other"}', "trace,index\r\na,b\r\n", "[1]"])
def test_other_files_are_not_read_as_exports(tmp_path: Path, content: str) -> None:
    path = tmp_path / "file"
    path.write_text(content)
    with pytest.raises(DraftlightError, match=str(path)):
        read_json(path)
    if content.startswith("trace"):
        with pytest.raises(DraftlightError, match=str(path)):
            read_rounds_csv(path)
