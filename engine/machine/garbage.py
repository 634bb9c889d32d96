"""Controls garbage collection: pauses it while a great many long-lived objects are made, and collects where it is safe."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_lock = threading.Lock()
_suspended = 0


@contextmanager
def without_collecting(freeze: bool = False) -> Iterator[None]:
    """Suspends garbage collection in the context. Reading a long trace makes a million objects; repeated collections would take
    as long as the reading itself.

    Args:
        freeze: also exclude all objects that are alive at the end from later collections (`gc.freeze`), until `gc.unfreeze` is
            called; reference cycles among them stay until then.
    """
    global _suspended
    was_enabled = gc.isenabled()
    gc.disable()
    with _lock:
        _suspended += 1
    try:
        yield
    finally:
        with _lock:
            _suspended -= 1
        if freeze:
            gc.freeze()
        if was_enabled:
            gc.enable()


def is_suspended() -> bool:
    """Returns whether any thread is inside `without_collecting`."""
    return _suspended > 0


def collect() -> None:
    """Collects all garbage, unless automatic collection is off: then the window decides when, because Qt objects must be
    destroyed in its thread."""
    if gc.isenabled():
        gc.collect()
