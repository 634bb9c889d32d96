"""What the closed forms cost on rows like a language model's: python tests/benchmarks/theory.py

Prints microseconds per pair of float32 rows over 49,152 tokens (the fastest of several repetitions), how many tokens take part,
and the distance from the sum over all tokens, for sharp to flat synthetic rows, with and without top-p.
"""

from __future__ import annotations

import timeit

import numpy as np

from engine import theory

VOCABULARY = 49_152
REPETITIONS = 20


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


def pair(generator: np.random.Generator, spread: float, temperature: float, top_p: float) -> tuple[np.ndarray, np.ndarray]:
    """A target's and a drafter's row: a bulk of normal logits, a few hundred plausible tokens, a handful of likely ones."""
    target = generator.normal(0.0, spread, VOCABULARY)
    target[:300] += generator.exponential(3.0, 300)
    target[generator.integers(VOCABULARY, size=3)] += 14.0
    draft = target + generator.normal(0.0, 1.0, VOCABULARY)
    p, q = softmax(target / temperature), softmax(draft / temperature)
    if top_p < 1:
        p, q = nucleus(p, top_p), nucleus(q, top_p)
    return p.astype(np.float32), q.astype(np.float32)


def measure(p: np.ndarray, q: np.ndarray) -> tuple[float, int, float]:
    """Microseconds of `expected`, tokens that take part, and the largest distance of its values from the exact ones."""
    seconds = min(timeit.repeat(lambda: theory.expected(p, q), number=1, repeat=REPETITIONS))
    checked = theory._checked(p, q)
    survivors = theory._survivors(*checked)[0].size
    exact_rows = p.astype(np.float64) / checked[2], q.astype(np.float64) / checked[3]
    exact = (theory.match_probability(p, q), theory._gumbel(*exact_rows), theory.rejection_probability(*exact_rows))
    distance = max(abs(one - other) for one, other in zip(theory.expected(p, q), exact, strict=True))
    return seconds * 1e6, survivors, distance


def main() -> None:
    generator = np.random.default_rng(0)
    print(f"{'spread':>6} {'T':>4} {'top-p':>6} {'us':>7} {'tokens':>7} {'distance':>9}   match  gumbel  rejection")
    for temperature in (0.8, 1.2):
        for spread in (1.5, 2.0, 2.5, 3.0):
            for top_p in (1.0, 0.95):
                p, q = pair(generator, spread, temperature, top_p)
                microseconds, survivors, distance = measure(p, q)
                values = "  ".join(f"{value:.4f}" for value in theory.expected(p, q))
                print(f"{spread:6} {temperature:4} {top_p:6} {microseconds:7.0f} {survivors:7} {distance:9.1e}   {values}")
    flat = np.full(VOCABULARY, 1.0 / VOCABULARY, dtype=np.float32)
    microseconds, survivors, distance = measure(flat, flat)
    print(f"{'uniform':>18} {microseconds:7.0f} {survivors:7} {distance:9.1e}")


if __name__ == "__main__":
    main()
