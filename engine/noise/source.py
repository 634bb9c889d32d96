"""Draws noise for decoding: one stream per seed, position and purpose, the same on every device (DESIGN section 3).

There is no generator state: every draw is a function of its key, so a position's noise can be drawn again, in any order and by
any implementation. There are three, equal bit for bit. numpy (`engine.noise.reference`) draws on the CPU and makes rows for
positions that are known on the host. The MLX operations below serve positions that exist only inside a lazy graph, and GPUs
without a kernel, such as NVIDIA's. The Metal kernel (`engine.noise.kernel`) draws tokens on Apple's GPUs without ever storing the
noise. No MLX array is evaluated here; results are lazy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

import mlx.core as mx
import numpy as np

from engine.machine import host
from engine.noise import kernel as noise_kernel
from engine.noise import reference
from engine.noise.reference import DOMAINS, NO_TOKEN, coin
from engine.values.errors import DraftlightError

__all__ = ["DOMAINS", "NO_TOKEN", "NoiseSource", "check_drawn", "coin", "gumbel", "gumbel_argmax"]

Positions = Sequence[int] | mx.array
Position = int | mx.array

ROWS_BY_NUMPY = 160
"""Longer lists of positions are drawn together by MLX operations, which is faster for many short rows."""


def check_drawn(ids: Sequence[int]) -> None:
    """Raises DraftlightError if a draw found no finite score; call it once the ids have been evaluated."""
    if NO_TOKEN in ids:
        raise DraftlightError(
            "The model's output has no finite value to choose a token from. Its weights are probably damaged: "
            "load the model again or try another file."
        )


def gumbel(
    seed: int, position: Position, vocab_size: int, domain: str = "shared", round_position: Position | None = None
) -> mx.array:
    """Returns Gumbel noise of one position: (vocab_size,) float32, each value an exact multiple of 2^-19 from -3.13 to 22.87.

    Args:
        seed: 0 to 2^64 - 1.
        position: absolute index of the token, prompt included; a uint32 array inside a graph.
        domain: a name in DOMAINS; `shared` is keyed by position alone, the others by the round as well.
        round_position: first position of the round; None means `position`.

    Raises:
        ValueError: a seed, domain or position out of range.
    """
    positions = position.reshape(1) if isinstance(position, mx.array) else [position]
    return _rows(seed, positions, vocab_size, domain, round_position)[0]


def gumbel_argmax(
    logits: mx.array,
    inverse_temperature: float,
    seed: int,
    positions: Positions,
    domain: str = "shared",
    round_position: Position | None = None,
) -> mx.array:
    """Draws one token per row from softmax(logits / temperature): (rows,) int32.

    Args:
        logits: (rows, vocab) float32, float16 or bfloat16; -inf is masked, NaN counts as -inf.
        inverse_temperature: 1 / temperature, rounded to float32.
        positions: one per row: integers, or (rows,) uint32 inside a graph.

    Returns:
        argmax(float32(logit) * float32(1 / T) + noise), ties to the lowest id. A row whose best score is not finite, such as one
            without a finite logit, gives NO_TOKEN: see `check_drawn`.
    """
    return NoiseSource(seed, logits.shape[-1]).argmax(logits, inverse_temperature, positions, domain, round_position)


class NoiseSource:
    """Noise of one run, with a cache of shared rows, so that numpy hashes each only once.

    Drafter and target read the same shared rows in a round, and so does the next round for positions that were not committed.
    Rows of the other domains differ in every round, and are drawn from once.
    """

    def __init__(self, seed: int, vocab_size: int) -> None:
        reference.check_stream(seed, "shared")
        if not 1 <= vocab_size <= reference.VOCABULARY_LIMIT:
            raise ValueError(f"vocab_size must be from 1 to 2^31, not {vocab_size!r}")
        self.seed = seed
        self.vocab_size = vocab_size
        self._in_kernel = noise_kernel.available()
        self._shared: dict[int, reference.Words] = {}

    def rows(self, positions: Positions, domain: str = "shared", round_position: Position | None = None) -> mx.array:
        """Returns Gumbel noise: (rows, vocab) float32, one row per position."""
        return _rows(self.seed, positions, self.vocab_size, domain, round_position)

    def draw(
        self, logits: reference.Floats, inverse_temperature: float, position: int, domain: str, round_position: int | None
    ) -> tuple[int, np.float32]:
        """Returns the result of `argmax_and_margin` for one row of (vocab,) float32 logits, computed by numpy."""
        return reference.draw(logits, inverse_temperature, self._words_of(position, domain, round_position))

    def _words_of(self, position: int, domain: str, round_position: int | None) -> reference.Words:
        """Returns the words of a position; shared ones are cached."""
        words = self._shared.get(position) if domain == "shared" else None
        if words is None:
            words = reference.words(reference.stream_key(self.seed, position, domain, round_position), self.vocab_size)
        if domain == "shared":
            self._shared[position] = words
        return words

    def cached_rows(self) -> Mapping[int, reference.Words]:
        """Returns the words of the shared rows that are cached now, by position: a copy."""
        return dict(self._shared)

    def forget_before(self, position: int) -> None:
        """Drops cached rows below `position`: call it with the next position to be emitted."""
        self._shared = {remaining: words for remaining, words in self._shared.items() if remaining >= position}

    def argmax(
        self,
        logits: mx.array,
        inverse_temperature: float,
        positions: Positions,
        domain: str = "shared",
        round_position: Position | None = None,
    ) -> mx.array:
        """Returns the ids that `gumbel_argmax` draws with this run's seed: (rows,) int32."""
        return self.argmax_and_margin(logits, inverse_temperature, positions, domain, round_position)[0]

    def argmax_and_margin(
        self,
        logits: mx.array,
        inverse_temperature: float,
        positions: Positions,
        domain: str = "shared",
        round_position: Position | None = None,
    ) -> tuple[mx.array, mx.array]:
        """Returns the drawn ids, (rows,) int32, and the distance of each winner's score from the second best, (rows,) float32.

        The margin is inf if only one token is not masked. On the CPU, an array of the lazy pair that is not read costs nothing.
        """
        if logits.ndim != 2 or logits.shape[1] != self.vocab_size:
            raise ValueError(f"logits must be (rows, {self.vocab_size}), not {tuple(logits.shape)}")
        if len(positions) != logits.shape[0]:
            raise ValueError(f"positions must be one per row: {len(positions)} for {logits.shape[0]} rows")
        if self._in_kernel:
            stream = _stream(self.seed, domain, round_position)
            return noise_kernel.gumbel_argmax(logits, inverse_temperature, _position_array(positions), stream)
        return draw_rows(logits, inverse_temperature, self.rows(positions, domain, round_position))

    def first_draws(
        self, logits: reference.Floats, inverse_temperature: float, position: int, domain: str, round_position: int, count: int
    ) -> tuple[list[int], list[float]]:
        """Returns the result of `reference.first_draws` for one row of (vocab,) float32 logits."""
        return reference.first_draws(logits, inverse_temperature, self._words_of(position, domain, round_position), count)

    def rank_coins(self, positions: Sequence[int], round_position: int, ranks: int) -> mx.array:
        """Returns the coins of the first proposals for each position: (rows, ranks) float32; column 0 is `coins`."""
        rows = [[coin(self.seed, each, round_position, rank) for rank in range(ranks)] for each in positions]
        return mx.array(rows, mx.float32)

    def coins(self, positions: Positions, round_position: Position | None = None) -> mx.array:
        """Returns uniform numbers in [0, 1), multiples of 2^-24: (rows,) float32, one per position."""
        if isinstance(positions, mx.array) or isinstance(round_position, mx.array) or len(positions) > ROWS_BY_NUMPY:
            keys = stream_keys(self.seed, positions, "coin", round_position)
            return (random_words(keys, 1)[:, 0] >> 8).astype(mx.float32) * reference.COIN_UNIT
        return mx.array([coin(self.seed, each, round_position) for each in positions], mx.float32)


