"""Checks and measures targets split over processes of this machine: equal texts, ends after deaths, time of the links.

    python -m tests.benchmarks.cluster [--part texts|families|ends|links] [--seed 0] [--endings 12] [--tokens 12]
        [--names NAME ...]

- `texts`: every drafter and rule at temperature 0 and 0.8, with a small random model over two ranks in both ways, and with the
  built-in target over three. Texts may differ only at a near-tie of the single process (`engine.rounds.near_ties`); the largest
  gap is printed.
- `families`: a greedy text of a tiny random model of each architecture that mlx-lm splits, over two ranks in each way, or the
  reason why it is refused.
- `ends`: a follower or rank 0 is killed or stopped at random moments. Each answer must end with a sentence, no process may
  stay, and the next request must be answered.
- `links`: times of collectives between these processes, and the share of communication in measured rounds.

All ranks share this machine's cores, and MLX's ring keeps a core busy while it waits, so times do not carry over to several
machines.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from mlx_lm import models

from engine.cluster.companions import Ranks, launch_for
from engine.cluster.doctor import check
from engine.cluster.hosts import SHARDINGS, Cluster, Sharding
from engine.rounds import near_ties
from engine.runtime.process.client import ProcessEngine
from engine.runtime.process.launch import Companions
from engine.runtime.worker import Engine
from engine.types import (
    RULES,
    DecodingOptions,
    DrafterRefused,
    Message,
    Request,
    Round,
    RoundFinished,
    RunFailed,
    RunFinished,
)
from tests.engine.cluster.models import of_this_machine, write_qwen2
from tests.engine.families import LAYERS, NOT_BUILT, architectures, config_of, tiny
from tests.engine.runtime.process.processes import is_alive, until
from tests.engine.tiny_models import VOCABULARY, write_model

MESSAGES = (Message("user", "hello world, hello world: tell me of the world"),)
PATIENCE = 300.0
SILENCE_TIMEOUT = 3.0


@dataclass(frozen=True)
class Case:
    """A split target, and the drafters that it is asked with."""

    ranks: int
    sharding: Sharding
    target: str
    drafters: tuple[str, ...]

    @property
    def name(self) -> str:
        """As it is printed."""
        return f"{Path(self.target).name} on {self.ranks} ranks, {self.sharding}"


def cases(folder: Path) -> list[Case]:
    """Two ways for two ranks, and the built-in target, whose three key heads want three."""
    target, draft = write_qwen2(folder / "tiny qwen2"), write_qwen2(folder / "draft", 0.15)
    tiny = ("none", "ngram", draft)
    builtin = ("none", "ngram", "builtin-draft", "head")
    return [Case(2, "tensor", target, tiny), Case(2, "pipeline", target, tiny), Case(3, "tensor", "builtin", builtin)]


class Asker:
    """A split target, started anew after a death, and its newest followers."""

    def __init__(self, cluster: Cluster) -> None:
        self.ranks: list[Ranks] = []
        self.engine = ProcessEngine(replace(launch_for(cluster), companions=lambda: self._companions(cluster)))

    def _companions(self, cluster: Cluster) -> Companions:
        self.ranks.append(Ranks(cluster, SILENCE_TIMEOUT))
        return self.ranks[-1]

    def answer(self, request: Request, engine: Engine | None = None) -> tuple[list[Round], RunFinished | RunFailed]:
        """The rounds and the end, from the split target or another engine."""
        asked = engine or self.engine
        number = asked.submit(request)
        rounds: list[Round] = []
        while asked.wait(PATIENCE):
            for event in asked.events():
                if isinstance(event, RoundFinished) and event.run_id == number:
                    rounds.append(event.round)
                elif isinstance(event, (RunFinished, RunFailed)) and event.run_id == number:
                    return rounds, event
                elif isinstance(event, DrafterRefused):
                    print("refused:", event.message)
        raise SystemExit("An answer did not end.")


@contextmanager
def split(cluster: Cluster) -> Iterator[Asker]:
    """The asker, closed at the end."""
    asker = Asker(cluster)
    try:
        yield asker
    finally:
        asker.engine.close(PATIENCE)


def texts(case: Case, tokens: int) -> int:
    """Prints how many of a case's answers equal those of one process; returns how many are wrong."""
    equal, excused, wrong, largest = 0, 0, 0, 0.0
    alone = Engine()
    try:
        with split(of_this_machine(case.ranks, case.sharding)) as asker:
            for drafter in case.drafters:
                for rule in RULES if drafter != "none" else RULES[:1]:
                    for temperature in (0.0, 0.8):
                        options = DecodingOptions(max_tokens=tokens, seed=5, temperature=temperature, rule=rule, gamma=3)
                        request = Request(MESSAGES, options, case.target, drafter)
                        found, end = asker.answer(request)
                        known, _ = asker.answer(request, alone)
                        gap = _gap(found, known, temperature)
                        if gap is None and isinstance(end, RunFinished):
                            equal += 1
                        elif isinstance(end, RunFinished) and gap is not None and gap < near_ties.FLOAT32:
                            excused, largest = excused + 1, max(largest, gap)
                        else:
                            wrong += 1
                            print(f"WRONG: {drafter}, {rule}, T {temperature}: gap {gap}, {end}")
    finally:
        alone.close(PATIENCE)
    near = f", {excused} part at a near-tie (largest gap {largest:.1e})" if excused else ""
    print(f"{case.name}: {equal} of {equal + excused + wrong} texts equal those of one process{near}, {wrong} wrong", flush=True)
    return wrong


