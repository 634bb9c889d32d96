"""What is found out about machines before a model is split over them. Nothing is started but a stand-in for ssh."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from engine.cluster import doctor
from engine.cluster.about import about
from engine.cluster.doctor import Finding, check
from engine.cluster.hosts import Cluster, Host
from engine.cluster.probe import TIMES, measure
from tests.engine.cluster.in_one_process import OneProcess
from tests.engine.cluster.models import of_this_machine, write_qwen2
from tests.engine.tiny_models import write_gguf

SPREAD = Cluster((Host("127.0.0.1", ("10.0.0.1",)), Host("mac2", ("10.0.0.2",)), Host("mac2", ("10.1.0.2",))))
VERSIONS = {"draftlight": "1", "python": "3.12", "mlx": "0.32.4", "mlx-lm": "0.32.2"}
CONFIG = {"num_attention_heads": 9, "num_key_value_heads": 3, "num_hidden_layers": 30}


def says(**changes: Any) -> dict[str, Any]:
    known = {"versions": VERSIONS, "memory": 9e9, "taken": [], "found_as": "ab", "need": 12e9, "config": CONFIG}
    return {name: value for name, value in (known | changes).items() if value is not None}


def found(monkeypatch: pytest.MonkeyPatch, *answers: Any, cluster: Cluster = SPREAD) -> list[Finding]:
    monkeypatch.setattr(doctor, "ask", lambda cluster, rank, target, places: answers[rank])
    return check(cluster, "model", links=False)


def test_machines_that_agree_and_have_room_are_fine(monkeypatch: pytest.MonkeyPatch) -> None:
    findings = found(monkeypatch, says(), says(), says())
    assert {finding.state for finding in findings} == {"good"}
    assert "Rank 0 (127.0.0.1) has 9.0 GB of memory free; it needs about 4.0 GB." in [finding.words for finding in findings]
    assert "Rank 2 (mac2) has 9.0 GB of memory free; its 2 ranks need about 8.0 GB." in [finding.words for finding in findings]


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (
            says(versions={**VERSIONS, "mlx": "0.31"}),
            "has other versions than rank 0 (draftlight 1, python 3.12, mlx 0.31,",
        ),
        (says(versions={**VERSIONS, "mlx-lm": None}), "mlx-lm missing"),
        (says(taken=["10.0.0.2:32324"]), "Rank 1 (mac2) cannot listen at 10.0.0.2:32324"),
        (says(found_as="cd"), "Rank 1 (mac2) has another model there than rank 0."),
        (says(found_as=None, problem="There is no model at /m."), "cannot read the model: There is no model at /m. It has to be"),
        (says(memory=7e9), "Rank 1 (mac2) has 7.0 GB of memory free, but its 2 ranks need about 8.0 GB. Add a machine."),
        ("is not reached by ssh (timed out).", "Rank 1 (mac2) is not reached by ssh (timed out)."),
    ],
)
def test_problems_of_a_machine_are_reported(monkeypatch: pytest.MonkeyPatch, answer: Any, words: str) -> None:
    (bad,) = [finding for finding in found(monkeypatch, says(), answer, says()) if finding.state == "bad"]
    assert bad.rank == 1 and words in bad.words


def test_heads_and_layers_that_the_ranks_cannot_share_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    two = of_this_machine(2)
    (bad,) = [finding for finding in found(monkeypatch, says(need=6e9), says(need=6e9), cluster=two) if finding.state == "bad"]
    assert bad.rank is None and "9 attention heads and 3 key and value heads, which 2 ranks cannot share" in bad.words
    pipeline = of_this_machine(2, "pipeline")
    assert all(finding.state == "good" for finding in found(monkeypatch, says(need=6e9), says(need=6e9), cluster=pipeline))
    short = says(config={**CONFIG, "num_hidden_layers": 1})
    assert "has 1 layer, too few" in found(monkeypatch, short, short, cluster=pipeline)[-1].words


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (
            "echo 'ssh: refused' >&2; exit 255",
            "is not reached by ssh (ssh: refused). `ssh mac2`",
        ),
        ("echo 'sh: python3: not found' >&2; exit 127", "has no Draftlight (sh: python3: not found). Install it there"),
        ("exit 3", "could not be asked (it said nothing)."),
        ("""echo 'motd'; echo 'draftlight-about {"memory": 5}'""", {"memory": 5}),
    ],
)
def test_other_machines_are_asked_by_ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str, words: Any) -> None:
    ssh = tmp_path / "ssh"
    ssh.write_text(f"#!/bin/sh\n{body}\n")
    ssh.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    answer = doctor.ask(SPREAD, 1, "model", ["10.0.0.2:32324"])
    assert answer == words if isinstance(words, dict) else words in answer


def test_a_machine_is_asked_in_a_process_of_its_own(tmp_path: Path) -> None:
    alone, missing = Cluster((Host("127.0.0.1", ("192.0.2.1",)),)), tmp_path / "missing"
    versions, taken, model = check(alone, str(missing), links=False)
    assert (versions.state, taken.state, model.state) == ("good", "bad", "bad")
    assert "cannot listen at 192.0.2.1:" in taken.words
    assert f"There is no model at {missing}" in model.words


def test_about_describes_the_machine(tmp_path: Path) -> None:
    folder, file = write_qwen2(tmp_path / "model"), write_gguf(tmp_path / "model.gguf")
    told = about(folder, ["127.0.0.1:0", "192.0.2.1:9"])
    assert told["taken"] == ["192.0.2.1:9"], "an address of documentation, which no machine has"
    assert told["versions"]["mlx"] and told["need"] > 0 and told["config"]["model_type"] == "qwen2"
    again = about(write_qwen2(tmp_path / "copy"), [])
    assert again["found_as"] == told["found_as"]
    assert about(write_qwen2(tmp_path / "other", rope_theta=5.0), [])["found_as"] != told["found_as"]
    assert about(str(file), [])["config"]["num_key_value_heads"] == 2
    assert about(str(tmp_path / "missing"), [])["problem"] == f"There is no model at {tmp_path / 'missing'}."


def test_links_are_measured_by_what_all_ranks_do_together() -> None:
    times = measure(OneProcess())  # type: ignore[arg-type]
    assert set(times) == {"exchange", *map(str, TIMES)}
