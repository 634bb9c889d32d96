"""One seed, one text: what the target says under match, gumbel and without a drafter, compared token by token."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from engine import near_ties
from engine.cache import logits_type
from engine.decoding import decode
from engine.drafters.base import Drafter
from engine.models import LoadedModel
from engine.near_ties import Gap, nearest
from engine.proof.contexts import Tick, prompt_of
from engine.proof.findings import Finding
from engine.types import SEED_LIMIT, DecodingOptions, Emitted, Rule

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
    near = near_ties.limit(logits_type(target.model))
    base = DecodingOptions(max_tokens=tokens, phase_every=0)
    texts = []
    for index in range(prompts):
        options = base.replace(seed=(seed + index) % SEED_LIMIT)
        texts.append(_text(target, prompt_of(target, index), None, options, tick))
    for drafter in drafters:
        for rule in INVARIANT_RULES:
            compared, apart, passed = 0, [], True
            for index, plain in enumerate(texts):
                for gamma in gammas:
                    options = base.replace(seed=(seed + index) % SEED_LIMIT, rule=rule, gamma=gamma)
                    equal, differs, gap = _until_apart(target, prompt_of(target, index), drafter, options, plain, tick)
                    compared += equal
                    if differs:
                        passed &= gap is not None and gap.size < near
                        apart.append(f"prompt {index + 1}, gamma {gamma}: token {equal + 1}, {gap or 'no margin on record'}")
            detail = "; ".join(apart) or "all texts equal"
            label = f"{drafter.name}, gamma {', '.join(map(str, gammas))}, {len(texts)} texts"
            yield Finding("same text as without a drafter", rule, label, compared, passed, detail=detail)


def _text(target: LoadedModel, prompt: list[int], drafter: Drafter | None, options: DecodingOptions, tick: Tick) -> list[Emitted]:
    tokens: list[Emitted] = []
    for current in decode(target, prompt, drafter, options, eos_ids=()):
        tick()
        tokens += current.emitted
    return tokens


def _until_apart(
    target: LoadedModel, prompt: list[int], drafter: Drafter, options: DecodingOptions, plain: list[Emitted], tick: Tick
) -> tuple[int, bool, Gap | None]:
    """How many tokens are equal, whether one is not, and how near the two texts were to each other there."""
    equal = 0
    rounds = decode(target, prompt, drafter, options, eos_ids=())
    try:
        for current in rounds:
            tick()
            for token in current.emitted:
                if token.id != plain[equal].id:
                    return equal, True, nearest((token, plain[equal]))
                equal += 1
    finally:
        rounds.close()
    return equal, False, None
