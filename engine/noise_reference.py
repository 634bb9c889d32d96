"""The noise of DESIGN section 3 in numpy alone: what the MLX operations and the Metal kernel are compared with, bit for bit.

It also serves whole rows at run time where there is no GPU: numpy's integer loops are vectorised and MLX's CPU operations are
not. A row of 49,152 tokens takes 0.34 ms of one core here, 1.9 ms in MLX operations, 1.1 ms in MLX's own hash without the table,
and what `mx.compile` makes of it needs a C++ compiler and five seconds first (`tests/benchmarks/noise.py`, side by side).
"""

from __future__ import annotations

import hashlib
import math
import sys
from array import array
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from engine.errors import DraftlightError

Words = npt.NDArray[np.uint32]
Units = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float32]

DOMAINS = {"shared": 0, "draft": 1, "coin": 2, "residual": 3}
"""What a draw is for. Equal keys in two domains give unrelated noise."""

SEED_LIMIT = 2**64
POSITION_LIMIT = 2**32
VOCABULARY_LIMIT = 2**31
PAIR_OFFSET = 2**17
UNIT = 2.0**-19
COIN_UNIT = 2.0**-24

TABLE_FILE = Path(__file__).resolve().parent.parent / "shaders" / "gumbel_table.bin"
TABLE_SHA256 = "9dc29d53d96f945e78b1b9be48db58a0efe041b093cd7f4aec9061ad71602563"
TABLE_SIZE = 16384
MIDDLE = TABLE_SIZE // 2
FIRST_NODE = 255

_MASK = 0xFFFFFFFF
_PARITY = 0x1BD11BDA
_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_SHIFTS = [[(np.array(by, np.uint32), np.array(32 - by, np.uint32)) for by in rotations] for rotations in _ROTATIONS]
"""To the left and to the right. Numbers that are no arrays are made arrays for each operation, which takes half as long as it."""
_PAIRS_AT_ONCE = 65536
"""Of several rows together, so that what they take stays in the processor's second cache; of a longer row alone twice as many."""
MADE_TOGETHER = _PAIRS_AT_ONCE
"""Of at most so many tokens two rows or more are hashed together."""
_FEW_PAIRS = 8
"""Up to so many, one after another takes less than the 120 operations on arrays that any number takes together."""
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
    """Threefry2x32-20 of one counter (Salmon et al., SC 2011)."""
    low, high = key
    mixed = low ^ high ^ _PARITY
    first, second = first + low & _MASK, second + high & _MASK
    for group, (left, right) in enumerate(((high, mixed), (mixed, low), (low, high), (high, mixed), (mixed, low)), 1):
        by_1, by_2, by_3, by_4 = _ROTATIONS[1 - group % 2]
        first = first + second & _MASK  # written out: a loop takes two thirds more
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


