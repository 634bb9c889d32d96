"""The block drafter in every packaging: its q against a second implementation, whatever way the text came about."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest

from engine.decode.decoding import DecodingOptions, decode
from engine.decode.target_session import chains_reason
from engine.drafters.block import BlockDrafter, build
from engine.models.block_model import load_block
from engine.models.loaded import LoadedModel
from engine.noise import reference as noise_reference
from engine.target.layer_taps import tap
from engine.target.prompt_cache import make_prompt_cache
from engine.types import INVARIANT_RULES, RULES, Rule
from engine.values.drafter_kinds import drafter_kind, type_stated
from engine.values.errors import DraftlightError
from tests.crossings import crossed
from tests.engine.block_files import DEEPSPEC, MASK, OWN, PACKAGED, Packaged, written
from tests.engine.block_reference import hidden_and_logits, markov, selected
from tests.engine.small_models import (
    PROMPT,
    VOCAB,
    emitted_ids,
    greedy_of_mlx_lm,
    same_up_to_near_ties,
    ticking_clock,
    tiny_llama,
)

OPTIONS = DecodingOptions(seed=3, temperature=0.9, gamma=3, max_tokens=10, rule="rejection", analyse=False)


class Remembering(BlockDrafter):
    """Keeps the text that each of its drafts followed, the draft, and the slots that were run for it."""

    def __init__(self, *arguments, **named) -> None:
        super().__init__(*arguments, **named)
        self.drafts = []

    def propose(self, plan, sampler):
        made = super().propose(plan, sampler)
        if made.tree.size:
            q = np.array(made.tree.q.probabilities)
            self.drafts.append((list(self._committed), np.array(made.tree.drafted).tolist(), q, self._slots))
        return made


def sharp_target(layers: int = 6):
    target = tiny_llama(1, layers=layers)
    target.lm_head.weight *= 2
    return target


def expected_q(target, packaged: Packaged, weights, text, drafted, slots, temperature) -> np.ndarray:
    """(drafted, vocabulary): the distributions that the description gives, from one pass of the target without a cache."""
    taps = tap(target, packaged.taps)
    target(mx.array([text]))
    features = np.array(taps.take().astype(mx.float32), np.float64)[:-1]
    tokens = [text[-1]] + [MASK] * (slots - 1)
    embedding = weights.get("embed_tokens.weight", np.array(target.model.embed_tokens(mx.arange(VOCAB)), np.float64))
    ids = weights["ids"].astype(int) if "ids" in weights else np.arange(VOCAB)
    rows = weights.get("lm_head.weight")
    if rows is None:
        rows = np.array(target.lm_head(mx.eye(embedding.shape[1])).T, np.float64)[ids]
    how = packaged.how()
    hidden, logits = hidden_and_logits(weights, how, features, embedding[tokens], rows, embedding[text[1:]])
    found, before, state = [], text[-1], None
    for index, token in enumerate(drafted):
        slot = packaged.first + index
        row = logits[slot]
        if "markov_head.markov_w1.weight" in weights and (index or not how.paired):
            bias, state = markov(weights, hidden[slot], before, state)
            row = row + bias
        if how.top_k:
            row = selected(weights, how, row, hidden[slot], before)
        whole = np.full(VOCAB, -np.inf)
        whole[ids] = row / temperature
        chances = np.exp(whole - whole.max())
        found.append(chances / chances.sum())
        before = token
    return np.stack(found)


@pytest.mark.parametrize("name", PACKAGED)
def test_every_packaging_drafts_as_its_description_says(name: str, tmp_path: Path) -> None:
    packaged = PACKAGED[name]
    weights = written(tmp_path, packaged)
    target = sharp_target()
    if packaged.quantised:
        nn.quantize(target, group_size=32, bits=4)
    drafter = Remembering(tmp_path, target, copies=False)
    rounds = list(decode(target, PROMPT, drafter, OPTIONS))
    assert len(drafter.drafts) > 3 and {current.accepted for current in rounds} != {3}
    for text, drafted, q, slots in drafter.drafts:
        assert slots == (packaged.size if packaged.whole else len(drafted) + packaged.first)
        expected = expected_q(target, packaged, weights, text, drafted, slots, OPTIONS.temperature)
        np.testing.assert_allclose(q, expected, rtol=1e-3, atol=1e-6)
    assert max(q.max() for _, _, q, _ in drafter.drafts) > 3 / VOCAB, "a flat q would tell nothing"


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("dflash, nested", {"causal": (True, True)}),
        ("dflash, sliding", {"windows": (5, None)}),
        ("dflash, sliding", {"from_anchor": True}),
        ("dflash, yarn", {"yarn": None}),
        ("dflash, gelu", {"activation": "silu"}),
        ("deepspec, lfm2", {"interleaved": False}),
        ("dflash 2", {"convolution": None}),
        ("draftlight, paired", {"causal": (False, False)}),
    ],
)
def test_another_reading_of_a_file_would_be_seen(name: str, fault: dict, tmp_path: Path) -> None:
    """The twin of the test above."""
    packaged = PACKAGED[name]
    weights, target = written(tmp_path, packaged), sharp_target()
    drafter = Remembering(tmp_path, target, copies=False)
    list(decode(target, PROMPT, drafter, OPTIONS))
    other = replace(packaged, reading={**packaged.reading, **fault})
    text, drafted, q, slots = max(drafter.drafts, key=lambda draft: (len(draft[1]), len(draft[0])))
    assert abs(q - expected_q(target, other, weights, text, drafted, slots, OPTIONS.temperature)).max() > 1e-3


@pytest.mark.parametrize(("rule", "name"), crossed(RULES, ["dflash, sliding", "deepspec"], together=1))
def test_the_text_is_exact_under_every_rule(name: str, rule: Rule, tmp_path: Path) -> None:
    """At temperature 0 mlx-lm's own; else, where the rule promises it, the plain one of the seed, whatever the length."""
    written(tmp_path, PACKAGED[name])
    target = sharp_target()
    block = load_block(tmp_path)
    greedy = replace(OPTIONS, temperature=0, rule=rule, analyse=True)
    rounds = list(decode(target, PROMPT, BlockDrafter(block, target), greedy))
    same_up_to_near_ties(rounds, greedy_of_mlx_lm(target, PROMPT, greedy.max_tokens))
    assert sum(len(current.proposals) for current in rounds) > 10
    if rule in INVARIANT_RULES:
        plain = emitted_ids(decode(target, PROMPT, None, replace(OPTIONS, rule=rule)))
        for gamma in (7, "auto"):
            with ticking_clock():
                options = replace(OPTIONS, rule=rule, gamma=gamma)
                assert emitted_ids(decode(target, PROMPT, BlockDrafter(block, target), options)) == plain


