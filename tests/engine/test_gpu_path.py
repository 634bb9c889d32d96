"""The way of answers on a GPU, run on MLX's CPU device, gives what the way with numpy gives: texts, verdicts and figures."""

from __future__ import annotations

from collections.abc import Callable
from itertools import cycle, product
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import mlx.nn as nn
import pytest

from engine.decode.decoding import decode
from engine.drafters.base import Drafter
from engine.drafters.block import BlockDrafter
from engine.drafters.draft_model import DraftModel
from engine.drafters.feature_head import FeatureHead
from engine.drafters.ngram import NGram
from engine.machine import host
from engine.models.block_model import BUILTIN_BLOCK, load_block
from engine.models.head_model import BUILTIN_HEAD, load_head
from engine.models.loading import load
from engine.noise import reference
from engine.rounds.codec import round_to_json
from engine.types import RULES, DecodingOptions, Round
from tests.engine.block_files import random_block
from tests.engine.drafters.test_feature_head import CONFIG, random_head
from tests.engine.small_models import PROMPT, tiny_llama, tiny_sliding_window
from tests.lazy_graph import as_on_a_gpu
from tests.round_differences import differences

if TYPE_CHECKING:
    from engine.models.loaded import LoadedModel

pytestmark = pytest.mark.skipif(not host.computes_on_host(), reason="a GPU leaves nothing to numpy")

LLAMA, DRAFT = tiny_llama(0, layers=4), tiny_llama(1)
TEXT = PROMPT * 3
TOKENS = 5


def sliding_window(seed: int) -> nn.Module:
    """Gemma 3 with a window of 16, which the text outgrows; its logits have opinions."""
    model = tiny_sliding_window(seed)
    model.model.embed_tokens.weight = model.model.embed_tokens.weight * 4
    return model


WINDOW, WINDOW_DRAFT = sliding_window(0), sliding_window(1)
TARGETS: dict[str, tuple[nn.Module, nn.Module]] = {"llama": (LLAMA, DRAFT), "sliding window": (WINDOW, WINDOW_DRAFT)}
DRAFTERS: dict[str, Callable[[nn.Module], Drafter | None]] = {
    "none": lambda draft: None,
    "ngram": lambda draft: NGram(),
    "draft model": lambda draft: DraftModel(draft),
    "head": lambda draft: FeatureHead(random_head(CONFIG), LLAMA, copies=False),
    "block": lambda draft: BlockDrafter(random_block(), LLAMA, copies=False),
    "block behind a head": lambda draft: BlockDrafter(random_block(paired=True), LLAMA, copies=False),
}
FILTERS: dict[str, dict[str, Any]] = {
    "unfiltered": {},
    "filtered": {"top_k": 20, "top_p": 0.9, "min_p": 0.01, "repetition_penalty": 1.1},
    "cold": {"temperature": 0.05},
}
FIGURES = 1e-6
"""Figures may differ by this much."""


def both_ways(
    target: Any, make: Callable[[], Drafter | None], text: list[int], **options: Any
) -> tuple[list[Round], list[Round]]:
    """The rounds of one answer, with numpy and as on a GPU, where numpy makes no noise."""
    asked = DecodingOptions(**{"seed": 11, "temperature": 0.8, "gamma": 3, "max_tokens": TOKENS, "phase_every": 0, **options})
    with_numpy = list(decode(target, text, make(), asked))
    with as_on_a_gpu(), patch.object(reference, "_hash", side_effect=AssertionError("numpy made noise")):
        return with_numpy, list(decode(target, text, make(), asked))


def differing(with_numpy: list[Round], as_on_gpu: list[Round], figures: float = FIGURES) -> list[str]:
    """Where the two answers differ."""
    rounds = ([round_to_json(current) for current in each] for each in (with_numpy, as_on_gpu))
    return list(differences(*rounds, lambda path: figures))


