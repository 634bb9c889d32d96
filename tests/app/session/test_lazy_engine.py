"""How one engine takes over from another: the window waits for neither, and no two hold models at once."""

from __future__ import annotations

import threading
from typing import Any, NoReturn, cast

import pytest

from app.session.lazy_engine import LazyEngine
from app.session.settings import Settings
from engine.runtime.process.client import ProcessEngine
from engine.runtime.process.launch import Launch
from engine.runtime.worker import Engine
from engine.types import DrafterReady, Event, LoadFinished, LoadStarted, Message, Request, RunFinished
from engine.values.errors import DraftlightError
from tests.app.fakes import FakeEngine
from tests.engine.fakes import PATIENCE, FakeBackend
from tests.engine.runtime.process.processes import until


class SlowToEnd(FakeEngine):
    """Has not ended before it may. closes: how often it was asked to."""

    def __init__(self) -> None:
        super().__init__()
        self.may_end, self.closes = threading.Event(), 0

    def close(self, timeout: float = 5.0) -> bool:
        self.closes += 1
        return self.may_end.wait(timeout)


@pytest.mark.parametrize("cut_off", [False, True])
def test_an_engine_takes_requests_while_the_one_before_it_ends_and_begins_when_that_is_gone(
    cut_off: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, backend = SlowToEnd(), FakeBackend()
    begun: list[threading.Event] = []

    def make(settings: Settings, after: threading.Event | None) -> Any:
        if after is None:
            return before
        begun.append(after)
        return Engine(cast(Any, lambda: backend), after=after)

    if cut_off:
        monkeypatch.setattr("app.session.lazy_engine.IN_TIME", 0.01)
    engine = LazyEngine(make, Settings())
    engine.load("one", "none")
    run = engine.submit(Request((Message("user", "hello"),)))
    before.hold = True
    engine.replace_engine(Settings(separate_process=True))
    engine.load("two", "none")
    engine.load("three", "none")
    assert engine.is_replacing and not begun[0].is_set()
    if cut_off:  # nobody waits for its answer any longer, but its memory is waited for all the same
        assert until(lambda: not (engine.events() or engine.is_replacing))
        assert until(lambda: before.closes > 1)
    else:
        before.stop(run)
        said: list[Event] = []

        def has_ended() -> bool:
            said.extend(engine.events())
            return any(isinstance(event, RunFinished) for event in said)

        assert until(has_ended)
        assert not any(isinstance(event, (LoadStarted, LoadFinished, DrafterReady)) for event in said)
    assert not begun[0].is_set() and not backend.loads
    before.may_end.set()
    assert until(lambda: not engine.events() and not engine.is_replacing and len(backend.loads) == 2)
    assert begun[0].is_set() and backend.loads == ["two", "three"]
    assert engine.close(PATIENCE)


def test_engines_that_still_wait_for_one_before_them_can_be_closed() -> None:
    before = SlowToEnd()
    started: list[str] = []

    def refuse() -> NoReturn:
        started.append("a process")
        raise DraftlightError("No process is to be started.")

    def make(settings: Settings, after: threading.Event | None) -> Any:
        if after is None:
            return before
        return ProcessEngine(Launch(companions=refuse), after=after) if settings.separate_process else Engine(after=after)

    engine = LazyEngine(make, Settings())
    engine.load("one", "none")
    engine.replace_engine(Settings(separate_process=True))
    engine.load("one", "none")
    engine.replace_engine(Settings())
    engine.load("one", "none")
    assert not engine.close(0.01)
    before.may_end.set()
    assert engine.close(PATIENCE) and not started