def _gap(found: list[Round], known: list[Round], temperature: float) -> float | None:
    """How near something else was where two texts of one temperature part; None where they do not."""
    ours = [token for current in found for token in current.emitted]
    theirs = [token for current in known for token in current.emitted]
    for mine, other in zip(ours, theirs, strict=False):
        if mine.id != other.id:
            nearest = near_ties.nearest([mine, other], temperature)
            return float("inf") if nearest is None else nearest.size
    return None if len(ours) == len(theirs) else float("inf")


WINDOWED = ("gpt_oss", "step3p5")
"""Architectures that always have sliding windows."""


def families(folder: Path, names: list[str], tokens: int) -> int:
    """Prints for each architecture whether its split text is that of one process, or the refusal; returns how many are wrong."""
    wrong = 0
    options = DecodingOptions(max_tokens=tokens, seed=1, temperature=0.0)
    alone = Engine()
    try:
        for sharding in SHARDINGS:
            with split(of_this_machine(2, sharding)) as asker:
                for name in names:
                    config = config_of(name) | {"vocab_size": VOCABULARY}
                    layers = (
                        {"layer_types": ["full_attention"] * LAYERS} if "layer_types" in config and name not in WINDOWED else {}
                    )
                    model = tiny(name, vocab_size=VOCABULARY, **layers)
                    has = hasattr(model, "shard"), hasattr(getattr(model, "model", None), "pipeline")
                    if not has[SHARDINGS.index(sharding)]:
                        continue
                    request = Request(MESSAGES, options, str(write_model(folder / name, model, config | layers)))
                    found, end = asker.answer(request)
                    known, _ = asker.answer(request, alone)
                    gap = _gap(found, known, options.temperature)
                    is_refused = isinstance(end, RunFailed) and "cannot be split" in end.message
                    is_right = gap is None or (isinstance(end, RunFinished) and gap < near_ties.FLOAT32)
                    wrong += not (is_refused or is_right)
                    said = (
                        end.message
                        if isinstance(end, RunFailed)
                        else "same text"
                        if gap is None
                        else f"parts at a gap of {gap:.1e}"
                    )
                    print(f"{sharding:8}  {name:20}  {said}", flush=True)
    finally:
        alone.close(PATIENCE)
    return wrong


def splittable() -> list[str]:
    """The architectures whose files say how they are split, but for those around a text model of another file."""
    texts = {name: Path(f"{models.__path__[0]}/{name}.py").read_text() for name in architectures() if name not in NOT_BUILT}
    told = [name for name, text in texts.items() if "def shard(" in text or "PipelineMixin" in text]
    return [name for name in told if "text_config" not in config_of(name)]


ENDINGS = ("follower killed", "follower stopped", "rank 0 killed", "rank 0 stopped")


