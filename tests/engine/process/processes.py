"""Whether processes live, for tests that end them."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tests.engine.fakes import PATIENCE


def is_alive(process_id: int) -> bool:
    """Whether it runs or is stopped. One that has ended and that nobody has asked about yet is not alive."""
    try:
        os.kill(process_id, 0)
        return sys.platform != "linux" or Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (ProcessLookupError, FileNotFoundError):
        return False


def until(holds: Callable[[], bool]) -> bool:
    """Waits for something that another process does; whether it came."""
    deadline = time.monotonic() + PATIENCE
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.005)
    return True
