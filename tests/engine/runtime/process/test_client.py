"""An engine in a process of its own: the same requests and events, and an end for everything whatever becomes of the process."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

import pytest

from engine.files.logs import LESS_MEMORY
from engine.runtime.interface import EngineLike
from engine.runtime.process import client, launch
from engine.runtime.process.client import RESTART_NOTE, PendingRequests, ProcessEngine
from engine.runtime.process.launch import Child, Launch, processor_seconds
from engine.runtime.process.wire import packed, unpacked
from engine.types import (
    BenchFinished,
    DecodingOptions,
    DrafterReady,
    DrafterRefused,
    EngineFailed,
    LoadFailed,
    LoadStarted,
    ModelsUnloaded,
    PromptCounted,
    ProveRequest,
    RoundFinished,
    RunFailed,
    RunFinished,
    RunStarted,
    TaskFailed,
)
from engine.values.errors import DraftlightError
from engine.values.events import number_of
from engine.values.requests.bench import BenchPrompt, BenchRequest
from engine.values.requests.commands import (
    CheckDrafter,
    Command,
    Compare,
    CountPrompt,
    IgnoreMemory,
    Load,
    Perform,
    Stop,
    Submit,
    Update,
)
from engine.values.requests.compare import CompareRequest, SampleRequest
from engine.values.requests.train import TrainRequest
from tests.engine.desk import Desk, request
from tests.engine.fakes import PATIENCE
from tests.engine.runtime.process.processes import is_alive, until

STUB = "tests.engine.runtime.process.stub:engine"


@pytest.fixture
def desk(home: Path) -> Iterator[Desk]:
    """An engine in a process."""
    engine = ProcessEngine(Launch(STUB), restart_note=RESTART_NOTE)
    with Desk(engine) as desk:
        yield desk
        process = engine.process_id
    assert process is None or not is_alive(process)


def process_of(desk: Desk) -> int:
    """The id of the process, once there is one."""
    engine: Any = desk.engine
    assert until(lambda: engine.process_id is not None)
    return int(engine.process_id)


@pytest.fixture
def patience(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Sets after how many seconds a hang counts as one; without any, that is as long as all tests wait."""
    monkeypatch.setattr(client, "POLL_INTERVAL", 0.02)

    def set_limits(silence: float = PATIENCE, unheard: float = PATIENCE) -> None:
        monkeypatch.setattr(client, "SILENCE", silence)
        monkeypatch.setattr(client, "STOP_TIMEOUT", unheard)

    set_limits()
    return set_limits


REQUEST = request("x")
BENCH = BenchRequest((BenchPrompt("one", "chat", ("a",)),))
SENT: list[tuple[Callable[[EngineLike], object], Command]] = [
    (lambda engine: engine.load("a"), Load("a", "none")),
    (lambda engine: engine.load("a", "b"), Load("a", "b")),
    (lambda engine: engine.check_drafter("b"), CheckDrafter("b")),
    (lambda engine: engine.ignore_memory("a", "b"), IgnoreMemory(("a", "b"))),
    (lambda engine: engine.ignore_memory(), IgnoreMemory(())),
    (lambda engine: engine.submit(REQUEST), Submit(1, REQUEST)),
    (lambda engine: engine.count_prompt(REQUEST), CountPrompt(2, REQUEST)),
    (lambda engine: engine.compare(CompareRequest((REQUEST,) * 2)), Compare((3, 4), CompareRequest((REQUEST,) * 2))),
    (lambda engine: engine.perform(ProveRequest()), Perform(5, ProveRequest())),
    (lambda engine: engine.perform(BENCH), Perform(6, BENCH)),
    (lambda engine: engine.perform(TrainRequest(Path("/x"))), Perform(7, TrainRequest(Path("/x")))),
    (lambda engine: engine.perform(SampleRequest((REQUEST,), 3)), Perform(8, SampleRequest((REQUEST,), 3))),
    (lambda engine: engine.update(1, gamma=3), Update(1, gamma=3)),
    (lambda engine: engine.stop(1), Stop(1)),
]