def threefry_of(keys: Sequence[tuple[int, int]], counters: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """`threefry` of several keys, a counter each. They lie in one long integer, 64 bits apart, so that a dozen takes little more
    time than one: sums and shifted words reach into the upper half of their 64 bits, which is then cut off."""
    ones, mask = _lanes(len(keys))
    low, high = (_packed([key[half] for key in keys]) for half in (0, 1))
    mixed = low ^ high ^ _PARITY * ones
    first, second = (_packed([counter[half] for counter in counters]) for half in (0, 1))
    first, second = first + low & mask, second + high & mask
    for group, (left, right) in enumerate(((high, mixed), (mixed, low), (low, high), (high, mixed), (mixed, low)), 1):
        for rotation in _ROTATIONS[1 - group % 2]:
            first = first + second & mask
            second <<= rotation
            second = (second & mask | second >> 32 & mask) ^ first
        first = first + left & mask
        second = second + right + group * ones & mask
    return list(zip(_unpacked(first, len(keys)), _unpacked(second, len(keys)), strict=True))


@cache
def _lanes(count: int) -> tuple[int, int]:
    """As many words of 1, and of all 32 bits, as `threefry_of` lays them out."""
    ones = _packed([1] * count)
    return ones, _MASK * ones


def _packed(values: list[int]) -> int:
    return int.from_bytes(array("Q", values).tobytes(), sys.byteorder)


def _unpacked(packed: int, count: int) -> list[int]:
    values = array("Q")
    values.frombytes(packed.to_bytes(8 * count, sys.byteorder))
    return values.tolist()


def _keys_of(keys: Sequence[tuple[int, int]]) -> tuple[Words, Words]:
    """Both halves of several keys, (keys, 1) each."""
    low, high = np.array(keys, np.uint32).reshape(len(keys), 2, 1).swapaxes(0, 1)
    return low, high


def _hash(keys: tuple[Words, Words], pairs: Words, halves: Words) -> None:
    """Fills in the words of the first and of the second tokens of some pairs, by Threefry2x32-20 of (pair, pair + PAIR_OFFSET).

    Args:
        keys: both halves, (keys, 1) for all pairs each or (1, pairs) for one pair each.
        pairs: (pairs,).
        halves: (2, keys, pairs), overwritten.
    """
    low, high = keys
    schedule = (low, high, low ^ high ^ np.uint32(_PARITY))
    first, second = halves
    scratch = _aligned(*first.shape)
    add, to_left, to_right, either, differing = np.add, np.left_shift, np.right_shift, np.bitwise_or, np.bitwise_xor
    add(pairs, low, first)
    add(pairs, high + np.uint32(PAIR_OFFSET), second)
    for group in range(5):
        for left, right in _SHIFTS[group % 2]:
            add(first, second, first)
            to_left(second, left, scratch)
            to_right(second, right, second)
            either(second, scratch, second)
            differing(second, first, second)
        add(first, _single(schedule[(group + 1) % 3]), first)
        add(second, _single(schedule[(group + 2) % 3] + np.uint32(group + 1)), second)


def _single(words_: Words) -> Words:
    """The same, () if it is one: an operation of a long array and one of a single entry takes longer to begin."""
    return words_.reshape(()) if words_.size == 1 else words_


def _aligned(*shape: int) -> Words:
    """An array that begins where a line of the cache does: whole vectors that cross one cost up to a tenth of the hash."""
    size = math.prod(shape)
    held = np.empty(size + _LINE, np.uint32)
    begin = -(held.__array_interface__["data"][0] // held.itemsize) % _LINE
    return held[begin : begin + size].reshape(shape)


def stream_key(seed: int, position: int, domain: str = "shared", round_position: int | None = None) -> tuple[int, int]:
    """The key under which the words of one position are drawn.

    Args:
        seed: 0 to 2^64 - 1.
        position: absolute index of the token, prompt included.
        domain: a name in DOMAINS. `shared` is keyed by position alone, the others by the round too.
        round_position: first position of the round; None means `position`.
    """
    check_stream(seed, domain)
    if round_position is None:
        round_position = position
    _check_positions([position, round_position])
    key = threefry((seed >> 32, seed & _MASK), position, DOMAINS[domain])
    return key if domain == "shared" else threefry(key, round_position, 0)


def stream_keys(
    seed: int, positions: Sequence[int], domains: Sequence[str] = ("shared",), round_position: int | None = None
) -> list[list[tuple[int, int]]]:
    """As `stream_key`, of several positions: a list for each domain. One asks for `shared` alone."""
    for domain in domains:
        check_stream(seed, domain)
    rounds = list(positions) if round_position is None else [round_position] * len(positions)
    _check_positions([*positions, *rounds])
    counters = [(position, DOMAINS[domain]) for domain in domains for position in positions]
    keys = threefry_of([(seed >> 32, seed & _MASK)] * len(counters), counters)
    if "shared" not in domains:
        keys = threefry_of(keys, [(the_round, 0) for the_round in rounds * len(domains)])
    return [keys[first : first + len(positions)] for first in range(0, len(keys), len(positions))]


def _check_positions(positions: Sequence[int]) -> None:
    if any(not 0 <= position < POSITION_LIMIT for position in positions):
        raise ValueError(f"positions must be from 0 to 2^32 - 1, not {' and '.join(map(repr, positions))}")


def words(key: tuple[int, int], vocab_size: int) -> Words:
    """The random words of tokens 0 to vocab_size - 1: (vocab_size,) uint32."""
    return words_of([key], vocab_size)[0]


def words_of(keys: Sequence[tuple[int, int]], vocab_size: int) -> Words:
    """As `words`, of several streams: (keys, vocab_size). Together they take up to a quarter less time than one by one."""
    return _in_order(halves_of(keys, vocab_size), vocab_size)


def _in_order(halves: Words, vocab_size: int) -> Words:
    """(..., vocab_size) words in the order of their tokens, of halves (2, ..., pairs)."""
    return np.stack(list(halves), axis=-1).reshape(*halves.shape[1:-1], -1)[..., :vocab_size]


def halves_of(keys: Sequence[tuple[int, int]], vocab_size: int) -> Words:
    """(2, keys, pairs) words of the first and of the second tokens of all pairs, and of some more that fill the last line of the
    cache. To put them in the order of the tokens takes a seventh of the time that they take, so they are searched as they are."""
    pairs = (vocab_size + 1) // 2
    if pairs <= _FEW_PAIRS:
        one_by_one = [[threefry(key, pair, pair + PAIR_OFFSET) for pair in range(pairs)] for key in keys]
        return np.moveaxis(np.array(one_by_one, np.uint32), -1, 0)
    pairs = -(-pairs // _LINE) * _LINE
    halves = _aligned(2, len(keys), pairs)
    together = max(1, _PAIRS_AT_ONCE // pairs)
    at_once = _PAIRS_AT_ONCE if together > 1 else 2 * _PAIRS_AT_ONCE
    for row in range(0, len(keys), together):
        some = _keys_of(keys[row : row + together])
        for start in range(0, pairs, at_once):
            end = min(start + at_once, pairs)
            _hash(some, np.arange(start, end, dtype=np.uint32), halves[:, row : row + together, start:end])
    return halves


def words_of_pairs(keys: Sequence[tuple[int, int]], pairs: Sequence[npt.NDArray[np.int64]]) -> list[Words]:
    """The random words of both tokens of some pairs: (pairs, 2) for each key. A few of several keys together take little more
    time than those of one."""
    counts = [len(each) for each in pairs]
    every = np.concatenate(pairs, dtype=np.uint32, casting="unsafe")
    of_each = _keys_of(keys) if len(keys) == 1 else [np.repeat(half[:, 0], counts)[None] for half in _keys_of(keys)]
    halves = _aligned(2, 1, -(-len(every) // _LINE) * _LINE)[..., : len(every)]
    for start in range(0, len(every), _PAIRS_AT_ONCE):
        end = start + _PAIRS_AT_ONCE
        low, high = of_each if len(keys) == 1 else (half[:, start:end] for half in of_each)
        _hash((low, high), every[start:end], halves[..., start:end])
    drawn = _in_order(halves[:, 0], 2 * len(every)).reshape(-1, 2)
    return [drawn] if len(keys) == 1 else np.split(drawn, np.cumsum(counts)[:-1])


@cache
def load_table() -> Units:
    """The shipped table (its layout is told in shaders/make_gumbel_table.py): (16384,) int32.

    Raises:
        DraftlightError: the file is missing or is not the one that this version draws its noise from.
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
    """The table as (values, steps), each (16384,) int32, indexed by node + 8192 * (word is in the upper half).

    A step leads from the value at a node to the value at the next one towards the middle. Both tables save the
    CPU paths the mirrored index. Nodes that no distance reaches repeat the end.
    """
    table = load_table()
    node = np.maximum(np.arange(MIDDLE), FIRST_NODE)
    values = np.concatenate([table[node], table[TABLE_SIZE - node]])
    neighbours = np.concatenate([table[node + 1], table[TABLE_SIZE - 1 - node]])
    return values, neighbours - values


@cache
def _turned_tables() -> tuple[Units, Units]:
    """`half_tables` indexed by the low 14 bits of a float64's exponent and 8 mantissa bits, plus 8192 for the upper half."""
    values, steps = half_tables()
    turn = (1022 << 8) % TABLE_SIZE
    return np.roll(values, turn), np.roll(steps, turn)


def gumbel_units(drawn: Words) -> Units:
    """The Gumbel values of words of any shape as integer multiples of 2^-19."""
    values, steps = _turned_tables()
    signed = np.ascontiguousarray(drawn).view(np.int32)
    upper = signed >> 31
    distance = (signed ^ upper).astype(np.float64)
    # Changes a distance of 0 alone, which has no leading bit: 2^-65 stands one turn of the table below the unused node 0.
    distance += 2.0**-65
    index = distance.view(np.int64) >> 44
    upper &= MIDDLE
    index += upper
    index &= TABLE_SIZE - 1
    units = steps.take(index, mode="clip")
    # The high word of a float64 ends with exactly the 8 + 12 mantissa bits that are wanted.
    units *= distance.view(np.int32)[..., _HIGH_WORD::2] & 4095
    units += 2048
    units >>= 12
    units += values.take(index, mode="clip")
    return units


def about_noise(word: int) -> float:
    """The noise of a word, within 1e-5: for bounds."""
    return -math.log(-math.log1p(-(word + 0.5) * 2.0**-32))


def _in_float32(units: Units) -> Floats:
    return np.multiply(units, np.float32(UNIT), dtype=np.float32)


def gumbel(seed: int, position: int, vocab_size: int, domain: str = "shared", round_position: int | None = None) -> Floats:
    """Gumbel noise of one position: (vocab_size,) float32, from -3.13 to 22.87, each value an exact multiple of 2^-19."""
    if not 1 <= vocab_size <= VOCABULARY_LIMIT:
        raise ValueError(f"vocab_size must be from 1 to 2^31, not {vocab_size!r}")
    units = gumbel_units(words(stream_key(seed, position, domain, round_position), vocab_size))
    return _in_float32(units)


def gumbel_argmax(
    logits: npt.NDArray[Any],
    inverse_temperature: float,
    seed: int,
    positions: list[int],
    domain: str = "shared",
    round_position: int | None = None,
) -> npt.NDArray[np.int32]:
    """The tokens drawn from softmax(logits / temperature), one per row, ties to the lowest id.

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
"""The id drawn from a row whose best score is not finite. As an index it is harmless (the last row), so it may travel through a
lazy graph until the ids are read; `engine.noise.check_drawn` then turns it into an error."""


class Known(NamedTuple):
    """Pairs of one stream, in any order, and their words, (pairs, 2); (all pairs,) whether a pair is among them. Nobody changes
    it."""

    pairs: npt.NDArray[np.int64]
    words: Words
    holds: npt.NDArray[np.bool_]


class Stream:
    """The random words of one position. All of them are drawn when they are asked for, and kept; a few can be had alone. Those of
    a long row are kept as the hash makes them, in halves, and in the order of their tokens once somebody asks for that.

    Args:
        key: as `stream_key` makes it.
    """

    def __init__(self, key: tuple[int, int], vocab_size: int) -> None:
        self.key = key
        self.vocab_size = vocab_size
        self._words: Words | None = None
        self._halves: Words | None = None
        self._rare: tuple[npt.NDArray[np.int64], Words] | None = None
        self.known: Known | None = None

    @property
    def words(self) -> Words:
        """(vocab_size,) of all tokens."""
        draw_words([self])
        if self._words is None:
            self._words = _in_order(self.halves, self.vocab_size)
        return self._words

    @property
    def is_drawn(self) -> bool:
        """Whether all words are known."""
        return self._words is not None or self._halves is not None

    @property
    def halves(self) -> Words:
        """(2, pairs) of the first and of the second tokens of all pairs, and of a few beyond the last token; of a long row."""
        draw_words([self])
        assert self._halves is not None
        return self._halves

    def rare(self) -> tuple[npt.NDArray[np.int64], Words]:
        """The tokens that have a rare word, in any order, and these words; of a long row. They are kept."""
        if self._rare is None:
            halves = self.halves
            half, pair = np.divmod(np.flatnonzero(halves <= RARE_WORD), halves.shape[1])
            tokens, drawn = 2 * pair + half, halves[half, pair]
            exist = tokens < self.vocab_size
            self._rare = (tokens, drawn) if exist.all() else (tokens[exist], drawn[exist])
        return self._rare

    def few(self, tokens: npt.NDArray[np.int64]) -> Words:
        """(tokens,) of these alone, one by one: for a handful."""
        return np.array([self.word(token) for token in tokens.tolist()], np.uint32)

    def word(self, token: int) -> int:
        """The same of one."""
        if self._halves is not None:
            return int(self._halves[token & 1, token >> 1])
        if self._words is not None:
            return int(self._words[token])
        return threefry(self.key, token >> 1, (token >> 1) + PAIR_OFFSET)[token & 1]


def known_words(streams: Sequence[Stream], wanted: Sequence[npt.NDArray[np.bool_]]) -> list[Known | None]:
    """Words of at least the wanted pairs of several streams, (all pairs,) each; None of one where to draw all took less.

    They are kept, since the other side draws near the same tokens. Two threads may ask at once: what one of them has drawn may
    then be lost again, so what counts is what was returned.
    """
    found: list[Known | None] = [None] * len(streams)
    lacking = []
    flat = []
    for place, (stream, either) in enumerate(zip(streams, wanted, strict=True)):
        known = stream.known
        if stream.is_drawn or np.count_nonzero(either) > FLAT_FROM * len(either):
            flat.append(stream)
            continue
        if known is not None:
            either = either & ~known.holds
        if known is None or either.any():
            lacking.append((place, known, np.flatnonzero(either)))
        found[place] = known
    draw_words(flat)
    if lacking:
        drawn = words_of_pairs([streams[place].key for place, _, _ in lacking], [pairs for _, _, pairs in lacking])
        for (place, known, pairs), words_ in zip(lacking, drawn, strict=True):
            some = Known(pairs, words_, wanted[place])
            if known is not None:
                every = np.concatenate([known.pairs, pairs])
                some = Known(every, np.concatenate([known.words, words_]), known.holds | some.holds)
            found[place] = streams[place].known = some
    return found


def draw_words(streams: Sequence[Stream]) -> None:
    """Draws all words of streams of one vocabulary, those that lack them, together."""
    lacking = [stream for stream in streams if not stream.is_drawn]
    if not lacking:
        return
    keys, vocab_size = [each.key for each in lacking], lacking[0].vocab_size
    if vocab_size < SEARCHED_FROM:
        for stream, drawn in zip(lacking, words_of(keys, vocab_size), strict=True):
            stream._words = drawn
    else:
        halves = halves_of(keys, vocab_size)
        for place, stream in enumerate(lacking):
            stream._halves = halves[:, place]


Ids = npt.NDArray[np.int32]


def draw_ids(rows: Sequence[tuple[Floats, float]], streams: Sequence[Stream]) -> list[int]:
    """The token drawn of each row, ties to the lowest id, NO_TOKEN where the best score is not finite.

    Args:
        rows: (vocab,) float32 logits and the inverse temperature of each.
        streams: the noise of each row. Several rows may have one: what they need of it is drawn together.
    """
    ids = [NO_TOKEN] * len(rows)
    contests: list[tuple[int, _Contest, Stream]] = []
    wanted: dict[Stream, npt.NDArray[np.bool_]] = {}
    with np.errstate(invalid="ignore", over="ignore"):
        for place, ((logits, scale), stream) in enumerate(zip(rows, streams, strict=True)):
            contest = _contest(logits, scale, stream, 0.0)
            if not isinstance(contest, _Contest):
                ids[place] = contest[0]
                continue
            contests.append((place, contest, stream))
            wanted[stream] = wanted[stream] | contest.pairs() if stream in wanted else contest.pairs()
        known = dict(zip(wanted, known_words(list(wanted), list(wanted.values())), strict=True))
        chosen = [contest.chosen(stream, known[stream]) for _, contest, stream in contests]
        noises = _noise_of([words_ for _, words_ in chosen])
        for (place, contest, _), (tokens, _), noise in zip(contests, chosen, noises, strict=True):
            ids[place] = contest.decided(tokens, noise)[0]
    return ids


def _noise_of(drawn: Sequence[Words]) -> list[Floats]:
    """The noise of some words of several streams, made together."""
    if len(drawn) == 1:
        return [_in_float32(gumbel_units(drawn[0]))]
    counts = [len(each) for each in drawn]
    return np.split(_in_float32(gumbel_units(np.concatenate(drawn))), np.cumsum(counts)[:-1]) if drawn else []


def draw_with_margin(
    logits: Floats, inverse_temperature: float, stream: Stream, reach: float, likeliest: int | None = None
) -> tuple[int, np.float32]:
    """As `draw_ids` of one row, whose arg-max may be given, and by how much: the margin over the second best score, told as
    `reach` if it is that or more, and inf if there is no second token. A reach of 0 asks for none; one of infinity takes most of
    the noise of a row, a small one little more than the draw."""
    with np.errstate(invalid="ignore", over="ignore"):
        contest = _contest(logits, inverse_temperature, stream, reach, likeliest)
        if not isinstance(contest, _Contest):
            return contest
        known = None if stream.is_drawn else known_words([stream], [contest.pairs()])[0]
        place, margin = contest.decided_alone(stream, known, reach > 0)
        if np.isinf(margin) and reach > 0 and np.count_nonzero(logits > -np.inf) == 1:
            return place, margin
        return place, np.minimum(margin, np.float32(reach))


def draw(logits: Floats, inverse_temperature: float, streams: Sequence[Stream], reach: float = math.inf) -> tuple[Ids, Floats]:
    """As `draw_with_margin`, of several rows: (rows,) ids and margins."""
    drawn = [draw_with_margin(row, inverse_temperature, stream, reach) for row, stream in zip(logits, streams, strict=True)]
    return np.array([id for id, _ in drawn], np.int32), np.array([margin for _, margin in drawn], np.float32)


RARE_NOISE = 5.0
RARE_WORD = int(2.0**32 * np.exp(-RARE_NOISE))
"""One token in 148 has a word of at most this, and noise of about RARE_NOISE or more."""
SEARCHED_FROM = 4096
"""Shorter rows are given all of their noise."""
NEAR = 3.0
MOST_NEAR = 3
"""Of the tokens whose scores are at most this far below the best one, so many are given their noise first, one by one."""
FLAT_FROM = 0.7
"""Where more of the pairs than this would have to be hashed, to pick them takes longer than to hash all."""


LIKELY_FROM = 0.1
"""Where more tokens than this share may win without a rare word, those with one are given their noise first."""


class _Contest(NamedTuple):
    """A draw of which it is known what can win: tokens whose values are above `possible`, and without a rare word those above
    `likely`. `scores_of` makes the scores of some, and `least` the two limits from a sum that the winner reaches at least.
    `reach`: tokens that come less than this below the winner count as well."""

    values: Floats
    possible: np.float32
    likely: np.float32
    scores_of: Callable[[npt.NDArray[np.int64]], Floats]
    least: Callable[[float], tuple[np.float32, np.float32]]
    reach: float

    def pairs(self) -> npt.NDArray[np.bool_]:
        """(all pairs,) whether one of the two tokens can win."""
        above = self.values > self.possible
        if len(above) % 2:
            above = np.append(above, False)
        return above.view(np.uint16) != 0

    def chosen(self, stream: Stream, known: Known | None) -> tuple[npt.NDArray[np.int64], Words]:
        """The tokens that can win, in any order, and their words.

        Args:
            known: words of at least `pairs`; None where all are drawn.
        """
        if known is None:
            rare, rare_words = stream.rare()
            above = self.values > self.likely
            if np.count_nonzero(above) > LIKELY_FROM * len(above):
                above = self.values > self._raised(rare, rare_words)
            found = np.flatnonzero(above)
            drawn = stream.halves[found & 1, found >> 1]
            others = drawn > RARE_WORD
            return np.concatenate([rare, found[others]]), np.concatenate([rare_words, drawn[others]])
        both = _pairs_of(self.values).take(known.pairs).view(np.float32).reshape(-1, 2)
        is_rare = known.words <= RARE_WORD
        above = both > self.likely
        if np.count_nonzero(above) > LIKELY_FROM * len(self.values):
            above = both > self._raised(*self._tokens_of(known, is_rare & (both > self.possible)))
        return self._tokens_of(known, is_rare | above)

    def _tokens_of(self, known: Known, chosen: npt.NDArray[np.bool_]) -> tuple[npt.NDArray[np.int64], Words]:
        """Those (pairs, 2) of the known pairs that are chosen, and their words."""
        found = np.flatnonzero(chosen)
        tokens = 2 * known.pairs.take(found >> 1) + (found & 1)
        words_ = known.words.reshape(-1).take(found)
        if len(self.values) % 2:  # the last may be none
            exist = tokens < len(self.values)
            return tokens[exist], words_[exist]
        return tokens, words_

    def _raised(self, rare: npt.NDArray[np.int64], drawn: Words) -> np.float32:
        """`likely` by what tokens with a rare word reach. In a flat row one of them mostly wins, and hardly any other token is
        left, where the likeliest token alone rules out none."""
        sums = self.scores_of(rare) + _in_float32(gumbel_units(drawn))
        if self.reach < math.inf:
            reached = float(sums.max(initial=-np.inf)) - self.reach
        else:
            reached = float(np.partition(sums, -2)[-2]) if len(sums) > 1 else -math.inf
        return max(self.likely, self.least(reached)[1]) if math.isfinite(reached) else self.likely

    def decided(self, tokens: npt.NDArray[np.int64], noise: Floats, with_margin: bool = False) -> tuple[int, np.float32]:
        """The winner, ties to the lowest id, and its margin among what can win; inf where it is not asked for.

        Args:
            tokens: those that can win. noise: of each.
        """
        sums = self.scores_of(tokens)
        sums += noise
        best = sums.max()
        winner = int(tokens[sums == best].min())
        if not with_margin:
            return winner, np.float32(np.inf)
        sums[sums.argmax()] = -np.inf
        return winner, best - sums.max()

    def decided_alone(self, stream: Stream, known: Known | None, with_margin: bool = False) -> tuple[int, np.float32]:
        """`decided` of what is `chosen`."""
        tokens, drawn = self.chosen(stream, known)
        return self.decided(tokens, _in_float32(gumbel_units(drawn)), with_margin)


def _contest(
    logits: Floats, inverse_temperature: float, stream: Stream, reach: float, likeliest: int | None = None
) -> _Contest | tuple[int, np.float32]:
    """What can win, or come less than `reach` below, of (vocab,) logits; or the winner and its margin, `reach` at most, where all
    tokens have been given their noise.

    Only what can be the best sum of score and noise, or the second best one and less than `reach` below it, is scaled and given
    its noise: the likeliest token first, and of the others those that could still exceed what it reaches, less `reach`.
    """
    scale = np.float32(inverse_temperature)
    if likeliest is None:
        likeliest = int(logits.argmax())
    highest = float(logits[likeliest] * scale)
    if len(logits) < SEARCHED_FROM or not math.isfinite(highest):
        scores = logits * scale
        scores += _in_float32(gumbel_units(stream.words))
        place, best, second = _two_best(scores)
        margin = best - second
        return place if np.isfinite(best) else NO_TOKEN, margin if np.isinf(margin) else np.minimum(margin, np.float32(reach))

    def scores_of(tokens: npt.NDArray[np.int64]) -> Floats:
        """Of some tokens."""
        return np.asarray(logits.take(tokens) * scale)

    if reach < math.inf:
        reached = highest + about_noise(stream.word(likeliest)) - reach
    else:
        near = np.flatnonzero(logits >= min(logits[likeliest], np.float32((highest - NEAR) / float(scale))))
        if len(near) < 2:
            near = np.append(near, _next_best(logits, near))
        near = near[:MOST_NEAR]
        reached = float(sorted(scores_of(near) + _in_float32(gumbel_units(stream.few(near))))[-2])

    def least(sum_: float) -> tuple[np.float32, np.float32]:
        """Limits for logits."""
        possible, likely = _least(sum_)
        return np.float32(possible / float(scale)), np.float32(likely / float(scale))

    return _Contest(logits, *least(reached), scores_of, least, reach)


def draw_below(bounds: Floats, logarithms_of: Callable[[npt.NDArray[np.int64]], Floats], stream: Stream) -> int | None:
    """The token drawn from weights that are only known to be at most these: the highest sum of a logarithm and noise.

    Args:
        bounds: (vocab,) float32, at least the weights.
        logarithms_of: makes the logarithms of the weights of some tokens, which takes longer.

    Returns:
        None where nothing is gained: in short rows, and where the token with the highest bound weighs nothing.
    """
    if len(bounds) < SEARCHED_FROM:
        return None
    likeliest = int(bounds.argmax())
    highest = float(logarithms_of(np.array([likeliest]))[0])
    if not math.isfinite(highest):
        return None

    def least(sum_: float) -> tuple[np.float32, np.float32]:
        """Limits for bounds of weights."""
        possible, likely = _least(sum_)
        return np.float32(math.exp(possible)), np.float32(math.exp(likely))

    reached = highest + about_noise(stream.word(likeliest))
    contest = _Contest(bounds, *least(reached), logarithms_of, least, 0.0)
    (known,) = known_words([stream], [contest.pairs()])
    return contest.decided_alone(stream, known)[0]


def _least(reached: float) -> tuple[float, float]:
    """What a score must exceed if its sum with any noise is to exceed `reached`, and if the noise is none of a rare word.

    No noise is above `_most_noise`, and that of a word above RARE_WORD is not above `_rarest_noise`. Sums in float32 grow with
    their terms, so what has a score that far below cannot reach as much; a little is allowed for the rounding of the limit.
    """
    reached -= 1e-3 + 1e-5 * abs(reached)
    return reached - float(_most_noise()), reached - float(_rarest_noise())


def _next_best(logits: Floats, tokens: npt.NDArray[np.int64]) -> int:
    """The likeliest token that is none of these."""
    others = logits.copy()
    others[tokens] = -np.inf
    return int(others.argmax())


def _pairs_of(scores: Floats) -> npt.NDArray[np.int64]:
    """Two scores as one number of 64 bits each, so that they are taken together; of an odd number the last stands with -inf."""
    return np.ascontiguousarray(scores if len(scores) % 2 == 0 else np.append(scores, np.float32(-np.inf))).view(np.int64)


def _two_best(sums: Floats) -> tuple[int, np.float32, np.float32]:
    """Place and value of the best, ties to the first, and the value of the second best. NaN counts as -inf; overwrites."""
    sums[np.isnan(sums)] = -np.inf
    place = int(sums.argmax())
    best = sums[place]
    sums[place] = -np.inf
    return place, best, sums.max()


@cache
def _rarest_noise() -> np.float32:
    """The noise of RARE_WORD."""
    return np.float32(gumbel_units(np.array([RARE_WORD], np.uint32))[0] * UNIT)


@cache
def _most_noise() -> np.float32:
    """The noise of word 0, the most there is."""
    return np.float32(gumbel_units(np.array([0], np.uint32))[0] * UNIT)


def coin(seed: int, position: int, round_position: int | None = None) -> float:
    """A uniform number in [0, 1), a multiple of 2^-24: accept when it is below the ratio."""
    return coins_of([stream_key(seed, position, "coin", round_position)])[0]


def coins_of(keys: Sequence[tuple[int, int]]) -> list[float]:
    """As `coin`, from the keys of several streams."""
    return [(first >> 8) * COIN_UNIT for first, _ in threefry_of(keys, [(0, PAIR_OFFSET)] * len(keys))]
