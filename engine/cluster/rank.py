"""Starts a rank other than 0 (`python -m engine.cluster.rank`), sends its heartbeat, and ends it when its parent ends.

On standard output the rank reports that it has joined the others, a heartbeat every `BEAT` seconds, and why it ends;
`engine.cluster.companions` reads that. The rank ends when its standard input closes, even while it computes: a thread watches
the input, because MLX computes without the GIL. A remote rank first receives its variables over standard input, where no other
user can see them. A remote connection may be lost without being closed, so each heartbeat is answered, and the rank also ends
without answers.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import threading
import time

from engine.cluster.signs import ASKS, BEATS, FAILED, LOST_PARENT, REQUESTS_VARIABLES, say
from engine.machine.mlx_import import require_device
from engine.values.errors import DraftlightError

BEAT = 0.5
POLL_INTERVAL, SILENCE_LIMIT = 1.0, 20.0
"""Polling interval in seconds for messages from the parent, and seconds without any after which the rank ends. Silence is
counted in polls, so that sleep of the machine does not count."""


def request_variables() -> dict[str, str]:
    """Requests the variables and returns them: a line of JSON on standard input. Ends the rank if the input closes."""
    say(ASKS)
    line = b""
    with contextlib.suppress(OSError):
        while not line.endswith(b"\n"):
            if not (byte := os.read(0, 1)):
                break
            line += byte
    if not line.endswith(b"\n"):
        os._exit(LOST_PARENT)
    return json.loads(line)


def watch_parent(is_answered: bool = False) -> None:
    """Starts two threads: one sends the heartbeat, the other ends this rank when standard input closes. `is_answered`: also
    ends it if nothing arrives there for `SILENCE_LIMIT` seconds."""

    def listen() -> None:
        """Waits for the end of standard input, or for silence there."""
        silent = 0.0
        with contextlib.suppress(OSError):
            while silent < SILENCE_LIMIT:
                if not select.select([0], [], [], POLL_INTERVAL)[0]:
                    silent += POLL_INTERVAL if is_answered else 0.0
                elif os.read(0, 4096):
                    silent = 0.0
                else:
                    break
        os._exit(LOST_PARENT)

    def beat() -> None:
        """Sends the heartbeat."""
        while True:
            say(BEATS)
            time.sleep(BEAT)

    for task in (listen, beat):
        threading.Thread(target=task, name=f"draftlight-{task.__name__}", daemon=True).start()


def main() -> None:
    """Becomes the rank that the environment describes; does not return."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends the answer, and then this rank
    requests_variables = REQUESTS_VARIABLES in os.environ
    if requests_variables:
        os.environ.update(request_variables())
    watch_parent(is_answered=requests_variables)
    try:
        require_device()
    except DraftlightError as error:
        say(f"{FAILED}{error}")
        os._exit(1)
    from engine.cluster import follower  # takes a second or more, while the threads send heartbeats

    os._exit(follower.main())  # MLX's ring may still wait on another thread


if __name__ == "__main__":
    main()
