"""Holding the garbage collector off while very many objects are made that all stay."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_collecting(settle: bool = False) -> Iterator[None]:
    """No collection meanwhile. Reading a long trace makes a million objects; walking over all of them again and again would take
    as long as the reading itself.

    Args:
        settle: leave out whatever is alive at the end from later collections, too. `gc.unfreeze` takes it in again; until then
            reference cycles among it stay.
    """
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if settle:
            gc.freeze()
        if was:
            gc.enable()
