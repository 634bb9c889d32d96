"""Streams of noise are independent, and draws follow their distribution.

Seeds are fixed, so a test always passes or always fails; the stated rates are those of a new seed. Each claim has a mutant: a
plausible mistake for which the test must fail.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import combinations

import mlx.core as mx
import numpy as np
import numpy.typing as npt
import pytest
from scipy import stats

from engine.noise import reference
from engine.noise import source as noise

Words = npt.NDArray[np.uint32]
Stream = tuple[int, int, str, int]
"""Seed, position, domain and round."""
Draw = Callable[[Stream, int], Words]

TOKENS = 2**16
SEEDS = (1234, 2**33 + 8)
LIMIT = 5.0
"""Limit in standard deviations: 5.7e-7, two-sided. All tests here make 1,120 comparisons; one of 1,500 new seeds would fail."""


def shipped(stream: Stream, tokens: int) -> Words:
    seed, position, domain, the_round = stream
    return reference.words(reference.stream_key(seed, position, domain, the_round), tokens)


def deviations(a: Words, b: Words) -> Iterator[float]:
    """Yields the deviations of two streams from independence, in standard deviations.

    It compares the correlation of values and the agreement of bits, aligned and shifted by up to two tokens.
    """
    for shift in range(-2, 3):
        left, right = a[max(shift, 0) : TOKENS + min(shift, 0)], b[max(-shift, 0) : TOKENS - max(shift, 0)]
        yield float(np.corrcoef(left, right)[0, 1] * np.sqrt(left.size))
        differing = int(np.bitwise_count(left ^ right).sum())
        yield (differing - 16 * left.size) / np.sqrt(8 * left.size)


def neighbours(seed: int) -> dict[str, tuple[Stream, Stream]]:
    """Returns pairs of streams that a careless key would make equal."""
    here = (seed, 500, "shared", 500)
    pairs: dict[str, tuple[Stream, Stream]] = {}
    for step in (1, 2, 256, 2**16, 2**31):
        pairs[f"positions {step} apart"] = (here, (seed, 500 + step, "shared", 500))
    for step in (1, 2, 2**16, 2**32, 2**52):
        pairs[f"seeds {step} apart"] = (here, (seed + step, 500, "shared", 500))
    pairs["next position, next seed"] = ((seed, 501, "shared", 500), (seed + 1, 500, "shared", 500))
    pairs["position and seed exchanged"] = ((seed, 500, "shared", 500), (500, seed % 2**32, "shared", 500))
    for one, other in combinations(noise.DOMAINS, 2):
        pairs[f"{one} and {other}"] = ((seed, 500, one, 500), (seed, 500, other, 500))
        pairs[f"{one}, {other} a domain's number further"] = (
            (seed, 500 + noise.DOMAINS[other], one, 500),
            (seed, 500 + noise.DOMAINS[one], other, 500),
        )
    for domain in ("draft", "coin", "residual"):
        pairs[f"{domain} in the next round"] = ((seed, 500, domain, 500), (seed, 500, domain, 499))
        pairs[f"{domain}, position and round exchanged"] = ((seed, 500, domain, 499), (seed, 499, domain, 500))
        pairs[f"{domain}, next position and round"] = ((seed, 500, domain, 500), (seed, 501, domain, 501))
    return pairs


def suspicious(draw: Draw) -> set[str]:
    """Returns the names of the pairs of streams that are not independent."""
    found = set()
    for seed in SEEDS:
        for name, (one, other) in neighbours(seed).items():
            if max(map(abs, deviations(draw(one, TOKENS), draw(other, TOKENS)))) > LIMIT:
                found.add(name)
    return found


def test_no_two_streams_are_alike() -> None:
    """660 comparisons at 5 standard deviations: one of 2,600 new seeds would fail."""
    assert suspicious(shipped) == set()


MUTANTS: dict[str, tuple[Callable[[Stream], tuple[int, int]], str]] = {
    "the position added to the seed": (
        lambda s: reference.stream_key(s[0] + s[1], 0, s[2], s[3]),
        "next position, next seed",
    ),
    "the domain added to the position": (
        lambda s: reference.threefry((s[0] >> 32, s[0] % 2**32), s[1] + noise.DOMAINS[s[2]], 0),
        "shared, draft a domain's number further",
    ),
    "no domain": (lambda s: reference.stream_key(s[0], s[1], "draft", s[3]), "draft and residual"),
    "no round": (lambda s: reference.stream_key(s[0], s[1], s[2], 0), "residual in the next round"),
    "half a seed": (lambda s: reference.stream_key(s[0] % 2**32, s[1], s[2], s[3]), "seeds 4294967296 apart"),
    "a key that is not hashed": (lambda s: (s[0] % 2**32, s[1]), "coin and residual"),
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_careless_key_is_noticed(mutant: str) -> None:
    key, pair = MUTANTS[mutant]
    assert pair in suspicious(lambda stream, tokens: reference.words(key(stream), tokens))


def token_deviations(words: Words) -> list[float]:
    """Returns lagged correlations and bit agreements within one stream, in standard deviations."""
    found = []
    for lag in (1, 2, 3, 4, 255, 256, TOKENS // 2):
        left, right = words[:-lag], words[lag:]
        found.append(float(np.corrcoef(left, right)[0, 1] * np.sqrt(left.size)))
        differing = int(np.bitwise_count(left ^ right).sum())
        found.append((differing - 16 * left.size) / np.sqrt(8 * left.size))
    ones = np.array([np.count_nonzero(words >> np.uint32(bit) & np.uint32(1)) for bit in range(32)])
    return found + ((ones - words.size / 2) / np.sqrt(words.size / 4)).tolist()


def test_tokens_of_a_stream_are_independent() -> None:
    """92 comparisons at 5 standard deviations: one of 19,000 new seeds would fail."""
    for seed in SEEDS:
        assert max(map(abs, token_deviations(shipped((seed, 500, "shared", 0), TOKENS)))) < LIMIT


@pytest.mark.parametrize(
    "mutant",
    [lambda words: np.repeat(words[::2], 2), lambda words: words & ~np.uint32(2**13), lambda words: np.tile(words[:256], 256)],
    ids=["one word for both tokens of a pair", "a bit that is never set", "words that return"],
)
def test_dependent_tokens_are_noticed(mutant: Callable[[Words], Words]) -> None:
    words = shipped((SEEDS[0], 500, "shared", 0), TOKENS)
    assert max(map(abs, token_deviations(mutant(words)))) > LIMIT


def first_words(seed: int, domain: str, positions: int) -> Words:
    """Returns the word of token 0 at each of the first positions: coins are made of these."""
    return np.array(noise.random_words(noise.stream_keys(seed, mx.arange(positions, dtype=mx.uint32), domain, None), 1))[:, 0]


@pytest.mark.parametrize("domain", noise.DOMAINS)
def test_one_token_over_positions_is_independent_and_uniform(domain: str) -> None:
    """92 comparisons and 2 chi-square tests with 256 bins at 1e-6 per domain: one of 18,000 new seeds would fail."""
    for seed in SEEDS:
        words = first_words(seed, domain, TOKENS)
        assert max(map(abs, token_deviations(words))) < LIMIT
        assert stats.chisquare(np.bincount(words >> np.uint32(24), minlength=256)).pvalue > 1e-6


def kolmogorov(values: npt.NDArray[np.float64]) -> float:
    """Returns the Kolmogorov-Smirnov statistic for the Gumbel distribution, times sqrt(n)."""
    return float(stats.kstest(values, stats.gumbel_r.cdf).statistic * np.sqrt(values.size))


def test_noise_follows_the_gumbel_distribution() -> None:
    """Kolmogorov-Smirnov test of 262,144 values for each of two seeds, limit 2.6: one of 180,000 new seeds would fail.

    The mutant, which must fail, is 3 % too wide.
    """
    for seed in SEEDS:
        values = reference.gumbel(seed, 3, 2**18).astype(np.float64)
        assert kolmogorov(values) < 2.6
        assert kolmogorov(values * 1.03) > 2.6


LOGITS = [2.0, 1.5, 1.0, 0.0, -0.5, -1.0, -2.0, -3.0]
TEMPERATURE = 0.8


def draw_p_value(positions: npt.NDArray[np.uint32]) -> float:
    """Returns the chi-square p-value of draws against softmax(LOGITS / TEMPERATURE)."""
    logits = mx.broadcast_to(mx.array(LOGITS), (positions.size, len(LOGITS)))
    ids = np.array(noise.gumbel_argmax(logits, 1 / TEMPERATURE, SEEDS[1], mx.array(positions)))
    weights = np.exp(np.array(LOGITS) / TEMPERATURE)
    expected = positions.size * weights / weights.sum()
    return float(stats.chisquare(np.bincount(ids, minlength=len(LOGITS)), expected).pvalue)


def test_draws_follow_the_distribution() -> None:
    """20,000 draws, chi-square test at 1e-6."""
    assert draw_p_value(np.arange(20_000, dtype=np.uint32)) > 1e-6


def test_draws_that_repeat_are_noticed() -> None:
    """Mutant that must fail: positions repeat after 400."""
    assert draw_p_value(np.arange(20_000, dtype=np.uint32) % 400) < 1e-6
