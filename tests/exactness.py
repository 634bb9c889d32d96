"""Comparing the built-in target's answers: with mlx-lm's own greedy tokens, and with each other under one seed.

Used by the tests on a few prompts, and by `python -m tests.benchmarks.exactness` on as many as one likes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mlx.core as mx
from mlx_lm.generate import generate_step

from engine import near_ties
from engine.decoding import DecodingOptions, decode
from engine.drafters import DraftModel, FeatureHead, NGram, NGramMod
from engine.drafters.base import Drafter
from engine.models.head_model import BUILTIN_HEAD
from engine.models.loaded import LoadedModel
from engine.models.loading import load
from engine.target.prompt_cache import logits_type
from engine.types import Emitted

OWN_PROMPTS = Path(__file__).parent / "prompts.jsonl"
DRAFTERS = ("none", "ngram", "builtin-draft", "head")


@dataclass(frozen=True)
class Prompt:
    id: str
    category: str
    text: str


@dataclass(frozen=True)
class Comparison:
    """One answer against its reference.

    Attributes:
        compared: tokens that are equal before the texts end or first differ.
        margin: the smallest gap on record where they first differ (`engine.near_ties`), infinite if there is none; None if they
            are equal.
        near: the gap below which last bits may decide.
    """

    prompt: str
    drafter: str
    rule: str
    gamma: int
    compared: int
    margin: float | None
    near: float

    @property
    def explained(self) -> bool:
        """Equal, or first different where last bits decide."""
        return self.margin is None or self.margin < self.near


def read_prompts(path: Path = OWN_PROMPTS, limit: int | None = None) -> list[Prompt]:
    """First turns of a JSON Lines file with id, category, turns; a limited list takes the categories in turn."""
    with path.open(encoding="utf-8") as lines:
        entries = [json.loads(line) for line in lines if line.strip()]
    by_category: dict[str, list[Prompt]] = {}
    for entry in entries:
        by_category.setdefault(entry["category"], []).append(Prompt(entry["id"], entry["category"], entry["turns"][0]))
    mixed: list[Prompt] = []
    while any(by_category.values()):
        mixed += [waiting.pop(0) for waiting in by_category.values() if waiting]
    return mixed[:limit]


def prompt_tokens(model: LoadedModel, prompt: Prompt) -> list[int]:
    return model.tokenizer.apply_chat_template([{"role": "user", "content": prompt.text}])


def make_drafter(name: str, target: LoadedModel) -> Drafter | None:
    if name == "none":
        return None
    if name in ("head", "head-alone"):
        return FeatureHead(BUILTIN_HEAD, target, name, copies=name == "head")
    lookup = {"ngram": NGram, "ngram-mod": NGramMod}.get(name)
    return lookup() if lookup is not None else DraftModel(load(name, target=target), name)


def against_mlx_lm(
    model: LoadedModel, prompts: Sequence[Prompt], tokens: int, settings: Iterable[tuple[str, str, int]]
) -> Iterator[Comparison]:
    """Temperature 0 against mlx-lm's `generate_step`; settings are (drafter, rule, gamma)."""
    settings = list(settings)
    drafters = {name: make_drafter(name, model) for name, _, _ in settings}
    for prompt in prompts:
        ids = prompt_tokens(model, prompt)
        steps = generate_step(mx.array(ids), model.model, max_tokens=tokens)
        reference = [Emitted(int(token), "", b"", "plain") for token, _ in steps]
        for name, rule, gamma in settings:
            options = DecodingOptions(rule=rule, temperature=0, seed=0, gamma=gamma, max_tokens=tokens)
            # No end of sequence: the comparison goes on through it, as mlx-lm's step does.
            yield _compare(model, ids, drafters[name], options, reference, prompt)


def under_one_seed(
    model: LoadedModel, prompts: Sequence[Prompt], tokens: int, settings: Iterable[tuple[str, str, int]], **options: Any
) -> Iterator[Comparison]:
    """Each setting's text against the plain one with the same seed."""
    settings = list(settings)
    drafters = {name: make_drafter(name, model) for name, _, _ in settings}
    for seed, prompt in enumerate(prompts):
        ids = prompt_tokens(model, prompt)
        base = DecodingOptions(seed=seed, max_tokens=tokens, **options)
        reference = [token for current in decode(model, ids, None, base, eos_ids=()) for token in current.emitted]
        for name, rule, gamma in settings:
            yield _compare(model, ids, drafters[name], base.replace(rule=rule, gamma=gamma), reference, prompt)


def _compare(
    model: LoadedModel,
    ids: list[int],
    drafter: Drafter | None,
    options: DecodingOptions,
    reference: list[Emitted],
    prompt: Prompt,
) -> Comparison:
    compared, margin = 0, None
    rounds = decode(model, ids, drafter, options, eos_ids=())
    for token in (token for current in rounds for token in current.emitted):
        if token.id != reference[compared].id:
            gap = near_ties.nearest((token, reference[compared]))
            margin = float("inf") if gap is None else gap.size
            break
        compared += 1
    rounds.close()
    assert margin is not None or compared == len(reference)
    name = drafter.name if drafter is not None else "none"
    return Comparison(
        prompt.id, name, options.rule, int(options.gamma), compared, margin, near_ties.limit(logits_type(model.model))
    )
