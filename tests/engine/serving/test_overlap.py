"""What is shown of a round is worked out beside the next one, and reported in order."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Generator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from engine.decode.context import DecodeContext
from engine.decode.outcome import RoundOutcome
from engine.rounds.trace import read
from engine.runtime.worker import Engine
from engine.serving import overlap
from engine.serving.overlap import OverlapExecutor
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
from engine.values.errors import DraftlightError
from engine.values.requests.compare import CompareRequest
from tests.engine.fakes import PATIENCE, FakeBackend

REQUEST = Request((Message("user", "hi"),), DecodingOptions(max_tokens=4, seed=1))


class Late(FakeBackend):
    """Leaves the p of its tokens for later. `complete` is called with a round's index before it is whole."""

    def __init__(self, complete: Callable[[int], None] = lambda index: None) -> None:
        super().__init__()
        self.complete = complete
        self.made = defaultdict[int, threading.Event](threading.Event)
        self.decoded = 0

    def decode(self, context: DecodeContext) -> Generator[RoundOutcome, None, None]:
        self.control = context.control
        for outcome in super().decode(context):
            self.decoded += 1
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


def test_next_round_does_not_wait_for_the_analysis_of_the_last(home: Path) -> None:
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


def test_decoding_goes_on_while_the_analysis_falls_behind(home: Path) -> None:
    def complete(index: int) -> None:
        assert backend.made[3].wait(PATIENCE), "the answer was held"
        done.append(index)

    done: list[int] = []
    backend = Late(complete)
    events = events_of(backend, REQUEST)
    assert done == [round_.index for round_ in rounds_in(events)] == [0, 1, 2, 3]
    assert [round_.emitted[0].p for round_ in rounds_in(events)] == [0.5] * 4
    assert isinstance(events[-1], RunFinished) and events[-1].text == "abcd"


