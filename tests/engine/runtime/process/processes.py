"""Helpers that find out whether processes live, and stop them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tests.engine.fakes import PATIENCE


def state(process_id: int) -> str:
    """Its state as `ps` has it: R, S, T where it is stopped, Z where it has ended unasked about; empty where there is none."""
    if sys.platform == "linux":
        try:
            return Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return ""
    return subprocess.run(("ps", "-o", "stat=", "-p", str(process_id)), capture_output=True, text=True).stdout.strip()


def is_alive(process_id: int) -> bool:
    """Whether it runs or is stopped. One that has ended and that nobody has asked about yet is not alive."""
    return state(process_id)[:1] not in ("", "Z", "X")


def stop(process_id: int) -> None:
    """Stops it for good, and waits until it is: the kernel tells only those of their orphanage that are stopped by then."""
    os.kill(process_id, signal.SIGSTOP)
    assert until(lambda: state(process_id)[:1] in ("T", "", "Z"))


def until(holds: Callable[[], bool]) -> bool:
    """Waits for something that another process does; whether it came."""
    deadline = time.monotonic() + PATIENCE
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.005)
    return True
