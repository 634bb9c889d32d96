"""One seed, one text: what the target says under match, gumbel and without a drafter, compared token by token."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import mlx.core as mx

from engine.decoding import decode
from engine.drafters.base import Drafter
from engine.models import LoadedModel
from engine.proof.contexts import Tick, prompt_of
from engine.proof.findings import Finding
from engine.types import SEED_LIMIT, DecodingOptions, Rule

NEAR_TIE = {mx.float32: 1e-3}
NEAR_TIE_OF_HALF_PRECISION = 0.1
"""Scores closer than this may change places between passes of different width."""
INVARIANT_RULES: tuple[Rule, ...] = ("match", "gumbel")


def invariance(
    target: LoadedModel,
    drafters: Sequence[Drafter],
    prompts: int,
    tokens: int,
    gammas: Sequence[int],
    seed: int,
    tick: Tick,
) -> Iterator[Finding]:
    """A finding for each drafter and rule: over all prompts and gammas, equal to the plain text or first apart at a near-tie."""
    near = NEAR_TIE.get(target.model(mx.array([[0]])).dtype, NEAR_TIE_OF_HALF_PRECISION)
    base = DecodingOptions(max_tokens=tokens, phase_every=0)
    texts = []
    for index in range(prompts):
        options = base.replace(seed=(seed + index) % SEED_LIMIT, analyse=False)
        texts.append(_text(target, prompt_of(target, index), None, options, tick))
    for drafter in drafters:
        for rule in INVARIANT_RULES:
            compared, apart = 0, []
            for index, plain in enumerate(texts):
                for gamma in gammas:
                    options = base.replace(seed=(seed + index) % SEED_LIMIT, rule=rule, gamma=gamma)
                    equal, margin = _until_apart(target, prompt_of(target, index), drafter, options, plain, tick)
                    compared += equal
                    if margin is not None:
                        apart.append((margin, f"prompt {index + 1}, gamma {gamma}: token {equal + 1}, margin {margin:.2g}"))
            passed = all(margin < near for margin, _ in apart)
            detail = "; ".join(text for _, text in apart) if apart else "all texts equal"
            label = f"{drafter.name}, gamma {', '.join(map(str, gammas))}, {len(texts)} texts"
            yield Finding("same text as without a drafter", rule, label, compared, passed, detail=detail)


def _text(target: LoadedModel, prompt: list[int], drafter: Drafter | None, options: DecodingOptions, tick: Tick) -> list[int]:
    ids: list[int] = []
    for current in decode(target, prompt, drafter, options, eos_ids=()):
        tick()
        ids += [token.id for token in current.emitted]
    return ids


def _until_apart(
    target: LoadedModel, prompt: list[int], drafter: Drafter, options: DecodingOptions, plain: list[int], tick: Tick
) -> tuple[int, float | None]:
    """How many tokens are equal, and the target's margin at the first that is not; None if all are."""
    equal = 0
    rounds = decode(target, prompt, drafter, options, eos_ids=())
    try:
        for current in rounds:
            tick()
            for token in current.emitted:
                if token.id != plain[equal]:
                    return equal, token.margin if token.margin is not None else float("inf")
                equal += 1
    finally:
        rounds.close()
    return equal, None
