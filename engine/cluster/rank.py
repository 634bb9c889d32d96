"""How a rank other than 0 begins (`python -m engine.cluster.rank`), shows that it lives, and ends with whoever started it.

It says on standard output that it is ready, every `BEAT` seconds that it lives, and why it ends; `engine.cluster.companions`
reads that. It ends when standard input does, whatever it is doing: a thread waits for that, since MLX computes without Python's
lock.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import signal
import threading
import time

MARK = "draftlight-rank "
"""Begins each line that is meant for whoever started this rank; libraries and terminals write others."""
READY, BEATS, FAILED = "ready", "beats", "failed "
BEAT = 0.5
NAP = 0.1
"""Seconds between two looks whether there is work: while it waits for a collective, MLX's ring keeps a core busy."""
LOST_PARENT, LOST_LINKS = 3, 4
"""Exit statuses of a rank that ended because another process did."""
_lock = threading.Lock()


def say(words: str) -> None:
    """A line for whoever started this rank. If nobody reads it any more, the rank ends."""
    try:
        with _lock:
            os.write(1, f"{MARK}{words}\n".encode())
    except OSError:
        os._exit(LOST_PARENT)


def watch_parent() -> None:
    """Starts the threads that tell that this rank lives, and that end it when standard input ends."""

    def listen() -> None:
        """Waits for the end of standard input."""
        with contextlib.suppress(OSError):
            while os.read(0, 4096):
                pass
        os._exit(LOST_PARENT)

    def beat() -> None:
        """Tells again and again that this process is not stopped."""
        while True:
            say(BEATS)
            time.sleep(BEAT)

    for task in (listen, beat):
        threading.Thread(target=task, name=f"draftlight-{task.__name__}", daemon=True).start()


def main() -> None:
    """Becomes the rank that the environment says; does not return."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever asked ends the answer, and this rank with it
    watch_parent()
    follower = importlib.import_module("engine.cluster.follower")  # takes a second or more, of which the threads tell
    os._exit(follower.main())  # MLX's ring may still wait in a thread of its own


if __name__ == "__main__":
    main()
