"""Ids that the tokenizer does not know are never emitted, however much the target's weights favour them.

Many heads are wider than their vocabulary. What the text has to be is said by a target that gives those ids no logit at all.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest

from engine.decode.decoding import Control, decode
from engine.drafters import BlockDrafter, DraftModel, FeatureHead, NGram, NGramMod
from engine.drafters.automatic import Automatic
from engine.drafters.base import Drafter
from engine.models.loaded import LoadedModel
from engine.target.distribution import Distribution, Shaper
from engine.types import INVARIANT_RULES, RULES, DecodingOptions, Round, Rule
from tests.crossings import crossed
from tests.engine.block_files import random_block
from tests.engine.drafters.test_feature_head import random_head
from tests.engine.small_models import VOCAB, emitted_ids, same_up_to_near_ties, ticking_clock, tiny_llama
from tests.lazy_graph import as_on_a_gpu

KNOWN = np.arange(VOCAB) < 64
KNOWN[[9, 33]] = False
UNKNOWN = np.flatnonzero(~KNOWN).tolist()
PROMPT = [1, 70, 5, 7, 1, 70, 9, 2, 1, 70, 5, 7, 1]
"""With unknown ids that a lookup proposes again."""
TOKENS = 10
KINDS = ("none", "ngram", "ngram-mod", "draft", "head", "block", "auto")
SETTINGS: tuple[dict[str, Any], ...] = (
    {"gamma": 3},
    {"gamma": "auto", "repetition_penalty": 1.4},
    {"gamma": 2, "top_k": 6, "repetition_penalty": 0.8},
    {"gamma": "auto", "top_p": 0.95, "min_p": 0.02},
    {"gamma": 4, "temperature": 0.0, "repetition_penalty": 1.4},
)


def favouring(seed: int, layers: int) -> nn.Module:
    """A model that is sure of little but the unknown ids."""
    model = tiny_llama(seed, layers)
    model.lm_head.weight = model.lm_head.weight * mx.array(np.where(KNOWN, 1.0, 2.0)[:, None].astype(np.float32))
    mx.eval(model.parameters())
    return model


TARGET, DRAFT = favouring(1, 3), favouring(2, 1)


class Lacking(nn.Module):
    """The target without the unknown columns of its head."""

    layers = TARGET.layers

    def __call__(self, tokens: mx.array, cache: Any = None) -> mx.array:
        return mx.where(mx.array(KNOWN), TARGET(tokens, cache=cache), -mx.inf)


class Letters:
    """A tokenizer that says "." for everything."""

    special: tuple[int, ...] = ()

    def token_bytes(self, token: int) -> bytes:
        return b"."


def loaded() -> LoadedModel:
    """The target, whose logits have more columns than its tokenizer has tokens."""
    words = tuple(b"." if known else None for known in KNOWN)
    letters: Any = Letters()
    return LoadedModel(TARGET, letters, frozenset(), words, 1000, "wide", "wide")


def made(kind: str) -> Drafter | None:
    match kind:
        case "ngram":
            return NGram(worth=0)
        case "ngram-mod":
            return NGramMod(n_match=1, n_min=1, n_max=4, size=1024)
        case "draft":
            return DraftModel(DRAFT)
        case "itself":
            return DraftModel(TARGET)
        case "head":
            return FeatureHead(random_head(), TARGET)
        case "block":
            return BlockDrafter(random_block(), TARGET)
        case "auto":
            return Automatic([each for member in ("ngram", "draft", "head") if (each := made(member)) is not None])
    return None


PLAIN = DecodingOptions(temperature=0.9, seed=4, phase_every=0, gamma=1)


@functools.cache
def wanted(options: DecodingOptions, given: int) -> list[int]:
    return emitted_ids(list(decode(Lacking(), PROMPT, None, options, given=given)))


def check(kind: str, rule: Rule, setting: Mapping[str, Any], given: int = 0, changes: Mapping[str, Any] | None = None) -> None:
    """Decodes an answer, whose third round is the first under the changes, if there are any.

    No unknown id is emitted, drawn or shown as an alternative, and one that was copied from the prompt had no chance.
    """
    options = PLAIN.replace(rule=rule, max_tokens=TOKENS + given, **{"phase_every": 5, **setting})
    control = Control()
    rounds: list[Round] = []
    for current in decode(loaded(), PROMPT, made(kind), options, control=control, given=given):
        rounds.append(current)
        if len(rounds) == 2 and changes:
            control.update(**changes)
    for current in rounds:
        for token in current.emitted:
            assert KNOWN[token.id], f"the unknown id {token.id} was emitted as {token.origin}"
            assert all(KNOWN[candidate.id] for candidate in token.target_top)
        for proposal in current.proposals:
            assert KNOWN[proposal.id] or (proposal.copied and not proposal.p), f"the unknown id {proposal.id} was drafted"
            shown = proposal.target_top if proposal.copied else (*proposal.draft_top, *proposal.target_top)
            assert all(KNOWN[candidate.id] for candidate in shown), "an unknown id is shown"
    if {current.rule for current in rounds} <= set(INVARIANT_RULES) or options.temperature == 0:
        same_up_to_near_ties(rounds, wanted(options.replace(rule="gumbel", gamma=1, phase_every=0), given))


@pytest.mark.parametrize(("rule", "kind", "setting", "given"), crossed(RULES, KINDS, range(len(SETTINGS)), (0, 4), together=1))
def test_an_unknown_id_is_never_emitted(kind: str, rule: Rule, setting: int, given: int) -> None:
    with ticking_clock():
        check(kind, rule, SETTINGS[setting], given)


@pytest.mark.parametrize("kind", KINDS)
def test_nor_is_it_after_a_change_in_the_middle(kind: str) -> None:
    place = KINDS.index(kind)
    with ticking_clock():
        for rule, to in ((RULES[place % 4], RULES[(place + 1) % 4]), ("gumbel", "match")):
            drafter = made(KINDS[(place + 3) % len(KINDS)])
            check(kind, rule, SETTINGS[place % len(SETTINGS)], changes={"rule": to, "drafter": drafter, "gamma": 2})


@pytest.mark.parametrize("rule", RULES)
def test_nor_is_it_where_a_device_judges(rule: Rule) -> None:
    with as_on_a_gpu(), ticking_clock():
        for kind in ("none", "ngram" if rule in INVARIANT_RULES else "draft"):
            check(kind, rule, SETTINGS[RULES.index(rule)])


# Twins: masks with gaps that must be noticed

Shape = Callable[..., Distribution]


def open_where(is_open: Callable[[Shaper, mx.array, bool], bool]) -> Callable[[Shape], Shape]:
    """A mask that is left out where this function of shaper, logits and `lazy` says so; only plain rounds are lazy, and only the
    target's other passes have several rows."""

    def plant(shape: Shape) -> Shape:
        def shaped(shaper: Shaper, logits: mx.array, *rest: Any, lazy: bool = False, before: Any = None) -> Distribution:
            used = Shaper(shaper.options) if is_open(shaper, logits, lazy) else shaper
            return shape(used, logits, *rest, lazy=lazy, before=before)

        return shaped

    return plant