def test_analysis_falls_behind_by_a_limited_number_of_rows(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise memory would fill up where it takes longer than a round."""

    def complete(index: int) -> None:
        assert index > 1 or backend.made[index + 2].wait(PATIENCE)
        ahead.append(index < 1 and backend.made[index + 3].wait(0.05))

    monkeypatch.setattr(overlap, "ROWS_BEHIND", 2)
    ahead: list[bool] = []
    backend = Late(complete)
    events_of(backend, REQUEST)
    assert ahead == [False] * 4


def test_a_stop_loses_no_round_that_has_been_decoded(home: Path) -> None:
    def complete(index: int) -> None:
        if index == 0:
            assert backend.made[2].wait(PATIENCE)
            backend.control.stop()

    backend = Late(complete)
    request = replace(REQUEST, options=REQUEST.options.replace(max_tokens=10_000))
    events = events_of(backend, request)
    rounds = rounds_in(events)
    assert isinstance(events[-1], RunFinished) and events[-1].finish == "cancelled"
    assert len(rounds) == backend.decoded >= 3 and {round_.emitted[0].p for round_ in rounds} == {0.5}
    started = next(event for event in events if isinstance(event, RunStarted))
    assert list(read(started.trace_path).rounds) == rounds


def test_a_failure_of_decoding_loses_no_round_before_it(home: Path) -> None:
    def complete(index: int) -> None:
        assert backend.made[2].wait(PATIENCE)

    backend = Late(complete)
    backend.fail_at = {3: DraftlightError("the device is gone.")}
    events = events_of(backend, REQUEST)
    assert isinstance(events[-1], RunFailed) and events[-1].message == "the device is gone."
    assert [(round_.index, round_.emitted[0].p) for round_ in rounds_in(events)] == [(0, 0.5), (1, 0.5), (2, 0.5)]
    started = next(event for event in events if isinstance(event, RunStarted))
    found = read(started.trace_path)
    assert list(found.rounds) == rounds_in(events) and found.summary is not None and found.summary["text"] == "abc"


def test_answers_that_take_turns_complete_their_rounds_in_their_own_turn(home: Path) -> None:
    backend = Late(lambda index: threads.add(threading.get_ident()))
    threads: set[int] = set()
    events = events_of(backend, REQUEST, REQUEST)
    assert [round_.emitted[0].p for round_ in rounds_in(events)] == [0.5] * 8
    assert threads <= backend.threads


def test_failed_analysis_ends_the_answer_with_its_message(home: Path, caplog: pytest.LogCaptureFixture) -> None:
    def complete(index: int) -> None:
        if index == 1:
            raise DraftlightError("The trace cannot be shown.")

    events = events_of(Late(complete), REQUEST)
    assert isinstance(events[-1], RunFailed) and events[-1].message == "The trace cannot be shown."
    rounds = rounds_in(events)
    assert [(round_.index, round_.emitted[0].p) for round_ in rounds[:2]] == [(0, 0.5), (1, None)]
    assert [round_.index for round_ in rounds] == list(range(len(rounds)))
    started = next(event for event in events if isinstance(event, RunStarted))
    found = read(started.trace_path)
    assert list(found.rounds) == rounds and found.summary is not None
    assert found.summary["text"] == "abcd"[: len(rounds)], "what is decoded is kept"


def test_error_of_a_task_is_raised_once_after_all_tasks() -> None:
    def fail(error: Exception) -> None:
        assert released.wait(PATIENCE)
        raise error

    done: list[int] = []
    released = threading.Event()
    with OverlapExecutor() as beside:
        beside.put(lambda: fail(ValueError("the first")))
        beside.put(lambda: done.append(1))
        beside.put(lambda: fail(ValueError("the second")))
        beside.put(lambda: done.append(2))
        released.set()
        with pytest.raises(ValueError, match="the first"):
            beside.wait()
        assert done == [1, 2]
        beside.put(lambda: fail(ValueError("another")))
        while beside.unfinished:
            beside.begin()
        with pytest.raises(ValueError, match="another"):
            beside.put(lambda: done.append(3))
        beside.put(lambda: done.append(4))
        beside.wait()
    assert done == [1, 2, 4]


def test_putting_waits_for_room_and_a_task_of_any_size_is_taken_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overlap, "ROWS_BEHIND", 5)
    doing: list[threading.Event] = [threading.Event() for _ in range(4)]
    put = 0

    def put_all() -> None:
        nonlocal put
        for rows, event in zip((2, 3, 65, 1), doing, strict=True):
            beside.put(lambda event=event: event.wait(PATIENCE), rows)
            put += 1

    with OverlapExecutor() as beside:
        thread = threading.Thread(target=put_all)
        thread.start()
        for finished, taken in enumerate((2, 2, 3, 4)):
            limit = time.monotonic() + PATIENCE
            while put < taken and time.monotonic() < limit:
                time.sleep(0.001)
            time.sleep(0.02)
            assert put == taken, f"{finished} are done"
            assert beside.unfinished == put - finished
            doing[finished].set()
        thread.join()
    assert beside.unfinished == 0


def test_task_starts_at_once_if_another_is_queued(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overlap, "MAX_START_DELAY", 2 * PATIENCE)
    monkeypatch.setattr(overlap, "HEAD_START", 2 * PATIENCE)
    first, second = threading.Event(), threading.Event()
    with OverlapExecutor() as beside:
        beside.put(first.set)
        assert not first.wait(0.05)
        beside.put(second.set)
        assert first.wait(PATIENCE) and second.wait(PATIENCE)


def test_task_starts_after_the_awaited_work_is_submitted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overlap, "MAX_START_DELAY", 2 * PATIENCE)
    monkeypatch.setattr(overlap, "HEAD_START", 2 * PATIENCE)
    begun = threading.Event()
    with OverlapExecutor() as beside:
        beside.put(begun.set)
        beside.begin()
        assert not begun.wait(0.1), "it may have Python's lock when the pass is to be handed over"
        beside.wait()  # hurries
        assert begun.is_set()
    monkeypatch.setattr(overlap, "HEAD_START", 0.0)
    begun.clear()
    with OverlapExecutor() as beside:
        beside.put(begun.set)
        beside.begin()
        assert begun.wait(PATIENCE), "nothing but the head start held it back"


@pytest.mark.parametrize("error", [MemoryError, SystemExit, KeyboardInterrupt])
def test_any_exception_of_a_task_reaches_wait(error: type[BaseException]) -> None:
    def fail() -> None:
        raise error

    with OverlapExecutor() as beside:
        beside.put(fail)
        with pytest.raises(error):
            beside.wait()


def test_second_error_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    def fail() -> None:
        raise MemoryError("no room for a row")

    with contextlib.suppress(ValueError), OverlapExecutor() as beside:
        beside.put(fail)
        raise ValueError
    assert "no room for a row" in caplog.text


def test_task_starts_after_the_maximum_delay() -> None:
    begun = threading.Event()
    with OverlapExecutor() as beside:
        beside.put(begun.set)
        assert begun.wait(PATIENCE), "the other thread reads a long text for a drafter"


def test_round_without_analysis_is_reported_at_once(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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

    monkeypatch.setattr(overlap, "MAX_START_DELAY", 2 * PATIENCE)
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


def test_tasks_start_when_the_engine_thread_waits_and_always_finish(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overlap, "MAX_START_DELAY", PATIENCE)
    done: list[int] = []
    with OverlapExecutor() as beside:
        beside.put(lambda: done.append(1))
        time.sleep(0.05)
        assert not done
        beside.begin()
        beside.begin()
        beside.wait()
        assert done == [1]
        beside.put(lambda: done.append(2))
    assert done == [1, 2]
    with contextlib.suppress(ValueError), OverlapExecutor() as beside:
        beside.put(lambda: done.append(3))
        raise ValueError
    assert done == [1, 2, 3]
