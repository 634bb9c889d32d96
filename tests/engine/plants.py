"""Planted faults for twin tests: each breaks one step of drafting or judging, and a test must notice.

A plant gets pytest's monkeypatch and the rule. The fault affects one rule, under any gamma.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from engine.acceptance import JUDGES, Judgement, RoundNoise
from engine.drafters.sampler import Sampler
from engine.target.distribution import Distribution
from engine.types import Rule

Plant = Callable[[pytest.MonkeyPatch, Rule], None]
SURE = 0.48


def _token(planted: Callable[[Any, Any, Judgement, RoundNoise, mx.array], mx.array | None]) -> Plant:
    """A plant that changes the token behind the accepted ones: `planted` returns another one, or None where it keeps it."""

    def plant(monkeypatch: pytest.MonkeyPatch, rule: Rule) -> None:
        sound = JUDGES[rule]

        def judge(p: Distribution, q: Any, proposals: mx.array, noise: RoundNoise) -> Judgement:
            verdict = sound(p, q, proposals, noise)
            token = planted(p, q, verdict, noise, proposals)
            return verdict if token is None else replace(verdict, token=token.reshape(()).astype(mx.int32))

        monkeypatch.setitem(JUDGES, rule, judge)

    return plant


def _from_p(applies: Callable[[int, int], bool]) -> Plant:
    """The correction is drawn from p instead of the residual where (accepted, gamma) say so."""

    def planted(p: Any, q: Any, verdict: Judgement, noise: RoundNoise, proposals: mx.array) -> mx.array | None:
        accepted = int(verdict.accepted)
        return noise.residual(p.row(verdict.accepted), verdict.accepted) if applies(accepted, q.rows) else None

    return _token(planted)


def _bonus_of_the_row_before(p: Any, q: Any, verdict: Judgement, noise: RoundNoise, proposals: mx.array) -> mx.array | None:
    if int(verdict.accepted) < q.rows:
        return None
    return noise.shared(p.row(mx.array(q.rows - 1)), first=q.rows)


def _not_normalised(p: Any, q: Any, verdict: Judgement, noise: RoundNoise, proposals: mx.array) -> mx.array | None:
    """Drawn as if the residual summed to 1: what it lacks falls to the last token. Under rejection."""
    accepted = int(verdict.accepted)
    if accepted == q.rows:
        return None
    excess = np.maximum(np.asarray(p.probabilities)[accepted] - np.asarray(q.probabilities)[accepted], 0)
    excess[-1] += 1 - excess.sum()
    return noise.residual(Distribution.from_probabilities(mx.array(excess[None])), verdict.accepted)


def _one_coin(monkeypatch: pytest.MonkeyPatch, rule: Rule) -> None:
    sound = RoundNoise.coins

    def coins(self: RoundNoise, count: int) -> mx.array:
        return mx.array(np.full(count, np.asarray(sound(self, count))[0]))

    monkeypatch.setattr(RoundNoise, "coins", coins)


def _dropped(monkeypatch: pytest.MonkeyPatch, rule: Rule) -> None:
    """The drafter takes its newest token back when it is sure of it, whatever says how long drafts are."""
    sound = Sampler.should_continue

    def should_continue(self: Sampler) -> bool:
        on = sound(self)
        if float(np.asarray(self._rows[-1].probability_of(self._tokens[-1]))[0]) < SURE:
            return on
        self._rows.pop()
        self._tokens.pop()
        return False

    monkeypatch.setattr(Sampler, "should_continue", should_continue)


PLANTS: dict[str, Plant] = {
    "p for the residual where the last is rejected": _from_p(lambda accepted, gamma: gamma >= 2 and accepted == gamma - 1),
    "p for the residual where another one is rejected": _from_p(lambda accepted, gamma: accepted < gamma - 1),
    "a residual that is not normalised": _token(_not_normalised),
    "a bonus from the row before": _token(_bonus_of_the_row_before),
    "one coin for all proposals": _one_coin,
    "a dropped draw": _dropped,
}
