"""Measures noise and judging on this machine, side by side in one run.

    python -m tests.benchmarks.noise [--vocabulary 49152] [--repeats 30]

Prints the ways to draw one row; then, for each rule, the noise and the judging of a round with five proposals as a share of the
built-in target's pass over its six rows. `cold` knows no row of shared noise beforehand, `settled` knows half of them from the
round before. Times are the fastest of interleaved repeats, which a busy machine disturbs least: read ratios.
"""

from __future__ import annotations

import argparse
import shutil
import time
from collections.abc import Callable

import mlx.core as mx
import numpy as np
from mlx_lm.models.cache import make_prompt_cache, trim_prompt_cache

from engine.acceptance import JUDGES, RoundNoise
from engine.machine.host import computes_on_host
from engine.models.loading import load
from engine.noise import reference
from engine.noise import source as noise
from engine.target.distribution import Distribution, HostDistribution

SEED = 2024
GAMMA = 5
CONTEXT = 46
INVERSE_TEMPERATURE = 1.25

Work = Callable[[], object]


def fastest(works: dict[str, Work], repeats: int) -> dict[str, float]:
    """Milliseconds of each, the fastest of interleaved repeats."""
    times: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(repeats):
        for name, work in works.items():
            began = time.perf_counter()
            result = work()
            if isinstance(result, mx.array):
                mx.eval(result)
            times[name].append((time.perf_counter() - began) * 1e3)
    return {name: min(measured) for name, measured in times.items()}


def ways_to_draw_a_row(vocab_size: int, repeats: int) -> None:
    position = mx.array([77], mx.uint32)
    key = mx.array(reference.stream_key(SEED, 77, "residual", 70), mx.uint32)
    works: dict[str, Work] = {
        "numpy": lambda: reference.gumbel(SEED, 77, vocab_size, "residual", 70),
        "numpy, its words alone": lambda: reference.words((1, 2), vocab_size),
        "MLX operations, position in the graph": lambda: noise._rows(SEED, position, vocab_size, "residual", 70),
        "MLX random.split, words alone, always 2^18": lambda: mx.random.split(key, 2**17),
    }
    if shutil.which("g++"):
        compiled = mx.compile(lambda where: noise._rows(SEED, where, vocab_size, "residual", 70))
        began = time.perf_counter()
        mx.eval(compiled(position))
        works[f"MLX compiled (first use {time.perf_counter() - began:.1f} s)"] = lambda: compiled(position)
    print(f"one row of {vocab_size:,} tokens, ms")
    for name, milliseconds in fastest(works, repeats).items():
        print(f"  {milliseconds:7.3f}  {name}")


def one_round(rule: str, p: Distribution, q: Distribution, source: noise.NoiseSource, position: int) -> mx.array:
    """All that noise and judging do in a round: the drafter's draws one by one, then the rule."""
    draws = RoundNoise(source, position)
    source.forget_before(position)
    proposals = []
    for step in range(GAMMA):
        row = q.row(step)
        proposals.append(draws.shared(row, first=step) if rule == "gumbel" else draws.draft(row, step))
    judgement = JUDGES[rule](p, q, mx.concatenate(proposals), draws)  # type: ignore[index]
    return mx.stack([judgement.accepted, judgement.token])


def rounds(vocab_size: int, repeats: int, pass_of_target: Work) -> None:
    generator = np.random.default_rng(0)
    logits = generator.normal(scale=2.5, size=(GAMMA + 1, vocab_size)).astype(np.float32)
    nearby = (logits[:GAMMA] + generator.normal(scale=0.7, size=(GAMMA, vocab_size))).astype(np.float32)
    target_logits, draft_logits = mx.array(logits), mx.array(nearby)
    mx.eval(target_logits, draft_logits)
    source = noise.NoiseSource(SEED, vocab_size)
    position = [100]
    kind = HostDistribution if computes_on_host() else Distribution

    def work(rule: str, advance: int) -> Work:
        def run() -> mx.array:
            position[0] += advance
            # Distributions remember what they computed: every round has its own.
            p = kind(target_logits, INVERSE_TEMPERATURE)
            return one_round(rule, p, kind(draft_logits, INVERSE_TEMPERATURE), source, position[0])

        return run

    works: dict[str, Work] = {"target": pass_of_target}
    for rule in JUDGES:
        works[f"{rule:9} cold"] = work(rule, 1000)
        # Three tokens further, the rows of three of the six positions are known from the round before.
        works[f"{rule:9} settled"] = work(rule, 3)
    found = fastest(works, repeats)
    target = found.pop("target")
    print(f"\na round of {GAMMA + 1} rows: the target's pass takes {target:.1f} ms; noise and judging take")
    for name, milliseconds in found.items():
        print(f"  {milliseconds:7.2f} ms  {100 * milliseconds / target:5.1f} %  {name}")


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vocabulary", type=int, default=49_152)
    parser.add_argument("--repeats", type=int, default=30)
    chosen = parser.parse_args(arguments)
    ways_to_draw_a_row(chosen.vocabulary, chosen.repeats)

    target = load("builtin").model
    cache = make_prompt_cache(target)
    mx.eval(target(mx.arange(10, 10 + CONTEXT)[None], cache=cache))
    rows = mx.arange(300, 301 + GAMMA)[None]

    def pass_of_target() -> None:
        mx.eval(target(rows, cache=cache))
        trim_prompt_cache(cache, GAMMA + 1)

    rounds(chosen.vocabulary, chosen.repeats, pass_of_target)


if __name__ == "__main__":
    main()
