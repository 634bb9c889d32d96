"""Runs all checks of one pair, in order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import mlx.core as mx

from engine.drafters.base import Drafter
from engine.models.loaded import LoadedModel
from engine.target.prompt_cache import logits_width
from engine.tools.proof.contexts import Contexts, built_in_prompt
from engine.tools.proof.decodes import decodes, drafts_trees, invariance
from engine.tools.proof.judges import (
    GAMMA,
    CheckSetting,
    coupling_on_full_rows,
    round_checks,
    same_as_decoding,
    synthetic_setting,
)
from engine.tools.proof.known_answers import known_answers
from engine.types import RATIO_RULES, RULES, DecodingOptions, Effort, Gamma, Plant
from engine.values.errors import DraftlightError
from engine.values.requests.prove import DESCRIPTIONS, NEEDS_DISTRIBUTION, Finding
from engine.values.wording import amount as worded

Report = Callable[[str, float], None]
"""Called often with the current step and the fraction done; may raise to interrupt."""

SETTINGS = (
    ("T 0.8", DecodingOptions(temperature=0.8, gamma=GAMMA)),
    ("T 1, all filters, auto", DecodingOptions(temperature=1.0, gamma="auto", top_p=0.7, top_k=40, min_p=0.02)),
)
"""The second setting filters strongly enough to distinguish q before the filter from q after it."""
ROWS_EACH = 12
SEEDS_APART = 2**40
DECODED_PROMPT = 4


@dataclass(frozen=True)
class Amount:
    """Amount of work. `texts`: per rule and setting. `seeds`: per whole row. `decodes`: per rule. `prompts`, `tokens`,
    `gammas`: for the comparison under one seed."""

    contexts: int
    texts: int
    seeds: int
    decodes: int
    prompts: int
    tokens: int
    gammas: tuple[Gamma, ...]


AMOUNTS: dict[Effort, Amount] = {
    "quick": Amount(contexts=2, texts=5_000, seeds=4, decodes=20, prompts=1, tokens=16, gammas=(3, "auto")),
    "default": Amount(contexts=4, texts=20_000, seeds=20, decodes=150, prompts=2, tokens=32, gammas=(1, 4, "auto")),
    "thorough": Amount(contexts=5, texts=200_000, seeds=100, decodes=1_000, prompts=5, tokens=64, gammas=(1, 2, 4, 8, "auto")),
}


def prove(
    target: LoadedModel,
    drafter: Drafter | None,
    amount: Amount,
    seed: int,
    plant: Plant | None,
    report: Report,
    others: Sequence[Drafter] = (),
) -> Iterator[Finding]:
    """Yields the findings as they are made.

    Args:
        drafter: None checks only the noise and plain decoding.
        plant: a defect to plant deliberately in the simulated rounds.
        others: further drafters whose texts under one seed are compared with the plain text.

    Raises:
        DraftlightError: the pair cannot be checked, or the planted defect would have no effect on it.
    """
    if plant is not None and (drafter is None or (plant in NEEDS_DISTRIBUTION and not drafter.capabilities.samples)):
        name = "no drafter" if drafter is None else drafter.name
        raise DraftlightError(
            f"{plant} ({DESCRIPTIONS[plant]}) cannot be planted with {name}: it needs a drafter that draws its proposals. "
            "Choose a draft model."
        )
    begin = _steps(report)
    settings = []
    if drafter is not None:
        for label, options in SETTINGS:
            step = begin(f"reading rows at {label}", 0.03, amount.contexts * 12)
            contexts = Contexts(target, drafter, options.replace(seed=seed), step)
            read = [contexts.read(index, ROWS_EACH) for index in range(amount.contexts)]
            settings.append(CheckSetting(label, tuple(rows for rows in read if rows is not None), options.gamma == "auto"))
            if not settings[-1].contexts:
                raise DraftlightError(
                    f"{drafter.name} proposed nothing in {worded(amount.contexts, 'answer')}, so there is nothing to check. "
                    "Try --thorough, or another drafter."
                )
    logits = [rows.logits for setting in settings for rows in setting.contexts][: amount.contexts]
    if drafter is None:
        logits = [target.model(mx.array([built_in_prompt(target, index)]))[0, -4:] for index in range(amount.contexts)]
    yield from known_answers(logits_width(target.model), logits, seed, begin("known answers", 0.03, 4 + len(logits)))
    for number, setting in enumerate(settings):
        own_seed = seed + SEEDS_APART * (number + 1)
        for rule in RULES:
            step = begin(f"simulating rounds: {rule}, {setting.label}", 0.05, amount.texts // 500 + 1)
            yield from round_checks(setting, rule, amount.texts, own_seed, plant, step)
            yield same_as_decoding(setting, rule, own_seed)
        if drafter is not None and drafter.capabilities.samples:
            step = begin(f"drawing from whole rows, {setting.label}", 0.03, amount.seeds * len(setting.contexts))
            yield coupling_on_full_rows(setting, amount.seeds, own_seed, step)
    if drafter is not None:
        for rule in RATIO_RULES:
            step = begin(f"playing rounds: {rule}, made-up rows", 0.02, amount.texts // 500 + 1)
            yield from round_checks(synthetic_setting(), rule, amount.texts, seed, plant, step)
    rules = 1 if drafter is None else len(RULES) + 3 * drafts_trees(target, drafter)
    step = begin("short decodes", 0.25, round(amount.decodes * rules * 1.6))
    yield from decodes(target, drafter, DECODED_PROMPT, amount.decodes, seed, step)
    if drafter is not None:
        drafters = [*others, drafter]
        trees = sum(drafts_trees(target, other) for other in drafters)
        runs = amount.prompts * (1 + 2 * len(drafters) * len(amount.gammas) + 2 * trees)
        step = begin("comparing texts of one seed", 0.25, round(runs * amount.tokens * 0.8))
        yield from invariance(target, drafters, amount.prompts, amount.tokens, amount.gammas, seed, step)


def _steps(report: Report) -> Callable[[str, float, int], Callable[[], None]]:
    """Returns a function that begins a step, given its name, its share of the time and its number of ticks. It returns the
    function to call per tick. Shares and numbers are rough, since they only move a progress bar."""
    ended = 0.0

    def begin(name: str, share: float, ticks: int) -> Callable[[], None]:
        """Begins a step."""
        nonlocal ended
        done, passed = ended, 0
        ended = min(1.0, ended + share)

        def tick() -> None:
            """Reports progress within the step; the fraction stops at the step's end if there are more ticks than expected."""
            nonlocal passed
            report(name, min(1.0, done + share * min(1.0, passed / max(1, ticks))))
            passed += 1

        tick()
        return tick

    return begin
