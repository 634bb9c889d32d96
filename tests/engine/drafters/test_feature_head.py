"""The head as drafter: its rows follow the target's features, whatever way the text came about."""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from engine.decode.decoding import Control, DecodingOptions, decode
from engine.drafters import FeatureHead, NGram, feature_drafter
from engine.drafters.automatic import Automatic
from engine.drafters.lookup import PRIOR_ODDS
from engine.models.head_model import HeadConfig, HeadModel, load_head, save_head
from engine.models.loaded import LoadedModel
from engine.target.layer_taps import tap
from engine.target.prompt_cache import make_prompt_cache, trim_to
from engine.values.drafter_kinds import HEAD_FOLDER
from engine.values.errors import DraftlightError
from tests.crossings import crossed
from tests.engine.drafting import drafted_after, sampler_of, start
from tests.engine.families import tiny
from tests.engine.small_models import (
    PROMPT,
    VOCAB,
    emitted_ids,
    greedy_of_mlx_lm,
    same_up_to_near_ties,
    ticking_clock,
    tiny_llama,
)
from tests.lazy_graph import as_on_a_gpu

TAPS = (0, 2)
COLUMNS = 60
OPTIONS = DecodingOptions(seed=3, temperature=0.9, gamma=4, max_tokens=16)
CONFIG = HeadConfig(
    target_sha256="",
    taps=TAPS,
    hidden_size=128,
    intermediate_size=96,
    num_attention_heads=2,
    num_key_value_heads=1,
    rope_theta=1e4,
    rms_norm_eps=1e-5,
    vocab_size=VOCAB,
    max_position_embeddings=512,
)


def random_head(config: HeadConfig = CONFIG, seed: int = 5) -> HeadModel:
    mx.random.seed(seed)
    head = HeadModel(config, COLUMNS)
    head.head.weight = head.head.weight * 30  # decided, so that acceptance and rejection both happen
    head.metadata.target_ids = mx.array(np.random.default_rng(1).permutation(VOCAB)[:COLUMNS].astype(np.int32))
    mx.eval(head.parameters())
    return head


@pytest.fixture
def target():
    return tiny_llama(1, layers=4)


def proposed_ids(rounds) -> list[list[int]]:
    return [[proposal.id for proposal in current.proposals] for current in rounds]


def reference_logits(target, head: HeadModel, text: list[int]) -> np.ndarray:
    """(len(text) - 1, columns): what the head says after each token of the text, by one pass over it, without any cache."""
    taps = tap(target, TAPS)
    target(mx.array([text]))
    fused = head.fuse(taps.take()[:-1])
    embedding = target.model.embed_tokens(mx.array(text[1:]))
    queries, keys, values = head.project(fused[None], embedding[None], 0)
    attended = mx.fast.scaled_dot_product_attention(queries, keys, values, scale=head.config.head_size**-0.5, mask="causal")
    return np.array(head.logits(head.layer_output(fused[None], attended)[0]))


@pytest.mark.parametrize("rule", ["match", "rejection", "gumbel", "block"])
def test_a_head_drafts_from_the_features_of_the_committed_text_in_every_round(target, rule):
    drafts_from_features(target, random_head(), rule)


@pytest.mark.parametrize("name", ["cohere2", "lfm2"])
def test_a_head_drafts_from_the_features_of_models_whose_caches_forget(name):
    """The layers it reads are run again to take tokens back; it never sees what they put out then."""
    for tapped_first in (True, False):
        target = tiny(name)
        if tapped_first:
            tap(target, TAPS)
        make_prompt_cache(target)
        drafts_from_features(target, random_head(replace(CONFIG, hidden_size=64)), "match")


def reference_q(target, head: HeadModel, text: list[int], temperature: float = OPTIONS.temperature) -> dict[int, float]:
    """The head's probability of each of its tokens after a text, in float64."""
    row = reference_logits(target, head, text)[-1].astype(np.float64) / temperature
    weights = np.exp(row - row.max())
    return dict(zip(head.target_ids.tolist(), weights / weights.sum(), strict=True))


def drafts_from_features(target, head: HeadModel, rule) -> None:
    text, judged = list(PROMPT), 0
    for current in decode(target, PROMPT, FeatureHead(head, target, copies=False), replace(OPTIONS, rule=rule)):
        if current.proposals:
            first = current.proposals[0]
            assert first.q == pytest.approx(reference_q(target, head, text)[first.id], abs=2e-5)
            judged += 1
        text += [token.id for token in current.emitted]
    assert judged > 5


