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

from engine.runtime.interface import EngineLike
from engine.runtime.process import client, launch
from engine.runtime.process.client import RESTART_NOTE, ProcessEngine
from engine.runtime.process.launch import Child, Launch, processor_seconds
from engine.runtime.process.wire import packed, unpacked
from engine.types import (
    DecodingOptions,
    DrafterReady,
    EngineFailed,
    Event,
    LoadStarted,
    Message,
    ModelsUnloaded,
    PromptCounted,
    ProveRequest,
    Request,
    RoundFinished,
    RunFailed,
    RunFinished,
    RunStarted,
    TaskFailed,
)
from engine.values.errors import DraftlightError
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
from tests.engine.fakes import PATIENCE
from tests.engine.runtime.process.processes import is_alive, until

STUB = "tests.engine.runtime.process.stub:engine"


class Desk:
    """An engine in a process, and everything that came out of it."""

    def __init__(self, launch: Launch, again: str = "") -> None:
        self.engine = ProcessEngine(launch, restart_note=again)
        self.seen: list[Event] = []

    def ask(self, prompt: str) -> int:
        return self.engine.submit(Request((Message("user", prompt),), DecodingOptions(seed=1)))

    def until(self, kind: type[Event], many: int = 1, run: int | None = None) -> list[Any]:
        """Collects events until so many of a kind are there."""
        while True:
            found = [event for event in self.seen if type(event) is kind and run in (None, getattr(event, "run_id", None))]
            if len(found) >= many:
                return found
            assert self.engine.wait(PATIENCE), f"no {kind.__name__} came; seen: {self.seen}"
            self.seen += self.engine.events()

    def text(self, run: int) -> str:
        return "".join(event.round.text for event in self.seen if isinstance(event, RoundFinished) and event.run_id == run)


@pytest.fixture
def desk(home: Path) -> Iterator[Desk]:
    desk = Desk(Launch(STUB), RESTART_NOTE)
    yield desk
    process = desk.engine.process_id
    assert desk.engine.close(PATIENCE)
    assert process is None or not is_alive(process)


