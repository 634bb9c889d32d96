"""Checks that an answer that takes turns has the same figures as alone, and that two answers share the machine equally.

    python -m tests.benchmarks.compare [--tokens 32] [--rounds 8]

Decodes a plain answer and one with the built-in draft model by themselves and then in turns, repetition by repetition in one
run. Prints for each the seconds of its own, the median and on a busy machine rather the fastest, with their ratios (1 is right),
and how equal the shares of time were when the first answer ended, as the larger share over the smaller one.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Sequence

from engine.runtime.worker import Engine
from engine.types import DecodingOptions, Message, Request, Round, RoundFinished, RunFailed, RunFinished
from engine.values.requests.compare import CompareRequest

PROMPT = "Write a short story about a lighthouse keeper who finds a message in a bottle."
SETTINGS = (("none", 2), ("builtin-draft", 3))


def request(drafter: str, gamma: int, tokens: int) -> Request:
    options = DecodingOptions(rule="gumbel", seed=4242, gamma=gamma, max_tokens=tokens, temperature=0.8)
    return Request((Message("user", PROMPT),), options, drafter=drafter)


def decoded(engine: Engine, runs: Sequence[int]) -> tuple[list[float], float]:
    """Seconds of its own for each answer, and the larger over the smaller time used when the first had ended."""
    used: dict[int, float] = dict.fromkeys(runs, 0.0)
    ended: dict[int, float] = {}
    share = 1.0
    while len(ended) < len(runs):
        engine.wait(60)
        for event in engine.events():
            match event:
                case RoundFinished(run, round_):
                    used[run] = end_of(round_)
                case RunFinished(run_id=run):
                    if not ended:
                        share = max(used.values()) / max(1e-9, min(used.values()))
                    ended[run] = event.seconds
                case RunFailed(message=message):
                    raise SystemExit(message)
    return [ended[run] for run in runs], share


def end_of(round_: Round) -> float:
    return (round_.started + round_.milliseconds.total) / 1e3


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--tokens", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=8)
    arguments = parser.parse_args()
    requests = [request(drafter, gamma, arguments.tokens) for drafter, gamma in SETTINGS]
    engine = Engine()
    try:
        for wanted in requests:  # what is loaded and compiled first is not measured
            decoded(engine, [engine.submit(wanted)])
        alone: list[list[float]] = [[] for _ in requests]
        together: list[list[float]] = [[] for _ in requests]
        shares: list[float] = []
        for _ in range(arguments.rounds):
            for kept, wanted in zip(alone, requests, strict=True):
                kept += decoded(engine, [engine.submit(wanted)])[0]
            seconds, share = decoded(engine, engine.compare(CompareRequest(tuple(requests))))
            shares.append(share)
            for kept, value in zip(together, seconds, strict=True):
                kept.append(value)
    finally:
        engine.close(60)
    for (drafter, gamma), single, shared in zip(SETTINGS, alone, together, strict=True):
        name = "plain" if drafter == "none" else f"{drafter}, gamma {gamma}"
        for figure, of in (("median", statistics.median), ("fastest", min)):
            one, two = float(of(single)), float(of(shared))
            print(f"{name:24} {figure:8} alone {one:.2f} s, in turns {two:.2f} s, ratio {two / one:.2f}")
    print(f"time used when the first answer ended, larger over smaller share: {statistics.median(shares):.2f}")


if __name__ == "__main__":
    main()
