"""Near-ties: positions where two texts of one seed may diverge although nothing is wrong. Nothing here imports MLX.

Passes of different width add the same products in another order, so a logit's last bits differ between a plain run and a drafted
one. Two decisions can depend on a last bit: which of two scores is larger (`Emitted.margin`), and whether a token passes the
filters (`Emitted.border`). Borders and the margins of temperature 0 are gaps between logits; margins of perturbed scores are gaps
between logits divided by the temperature. In units of logits one limit fits all.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from engine.types import Emitted

FLOAT32, FLOAT16, BFLOAT16 = 1e-3, 0.1, 0.3
"""Gaps between logits below these may close, by type. In bfloat16, logits between 16 and 32 lie 0.125 apart, and each of two may
be off by such a step (DESIGN section 2)."""
RANGE = 1.0
"""A change of logits, in their units, that last bits never cause. A larger margin of perturbed scores is recorded as this one
(`reach`), larger borders not at all: computing them would take the whole vocabulary."""


def limit(logits: str | None, kv_bits: int | None = None) -> float:
    """Returns the gap, in units of logits, below which last bits may decide.

    Args:
        logits: type of the target's logits, as in `Numerics.logits`. An unknown type counts as float32: a fault is then never
            excused, but a near-tie in half precision is not recognised.
        kv_bits: bits of a quantised K/V cache, in which a last bit may move a key or value by a whole level.
    """
    of_type = {"float16": FLOAT16, "bfloat16": BFLOAT16}.get(logits or "", FLOAT32)
    return of_type if kv_bits is None else max(of_type, FLOAT16)


def reach(temperature: float) -> float:
    """Returns the largest recorded margin; infinite at temperature 0."""
    return RANGE / temperature if temperature else math.inf


def is_lower_bound(margin: float, temperature: float) -> bool:
    """Returns whether a recorded margin means "this or more". Older traces record margins up to 1 at every temperature but 0."""
    return math.isclose(margin, reach(temperature), rel_tol=1e-6) or (temperature != 0 and margin == 1)


def in_logits(margin: float, temperature: float) -> float:
    """Returns a recorded margin in units of logits."""
    return RANGE if is_lower_bound(margin, temperature) else margin * (temperature or 1.0)


def words(margin: float, temperature: float, digits: int = 2) -> str:
    """Returns a margin in words."""
    return f"{margin:.3g} or more" if is_lower_bound(margin, temperature) else f"{margin:.{digits}g}"


@dataclass(frozen=True, slots=True)
class Gap:
    """Distance to a different outcome.

    Attributes:
        size: in units of logits.
        of: the kind of distance: to another token's score (margin), or to being dropped by the filters (border).
        told: the recorded gap, in words.
    """

    size: float
    of: Literal["margin", "border"]
    told: str

    def __str__(self) -> str:
        return f"{self.of} {self.told}"


def nearest(tokens: Iterable[Emitted | None], temperature: float) -> Gap | None:
    """Returns the gap that would explain why texts of one temperature diverge, from the token of each text at that position; None
    if no gap is recorded.

    If two scores changed places, every text saw them close together, so the largest margin counts. If a token narrowly passed the
    filters in one text and failed them in another, only the text that emitted it shows the border, so the smallest counts.
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
