"""Gathers the tokens of a vocabulary by p / q: on Apple's GPU in `shaders/ratio_groups.metal`, elsewhere by operations of MLX.

MLX's own scatter adds to memory that all threads share. On an M1 Pro 6.4 million values took 6.2 ms (ml-explore/mlx, issue 506),
which would make two milliseconds for both sides of four rows of 262k tokens. The kernel adds in the memory of a threadgroup.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import mlx.core as mx
import numpy as np
import numpy.typing as npt

from engine import theory
from engine.device import kind

SOURCE_FILE = Path(__file__).resolve().parents[2] / "shaders" / "ratio_groups.metal"
INPUTS = ["p", "q"]
OUTPUTS = ["p_masses", "q_masses", "least", "most"]
GROUPS = theory.LAST_GROUP - theory.FIRST_GROUP + 1
MASS_UNIT = 2.0**-31
"""Masses of groups are whole multiples of it: integers have one sum, in whatever order a GPU adds them."""
NO_RATIO = 0xFFFFFFFF
"""Stands for the smallest ratio of a group that has none."""

THREADS = 256
TOKENS_PER_SPLIT = 32 * THREADS
MAX_THREADGROUPS = 128
"""So many are worth starting; more rows are cut into fewer splits."""

_LOG = logging.getLogger(__name__)


class Gathered(NamedTuple):
    """The groups of `theory.gumbel_bounds`, (rows, GROUPS) uint32 each: masses in MASS_UNIT, and the bits of ratios, which mean
    nothing where there is no mass, nor in the last group."""

    p_masses: mx.array
    q_masses: mx.array
    least: mx.array
    most: mx.array


def gathered(p: mx.array, q: mx.array) -> Gathered:
    """Of probabilities, (rows, vocab) float32; those that are not to be gathered are 0."""
    return by_kernel(p, q) if available() else by_scatter(p, q)


def available() -> bool:
    """Whether MLX computes on a Metal GPU, and the kernel does there what operations of MLX do."""
    return kind() == "metal" and _agrees()


def split_count(rows: int, vocab_size: int) -> int:
    """How many threadgroups share a row. The sums do not depend on it."""
    return max(1, min(-(-vocab_size // TOKENS_PER_SPLIT), MAX_THREADGROUPS // rows))


def by_kernel(p: mx.array, q: mx.array, splits: int | None = None) -> Gathered:
    """`gathered`, by the kernel. `splits`: threadgroups per row; None chooses."""
    rows, vocab_size = p.shape
    splits = splits or split_count(rows, vocab_size)
    p_masses, q_masses, least, most = _kernel()(
        inputs=[p, q],
        output_shapes=[(rows, splits, GROUPS)] * 4,
        output_dtypes=[mx.uint32] * 4,
        grid=(THREADS * splits, rows, 1),
        threadgroup=(THREADS, 1, 1),
    )
    return Gathered(p_masses.sum(axis=1), q_masses.sum(axis=1), least.min(axis=1), most.max(axis=1))


def by_scatter(p: mx.array, q: mx.array) -> Gathered:
    """`gathered`, by operations of MLX."""
    rows = p.shape[0]
    p_mass, q_mass, ratio, place = (each.reshape(-1) for each in _placed(p, q))
    nothing = mx.zeros((rows * GROUPS,), mx.uint32)
    found = (
        nothing.at[place].add(p_mass),
        nothing.at[place].add(q_mass),
        (nothing + NO_RATIO).at[place].minimum(ratio),
        nothing.at[place].maximum(ratio),
    )
    return Gathered(*(each.reshape(rows, GROUPS) for each in found))


@mx.compile
def _placed(p: mx.array, q: mx.array) -> tuple[mx.array, mx.array, mx.array, mx.array]:
    """Of each token (rows, vocab): both masses, the ratio's bits, and where its group stands. One without mass is in the last
    group, where ratios do not count."""
    p_mass, q_mass = ((side * (1 / MASS_UNIT) + 0.5).astype(mx.uint32) for side in (p, q))
    ratio = ((p + theory.NO_MASS) / (q + theory.NO_MASS)).view(mx.uint32)
    group = mx.clip((ratio >> theory.DROPPED_BITS).astype(mx.int32), theory.FIRST_GROUP, theory.LAST_GROUP)
    group = mx.where((p_mass | q_mass) == 0, theory.LAST_GROUP, group) - theory.FIRST_GROUP
    return p_mass, q_mass, ratio, group + mx.arange(p.shape[0], dtype=mx.int32)[:, None] * GROUPS


@cache
def _kernel() -> Any:
    """Built on first use: some versions of MLX refuse even the construction where there is no Metal."""
    sizes = {
        "GROUPS": f"{GROUPS}u",
        "THREADS": f"{THREADS}u",
        "FIRST_GROUP": f"{theory.FIRST_GROUP}u",
        "LAST_GROUP": f"{theory.LAST_GROUP}u",
        "DROPPED_BITS": f"{theory.DROPPED_BITS}u",
        "NO_RATIO": f"{NO_RATIO}u",
        "NO_MASS": f"{theory.NO_MASS!r}f",
        "MASSES": f"{1 / MASS_UNIT!r}f",
    }
    return mx.fast.metal_kernel(
        name="draftlight_ratio_groups",
        input_names=INPUTS,
        output_names=OUTPUTS,
        source=SOURCE_FILE.read_text(encoding="utf-8"),
        header="#pragma METAL fp contract(off)\n" + "".join(f"#define {name} {value}\n" for name, value in sizes.items()),
    )


@cache
def _agrees() -> bool:
    """One small call, compared with MLX's operations once per process. A GPU or driver on which the kernel does not compile, or
    sums up anything else, costs speed and no figure."""
    weights = np.random.default_rng(1).dirichlet(np.full(9_001, 0.1), (2, 3)).astype(np.float32)
    p, q = (mx.array(side) for side in weights)
    try:
        kernel, scatter = ([np.array(each) for each in gather(p, q)] for gather in (by_kernel, by_scatter))
    except Exception as error:  # a compiler or driver may raise anything; none of it may end the answer
        _LOG.warning("The Metal kernel for closed forms cannot run here; continuing without it: %s", error)
        return False
    agrees = alike(kernel, scatter)
    if not agrees:
        _LOG.warning("The Metal kernel for closed forms sums up something else on this machine; continuing without it.")
    return agrees


def alike(found: Sequence[npt.NDArray[np.uint32]], right: Sequence[npt.NDArray[np.uint32]]) -> bool:
    """Whether `Gathered` arrays say the same, but for quotients that are rounded otherwise: no mass is lost, a hundredth at most
    stands in another group, and where masses are the same ratios differ by a few last bits."""
    masses, right_masses = (np.stack(each[:2]).astype(np.int64) for each in (found, right))
    same = (masses == right_masses).all(axis=0) & (right_masses.sum(axis=0) > 0)
    same[:, -1] = False
    moved = np.abs(masses - right_masses).sum()
    ratios, right_ratios = (np.stack(each[2:]).astype(np.int64)[:, same] for each in (found, right))
    return bool(
        masses.sum() == right_masses.sum()
        and moved <= 1e-2 * right_masses.sum()
        and np.abs(ratios - right_ratios).max(initial=0) <= LAST_BITS
    )


LAST_BITS = 8
"""By how much a fast division of a GPU may be off."""
