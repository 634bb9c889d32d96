"""Lines that a rank other than 0 writes to standard output for the process that started it, and how the rank ends. No MLX."""

from __future__ import annotations

import os
import threading

MARK = "draftlight-rank "
"""Begins each line for the process that started this rank; libraries and terminals write other lines."""
READY, BEATS, ASKS, FAILED = "ready", "beats", "asks", "failed "
REQUESTS_VARIABLES = "DRAFTLIGHT_TOLD"
"""Environment variable set for a rank that must request its variables."""
NAP = 0.1
"""Polling interval in seconds for new orders: while it waits for a collective, MLX's ring keeps a core busy."""
LOST_PARENT, LOST_LINKS = 3, 4
"""Exit statuses of a rank that ended because another process did."""
_lock = threading.Lock()


def say(words: str) -> None:
    """Writes a line for the process that started this rank. The rank ends if the pipe is closed."""
    try:
        with _lock:
            os.write(1, f"{MARK}{words}\n".encode())
    except OSError:
        os._exit(LOST_PARENT)
