"""Claims about what the drafters propose, apart from how it is judged."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest

from engine.decode.decoding import decode
from engine.drafters import DraftModel
from engine.models.loaded import LoadedModel
from engine.target.distribution import Shaper
from engine.target.prompt_cache import cache_length
from engine.types import DecodingOptions
from tests.engine.drafting import commit, drafted_after, start
from tests.engine.small_models import PROMPT, emitted_ids, tiny_llama


@pytest.mark.parametrize("rule", ["gumbel", "rejection"])
def test_a_draft_models_q_is_its_own_distribution_given_what_it_drafted(rule):
    model = tiny_llama(3)
    drafter = DraftModel(model)
    start(drafter, PROMPT)
    proposals = drafted_after(drafter, PROMPT, 4, rule=rule, temperature=0.7, top_p=0.9).tree
    drafted = proposals.drafted.tolist()
    logits = model(mx.array([[*PROMPT, *drafted]]))[0, len(PROMPT) - 1 : -1]
    wanted = Shaper(DecodingOptions(temperature=0.7, top_p=0.9)).shape(logits, [])
    np.testing.assert_allclose(np.array(proposals.q.probabilities), np.array(wanted.probabilities), atol=1e-5)


@pytest.mark.parametrize("kept", [0, 1, 2, 3, 4])
@pytest.mark.parametrize("prefetch", [False, True])
def test_a_draft_model_goes_on_as_if_it_had_read_the_committed_text(kept, prefetch):
    model = tiny_llama(3)
    drafter = DraftModel(model)
    start(drafter, PROMPT)
    drafted = drafted_after(drafter, PROMPT, 4).tree.drafted.tolist()
    committed = [*PROMPT, *drafted[:kept], 42]
    commit(drafter, committed[len(PROMPT) :])
    if prefetch:
        drafter.prefetch()
    continued = drafted_after(drafter, committed, 3).tree
    fresh = DraftModel(model)
    start(fresh, committed)
    wanted = drafted_after(fresh, committed, 3).tree
    assert continued.drafted.tolist() == wanted.drafted.tolist()
    np.testing.assert_allclose(np.array(continued.q.probabilities), np.array(wanted.q.probabilities), atol=1e-5)
    commit(drafter, [50])
    drafter.finish()
    assert cache_length(drafter.cache) == len(committed)


def test_a_draft_model_reads_only_what_is_new_and_forgets_what_changed():
    model = tiny_llama(3)
    read: list[int] = []

    class Counting:
        layers = model.layers

        def __call__(self, tokens, cache=None):
            read.append(tokens.shape[1])
            return model(tokens, cache=cache)

    drafter = DraftModel(Counting())
    read.clear()
    start(drafter, [*range(20)])
    assert sum(read) == 19
    read.clear()
    start(drafter, [*range(20), 30, 31, 32])
    assert sum(read) == 3
    read.clear()
    start(drafter, [*range(10), 40, 41])
    assert sum(read) == 1
    assert cache_length(drafter.cache) == 11


def test_a_cancelled_catching_up_leaves_nothing_behind():
    drafter = DraftModel(tiny_llama(3))
    assert not start(drafter, list(range(90)) * 3, lambda done, total: done == 0)
    drafter.finish()
    assert not cache_length(drafter.cache)
    assert start(drafter, PROMPT)
    assert cache_length(drafter.cache) == len(PROMPT) - 1


@pytest.mark.parametrize("prompt", [PROMPT, PROMPT * 4])
def test_a_draft_model_reads_nothing_beyond_its_context(prompt):
    short = LoadedModel(tiny_llama(3), None, frozenset(), (b"a",) * 97, 12, "short", "short")
    drafter = DraftModel(short)
    target = tiny_llama(1)
    for _ in range(2):
        rounds = list(decode(target, prompt, drafter, DecodingOptions(seed=1, max_tokens=20)))
        assert emitted_ids(rounds) == emitted_ids(list(decode(target, prompt, None, DecodingOptions(seed=1, max_tokens=20))))
        assert all(current.position + len(current.proposals) <= 12 or not current.proposals for current in rounds)
        assert (cache_length(drafter.cache) or 0) <= 12
    assert start(drafter, PROMPT)
    assert cache_length(drafter.cache) == len(PROMPT) - 1
