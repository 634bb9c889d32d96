"""Fixtures that the chats' tests share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.chats import ChatStore
from tests.engine.chats.homes import Clock


@pytest.fixture
def clock() -> Clock:
    """The clock of `store`."""
    return Clock()


@pytest.fixture
def store(tmp_path: Path, clock: Clock) -> Iterator[ChatStore]:
    """An empty store in a folder of its own."""
    with ChatStore(tmp_path, clock=clock, wait=0.05) as store:
        yield store
