"""Kills the engine's process, or the program that started it, at random moments: make bench-process-ends

A tiny model answers with a fixed seed. At a random moment (also from a fixed seed), while the process starts, loads or answers,
it is killed, crashed, aborted or stopped for good. Then the programs that own such a process are killed, some while it is
stopped.

Each time it checks that the answer gets exactly one end event, that its text is a prefix of the undisturbed one, and that no
process is left. Now and then the next question must be answered. At the end no thread, open file or socket may be left. A
failure is an AssertionError.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

from engine.runtime.process import client
from engine.runtime.process.client import ProcessEngine
from engine.types import DecodingOptions, Message, Request, RoundFinished, RunFailed, RunFinished
from tests.engine.runtime.process.processes import is_alive, stop, until
from tests.engine.tiny_models import write_gguf

DEATHS = (signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT, signal.SIGSTOP)
SILENCE = 10.0
LONGEST = 1.6
"""Seconds after a question within which the process is ended: starting and loading take about one."""
REPOSITORY = Path(__file__).parents[2]


def question(target: str, tokens: int) -> Request:
    options = DecodingOptions(seed=3, max_tokens=tokens, rule="match")
    return Request((Message("user", "hello"),), options, target=target, drafter="ngram", conversation="one")


def outcome(engine: ProcessEngine, run_id: int) -> tuple[str, RunFinished | RunFailed]:
    """The text of an answer, and how it ended."""
    text = ""
    while True:
        engine.wait(1.0)
        for event in engine.events():
            if isinstance(event, RoundFinished) and event.run_id == run_id:
                text += event.round.text
            elif isinstance(event, (RunFinished, RunFailed)):
                assert event.run_id == run_id, "one end each"
                return text, event


def started(engine: ProcessEngine) -> int:
    """The number of the process, as soon as there is one."""
    assert until(lambda: engine.process_id is not None)
    assert engine.process_id is not None
    return engine.process_id


def end_processes(target: str, endings: int, moments: random.Random) -> None:
    """Ends the process so often, in the middle of an answer or before it."""
    engine = ProcessEngine()
    whole, _ = outcome(engine, engine.submit(question(target, 600)))
    died, kept = Counter[str](), 0
    for turn in range(endings):
        run_id = engine.submit(question(target, 600))
        time.sleep(moments.random() * LONGEST)
        process, death = started(engine), DEATHS[turn % len(DEATHS)]
        os.kill(process, death)
        text, end = outcome(engine, run_id)
        assert whole.startswith(text)
        assert until(lambda process=process: not is_alive(process))  # type: ignore[misc]
        died[death.name] += isinstance(end, RunFailed)
        kept += bool(text)
        if turn % 4 == 3:
            again, end = outcome(engine, engine.submit(question(target, 60)))
            assert isinstance(end, RunFinished) and again and whole.startswith(again)
    assert engine.close()
    print(f"Ended in an answer or before it: {dict(died)}; {kept} of {endings} had a text, which was kept")


def end_owners(target: str, endings: int, moments: random.Random) -> None:
    """Kills whoever has started a process, so often."""
    longest = 0.0
    for turn in range(endings):
        command = [sys.executable, "-m", "tests.benchmarks.process_ends", "--owner", target]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=REPOSITORY) as owner:
            assert owner.stdout is not None
            process = int(owner.stdout.readline())
            time.sleep(moments.random() * 2 * LONGEST)
            if turn % 2:
                stop(process)
            owner.kill()
        began = time.monotonic()
        assert until(lambda process=process: not is_alive(process)), "an orphan"  # type: ignore[misc]
        longest = max(longest, time.monotonic() - began)
    print(
        f"Owners killed: {endings}, every second one with its process stopped; the process was gone {longest:.1f} s later at most"
    )


def own(target: str) -> None:
    """Asks, and waits to be killed."""
    engine = ProcessEngine()
    engine.submit(question(target, 2500))
    print(started(engine), flush=True)
    while True:
        engine.wait(1.0)
        engine.events()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--endings", type=int, default=32)
    parser.add_argument("--seed", type=int, default=11)
    parser.add_argument("--owner", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.owner:
        own(chosen.owner)
    client.SILENCE = SILENCE
    moments = random.Random(chosen.seed)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["DRAFTLIGHT_HOME"] = folder
        os.environ["TMPDIR"] = tempfile.tempdir = folder
        target = str(write_gguf(Path(folder) / "target.gguf", llama__context_length=3000))
        before = threading.active_count(), len(os.listdir("/dev/fd"))
        end_processes(target, chosen.endings, moments)
        assert (threading.active_count(), len(os.listdir("/dev/fd"))) == before, "something is left"
        end_owners(target, max(2, chosen.endings // 4), moments)
        sockets = list(Path(folder).glob("draftlight-*"))
        print(f"Sockets left: {len(sockets)}")


if __name__ == "__main__":
    main()
