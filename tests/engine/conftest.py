"""Fixtures that several of the engine's tests share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.engine.desk import Desk
from tests.engine.fakes import PATIENCE, FakeBackend

if TYPE_CHECKING:
    from engine.runtime.worker import Engine


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


@pytest.fixture(scope="module")
def real_engine() -> Iterator[Engine]:
    """The real engine, which keeps its models from test to test of a module."""
    from engine.runtime.worker import Engine

    engine = Engine()
    yield engine
    assert engine.close(PATIENCE)


@pytest.fixture
def real_desk(real_engine: Engine, home: Path) -> Desk:
    """The real engine; the traces of each test go to a folder of its own."""
    return Desk(real_engine)


@pytest.fixture
def steady_clock() -> Iterator[None]:
    """The clock of the decode loop goes on by a millisecond with each look at it.

    A round takes as long with proposals as without, which speaks for the longest drafts.
    """
    from tests.engine.small_models import ticking_clock

    with ticking_clock():
        yield
