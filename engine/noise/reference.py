"""The noise of DESIGN section 3 in numpy alone: the reference that MLX operations and Metal kernel must match bit for bit.

It also makes whole rows at run time if there is no GPU: numpy's integer loops are vectorised and MLX's CPU operations are not.
`mx.compile` would need a C++ compiler on the user's machine, and seconds.
"""

from __future__ import annotations

import hashlib
import math
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from engine.values.errors import DraftlightError

Words = npt.NDArray[np.uint32]
Units = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float32]

DOMAINS = {"shared": 0, "draft": 1, "coin": 2, "residual": 3}
"""Purposes of a draw. Equal keys in two domains give unrelated noise."""

SEED_LIMIT = 2**64
POSITION_LIMIT = 2**32
VOCABULARY_LIMIT = 2**31
PAIR_OFFSET = 2**17
UNIT = 2.0**-19
COIN_UNIT = 2.0**-24

TABLE_FILE = Path(__file__).resolve().parents[2] / "shaders" / "gumbel_table.bin"
TABLE_SHA256 = "9dc29d53d96f945e78b1b9be48db58a0efe041b093cd7f4aec9061ad71602563"
TABLE_SIZE = 16384
MIDDLE = TABLE_SIZE // 2
FIRST_NODE = 255

_MASK = 0xFFFFFFFF
_PARITY = 0x1BD11BDA
_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_SHIFTS = [[(np.array(by, np.uint32), np.array(32 - by, np.uint32)) for by in rotations] for rotations in _ROTATIONS]
"""Shifts to the left and to the right, as arrays: numpy would convert Python integers in every operation, which takes half as
long as the operation."""
_PAIRS_AT_ONCE = 65536
"""Number of pairs whose arrays fit in the processor's second-level cache."""
_FEW_PAIRS = 8
"""Up to this many pairs, hashing one after another is faster than the 120 array operations for any number of pairs."""
_LINE = 16
"""Words in a line of the processor's cache."""
_HIGH_WORD = 1 if sys.byteorder == "little" else 0


def check_stream(seed: int, domain: str) -> None:
    """Raises ValueError for a seed outside 0 to 2^64 - 1 or an unknown domain."""
    if not 0 <= seed < SEED_LIMIT:
        raise ValueError(f"seed must be from 0 to 2^64 - 1, not {seed!r}")
    if domain not in DOMAINS:
        raise ValueError(f"domain must be one of {', '.join(DOMAINS)}, not {domain!r}")


def threefry(key: tuple[int, int], first: int, second: int) -> tuple[int, int]:
    """Returns Threefry2x32-20 of one counter (Salmon et al., SC 2011)."""
    low, high = key
    mixed = low ^ high ^ _PARITY
    first, second = first + low & _MASK, second + high & _MASK
    for group, (left, right) in enumerate(((high, mixed), (mixed, low), (low, high), (high, mixed), (mixed, low)), 1):
        by_1, by_2, by_3, by_4 = _ROTATIONS[1 - group % 2]
        first = first + second & _MASK  # unrolled: a loop takes two thirds longer
        second = (second << by_1 & _MASK | second >> 32 - by_1) ^ first
        first = first + second & _MASK
        second = (second << by_2 & _MASK | second >> 32 - by_2) ^ first
        first = first + second & _MASK
        second = (second << by_3 & _MASK | second >> 32 - by_3) ^ first
        first = first + second & _MASK
        second = (second << by_4 & _MASK | second >> 32 - by_4) ^ first
        first = first + left & _MASK
        second = second + right + group & _MASK
    return first, second


