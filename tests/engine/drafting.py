"""Helpers to call a drafter without a decode loop."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from engine.acceptance import RoundNoise
from engine.drafters.base import Drafter, Proceed, always
from engine.drafters.draft import Draft, DraftContext, DraftPlan
from engine.drafters.sampler import Sampler
from engine.noise.source import NoiseSource
from engine.target.distribution import Shaper
from engine.types import DecodingOptions
from tests.engine.small_models import VOCAB


def sampler_of(history: Sequence[int], limit: int = 64, vocab_size: int = VOCAB, **options: Any) -> Sampler:
    """A sampler for a round of at most `limit` proposals behind `history`, of a fixed length."""
    chosen = DecodingOptions(**{"seed": 1, **options})
    noise = RoundNoise(NoiseSource(1, vocab_size), len(history))
    return Sampler(Shaper(chosen), chosen.rule, noise, history, vocab_size, DraftPlan(None, limit))


def start(drafter: Drafter, tokens: Sequence[int], proceed: Proceed = always, target: Any = None, read: int = 0) -> bool:
    """Has a drafter follow these tokens, of which the target has read the first `read`."""
    return drafter.start(DraftContext(target, tokens, read), proceed)


def drafted_after(drafter: Drafter, history: Sequence[int], limit: int, **options: Any) -> Draft:
    """What a drafter that follows `history` proposes."""
    sampler = sampler_of(history, limit, **options)
    drafter.estimates(limit)
    return drafter.propose(DraftPlan(drafter.name, limit), sampler)


def ids_of(draft: Draft) -> list[int]:
    """The tokens that were proposed."""
    return [int(token) for token in np.asarray(draft.tree.drafted)]


def commit(drafter: Drafter, tokens: Sequence[int]) -> None:
    """Tells a drafter that reads no hidden states what a round added."""
    drafter.commit(range(len(tokens)), tokens, None)
