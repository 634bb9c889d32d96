"""The collector is off exactly as long as it was asked to be."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from engine.garbage import without_collecting


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    yield
    gc.enable()
    gc.unfreeze()


def test_it_is_off_inside_and_on_again_even_after_an_error() -> None:
    def fail() -> None:
        with without_collecting():
            assert not gc.isenabled()
            with without_collecting():
                pass
            assert not gc.isenabled(), "the outer one decides"
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert gc.isenabled()


def test_who_had_it_off_keeps_it_off() -> None:
    gc.disable()
    with without_collecting():
        pass
    assert not gc.isenabled()


def test_what_settled_is_left_out_of_collections() -> None:
    gc.unfreeze()
    with without_collecting(settle=True):
        kept = [[] for _ in range(1000)]
    assert gc.get_freeze_count() >= len(kept)
