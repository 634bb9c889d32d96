"""Exports of answers that were drafted as trees."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path

import pytest

from engine.exports.captions import provenance
from engine.exports.csv_files import LINE_END
from engine.exports.export import csv_texts, read_export, read_traces, to_json, write
from engine.exports.report import BY_CHOICE, to_html
from engine.rounds.codec import options_to_json
from engine.rounds.metrics import counts, summarise
from engine.rounds.trace import Trace
from engine.types import DecodingOptions, Round, Rule
from tests.app.fakes import story_rounds
from tests.crossings import crossed
from tests.traces import write_trace
from tests.trees import SECOND_CHOICE, TO_A_LEAF, TREE_RULES, tree_options, tree_rounds


def trace_of(folder: Path, rounds: tuple[Round, ...], options: DecodingOptions) -> Trace:
    folder.mkdir(exist_ok=True)
    path = write_trace(folder / "tree.jsonl", rounds, options=options_to_json(options), seed=options.seed)
    return read_traces([str(path)])[0]


@pytest.mark.parametrize(("rule", "kind"), crossed(TREE_RULES, ["csv", "parquet", "json"], together=1))
def test_the_rounds_of_an_export_have_the_figures_of_the_trees(kind: str, rule: Rule, tmp_path: Path) -> None:
    if kind == "parquet":
        pytest.importorskip("pyarrow")
    trace = trace_of(tmp_path, tree_rounds(tree_options(rule)), tree_options(rule))
    found = read_export(write([trace], kind, tmp_path / f"rounds.{kind}")[0])["tree"]
    assert found == tuple(map(counts, trace.rounds))
    assert summarise(found) == summarise(trace.rounds) and summarise(found).by_rank


@pytest.mark.parametrize("column", ["levels", "choices", "ranks"])
def test_a_damaged_table_of_trees_is_refused_in_words(column: str, tmp_path: Path) -> None:
    trace = trace_of(tmp_path, (SECOND_CHOICE, TO_A_LEAF), tree_options("gumbel"))
    path = write([trace], "csv", tmp_path / "a.csv")[0]
    table = list(csv.DictReader(io.StringIO(path.read_bytes().decode())))
    table[0][column] = "two"
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(table[0]), lineterminator=LINE_END)
        writer.writeheader()
        writer.writerows(table)
    with pytest.raises(Exception, match="is not a table of rounds exported by Draftlight"):
        read_export(path)


def test_the_table_of_proposals_has_depth_parent_and_rank(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, (SECOND_CHOICE,), tree_options("gumbel"))
    rows = list(csv.DictReader(io.StringIO(csv_texts([trace])["proposals"])))
    assert [(row["place"], row["depth"], row["parent"], row["rank"]) for row in rows] == [
        ("1", "1", "0", "1"),
        ("2", "2", "1", "0"),
        ("3", "1", "0", "0"),
        ("4", "2", "1", "1"),
        ("5", "2", "3", "0"),
        ("6", "3", "2", "0"),
    ], "a parent is given by its place, 0 for the root"
    (answer,) = json.loads(to_json([trace]))["answers"]
    assert [token["parent"] for token in answer["rounds"][0]["proposed"]] == [-1, 0, -1, 0, 2, 1], "as in the trace"
    chain = trace_of(tmp_path / "chain", tuple(story_rounds()), DecodingOptions(seed=1))
    rows = list(csv.DictReader(io.StringIO(csv_texts([chain])["proposals"])))
    assert {(row["parent"], row["rank"]) for row in rows} == {("", "0")} and all(row["depth"] == row["place"] for row in rows)


def test_budget_and_width_are_named_where_trees_were_asked_for(tmp_path: Path) -> None:
    def said(options: DecodingOptions, rounds: tuple[Round, ...]) -> tuple[str, str, str]:
        trace = trace_of(tmp_path / options.rule, rounds, options)
        (row,) = csv.DictReader(io.StringIO(csv_texts([trace])["answers"]))
        return " · ".join(provenance(trace)), to_html([trace]), f"{row['budget']}/{row['width']}"

    caption, report, row = said(tree_options("gumbel"), (SECOND_CHOICE, TO_A_LEAF))
    assert "budget 8 · width 3" in caption and "budget 8, width 3" in report and row == "8/3"
    caption, report, row = said(DecodingOptions(rule="match", seed=1), tuple(story_rounds()))
    assert "budget" not in caption + report and "width 4" not in caption + report and row == "auto/4"
    assert BY_CHOICE not in report


def test_the_report_draws_each_tree_with_the_text_in_its_first_row(tmp_path: Path) -> None:
    report = to_html([trace_of(tmp_path, (SECOND_CHOICE, TO_A_LEAF), tree_options("gumbel"))])
    first, second = re.findall(r"<div class=tree .*?</svg></div>", report, re.DOTALL)
    heights = {said: float(y) for y, said in re.findall(r'<text x="[^"]+" y="([^"]+)"[^>]*>([^<]+)</text>', first)}
    assert set(heights) == {"a", "b", "c", "d", "e", "f", "own"}
    assert heights["a"] == heights["own"] < heights["b"] == heights["f"] < heights["d"] < heights["c"] == heights["e"]
    assert "<title>“b” rejected, choice 1 of 2 at depth 2</title>" in first
    assert first.count("<polyline") == 7 + 5, "seven chips, and a line to each one that follows another"
    assert len(re.findall("<title>", second)) == 4
    chain = to_html([trace_of(tmp_path / "chain", tuple(story_rounds()), DecodingOptions(seed=1))])
    assert "<div class=tree" not in chain


def test_the_report_has_acceptance_by_choice(tmp_path: Path) -> None:
    report = to_html([trace_of(tmp_path, (SECOND_CHOICE, TO_A_LEAF), tree_options("gumbel"))])
    table = report[report.index(f"<h3>{BY_CHOICE}") :].split("</table>")[0]
    rows = [re.findall(r">([^<>]+)</t[hd]>", row) for row in table.split("<tr>")[2:]]
    assert rows == [
        ["1", "3", "1", "1", "0.33", "0.06 to 0.79"],
        ["2", "3", "1", "2", "0.67", "0.21 to 0.94"],
        ["3", "1", "0", "1", "1.00", "0.21 to 1.00"],
    ]
