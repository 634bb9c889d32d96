"""Exact checks of the noise on this machine's device: its hash, its table, its words and the tokens drawn with it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence

import mlx.core as mx
import numpy as np

from engine.noise import kernel as noise_kernel
from engine.noise import reference
from engine.noise.source import NoiseSource, coin, gumbel_argmax
from engine.tools.proof.contexts import Tick
from engine.values.requests.prove import Finding

THREEFRY = (
    ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
    ((0xFFFFFFFF, 0xFFFFFFFF), (0xFFFFFFFF, 0xFFFFFFFF), (0x1CB996FC, 0xBB002BE7)),
    ((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3), (0xC4923A9C, 0x483DF7A0)),
)
"""Key, counter and words of Threefry2x32-20 as published with Random123 (Salmon et al., SC 2011)."""
SPLIT = 2**17
SPLIT_REACHES = 2 * SPLIT
STREAMS = (("shared", None), ("draft", 3), ("residual", 3))
INVERSE_TEMPERATURES = (1.25, 1.0)


def known_answers(vocab_size: int, logits: Sequence[mx.array], seed: int, tick: Tick) -> Iterator[Finding]:
    """Yields the findings. logits: (rows, vocab) each, the target's raw logits."""
    known = all(reference.threefry(key, *counter) == words for key, counter, words in THREEFRY)
    yield Finding("hash against published answers", "", "Threefry2x32-20", len(THREEFRY), known)
    whole = hashlib.sha256(reference.TABLE_FILE.read_bytes()).hexdigest() == reference.TABLE_SHA256
    yield Finding("noise table against its checksum", "", reference.TABLE_FILE.name, reference.TABLE_SIZE, whole)
    tick()
    yield _words(min(vocab_size, SPLIT_REACHES), seed)
    tick()
    yield _rows_on_the_device(vocab_size, seed)
    tick()
    yield _draws(logits, seed, tick)


def _words(vocab_size: int, seed: int) -> Finding:
    """Compares the words with those of MLX's own generator, another implementation of the same hash."""
    token = np.arange(vocab_size)
    unequal = 0
    for position, (domain, first) in enumerate(STREAMS):
        key = reference.stream_key(seed, position, domain, first)
        oracle = np.array(mx.random.split(mx.array(key, dtype=mx.uint32), SPLIT)).reshape(-1)
        wanted = oracle[(token >> 1) + (token & 1) * SPLIT]
        unequal += int((reference.words(key, vocab_size) != wanted).sum())
    return Finding("noise words against mx.random.split", "", "3 streams", len(STREAMS) * vocab_size, unequal == 0)


def _rows_on_the_device(vocab_size: int, seed: int) -> Finding:
    """Compares noise made by MLX operations, and coins, with numpy's, bit by bit."""
    source = NoiseSource(seed, vocab_size)
    unequal = 0
    for position, (domain, first) in enumerate(STREAMS):
        made = source.rows(mx.array([position], mx.uint32), domain, first)
        unequal += int((np.array(made)[0] != reference.gumbel(seed, position, vocab_size, domain, first)).sum())
        unequal += int(float(source.coins(mx.array([position], mx.uint32), 3)[0]) != coin(seed, position, 3))
    return Finding("Gumbel noise and coins against numpy", "", "MLX operations", len(STREAMS) * (vocab_size + 1), unequal == 0)


def _draws(logits: Sequence[mx.array], seed: int, tick: Tick) -> Finding:
    """Compares tokens drawn from the target's own logits on this device with numpy's."""
    drawn = unequal = 0
    for number, rows in enumerate(logits):
        tick()
        exact = np.array(rows.astype(mx.float32))
        positions = [number * len(exact) + row for row in range(len(exact))]
        for (domain, first), scale in zip(STREAMS[:2], INVERSE_TEMPERATURES, strict=True):
            wanted = reference.gumbel_argmax(exact, scale, seed, positions, domain, first)
            for given in (positions, mx.array(positions, mx.uint32)):
                unequal += int((np.array(gumbel_argmax(rows, scale, seed, given, domain, first)) != wanted).sum())
                drawn += len(positions)
    device = "Metal kernel" if noise_kernel.available() else "numpy and MLX operations"
    return Finding("tokens drawn from real logits against numpy", "", device, drawn, unequal == 0)