def test_every_request_is_one_command_which_crosses_the_wire_as_it_is() -> None:
    sent: list[Command] = []

    class Recorder(EngineLike):
        def send(self, command: Command) -> None:
            sent.append(command)

        def close(self, timeout: float = 5.0) -> bool:
            return True

    engine = Recorder()
    numbers = [ask(engine) for ask, _ in SENT]
    assert sent == [command for _, command in SENT] == unpacked(packed(sent))
    assert numbers == [None] * 5 + [1, 2, (3, 4), 5, 6, 7, 8, None, None]
    assert {type(command) for command in sent} == set(get_args(Command))
    with pytest.raises(ValueError, match="gamma"):
        unpacked(packed(Update(1, gamma=3)).replace(b"K\x03", b"K\x00"))


def test_pending_requests_fail_and_answered_ones_do_not() -> None:
    owed = PendingRequests({1, 2, 3}, {4, 5}, {6, 7, 8}, [("a", "x"), ("b", "y")])
    for event in (
        RunStarted(1, DecodingOptions(), 1, "x", None),
        RunStarted(2, DecodingOptions(), 1, "x", None),
        RunFinished(1, "eos", "", 0, 0, 0, None, None),
        RunFailed(3, ""),
        BenchFinished(5, True),
        PromptCounted(7, 3, 9),
        DrafterReady("z", True),  # an answer's own
        DrafterRefused("x", ""),
    ):
        owed.remove_answered(event)
    assert owed.begun == {2}
    assert owed.failures("Gone.") == [
        LoadFailed("b", "Gone."),
        RunFailed(2, "Gone."),
        TaskFailed(4, "Gone."),
        PromptCounted(8, None, None),
    ]


def test_a_load_that_failed_is_answered() -> None:
    owed = PendingRequests(loads=[("a", "x")])
    owed.remove_answered(LoadFailed("b", ""))
    assert owed.loads
    owed.remove_answered(LoadFailed("a", ""))
    assert not owed.loads


def test_no_process_is_started_to_count_a_prompt(desk: Desk) -> None:
    number = desk.engine.count_prompt(request("x"))
    assert desk.until(PromptCounted) == [PromptCounted(number, None, None)]
    assert isinstance(desk.engine, ProcessEngine) and desk.engine.process_id is None


def test_answers_come_in_order_and_are_stopped_while_nobody_takes_their_events(desk: Desk) -> None:
    desk.engine.load("a", "b")
    first = desk.answer("abc").run_id
    assert desk.text(first) == "abc"
    assert [type(event).__name__ for event in desk.seen[:4]] == ["LoadStarted", "LoadFinished", "DrafterReady", "RunStarted"]
    counted, second = desk.engine.count_prompt(request("12345")), desk.ask("x" * 3000 + " wait")
    assert len({first, second, counted}) == 3
    desk.engine.stop(second)
    assert desk.ends([second])[0].finish == "cancelled"
    assert [round.index for round in desk.rounds(second)] == list(range(3000))
    assert PromptCounted(counted, 5, 100) in desk.seen
    desk.engine.update(second, gamma=3)
    desk.engine.stop(second)
    assert not desk.engine.events(), "it has ended"


def test_closed_engines_say_so(desk: Desk) -> None:
    run = desk.ask("abc wait")
    desk.until(RoundFinished, 3)
    assert desk.engine.close(PATIENCE)
    assert desk.ends([run])[0].finish == "cancelled", "the answer is not cut off"
    for ask in (lambda: desk.ask("x"), lambda: desk.engine.load("x")):
        with pytest.raises(DraftlightError, match="closed"):
            ask()
    assert desk.engine.close(0)


