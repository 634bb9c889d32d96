"""Compares the engine in a process with the engine on a thread, side by side: make bench-process

`--parts` chooses what is measured:
- `wire`: bytes of a round and microseconds to write and read it, next to the JSON of traces and plain pickle.
- `channel`: the delay of an event, events per second, and the delay of an answer to a question.
- `answers`: the built-in pair answers the same prompt with the same seed on both in turn: round time, time to the first token,
  time of a first start, memory.
- `window`: the same in two windows with every view open, and their frames.
- `silence`: the longest time without a heartbeat while models load and answer, which sets the limit of the watchdog.

Ratios are process over thread: the median over turns, with the smallest and the largest.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import resource
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

from engine.rounds.codec import round_from_json, round_to_json
from engine.runtime.interface import EngineLike
from engine.runtime.process import client
from engine.runtime.process.client import ProcessEngine
from engine.runtime.process.launch import Launch
from engine.runtime.process.wire import packed, unpacked
from engine.runtime.worker import Engine
from engine.types import (
    DecodingOptions,
    LoadFailed,
    Message,
    PromptCounted,
    Request,
    RoundFinished,
    RunFailed,
    RunFinished,
)
from tests.engine.runtime.process import stub

PROMPT = "Write a short story about a lighthouse keeper who finds a message in a bottle."
MANY = 2000


def request(prompt: str, options: DecodingOptions | None = None, drafter: str = "none") -> Request:
    return Request((Message("user", prompt),), DecodingOptions() if options is None else options, drafter=drafter)


def answer(engine: EngineLike, wanted: Request) -> tuple[RunFinished, list[RoundFinished], list[float]]:
    """One answer: its end, its rounds, and when each was taken."""
    run_id = engine.submit(wanted)
    rounds: list[RoundFinished] = []
    times: list[float] = []
    while True:
        engine.wait(1.0)
        for event in engine.events():
            if isinstance(event, RoundFinished):
                rounds.append(event)
                times.append(time.perf_counter())
            elif isinstance(event, RunFinished) and event.run_id == run_id:
                return event, rounds, times
            elif isinstance(event, (RunFailed, LoadFailed)):
                raise SystemExit(event.message)


def microseconds(work: Callable[[], object], many: int = 300) -> float:
    """Of one call, the best of five stretches."""
    stretches = []
    for _ in range(5):
        began = time.perf_counter()
        for _ in range(many):
            work()
        stretches.append((time.perf_counter() - began) / many)
    return min(stretches) * 1e6


def wire(rounds: Sequence[RoundFinished]) -> None:
    """A real round of the built-in pair with all that its analysis found."""
    event = max(rounds, key=lambda each: len(packed(each)))
    own, plain, text = packed([event]), pickle.dumps([event], 5), json.dumps(round_to_json(event.round))
    print("The largest round of an answer       bytes   write us   read us")
    for name, size, write, read in (
        ("fields, read by an allow-list", len(own), lambda: packed([event]), lambda: unpacked(own)),
        ("pickle as it comes", len(plain), lambda: pickle.dumps([event], 5), lambda: pickle.loads(plain)),
        (
            "JSON of traces",
            len(text),
            lambda: json.dumps(round_to_json(event.round)),
            lambda: round_from_json(json.loads(text)),
        ),
    ):
        print(f"  {name:<32} {size:>7,} {microseconds(write):>10.0f} {microseconds(read):>9.0f}")


def channel() -> None:
    """A stub engine on a thread of this process and in another process."""
    sides = {"thread": stub.StubEngine(), "process": ProcessEngine(Launch("tests.engine.runtime.process.stub:engine"))}
    print("Without a model                late: median, 99 %    events/s   question and answer")
    for name, engine in sides.items():
        answer(engine, request("warm"))  # starts it
        _, rounds, times = answer(engine, request("paced " * 100))
        late = sorted(at - (event.seconds_to_first_token or 0.0) for event, at in zip(rounds, times, strict=True))
        began = time.perf_counter()
        answer(engine, request("x" * MANY * 10))
        rate = MANY * 10 / (time.perf_counter() - began)
        asked = []
        for _ in range(300):
            began = time.perf_counter()
            number = engine.count_prompt(request("x"))
            while not any(isinstance(event, PromptCounted) and event.count_id == number for event in engine.events()):
                engine.wait(1.0)
            asked.append(time.perf_counter() - began)
        middle, far, question = statistics.median(late), late[int(0.99 * len(late))], statistics.median(asked)
        print(f"  {name:<28} {middle * 1e6:>6.0f} us, {far * 1e6:>6.0f} us {rate:>9,.0f}   {question * 1e6:>6.0f} us")
        engine.close()


def ratio(name: str, thread: Sequence[float], process: Sequence[float], unit: str) -> None:
    each = sorted(there / here for here, there in zip(thread, process, strict=True))
    medians = f"{statistics.median(thread):.4g} and {statistics.median(process):.4g} {unit}"
    print(f"  {name:<28} {statistics.median(each):.3f} ({each[0]:.3f} to {each[-1]:.3f}); {medians}")


def answers(tokens: int, turns: int, drafter: str) -> list[RoundFinished]:
    """Both engines have the built-in pair loaded; each answers in turn."""
    wanted = request(PROMPT, DecodingOptions(seed=7, max_tokens=tokens, phase_every=0), drafter)
    sides: dict[str, EngineLike] = {}
    rounds: list[RoundFinished] = []
    made: tuple[tuple[str, Callable[[], EngineLike]], ...] = (("thread", Engine), ("process", ProcessEngine))
    print(f"The built-in target, drafter {drafter}, {tokens} tokens")
    for name, make in made:
        began = time.perf_counter()
        sides[name] = make()
        answer(sides[name], wanted)
        print(f"  {name}: first answer after {time.perf_counter() - began:.2f} s, loading included")
    figures: dict[str, dict[str, list[float]]] = {name: {"round": [], "first": [], "whole": [], "seen": []} for name in sides}
    texts = set()
    for turn in range(turns):
        for name in sorted(sides, reverse=bool(turn % 2)):
            asked = time.perf_counter()
            end, rounds, times = answer(sides[name], wanted)
            texts.add(end.text)
            mine = figures[name]
            mine["round"].append(statistics.median(each.round.milliseconds.total for each in rounds[1:]))
            mine["first"].append((end.seconds_to_first_token or 0.0) * 1000)
            mine["seen"].append((times[0] - asked) * 1000)
            mine["whole"].append((times[-1] - asked) * 1000)
    assert len(texts) == 1, "both write the same text"
    thread, process = figures["thread"], figures["process"]
    ratio("time of a round", thread["round"], process["round"], "ms")
    ratio("first token, in the engine", thread["first"], process["first"], "ms")
    ratio("first round, where it is seen", thread["seen"], process["seen"], "ms")
    ratio("whole answer", thread["whole"], process["whole"], "ms")
    engine = sides["process"]
    assert isinstance(engine, ProcessEngine)
    print(f"  memory: this process, thread included, {peak(os.getpid())}; the engine's process {peak(engine.process_id or 0)}")
    for engine in sides.values():
        engine.close()
    return rounds


def peak(process_id: int) -> str:
    """The most memory that a process has held, where the system says."""
    try:
        lines = Path(f"/proc/{process_id}/status").read_text().splitlines()
        return f"{int(next(line for line in lines if line.startswith('VmHWM')).split()[1]) / 1000:,.0f} MB"
    except OSError:
        return f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6:,.0f} MB"


def windows(tokens: int, turns: int, drafter: str) -> None:
    """Two windows on the same desk, painted offscreen, one engine each."""
    from app.session.settings import Settings
    from app.window.launch import make_application
    from app.window.window import Window
    from tests.benchmarks.frames import Frames, Stretch, summary
    from tests.benchmarks.window import watched

    make_application()
    shown: dict[str, Window] = {}
    made: tuple[tuple[str, Callable[[], EngineLike]], ...] = (("thread", Engine), ("process", ProcessEngine))
    frames = Frames()
    for name, make in made:
        engine = make()
        settings = Settings(drafter=drafter, seed=7, max_tokens=tokens)
        answer(engine, request(PROMPT, settings.options(), drafter))
        shown[name] = Window(engine, settings)
        shown[name].resize(1440, 900)
        shown[name].show()
    speeds: dict[str, list[float]] = {name: [] for name in shown}
    lengths: dict[str, list[Stretch]] = {name: [] for name in shown}
    for turn in range(turns):
        for name in sorted(shown, reverse=bool(turn % 2)):
            speed, taken, _ = watched(shown[name], "rounds" if turn % 2 else "charts", frames)
            speeds[name].append(1000 / speed)
            lengths[name] += taken
    print(f"In a window with every view open, {tokens} tokens")
    ratio("time per token", speeds["thread"], speeds["process"], "ms")
    for name, window in shown.items():
        print(f"  frames beside the {name:<10} {summary(lengths[name])}")
        window.close()


def silence(drafter: str) -> None:
    """What native code that keeps Python's lock makes of a sign of life every half a second."""
    heard: list[float] = []
    take = client._Life._live

    def timed(life: client._Life) -> None:
        """Notes when something is read."""
        unpack = client.unpacked
        client.unpacked = lambda content: (heard.append(time.perf_counter()), unpack(content))[1]
        take(life)
        client.unpacked = unpack

    client._Life._live = timed  # type: ignore[method-assign]
    engine = ProcessEngine()
    began = time.perf_counter()
    for name in (drafter, "builtin-draft", "ngram"):
        answer(engine, request(PROMPT, DecodingOptions(seed=1, max_tokens=48), name))
    answer(engine, request(PROMPT * 60, DecodingOptions(seed=1, max_tokens=4)))
    engine.close()
    gaps = sorted(after - before for before, after in zip([began, *heard], heard, strict=False))
    print(f"Signs of life: {len(heard):,}; the longest time without one {gaps[-1]:.2f} s, then {gaps[-2]:.2f} s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", nargs="+", default=["channel", "answers", "wire", "silence", "window"])
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--turns", type=int, default=8, help="how often each side answers")
    parser.add_argument("--drafter", default="head")
    chosen = parser.parse_args()
    rounds: list[RoundFinished] = []
    if "channel" in chosen.parts:
        channel()
    if "answers" in chosen.parts or "wire" in chosen.parts:
        turns = chosen.turns if "answers" in chosen.parts else 1
        rounds = answers(chosen.tokens, turns, chosen.drafter)
    if "wire" in chosen.parts:
        wire(rounds)
    if "silence" in chosen.parts:
        silence(chosen.drafter)
    if "window" in chosen.parts:
        windows(chosen.tokens, chosen.turns, chosen.drafter)


if __name__ == "__main__":
    main()