masks_plain_rounds_alone = open_where(lambda shaper, logits, lazy: not lazy)
masks_drafted_rounds_alone = open_where(lambda shaper, logits, lazy: lazy)
masks_the_target_alone = open_where(lambda shaper, logits, lazy: not lazy and len(logits) == 1)
masks_without_penalties = open_where(lambda shaper, logits, lazy: shaper.penalises)


def masks_no_bonus(shape: Shape) -> Shape:
    """The row behind the last proposal is left as it is."""

    def shaped(
        shaper: Shaper, logits: mx.array, history: Any, proposals: Any = None, lazy: bool = False, before: Any = None
    ) -> Distribution:
        whole = shape(shaper, logits, history, proposals, lazy, before)
        if proposals is None:
            return whole
        open_ = shape(Shaper(shaper.options), logits, history, proposals, lazy, before)
        return Distribution(mx.concatenate([whole.logits[:-1], open_.logits[-1:]]), whole.inverse_temperature)

    return shaped


@pytest.mark.parametrize(
    ("plant", "kind", "rule", "setting"),
    [
        (masks_plain_rounds_alone, "ngram", "rejection", {"gamma": 3}),
        (masks_plain_rounds_alone, "draft", "match", {"gamma": "auto"}),
        (masks_drafted_rounds_alone, "none", "gumbel", {}),
        (masks_drafted_rounds_alone, "ngram", "block", {"gamma": 3}),
        (masks_no_bonus, "itself", "gumbel", {"gamma": 1, "temperature": 0.0}),
        (masks_the_target_alone, "head", "block", {"gamma": 2}),
        (masks_without_penalties, "draft", "gumbel", {"repetition_penalty": 1.2}),
    ],
)
def test_a_mask_with_a_gap_is_noticed(
    plant: Callable[[Shape], Shape], kind: str, setting: dict[str, Any], rule: Rule, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Shaper, "shape", plant(Shaper.shape))
    with ticking_clock(), pytest.raises(AssertionError, match="unknown id"):
        check(kind, rule, setting)
