"""Holding the garbage collector off while very many objects are made that all stay."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_collecting() -> Iterator[None]:
    """No collection meanwhile. Reading a long trace makes hundreds of thousands of objects; walking over all of them again and
    again would take as long as the reading itself."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()
