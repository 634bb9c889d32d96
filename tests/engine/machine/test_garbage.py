"""The garbage collector is off exactly as long as requested."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from engine.machine import garbage
from engine.machine.garbage import without_collecting


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    automatic = gc.isenabled()
    gc.enable()
    yield
    if not automatic:
        gc.disable()


def test_collection_is_off_inside_and_on_again_after_an_error() -> None:
    def fail() -> None:
        with without_collecting():
            assert not gc.isenabled() and garbage.is_suspended()
            with without_collecting():
                pass
            assert not gc.isenabled(), "the outer one decides"
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert gc.isenabled() and not garbage.is_suspended()


def test_collection_that_was_off_stays_off() -> None:
    gc.disable()
    with without_collecting():
        pass
    assert not gc.isenabled()


def test_frozen_objects_are_not_collected(real_freezing: None) -> None:
    with without_collecting(freeze=True):
        kept = [[] for _ in range(1000)]
    assert gc.get_freeze_count() >= len(kept)


def test_collect_does_nothing_while_automatic_collection_is_off() -> None:
    class Loop:
        def __init__(self) -> None:
            self.itself = self

    left = weakref.ref(Loop())
    gc.disable()
    garbage.collect()
    assert left() is not None
    gc.enable()
    garbage.collect()
    assert left() is None
