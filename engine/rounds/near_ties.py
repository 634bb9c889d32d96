"""Where two texts of one seed may part although nothing is wrong, and how near is near. Nothing here imports MLX.

Passes of different width add the same products in another order, so a logit's last bits differ between a plain run and a drafted
one. Two things turn on a last bit: which of two scores is the larger (`Emitted.margin`), and whether a token passes the filters
(`Emitted.border`). Borders and the margins of temperature 0 are gaps between logits; those of perturbed scores are gaps between
logits divided by the temperature. In units of logits one limit serves all.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from engine.types import Emitted

FLOAT32, FLOAT16, BFLOAT16 = 1e-3, 0.1, 0.3
"""Gaps between logits below these may close. In bfloat16 logits between 16 and 32 lie 0.125 apart, and each of two may be off by
such a step (DESIGN section 2)."""
RANGE = 1.0
"""No last bit moves logits so far. Perturbed scores that are farther apart than so many logits are recorded as being that far
apart (`reach`), larger borders not at all: to know them would take the whole vocabulary."""


def limit(logits: str | None, kv_bits: int | None = None) -> float:
    """The gap below which last bits may decide, in units of logits.

    Args:
        logits: type of the target's logits, as `Numerics.logits`. One that was not recorded is taken for float32: a fault is then
            never excused, at the price that a near-tie in half precision is not recognised.
        kv_bits: of a quantised K/V cache, where a last bit may move a key or value by a whole level.
    """
    of_type = {"float16": FLOAT16, "bfloat16": BFLOAT16}.get(logits or "", FLOAT32)
    return of_type if kv_bits is None else max(of_type, FLOAT16)


def reach(temperature: float) -> float:
    """Up to where margins are recorded; at temperature 0 all are."""
    return RANGE / temperature if temperature else math.inf


def is_least(margin: float, temperature: float) -> bool:
    """Whether a recorded margin says that it is this or more. It used to be recorded up to 1 at every temperature but 0."""
    return math.isclose(margin, reach(temperature), rel_tol=1e-6) or (temperature != 0 and margin == 1)


def in_logits(margin: float, temperature: float) -> float:
    """A recorded margin in units of logits."""
    return RANGE if is_least(margin, temperature) else margin * (temperature or 1.0)


def words(margin: float, temperature: float, digits: int = 2) -> str:
    """A margin as it is shown."""
    return f"{margin:.3g} or more" if is_least(margin, temperature) else f"{margin:.{digits}g}"


@dataclass(frozen=True, slots=True)
class Gap:
    """How near something else was.

    Attributes:
        size: in units of logits.
        of: whether another token's score was so near, or the border of the filters.
        told: the gap as it was recorded.
    """

    size: float
    of: Literal["margin", "border"]
    told: str

    def __str__(self) -> str:
        return f"{self.of} {self.told}"


def nearest(tokens: Iterable[Emitted | None], temperature: float) -> Gap | None:
    """The gap that would explain why texts of one temperature part, from what each has at that position; None if nothing is on
    record.

    Where two scores changed places, every side saw them close together, so the largest margin counts. Where a token passed the
    filters narrowly in one text and failed them in another, the border shows it where it was emitted, so the smallest counts.
    """
    there = [token for token in tokens if token is not None]
    margins = [token.margin for token in there if token.margin is not None]
    borders = [token.border for token in there if token.border is not None]
    gaps = []
    if margins:
        widest = max(margins)
        gaps.append(Gap(in_logits(widest, temperature), "margin", words(widest, temperature)))
    if borders:
        gaps.append(Gap(min(borders), "border", f"{min(borders):.2g}"))
    return min(gaps, key=lambda gap: gap.size, default=None)
