"""Compares the plain loop with mlx-lm's own, and measures analysis and speculation, interleaved in one run.

    python -m tests.benchmarks.plain [--tokens 96] [--rounds 4]

Prints tokens per second of each contender (median over the repetitions) and its ratio to mlx-lm's `stream_generate` on the same
loaded model, prompt and temperature, repetition by repetition; then the share of a round that `analyse` takes.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import mlx.core as mx
from mlx_lm.generate import generate_step
from mlx_lm.sample_utils import make_sampler

from engine.decode.decoding import DecodingOptions, decode
from engine.models.loaded import LoadedModel
from engine.models.loading import load
from tests.exactness import make_drafter, prompt_tokens, read_prompts


def of_mlx_lm(model: LoadedModel, ids: list[int], tokens: int, temperature: float) -> float:
    """Tokens per second after the first token."""
    steps = generate_step(mx.array(ids), model.model, max_tokens=tokens, sampler=make_sampler(temperature))
    next(steps)
    began = time.perf_counter()
    count = sum(1 for _ in steps)
    return count / (time.perf_counter() - began)


def of_draftlight(model: LoadedModel, ids: list[int], tokens: int, temperature: float, analyse: bool) -> float:
    options = DecodingOptions(temperature=temperature, seed=1, max_tokens=tokens, analyse=analyse, phase_every=0)
    rounds = decode(model, ids, None, options, eos_ids=())
    next(rounds)
    began = time.perf_counter()
    count = sum(len(current.emitted) for current in rounds)
    return count / (time.perf_counter() - began)


def round_milliseconds(model: LoadedModel, ids: list[int], tokens: int, rule: str, analyse: bool) -> float:
    """Mean time of a speculative round of five proposals."""
    options = DecodingOptions(rule=rule, seed=1, gamma=5, max_tokens=tokens, analyse=analyse, phase_every=0)
    rounds = list(decode(model, ids, make_drafter("builtin-draft", model), options, eos_ids=()))
    return statistics.mean(current.milliseconds.total for current in rounds[1:-1])


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=96)
    parser.add_argument("--rounds", type=int, default=4, help="repetitions, contenders interleaved")
    chosen = parser.parse_args(arguments)
    model = load("builtin")
    ids = prompt_tokens(model, read_prompts()[0])
    for temperature in (0.0, 0.8):
        contenders: dict[str, Callable[[], float]] = {
            "mlx-lm": lambda t=temperature: of_mlx_lm(model, ids, chosen.tokens, t),
            "plain": lambda t=temperature: of_draftlight(model, ids, chosen.tokens, t, False),
            "plain, analysed": lambda t=temperature: of_draftlight(model, ids, chosen.tokens, t, True),
        }
        speeds: dict[str, list[float]] = {name: [] for name in contenders}
        for _ in range(chosen.rounds):
            for name, contender in contenders.items():
                speeds[name].append(contender())
        print(f"temperature {temperature}")
        for name, values in speeds.items():
            ratios = [value / reference for value, reference in zip(values, speeds["mlx-lm"], strict=True)]
            print(f"  {name:<18}{statistics.median(values):7.2f} tokens/s   {statistics.median(ratios):.3f} of mlx-lm")
    for rule in ("gumbel", "rejection", "block"):
        pairs = [
            [round_milliseconds(model, ids, chosen.tokens // 2, rule, analyse) for analyse in (False, True)]
            for _ in range(chosen.rounds)
        ]
        bare = statistics.median(pair[0] for pair in pairs)
        shares = [pair[1] / pair[0] - 1 for pair in pairs]
        print(f"{rule:<10} round of 5 proposals {bare:6.1f} ms, analysing adds {statistics.median(shares):+.1%}")


if __name__ == "__main__":
    main()