def test_everything_that_is_open_gets_an_end(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    proof = desk.engine.perform(ProveRequest())
    ended, waits = desk.engine.compare(CompareRequest((request("ab"), request("abc wait"))))
    desk.until(RunFinished, number=ended)
    desk.until(RoundFinished, 5)
    os.kill(process_of(desk), signal.SIGKILL)
    (failed,) = desk.until(RunFailed)
    (task,) = desk.until(TaskFailed)
    assert (failed.run_id, task.task_id) == (waits, proof) and failed.message == task.message
    assert desk.text(ended) == "ab" and desk.text(waits) == "abc"


def test_process_that_aborts_without_gpu_memory_gives_that_message(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    assert LESS_MEMORY in desk.failure("ab overflow").message


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.full) for seed in range(2, 9))])
def test_a_process_that_is_killed_at_any_moment_costs_an_answer_and_no_more(
    desk: Desk, patience: Callable[..., None], caplog: pytest.LogCaptureFixture, seed: int
) -> None:
    """Once each in random order: killed while it starts or between any two events, crashed, stopped for good."""
    moments = random.Random(seed)
    deaths = [(signal.SIGKILL, "memory runs out"), (signal.SIGSEGV, "crashed (Segmentation fault)"), (signal.SIGSTOP, "hung")]
    moments.shuffle(deaths)
    desk.engine.ignore_memory("large")
    for number, words in deaths:
        run = desk.ask("abcdef wait")
        many = moments.randrange(8)
        if many:
            desk.until(RunStarted, number=run)
            desk.until(RoundFinished, many - 1, run)
        process = process_of(desk)
        os.kill(process, number)
        patience(silence=0.05 if number == signal.SIGSTOP else PATIENCE)
        (failed,) = desk.ends([run])
        patience()
        assert words in failed.message and failed.message.endswith(RESTART_NOTE)
        assert "abcdef".startswith(desk.text(run)) and len(desk.text(run)) >= many - 1, "what was written is kept"
        assert not is_alive(process)
    assert desk.answer("abc")
    ends = [type(event) for event in desk.seen if isinstance(event, (ModelsUnloaded, RunFailed))]
    assert ends == [ModelsUnloaded, RunFailed] * len(deaths), "one end each, when its models are known to be gone"
    forced = {event.name for event in desk.of(LoadStarted)}
    assert forced == {"anyway ('large',)"}, "told to each new process"


def test_a_process_that_does_not_stop_is_killed(
    desk: Desk, patience: Callable[..., None], caplog: pytest.LogCaptureFixture
) -> None:
    run = desk.ask("ab endless")  # signs of life go on: only that a stop is not followed tells
    desk.until(RoundFinished, 2)
    patience(unheard=0.1)
    desk.engine.stop(run)
    assert "did not stop" in desk.ends([run])[0].message