def _hash(key: tuple[int, int], pairs: Words, halves: Words) -> None:
    """Computes the words of the first and of the second token of each pair, by Threefry2x32-20 of (pair, pair + PAIR_OFFSET).

    Args:
        pairs: (pairs,).
        halves: (2, pairs), the output.
    """
    low, high = key
    schedule = (low, high, low ^ high ^ _PARITY)
    first, second = halves
    scratch = _aligned_array(len(first))
    add, to_left, to_right, either, differing = np.add, np.left_shift, np.right_shift, np.bitwise_or, np.bitwise_xor
    add(pairs, np.array(low, np.uint32), first)
    add(pairs, np.array(high + PAIR_OFFSET & _MASK, np.uint32), second)
    for group in range(5):
        for left, right in _SHIFTS[group % 2]:
            add(first, second, first)
            to_left(second, left, scratch)
            to_right(second, right, second)
            either(second, scratch, second)
            differing(second, first, second)
        add(first, np.array(schedule[(group + 1) % 3], np.uint32), first)
        add(second, np.array(schedule[(group + 2) % 3] + group + 1 & _MASK, np.uint32), second)


def _aligned_array(*shape: int) -> Words:
    """Returns an array that begins at a cache line: vectors that cross one cost up to a tenth of the hash."""
    size = math.prod(shape)
    buffer = np.empty(size + _LINE, np.uint32)
    begin = -(buffer.__array_interface__["data"][0] // buffer.itemsize) % _LINE
    return buffer[begin : begin + size].reshape(shape)


def stream_key(seed: int, position: int, domain: str = "shared", round_position: int | None = None) -> tuple[int, int]:
    """Returns the key of the words of one position.

    Args:
        seed: 0 to 2^64 - 1.
        position: absolute index of the token, prompt included.
        domain: a name in DOMAINS. `shared` is keyed by position alone, the others also by the round.
        round_position: first position of the round; None means `position`.
    """
    check_stream(seed, domain)
    if round_position is None:
        round_position = position
    if not (0 <= position < POSITION_LIMIT and 0 <= round_position < POSITION_LIMIT):
        raise ValueError(f"positions must be from 0 to 2^32 - 1, not {position!r} and {round_position!r}")
    key = threefry((seed >> 32, seed & _MASK), position, DOMAINS[domain])
    return key if domain == "shared" else threefry(key, round_position, 0)


def words(key: tuple[int, int], vocab_size: int) -> Words:
    """Returns the random words of tokens 0 to vocab_size - 1: (vocab_size,) uint32."""
    pairs = (vocab_size + 1) // 2
    if pairs <= _FEW_PAIRS:
        halves = np.array([threefry(key, pair, pair + PAIR_OFFSET) for pair in range(pairs)], np.uint32).T
    else:
        halves = _aligned_array(2, -(-pairs // _LINE) * _LINE)
        for start in range(0, halves.shape[1], _PAIRS_AT_ONCE):
            end = min(start + _PAIRS_AT_ONCE, halves.shape[1])
            _hash(key, np.arange(start, end, dtype=np.uint32), halves[:, start:end])
    return np.stack(list(halves), axis=-1).reshape(-1)[:vocab_size]


@cache
def load_table() -> Units:
    """Returns the shipped table (shaders/make_gumbel_table.py describes its layout): (16384,) int32.

    Raises:
        DraftlightError: the file is missing or is not the one of this version.
    """
    try:
        data = TABLE_FILE.read_bytes()
    except OSError as error:
        raise DraftlightError(f"The noise table {TABLE_FILE.name} is missing. Reinstall Draftlight.") from error
    if hashlib.sha256(data).hexdigest() != TABLE_SHA256:
        raise DraftlightError(f"The noise table {TABLE_FILE.name} is damaged. Reinstall Draftlight.")
    table = np.frombuffer(data, "<i4").astype(np.int32)
    table.setflags(write=False)
    return table


@cache
def half_tables() -> tuple[Units, Units]:
    """Returns the table as (values, steps), each (16384,) int32, indexed by node + 8192 * (word is in the upper half).

    A step is the value at the next node towards the middle minus the value at this node. The two tables spare the CPU paths the
    mirrored index. Nodes that no distance reaches repeat the end.
    """
    table = load_table()
    node = np.maximum(np.arange(MIDDLE), FIRST_NODE)
    values = np.concatenate([table[node], table[TABLE_SIZE - node]])
    neighbours = np.concatenate([table[node + 1], table[TABLE_SIZE - 1 - node]])
    return values, neighbours - values


@cache
def _turned_tables() -> tuple[Units, Units]:
    """Returns `half_tables` indexed by the low 14 bits of a float64's exponent and 8 mantissa bits, plus 8192 for the upper
    half."""
    values, steps = half_tables()
    turn = (1022 << 8) % TABLE_SIZE
    return np.roll(values, turn), np.roll(steps, turn)


def gumbel_units(drawn: Words) -> Units:
    """Returns the Gumbel values of words of any shape as integer multiples of 2^-19."""
    values, steps = _turned_tables()
    signed = np.ascontiguousarray(drawn).view(np.int32)
    upper = signed >> 31
    distance = (signed ^ upper).astype(np.float64)
    # Only changes a distance of 0, which has no leading bit: 2^-65 lies one turn of the table below the unused node 0.
    distance += 2.0**-65
    index = distance.view(np.int64) >> 44
    upper &= MIDDLE
    index += upper
    index &= TABLE_SIZE - 1
    units = steps.take(index, mode="clip")
    # The high word of a float64 ends with exactly the 8 + 12 mantissa bits needed here.
    units *= distance.view(np.int32)[..., _HIGH_WORD::2] & 4095
    units += 2048
    units >>= 12
    units += values.take(index, mode="clip")
    return units


def _in_float32(units: Units) -> Floats:
    return np.multiply(units, np.float32(UNIT), dtype=np.float32)


def gumbel(seed: int, position: int, vocab_size: int, domain: str = "shared", round_position: int | None = None) -> Floats:
    """Returns Gumbel noise of one position: (vocab_size,) float32, from -3.13 to 22.87, each value an exact multiple of 2^-19."""
    if not 1 <= vocab_size <= VOCABULARY_LIMIT:
        raise ValueError(f"vocab_size must be from 1 to 2^31, not {vocab_size!r}")
    units = gumbel_units(words(stream_key(seed, position, domain, round_position), vocab_size))
    return _in_float32(units)


def gumbel_of(
    seed: int, position: int, tokens: Sequence[int], domain: str = "shared", round_position: int | None = None
) -> Floats:
    """Returns the noise of some tokens: (tokens,) float32, equal to those entries of `gumbel`, without the other ones."""
    key = stream_key(seed, position, domain, round_position)
    drawn = [threefry(key, token // 2, token // 2 + PAIR_OFFSET)[token % 2] for token in tokens]
    return _in_float32(gumbel_units(np.array(drawn, np.uint32)))


def gumbel_argmax(
    logits: npt.NDArray[Any],
    inverse_temperature: float,
    seed: int,
    positions: list[int],
    domain: str = "shared",
    round_position: int | None = None,
) -> npt.NDArray[np.int32]:
    """Returns the tokens drawn from softmax(logits / temperature), one per row, ties to the lowest id.

    Args:
        logits: (rows, vocab) float32 or float16; -inf is masked, NaN counts as -inf.
        inverse_temperature: 1 / temperature, rounded to float32.
        positions: one per row.

    Raises:
        DraftlightError: a row's best score is not finite, as in a row without a finite logit.
    """
    drawn = np.empty(len(positions), np.int32)
    for row, position in enumerate(positions):
        with np.errstate(invalid="ignore", over="ignore"):
            scores = logits[row].astype(np.float32) * np.float32(inverse_temperature)
            scores += gumbel(seed, position, logits.shape[1], domain, round_position)
        scores[np.isnan(scores)] = -np.inf
        drawn[row] = np.argmax(scores)
        if not np.isfinite(scores[drawn[row]]):
            raise DraftlightError(f"The model's output for token {position} has no finite value to choose from.")
    return drawn


NO_TOKEN = -1
"""Id that is drawn from a row whose best score is not finite. As an index it is harmless (the last row), so it may stay in a lazy
graph until the ids are read; `engine.noise.check_drawn` then turns it into an error."""


RARE_NOISE = 5.0
RARE_WORD = int(2.0**32 * np.exp(-RARE_NOISE))
"""Largest rare word: one token in 148 has a word of at most this, and noise of about RARE_NOISE or more."""


def draw(logits: Floats, inverse_temperature: float, drawn: Words) -> tuple[int, np.float32]:
    """Returns the token drawn from (vocab,) float32 logits, ties to the lowest id, and the margin of its score over the second
    best.

    The id is NO_TOKEN if the best score is not finite; the margin is inf if there is no second token.

    Args:
        drawn: (vocab,), the words of the position.
    """
    with np.errstate(invalid="ignore", over="ignore"):
        tokens, sums = _best(logits, inverse_temperature, drawn, 2)
        if not len(tokens):
            return NO_TOKEN, np.float32(np.nan)
        best = sums.max()
        token = int(tokens[sums == best].min())
        sums[sums.argmax()] = -np.inf
        return token if np.isfinite(best) else NO_TOKEN, best - sums.max()


def first_draws(logits: Floats, inverse_temperature: float, drawn: Words, count: int) -> tuple[list[int], list[float]]:
    """Returns the `count` tokens with the largest scores, largest first, ties to the lowest id: tokens drawn one after the other
    without replacement; and how far the score of each is below the first. NO_TOKEN and inf where no finite score is left.
    Arguments as in `draw`."""
    with np.errstate(invalid="ignore", over="ignore"):
        tokens, sums = _best(logits, inverse_temperature, drawn, count)
        order = np.lexsort((tokens, -sums))[:count]
        order = order[np.isfinite(sums[order])]
        missing = count - len(order)
        gaps = (sums[order[:1]] - sums[order]).tolist()
    return tokens[order].tolist() + [NO_TOKEN] * missing, gaps + [np.inf] * missing


def _best(logits: Floats, inverse_temperature: float, drawn: Words, count: int) -> tuple[npt.NDArray[np.intp], Floats]:
    """Returns some tokens, among them the `count` with the largest scores, and their scores, in no order.

    Computing the noise of every word would take almost as long as the hash. So tokens with a rare word get theirs first. Noise
    falls as the word grows, so any other token that exceeds the last of the best of their scores has a logit near it. Since
    tokens with a rare word are a random sample, that is a few hundred tokens, whatever the logits are.
    """
    scores = logits * np.float32(inverse_temperature)
    rare = np.flatnonzero(drawn <= RARE_WORD)
    tokens = rare[scores[rare] > -np.inf]
    sums = scores[tokens] + _in_float32(gumbel_units(drawn[tokens]))
    reached = float(np.partition(sums, -count)[-count]) if len(sums) >= count else -np.inf
    near = np.flatnonzero(scores > score_limit(reached))
    near = near[drawn[near] > RARE_WORD]
    tokens = np.concatenate([tokens, near])
    return tokens, np.concatenate([sums, scores[near] + _in_float32(gumbel_units(drawn[near]))])


def score_limit(reached: float) -> float:
    """Returns the score above which a token without a rare word may exceed `reached`; slightly lower, to allow for rounding."""
    return reached - RARE_NOISE - 1e-3 - 1e-5 * abs(reached)


def coin(seed: int, position: int, round_position: int | None = None, rank: int = 0) -> float:
    """Returns a uniform number in [0, 1), a multiple of 2^-24: accept if it is below the ratio. `rank`: of a proposal among those
    for the same position, each of which has a coin of its own."""
    key, pair = stream_key(seed, position, "coin", round_position), rank // 2
    return (threefry(key, pair, pair + PAIR_OFFSET)[rank % 2] >> 8) * COIN_UNIT
