"""Traces that version 0.1.0 wrote still open, and give the figures that version 0.1.0 exported of them.

The files in references/traces were written by `draftlight chat` and `draftlight export --format csv` of that version. Tables may
have gained columns since; the old columns hold the same values. Rounds counted from 0 in tables then, and from 1 since.
"""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

from engine.exports.export import csv_texts, read_export, read_traces, write

TRACES = Path(__file__).parent / "references" / "traces"
TABLES = {"rounds": "", "proposals": "-proposals", "answers": "-answers"}


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("name", ["gumbel-head", "block-draft-model"])
def test_an_old_trace_gives_the_figures_it_gave(name: str, table: str) -> None:
    old = rows((TRACES / f"{name}{TABLES[table]}.csv").read_text(encoding="utf-8"))
    new = rows(csv_texts(read_traces([str(TRACES / f"{name}.jsonl")]))[table])
    assert old
    for row in old:
        for column in {"index", "round"} & set(row):
            row["round"] = str(int(row.pop(column)) + 1)
    assert [{column: row[column] for column in was} for row, was in zip(new, old, strict=True)] == old


@pytest.mark.parametrize("name", ["gumbel-head", "block-draft-model"])
def test_an_old_table_of_rounds_reads_as_a_new_one_does(name: str, tmp_path: Path) -> None:
    traces = read_traces([str(TRACES / f"{name}.jsonl")])
    new = write(traces, "csv", tmp_path / f"{name}.csv")[0]
    assert read_export(TRACES / f"{name}.csv") == read_export(new)
    assert [entry.index for entry in read_export(new)[name]] == list(range(len(traces[0].rounds))), "as in the trace"
    numbers = [row["round"] for row in rows(new.read_bytes().decode())]
    assert numbers == [str(index + 1) for index in range(len(traces[0].rounds))], "people count from 1"


def test_an_old_trace_says_of_newer_fields_that_they_were_not_recorded() -> None:
    (trace,) = read_traces([str(TRACES / "gumbel-head.jsonl")])
    tokens = [token for round_ in trace.rounds for token in round_.emitted]
    proposals = [proposal for round_ in trace.rounds for proposal in round_.proposals]
    assert {token.border for token in tokens} == {None} and {proposal.copied for proposal in proposals} == {None}
    assert {round_.outside_draft_vocabulary for round_ in trace.rounds} == {None}
