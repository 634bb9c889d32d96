"""Measures the closed forms on rows like a language model's: make bench-theory

Prints microseconds per pair of float32 rows over 49,152 tokens (the fastest of several repetitions): all three closed forms at
once, and gumbel's alone with every token sorted; then how far the two values of gumbel's are apart. The drafter's logits are
the target's with normal noise. Rows are synthetic: `--builtin` takes the built-in target's after a text instead, and as drafter
the same model that has read the last five tokens only.
"""

from __future__ import annotations

import argparse
import timeit
from collections.abc import Callable

import numpy as np

from engine.rounds import theory

VOCABULARY = 49_152
REPETITIONS = 20
TEXT = (
    "Speculative decoding is a technique in which a small model proposes several tokens and a large one verifies them at once. "
    "The result follows exactly the same distribution, yet the text appears faster. Once upon a time there was a"
)


def softmax(logits: np.ndarray) -> np.ndarray:
    weights = np.exp(logits - logits.max())
    return weights / weights.sum()


def nucleus(row: np.ndarray, mass: float) -> np.ndarray:
    """The likeliest tokens that hold `mass`, renormalised."""
    order = np.argsort(-row)
    keep = order[: int(np.searchsorted(np.cumsum(row[order]), mass)) + 1]
    kept = np.zeros_like(row)
    kept[keep] = row[keep] / row[keep].sum()
    return kept


def synthetic(generator: np.random.Generator, noise: float) -> tuple[np.ndarray, np.ndarray]:
    """A target's and a drafter's logits: a normal bulk, a few hundred plausible tokens, a handful of likely ones."""
    target = generator.normal(0.0, 2.0, VOCABULARY)
    target[:300] += generator.exponential(3.0, 300)
    target[generator.integers(VOCABULARY, size=3)] += 12.0
    return target, target + generator.normal(0.0, noise, VOCABULARY)


def builtin() -> list[tuple[np.ndarray, np.ndarray]]:
    """Logits at every third position of a text."""
    import mlx.core as mx

    from engine.models.loading import load

    loaded = load("builtin")

    def logits(ids: list[int]) -> np.ndarray:
        return np.array(loaded.model(mx.array([ids]))[0].astype(mx.float32), dtype=np.float64)

    ids = loaded.tokenizer.encode(TEXT)
    target = logits(ids)
    return [(target[end], logits(ids[end - 4 : end + 1])[-1]) for end in range(8, len(ids), 3)]


def fastest(run: Callable[[], object]) -> float:
    """Microseconds."""
    return min(timeit.repeat(run, number=1, repeat=REPETITIONS)) * 1e6


def report(name: str, pairs: list[tuple[np.ndarray, np.ndarray]], temperature: float, top_p: float) -> None:
    together, alone, distances = [], [], []
    for target, draft in pairs:
        p, q = softmax(target / temperature), softmax(draft / temperature)
        if top_p < 1:
            p, q = nucleus(p, top_p), nucleus(q, top_p)
        p, q = p.astype(np.float32), q.astype(np.float32)
        together.append(fastest(lambda p=p, q=q: theory.expected(p, q)))
        alone.append(fastest(lambda p=p, q=q: theory.gumbel_probability(p, q)))
        distances.append(theory.expected(p, q)[1] - theory.gumbel_probability(p, q))
    print(
        f"{name:>18} {temperature:4} {top_p:6} {np.median(together):9.0f} {max(together):9.0f} {np.median(alone):9.0f} "
        f"{max(distances, key=abs):10.1e}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--builtin", action="store_true", help="rows of the built-in target")
    arguments = parser.parse_args()
    generator = np.random.default_rng(0)
    if arguments.builtin:
        cases = {"built-in": builtin()}
    else:
        cases = {f"noise {noise}": [synthetic(generator, noise) for _ in range(5)] for noise in (0.001, 0.1, 1.0)}
    print(f"{'rows':>18} {'T':>4} {'top-p':>6} {'three us':>9} {'slowest':>9} {'sorted us':>9} {'distance':>10}")
    for name, pairs in cases.items():
        for temperature in (0.3, 0.8, 1.2):
            for top_p in (1.0, 0.95):
                report(name, pairs, temperature, top_p)


if __name__ == "__main__":
    main()
