"""Starts, watches and ends the processes of the ranks other than 0. No MLX.

Local ranks are children of the process that starts them, and end when the pipe to their standard input closes. Remote ranks are
started by ssh with a terminal, so that they are hung up when ssh ends. Each rank sends a heartbeat every half second
(`engine.cluster.rank`); a stopped one, or one on an unreachable machine, sends none. A file in the data folder lists the running
processes for `draftlight cluster status`.

MLX gets the members of the group from the variables that `mlx.launch` sets: `MLX_RANK`; `MLX_HOSTFILE` for the ring;
`MLX_IBV_DEVICES`, `MLX_JACCL_COORDINATOR` and `MLX_JACCL_RING` for JACCL.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from engine.cluster.hosts import Cluster
from engine.cluster.signs import ASKS, BEATS, FAILED, LOST_LINKS, MARK, READY, REQUESTS_VARIABLES
from engine.files.paths import data_folder
from engine.files.whole_file import write_whole
from engine.rounds.codec import plain
from engine.runtime.process.launch import Launch, own_python
from engine.values.errors import DraftlightError
from engine.values.wording import capitalised

MODULE = "engine.cluster.rank"
FIRST_PORT = 32323
"""The first port, as in `mlx.launch`."""
SILENCE_TIMEOUT, JOIN_TIMEOUT = 10.0, 60.0
"""Seconds without a heartbeat after which a rank is given up: one that has joined, and one that has not. While MLX waits for
the other ranks to join it holds Python's lock. No heartbeat comes then, however long the slowest machine takes to import
MLX."""
SSH = ("ssh", "-tt", "-o", "LogLevel=ERROR", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10")
_KEPT_LINES = 8


def free_ports(count: int) -> list[int]:
    """Returns ports of this machine at which no program listens now."""
    with contextlib.ExitStack() as opened:
        sockets = [opened.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [int(each.getsockname()[1]) for each in sockets]


def addresses(cluster: Cluster) -> list[list[str]]:
    """Returns the addresses (ip:port) at which each rank listens, numbered as `mlx.launch` does."""
    count = sum(len(host.ips) for host in cluster.hosts)
    if not cluster.port and all(host.is_local for host in cluster.hosts):
        ports = free_ports(count)
    else:
        ports = [(cluster.port or FIRST_PORT) + index for index in range(count)]
    ports_by_host = iter(ports)
    return [[f"{ip}:{next(ports_by_host)}" for ip in host.ips] for host in cluster.hosts]


def links_of(cluster: Cluster) -> tuple[dict[str, str], dict[str, str]]:
    """Returns the settings of the links for every rank: variables, and variables that name a file with this content."""
    variables: dict[str, str] = {"DRAFTLIGHT_LINKS": cluster.backend}
    if cluster.backend == "ring":
        return variables, {"MLX_HOSTFILE": json.dumps(addresses(cluster))}
    variables["MLX_JACCL_COORDINATOR"] = f"{cluster.hosts[0].ips[0]}:{cluster.port or FIRST_PORT}"
    if cluster.backend == "jaccl-ring":
        variables["MLX_JACCL_RING"] = "1"
    return variables, {"MLX_IBV_DEVICES": json.dumps([host.rdma for host in cluster.hosts])}


def in_shell(path: str) -> str:
    """Quotes a path for a shell; a leading ~/ becomes the home directory there."""
    return f'"$HOME"/{shlex.quote(path[2:])}' if path.startswith("~/") else shlex.quote(path)


def remote_script(python: str, rank: int, variables: Mapping[str, str], files: Mapping[str, str]) -> str:
    """Returns the shell script that turns a process on another machine into a rank. It deletes the file of the links after it
    was read.

    All users of both machines can see the script, so the hosts file's variables are sent over standard input
    (`engine.cluster.rank.request_variables`).
    """
    parts = ["stty -echo -icanon min 1", f"export {REQUESTS_VARIABLES}=1"]
    parts += [f"export {name}={shlex.quote(value)}" for name, value in variables.items()]
    for name, content in files.items():
        written = f'{name}="$(mktemp)" && printf %s {shlex.quote(content)} > "${name}"'
        parts.append(f'{written} && export {name} && export DRAFTLIGHT_OWN_FILE="${name}"')
    parts.append(f"export MLX_RANK={rank}")
    parts.append(f"exec {in_shell(python)} -P -m {MODULE}")
    return "; ".join(parts)


class _Rank:
    """One process, and the thread that reads its output.

    Args:
        variables: variables for a rank that requests them, as one started by `remote_script` does.
    """

    def __init__(
        self, name: str, command: Sequence[str], environment: Mapping[str, str] | None, variables: Mapping[str, str]
    ) -> None:
        self.name = name
        self._variables, self._got_variables = variables, False
        self.failed: str | None = None
        self.is_ready = False
        self._lines: list[str] = []
        self._last_check = time.monotonic()
        self._silence, self._counted_beats = 0.0, 0  # seconds of silence, and number of heartbeats so far
        self._beats = 0
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=environment,
            process_group=0,  # Ctrl-C in a terminal is for the parent
        )
        self._reader = threading.Thread(target=self._read, name=f"draftlight-{name}", daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            words = line.decode(errors="replace").strip()
            _, mark, message = words.partition(MARK)
            if not mark:
                self._lines = [*self._lines, words][-_KEPT_LINES:]
                continue
            self._beats += 1
            self.is_ready = self.is_ready or message == READY
            if message == BEATS and self._got_variables:
                self._write("")
            elif message == ASKS:
                self._got_variables = True
                self._write(json.dumps(dict(self._variables)))
            elif message.startswith(FAILED):
                self.failed = message.removeprefix(FAILED)

    def _write(self, line: str) -> None:
        assert self.process.stdin is not None
        with contextlib.suppress(OSError, ValueError):  # the rank has ended, which `failure` reports
            self.process.stdin.write(f"{line}\n".encode())
            self.process.stdin.flush()

    @property
    def ended_with_others(self) -> bool:
        """Whether it ended because another rank ended or its links were lost."""
        return self.process.returncode == LOST_LINKS

    def failure(self, silent: float) -> str | None:
        """Returns why the rank cannot be used any more, as a sentence; None if it can."""
        name = capitalised(self.name)
        if self.process.poll() is not None:
            if self.ended_with_others:
                return "Rank 0 of the cluster has ended, or the connection to it was lost."
            self._reader.join(1.0)
            reason = f": {self.failed or self._last_line()}" if self.failed or self._lines else ""
            return f"{name} of the cluster has ended{reason.rstrip('.')}."
        now, last_check = time.monotonic(), self._last_check
        self._last_check = now
        if self._counted_beats != self._beats:
            self._counted_beats, self._silence = self._beats, 0.0
        else:
            self._silence += min(now - last_check, 1.0)  # limited, since a suspended process has not waited
        if self._silence > (silent if self.is_ready else JOIN_TIMEOUT):
            return f"{name} of the cluster has not answered for {self._silence:.0f} s, so it was given up."
        return None

    def _last_line(self) -> str:
        """Returns the last line of its output, without the repeated messages of MLX's ring."""
        lines = [line for line in self._lines if line and not line.startswith("[ring]")]
        return lines[-1] if lines else f"status {self.process.returncode}"

    def end(self) -> None:
        """Kills and reaps the process, even if it is stopped."""
        self.process.kill()
        self.process.wait()
        self._reader.join(5.0)
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()


