"""`draftlight rejudge` tells what another rule would have done with a recorded answer, and why where it cannot."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from app.cli.entry import main
from engine.exports.tables import options_of
from engine.lens.rejudge import rejudge
from engine.rounds.trace import read

Capture = pytest.CaptureFixture[str]
REFERENCES = Path(__file__).parents[2] / "references"
TRACE = REFERENCES / "rejudge" / "gumbel-draft-model.jsonl"
OLD = REFERENCES / "traces" / "block-draft-model.jsonl"


def printed(capsys: Capture, *words: str) -> str:
    assert main(["rejudge", *words]) == 0
    return capsys.readouterr().out


def test_every_change_has_a_line_and_a_sentence_counts_them(capsys: Capture) -> None:
    found = rejudge(read(TRACE).rounds, options_of(read(TRACE)), "rejection").counts
    lines = printed(capsys, str(TRACE), "--rule", "rejection").splitlines()
    table = lines[1 : lines.index("")]
    assert lines[0].split() == ["round", "place", "token", "p", "q", "p/q", "coin", "what", "changes"]
    assert len(table) == found.changes == found.accepts + found.rejects
    kept = [line for line in table if line.endswith("rejected; Rejection would have accepted it")]
    assert len(kept) == found.accepts
    for line in table:
        *_, ratio, coin = line.split(" accepted;")[0].split(" rejected;")[0].split()
        assert (float(coin) < float(ratio)) == (line in kept)
    below = lines[lines.index("") + 1 :]
    assert below[0] == f"Rejection would have decided otherwise at {found.changes} of {found.positions} judged positions."
    assert below[1].startswith(f"It would have accepted {found.accepts} rejected tokens and rejected {found.rejects} accepted")
    assert "residual" in lines[-1]


def test_draws_are_named_by_their_text(capsys: Capture) -> None:
    lines = printed(capsys, str(TRACE), "--rule", "match").splitlines()
    assert lines[0].split()[:5] == ["round", "place", "token", "target", "draws"]
    assert any("Match would have proposed “" in line for line in lines)
    assert not any("would have proposed token" in line for line in lines)


def test_a_shorter_gamma_shows_the_rounds_of_the_whole_answer(capsys: Capture) -> None:
    out = printed(capsys, str(TRACE), "--rule", "gumbel", "--gamma", "1")
    assert "With at most 1 proposal a round, Gumbel would have accepted 12 instead of 13" in out
    assert "gives the same text, in 44 rounds; all are known exactly." in out


def test_json_holds_every_verdict(capsys: Capture) -> None:
    told = json.loads(printed(capsys, str(TRACE), "--rule", "gumbel", "--gamma", "1", "--json"))
    trace = read(TRACE)
    assert [entry["index"] for entry in told["rounds"]] == [current.index for current in trace.rounds]
    assert [entry["kept"] for entry in told["rounds"]] == [min(1, current.accepted) for current in trace.rounds]
    assert sum(len(entry["ids"]) for entry in told["whole_answer"]["rounds"]) == told["whole_answer"]["tokens"]
    first = told["rounds"][0]["verdicts"][0]
    assert first["drawn"] == trace.rounds[0].proposals[0].target_argmax and first["expected"]["gumbel"] > 0
    assert told["summary"] and told["counts"]["rounds"] == len([one for one in trace.rounds if one.proposals])


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ([str(TRACE), "--rule", "block"], "together"),
        ([str(TRACE), "--rule", "gumbel", "--gamma", "9"], "No round had more than 4 proposals"),
        ([str(OLD), "--rule", "gumbel"], "older version"),
    ],
)
def test_a_trace_without_the_needed_data_is_refused(words: list[str], reason: str, capsys: Capture) -> None:
    assert main(["rejudge", *words]) == 1
    said = capsys.readouterr()
    assert not said.out and reason in said.err and said.err.count("\n") == 1


def test_a_trace_that_was_cut_off_is_judged_as_far_as_it_goes(tmp_path: Path, capsys: Capture) -> None:
    cut = Path(shutil.copy(TRACE, tmp_path / "cut.jsonl"))
    cut.write_bytes(b"\n".join(cut.read_bytes().split(b"\n")[:6]) + b"\n")
    assert main(["rejudge", str(cut), "--rule", "rejection"]) == 0
    said = capsys.readouterr()
    assert "summary is missing" in said.err and "Rejection would have" in said.out


def test_an_older_trace_can_be_judged_by_rejection(capsys: Capture) -> None:
    assert "Rejection would have decided as Block did" in printed(capsys, str(OLD), "--rule", "rejection")
