"""`draftlight cluster`: what it prints, and that the commands within it get the machines."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from app.cli import bench, chat, cluster, entry, prove
from engine.cluster import companions
from engine.cluster.doctor import Finding
from engine.cluster.hosts import Cluster
from engine.rounds.codec import plain
from tests.engine.cluster.models import of_this_machine


@pytest.fixture
def hosts(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(entry, "log_to_file", lambda: None)
    path = tmp_path / "hosts.json"
    path.write_text(json.dumps([{"ssh": "127.0.0.1", "ips": ["127.0.0.1"]}] * 3))
    return str(path)


@pytest.mark.parametrize("bad", [0, 1])
def test_doctor_prints_a_line_for_each_finding(
    hosts: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], bad: int
) -> None:
    asked: list[tuple[Cluster, str]] = []
    found = [Finding(0, "good", "One."), Finding(1, "unknown", "Two."), *[Finding(None, "bad", "Three.")] * bad]

    def check(cluster: Cluster, target: str) -> list[Finding]:
        asked.append((cluster, target))
        return found

    monkeypatch.setattr(cluster, "check", check)
    assert entry.main(["cluster", "doctor", "--hosts", hosts, "--sharding", "pipeline"]) == bad
    assert asked == [(of_this_machine(3, "pipeline"), "builtin")]
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == ["ok   One.", "?    Two."]
    assert lines[2:-2] == ["BAD  Three."] * bad
    assert lines[-1].startswith("1 of 3 findings" if bad else "The model can be split")


@pytest.mark.parametrize(
    ("module", "words"),
    [(chat, ["chat", "hello", "--no-save"]), (prove, ["prove", "--quick"]), (bench, ["bench", "--limit", "1"])],
)
def test_a_command_gets_the_machines_whichever_way_they_are_given(
    hosts: str, monkeypatch: pytest.MonkeyPatch, module: Any, words: list[str]
) -> None:
    got: list[Cluster | None] = []
    monkeypatch.setattr(module, words[0], lambda *_, **named: got.append(named["cluster"]) or 0)
    for given in (
        words,
        [*words, "--hosts", hosts],
        ["cluster", "run", "--hosts", hosts, *words],
        ["cluster", "run", "--hosts", hosts, "--sharding", "pipeline", *words],
    ):
        assert entry.main(given) == 0
    assert got == [None, of_this_machine(3), of_this_machine(3), of_this_machine(3, "pipeline")]


def test_an_invalid_file_is_reported_in_one_line(hosts: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path(hosts).write_text("[]")
    assert entry.main(["cluster", "run", "--hosts", hosts, "prove"]) == 1
    assert capsys.readouterr().err == (
        f"draftlight: {hosts} is not a file of hosts: it names 0 hosts; 2 to 64 can share a target.\n"
    )
    with pytest.raises(SystemExit) as ended:
        entry.main(["cluster", "run", "prove"])
    assert ended.value.code == entry.USAGE_ERROR


def test_status_shows_running_clusters_and_leftover_processes(hosts: str, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert entry.main(["cluster", "status"]) == 0
    assert capsys.readouterr().out == "No cluster was started on this machine.\n"
    gone = int(subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], stdout=subprocess.PIPE, check=True).stdout)
    (home / "cluster").mkdir()
    entry_ = {"began": time.time() - 60, "cluster": plain(of_this_machine(2))}
    for starter, follower in ((os.getpid(), gone), (gone, os.getpid())):
        commands = {os.getpid(): companions._command_of(os.getpid()), gone: "another"}
        note = json.dumps({**entry_, "starter": starter, "followers": [follower], "commands": commands})
        (home / "cluster" / f"{starter}.json").write_text(note)
    assert entry.main(["cluster", "status"]) == 0
    out = capsys.readouterr().out
    assert len(re.findall(r"2 ranks \(ring, tensor\) on 127.0.0.1 and 127.0.0.1, for \d+ s", out)) == 2
    assert f"started by process {os.getpid()}; ranks here and their ssh: {gone}" in out
    assert (
        f"the process that started it has ended, but these ranks still run: {os.getpid()}. End them with: kill -9 {os.getpid()}"
        in out
    )