@pytest.mark.parametrize(("gamma", "rule"), crossed([1, 3, 7, "auto"], ["match", "gumbel"], together=1))
def test_the_text_of_a_seed_does_not_depend_on_the_head(target, rule, gamma):
    plain = emitted_ids(decode(target, PROMPT, None, replace(OPTIONS, rule=rule)))
    with ticking_clock():
        drafted = emitted_ids(
            decode(target, PROMPT, FeatureHead(random_head(), target), replace(OPTIONS, rule=rule, gamma=gamma))
        )
    assert drafted == plain


@pytest.mark.parametrize("temperature", [0.9, 1e-6, 1e-30])
def test_where_the_text_repeats_itself_a_head_shares_its_chances_with_the_copy(target, temperature):
    head = random_head()
    text = list(PROMPT)  # ends with 5, 7, and 9 followed these before
    options = replace(OPTIONS, rule="rejection", temperature=temperature)
    first = next(iter(decode(target, text, FeatureHead(head, target), options))).proposals[0]
    own = reference_q(target, head, text, temperature)
    share = PRIOR_ODDS[1]  # of a match of two tokens
    expected = {token: (1 - share) * chance for token, chance in own.items()}
    expected[9] = expected.get(9, 0.0) + share
    assert sum(expected.values()) == pytest.approx(1)
    assert first.q == pytest.approx(expected[first.id], abs=2e-5)


def test_marks_between_turns_are_never_copied(target):
    head = random_head()
    tokenizer = SimpleNamespace(special={9: "<mark>", 4: "<end>"})
    loaded = LoadedModel(target, tokenizer, frozenset({4}), (b"a",) * VOCAB, 512, "a model", "", weight_files=())  # type: ignore[arg-type]
    copying, alone = FeatureHead(head, loaded), FeatureHead(head, target, copies=False)
    assert first_q(copying, loaded, PROMPT)[9] == first_q(alone, target, PROMPT)[9], "9 followed 5, 7 before"
    text = [4, 8, 4, 8, 4, 8]
    assert first_q(copying, loaded, text)[4] > first_q(alone, target, text)[4] + 0.1, "the end of an answer may be copied"


def first_q(drafter: FeatureHead, target: Any, text: list[int]) -> np.ndarray:
    """The distribution of the first proposal after a text."""
    start(drafter, text, target=target, read=len(text) - 1)
    return np.array(drafted_after(drafter, text, 1, rule="rejection", temperature=0.8).tree.q.probabilities)[0]


def test_what_has_been_right_so_far_is_copied_outright(target):
    text = [3, 1, 4, 1, 5, 9, 2, 6] * 6
    pen_limit = replace(OPTIONS, temperature=0, gamma="auto")
    first = next(iter(decode(target, text, FeatureHead(random_head(), target), pen_limit)))
    copied = [proposal.id for proposal in first.proposals]
    assert copied[:8] == [3, 1, 4, 1, 5, 9, 2, 6], "a match of forty tokens"
    assert len(copied) > 8


def test_a_draft_that_goes_from_copying_to_drawing_and_back_knows_which_was_which():
    sampler = sampler_of(PROMPT, temperature=0.9)
    sampler.place(3, 0.9)
    sampler.sample(mx.zeros(VOCAB))
    sampler.place(4, 0.9)
    tree = sampler.draft().tree
    assert [tree.is_copied(place) for place in range(3)] == [True, False, True]


@pytest.mark.parametrize("has_column", [True, False])
def test_a_copy_is_mixed_in_alike_by_numpy_and_in_the_lazy_graph(target, has_column):
    head = random_head()
    copied = next(token for token in range(20, VOCAB) if (token in head.target_ids.tolist()) == has_column)
    text = [5, 7, copied, 11, 5, 7]
    by_numpy, alone = (first_q(FeatureHead(head, target, copies=copies), target, text) for copies in (True, False))
    with as_on_a_gpu():
        np.testing.assert_allclose(first_q(FeatureHead(head, target), target, text), by_numpy, rtol=1e-4, atol=1e-7)
    share = PRIOR_ODDS[1]  # of a match of two tokens
    assert by_numpy[copied] == pytest.approx(share + (1 - share) * alone[copied], rel=1e-4)
    others = np.arange(VOCAB) != copied
    np.testing.assert_allclose(by_numpy[others], (1 - share) * alone[others], rtol=1e-3, atol=1e-7)


