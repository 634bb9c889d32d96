"""Draws tokens on Apple's GPU: `shaders/gumbel_argmax.metal`, called through `mx.fast.metal_kernel`.

The kernel hashes, looks up, adds and compares in registers. A row is divided into splits, each computed by one threadgroup, so
that a single row also fills the GPU; a second small kernel picks the best split. Without Metal nothing here is built.
"""

from __future__ import annotations

import logging
from functools import cache
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import numpy.typing as npt

from engine.machine.device import kind
from engine.noise import reference

SOURCE_FILE = Path(__file__).resolve().parents[2] / "shaders" / "gumbel_argmax.metal"
SECTION_MARK = "//// section: "
SPLIT_INPUTS = ["logits", "inverse_temperature", "positions", "stream", "table"]
SPLIT_OUTPUTS = ["split_scores", "split_seconds", "split_ids"]
ROW_INPUTS = SPLIT_OUTPUTS
ROW_OUTPUTS = ["ids", "margins"]

THREADS = 256
SIMDGROUP = 32
PAIRS_PER_SPLIT = 4 * THREADS
MAX_GROUPS = 512
"""Maximum number of threadgroups; if there are more rows, each has fewer splits."""

_LOG = logging.getLogger(__name__)


@cache
def sections() -> dict[str, str]:
    """Returns the parts of the kernel file by name: header, splits, rows."""
    parts = SOURCE_FILE.read_text(encoding="utf-8").split(SECTION_MARK)[1:]
    named = (part.split("\n", 1) for part in parts)
    return {name.strip(): source for name, source in named}


def split_count(rows: int, vocab_size: int) -> int:
    """Returns the number of threadgroups that share a row. The draw does not depend on it."""
    pairs = (vocab_size + 1) // 2
    wanted = -(-pairs // PAIRS_PER_SPLIT)
    return max(1, min(wanted, MAX_GROUPS // rows))


def available() -> bool:
    """Returns whether draws run in the kernel: MLX computes on a Metal GPU, and the kernel agrees with the reference there."""
    return kind() == "metal" and _agrees()


def gumbel_argmax(
    logits: mx.array, inverse_temperature: float | mx.array, positions: mx.array, stream: mx.array, splits: int | None = None
) -> tuple[mx.array, mx.array]:
    """Returns the drawn ids, (rows,) int32, and the margins over the second best scores, (rows,) float32.

    Args:
        logits: (rows, vocab) float32, float16 or bfloat16; other types are cast to float32.
        inverse_temperature: 1 / temperature.
        positions: (rows,) uint32.
        stream: (5,) uint32: seed (high, low), domain, whether the round counts, first position of the round.
        splits: threadgroups per row; None chooses the number.

    Raises:
        ValueError: more than 2^32 logits.
    """
    if logits.dtype not in (mx.float32, mx.float16, mx.bfloat16):
        logits = logits.astype(mx.float32)
    rows, vocab_size = logits.shape
    if logits.size >= 2**32:
        raise ValueError(f"{rows} rows of {vocab_size} logits are more than one draw can index")
    splits = splits or split_count(rows, vocab_size)
    scale = mx.array(inverse_temperature, mx.float32).reshape(1)
    split_kernel, row_kernel = _kernels()
    parts = split_kernel(
        inputs=[logits, scale, positions, stream, _table()],
        output_shapes=[(rows, splits)] * 3,
        output_dtypes=[mx.float32, mx.float32, mx.uint32],
        grid=(THREADS * splits, rows, 1),
        threadgroup=(THREADS, 1, 1),
    )
    ids, margins = row_kernel(
        inputs=parts,
        output_shapes=[(rows,)] * 2,
        output_dtypes=[mx.int32, mx.float32],
        grid=(SIMDGROUP, rows, 1),
        threadgroup=(SIMDGROUP, 1, 1),
    )
    return ids, margins


@cache
def _kernels() -> tuple[Any, Any]:
    """Returns both kernels. Built on first use: some versions of MLX refuse even the construction without Metal."""
    source = sections()
    return (
        mx.fast.metal_kernel(
            name="draftlight_gumbel_splits",
            input_names=SPLIT_INPUTS,
            output_names=SPLIT_OUTPUTS,
            source=source["splits"],
            header=source["header"],
        ),
        mx.fast.metal_kernel(
            name="draftlight_gumbel_rows",
            input_names=ROW_INPUTS,
            output_names=ROW_OUTPUTS,
            source=source["rows"],
            header=source["header"],
        ),
    )


@cache
def _table() -> mx.array:
    return mx.array(reference.load_table())


CHECKED = (
    (1, 4099, mx.float32),
    (1, 16_385, mx.float32),
    (4, 4099, mx.float32),
    (4, 4099, mx.float16),
    (4, 4099, mx.bfloat16),
    (9, 4099, mx.float32),
)
"""Rows, vocabulary and type of the draws of the self-check. MLX compiles a kernel anew for each type, and for an input of fewer
than eight elements, which lies in constant memory: the positions of fewer than eight rows, the parts of a row in few splits. The
list covers each combination that an answer may use, so none is first compiled during an answer."""


@cache
def _agrees() -> bool:
    """Returns whether small draws of every compiled variant equal the reference; checked once per process.

    If the kernel does not compile on a GPU or driver, or draws anything else, that may cost speed but must not change the answer:
    draws then fall back to MLX operations, which give the same noise.
    """
    try:
        agrees = all(_draws_as_reference(*checked) for checked in CHECKED)
    except Exception as error:  # a compiler or driver may raise anything; none of it may end the answer
        _LOG.warning("The Metal kernel cannot run here; continuing without it: %s", error)
        return False
    if not agrees:
        _LOG.warning("The Metal kernel does not draw the same tokens as its reference on this machine; continuing without it.")
    return agrees


def _draws_as_reference(rows: int, vocab_size: int, dtype: mx.Dtype) -> bool:
    """Returns whether tokens and margins of one draw equal the reference. In float32 its last row detects a fused
    multiply-add."""
    seed, scale, the_round = 2**33 + 5, 1.25, 7
    random = np.random.default_rng(seed).normal(size=(rows, vocab_size)).astype(np.float32)
    noise = np.stack([reference.gumbel(seed, row, vocab_size, "draft", the_round) for row in range(rows)])
    if dtype == mx.float32:
        random[-1] = _tied_unless_contracted(scale, noise[-1])
    logits = mx.array(random).astype(dtype)
    scores = np.array(logits.astype(mx.float32)) * np.float32(scale) + noise
    best = np.sort(scores, axis=-1)[:, -2:]
    stream = mx.array([seed >> 32, seed & 0xFFFFFFFF, reference.DOMAINS["draft"], 1, the_round], mx.uint32)
    ids, margins = gumbel_argmax(logits, scale, mx.arange(rows, dtype=mx.uint32), stream)
    same_ids = np.array_equal(np.array(ids), scores.argmax(axis=-1))
    return same_ids and np.array_equal(np.array(margins), best[:, 1] - best[:, 0])


def _tied_unless_contracted(inverse_temperature: float, noise: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Returns a row of logits that shows whether product and sum are rounded separately: (vocab,) float32 for (vocab,) noise.

    If they are, every score that is not masked is exactly 1/2, so the lowest id wins. If they are contracted into one operation
    (fused multiply-add), the product is not rounded, and the token whose score that raises most wins. Random rows cannot detect
    this: their two best scores would have to lie within a last bit of each other.
    """
    score, scale = np.float32(0.5), np.float32(inverse_temperature)
    logits = (score - noise) / scale
    return np.where(logits * scale + noise == score, logits, -np.float32(np.inf))
