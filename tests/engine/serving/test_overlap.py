"""What is shown of a round is worked out beside the next one, and reported in order."""

from __future__ import annotations

import contextlib
import threading
from collections import defaultdict
from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from engine.decode.context import DecodeContext, RoundOutcome
from engine.rounds.trace import Trace, read
from engine.runtime.worker import Engine
from engine.serving import overlap
from engine.serving.overlap import OverlapExecutor
from engine.types import Round, RoundFinished, RunStarted
from engine.values.errors import DraftlightError
from engine.values.requests.compare import CompareRequest
from tests.engine.desk import Desk, request
from tests.engine.fakes import PATIENCE, FakeBackend


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


def answered(backend: Late, **changes: Any) -> tuple[Any, list[Round], Trace]:
    """The end of an answer of four tokens, its rounds as they were reported, and its trace."""
    with Desk(Engine(lambda: backend)) as desk:
        (end,) = desk.ends([desk.ask(**{"max_tokens": 4, **changes})])
    return end, desk.rounds(), read(desk.of(RunStarted)[0].trace_path)


def chances(rounds: Sequence[Round]) -> list[float | None]:
    """Returns a figure that the analysis adds: p of the first token of each round."""
    return [round_.emitted[0].p for round_ in rounds]


def test_next_round_does_not_wait_for_the_analysis_of_the_last(home: Path) -> None:
    def complete(index: int) -> None:
        assert index == 3 or backend.made[index + 1].wait(PATIENCE), "the next round waited"
        threads.add(threading.get_ident())

    backend, threads = Late(complete), set[int]()
    end, rounds, trace = answered(backend)
    assert chances(rounds) == [0.5] * 4 and [round_.index for round_ in rounds] == [0, 1, 2, 3]
    assert end.text == "abcd" and list(trace.rounds) == rounds
    assert len(threads) == 1 and not threads & backend.threads, "one thread of its own, and not MLX's"


def test_decoding_goes_on_while_the_analysis_falls_behind(home: Path) -> None:
    def complete(index: int) -> None:
        assert backend.made[3].wait(PATIENCE), "the answer was held"
        done.append(index)

    done: list[int] = []
    backend = Late(complete)
    end, rounds, _ = answered(backend)
    assert done == [round_.index for round_ in rounds] == [0, 1, 2, 3]
    assert chances(rounds) == [0.5] * 4 and end.text == "abcd"


def test_a_stop_loses_no_round_that_has_been_decoded(home: Path) -> None:
    def complete(index: int) -> None:
        if index == 0:
            assert backend.made[2].wait(PATIENCE)
            backend.control.stop()

    backend = Late(complete)
    end, rounds, trace = answered(backend, max_tokens=10_000)
    assert end.finish == "cancelled" and list(trace.rounds) == rounds
    assert len(rounds) == backend.decoded >= 3 and set(chances(rounds)) == {0.5}


def test_a_failure_of_decoding_loses_no_round_before_it(home: Path) -> None:
    def complete(index: int) -> None:
        assert backend.made[2].wait(PATIENCE)

    backend = Late(complete)
    backend.fail_at = {3: DraftlightError("the device is gone.")}
    end, rounds, trace = answered(backend)
    assert end.message == "the device is gone."
    assert chances(rounds) == [0.5] * 3 and list(trace.rounds) == rounds
    assert trace.summary is not None and trace.summary["text"] == "abc"


def test_answers_that_take_turns_complete_their_rounds_in_their_own_turn(home: Path) -> None:
    backend, threads = Late(lambda index: threads.add(threading.get_ident())), set[int]()
    with Desk(Engine(lambda: backend)) as desk:
        desk.ends(desk.engine.compare(CompareRequest((request(), request()))))
    assert chances(desk.rounds()) == [0.5] * 6
    assert threads <= backend.threads


def test_failed_analysis_ends_the_answer_with_its_message(home: Path, caplog: pytest.LogCaptureFixture) -> None:
    def complete(index: int) -> None:
        if index == 1:
            raise DraftlightError("The trace cannot be shown.")

    end, rounds, trace = answered(Late(complete))
    assert end.message == "The trace cannot be shown."
    assert chances(rounds[:2]) == [0.5, None] and [round_.index for round_ in rounds] == list(range(len(rounds)))
    assert list(trace.rounds) == rounds and trace.summary is not None
    assert trace.summary["text"] == "abcd"[: len(rounds)], "what is decoded is kept"


# The executor alone


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
    doing = [threading.Event() for _ in range(4)]
    put = threading.Semaphore(0)

    def put_all() -> None:
        for rows, event in zip((2, 3, 65, 1), doing, strict=True):
            beside.put(lambda event=event: event.wait(PATIENCE), rows)
            put.release()

    with OverlapExecutor() as beside:
        thread = threading.Thread(target=put_all)
        thread.start()
        for finished, more in enumerate((2, 0, 1, 1)):
            assert all(put.acquire(timeout=PATIENCE) for _ in range(more))
            assert not put.acquire(timeout=0.02), f"{finished} are done"
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
    released = threading.Event()

    class Held(FakeBackend):
        """Says nowhere that it waits, and holds the second round until it is released."""

        def decode(self, context: DecodeContext) -> Generator[RoundOutcome, None, None]:
            context.control.on_wait = lambda: None
            for made in super().decode(context):
                yield made
                released.wait(PATIENCE)

    monkeypatch.setattr(overlap, "MAX_START_DELAY", 2 * PATIENCE)
    with Desk(Engine(Held)) as desk:
        desk.ask(analyse=False)
        desk.until(RoundFinished)
        released.set()


def test_tasks_finish_whatever_ends_the_context() -> None:
    done: list[int] = []
    with OverlapExecutor() as beside:
        beside.put(lambda: done.append(1))
    with contextlib.suppress(ValueError), OverlapExecutor() as beside:
        beside.put(lambda: done.append(2))
        raise ValueError
    assert done == [1, 2]