@pytest.mark.parametrize(("rule", "analyse"), [("gumbel", True), ("gumbel", False), ("block", True)])
def test_a_round_says_which_of_its_proposals_were_copied_and_which_drawn(target, rule, analyse):
    text = [3, 1, 4, 1, 5, 9, 2, 6] * 6
    options = replace(OPTIONS, rule=rule, gamma=5, max_tokens=30, analyse=analyse)

    def proposed(drafter):
        return [proposal for current in decode(target, text, drafter, options) for proposal in current.proposals]

    both = proposed(FeatureHead(random_head(), target))
    assert {proposal.copied for proposal in both} == {True, False}
    assert not analyse or all(proposal.q == 1 for proposal in both if proposal.copied)
    assert not any(proposal.copied for proposal in proposed(FeatureHead(random_head(), target, copies=False)))
    assert all(proposal.copied for proposal in proposed(NGram()))


@pytest.mark.parametrize("rule", ["match", "rejection", "gumbel", "block"])
def test_temperature_0_gives_the_tokens_of_mlx_lm(target, rule):
    options = replace(OPTIONS, temperature=0, rule=rule)
    rounds = list(decode(target, PROMPT, FeatureHead(random_head()), options))
    same_up_to_near_ties(rounds, greedy_of_mlx_lm(target, PROMPT, options.max_tokens))
    assert sum(len(current.proposals) for current in rounds) > 20


def test_a_head_that_knows_a_text_already_drafts_as_one_that_reads_it_anew(target):
    head = random_head()
    options = replace(OPTIONS, rule="rejection")
    used, cache = FeatureHead(head, target), make_prompt_cache(target)
    first = emitted_ids(decode(target, PROMPT, used, options, cache=cache))
    longer = PROMPT + first + [4, 8, 15]
    again = list(decode(target, longer, used, options, cache=cache))
    fresh = list(decode(target, longer, FeatureHead(head, target), options))
    assert proposed_ids(again) == proposed_ids(fresh)
    for ours, theirs in zip(again, fresh, strict=True):
        assert [p.q for p in ours.proposals] == pytest.approx([p.q for p in theirs.proposals], abs=1e-4)


@pytest.mark.parametrize("kept", [3, 12, pytest.param(20, marks=pytest.mark.full)])
def test_after_an_edit_a_head_goes_on_where_the_cache_of_the_target_does(target, monkeypatch, kept):
    head, options = random_head(), replace(OPTIONS, rule="rejection")
    used, cache = FeatureHead(head, target), make_prompt_cache(target)
    text = [*PROMPT, *emitted_ids(decode(target, PROMPT, used, options, cache=cache))]
    edited = [*text[:kept], (text[kept] + 1) % VOCAB, 8, 1]
    trim_to(cache, kept, "target")
    fresh = list(decode(target, edited, FeatureHead(head, target), options))
    monkeypatch.setattr(feature_drafter, "read_prompt", lambda *_: pytest.fail("the target read the text once more"))
    again = list(decode(target, edited, used, options, cache=cache))
    assert proposed_ids(again) == proposed_ids(fresh)
    for ours, theirs in zip(again, fresh, strict=True):
        assert [p.q for p in ours.proposals] == pytest.approx([p.q for p in theirs.proposals], abs=1e-4)


@pytest.mark.parametrize("alone", [True, False])
def test_a_head_that_has_not_heard_what_was_kept_has_it_read_before_the_first_round(target, monkeypatch, alone):
    cache, control = make_prompt_cache(target), Control()
    text = [*PROMPT, *emitted_ids(decode(target, PROMPT, None, OPTIONS, cache=cache)), 8, 1, 2, 7]

    def drafter() -> Any:
        """That has heard nothing."""
        head = FeatureHead(random_head(), target)
        return head if alone else Automatic([NGram(), head])

    rounds = list(decode(target, text, drafter(), OPTIONS, cache=cache))
    assert rounds[0].proposals
    original = feature_drafter.read_prompt
    monkeypatch.setattr(feature_drafter, "read_prompt", lambda *given: control.stop() or original(*given))  # type: ignore[func-returns-value]
    trim_to(cache, len(text) - 5, "target")
    assert not list(decode(target, text, drafter(), OPTIONS, cache=cache, control=control)), "a stop ends it"


