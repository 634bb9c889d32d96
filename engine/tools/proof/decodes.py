"""Checks of whole decodes.

Many short decodes of one prompt are compared with the distribution from the target's forward passes. Longer decodes of one seed
under match, under gumbel and without a drafter are compared token by token.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import product
from typing import Any

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from engine.decode.decoding import decode
from engine.decode.target_session import chains_reason
from engine.drafters.base import Drafter
from engine.models.loaded import LoadedModel
from engine.rounds import near_ties
from engine.rounds.near_ties import Gap, nearest
from engine.target import prompt_cache as caches
from engine.target.interface import PromptCache
from engine.tools.proof.contexts import Tick, built_in_prompt, continued, known_ids, probabilities
from engine.tools.proof.goodness_of_fit import table
from engine.types import INVARIANT_RULES, RULES, SEED_LIMIT, DecodingOptions, Emitted, Gamma, Round, Rule
from engine.values.requests.prove import Finding
from engine.values.wording import amount

FIRST, SECOND = 5, 4
"""Bins: the most likely first tokens, each with its most likely second tokens and one bin for the rest; and one for the
rest."""
LENGTH = 3
"""Tokens per decode: two that are checked, and room for two proposals."""
SETTING = DecodingOptions(gamma="auto", budget=None, temperature=0.8, top_p=0.95, top_k=40, min_p=0.02, max_tokens=LENGTH)
SEEDS_APART = 1_000_000
TREE = {"gamma": 4, "budget": 8, "width": 3}
"""Decoding options of answers that draft trees."""


@dataclass(frozen=True)
class Bins:
    """Bins of a text's first two tokens. law: (FIRST * (SECOND + 1) + 1,), from forward passes. first, second: ids with a
    bin."""

    law: NDArray[np.float64]
    first: dict[int, int]
    second: tuple[dict[int, int], ...]

    def of(self, one: int, two: int) -> int:
        """Returns the bin of a text that begins with these tokens."""
        index = self.first.get(one)
        return len(self.law) - 1 if index is None else index * (SECOND + 1) + self.second[index].get(two, SECOND)


def decodes(
    target: LoadedModel, drafter: Drafter | None, prompt: int, decodes_each: int, seed: int, tick: Tick
) -> Iterator[Finding]:
    """Yields findings on the first two tokens of many short answers, under each rule and without proposals."""
    tokens = built_in_prompt(target, prompt)
    cache = caches.make_prompt_cache(target.model)
    caches.read_prompt(target.model, cache, tokens[:-1], lambda done, total: True)
    caches.mark(cache)
    caches.watch(cache)
    bins = _bins(target, tokens, cache)
    label = "T 0.8, all filters, {}, two tokens"
    cases: list[tuple[str, Rule, DecodingOptions]] = [("plain", RULES[0], SETTING)]
    if drafter is not None:
        cases = [("auto", rule, SETTING) for rule in RULES]
        if drafts_trees(target, drafter):
            cases += [("trees", rule, SETTING.replace(**TREE)) for rule in RULES if rule != "block"]
    for number, (drafts, rule, setting) in enumerate(cases):
        options = setting.replace(rule=rule, analyse=False, phase_every=0)
        counts = np.zeros(len(bins.law), dtype=np.int64)
        for draw in range(decodes_each):
            caches.rewind(cache, len(tokens) - 1, "target")
            ids: list[int] = []
            own = options.replace(seed=(seed + SEEDS_APART * number + draw) % SEED_LIMIT)
            rounds = decode(target, tokens, drafter, own, eos_ids=(), cache=cache)
            for current in rounds:
                tick()
                ids += [token.id for token in current.emitted]
                if len(ids) > 1:
                    break
            rounds.close()
            counts[bins.of(ids[0], ids[1])] += 1
        name = rule if drafter is not None else "plain"
        yield Finding(
            "decoded tokens against forward passes",
            name,
            label.format("auto" if drafter is None else drafts),
            decodes_each,
            table(counts, bins.law),
            "total variation",
        )


def filtered(likely: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Returns (vocab,): which tokens the filters keep, from untempered probabilities (vocab,). Implemented independently of the
    engine: the most likely tokens up to top-p, those of at least min-p times the maximum, and the first top-k."""
    order = np.argsort(-likely, kind="stable")
    ranked = likely[order]
    keep = np.cumsum(ranked) - ranked < SETTING.top_p
    keep &= (ranked >= SETTING.min_p * ranked[0]) & (np.arange(len(ranked)) < SETTING.top_k)
    kept_ranks = np.zeros(len(likely), dtype=bool)
    kept_ranks[order] = keep
    return kept_ranks


