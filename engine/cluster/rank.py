"""How a rank other than 0 begins (`python -m engine.cluster.rank`), shows that it lives, and ends with whoever started it.

It says on standard output when it has joined the others, every `BEAT` seconds that it lives, and why it ends;
`engine.cluster.companions` reads that. It ends when standard input does, whatever it is doing: a thread waits for that, since MLX
computes without Python's lock. One on another machine is first told its variables over standard input, where nobody else sees
them. There the connection may be lost without anybody's closing it: each sign of life is answered, and without answers it ends,
too.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import threading
import time

from engine.cluster.signs import ASKS, BEATS, FAILED, IS_TOLD, LOST_PARENT, say
from engine.errors import DraftlightError
from engine.mlx_import import require_device

BEAT = 0.5
LOOK, ALONE = 1.0, 20.0
"""Seconds between two looks whether anything was heard of whoever started this rank, and how many without it end the rank. Time
is counted in looks: while the machine sleeps, none passes."""


def told() -> dict[str, str]:
    """Asks for variables, and waits for them: a line of JSON on standard input. If that ends, the rank does."""
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
    """Starts the threads that tell that this rank lives, and that end it when standard input ends. `is_answered`: also if
    nothing comes from there for `ALONE` seconds."""

    def listen() -> None:
        """Waits for the end of standard input, or for silence there."""
        silent = 0.0
        with contextlib.suppress(OSError):
            while silent < ALONE:
                if not select.select([0], [], [], LOOK)[0]:
                    silent += LOOK if is_answered else 0.0
                elif os.read(0, 4096):
                    silent = 0.0
                else:
                    break
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
    is_told = IS_TOLD in os.environ
    if is_told:
        os.environ.update(told())
    watch_parent(is_answered=is_told)
    try:
        require_device()
    except DraftlightError as error:
        say(f"{FAILED}{error}")
        os._exit(1)
    from engine.cluster import follower  # takes a second or more, of which the threads tell

    os._exit(follower.main())  # MLX's ring may still wait in a thread of its own


if __name__ == "__main__":
    main()
