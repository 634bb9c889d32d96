"""Measures roll-back beside a plain round, for each kind of layer memory.

python -m tests.benchmarks.rollback [--repeats 40] [--only NAME ...]

Random models of mlx-lm's architectures, some 10 to 50 million parameters, past their windows and chunks. In turn: a pass over one
row (a plain round), over five, over five of which two are taken back, and over five of which four are; each until what it leaves
in the cache is computed, so a replay that a round would leave to the next one is in its own time. Times are medians in
milliseconds; the last columns are medians of the differences between passes that follow one another, as shares of a plain round.
"""

from __future__ import annotations

import argparse
import statistics
import time
from dataclasses import dataclass
from typing import Any

import mlx.core as mx
from mlx.utils import tree_flatten

from engine.target import prompt_cache as caches
from engine.target.quantised_cache import make_quantised_cache
from tests.engine.families import SIZES, tiny

LARGER = SIZES | {
    name: size
    for size, names in {
        512: ("hidden_size", "hidden_dim", "d_model", "block_dim", "moe_intermediate_size", "shared_intermediate_size"),
        1536: ("intermediate_size", "block_ff_dim"),
        8192: ("vocab_size",),
        64: ("head_dim",),
        8: ("num_attention_heads", "num_heads"),
        4: ("num_key_value_heads",),
    }.items()
    for name in names
}
MAMBA = {"mamba_n_heads": 16, "mamba_d_head": 64, "mamba_d_state": 64}
LINEAR = {"linear_num_value_heads": 8, "linear_num_key_heads": 4, "linear_key_head_dim": 64, "linear_value_head_dim": 64}
PASSES = ((1, 0), (5, 0), (5, 2), (5, 4))
"""Rows read, and how many of them are taken back."""


@dataclass(frozen=True)
class Kind:
    """A kind of memory and the architecture that stands for it; `given`: its settings beyond the sizes above."""

    name: str
    architecture: str
    given: dict[str, Any]
    bits: int | None = None


KINDS = (
    Kind("keys and values", "qwen3", {}),
    Kind("the same, 8 bits", "qwen3", {}, 8),
    Kind("sliding windows", "gemma3_text", {}),
    Kind("chunks", "llama4", {}),
    Kind("short convolutions", "lfm2", {}),
    Kind("gated delta rule", "qwen3_next", LINEAR),
    Kind("state space, hybrid", "granitemoehybrid", MAMBA),
    Kind("state space alone", "mamba", {"state_size": 16, "time_step_rank": 32}),
    Kind("RWKV 7", "rwkv7", {}),
)


def times(model: Any, cache: list[Any], repeats: int) -> list[list[float]]:
    """Milliseconds of every pass of `PASSES`, for each of so many turns."""
    caches.read_prompt(model, cache, [(7 * place) % 97 for place in range(40)], lambda done, total: True)
    caches.watch(cache)
    found = []
    for turn in range(repeats + 2):
        one = []
        for rows, dropped in PASSES:
            held = caches.cache_length(cache) or 0
            began = time.perf_counter()
            mx.eval(model(mx.array([[5, 7, 9, 11, 5][:rows]]), cache=cache))
            caches.trim_to(cache, held + rows - dropped, "target")
            mx.eval(caches.state_of(cache))
            one.append((time.perf_counter() - began) * 1e3)
        if turn > 1:  # the first ones warm up
            found.append(one)
    return found


def row(kind: Kind, repeats: int) -> str:
    """A line of the table."""
    model = tiny(kind.architecture, by=1.0, sizes=LARGER, **kind.given)
    millions = sum(weight.size for _, weight in tree_flatten(model.parameters())) / 1e6
    cache = make_quantised_cache(model, kind.bits, kind.architecture) if kind.bits else caches.make_prompt_cache(model)
    found = times(model, cache, repeats)
    plain, five, two, four = (statistics.median(column) for column in zip(*found, strict=True))
    costs = [statistics.median(one[place] - one[1] for one in found) / plain for place in (2, 3)]
    shares = "  ".join(f"{cost:+6.2f}" for cost in (five / plain - 1, *costs))
    return f"{kind.name:20} {kind.architecture:17} {millions:4.0f} M  {plain:6.2f} {five:6.2f} {two:6.2f} {four:6.2f}  {shares}"


def main() -> None:
    """Prints the table, a row at a time."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=40)
    parser.add_argument("--only", nargs="+", default=None, help="architectures, as mlx-lm's model files are called")
    asked = parser.parse_args()
    print(f"{'':46} milliseconds of a pass over   in plain rounds")
    print(f"{'layers remember':20} {'architecture':17} {'size':>6}   1 row 5 rows 2 back 4 back  4 more  2 back  4 back")
    for kind in KINDS:
        if asked.only is None or kind.architecture in asked.only:
            print(row(kind, asked.repeats), flush=True)
            mx.clear_cache()


if __name__ == "__main__":
    main()