def _bins(target: LoadedModel, tokens: list[int], cache: PromptCache) -> Bins:
    known: NDArray[np.bool_] | None = None

    def law_after(token: int) -> NDArray[np.float64]:
        """Returns (vocab,) float64: softmax of the target's logits after the prompt, or after one more token."""
        nonlocal known
        logits = target.model(mx.array([[token]]), cache=cache)[0, -1].astype(mx.float32)
        scores = np.array(logits, dtype=np.float64)
        known = known_ids(target, len(scores)) if known is None else known
        likely = probabilities(np.where(known, scores, -np.inf)[None])[0]
        return probabilities(np.where(filtered(likely), scores, -np.inf)[None] / SETTING.temperature)[0]

    first_law = law_after(tokens[-1])
    likeliest = [int(token) for token in np.argsort(-first_law, kind="stable")[:FIRST]]
    law: list[float] = []
    second: list[dict[int, int]] = []
    for token in likeliest:
        caches.trim_to(cache, len(tokens), "target")
        after = law_after(token)
        best = [int(other) for other in np.argsort(-after, kind="stable")[:SECOND]]
        second.append({other: place for place, other in enumerate(best)})
        law += [first_law[token] * after[other] for other in best] + [0.0] * (SECOND - len(best))
        law.append(max(0.0, first_law[token] * (1 - after[best].sum())))
    law.append(max(0.0, 1 - first_law[likeliest].sum()))
    caches.rewind(cache, len(tokens) - 1, "target")
    return Bins(np.array(law), {token: place for place, token in enumerate(likeliest)}, tuple(second))


def invariance(
    target: LoadedModel,
    drafters: Sequence[Drafter],
    prompts: int,
    tokens: int,
    gammas: Sequence[Gamma],
    seed: int,
    tick: Tick,
) -> Iterator[Finding]:
    """Yields a finding per drafter and rule, and another for trees: over all prompts and gammas, the text equals the plain one or
    first differs at a near-tie."""
    near = near_ties.limit(caches.logits_type(target.model))
    base = DecodingOptions(max_tokens=tokens, phase_every=0)
    cached = [_Prompt(target, continued(target, index)) for index in range(prompts)]
    texts = []
    for index, prompt in enumerate(cached):
        options = base.replace(seed=(seed + index) % SEED_LIMIT)
        texts.append([token for current in prompt.rounds(None, options, tick) for token in current.emitted])
    for drafter in drafters:
        groups: dict[str, dict[str, dict[str, Any]]] = {
            f"gamma {', '.join(map(str, gammas))}": {f"gamma {gamma}": {"gamma": gamma} for gamma in gammas}
        }
        if drafts_trees(target, drafter):
            groups["trees"] = {"trees": TREE}
        for rule, (group, settings) in product(INVARIANT_RULES, groups.items()):
            compared, proposed, apart, passed = 0, 0, [], True
            for (index, plain), (name, changes) in product(enumerate(texts), settings.items()):
                options = base.replace(seed=(seed + index) % SEED_LIMIT, rule=rule, **changes)
                equal, differs, gap, proposals = _until_apart(cached[index], drafter, options, plain, tick)
                compared += equal
                proposed += proposals
                if differs:
                    passed &= gap is not None and gap.size < near
                    apart.append(f"prompt {index + 1}, {name}: token {equal + 1}, {gap or 'margin not recorded'}")
            detail = f"{'; '.join(apart) or 'all texts equal'}, {amount(proposed, 'token')} proposed"
            label = f"{drafter.name}, {group}, {amount(len(texts), 'text')}"
            yield Finding("same text as without a drafter", rule, label, compared, passed, detail=detail)


def drafts_trees(target: LoadedModel, drafter: Drafter) -> bool:
    """Returns whether answers of this pair can draft trees."""
    return not chains_reason(SETTING.replace(**TREE), drafter, target)


class _Prompt:
    """A prompt that the target reads once for all answers that are compared."""

    def __init__(self, target: LoadedModel, tokens: list[int]) -> None:
        self._target, self._tokens = target, tokens
        self._cache = caches.make_prompt_cache(target.model)

    def rounds(self, drafter: Drafter | None, options: DecodingOptions, tick: Tick) -> Generator[Round, None, None]:
        """Yields the rounds of one answer."""
        with closing(decode(self._target, self._tokens, drafter, options, eos_ids=(), cache=self._cache)) as answer:
            for current in answer:
                tick()
                yield current
        caches.rewind(self._cache, len(self._tokens) - 1, "target")


def _until_apart(
    prompt: _Prompt, drafter: Drafter, options: DecodingOptions, plain: list[Emitted], tick: Tick
) -> tuple[int, bool, Gap | None, int]:
    """Returns the number of equal tokens, whether a token differs, the gap between the two candidates there, and the number of
    proposed tokens in the whole text."""
    equal = proposed = 0
    differs, gap = False, None
    for current in prompt.rounds(drafter, options, tick):
        proposed += len(current.proposals)
        for token in current.emitted:
            if not differs and token.id != plain[equal].id:
                differs, gap = True, nearest((token, plain[equal]), options.temperature)
            equal += not differs
    return equal, differs, gap, proposed
