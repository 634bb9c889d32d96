"""Example of an added rule: this file, and the lines that `tests/engine/test_new_rule.py` puts into the tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import mlx.core as mx

from engine.acceptance import Draft, Judgement, RoundNoise, match
from engine.target.distribution import Distribution

TITLE = "Cautious"
NOTE = "The first proposal of a round is judged as under match; the others are never kept."


def cautious(
    p: Distribution | mx.array, q: Draft | mx.array, proposals: mx.array | Sequence[int], noise: RoundNoise
) -> Judgement:
    """As `match`, but for the first proposal only.

    Exact, since every token of the text is the target's own draw: that it equals a proposal changes how many are emitted at once,
    never which ones. Arguments as in `match`.
    """
    verdict = match(p, q, proposals, noise)
    assert verdict.draws is not None
    accepted = mx.minimum(verdict.accepted, 1)

    def chances() -> mx.array:
        """Only the first may be kept."""
        matching = verdict.acceptance
        return matching * (mx.arange(matching.shape[0]) == 0)

    return replace(verdict, accepted=accepted, token=verdict.draws[accepted], chances=chances)
