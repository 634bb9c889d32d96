"""Runs a published head as drafter through the rounds of a reference, and compares its logits."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
from mlx_lm.models.cache import KVCache

from engine.acceptance import RoundNoise
from engine.drafters import FeatureHead
from engine.drafters.draft import DraftPlan
from engine.drafters.sampler import Sampler
from engine.models.loaded import LoadedModel
from engine.models.loading import load
from engine.models.state_head import StateHead
from engine.noise.source import NoiseSource
from engine.target.distribution import Shaper
from engine.target.layer_taps import tap
from engine.types import DecodingOptions
from tests.engine.drafting import start

TOLERANCE = 2e-4


def loaded(folder: Path) -> LoadedModel:
    """A target from its folder."""
    return load(str(folder))


class RecordingSampler(Sampler):
    """Keeps the logits of every step."""

    def __init__(self, history: Sequence[int], vocab_size: int, plan: DraftPlan) -> None:
        options = DecodingOptions(temperature=0.0, rule="match")
        noise = RoundNoise(NoiseSource(1, vocab_size), len(history))
        super().__init__(Shaper(options), options.rule, noise, history, vocab_size, plan)
        self.logits: list[np.ndarray] = []

    def sample(self, logits: mx.array, target_ids: mx.array | None = None) -> mx.array:
        self.logits.append(np.array(logits))
        return super().sample(logits, target_ids)


def differences(head: StateHead[Any], target: LoadedModel, rounds: Sequence[dict[str, Any]]) -> tuple[float, float]:
    """Returns the largest difference of a logit in the rows of the text, and in the drafts: the first ones, those of chains, and
    both again after partial acceptances."""
    model = target.model
    drafter = FeatureHead(head, model, copies=False)
    taps = tap(model, drafter.capabilities.hidden_layers)

    def features(text: Sequence[int]) -> mx.array:
        model(mx.array([list(text)]))
        return taps.take()

    in_rows = in_drafts = 0.0
    before: list[int] = []
    for current in rounds:
        text = current["text"]
        if not before:
            start(drafter, text, target=model)
            drafter.read(0, features(text[:-1]))
        else:
            new = text[len(before) :]
            drafter.commit(range(len(new)), new, features(text[:-1])[len(before) - 1 :])
        plan = DraftPlan(drafter.name, len(current["drafts"]))
        sampler = RecordingSampler(text, len(target.vocabulary), plan)
        drafted = drafter.propose(plan, sampler).tree.drafted
        length = min(len(current["drafts"]), head.max_proposals)
        assert len(sampler.logits) == length
        in_drafts = max(in_drafts, _worst(sampler.logits, current["logits"][:length]))
        assert np.asarray(drafted).tolist() == current["drafts"][:length] or in_drafts > TOLERANCE
        outputs = head.advance(head.fuse(features(text[:-1])), mx.array(text[1:]), [KVCache() for _ in range(head.cache_count)])
        in_rows = max(in_rows, _worst(np.array(head.logits(outputs))[-len(current["rows"]) :], current["rows"]))
        before = text
    return in_rows, in_drafts


def _worst(made: Any, expected: Any) -> float:
    return float(np.abs(np.array(made) - np.array(expected)).max())