class Ranks:
    """The followers of one cluster, as `engine.runtime.process.launch.Companions`.

    Args:
        silent: seconds without a heartbeat after which a rank is given up.
        command: starts the local ranks; tests replace the default.
    """

    def __init__(self, cluster: Cluster, silent: float = SILENCE_TIMEOUT, command: Sequence[str] = ()) -> None:
        self._cluster, self._silent, self._command = cluster, silent, command or own_python(MODULE)
        self._ranks: list[_Rank] = []
        self._files: list[Path] = []
        self._stopping = threading.Lock()

    @property
    def pids(self) -> list[int]:
        """Process ids of the followers on this machine, including those of ssh."""
        return [rank.process.pid for rank in self._ranks]

    @property
    def have_joined(self) -> bool:
        """Whether all followers have said that they are connected to the others."""
        return all(rank.is_ready for rank in self._ranks)

    def start(self) -> Mapping[str, str]:
        """Starts them, without waiting for them, and returns the environment that rank 0 needs.

        Raises:
            DraftlightError: one cannot be started.
        """
        variables, files = links_of(self._cluster)
        stated = dict(setting.partition("=")[::2] for setting in self._cluster.envs)
        local = stated | variables
        for name, content in files.items():
            descriptor, path = tempfile.mkstemp(prefix="draftlight-", suffix=".json")
            self._files.append(Path(path))
            with os.fdopen(descriptor, "w") as file:
                file.write(content)
            local[name] = path
        try:
            for rank, host in enumerate(self._cluster.hosts[1:], start=1):
                command = [*self._command]
                environment: Mapping[str, str] | None = {**os.environ, **local, "MLX_RANK": str(rank)}
                if not host.is_local:
                    command = [*SSH, host.ssh, remote_script(self._cluster.python, rank, variables, files)]
                    environment = None
                self._ranks.append(_Rank(self._cluster.name_of(rank), command, environment, stated))
            self._write_record()
        except OSError as error:
            self.stop()
            raise DraftlightError(f"A rank of the cluster cannot be started: {error.strerror or error}.") from error
        return {**local, "MLX_RANK": "0"}

    def failure(self) -> str | None:
        """Returns why the answer has to end; None while all ranks live. A rank that ended by itself takes precedence."""
        failures = [
            (rank.ended_with_others, failure) for rank in self._ranks if (failure := rank.failure(self._silent)) is not None
        ]
        return min(failures, key=lambda entry: entry[0])[1] if failures else None

    def stop(self) -> None:
        """Kills all followers and waits for their end."""
        with self._stopping:
            while self._ranks:
                self._ranks[-1].end()
                self._ranks.pop()
            while self._files:
                with contextlib.suppress(OSError):
                    self._files.pop().unlink(missing_ok=True)

    def _write_record(self) -> None:
        """Writes the list of running processes for `running`; it is removed with the other files."""
        path = _records_folder() / f"{os.getpid()}-{id(self)}.json"
        self._files.append(path)
        entry = {
            "starter": os.getpid(),
            "followers": self.pids,
            "commands": {str(pid): _command_of(pid) for pid in (os.getpid(), *self.pids)},
            "began": time.time(),
            "cluster": plain(self._cluster),
        }
        write_whole(path, json.dumps(entry), private=True, durable=False)


