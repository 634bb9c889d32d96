"""What is exported says the same as the traces it came from, and a spreadsheet runs none of it."""

from __future__ import annotations

import csv
import io
import json
import os
import random
import stat
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from engine.exports import export
from engine.exports.csv_files import guarded, unguarded
from engine.exports.export import csv_texts, read_export, read_traces, to_json, total
from engine.exports.tables import PROPOSAL_COLUMNS, tables
from engine.files import whole_file
from engine.rounds.metrics import Summary, summarise
from engine.rounds.trace import Trace, Writer
from engine.types import Emitted, Expected, Milliseconds, Proposal, Round
from engine.values.errors import DraftlightError
from tests.app.fakes import STORY, story_rounds
from tests.engine.rounds.test_metrics import random_rounds
from tests.traces import write_trace

FORMULAS = ("=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", " =1", "＝1", "'=1")
NASTY = (*FORMULAS, "'", "''", 'a"b', "a,b", "a\nb", "é", "\x00", "\ud83d")


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


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> tuple[Trace, ...]:
    folder = tmp_path_factory.mktemp("traces")
    first = write(folder / "one" / "answer.jsonl", random_rounds(1, 12), "=danger")
    second = write(folder / "two" / "answer.jsonl", random_rounds(2, 7))
    return read_traces([first, second])


def table(traces: Sequence[Trace], name: str) -> list[dict[str, str]]:
    """The rows of a table as CSV."""
    return list(csv.DictReader(io.StringIO(csv_texts(traces)[name], newline="")))


def summaries(traces: Sequence[Trace]) -> dict[str, Summary]:
    return dict(zip(("answer", "answer (2)"), (summarise(trace.rounds) for trace in traces), strict=True))


@pytest.mark.parametrize("form", ["json", "csv", "parquet"])
def test_exported_rounds_give_the_same_summaries(form: str, traces: tuple[Trace, ...], tmp_path: Path) -> None:
    written = export.write(traces, form, tmp_path / "out" / f"metrics.{form}")
    assert written[0] == tmp_path / "out" / f"metrics.{form}"
    assert [path.name for path in written[1:]] == (
        [] if form == "json" else [f"metrics-{table}.{form}" for table in ("proposals", "answers", "stretches")]
    )
    assert {name: summarise(rounds) for name, rounds in read_export(written[0]).items()} == summaries(traces)


def test_every_proposal_is_a_row_and_keeps_its_values(traces: tuple[Trace, ...], tmp_path: Path) -> None:
    proposals = [proposal for trace in traces for round in trace.rounds for proposal in round.proposals]
    rows = table(traces, "proposals")
    assert list(rows[0]) == list(PROPOSAL_COLUMNS)
    for row, proposal in zip(rows, proposals, strict=True):
        assert (int(row["id"]), unguarded(row["text"]), row["status"]) == (proposal.id, proposal.text, proposal.status)
        assert bytes.fromhex(row["bytes"]) == proposal.bytes
        assert (float(row["p"]) if row["p"] else None) == proposal.p
    read = pytest.importorskip("pyarrow.parquet").read_table(export.write(traces, "parquet", tmp_path / "metrics.parquet")[1])
    assert read.column_names == list(PROPOSAL_COLUMNS)
    assert read.column("p").to_pylist() == [proposal.p for proposal in proposals]
    assert read.column("text").to_pylist() == [proposal.text for proposal in proposals]
    tops = [[candidate["text"] for candidate in top] for top in read.column("target_top").to_pylist()]
    assert tops == [[candidate.text for candidate in proposal.target_top] for proposal in proposals]
    document = json.loads(to_json(traces))
    told = [entry for answer in document["answers"] for round in answer["rounds"] for entry in round["proposed"]]
    assert [entry["p"] for entry in told] == [proposal.p for proposal in proposals]


def test_a_column_means_the_same_in_every_table_and_is_explained(tmp_path: Path) -> None:
    rounds = [replace(round, drafter="auto", proposer="head") for round in random_rounds(1, 5)]
    made = tables(read_traces([write(tmp_path / "answer.jsonl", rounds)]))
    for name in ("rounds", "proposals"):
        assert {(row["drafter"], row["proposer"]) for row in made[name].rows} == {("auto", "head")}
    page = (Path(__file__).parents[3] / "assets" / "docs" / "traces.md").read_text(encoding="utf-8")
    missing = {column for table in made.values() for column in table.columns if f"`{column}`" not in page}
    assert not missing


