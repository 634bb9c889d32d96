"""The command line over a fake model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

from engine.runtime.worker import Engine
from tests.engine.fakes import FakeBackend

Backend = TypeVar("Backend", bound=FakeBackend)


@pytest.fixture
def use(home: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Backend], Backend]:
    """Makes commands in this process use a backend; `home` is their data folder."""

    def used(backend: Backend) -> Backend:
        monkeypatch.setattr("engine.runtime.worker.Engine", lambda: Engine(lambda: backend))
        # The log file would be left open in a folder that is about to vanish.
        monkeypatch.setattr("app.cli.entry.log_to_file", lambda: None)
        return backend

    return used


@pytest.fixture
def backend(use: Callable[[FakeBackend], FakeBackend]) -> FakeBackend:
    return use(FakeBackend())