def test_under_gumbel_proposals_are_drawn_with_the_noise_of_their_positions(tmp_path: Path) -> None:
    written(tmp_path, PACKAGED["deepspec"])
    target = sharp_target()
    drafter = Remembering(tmp_path, target, copies=False)
    list(decode(target, PROMPT, drafter, replace(OPTIONS, rule="gumbel")))
    for text, drafted, q, _ in drafter.drafts:
        for index, token in enumerate(drafted):
            with np.errstate(divide="ignore"):
                scores = np.log(q[index]) + noise_reference.gumbel(3, len(text) + index, VOCAB)
            assert token == int(scores.argmax())


def test_a_free_block_has_as_many_slots_as_rounds_made_use_of(tmp_path: Path) -> None:
    written(tmp_path, PACKAGED["draftlight"])
    target = sharp_target()
    drafter = Remembering(tmp_path, target, copies=False)
    with ticking_clock():
        list(decode(target, PROMPT, drafter, replace(OPTIONS, gamma="auto", max_tokens=30)))
    slots = [slots for _, _, _, slots in drafter.drafts]
    assert slots[0] == 2, "nothing is known of it"
    assert slots[1] == 5 and min(slots[1:]) < 5, "hardly anything was accepted"
    assert any(len(drafted) < slots for _, drafted, _, slots in drafter.drafts), "the policy ended drafts as well"


def test_a_doubtful_slot_is_not_drawn_where_the_length_is_free(tmp_path: Path) -> None:
    written(tmp_path, PACKAGED["deepspec"])
    target = sharp_target()
    block = load_block(tmp_path)
    drafter = Remembering(block, target, copies=False)
    free = replace(OPTIONS, gamma="auto")
    for bias, drafts in ((100.0, True), (-100.0, False)):
        block.confidence_head.proj.bias = mx.array([bias])
        drafter.drafts.clear()
        list(decode(target, PROMPT, drafter, free))
        assert bool(drafter.drafts) == drafts
    list(decode(target, PROMPT, drafter, OPTIONS))
    assert drafter.drafts, "a gamma that was asked for is kept to"


