"""A lock between processes, on a file. The system releases it however a process ends."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

from engine.values.errors import DraftlightError

_RETRY_SECONDS = 0.02


@contextlib.contextmanager
def exclusive_lock(path: Path, refusal: str, wait: float = 0.0, *, private: bool = False) -> Iterator[None]:
    """Holds an exclusive lock on a file, which is created if it is missing.

    Args:
        refusal: message of the error if another holder keeps the lock for more than `wait` seconds.
        private: whether only the user may read a new file; else the umask decides, for models that a group shares.

    Raises:
        DraftlightError: another holder keeps the lock.
        OSError: the file cannot be created.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600 if private else 0o666)
    try:
        deadline = time.monotonic() + wait
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError:
                if time.monotonic() >= deadline:
                    raise DraftlightError(refusal) from None
                time.sleep(_RETRY_SECONDS)
        yield
    finally:
        os.close(descriptor)
