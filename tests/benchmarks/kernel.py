"""Compares the Metal kernel with the same draw in MLX operations and with mlx-lm's sampler, side by side in one run.

    python -m tests.benchmarks.kernel [--repeats 20] [--dtype float16]

Prints microseconds per call at three vocabularies and 1 to 16 rows. Each time is that of a batch of calls evaluated together, as
they are in a decoding graph, divided by their number; the fastest of interleaved repeats counts. mlx-lm draws from a random state
of its own, so only its cost is comparable. Without Metal the kernel's column is left out.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import mlx.core as mx
from mlx_lm.sample_utils import make_sampler

from engine.noise import kernel as noise_kernel
from engine.noise import source as noise

VOCABULARIES = (32_768, 131_072, 262_144)
ROWS = (1, 2, 4, 8, 16)
TEMPERATURE = 0.8
SEED = 2024

Work = Callable[[], object]


def fastest(works: dict[str, Work], repeats: int) -> dict[str, float]:
    """Milliseconds of each, the fastest of interleaved repeats."""
    times: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(repeats):
        for name, work in works.items():
            began = time.perf_counter()
            work()
            times[name].append((time.perf_counter() - began) * 1e3)
    return {name: min(measured) for name, measured in times.items()}


def batch(call: Callable[[int], mx.array], calls: int) -> Work:
    return lambda: mx.eval([call(index) for index in range(calls)])


def works(logits: mx.array, calls: int) -> dict[str, Work]:
    rows, vocab_size = logits.shape
    source = noise.NoiseSource(SEED, vocab_size)
    sampler = make_sampler(temp=TEMPERATURE)

    def positions(index: int) -> mx.array:
        return mx.arange(index * rows, (index + 1) * rows, dtype=mx.uint32)

    def in_kernel(index: int) -> mx.array:
        return noise_kernel.gumbel_argmax(logits, 1 / TEMPERATURE, positions(index), noise._stream(SEED, "shared", None))[0]

    def in_operations(index: int) -> mx.array:
        return noise.draw_rows(logits, 1 / TEMPERATURE, source.rows(positions(index)))[0]

    def in_mlx_lm(index: int) -> mx.array:
        scores = logits.astype(mx.float32)
        return sampler(scores - mx.logsumexp(scores, axis=-1, keepdims=True))

    found = {"MLX operations": batch(in_operations, calls), "mlx-lm": batch(in_mlx_lm, calls)}
    return {"kernel": batch(in_kernel, calls), **found} if noise_kernel.available() else found


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--calls", type=int, default=20, help="calls evaluated together")
    parser.add_argument("--dtype", choices=["float32", "float16", "bfloat16"], default="float16")
    chosen = parser.parse_args(arguments)
    print(f"{mx.default_device()}, mlx {mx.__version__}, logits in {chosen.dtype}, microseconds per call")
    print("kernel: " + ("runs here and agrees with the reference" if noise_kernel.available() else "not available here"))
    for vocab_size in VOCABULARIES:
        for rows in ROWS:
            logits = mx.random.normal((rows, vocab_size), key=mx.random.key(rows)).astype(getattr(mx, chosen.dtype))
            mx.eval(logits)
            times = fastest(works(logits, chosen.calls), chosen.repeats)
            line = "  ".join(f"{name} {milliseconds * 1e3 / chosen.calls:9.1f}" for name, milliseconds in times.items())
            print(f"{vocab_size:8,} tokens {rows:3} rows  {line}")


if __name__ == "__main__":
    main()