def test_what_was_right_so_far_is_copied_and_the_block_goes_on(tmp_path: Path) -> None:
    written(tmp_path, PACKAGED["draftlight"])
    text = [3, 1, 4, 1, 5, 9, 2, 6] * 6
    options = replace(OPTIONS, rule="gumbel", gamma=5, max_tokens=40)
    rounds = decode(target := sharp_target(), text, BlockDrafter(tmp_path, target), options)
    assert {proposal.copied for current in rounds for proposal in current.proposals} == {True, False}


def test_a_text_that_is_known_already_is_drafted_as_one_that_is_read_anew(tmp_path: Path) -> None:
    written(tmp_path, PACKAGED["dflash, sliding"])
    target = sharp_target()
    used, cache = Remembering(tmp_path, target, copies=False), make_prompt_cache(target)
    first = emitted_ids(decode(target, PROMPT, used, OPTIONS, cache=cache))
    used.drafts.clear()
    fresh = Remembering(used.model, target, copies=False)
    longer = PROMPT + first + [4, 8, 15]
    list(decode(target, longer, used, OPTIONS, cache=cache))
    list(decode(target, longer, fresh, OPTIONS))
    for one, other in zip(used.drafts, fresh.drafts, strict=True):
        assert one[:2] == other[:2]
        np.testing.assert_allclose(one[2], other[2], atol=1e-4)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda config: config["dflash_config"].pop("mask_token_id"), "has no mask_token_id"),
        (lambda config: config["dflash_config"].update(block_size="big"), "block_size is 'big'"),
        (lambda config: config.update(speculators_model_type="eagle3"), "speculators type eagle3"),
        (lambda config: config["dflash_config"].update(projector_type="other"), "projector type other"),
        (lambda config: config.update(layer_types=["full_attention"]), "must name 2 layers"),
        (lambda config: config.update(num_hidden_layers=1), "unknown tensors: layers.1.*and 7 more"),
        (lambda config: config.update(num_hidden_layers=3), "lacks layers.2.*and 7 more"),
        (lambda config: config.update(attention_bias=True), "lacks layers.0.self_attn.k_proj.bias"),
        (lambda config: config.update(intermediate_size=48), "down_proj.weight is .128, 64. instead of .128, 48."),
        (lambda config: config.update(num_hidden_layers=10**9), "num_hidden_layers is 1000000000"),
        (lambda config: config.update(head_dim="wide"), "head_dim is 'wide'"),
        (lambda config: config.update(architectures=7), "cannot be understood"),
        (lambda config: config.update(dflash_config=3), "cannot be understood"),
        (lambda config: config.update(target_sha256="0" * 64), "was not trained for a model"),
        (lambda config: config["dflash_config"].update(mask_token_id=500), "fills its block with token 500"),
        (lambda config: config["dflash_config"].update(target_layer_ids=[0, 9]), "reads layers 0, 9 of its target"),
        (lambda config: config.update(hidden_act="laplace"), "states hidden_act 'laplace'"),
        (lambda config: config.update(partial_rotary_factor=0.5), "states partial_rotary_factor 0.5"),
        (lambda config: config.update(rope_parameters={"partial_rotary_factor": 0.5}), "states partial_rotary_factor 0.5"),
        (lambda config: config.update(attn_logit_softcapping=50.0), "states attn_logit_softcapping 50.0"),
        (lambda config: config.update(rope_parameters={"sliding_attention": {"rope_theta": 1e6}}), "states rope_parameters {"),
        (
            lambda config: config.update(rope_scaling={"rope_type": "yarn", "factor": 4.0, "attention_factor": 1.0}),
            "states attention_factor 1.0",
        ),
        (
            lambda config: config.update(enable_confidence_head=True),
            r"it lacks confidence_head\.proj\.bias, confidence_head\.proj\.weight",
        ),
        (
            lambda config: config["dflash_config"].update(markov_rank=8, markov_head_type="gated"),
            r"it lacks markov_head\.gate_proj\.bias, markov_head\.gate_proj\.weight, markov_head\.markov_w1\.weight",
        ),
        (
            lambda config: config.update(draft_vocab_size=40),
            "it drafts 40 of 97 tokens, and d2t, which says which ones, is missing",
        ),
        (lambda config: config.update(vocab_size=50), "target with 50 tokens, and a model has 97"),
    ],
)
def test_what_is_not_understood_is_refused_by_name(change, message: str, tmp_path: Path) -> None:
    written(tmp_path, PACKAGED["dflash, nested"])
    config = json.loads((tmp_path / "config.json").read_text())
    change(config)
    (tmp_path / "config.json").write_text(json.dumps(config))
    vocabulary = (b"a",) * VOCAB
    loaded = LoadedModel(tiny_llama(1, 3), None, frozenset(), vocabulary, 512, "a model", "", weight_files=())  # type: ignore[arg-type]
    with pytest.raises(DraftlightError, match=message):
        build(str(tmp_path), loaded, lambda: None)