def draw_rows(logits: mx.array, inverse_temperature: float, noise: mx.array) -> tuple[mx.array, mx.array]:
    """Returns ids and margins of (rows, vocab) logits under (rows, vocab) noise.

    Product and sum are two operations and never compiled into one, so that both are rounded.
    """
    scores = logits.astype(mx.float32) * mx.array(inverse_temperature, mx.float32) + noise
    scores = mx.where(mx.isnan(scores), -mx.inf, scores)
    ids = mx.argmax(scores, axis=-1, keepdims=True)
    best = mx.take_along_axis(scores, ids, axis=-1)
    second = mx.max(mx.put_along_axis(scores, ids, mx.array(-mx.inf), axis=-1), axis=-1)
    drawn = mx.where(mx.isfinite(best), ids.astype(mx.int32), NO_TOKEN)
    return drawn[:, 0], best[:, 0] - second


def _made_by_numpy(count: int) -> bool:
    """Returns whether numpy makes the rows of that many known positions. A GPU would have to wait for it, and for copying the
    rows."""
    return count <= ROWS_BY_NUMPY and host.computes_on_host()


def _rows(seed: int, positions: Positions, vocab_size: int, domain: str, round_position: Position | None) -> mx.array:
    reference.check_stream(seed, domain)
    if isinstance(positions, mx.array) or isinstance(round_position, mx.array) or not _made_by_numpy(len(positions)):
        keys = stream_keys(seed, positions, domain, round_position)
        return gumbel_units(random_words(keys, vocab_size)).astype(mx.float32) * reference.UNIT
    rows = [reference.gumbel(seed, position, vocab_size, domain, round_position) for position in positions]
    return mx.array(np.stack(rows))


