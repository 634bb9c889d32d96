"""What rank 0 tells of its passes, and that a rank which holds something else is named."""

from __future__ import annotations

import gc
import itertools
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from engine.cluster.group import Kind, Links, Order, Report
from engine.cluster.split_model import SplitModel
from engine.decode.decoding import decode
from engine.drafters.draft_model import DraftModel
from engine.models.loading import load
from engine.target.layer_taps import tap
from engine.target.prompt_cache import chunk_size, logits_type, logits_width, make_prompt_cache, parameters_of
from engine.target.quantised_cache import make_quantised_cache
from engine.tools.bench import peers
from engine.tools.proof import checks
from engine.types import RULES, DecodingOptions, Rule
from engine.values.errors import DraftlightError
from tests.engine.cluster.in_one_process import OneProcess
from tests.engine.cluster.models import of_this_machine, write_qwen2
from tests.engine.small_models import emitted_ids, greedy_of_mlx_lm, tiny_llama

PROMPT = list(range(2, 90))


def split(seed: int = 0) -> tuple[SplitModel, OneProcess, Any]:
    """A model as rank 0 has it, the ranks, and the same model as one machine has it."""
    group = OneProcess()
    part = tiny_llama(seed)
    group.follower.take(SimpleNamespace(model=tiny_llama(seed), name="tiny"))  # type: ignore[arg-type]
    model = SplitModel(part, group, of_this_machine(2), parameters_of(part))  # type: ignore[arg-type]
    return model, group, tiny_llama(seed)


@pytest.mark.parametrize(("kv_bits", "rules"), [(None, RULES), (8, RULES[:1])])
def test_followers_hold_the_same_text_as_rank_0_through_every_roll_back(kv_bits: int | None, rules: Sequence[Rule]) -> None:
    model, group, alone = split()
    for rule in rules:
        options = DecodingOptions(max_tokens=9, seed=1, temperature=0.8, rule=rule, gamma=4, kv_bits=kv_bits)
        options = options.replace(phase_every=3, analyse=False)
        rounds = list(decode(model, PROMPT, DraftModel(tiny_llama(7)), options))
        model.require_equal_states()
        assert emitted_ids(rounds) == emitted_ids(list(decode(alone, PROMPT, DraftModel(tiny_llama(7)), options)))
        assert any(proposal.status == "rejected" for current in rounds for proposal in current.proposals)
        staged = [current.milliseconds for current in rounds if current.milliseconds.measured]
        assert staged and all(times.communication is not None for times in staged)
    told = [order for order in group.orders if order.kind in (Kind.PASS, Kind.READ)]
    assert {order.is_long for order in told} == {False, True}


def test_plain_answer_equals_mlx_lms_and_shape_queries_send_no_order() -> None:
    model, group, alone = split()
    assert (logits_width(model), logits_type(model)) == (logits_width(alone), "float32")
    assert chunk_size(model) == chunk_size(alone)
    make_quantised_cache(model, 8, "tiny")
    assert not group.orders
    rounds = list(decode(model, PROMPT, None, DecodingOptions(max_tokens=12, seed=1, temperature=0.0)))
    assert emitted_ids(rounds) == greedy_of_mlx_lm(alone, PROMPT, 12)
    without = model(mx.array([PROMPT]))
    assert np.allclose(np.array(without), np.array(alone(mx.array([PROMPT]))), atol=1e-5)
    model.require_equal_states()


def test_split_target_can_be_proved_and_measured(tmp_path: Path) -> None:
    """The findings of `prove`, and the tokens of mlx-lm's own loops, which `bench --peers` runs on the same target."""
    path, draft = write_qwen2(tmp_path / "target"), load(write_qwen2(tmp_path / "draft", 0.15))
    whole, part, group = load(path), load(path), OneProcess()
    group.follower.take(load(path))
    model = SplitModel(part.model, group, of_this_machine(2), parameters_of(part.model))  # type: ignore[arg-type]
    split_target = replace(part, model=model)
    amount = checks.Amount(contexts=1, texts=10, seeds=1, decodes=1, prompts=1, tokens=4, gammas=(2,))
    found, known = (
        list(checks.prove(target, DraftModel(draft), amount, 1, None, lambda step, share: None))
        for target in (split_target, whole)
    )
    trees = [finding for finding in known if "trees" in finding.setting]
    assert trees and found == [finding for finding in known if finding not in trees], "a split target drafts chains"
    model.require_equal_states()
    options = DecodingOptions(max_tokens=8, seed=1, temperature=0.8, gamma=3)
    for drafting in (None, draft):
        ours, theirs = (
            [token.id for token in peers.answer(target, drafting, PROMPT, options, lambda: None)]
            for target in (split_target, whole)
        )
        assert ours == theirs and len(ours) == 8


