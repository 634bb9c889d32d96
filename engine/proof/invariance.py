"""One seed, one text: what the target says under match, gumbel and without a drafter, compared token by token."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import closing

from engine import near_ties
from engine.decoding import decode
from engine.drafters.base import Drafter
from engine.models.loaded import LoadedModel
from engine.near_ties import Gap, nearest
from engine.proof.contexts import Tick, continued
from engine.requests.prove import Finding
from engine.target import prompt_cache as caches
from engine.types import INVARIANT_RULES, SEED_LIMIT, DecodingOptions, Emitted, Gamma, Round


def invariance(
    target: LoadedModel,
    drafters: Sequence[Drafter],
    prompts: int,
    tokens: int,
    gammas: Sequence[Gamma],
    seed: int,
    tick: Tick,
) -> Iterator[Finding]:
    """A finding for each drafter and rule: over all prompts and gammas, equal to the plain text or first apart at a near-tie."""
    near = near_ties.limit(caches.logits_type(target.model))
    base = DecodingOptions(max_tokens=tokens, phase_every=0)
    cached = [_Prompt(target, continued(target, index)) for index in range(prompts)]
    texts = []
    for index, prompt in enumerate(cached):
        options = base.replace(seed=(seed + index) % SEED_LIMIT)
        texts.append([token for current in prompt.rounds(None, options, tick) for token in current.emitted])
    for drafter in drafters:
        for rule in INVARIANT_RULES:
            compared, proposed, apart, passed = 0, 0, [], True
            for index, plain in enumerate(texts):
                for gamma in gammas:
                    options = base.replace(seed=(seed + index) % SEED_LIMIT, rule=rule, gamma=gamma)
                    equal, differs, gap, proposals = _until_apart(cached[index], drafter, options, plain, tick)
                    compared += equal
                    proposed += proposals
                    if differs:
                        passed &= gap is not None and gap.size < near
                        apart.append(f"prompt {index + 1}, gamma {gamma}: token {equal + 1}, {gap or 'margin not recorded'}")
            detail = f"{'; '.join(apart) or 'all texts equal'}, {proposed} tokens proposed"
            label = f"{drafter.name}, gamma {', '.join(map(str, gammas))}, {len(texts)} texts"
            yield Finding("same text as without a drafter", rule, label, compared, passed, detail=detail)


class _Prompt:
    """A prompt that the target reads once, however many answers to it are compared."""

    def __init__(self, target: LoadedModel, tokens: list[int]) -> None:
        self._target, self._tokens = target, tokens
        self._cache = caches.make_prompt_cache(target.model)

    def rounds(self, drafter: Drafter | None, options: DecodingOptions, tick: Tick) -> Generator[Round, None, None]:
        """One answer."""
        with closing(decode(self._target, self._tokens, drafter, options, eos_ids=(), cache=self._cache)) as answer:
            for current in answer:
                tick()
                yield current
        caches.rewind(self._cache, len(self._tokens) - 1, "target")


def _until_apart(
    prompt: _Prompt, drafter: Drafter, options: DecodingOptions, plain: list[Emitted], tick: Tick
) -> tuple[int, bool, Gap | None, int]:
    """How many tokens are equal, whether one is not, how near the two texts were to each other there, and how many tokens
    were proposed in the whole text."""
    equal = proposed = 0
    differs, gap = False, None
    for current in prompt.rounds(drafter, options, tick):
        proposed += len(current.proposals)
        for token in current.emitted:
            if not differs and token.id != plain[equal].id:
                differs, gap = True, nearest((token, plain[equal]))
            equal += not differs
    return equal, differs, gap, proposed
