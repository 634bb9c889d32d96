"""Sums up probabilities in groups by p / q: on a GPU in `shaders/ratio_groups.metal`, elsewhere by operations of MLX.

MLX's own scatter adds to memory that all threads share. On an M1 Pro 6.4 million values took 6.2 ms (ml-explore/mlx, issue 506),
which would make two milliseconds for both sides of four rows of 262k tokens. The kernel adds in the memory of a threadgroup.
"""

from __future__ import annotations

import logging
from functools import cache
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np

from engine import theory

SOURCE_FILE = Path(__file__).resolve().parents[2] / "shaders" / "ratio_groups.metal"
INPUTS = ["p", "q"]
OUTPUTS = ["masses"]
GROUPS = theory.LAST_GROUP - theory.FIRST_GROUP + 1
MASS_UNIT = 2.0**-31
"""Masses of groups are whole multiples of it: integers have one sum, in whatever order a GPU adds them."""

THREADS = 256
TOKENS_PER_SPLIT = 32 * THREADS
MAX_GROUPS = 128
"""Threadgroups worth starting; more rows are cut into fewer splits."""

_LOG = logging.getLogger(__name__)


def gathered(p: mx.array, q: mx.array) -> tuple[mx.array, mx.array]:
    """The masses of each group on both sides, (rows, GROUPS) uint32 in MASS_UNIT, as `theory.gumbel_bounds` numbers them.

    Args:
        p, q: (rows, vocab) float32 probabilities; those that are not to be gathered are 0.
    """
    return by_kernel(p, q) if available() else by_scatter(p, q)


def available() -> bool:
    """Whether MLX computes on a Metal GPU, and the kernel does there what operations of MLX do."""
    return mx.metal.is_available() and mx.default_device() == mx.gpu and _agrees()


def split_count(rows: int, vocab_size: int) -> int:
    """How many threadgroups share a row. The sums do not depend on it."""
    return max(1, min(-(-vocab_size // TOKENS_PER_SPLIT), MAX_GROUPS // rows))


def by_kernel(p: mx.array, q: mx.array, splits: int | None = None) -> tuple[mx.array, mx.array]:
    """`gathered`, by the kernel. `splits`: threadgroups per row; None chooses."""
    rows, vocab_size = p.shape
    splits = splits or split_count(rows, vocab_size)
    (masses,) = _kernel()(
        inputs=[p, q],
        output_shapes=[(rows, splits, 2 * GROUPS)],
        output_dtypes=[mx.uint32],
        grid=(THREADS * splits, rows, 1),
        threadgroup=(THREADS, 1, 1),
    )
    of_rows = masses.sum(axis=1)
    return of_rows[:, :GROUPS], of_rows[:, GROUPS:]


@mx.compile
def by_scatter(p: mx.array, q: mx.array) -> tuple[mx.array, mx.array]:
    """`gathered`, by operations of MLX."""
    rows = p.shape[0]
    ratio = ((p + theory.NO_MASS) / (q + theory.NO_MASS)).view(mx.int32) >> theory.DROPPED_BITS
    group = mx.clip(ratio, theory.FIRST_GROUP, theory.LAST_GROUP) - theory.FIRST_GROUP
    place = (group + mx.arange(rows, dtype=mx.int32)[:, None] * GROUPS).reshape(-1)

    def added(side: mx.array) -> mx.array:
        """(rows, GROUPS)."""
        mass = (side * (1 / MASS_UNIT) + 0.5).astype(mx.uint32).reshape(-1)
        return mx.zeros((rows * GROUPS,), mx.uint32).at[place].add(mass).reshape(rows, GROUPS)

    return added(p), added(q)


@cache
def _kernel() -> Any:
    """Built on first use: some versions of MLX refuse even the construction where there is no Metal."""
    sizes = {
        "GROUPS": f"{GROUPS}u",
        "GROUP_THREADS": f"{THREADS}u",
        "FIRST_GROUP": f"{theory.FIRST_GROUP}u",
        "LAST_GROUP": f"{theory.LAST_GROUP}u",
        "DROPPED_BITS": f"{theory.DROPPED_BITS}u",
        "NO_MASS": f"{theory.NO_MASS!r}f",
        "MASSES": f"{1 / MASS_UNIT!r}f",
    }
    return mx.fast.metal_kernel(
        name="draftlight_ratio_groups",
        input_names=INPUTS,
        output_names=OUTPUTS,
        source=SOURCE_FILE.read_text(encoding="utf-8"),
        header="".join(f"#define {name} {value}\n" for name, value in sizes.items()),
    )


@cache
def _agrees() -> bool:
    """One small call, compared with MLX's operations once per process. A GPU or driver on which the kernel does not compile, or
    sums up anything else, costs speed and no figure.

    Quotients may be rounded otherwise, so that a token in a thousand may stand in the next group.
    """
    weights = np.random.default_rng(1).dirichlet(np.full(9_001, 0.1), (2, 3)).astype(np.float32)
    p, q = (mx.array(side) for side in weights)
    try:
        pairs = list(zip(by_kernel(p, q), by_scatter(p, q), strict=True))
        sums = [(np.array(found, np.float64), np.array(right, np.float64)) for found, right in pairs]
    except Exception as error:  # a compiler or driver may raise anything; none of it may end the answer
        _LOG.warning("The Metal kernel for closed forms cannot run here; continuing without it: %s", error)
        return False
    agrees = all(np.abs(found - right).sum() <= 1e-2 * right.sum() and found.sum() == right.sum() for found, right in sums)
    if not agrees:
        _LOG.warning("The Metal kernel for closed forms sums up something else on this machine; continuing without it.")
    return agrees