def test_a_silent_process_is_killed_once_it_does_not_compute(
    desk: Desk, patience: Callable[..., None], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = desk.ask("abc locked")
    desk.until(RoundFinished, 3)
    desk.engine.stop(run)
    looks: list[int] = []

    def works_for_a_while(child: Child) -> float:
        looks.append(0)
        return float(min(len(looks), 4))

    monkeypatch.setattr(Child, "processor_seconds", works_for_a_while)
    patience(silence=0.1)
    assert "hung" in desk.ends([run])[0].message
    assert len(looks) >= 4


def test_the_death_of_an_idle_process_is_reported_and_the_next_request_starts_another(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    desk.answer("abc")
    os.kill(process_of(desk), signal.SIGKILL)
    (died,) = desk.until(EngineFailed)
    assert "memory runs out" in died.message
    desk.engine.load("a", "b")
    desk.until(DrafterReady)


def test_the_processor_time_of_a_process_is_that_of_the_system() -> None:
    before = time.process_time()
    assert before - 0.5 < processor_seconds(os.getpid()) < time.process_time() + 0.5
    with pytest.raises((OSError, subprocess.SubprocessError), match="4194305"):
        processor_seconds(2**22 + 1)


@pytest.mark.parametrize(("said", "seconds"), [("0:01.50", 1.5), ("75:02.25", 4502.25), ("1-02:03:04", 93_784.0)])
def test_processor_time_of_ps_is_read_in_any_locale(
    said: str, seconds: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where there is no /proc. As on a Mac, this `ps` parts the seconds as the language does."""
    ps = tmp_path / "ps"
    ps.write_text(f'#!/bin/sh\n[ "$LC_ALL" = C ] && echo "  {said}" || echo "  {said.replace(".", ",")}"\n', encoding="utf-8")
    ps.chmod(0o755)
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    assert processor_seconds(os.getpid()) == seconds


def test_process_ends_with_its_parent(home: Path) -> None:
    """Killed while its processes wait, are stopped, hang with Python's lock and without."""
    code = """
        import signal, sys
        from engine.runtime.process.client import ProcessEngine
        from engine.runtime.process.launch import Launch
        from engine.types import Message, Request, RoundFinished, RunFailed
        from tests.engine.runtime.process.processes import stop
        for deed in sys.argv[1:]:
            engine = ProcessEngine(Launch("tests.engine.runtime.process.stub:engine", {"hurry": True}))
            run = engine.submit(Request((Message("user", f"a {deed}"),)))
            event = None
            while not isinstance(event, RoundFinished):
                engine.wait(1)
                event = next(iter(engine.events(limit=1)), None)
                assert not isinstance(event, RunFailed), event
            if deed == "locked":
                engine.stop(run)
            elif deed == "stop":
                stop(engine.process_id)
            print(engine.process_id, flush=True)
        signal.pause()
    """
    deeds = ["locked", "endless", "stop", "wait"]
    command = [sys.executable, "-c", textwrap.dedent(code), *deeds]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        processes = [int(owner.stdout.readline()) for _ in deeds]
        assert all(map(is_alive, processes[1:]))
        owner.kill()
    for deed, process in zip(deeds, processes, strict=True):
        assert until(lambda: not is_alive(process)), deed  # noqa: B023 - asked for at once


def test_an_abandoned_load_is_nobodys_any_longer(home: Path, caplog: pytest.LogCaptureFixture) -> None:
    engine = ProcessEngine(Launch(command=("sleep", "60")))
    engine.load("a", "b")
    run = engine.submit(request())
    assert engine.close(0.05)
    assert [number_of(event) for event in engine.events()] == [run]


def test_a_full_disk_is_reported(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch.tempfile, "TemporaryFile", lambda: os.listdir(__file__))
    with Desk(ProcessEngine(Launch(STUB), restart_note=RESTART_NOTE)) as desk:
        message = desk.failure().message
    assert message.startswith("No temporary file can be written (Not a directory)") and RESTART_NOTE not in message


class Ranks:
    """Companions that fail on demand."""

    made: list[Ranks]
    refuse: bool

    def __init__(self) -> None:
        self.said = ""
        self.asked_by = ""
        self.stops = 0
        self.made.append(self)

    def start(self) -> Mapping[str, str]:
        if self.refuse:
            raise DraftlightError("The machine two cannot be reached.")
        return {"MLX_RANK": "0"}

    def failure(self) -> str | None:
        return self.said if self.asked_by in threading.current_thread().name else None

    def stop(self) -> None:
        self.stops += 1


@pytest.fixture
def with_ranks(home: Path) -> Iterator[Desk]:
    """An engine whose process has companions."""
    Ranks.made, Ranks.refuse = [], False
    with Desk(ProcessEngine(Launch(STUB, companions=Ranks))) as desk:
        yield desk
    assert all(ranks.stops for ranks in Ranks.made)


def test_companions_that_fail_or_do_not_start_end_the_process(with_ranks: Desk, caplog: pytest.LogCaptureFixture) -> None:
    run = with_ranks.ask("ab wait")
    with_ranks.until(RoundFinished, 2)
    process = process_of(with_ranks)
    assert Ranks.made[0].stops == 0
    Ranks.made[0].said = "Rank 1 has ended."
    assert with_ranks.ends([run])[0].message == "Rank 1 has ended."
    assert not is_alive(process) and Ranks.made[0].stops
    Ranks.refuse = True
    assert with_ranks.failure().message == "The machine two cannot be reached."
    assert Ranks.made[1].stops, "those that were started are ended"


def test_a_failed_answer_is_explained_by_a_companions_failure(with_ranks: Desk, caplog: pytest.LogCaptureFixture) -> None:
    """After the failure is reported, the next request starts a new process."""
    assert with_ranks.failure("abc fail").message == "A connection was lost."
    Ranks.made[0].said, Ranks.made[0].asked_by = "Rank 2 has ended.", "draftlight-process"
    failed = with_ranks.failure("abc fail")
    assert failed.message == "Rank 2 has ended." and with_ranks.text(failed.run_id) == "abc"
    assert with_ranks.answer("x")