def ends(case: Case, seed: int, count: int) -> int:
    """Ends `count` answers at random moments, in each of `ENDINGS` in turn; returns how often something was wrong."""
    chance, wrong, words = random.Random(seed), 0, set()
    request = Request(MESSAGES, DecodingOptions(max_tokens=250, seed=1, temperature=0.8, gamma=3), case.target, case.drafters[-1])
    waits: dict[str, list[float]] = {ending: [] for ending in ENDINGS[:3]}
    with split(of_this_machine(case.ranks, case.sharding)) as asker:
        for index in range(count):
            ending = ENDINGS[index % 3]  # rank 0 stopped takes the client's 60 s: once, below
            _, before = asker.answer(replace(request, options=request.options.replace(max_tokens=3)))
            took, sentence, left = _end(asker, request, ending, chance.uniform(0.0, 1.5))
            waits[ending].append(took)
            words.add(sentence)
            if not isinstance(before, RunFinished) or left or not sentence:
                wrong += 1
                print(f"WRONG: {ending}: {sentence!r}, left {left}, before {before}")
        took, sentence, left = _end(asker, request, ENDINGS[3], 0.5)
        words.add(sentence)
        wrong += bool(left)
    for ending, times in waits.items():
        print(f"{ending}: {len(times)} answers ended after {statistics.median(times):.1f} s (longest {max(times):.1f} s)")
    print(f"{ENDINGS[3]}: ended after {took:.1f} s")
    print(f"{case.name}: {count + 1} deaths, seed {seed}: {wrong} without a sentence or with a process left over. It was said:")
    print("\n".join(f"  {sentence}" for sentence in sorted(words)), flush=True)
    return wrong


def _end(asker: Asker, request: Request, ending: str, moment: float) -> tuple[float, str, list[int]]:
    """Seconds until the answer had ended, what was said, and which processes were left."""
    number = asker.engine.submit(request)
    asker.engine.wait(PATIENCE)
    time.sleep(moment)
    processes = [*asker.ranks[-1].pids, asker.engine.process_id or 0]
    victim = processes[0] if ending.startswith("follower") else processes[-1]
    os.kill(victim, signal.SIGKILL if ending.endswith("killed") else signal.SIGSTOP)
    began, said = time.monotonic(), ""
    while not said:
        if not asker.engine.wait(PATIENCE):
            return PATIENCE, "", processes
        for event in asker.engine.events():
            if isinstance(event, (RunFailed, RunFinished)) and event.run_id == number:
                said = event.message if isinstance(event, RunFailed) else "It had ended before."
    took = time.monotonic() - began
    until(lambda: said == "It had ended before." or not any(is_alive(process) for process in processes))
    return took, said, [] if said == "It had ended before." else [process for process in processes if is_alive(process)]


def links(case: Case, tokens: int) -> None:
    """Prints what collectives take, and the share of communication in measured rounds."""
    cluster = of_this_machine(case.ranks, case.sharding)
    for finding in check(cluster, case.target):
        if finding.rank is None:
            print(f"{case.name}: {finding.words}")
    with split(cluster) as asker:
        options = DecodingOptions(max_tokens=tokens, seed=5, temperature=0.8, gamma=4, phase_every=2)
        for drafter in ("none", case.drafters[2]):
            rounds, _ = asker.answer(Request(MESSAGES, options, case.target, drafter))
            measured = [current for current in rounds if current.milliseconds.communication is not None]
            for rows in sorted({current.rows for current in measured}):
                times = [current.milliseconds for current in measured if current.rows == rows]
                waited = statistics.median(entry.communication or 0 for entry in times)
                verify = statistics.median(entry.verify or 0 for entry in times)
                print(
                    f"  {rows} rows: {waited:.1f} of {verify:.1f} ms of a pass are communication ({len(times)} rounds)",
                    flush=True,
                )


def main() -> None:
    """Prints what was asked for; ends with status 1 if something was wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=("texts", "families", "ends", "links"), help="only this (default: all)")
    parser.add_argument("--seed", type=int, default=0, help="of the random moments")
    parser.add_argument("--endings", type=int, default=12, help="how many answers are ended")
    parser.add_argument("--tokens", type=int, default=12, help="of each answer")
    parser.add_argument("--names", nargs="*", help="only these architectures")
    parser.add_argument("--only", type=int, choices=(0, 1, 2), help="only this one of the three targets")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        known = cases(Path(folder))
        chosen = known if asked.only is None else [known[asked.only]]
        wrong = 0
        for case in chosen:
            if asked.part in (None, "links"):
                links(case, asked.tokens)
            if asked.part in (None, "texts"):
                wrong += texts(case, asked.tokens)
        if asked.part in (None, "families"):
            wrong += families(Path(folder), asked.names or splittable(), asked.tokens)
        if asked.part in (None, "ends"):
            wrong += ends(chosen[0], asked.seed, asked.endings)
    raise SystemExit(1 if wrong else 0)


if __name__ == "__main__":
    main()