def test_deleted_caches_are_deleted_on_all_ranks() -> None:
    model, group, _ = split()
    for _ in range(3):
        cache = make_prompt_cache(model)
        model(mx.array([PROMPT[:4]]), cache=cache)
        del cache
        gc.collect()
    model(mx.array([[1]]), cache=make_prompt_cache(model))
    group.carry_out()
    assert len(group.follower.caches) == len(group.follower.texts) == 1


def spoil_text(group: OneProcess) -> None:
    for text in group.follower.texts.values():
        text[0] += 1


def spoil_logits(group: OneProcess) -> None:
    group.follower.loaded = SimpleNamespace(model=tiny_llama(5), name="tiny")  # type: ignore[assignment]


@pytest.mark.parametrize(("spoil", "what"), [(spoil_text, "another text"), (spoil_logits, "other logits")])
def test_rank_with_another_state_is_named_in_the_next_round(spoil: Any, what: str) -> None:
    model, group, _ = split()
    rounds = decode(model, PROMPT, None, DecodingOptions(max_tokens=30, seed=1, temperature=0.0))
    next(rounds)
    next(rounds)
    spoil(group)
    with pytest.raises(DraftlightError, match=rf"stopped because rank 1 \(127.0.0.1\).* {what} "):
        list(itertools.islice(rounds, 2))


def test_after_a_disagreement_the_ranks_are_still_in_step() -> None:
    model, group, alone = split()
    rounds = decode(model, PROMPT, None, DecodingOptions(max_tokens=30, seed=1, temperature=0.0))
    next(rounds)
    spoil_text(group)
    with pytest.raises(DraftlightError, match="another text"):
        list(itertools.islice(rounds, 3))
    again = list(decode(model, PROMPT, None, DecodingOptions(max_tokens=4, seed=1, temperature=0.0)))
    model.require_equal_states()
    assert emitted_ids(again) == greedy_of_mlx_lm(alone, PROMPT, 4)


def test_reports_of_machines_that_round_differently_agree() -> None:
    own = Report(5, 9, 0.25)
    assert Report.of(np.array(own.row(), np.int32)) == own
    assert own.agrees(Report(5, 9, 0.25 + 1e-5))
    assert not own.agrees(Report(5, 9, 0.25 + 4e-3)) and not own.agrees(Report(5, 8, 0.25)) and not own.agrees(Report(4, 9, 0.25))


def test_order_survives_the_round_trip() -> None:
    order = Order(Kind.PASS, 3, 70, 4, 8, 2**31 - 1, (5, 6), np.array([9, 8, 7, 49151], np.int32))
    row = np.zeros(64, np.int32)
    row[: len(order.row())] = order.row()
    back = Order.of(row)
    assert back.ids.tolist() == [9, 8, 7, 49151]
    assert back.row() == order.row()


def test_trained_drafters_are_refused_in_a_pipeline() -> None:
    model, _, _ = split()
    assert tap(model, (0, 1)).layers == (0, 1)
    model.pipeline_size = 2
    with pytest.raises(DraftlightError, match="in a pipeline these lie on other machines"):
        tap(model, (0, 1))


def test_only_a_timed_pass_is_timed_and_mlxs_collectives_are_put_back() -> None:
    links, collective = Links(), mx.distributed.all_sum
    with links.around():
        assert mx.distributed.all_sum is collective
    assert links.take() == 0
    links.timed = True
    with links.around():
        assert mx.distributed.all_sum is not collective
        assert mx.distributed.all_sum(mx.ones(3)).tolist() == [1, 1, 1]
    assert mx.distributed.all_sum is collective
    assert links.take() > 0 and not links.timed