@pytest.fixture
def patience(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Sets after how many seconds a hang counts as one; without any, that is as long as all tests wait."""
    monkeypatch.setattr(client, "POLL_INTERVAL", 0.02)

    def set_limits(silence: float = PATIENCE, unheard: float = PATIENCE) -> None:
        monkeypatch.setattr(client, "SILENCE", silence)
        monkeypatch.setattr(client, "STOP_TIMEOUT", unheard)

    set_limits()
    return set_limits


REQUEST = Request((Message("user", "x"),))
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
    (lambda engine: engine.prove(ProveRequest()), Perform(5, ProveRequest())),
    (lambda engine: engine.bench(BENCH), Perform(6, BENCH)),
    (lambda engine: engine.train(TrainRequest(Path("/x"))), Perform(7, TrainRequest(Path("/x")))),
    (lambda engine: engine.sample(SampleRequest((REQUEST,), 3)), Perform(8, SampleRequest((REQUEST,), 3))),
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


def test_answers_come_in_order_and_are_stopped_before_what_is_queued_is_taken(desk: Desk) -> None:
    assert desk.engine.process_id is None, "nothing is started before it is needed"
    assert desk.engine.count_prompt(Request((Message("user", "x"),))) == 1
    assert desk.until(PromptCounted) == [PromptCounted(1, None, None)]
    desk.engine.load("a", "b")
    first = desk.ask("abc")
    desk.until(RunFinished)
    assert desk.text(first) == "abc"
    counted, second = desk.engine.count_prompt(Request((Message("user", "12345"),))), desk.ask("x" * 3000 + " wait")
    assert len({first, second, counted}) == 3
    order = [type(event).__name__ for event in desk.seen if getattr(event, "run_id", first) == first]
    assert order[1:5] == ["LoadStarted", "LoadFinished", "DrafterReady", "RunStarted"]
    desk.engine.stop(second)
    assert desk.until(RunFinished, run=second)[0].finish == "cancelled"
    assert [event.round.index for event in desk.seen if isinstance(event, RoundFinished)][3:] == list(range(3000))
    assert PromptCounted(counted, 5, 100) in desk.seen
    with pytest.raises(ValueError, match="gamma"):
        desk.engine.update(second, gamma=0)
    desk.engine.update(second, gamma=3)
    desk.engine.stop(second)
    assert len(desk.engine.events(limit=1)) <= 1


def test_closed_engines_say_so(desk: Desk) -> None:
    run = desk.ask("abc wait")
    desk.until(RoundFinished, 3)
    assert desk.engine.close(PATIENCE)
    assert desk.until(RunFinished, run=run)[0].finish == "cancelled", "the answer is not cut off"
    for ask in (lambda: desk.ask("x"), lambda: desk.engine.load("x")):
        with pytest.raises(DraftlightError, match="closed"):
            ask()
    assert desk.engine.close(0)


def test_everything_that_is_open_gets_an_end(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    requests = tuple(Request((Message("user", prompt),)) for prompt in ("ab", "abc wait"))
    proof = desk.engine.prove(ProveRequest())
    ended, waits = desk.engine.compare(CompareRequest(requests))
    desk.until(RunFinished, run=ended)
    desk.until(RoundFinished, 5)
    assert desk.engine.process_id is not None
    os.kill(desk.engine.process_id, signal.SIGKILL)
    (failed,) = desk.until(RunFailed)
    (task,) = desk.until(TaskFailed)
    assert (failed.run_id, task.task_id) == (waits, proof) and failed.message == task.message
    assert desk.text(ended) == "ab" and desk.text(waits) == "abc"


def test_process_that_aborts_without_gpu_memory_gives_that_message(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    (failed,) = desk.until(RunFailed, run=desk.ask("ab overflow"))
    assert failed.message.startswith("The process that runs models ran out of the GPU's memory. Close other programs")


@pytest.mark.parametrize("seed", [1, 2])
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
            desk.until(RunStarted, run=run)
            while len(desk.text(run)) < many - 1:
                desk.until(RoundFinished, len([e for e in desk.seen if isinstance(e, RoundFinished)]) + 1)
        assert until(lambda: desk.engine.process_id is not None)
        process = desk.engine.process_id
        assert process is not None
        os.kill(process, number)
        patience(silence=0.05 if number == signal.SIGSTOP else PATIENCE)
        failed = desk.until(RunFailed, run=run)
        patience()
        assert words in failed[0].message and failed[0].message.endswith("The next message starts it again.")
        assert "abcdef".startswith(desk.text(run)) and len(desk.text(run)) >= many - 1, "what was written is kept"
        assert not is_alive(process) and desk.engine.process_id != process
    assert desk.until(RunFinished, run=desk.ask("abc"))
    assert len([event for event in desk.seen if isinstance(event, RunFailed)]) == len(deaths), "one end each"
    ends = [type(event) for event in desk.seen if isinstance(event, (ModelsUnloaded, RunFailed))]
    assert ends == [ModelsUnloaded, RunFailed] * len(deaths), "an answer ends when its models are known to be gone"
    forced = [event for event in desk.seen if isinstance(event, LoadStarted)]
    assert forced and {event.name for event in forced} == {"anyway ('large',)"}, "told to each new process"


def test_hung_and_idle_processes_are_killed(
    desk: Desk, patience: Callable[..., None], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = desk.ask("ab endless")  # signs of life go on: only that a stop is not followed tells
    desk.until(RoundFinished, 2)
    patience(unheard=0.1)
    desk.engine.stop(run)
    assert "did not stop" in desk.until(RunFailed, run=run)[0].message
    patience()
    run = desk.ask("abc locked")
    desk.until(RoundFinished, 5)
    desk.engine.stop(run)
    # As long as it computes, it is not given up.
    looks: list[int] = []

    def works_for_a_while(child: Child) -> float:
        looks.append(0)
        return float(min(len(looks), 4))

    monkeypatch.setattr(Child, "processor_seconds", works_for_a_while)
    patience(silence=0.1)
    assert "hung" in desk.until(RunFailed, run=run)[0].message
    assert len(looks) >= 4
    patience()
    desk.until(RunFinished, run=desk.ask("abc"))
    assert desk.engine.process_id is not None
    os.kill(desk.engine.process_id, signal.SIGKILL)
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


def test_abandoned_start_is_not_reported_and_a_full_disk_is(home: Path, caplog: pytest.LogCaptureFixture) -> None:
    engine = ProcessEngine(Launch(command=("sleep", "60")))
    engine.load("a", "b")
    run = engine.submit(Request((Message("user", "x"),)))
    assert engine.close(0.05)
    assert [getattr(event, "run_id", event) for event in engine.events()] == [run], "a load is nobody's any longer"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(launch.tempfile, "TemporaryFile", lambda: os.listdir(__file__))
        desk = Desk(Launch(STUB))
        message = desk.until(RunFailed, run=desk.ask("x"))[0].message
    assert message.startswith("No temporary file can be written (Not a directory)") and "starts it again" not in message
    assert desk.engine.close(PATIENCE)


class Ranks:
    """Companions that fail on demand."""

    made: list[Ranks]

    def __init__(self) -> None:
        self.said = ""
        self.asked_by = ""
        self.stops = 0
        self.made.append(self)

    def start(self) -> Mapping[str, str]:
        if len(self.made) == 2:
            raise DraftlightError("The machine two cannot be reached.")
        return {"MLX_RANK": "0"}

    def failure(self) -> str | None:
        return self.said if self.asked_by in threading.current_thread().name else None

    def stop(self) -> None:
        self.stops += 1


def test_companions_start_and_end_with_the_process(home: Path, caplog: pytest.LogCaptureFixture) -> None:
    Ranks.made = []
    desk = Desk(Launch(STUB, companions=Ranks))
    run = desk.ask("ab wait")
    desk.until(RoundFinished, 2)
    process = desk.engine.process_id
    assert process is not None and Ranks.made[0].stops == 0
    Ranks.made[0].said = "Rank 1 has ended."
    assert desk.until(RunFailed, run=run)[0].message == "Rank 1 has ended."
    assert not is_alive(process) and Ranks.made[0].stops
    assert desk.until(RunFailed, run=desk.ask("x"))[0].message.startswith("The machine two cannot be reached.")
    assert Ranks.made[1].stops, "those that were started are ended"
    # A failure of the answer itself is explained by theirs, and whoever hears of it asks a new process.
    assert desk.until(RunFailed, run=desk.ask("abc fail"))[0].message == "A connection was lost."
    Ranks.made[2].said, Ranks.made[2].asked_by = "Rank 2 has ended.", "draftlight-process"
    run = desk.ask("abc fail")
    assert desk.until(RunFailed, run=run)[0].message.startswith("Rank 2 has ended.")
    assert desk.text(run) == "abc"
    desk.until(RunFinished, run=desk.ask("x"))
    assert desk.engine.close(PATIENCE) and [ranks.stops > 0 for ranks in Ranks.made] == [True] * 4