def launch_for(cluster: Cluster, measures: bool = False, silent: float = SILENCE_TIMEOUT) -> Launch:
    """Returns how an `engine.runtime.process.client.ProcessEngine` starts rank 0 and, with it, the others."""
    return Launch(
        engine="engine.cluster.backend:engine",
        arguments={"cluster": plain(cluster), "measures": measures},
        companions=partial(Ranks, cluster, silent),
    )


def _records_folder() -> Path:
    return data_folder() / "cluster"


def running() -> list[dict[str, Any]]:
    """Returns the clusters that were started on this machine and still run, oldest first: pid of the `starter`, pids of its
    `followers`, start time `began` (seconds since 1970), `cluster` as in a hosts file, and the pids that are `alive`. Deletes
    the files of clusters that have ended."""
    clusters = []
    for path in sorted(_records_folder().glob("*.json")) if _records_folder().is_dir() else []:
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            entry = json.loads(path.read_text())
            started = {int(pid): command for pid, command in entry["commands"].items()}
            entry["alive"] = [pid for pid, command in started.items() if command and _command_of(pid) == command]
            if entry["alive"]:
                clusters.append(entry)
            else:
                path.unlink(missing_ok=True)
    return sorted(clusters, key=lambda entry: float(entry["began"]))


def _command_of(pid: int) -> str:
    """Returns the command line of a process, which detects a reused pid; empty if there is no such process."""
    if sys.platform == "linux":  # minimal systems lack ps
        with contextlib.suppress(OSError):
            return Path(f"/proc/{pid}/cmdline").read_text(errors="replace").replace("\0", " ").strip()
        return ""
    command = ("ps", "-ww", "-o", "command=", "-p", str(pid))  # not limited to the width of the terminal
    result = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    return result.stdout.strip()