@pytest.mark.parametrize(
    "prompt", [PROMPT[:3], pytest.param([9, *PROMPT], marks=pytest.mark.full), PROMPT, [*PROMPT[:-1], 50, 3]]
)
def test_a_head_forgets_what_another_text_does_not_share(target, prompt):
    head = random_head()
    used = FeatureHead(head, target)
    list(decode(target, PROMPT, used, OPTIONS))
    ours, theirs = list(decode(target, prompt, used, OPTIONS)), list(decode(target, prompt, FeatureHead(head, target), OPTIONS))
    assert proposed_ids(ours) == proposed_ids(theirs)
    assert sum(len(r.proposals) for r in ours) > 20


def test_a_head_switched_to_in_mid_answer_catches_up(target):
    head = random_head()
    control = Control()
    rounds = []
    for current in decode(target, PROMPT, None, OPTIONS, control=control):
        rounds.append(current)
        if current.index == 3:
            control.update(drafter=FeatureHead(head, target, copies=False))
    assert not any(current.proposals for current in rounds[:4])
    text = PROMPT + emitted_ids(rounds[:4])
    first = rounds[4].proposals[0]
    assert first.q == pytest.approx(reference_q(target, head, text)[first.id], abs=2e-5)
    assert emitted_ids(rounds) == emitted_ids(decode(target, PROMPT, None, OPTIONS))


def test_a_cancelled_catching_up_leaves_a_head_that_can_begin_again(target):
    drafter = FeatureHead(random_head(), target)
    read = len(PROMPT) - 1
    assert not start(drafter, PROMPT, lambda done, total: False, target, read)
    assert start(drafter, PROMPT, target=target, read=read)
    assert emitted_ids(decode(target, PROMPT, drafter, OPTIONS)) == emitted_ids(decode(target, PROMPT, None, OPTIONS))


def test_a_head_stays_silent_beyond_its_context(target):
    drafter = FeatureHead(random_head(replace(CONFIG, max_position_embeddings=14)), target)
    rounds = list(decode(target, PROMPT, drafter, OPTIONS))
    assert all(current.position + len(current.proposals) <= 14 or not current.proposals for current in rounds)
    assert emitted_ids(rounds) == emitted_ids(decode(target, PROMPT, None, OPTIONS))


def test_two_heads_on_one_target_do_not_mix_their_features(target):
    one, other = random_head(seed=5), random_head(replace(CONFIG, taps=(1, 3)), seed=6)
    alone = [proposed_ids(decode(target, PROMPT, FeatureHead(head, target), OPTIONS)) for head in (one, other)]
    first, second = (decode(target, PROMPT, FeatureHead(head, target), OPTIONS) for head in (one, other))
    mixed: tuple[list, list] = ([], [])
    for ours, theirs in zip(first, second, strict=False):
        mixed[0].append(ours)
        mixed[1].append(theirs)
    for rounds, expected in zip(mixed, alone, strict=True):
        assert proposed_ids(rounds) == expected[: len(rounds)]


def test_a_head_of_another_target_is_refused_with_a_reason(target):
    loaded = LoadedModel(target, None, frozenset(), (b"a",) * VOCAB, 512, "some model", "", weight_files=())  # type: ignore[arg-type]
    with pytest.raises(DraftlightError, match="not trained for some model"):
        FeatureHead(random_head(replace(CONFIG, target_sha256="0" * 64)), loaded)
    with pytest.raises(DraftlightError, match="reads layers 0, 9 of its target, but this one has 4"):
        FeatureHead(random_head(replace(CONFIG, taps=(0, 9))), target)


@pytest.mark.parametrize(
    ("config", "message"),
    [({"model_type": "llama"}, "is not a draft head"), ({"model_type": HEAD_FOLDER}, "do not match its config.json")],
)
def test_a_folder_that_holds_no_head_is_refused_with_a_reason(tmp_path, config, message):
    (tmp_path / "config.json").write_text(json.dumps(config))
    mx.save_safetensors(str(tmp_path / "model.safetensors"), {"target_ids": mx.array([1])})
    with pytest.raises(DraftlightError, match=message):
        load_head(tmp_path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"hidden_act": "gelu"}, "its hidden_act is 'gelu', and a head has silu"),
        ({"rope_parameters": {"rope_theta": 1e6}}, "its config.json states rope_parameters"),
        ({"head_dim": 32}, "its head_dim is 32"),
    ],
)
def test_a_head_with_settings_of_other_layers_is_refused_by_their_names(tmp_path, changes, message):
    head = random_head()
    save_head(head, tmp_path, "")
    assert load_head(tmp_path).config == head.config
    path = tmp_path / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    with pytest.raises(DraftlightError, match=message):
        load_head(tmp_path)