def _position_array(positions: Positions) -> mx.array:
    return positions.astype(mx.uint32) if isinstance(positions, mx.array) else mx.array(list(positions), mx.uint32)


def _stream(seed: int, domain: str, round_position: Position | None) -> mx.array:
    """Returns the parts of a key besides the position, (5,) uint32: seed (high, low), domain, whether the round counts, round."""
    reference.check_stream(seed, domain)
    follows_round = domain != "shared" and round_position is not None
    fixed = [seed >> 32, seed & 0xFFFFFFFF, DOMAINS[domain], int(follows_round)]
    if isinstance(round_position, mx.array) and follows_round:
        return mx.concatenate([mx.array(fixed, mx.uint32), round_position.reshape(1).astype(mx.uint32)])
    return mx.array([*fixed, round_position if follows_round else 0], mx.uint32)


# The same definition in MLX operations. Shapes: keys (rows, 2), words (rows, vocab), all uint32.

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))


def threefry(key: tuple[mx.array, mx.array], first: mx.array, second: mx.array) -> tuple[mx.array, mx.array]:
    """Returns both words of Threefry-2x32 with 20 rounds, for keys and counters that broadcast against each other."""
    schedule = (key[0], key[1], key[0] ^ key[1] ^ mx.array(0x1BD11BDA, mx.uint32))
    first, second = first + schedule[0], second + schedule[1]
    for group in range(5):
        for rotation in _ROTATIONS[group % 2]:
            first = first + second
            second = (second << rotation | second >> (32 - rotation)) ^ first
        first = first + schedule[(group + 1) % 3]
        second = second + (schedule[(group + 2) % 3] + mx.array(group + 1, mx.uint32))
    return first, second


def stream_keys(seed: int, positions: Positions, domain: str, round_position: Position | None) -> mx.array:
    """Returns the keys of positions that may be known only when the graph runs: (rows, 2) uint32."""
    where = _position_array(positions)
    seed_key = (mx.array(seed >> 32, mx.uint32), mx.array(seed & 0xFFFFFFFF, mx.uint32))
    key = threefry(seed_key, where, mx.full(where.shape, DOMAINS[domain], mx.uint32))
    if domain != "shared":
        if round_position is None:
            the_round = where
        else:
            the_round = mx.broadcast_to(mx.array(round_position, mx.uint32), where.shape)
        key = threefry(key, the_round, mx.zeros(where.shape, mx.uint32))
    return mx.stack(list(key), axis=-1)


def random_words(keys: mx.array, vocab_size: int) -> mx.array:
    """Returns the random words of (rows, 2) keys, one for each token: (rows, vocab_size) uint32."""
    pairs = mx.arange((vocab_size + 1) // 2, dtype=mx.uint32)[None]
    drawn = threefry((keys[:, :1], keys[:, 1:]), pairs, pairs + mx.array(reference.PAIR_OFFSET, mx.uint32))
    return mx.stack(list(drawn), axis=-1).reshape(keys.shape[0], -1)[:, :vocab_size]


@cache
def _half_tables() -> tuple[mx.array, mx.array]:
    values, steps = reference.half_tables()
    return mx.array(values), mx.array(steps)


def gumbel_units(words: mx.array) -> mx.array:
    """Returns Gumbel values in units of 2^-19, int32, as `reference.gumbel_units`."""
    values, steps = _half_tables()
    upper = words >> 31
    distance = words ^ (0 - upper)
    # Clearing the bit below the 24 that float32 keeps (and some lower ones) makes the conversion truncate instead of round.
    exact = distance ^ (distance & (distance >> 24))
    # A distance of 0 has no leading bit and is treated as 511/512, the node below that of distance 1.
    bits = mx.maximum(exact.astype(mx.float32), mx.array(511 / 512)).view(mx.uint32)
    index = (bits >> 15) - mx.array(126 << 8, mx.uint32) + (upper << 13)
    fraction = (bits >> 3 & 4095).astype(mx.int32)
    return values[index] + ((steps[index] * fraction + 2048) >> 12)
