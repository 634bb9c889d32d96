"""Starts the process of an engine, and holds the client's end of it."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from multiprocessing.connection import Client, Connection
from pathlib import Path
from typing import IO, Any, Protocol

from engine.values.errors import DraftlightError

_ROOT = Path(__file__).resolve().parents[3]
_START = "import importlib, sys; sys.path.insert(0, sys.argv.pop(1)); importlib.import_module(sys.argv.pop(1)).main()"
_CHILD = "engine.runtime.process.child"
MAX_ADDRESS_LENGTH = 100
"""Maximum length of a socket path, in bytes, on every supported system."""


def is_python() -> bool:
    """Returns whether the executable is a Python that takes options; in the macOS application it is the application itself."""
    return Path(sys.executable).name.lower().startswith("python")


def own_python(module: str) -> tuple[str, ...]:
    """Returns the command that runs `main` of a module with this Python and this code; further arguments can be appended.

    In the application for macOS `--engine-process` is handled by its own start-up code
    (`packaging/macos/draftlight/__main__.py`).
    """
    if not is_python():
        return (sys.executable, "--engine-process", module)
    # Not from the current folder, which may contain another `engine`.
    return (sys.executable, "-I" if sys.flags.isolated else "-P", "-c", _START, str(_ROOT), module)


EXIT_TIMEOUT = 1.0
"""Seconds that a process may take to end after its channel is closed; a core dump takes some."""


class Companions(Protocol):
    """Processes that start and end with the engine's: the other ranks of a cluster."""

    def start(self) -> Mapping[str, str]:
        """Starts them without waiting for the engine's process; returns environment variables for it. Raises
        DraftlightError."""

    def failure(self) -> str | None:
        """Returns why the engine cannot continue, as a sentence for users; None if all is well. Called several times a
        second."""

    def stop(self) -> None:
        """Ends all of them, whatever they are doing, and waits for their end. Has no effect if they were not started or have
        ended."""


@dataclass(frozen=True, slots=True)
class Launch:
    """Description of how to start an engine's process.

    Attributes:
        engine: "module:function" that creates the engine in the process; it is called with the arguments.
        arguments: JSON values.
        command: runs `engine.runtime.process.child.main`. environment: variables added to those of this process.
        companions: creates the processes that start and end with it, new ones each time.
    """

    engine: str = "engine.runtime.process.child:local_engine"
    arguments: Mapping[str, Any] = field(default_factory=dict)
    command: tuple[str, ...] = field(default_factory=partial(own_python, _CHILD))
    environment: Mapping[str, str] = field(default_factory=dict)
    companions: Callable[[], Companions] | None = None


class Child:
    """A started process: the channel to it, and its end.

    Address and key of the channel are secret, so they are written to its standard input. That stays open while the parent
    lives.

    Attributes:
        was_killed: whether it had to be killed in `reap`.
    """

    def __init__(self, launch: Launch, environment: Mapping[str, str]) -> None:
        """`environment`: variables from its companions. Raises DraftlightError if it cannot be started."""
        try:
            self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed when the process is buried
        except OSError as error:
            raise _no_folder(error) from error
        try:
            self.process = subprocess.Popen(
                launch.command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                env={**os.environ, **launch.environment, **environment},
                # Ctrl-C in a terminal is for the parent. A process group of its own, but in this session, gets a signal from
                # the kernel when the parent dies, even if the group was stopped.
                process_group=0,
            )
        except OSError as error:
            self._errors.close()
            raise DraftlightError(f"The process that runs models could not be started ({error.strerror}).") from error
        self._launch = launch
        self._lock = threading.Lock()
        self._is_reaped = False
        self.was_killed = False

    def connect(self) -> Connection:
        """Returns the channel once the process has opened it. Raises OSError or EOFError if the process ends before."""
        assert self.process.stdin is not None and self.process.stdout is not None
        key = secrets.token_bytes(32)
        try:
            folder = tempfile.mkdtemp(prefix="draftlight-")  # accessible to this user only
            if len(os.fsencode(folder)) + len("/engine") > MAX_ADDRESS_LENGTH:
                os.rmdir(folder)
                folder = tempfile.mkdtemp(prefix="draftlight-", dir="/tmp")
        except OSError as error:
            raise _no_folder(error) from error
        try:
            address = os.path.join(folder, "engine")
            hello = {
                "address": address,
                "key": key.hex(),
                "engine": self._launch.engine,
                "arguments": dict(self._launch.arguments),
            }
            self.process.stdin.write(json.dumps(hello).encode() + b"\n")
            self.process.stdin.flush()
            if not self.process.stdout.read(1):
                raise EOFError
            return Client(address, "AF_UNIX", authkey=key)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def processor_seconds(self) -> float | None:
        """Seconds of CPU time that the process has used; None if unknown."""
        try:
            return processor_seconds(self.process.pid)
        except (OSError, ValueError, IndexError, subprocess.SubprocessError):
            return None

    def kill(self) -> None:
        """Kills the process and everything it started."""
        with self._lock, suppress(ProcessLookupError, PermissionError):  # macOS raises the latter for a group of zombies
            if not self._is_reaped:  # afterwards its number may belong to another process
                os.killpg(self.process.pid, signal.SIGKILL)

    def reap(self) -> tuple[int, str]:
        """Waits for the end of the process; returns its exit status and the end of its standard error."""
        try:
            self.process.wait(EXIT_TIMEOUT)
        except subprocess.TimeoutExpired:
            self.was_killed = True
            self.kill()
        status = self.process.wait()
        self.kill()  # also what it has left behind
        with self._lock:
            self._is_reaped = True
        for pipe in (self.process.stdin, self.process.stdout):
            with suppress(OSError):
                pipe.close()  # type: ignore[union-attr]
        length = self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(0, length - 20_000))
        with self._errors:
            return status, self._errors.read().decode(errors="replace")


def _no_folder(error: OSError) -> DraftlightError:
    return DraftlightError(
        f"No temporary file can be written ({error.strerror or error}), so models cannot run in a process. Make room on the disk."
    )


def processor_seconds(process_id: int) -> float:
    """Returns the seconds of CPU time that a process has used, in the system's resolution. Raises OSError, ValueError,
    IndexError or SubprocessError if they cannot be determined."""
    if sys.platform == "linux":
        fields = Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    command = ("ps", "-o", "time=", "-p", str(process_id))
    environment = {**os.environ, "LC_ALL": "C"}  # other locales may use a decimal comma
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=5)
    days, _, clock = result.stdout.strip().rpartition("-")
    seconds = 0.0
    for part in clock.split(":"):
        seconds = 60 * seconds + float(part)
    return 86_400 * int(days or 0) + seconds
