"""Who collects garbage, and when: holding it off while very many objects are made that all stay, and collecting where one may."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_lock = threading.Lock()
_holding = 0


@contextmanager
def without_collecting(settle: bool = False) -> Iterator[None]:
    """No collection meanwhile. Reading a long trace makes a million objects; walking over all of them again and again would take
    as long as the reading itself.

    Args:
        settle: leave out whatever is alive at the end from later collections, too. `gc.unfreeze` takes it in again; until then
            reference cycles among it stay.
    """
    global _holding
    was = gc.isenabled()
    gc.disable()
    with _lock:
        _holding += 1
    try:
        yield
    finally:
        with _lock:
            _holding -= 1
        if settle:
            gc.freeze()
        if was:
            gc.enable()


def held_off() -> bool:
    """Whether somebody is `without_collecting`."""
    return _holding > 0


def collect() -> None:
    """Collects all garbage, unless automatic collection is off: then the window decides when, for objects of Qt may die in its
    own thread only."""
    if gc.isenabled():
        gc.collect()
