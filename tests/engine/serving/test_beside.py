"""What is shown of a round is worked out beside the next one, and reported in order."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Generator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from engine.decode.context import DecodeContext
from engine.decode.outcome import RoundOutcome
from engine.errors import DraftlightError
from engine.requests.compare import CompareRequest
from engine.serving import beside as serving_beside
from engine.serving.beside import Beside
from engine.trace import read
from engine.types import (
    DecodingOptions,
    Message,
    Request,
    Round,
    RoundFinished,
    RunFailed,
    RunFinished,
    RunStarted,
)
from engine.worker import Engine
from tests.engine.fakes import PATIENCE, FakeBackend

REQUEST = Request((Message("user", "hi"),), DecodingOptions(max_tokens=4, seed=1))


class Late(FakeBackend):
    """Leaves the p of its tokens for later. `complete` is called with a round's index before it is whole."""

    def __init__(self, complete: Callable[[int], None] = lambda index: None) -> None:
        super().__init__()
        self.complete = complete
        self.made = {index: threading.Event() for index in range(4)}

    def decode(self, context: DecodeContext) -> Generator[RoundOutcome, None, None]:
        for outcome in super().decode(context):
            self.made[outcome.round.index].set()
            yield replace(outcome, complete=partial(self._completed, outcome.round))

    def _completed(self, made: Round) -> Round:
        self.complete(made.index)
        return replace(made, emitted=(replace(made.emitted[0], p=0.5),))


def events_of(backend: Late, *requests: Request) -> list[Any]:
    """All events up to the end of the answers."""
    engine = Engine(lambda: backend)
    try:
        if len(requests) == 1:
            engine.submit(requests[0])
        else:
            engine.compare(CompareRequest(requests))
        seen: list[Any] = []
        while sum(isinstance(event, (RunFinished, RunFailed)) for event in seen) < len(requests):
            assert engine.wait(PATIENCE)
            seen += engine.events()
        return seen
    finally:
        assert engine.close(PATIENCE)


def rounds_in(events: list[Any]) -> list[Round]:
    return [event.round for event in events if isinstance(event, RoundFinished)]


def test_the_next_round_does_not_wait_for_what_is_shown_of_the_last(home: Path) -> None:
    def complete(index: int) -> None:
        assert index == 3 or backend.made[index + 1].wait(PATIENCE), "the next round waited"
        threads.add(threading.get_ident())

    backend, threads = Late(complete), set[int]()
    events = events_of(backend, REQUEST)
    assert [round_.emitted[0].p for round_ in rounds_in(events)] == [0.5] * 4
    assert [round_.index for round_ in rounds_in(events)] == [0, 1, 2, 3]
    assert isinstance(events[-1], RunFinished) and events[-1].text == "abcd"
    started = next(event for event in events if isinstance(event, RunStarted))
    assert list(read(started.trace_path).rounds) == rounds_in(events)
    assert len(threads) == 1 and not threads & backend.threads, "one thread of its own, and not MLX's"


def test_a_round_is_begun_only_when_the_one_before_the_last_has_been_reported(home: Path) -> None:
    """Otherwise what is shown would fall behind without end where the analysis takes longer than a round."""
    behind: list[bool] = []
    backend = Late(lambda index: behind.append(index < 2 and backend.made[index + 2].wait(0.05)))
    events_of(backend, REQUEST)
    assert behind == [False] * 4


def test_answers_that_take_turns_complete_their_rounds_in_their_own_turn(home: Path) -> None:
    backend = Late(lambda index: threads.add(threading.get_ident()))
    threads: set[int] = set()
    events = events_of(backend, REQUEST, REQUEST)
    assert [round_.emitted[0].p for round_ in rounds_in(events)] == [0.5] * 8
    assert threads <= backend.threads


def test_what_fails_beside_the_next_round_ends_the_answer_with_its_message(home: Path, caplog: pytest.LogCaptureFixture) -> None:
    def complete(index: int) -> None:
        if index == 1:
            raise DraftlightError("The trace cannot be shown.")

    events = events_of(Late(complete), REQUEST)
    assert isinstance(events[-1], RunFailed) and events[-1].message == "The trace cannot be shown."
    assert [(round_.index, round_.emitted[0].p) for round_ in rounds_in(events)] == [(0, 0.5), (1, None), (2, None)]
    started = next(event for event in events if isinstance(event, RunStarted))
    found = read(started.trace_path)
    assert len(found.rounds) == 3 and found.summary is not None and found.summary["text"] == "abc", "what is decoded is kept"


