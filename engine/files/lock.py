"""One at a time: a lock on a file. The system lets go of it however a process ends."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

from engine.values.errors import DraftlightError

_PAUSE = 0.02


@contextlib.contextmanager
def alone(path: Path, refusal: str, wait: float = 0.0, *, private: bool = False) -> Iterator[None]:
    """Nobody else is inside meanwhile, with this file, which is made if it is missing.

    Args:
        refusal: the message where somebody else is inside for more than `wait` seconds.
        private: whether only the user may read a file that is made; else the user's mask says, as where a group shares models.

    Raises:
        DraftlightError: somebody else is.
        OSError: no file can be made.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600 if private else 0o666)
    try:
        until = time.monotonic() + wait
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError:
                if time.monotonic() >= until:
                    raise DraftlightError(refusal) from None
                time.sleep(_PAUSE)
        yield
    finally:
        os.close(descriptor)
