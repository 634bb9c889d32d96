"""Fixtures that several of the engine's tests share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engine.desk import Desk
from tests.engine.fakes import FakeBackend


@pytest.fixture
def backend() -> FakeBackend:
    """The backend of `desk`."""
    return FakeBackend()


@pytest.fixture
def desk(home: Path, backend: FakeBackend) -> Iterator[Desk]:
    """An engine over a fake backend."""
    from engine.runtime.worker import Engine

    with Desk(Engine(lambda: backend)) as desk:
        yield desk
        backend.gate = None


@pytest.fixture
def steady_clock() -> Iterator[None]:
    """The clock of the decode loop goes on by a millisecond with each look at it.

    A round takes as long with proposals as without, which speaks for the longest drafts.
    """
    from tests.engine.small_models import ticking_clock

    with ticking_clock():
        yield
