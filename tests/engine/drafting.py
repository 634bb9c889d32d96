"""Helpers to call a drafter without a decode loop."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mlx.core as mx
import numpy as np

from engine.acceptance import RoundNoise
from engine.drafters.base import Drafter, Proceed, always
from engine.drafters.draft import Draft, DraftContext, DraftPlan, DraftTree
from engine.drafters.sampler import Sampler
from engine.noise.source import NoiseSource
from engine.target.distribution import Shaper
from engine.types import DecodingOptions, DrafterStatistics
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


class ScriptedSampler(Sampler):
    """Samples tokens that were decided beforehand, and keeps the logits it was shown."""

    def __init__(self, tokens: Sequence[int]) -> None:
        noise = RoundNoise(NoiseSource(1, VOCAB), 0)
        super().__init__(Shaper(DecodingOptions(seed=1)), "gumbel", noise, (), VOCAB, DraftPlan(None, len(tokens)))
        self._left = list(tokens)
        self.shown: list[np.ndarray] = []

    def sample(self, logits: mx.array, target_ids: mx.array | None = None) -> mx.array:
        self.shown.append(np.array(logits))
        return mx.array([self._left.pop(0)])

    def draft(self, statistics: DrafterStatistics | None = None) -> Draft:
        return Draft(DraftTree.plain(0, VOCAB))


def logits_shown(drafter: Drafter, known: Sequence[int], behind: Sequence[int], target: Any) -> list[np.ndarray]:
    """The logits from which a drafter draws, where each of the tokens behind the known ones is what it draws."""
    assert start(drafter, known, target=target, read=len(known) - 1)
    sampler = ScriptedSampler(behind)
    drafter.propose(DraftPlan(drafter.name, len(behind)), sampler)
    assert len(sampler.shown) == len(behind)
    return sampler.shown


def ids_of(draft: Draft) -> list[int]:
    """The tokens that were proposed."""
    return [int(token) for token in np.asarray(draft.tree.drafted)]


def commit(drafter: Drafter, tokens: Sequence[int]) -> None:
    """Tells a drafter that reads no hidden states what a round added."""
    drafter.commit(range(len(tokens)), tokens, None)
