"""What is measured stays, whenever the process ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from engine.rounds.codec import plain
from engine.tools.bench.journal import MAX_JOURNALS, Journal, exclusive_use, state_of
from engine.tools.bench.measure import MeasuredAnswer, row_of
from engine.types import ModelInfo
from engine.values.errors import DraftlightError
from engine.values.requests.bench import BenchPrompt, BenchRequest, BenchSetting, BenchSetup

REQUEST = BenchRequest((BenchPrompt("p", "chat", ("hello",)),))
STATE = state_of(REQUEST, BenchSetup(ModelInfo("m", "/m", "00", 100, 9), (), "CPU", (), (), 8))
SETTING = BenchSetting("draftlight", "ngram", "gumbel", 0.8, "auto")
ANSWER = MeasuredAnswer((1, 2, 3), "abc", 9, 0.1, 0.3, 2, 4, 1, 1, 2, "eos", 12_345)
ROW = row_of(SETTING, REQUEST.prompts[0], 3, [ANSWER], ([ANSWER], [ANSWER]), [ANSWER])

WRITER = f"""
import sys
from pathlib import Path
sys.path.insert(0, {str(Path(__file__).resolve().parents[4])!r})
from dataclasses import replace
from tests.engine.tools.bench.test_journal import ROW, STATE, Journal
journal = Journal(Path(sys.argv[1]), STATE)
for order in range(10**6):
    journal.measured(replace(ROW, order=order))
    print(order, flush=True)
"""


def test_rows_come_back_as_they_were(tmp_path: Path) -> None:
    first = Journal(tmp_path, STATE)
    assert (first.rows, first.note) == ([], "")
    first.measured(ROW)
    first.skipped("p is not measured: it is too long.")
    again = Journal(tmp_path, STATE)
    assert again.rows == [ROW]
    assert again.messages == ["p is not measured: it is too long."]
    assert again.note.startswith("Goes on from 1 measurement of ")
    assert Journal(tmp_path, STATE, anew=True).rows == []


def test_a_file_that_ends_anywhere_keeps_every_whole_line(tmp_path: Path) -> None:
    """Whatever byte was the last one that reached the disk, the benchmark goes on and its file is sound again."""
    journal = Journal(tmp_path, STATE)
    for _ in range(3):
        journal.measured(ROW)
    (path,) = tmp_path.glob("*.jsonl")
    content = path.read_bytes()
    ends = [place for place, byte in enumerate(content, start=1) if byte == 10]
    for length in {*range(0, len(content), 37), *ends, *(end - 1 for end in ends), *(end + 1 for end in ends)}:
        path.write_bytes(content[:length])
        whole = max(0, sum(end <= length for end in ends) - 1)
        found = Journal(tmp_path, STATE)
        assert len(found.rows) == whole
        found.measured(ROW)
        assert len(Journal(tmp_path, STATE).rows) == whole + 1


def test_measurements_of_a_killed_process_are_kept(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        told = -1
        for line in process.stdout:
            told = int(line)
            if told >= 20:
                os.kill(process.pid, signal.SIGKILL)
                break
        for line in process.stdout:
            told = int(line)
    found = Journal(tmp_path, STATE)
    assert [row.order for row in found.rows[: told + 1]] == list(range(told + 1))
    assert len(found.rows) <= told + 2, "at most the one that was being told"


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("target", ["m", "01"], "the target or its file"),
        ("drafters", [["ngram", None]], "the drafters or their files"),
        ("seed", 2, "the seed"),
        ("versions", {"mlx": "2"}, "a version of Draftlight, of MLX or of the system"),
    ],
)
def test_changed_conditions_are_named(key: str, value: object, words: str, tmp_path: Path) -> None:
    Journal(tmp_path, STATE).measured(ROW)
    other = Journal(tmp_path, {**STATE, key: value})
    assert other.rows == []
    assert other.note.startswith(f"Starts anew, because {words} changed since ")
    assert Journal(tmp_path, STATE).rows == [ROW]


@pytest.mark.parametrize(
    "damage", [b"[]", b'"row"', b"7", b"null", b"[" * 100_000, b"\xff\xfe", b'{"row": []}', b'{"row": {"order": 0}}', b"{"]
)
def test_lines_before_a_damaged_one_are_kept(tmp_path: Path, damage: bytes) -> None:
    journal = Journal(tmp_path, STATE)
    journal.measured(ROW)
    (path,) = tmp_path.glob("*.jsonl")
    whole = path.read_bytes()
    path.write_bytes(whole + damage + b"\n" + whole.splitlines(keepends=True)[1])
    assert Journal(tmp_path, STATE).rows == [ROW]
    assert path.read_bytes() == whole, "what is not read is cut off, so that what is measured next can be"
    path.write_bytes(damage + b"\n" + whole)
    assert Journal(tmp_path, STATE).rows == []


@pytest.mark.parametrize(
    "damage",
    [
        {"tokens": "a"},
        {"prompt_id": [1]},
        {"speedup": -1},
        {"seconds": 1e300},
        {"rule": 0},
        {"finishes": ["no"]},
        {"gamma": True},
    ],
)
def test_a_row_with_an_impossible_value_is_a_damaged_line(tmp_path: Path, damage: dict[str, object]) -> None:
    Journal(tmp_path, STATE).measured(ROW)
    (path,) = tmp_path.glob("*.jsonl")
    whole = path.read_bytes()
    path.write_bytes(whole + json.dumps({"row": plain(ROW) | damage}).encode() + b"\n")
    assert Journal(tmp_path, STATE).rows == [ROW]
    assert path.read_bytes() == whole


@pytest.mark.parametrize("target", [[], 5, None, {}, ["m"]])
def test_a_journal_with_a_damaged_target_stops_no_other(tmp_path: Path, target: object) -> None:
    Journal(tmp_path, STATE).measured(ROW)
    (path,) = tmp_path.glob("*.jsonl")
    head, row = path.read_bytes().splitlines(keepends=True)
    begun = json.loads(head)
    begun["state"]["target"] = target
    path.write_bytes(json.dumps(begun).encode() + b"\n" + row)
    assert Journal(tmp_path, {**STATE, "seed": 2}).note == ""


def test_another_target_and_a_finished_benchmark_give_no_notice(tmp_path: Path) -> None:
    journal = Journal(tmp_path, STATE)
    journal.measured(ROW)
    assert Journal(tmp_path, {**STATE, "target": ["other", "00"]}).note == ""
    journal.finished()
    assert (Journal(tmp_path, STATE).rows, Journal(tmp_path, {**STATE, "seed": 2}).note) == ([], "")


def test_old_journals_are_forgotten(tmp_path: Path) -> None:
    for seed in range(MAX_JOURNALS + 5):
        Journal(tmp_path, {**STATE, "seed": seed})
    assert len(list(tmp_path.glob("*.jsonl"))) == MAX_JOURNALS


def test_only_one_benchmark_runs_at_a_time(tmp_path: Path) -> None:
    with exclusive_use(tmp_path), pytest.raises(DraftlightError, match="Another benchmark"), exclusive_use(tmp_path):
        pass
    with exclusive_use(tmp_path):
        pass


def test_where_nothing_can_be_written_a_benchmark_runs_without_a_lock(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    with exclusive_use(tmp_path / "file" / "journals"), exclusive_use(tmp_path / "file" / "journals"):
        pass