def options_of(rule: str, filters: str, kv_bits: int | None) -> dict[str, Any]:
    """Options of an answer; the rule may be "greedy"."""
    chosen = {"temperature": 0.0} if rule == "greedy" else {"rule": rule}
    return {**FILTERS[filters], **chosen, "kv_bits": kv_bits}


EVERY_RULE = (*RULES, "greedy")
READS_LLAMA = ("head", "block", "block behind a head")


@pytest.mark.parametrize("name", DRAFTERS)
def test_answers_are_the_same_both_ways(name: str) -> None:
    """Thirty answers: each drafter under each rule, with filters, K/V bits and targets in turns."""
    targets = cycle(["llama"] if name in READS_LLAMA else ["llama", "sliding window"])
    for rule, target, filters, kv_bits in zip(EVERY_RULE, targets, cycle(FILTERS), cycle([None, 8, None, 4])):
        model, draft = TARGETS[target]
        found = both_ways(model, lambda draft=draft: DRAFTERS[name](draft), TEXT, **options_of(rule, filters, kv_bits))
        assert sum(len(current.emitted) for current in found[0]) == TOKENS
        assert not differing(*found), (rule, target, filters, kv_bits)


@pytest.mark.parametrize("name", ["head", "block"])
def test_texts_are_the_same_where_a_drafter_copies_less(name: str) -> None:
    """On a GPU nobody reads what a chain of a fixed gamma drew, so behind that nothing is copied, and proposals differ."""
    make = {"head": lambda: FeatureHead(random_head(CONFIG), LLAMA), "block": lambda: BlockDrafter(random_block(), LLAMA)}[name]
    for rule in ("match", "gumbel", "greedy"):
        found = both_ways(LLAMA, make, TEXT, **options_of(rule, "unfiltered", None))
        texts = [[token.id for current in rounds for token in current.emitted] for rounds in found]
        assert texts[0] == texts[1]


def test_a_difference_is_noticed() -> None:
    with_numpy, as_on_gpu = both_ways(LLAMA, lambda: DraftModel(DRAFT), TEXT)
    assert not differing(with_numpy, as_on_gpu)
    other, _ = both_ways(LLAMA, lambda: DraftModel(DRAFT), TEXT, temperature=0.80001)
    assert differing(with_numpy, other)


@pytest.mark.full
@pytest.mark.parametrize("name", DRAFTERS)
def test_all_combinations_are_the_same_both_ways(name: str) -> None:
    """Of 405 answers, those of a drafter."""
    targets = ["llama"] if name in READS_LLAMA else TARGETS
    for target, rule, filters, kv_bits in product(targets, EVERY_RULE, FILTERS, (None, 8, 4)):
        model, draft = TARGETS[target]
        found = both_ways(model, lambda draft=draft: DRAFTERS[name](draft), TEXT, **options_of(rule, filters, kv_bits))
        assert not differing(*found), (rule, target, filters, kv_bits)


@pytest.mark.full
@pytest.mark.parametrize("name", ["none", "head", "builtin-draft", "builtin-block"])
def test_the_built_in_models_answer_alike_both_ways(name: str, builtin: LoadedModel) -> None:
    """Forty answers. Summed up over 49,152 tokens one after the other, figures have four digits (`tests.lazy_graph`)."""
    models: dict[str, Callable[[], Any]] = {
        "none": lambda: None,
        "head": lambda: FeatureHead(load_head(BUILTIN_HEAD), builtin, copies=False),
        "builtin-draft": lambda: DraftModel(load("builtin-draft", target=builtin)),
        "builtin-block": lambda: BlockDrafter(load_block(BUILTIN_BLOCK), builtin, copies=False),
    }
    text = builtin.tokenizer.apply_chat_template([{"role": "user", "content": "Name three primary colours."}])
    for rule, filters in product(EVERY_RULE, ("unfiltered", "filtered")):
        found = both_ways(builtin, models[name], list(text), **options_of(rule, filters, None))
        assert not differing(*found, figures=2e-4), (rule, filters)
