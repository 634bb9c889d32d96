"""The shipped integer table equals the output of its script, is near the exact Gumbel value everywhere, and is right in the
tail."""

from __future__ import annotations

import decimal
from decimal import Decimal

import numpy as np
import numpy.typing as npt
import pytest

from engine.noise import reference
from shaders import make_gumbel_table as script

WORDS = 2**32
UNIT = 2.0**-19


def exact(words: npt.NDArray[np.uint32]) -> npt.NDArray[np.float64]:
    """Returns -log(-log1p(-u)) in float64; in the upper half 1 - u is exact, which preserves its smallest values."""
    u = (words.astype(np.float64) + 0.5) / WORDS
    rest = (WORDS - 1 - words.astype(np.float64) + 0.5) / WORDS
    with np.errstate(divide="ignore"):
        return np.where(words < WORDS // 2, -np.log(-np.log1p(-u)), -np.log(-np.log(rest)))


def drawn(words: npt.NDArray[np.uint32]) -> npt.NDArray[np.float64]:
    return reference.gumbel_units(words) * UNIT


def test_the_script_makes_the_shipped_bytes() -> None:
    data = reference.TABLE_FILE.read_bytes()
    assert len(data) == 64 * 1024
    assert script.table_bytes() == data


@pytest.mark.parametrize("step", [11, pytest.param(1, marks=pytest.mark.full)])
def test_the_shipped_bytes_follow_from_forty_digits(step: int) -> None:
    """With 40 digits, the script's float64 logarithms cannot have changed any entry."""
    table = reference.load_table()
    with decimal.localcontext() as context:
        context.prec = 40

        def value(distance: float, upper: bool) -> Decimal:
            u = (Decimal(distance) + Decimal("0.5")) / WORDS
            return -(-(u if upper else 1 - u).ln()).ln()

        for index in range(script.FIRST_NODE, script.SIZE - script.FIRST_NODE + 1, step):
            upper = index > script.MIDDLE
            node = script.SIZE - index if upper else index
            here = script.node_distance(node)
            entry = value(here, upper)
            if script.FIRST_INTERPOLATED <= node < script.MIDDLE:
                there = script.node_distance(node + 1)
                entry -= ((entry + value(there, upper)) / 2 - value((here + there) / 2, upper)) / 2
            assert int(table[index]) == int((entry * 2**19).to_integral_value())


def test_the_error_is_below_4e_6_everywhere() -> None:
    """Tests every word near both ends, and 200,000 words spread evenly over each octave."""
    words = [np.arange(2**16, dtype=np.uint32)]
    for octave in range(16, 31):
        words.append(np.linspace(2**octave, 2 ** (octave + 1) - 1, 200_000).astype(np.uint32))
    for half in (np.concatenate(words), ~np.concatenate(words)):
        assert np.abs(drawn(half) - exact(half)).max() < 4e-6


def test_range_of_the_table_is_as_documented() -> None:
    ends = np.array([0, 1, WORDS // 2 - 1, WORDS // 2, WORDS - 2, WORDS - 1], np.uint32)
    np.testing.assert_allclose(drawn(ends), [22.8738574, 21.7752434, 0.3665129, 0.3665129, -3.0807735, -3.1299953], atol=4e-6)
    assert reference.gumbel_units(ends).tolist()[::5] == [11_992_489, -1_641_019]


def test_noise_falls_from_the_smallest_word_to_the_largest() -> None:
    """A larger word never wins against a smaller one. Tested in steps through all words."""
    stride = np.arange(0, WORDS, 4001, dtype=np.uint32)
    assert (np.diff(reference.gumbel_units(stride)) <= 0).all()
    start = np.arange(2**17, dtype=np.uint32)
    assert (np.diff(reference.gumbel_units(start)) <= 0).all()
    assert (np.diff(reference.gumbel_units(~start)) >= 0).all()


def tail_mass(gap: float, vocab_size: int, bits: int = 32) -> float:
    """Returns P(a tail token wins) for one head token and vocab_size - 1 tail tokens whose logits are `gap` lower.

    Sums over the words themselves, not over draws: P is the mean over the head's word of 1 - F(head + gap)^(vocab_size - 1),
    where F(x) is the share of words whose noise is at most x. With `bits` = 24, only the top bits of a word are used, centred.
    """
    shift = 32 - bits

    def noise_of(words: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        if shift == 0:
            return drawn(words.astype(np.uint32))
        u = ((words >> shift) + 0.5) / 2**bits
        return -np.log(-np.log1p(-u))

    heads = noise_of(np.arange(2**11, WORDS, 2**12, dtype=np.int64))
    winners = -noise_of(np.arange(2**22, dtype=np.int64))
    above = np.searchsorted(winners, -(heads + gap), side="left") / WORDS
    return float(-np.expm1((vocab_size - 1) * np.log1p(-above)).mean())


def exact_tail_mass(gap: float, vocab_size: int) -> float:
    tail = (vocab_size - 1) * np.exp(-gap)
    return float(tail / (1 + tail))


# The mass is an expectation over words, so it has no sampling error. The 32-bit resolution remains; it matters where a tail
# token needs one of the smallest words. Allowed relative error by gap.
TAIL = [(14, 1e-5), (16, 1e-5), (18, 1e-4), (20, 2e-3)]


@pytest.mark.parametrize("vocab_size", [49_152, 151_936, 262_208])
@pytest.mark.parametrize(("gap", "allowed"), TAIL)
def test_a_tail_token_wins_as_often_as_it_should(gap: float, allowed: float, vocab_size: int) -> None:
    assert tail_mass(gap, vocab_size) == pytest.approx(exact_tail_mass(gap, vocab_size), rel=allowed)


@pytest.mark.parametrize(("gap", "allowed"), TAIL)
def test_24_bits_would_starve_the_tail(gap: float, allowed: float) -> None:
    """Mutant that must fail: uniform numbers of 24 bits."""
    assert tail_mass(gap, 151_936, bits=24) != pytest.approx(exact_tail_mass(gap, 151_936), rel=allowed)