def test_the_table_of_rounds_says_where_the_draft_vocabulary_lacked_a_token(tmp_path: Path) -> None:
    rounds = [
        replace(round, outside_draft_vocabulary=outside)
        for round, outside in zip(random_rounds(1, 3), (True, False, None), strict=True)
    ]
    made = tables(read_traces([write(tmp_path / "answer.jsonl", rounds)]))
    assert [row["outside_draft_vocabulary"] for row in made["rounds"].rows] == [1, 0, None]


def test_parquet_carries_the_provenance(traces: tuple[Trace, ...], tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    for path in export.write(traces, "parquet", tmp_path / "metrics.parquet"):
        about = json.loads(parquet.read_schema(path).metadata[b"draftlight"])
        assert about["traces"]["answer"]["options"]["seed"] == 5


def test_the_table_of_answers_holds_the_summaries_and_settings(traces: tuple[Trace, ...]) -> None:
    rows = table(traces, "answers")
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
def test_cells_are_guarded_against_formulas_and_texts_survive(text: str, tmp_path: Path) -> None:
    traces = read_traces([write(tmp_path / "answer.jsonl", [nasty_round(text)], text)])
    for made in csv_texts(traces).values():
        for cells in csv.reader(io.StringIO(made, newline="")):
            assert not any(cell.lstrip()[:1] in tuple("=+-@＝＋－＠") and cell.strip() for cell in cells)
    (row,) = table(traces, "rounds")
    assert unguarded(row["proposed_text"]) == text
    for form in ("csv", "parquet"):
        path = export.write(traces, form, tmp_path / f"metrics.{form}")[0]
        ((found,),) = read_export(path).values()
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
    assert csv_texts(traces)["rounds"].count("\r\n") == 1
    assert total([]) == summarise([])


@pytest.mark.parametrize("form", ["json", "csv", "parquet", "html", "svg"])
def test_writing_replaces_whole_files_or_leaves_them(
    form: str, traces: tuple[Trace, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "out"
    path = folder / f"metrics.{form}"
    written = export.write(traces[:1], form, path)
    whole = {name: name.read_bytes() for name in written}
    calls = iter(range(10))

    def full(descriptor: int) -> None:
        if next(calls) == len(written) - 1:  # the last of the files that belong together
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(whole_file, "sync_to_disk", full)
    with pytest.raises(DraftlightError, match="No space left"):
        export.write(traces[1:], form, path)
    assert {name: name.read_bytes() for name in folder.iterdir()} == whole, "nothing is changed and nothing left behind"
    ordinary = folder / "ordinary"
    ordinary.touch()
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE(ordinary.stat().st_mode)


def test_a_folder_in_the_place_of_a_file_is_refused_before_anything_changes(traces: tuple[Trace, ...], tmp_path: Path) -> None:
    (tmp_path / "metrics-answers.csv").mkdir()
    with pytest.raises(DraftlightError, match="folder"):
        export.write(traces, "csv", tmp_path / "metrics.csv")
    assert [entry.name for entry in tmp_path.glob("*.csv")] == ["metrics-answers.csv"]


def test_a_pipe_or_device_is_never_replaced_by_a_file(traces: tuple[Trace, ...], tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.json"
    os.mkfifo(pipe)
    with pytest.raises(DraftlightError, match="not a file"):
        export.write(traces, "json", pipe)
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert [entry.name for entry in tmp_path.iterdir() if "pipe" in entry.name] == ["pipe.json"]


def test_link_is_kept_and_its_destination_written(traces: tuple[Trace, ...], tmp_path: Path) -> None:
    link, real = tmp_path / "link.json", tmp_path / "real.json"
    link.symlink_to(real)
    assert export.write(traces, "json", link) == (link,)
    assert link.is_symlink() and not real.is_symlink()
    assert read_export(real) == read_export(link)


@pytest.mark.parametrize("form", ["json", "csv", "parquet"])
@pytest.mark.parametrize("content", ["", "hello", "{}", '{"schema":"other"}', "trace,index\r\na,b\r\n", "[1]", "null", "PAR1"])
def test_other_files_are_not_read_as_exports(tmp_path: Path, form: str, content: str) -> None:
    path = tmp_path / f"file.{form}"
    path.write_text(content)
    with pytest.raises(DraftlightError, match=str(path)):
        read_export(path)


@pytest.mark.parametrize("form", ["json", "csv", "parquet"])
def test_an_export_that_was_cut_is_not_read(form: str, traces: tuple[Trace, ...], tmp_path: Path) -> None:
    path = export.write(traces, form, tmp_path / f"metrics.{form}")[0]
    content = path.read_bytes()
    for kept in (1, len(content) // 3, len(content) - 1):
        path.write_bytes(content[:kept])
        if form == "json" and kept == len(content) - 1:
            continue  # that takes the line end only
        with pytest.raises(DraftlightError, match=str(path)):
            read_export(path)


def test_missing_row_is_detected(traces: tuple[Trace, ...], tmp_path: Path) -> None:
    path = export.write(traces, "csv", tmp_path / "metrics.csv")[0]
    lines = path.read_bytes().split(b"\r\n")
    path.write_bytes(b"\r\n".join([*lines[:3], *lines[4:]]))
    with pytest.raises(DraftlightError, match="round 3 of answer is missing"):
        read_export(path)


def test_the_other_tables_and_other_kinds_are_not_taken_for_rounds(traces: tuple[Trace, ...], tmp_path: Path) -> None:
    for form in ("csv", "parquet"):
        for path in export.write(traces, form, tmp_path / f"metrics.{form}")[1:]:
            with pytest.raises(DraftlightError, match=str(path)):
                read_export(path)
    with pytest.raises(DraftlightError, match="cannot be read back"):
        read_export(export.write(traces, "html", tmp_path / "metrics.html")[0])


def test_malformed_header_is_exported_as_far_as_valid(tmp_path: Path) -> None:
    odd = {"prompt": [1], "target": "text", "drafter": None, "options": 7, "hardware": [], "versions": "x", "seed": {"a": 1}}
    path = write_trace(tmp_path / "odd.jsonl", random_rounds(3, 4), **odd)
    for form in export.FORMATS:
        assert export.write(read_traces([path]), form, tmp_path / f"odd.{form}")[0].exists()


def switched(tmp_path: Path) -> Trace:
    """An answer whose rule changed after its tenth round."""
    rounds = [replace(round_, rule="gumbel" if round_.index < 10 else "rejection") for round_ in story_rounds(STORY * 2)]
    (trace,) = read_traces([write_trace(tmp_path / "switched.jsonl", rounds)])
    return trace


def test_figures_are_exported_for_each_stretch_of_one_rule(tmp_path: Path) -> None:
    trace = switched(tmp_path)
    parts = [trace.rounds[:10], trace.rounds[10:]]
    (answer,) = json.loads(to_json([trace]))["answers"]
    told = [(stretch["first"], stretch["rule"], stretch["summary"]["alpha"]) for stretch in answer["stretches"]]
    assert told == [(0, "gumbel", summarise(parts[0]).alpha), (10, "rejection", summarise(parts[1]).alpha)]
    rows = table([trace], "stretches")
    assert [(row["stretch"], row["first_round"], row["last_round"], row["rule"]) for row in rows] == [
        ("1", "1", "10", "gumbel"),
        ("2", "11", str(len(trace.rounds)), "rejection"),
    ]
    for row, part in zip(rows, parts, strict=True):
        summary = summarise(part)
        for figure in ("alpha", "tau", "predicted_tau", "draft_yield"):
            assert float(row[figure]) == getattr(summary, figure)


def test_the_json_export_compares_the_rules_at_the_same_positions(tmp_path: Path) -> None:
    trace = switched(tmp_path)
    (answer,) = json.loads(to_json([trace]))["answers"]
    for told, part in zip(answer["rule_comparisons"], (trace.rounds[:10], trace.rounds[10:]), strict=True):
        judged = [place for round_ in part for place in round_.expected]
        assert (told["rule"], told["positions"]) == (part[0].rule, len(judged))
        for rule in ("match", "gumbel", "rejection"):
            assert told["expected"][rule] == pytest.approx(sum(getattr(place, rule) for place in judged) / len(judged))
        assert told["happened"] == pytest.approx(sum(round_.accepted for round_ in part) / len(judged))
        assert told["words"].startswith(f"Expected of {len(judged)} judged tokens: Match ")
        assert told["difference_words"].startswith("Of the same proposals, ")