def test_what_the_last_task_raised_is_raised_once() -> None:
    def fail() -> None:
        raise ValueError("no")

    done: list[int] = []
    with Beside() as beside:
        beside.put(fail)
        with pytest.raises(ValueError, match="no"):
            beside.put(lambda: done.append(1))
        beside.put(lambda: done.append(2))
        beside.wait()
    assert done == [2]


def test_what_is_waited_for_is_handed_over_before_a_task_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving_beside, "LONGEST_WAIT", 2 * PATIENCE)
    monkeypatch.setattr(serving_beside, "HEAD_START", 2 * PATIENCE)
    begun = threading.Event()
    with Beside() as beside:
        beside.put(begun.set)
        beside.waits()
        assert not begun.wait(0.1), "it may have Python's lock when the pass is to be handed over"
        beside.wait()  # hurries
        assert begun.is_set()
    monkeypatch.setattr(serving_beside, "HEAD_START", 0.0)
    begun.clear()
    with Beside() as beside:
        beside.put(begun.set)
        beside.waits()
        assert begun.wait(PATIENCE), "nothing but the head start held it back"


@pytest.mark.parametrize("error", [MemoryError, SystemExit, KeyboardInterrupt])
def test_whatever_a_task_raises_reaches_who_waits(error: type[BaseException]) -> None:
    def fail() -> None:
        raise error

    with Beside() as beside:
        beside.put(fail)
        with pytest.raises(error):
            beside.wait()


def test_what_a_task_raised_while_something_else_failed_is_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    def fail() -> None:
        raise MemoryError("no room for a row")

    with contextlib.suppress(ValueError), Beside() as beside:
        beside.put(fail)
        raise ValueError
    assert "no room for a row" in caplog.text


def test_where_waits_are_too_short_for_them_tasks_are_done_at_once() -> None:
    done: list[int] = []

    def task() -> None:
        end = time.thread_time() + 0.01
        while time.thread_time() < end:
            pass
        done.append(threading.get_ident())

    here = threading.get_ident()
    with Beside() as beside:
        for wait in (0, 0, 0.05, 0.05, 0):
            beside.put(task)
            beside.waits()
            if wait:  # sleeping for no time lets the other thread go first
                time.sleep(wait)
            beside.resumes()
        beside.wait()
        assert [thread == here for thread in done] == [False, True, True, False, False]
        beside.put(task)
        assert done[-1] == here
        beside.put(task)
        beside.wait()
        assert done[-1] != here, "who does not say how long it waits has a thread"


def test_what_was_put_begins_by_itself_before_long() -> None:
    begun = threading.Event()
    with Beside() as beside:
        beside.put(begun.set)
        assert begun.wait(PATIENCE), "the other thread reads a long text for a drafter"


def test_a_round_that_needs_no_analysis_is_told_at_once(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Held(FakeBackend):
        """Says nowhere that it waits, and holds the second round until it is released."""

        def __init__(self) -> None:
            super().__init__()
            self.released = threading.Event()

        def decode(self, context: DecodeContext) -> Generator[RoundOutcome, None, None]:
            context.control.on_wait = lambda: None
            for made in super().decode(context):
                yield made
                self.released.wait(PATIENCE)

    monkeypatch.setattr(serving_beside, "LONGEST_WAIT", 2 * PATIENCE)
    backend = Held()
    engine = Engine(lambda: backend)
    try:
        engine.submit(replace(REQUEST, options=REQUEST.options.replace(analyse=False)))
        seen: list[Any] = []
        while not rounds_in(seen):
            assert engine.wait(PATIENCE / 2), "it is held back"
            seen += engine.events()
    finally:
        backend.released.set()
        assert engine.close(PATIENCE)


def test_what_was_put_begins_where_the_other_thread_waits_and_is_done_whatever_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving_beside, "LONGEST_WAIT", PATIENCE)
    done: list[int] = []
    with Beside() as beside:
        beside.put(lambda: done.append(1))
        time.sleep(0.05)
        assert not done
        beside.begin()
        beside.begin()
        beside.wait()
        assert done == [1]
        beside.put(lambda: done.append(2))
    assert done == [1, 2]
    with contextlib.suppress(ValueError), Beside() as beside:
        beside.put(lambda: done.append(3))
        raise ValueError
    assert done == [1, 2, 3]
