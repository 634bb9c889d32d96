"""How ranks are started and ended, with small scripts in their place: no MLX."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from engine.cluster import companions
from engine.cluster.companions import Ranks, addresses, launch_for, links_of, remote_script, running
from engine.cluster.hosts import Cluster, Host, cluster_of
from engine.cluster.signs import LOST_PARENT
from engine.values.errors import DraftlightError
from tests.engine.cluster.models import of_this_machine
from tests.engine.fakes import PATIENCE
from tests.engine.runtime.process.processes import is_alive, until

ROOT = Path(__file__).parents[3]
SPREAD = Cluster((Host("127.0.0.1", ("10.0.0.1",)), Host("mac2", ("10.0.0.2", "10.1.0.2"))), python="/opt/a b/python")


def script(tmp_path: Path, body: str) -> list[str]:
    """What is started in place of a rank of this machine."""
    path = tmp_path / "rank"
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return [str(path)]


def rank_that(body: str) -> str:
    """A program that has `engine.cluster.rank`, does something and sleeps; it ends long before MLX would be imported."""
    start = f"import json, os, sys, time; sys.path.insert(0, {str(ROOT)!r}); from engine.cluster import rank, signs"
    return f"{start}\n{body}\ntime.sleep({PATIENCE})\n"


def test_a_rank_that_ends_is_named_with_what_it_said_last(home: Path, tmp_path: Path) -> None:
    said = "echo noise; echo '[ring] Socket 3 was closed by the peer'; echo 'draftlight-rank failed The model is not there.'"
    ranks = Ranks(of_this_machine(3), command=script(tmp_path, f'[ "$MLX_RANK" = 2 ] && {{ {said}; exit 1; }}; exec cat'))
    try:
        environment = ranks.start()
        assert environment["MLX_RANK"] == "0"
        assert [len(rank) for rank in json.loads(Path(environment["MLX_HOSTFILE"]).read_text())] == [1, 1, 1]
        assert until(lambda: ranks.failure() is not None)
        failure = ranks.failure() or ""
        assert failure.startswith("Rank 2 (127.0.0.1)") and failure.endswith("The model is not there.")
        assert running()[0]["followers"] == ranks.pids
        assert os.getpgid(ranks.pids[0]) != os.getpgrp(), "Ctrl-C is not for the ranks"
    finally:
        processes = ranks.pids
        ranks.stop()
    assert not Path(environment["MLX_HOSTFILE"]).exists()
    assert not running()
    assert not any(is_alive(process) for process in processes)
    ranks.stop()


@pytest.mark.parametrize(
    ("status", "words"), [(9, "Rank 2 (127.0.0.1) of the cluster has ended: status 9."), (4, "Rank 0 of the")]
)
def test_ranks_that_ended_because_another_did_are_not_blamed(home: Path, tmp_path: Path, status: int, words: str) -> None:
    ranks = Ranks(of_this_machine(3), command=script(tmp_path, f'echo "[ring]"; [ "$MLX_RANK" = 1 ] && exit 4; exit {status}'))
    try:
        ranks.start()
        assert until(lambda: not any(map(is_alive, ranks.pids)))
        assert (ranks.failure() or "").startswith(words)
    finally:
        ranks.stop()


def test_suspended_rank_is_reported_and_killed(home: Path, tmp_path: Path) -> None:
    beats = "echo draftlight-rank ready; while :; do echo draftlight-rank beats; sleep 0.05; done"
    ranks = Ranks(of_this_machine(2), silent=0.5, command=script(tmp_path, beats))
    try:
        ranks.start()
        assert until(lambda: ranks.have_joined)
        assert ranks.failure() is None
        (process,) = ranks.pids
        os.kill(process, signal.SIGSTOP)
        assert until(lambda: ranks.failure() is not None)
        assert "Rank 1 (127.0.0.1) of the cluster has not answered for" in (ranks.failure() or "")
    finally:
        ranks.stop()
    assert not is_alive(process)


def test_a_rank_that_waits_for_the_others_to_join_is_not_given_up(home: Path, tmp_path: Path) -> None:
    """MLX keeps Python's lock meanwhile, so the rank is as silent as a stopped one."""
    ranks = Ranks(of_this_machine(2), silent=0.1, command=script(tmp_path, "echo draftlight-rank beats; exec sleep 60"))
    try:
        ranks.start()
        began = time.monotonic()
        assert until(lambda: ranks.failure() is not None or time.monotonic() - began > 0.4)
        assert ranks.failure() is None and not ranks.have_joined
    finally:
        ranks.stop()


def test_failed_start_leaves_no_process_or_file(home: Path, tmp_path: Path) -> None:
    ranks = Ranks(of_this_machine(2), command=[str(tmp_path / "missing")])
    with pytest.raises(DraftlightError, match="A rank of the cluster cannot be started: No such file"):
        ranks.start()
    assert not ranks.pids and not running()


def test_records_of_dead_clusters_are_deleted(home: Path) -> None:
    (home / "cluster").mkdir()
    gone = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True)
    entry = {
        "starter": int(gone.stdout),
        "followers": [],
        "commands": {gone.stdout.decode().strip(): "x"},
        "began": 1.0,
        "cluster": {},
    }
    (home / "cluster" / "1.json").write_text(json.dumps(entry))
    (home / "cluster" / "2.json").write_text("{")
    assert running() == []
    assert [path.name for path in (home / "cluster").iterdir()] == ["2.json"]


