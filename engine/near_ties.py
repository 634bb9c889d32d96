"""Where two texts of one seed may part although nothing is wrong, and how near is near. Nothing here imports MLX.

Passes of different width add the same products in another order, so a logit's last bits differ between a plain run and a drafted
one. Two things turn on a last bit: which of two scores is the larger (`Emitted.margin`), and whether a token passes the filters
(`Emitted.border`). Both are gaps between numbers that move with the logits one for one, so one limit serves both.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from engine.types import Emitted

FLOAT32, HALF_PRECISION = 1e-3, 0.1
"""Gaps below these may close (DESIGN section 2)."""
RANGE = 1.0
"""No last bit reaches so far. Margins of perturbed scores are recorded as this if they are this or more, and larger borders not
at all: to know them would take the whole vocabulary."""
_HALF = ("float16", "bfloat16")


def limit(logits: str | None, kv_bits: int | None = None) -> float:
    """The gap below which last bits may decide.

    Args:
        logits: type of the target's logits, as `Numerics.logits`. One that was not recorded is taken for float32: a fault is then
            never excused, at the price that a near-tie in half precision is not recognised.
        kv_bits: of a quantised K/V cache, where a last bit may move a key or value by a whole level.
    """
    return HALF_PRECISION if logits in _HALF or kv_bits is not None else FLOAT32


def words(size: float, digits: int = 2) -> str:
    """A gap as it is shown."""
    return f"{RANGE:g} or more" if size == RANGE else f"{size:.{digits}g}"


@dataclass(frozen=True, slots=True)
class Gap:
    """How near something else was: `of` says whether another token's score, or the border of the filters."""

    size: float
    of: Literal["margin", "border"]

    def __str__(self) -> str:
        return f"{self.of} {words(self.size)}"


def nearest(tokens: Iterable[Emitted | None]) -> Gap | None:
    """The gap that would explain why texts part, from what each has at that position; None if nothing is on record.

    Where two scores changed places, every side saw them close together, so the largest margin counts. Where a token passed the
    filters narrowly in one text and failed them in another, the border shows it where it was emitted, so the smallest counts.
    """
    there = [token for token in tokens if token is not None]
    margins = [token.margin for token in there if token.margin is not None]
    borders = [token.border for token in there if token.border is not None]
    gaps = [Gap(max(margins), "margin")] if margins else []
    gaps += [Gap(min(borders), "border")] if borders else []
    return min(gaps, key=lambda gap: gap.size, default=None)
