"""Compares the built-in target's answers with mlx-lm's model: greedy ones, and ones drawn with a seed.

Tests use it on a few prompts, `python -m tests.benchmarks.exactness` on any number.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import mlx.core as mx
import numpy as np

from engine.decode.decoding import DecodingOptions, decode
from engine.drafters import BlockDrafter, DraftModel, FeatureHead, NGram, NGramMod
from engine.drafters.automatic import Automatic
from engine.drafters.base import Drafter
from engine.models.block_model import BUILTIN_BLOCK
from engine.models.head_model import BUILTIN_HEAD
from engine.models.loaded import LoadedModel
from engine.models.loading import load
from engine.noise import reference as noise_reference
from engine.rounds import near_ties
from engine.target.prompt_cache import logits_type
from engine.types import Round
from engine.values.drafter_kinds import drafter_kind

OWN_PROMPTS = Path(__file__).parent / "prompts.jsonl"
DRAFTERS = ("none", "ngram", "builtin-draft", "head")


@dataclass(frozen=True)
class Prompt:
    id: str
    category: str
    text: str


@dataclass(frozen=True)
class Comparison:
    """One answer against what mlx-lm's model says of its text.

    Attributes:
        rounds: the answer.
        different: tokens that are not the model's own choice after the text before them.
        gap: how far the best score is above that of such a token, at most.
        near: the gap below which last bits may decide (`engine.rounds.near_ties`), as `gap` in units of scores.
    """

    prompt: str
    drafter: str
    rule: str
    gamma: int
    rounds: list[Round]
    different: int
    gap: float
    near: float

    @property
    def explained(self) -> bool:
        """Equal throughout, or different only where last bits decide."""
        return self.gap < self.near


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
    if name == "auto":
        return Automatic([drafter for member in drafter_kind(name).members if (drafter := make_drafter(member, target))])
    if name in ("head", "head-alone"):
        return FeatureHead(BUILTIN_HEAD, target, name, copies=name == "head")
    if name in ("builtin-block", "block-alone"):
        return BlockDrafter(BUILTIN_BLOCK, target, name, copies=name == "builtin-block")
    lookup = {"ngram": NGram, "ngram-mod": NGramMod}.get(name)
    return lookup() if lookup is not None else DraftModel(load(name, target=target), name)


def compare(
    model: LoadedModel,
    prompts: Iterable[tuple[int, Prompt]],
    tokens: int,
    settings: Iterable[tuple[str, str, int]],
    temperature: float,
) -> Iterator[Comparison]:
    """Answers against the model alone: one pass of mlx-lm over the whole text, without a cache, and the noise as numpy makes it.

    Each token has to be the arg-max after the text before it: of the logits at temperature 0, and else, under match and gumbel,
    of logits / temperature + noise. So every text is the plain one of its seed, and at temperature 0 mlx-lm's own.

    Args:
        prompts: with their seeds.
        settings: (drafter, rule, gamma).
    """
    settings = list(settings)
    drafters = {name: make_drafter(name, model) for name, _, _ in settings}
    for seed, prompt in prompts:
        ids = prompt_tokens(model, prompt)
        known: dict[tuple[int, ...], np.ndarray] = {}  # most texts are the same, and only differ in how they came about
        for name, rule, gamma in settings:
            options = DecodingOptions(rule=rule, temperature=temperature, seed=seed, gamma=gamma, max_tokens=tokens)
            # No end of sequence: the comparison goes on through it.
            rounds = list(decode(model, ids, drafters[name], options, eos_ids=()))
            text = tuple(token.id for current in rounds for token in current.emitted)
            if text not in known:
                known[text] = gaps(model, ids, list(text), options)
            found = known[text]
            near = near_ties.limit(logits_type(model.model)) / (temperature or 1)
            yield Comparison(prompt.id, name, rule, gamma, rounds, int((found > 0).sum()), float(found.max()), near)


def gaps(model: LoadedModel, ids: list[int], text: list[int], options: DecodingOptions) -> np.ndarray:
    """(tokens,) how far the best score of each position is above that of the token that stands there."""
    rows = model.model(mx.array([ids + text[:-1]]))[0, len(ids) - 1 :]
    scores = np.array(rows.astype(mx.float32))
    if options.temperature:
        assert options.seed is not None and options.rule in ("match", "gumbel")
        scores *= np.float32(1 / options.temperature)
        for index, row in enumerate(scores):
            row += noise_reference.gumbel(options.seed, len(ids) + index, len(row))
    return scores.max(axis=-1) - scores[np.arange(len(text)), text]