def test_ports_are_free_ones_here_and_those_of_mlx_launch_elsewhere() -> None:
    here = [int(place.rpartition(":")[2]) for rank in addresses(of_this_machine(4)) for place in rank]
    assert len(set(here)) == 4
    for port in here:
        with socket.socket() as listening:
            listening.bind(("127.0.0.1", port))
    assert addresses(SPREAD) == [["10.0.0.1:32323"], ["10.0.0.2:32324", "10.1.0.2:32325"]]


def test_another_machine_becomes_a_rank_by_its_shell(tmp_path: Path) -> None:
    """The script is run by a real shell, with a stand-in for the interpreter that shows what it got."""
    shown = tmp_path / "a 'b' python"
    shown.write_text('#!/bin/sh\necho "$@"; echo "$MLX_RANK $DRAFTLIGHT_LINKS $QUOTED"; cat "$MLX_HOSTFILE"\n')
    shown.chmod(0o755)
    variables, files = links_of(SPREAD)
    script = remote_script(str(shown), 1, {**variables, "QUOTED": "it's $HOME"}, files)
    ran = subprocess.run(
        ["sh", "-c", script],
        capture_output=True,
        text=True,
        check=True,
        env={"PATH": os.environ["PATH"], "TMPDIR": str(tmp_path)},
    )
    assert ran.stdout.splitlines() == ["-P -m engine.cluster.rank", "1 ring it's $HOME", json.dumps(addresses(SPREAD))]


def test_jaccl_gets_the_variables_that_mlx_launch_sets() -> None:
    hosts = [
        {"ssh": "127.0.0.1", "ips": ["10.0.0.1"], "rdma": [None, "rdma_en5"]},
        {"ssh": "mac2", "ips": [], "rdma": ["rdma_en5", None]},
    ]
    variables, files = links_of(cluster_of({"hosts": hosts, "backend": "jaccl-ring"}))
    assert variables == {"DRAFTLIGHT_LINKS": "jaccl-ring", "MLX_JACCL_COORDINATOR": "10.0.0.1:32323", "MLX_JACCL_RING": "1"}
    assert files == {"MLX_IBV_DEVICES": '[[null, "rdma_en5"], ["rdma_en5", null]]'}


def test_another_machine_is_reached_by_ssh(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in for ssh on the path runs what it is given in a shell here, as the other machine's would."""
    ssh = tmp_path / "ssh"
    ssh.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/arguments\nfor last; do :; done\nexec sh -c "$last"\n')
    python = tmp_path / "python"
    # A real rank up to where MLX would be imported, which then shows its variables.
    told = tmp_path / "told"
    body = f"""
os.environ.update(rank.request_variables())
rank.say(signs.READY)
rank.say(signs.BEATS)
answer = os.read(0, 1).decode()
rank.watch_parent(is_answered=True)
with open("{told}.new", "w") as file:
    json.dump([os.environ["TOKEN"], answer], file)
os.rename("{told}.new", "{told}")
"""
    python.write_text(f"#!{sys.executable} -I\n{rank_that(body)}")
    for program in (ssh, python):
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    secret = 'it\'s "a" $HOME\nsecret \N{SNOWMAN}'
    ranks = Ranks(Cluster(SPREAD.hosts, python=str(python), envs=(f"TOKEN={secret}",)))
    try:
        ranks.start()
        assert until(lambda: ranks.have_joined)
        assert ranks.failure() is None
        arguments = (tmp_path / "arguments").read_text()
        assert arguments.startswith("-tt -o LogLevel=ERROR -o BatchMode=yes -o ConnectTimeout=10 mac2 stty")
        assert "TOKEN" not in arguments and "secret" not in arguments
        assert until(told.exists) and json.loads(told.read_text()) == [secret, "\n"]
    finally:
        ranks.stop()


@pytest.mark.parametrize("is_answered", [False, True])
def test_rank_without_answers_from_its_parent_ends(is_answered: bool) -> None:
    body = f"rank.POLL_INTERVAL, rank.SILENCE_LIMIT, rank.BEAT = 0.02, 0.1, 0.1\nrank.watch_parent({is_answered})\n"
    command = [sys.executable, "-I", "-c", rank_that(body)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None and process.stdout is not None
        beats = [line for line, _ in zip(process.stdout, range(5), strict=False)]
        if is_answered:
            assert process.wait(PATIENCE) == LOST_PARENT
        else:
            assert len(beats) == 5 and process.poll() is None
            process.stdin.close()
            assert process.wait(PATIENCE) == LOST_PARENT


def test_a_launch_names_an_engine_that_can_be_made_from_json() -> None:
    launch = launch_for(SPREAD)
    assert cluster_of(json.loads(json.dumps(launch.arguments["cluster"]))) == SPREAD
    assert launch.engine == "engine.cluster.backend:engine"
    assert launch.companions is not None and isinstance(launch.companions(), companions.Ranks)


@pytest.mark.skipif(shutil.which("ps") is None, reason="a bare machine has no ps")
def test_command_of_a_process_is_read_in_full(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there is no /proc."""
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setenv("COLUMNS", "20")
    ranks = Ranks(of_this_machine(2), command=[sys.executable, "-c", "input()", "a" * 200])
    try:
        ranks.start()
        (entry,) = running()
        assert entry["commands"][str(ranks.pids[0])].endswith(f"input() {'a' * 200}")
    finally:
        ranks.stop()