@pytest.mark.parametrize(
    ("name", "vocab", "message"),
    [
        ("specforge, dspark", 91, "for a target with 97 tokens, and this one has 91"),
        ("draftlight", 91, "tokens, and this one has 91"),
        ("deepspec, wide confidence alone", VOCAB, "confidence head reads something else"),
    ],
)
def test_parts_that_do_not_go_together_are_refused_before_an_answer(name: str, vocab: int, message: str, tmp_path: Path) -> None:
    alone = Packaged(DEEPSPEC, (*OWN, "wide confidence"), first=0, whole=True)
    written(tmp_path, PACKAGED.get(name, alone))
    with pytest.raises(DraftlightError, match=message):
        BlockDrafter(tmp_path, tiny_llama(1, layers=3, vocab=vocab))


def test_a_confidence_head_that_is_switched_off_ends_no_draft(tmp_path: Path) -> None:
    packaged = PACKAGED["deepspec"]
    written(tmp_path / "on", packaged)
    written(tmp_path / "off", replace(packaged, config={**packaged.config, "enable_confidence_head": False}))
    hidden, before = mx.full((128,), -100.0), mx.array([1])
    found = {}
    for name in ("on", "off"):
        model = load_block(tmp_path / name)
        model.confidence_head.proj.weight = mx.ones_like(model.confidence_head.proj.weight)
        found[name] = model.is_confident(hidden, before)
    assert found == {"on": False, "off": True}


def test_a_folder_is_known_as_a_block_drafter_by_its_config() -> None:
    for packaged in PACKAGED.values():
        assert drafter_kind("folder", type_stated(packaged.config)).build == "engine.drafters.block:build"
    assert type_stated({"model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"]}) == "qwen3"


@pytest.mark.parametrize(("rule", "temperature"), [("gumbel", 1.0), ("match", 1.0), ("gumbel", 0.0)])
def test_independent_slots_give_trees_and_keep_the_text(rule: Rule, temperature: float, tmp_path: Path) -> None:
    """All nodes of a depth have the distribution of one slot."""
    written(tmp_path, PACKAGED["dflash, sliding"])
    target, wanted = sharp_target(), replace(OPTIONS, rule=rule, temperature=temperature, analyse=True)
    plain = emitted_ids(decode(target, PROMPT, None, wanted))
    for tree in ({"gamma": 4, "budget": 9, "width": 3}, {"gamma": "auto", "budget": "auto"}):
        with ticking_clock():
            rounds = list(decode(target, PROMPT, BlockDrafter(tmp_path, target), replace(wanted, **tree)))
        assert emitted_ids(rounds) == plain and any(current.is_tree for current in rounds)
    for current in rounds:
        tops = {(depth, each.draft_top) for depth, each in zip(current.depths, current.proposals, strict=True) if each.draft_top}
        assert len(tops) == len({depth for depth, _ in tops})


@pytest.mark.parametrize("name", ["dflash 2", "deepspec"])
def test_slots_that_depend_on_each_other_give_chains(name: str, tmp_path: Path) -> None:
    written(tmp_path, PACKAGED[name])
    drafter, wanted = BlockDrafter(tmp_path, target := sharp_target()), replace(OPTIONS, rule="gumbel", gamma=4, budget=9)
    assert "each of its slots depends on the token drawn before it" in chains_reason(wanted, drafter, target)
    assert not any(current.is_tree for current in decode(target, PROMPT, drafter, wanted))
