"""Quantised keys and values: the text equals mlx-lm's, speculation does not change it, and unsuitable models are refused."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest
from mlx_lm.generate import generate_step
from mlx_lm.models import cache as mlx_caches
from mlx_lm.models.cache import ArraysCache, CacheList, KVCache, QuantizedKVCache

from engine.decode.decoding import decode
from engine.drafters import DraftModel, NGram
from engine.models.loading import load
from engine.rounds import near_ties
from engine.rounds.trace import read
from engine.runtime.worker import Engine
from engine.target.prompt_cache import make_prompt_cache, rewind, trim_to, watch
from engine.target.quantised_cache import make_quantised_cache
from engine.target.window_cache import ChunkCache, WindowCache
from engine.types import KV_BITS, RULES, DecodingOptions, Message, Request, Round, RunFailed, RunFinished
from engine.values.errors import DraftlightError
from tests.crossings import crossed
from tests.engine import tiny_models
from tests.engine.fakes import PATIENCE
from tests.engine.families import Scripted, config_of, tiny, varies
from tests.engine.small_models import PROMPT, emitted_ids, near, same_up_to_near_ties, tiny_llama

TARGET = tiny_llama(0)
DRAFT = near(TARGET, tiny_llama(3))
TOKENS = 40


def rounds_of(drafter: Any, bits: int | None, **options: Any) -> list[Round]:
    wanted = DecodingOptions(**{"seed": 11, "gamma": 4, "max_tokens": TOKENS, "kv_bits": bits, **options})
    return list(decode(TARGET, PROMPT, drafter, wanted))


@pytest.mark.parametrize("bits", KV_BITS)
def test_temperature_0_gives_the_tokens_of_mlx_lm_with_such_a_cache(bits: int) -> None:
    cache = [QuantizedKVCache(group_size=64, bits=bits) for _ in TARGET.layers]
    steps = generate_step(mx.array(PROMPT), TARGET, max_tokens=TOKENS, prompt_cache=cache)
    same_up_to_near_ties(rounds_of(None, bits, temperature=0), [int(token) for token, _ in steps])


@pytest.mark.parametrize(("bits", "rule", "name"), crossed(KV_BITS, ["match", "gumbel"], ["ngram", "model"]))
def test_speculation_gives_the_plain_text_of_the_same_bits(name: str, rule: str, bits: int) -> None:
    plain = emitted_ids(rounds_of(None, bits, temperature=0.7))
    for gamma in (1, 5):
        drafter = NGram() if name == "ngram" else DraftModel(DRAFT)
        drafted = rounds_of(drafter, bits, temperature=0.7, rule=rule, gamma=gamma)
        assert any(round_.proposals for round_ in drafted)
        same_up_to_near_ties(drafted, plain, near_ties.limit("float32", bits))


def test_fewer_bits_are_another_text() -> None:
    """Otherwise the tests above would show little."""
    texts = {bits: tuple(emitted_ids(rounds_of(None, bits, temperature=0.7))) for bits in (None, *KV_BITS)}
    assert len(set(texts.values())) > 1


@pytest.mark.parametrize("rule", RULES)
def test_every_rule_ends_with_a_cache_that_holds_what_was_committed(rule: str) -> None:
    rounds = rounds_of(DraftModel(DRAFT), 4, temperature=0.7, rule=rule)
    assert rounds[-1].cache_length == len(PROMPT) + TOKENS - 1


@pytest.mark.parametrize("bits", KV_BITS)
def test_it_takes_a_share_of_the_memory(bits: int) -> None:
    """Each 64 numbers of 32 bits become 64 numbers of `bits` bits, a scale and a bias."""
    taken = {}
    for kind in (None, bits):
        cache = make_quantised_cache(TARGET, bits, "tiny") if kind else make_prompt_cache(TARGET)
        TARGET(mx.array([[1] * 256]), cache=cache)
        taken[kind] = sum(layer.nbytes for layer in cache)
    assert taken[bits] / taken[None] == (64 * bits / 8 + 8) / (64 * 4)


# Layers with a limited or recurrent state


class _WholeText(QuantizedKVCache):
    """mlx-lm's quantised cache for layers with a window or chunks: it keeps all rows, and the model's mask hides the old
    ones."""

    start_position = 0

    def maybe_trim_front(self) -> None:
        pass


def reference_cache(model: Any, bits: int) -> list[Any]:
    """Returns a cache of mlx-lm's classes: quantised keys and values where a layer has any, and recurrent states
    unquantised."""

    def quantised(layer: Any) -> Any:
        if isinstance(layer, CacheList):
            return CacheList(*map(quantised, layer.caches))
        return layer if isinstance(layer, ArraysCache) else _WholeText(32, bits)

    return [quantised(layer) for layer in mlx_caches.make_prompt_cache(model)]


@functools.cache
def forgetful(name: str) -> tuple[Any, list[int]]:
    """Returns a model with heads of 32 whose caches forget, and mlx-lm's greedy text of 80 tokens with 4 bits."""
    wide = {"hidden_size": 128, "head_dim": 32}
    text = config_of(name).get("text_config")
    given: dict[str, Any] = wide if text is None else {"text_config": text | wide}
    model = tiny(name, by=3.0 if name == "cohere2" else 2.0, **given)
    steps = generate_step(mx.array(PROMPT), model, max_tokens=80, prompt_cache=reference_cache(model, 4))
    greedy = [int(token) for token, _ in steps]
    assert varies(greedy)
    return model, greedy


FORGETFUL = ("cohere2", "llama4", "qwen3_next", "falcon_h1")
"""Architectures with windows, with chunks, with recurrent layers between attention, and with both in one layer."""


@pytest.mark.parametrize(("every", "name"), crossed([None, 3], FORGETFUL, together=1))
def test_windows_chunks_and_hybrids_give_the_tokens_of_mlx_lms_rows(name: str, every: int | None) -> None:
    """The text is five windows long, decoded plainly and with a drafter that is wrong at every third token."""
    model, greedy = forgetful(name)
    drafter = None if every is None else Scripted([*PROMPT, *greedy], every)
    options = DecodingOptions(temperature=0, gamma=4, max_tokens=len(greedy), kv_bits=4, phase_every=0)
    rounds = list(decode(model, PROMPT, drafter, options))
    assert every is None or any(current.rejected for current in rounds)
    same_up_to_near_ties(rounds, greedy, near_ties.limit("float32", 4))


def total_variation(name: str, bits: int) -> float:
    """Returns the maximum total variation between p of our cache and p of mlx-lm's rows of 4 bits. Our cache reads passes of
    five rows, of which two are rolled back.

    mlx-lm's cache is read in the same way where it can be rolled back, because last bits may differ in passes of another width.
    """
    model, greedy = forgetful(name)
    text = [*PROMPT, *greedy]
    ours, theirs = make_quantised_cache(model, bits, name), reference_cache(model, 4)
    watch(ours)
    wrong = [1, 2] if mlx_caches.can_trim_prompt_cache(theirs) else []
    largest = 0.0
    for place in range(0, len(text) - 5, 3):
        read = text[place : place + 3]
        p = mx.softmax(model(mx.array([[*read, 1, 2]]), cache=ours)[0, :3], axis=-1)
        trim_to(ours, place + 3, "target")
        wanted = mx.softmax(model(mx.array([read + wrong]), cache=theirs)[0, :3], axis=-1)
        mlx_caches.trim_prompt_cache(theirs, len(wrong))
        largest = max(largest, float(mx.abs(p - wanted).sum(axis=-1).max()) / 2)
    return largest


@pytest.mark.parametrize("name", FORGETFUL)
def test_their_distributions_are_those_of_mlx_lms_rows(name: str) -> None:
    assert total_variation(name, 4) < 1e-4


def test_a_distribution_of_other_bits_is_noticed() -> None:
    assert total_variation("cohere2", 8) > 1e-2


def test_a_window_takes_a_share_of_the_memory() -> None:
    model, _ = forgetful("cohere2")
    taken = []
    for cache in (make_prompt_cache(model), make_quantised_cache(model, 8, "tiny")):
        model(mx.array([[1] * 300]), cache=cache)
        taken.append(sum(layer.nbytes for layer in cache if isinstance(layer, WindowCache)))
    assert taken[1] / taken[0] == (32 * 8 / 8 + 8) / (32 * 4)


@pytest.mark.parametrize("name", ["cohere2", "llama4"])
def test_a_quantised_cache_that_is_cut_back_to_a_mark_goes_on(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.target.window_cache.SLACK", 0)
    for kind in (WindowCache, ChunkCache):
        monkeypatch.setattr(kind, "step", 8)
    model, greedy = forgetful(name)
    options = DecodingOptions(temperature=0, max_tokens=60, kv_bits=4, phase_every=0)
    cache = make_quantised_cache(model, 4, name)
    list(decode(model, PROMPT, None, options, cache=cache))
    assert rewind(cache, len(PROMPT), "target") == len(PROMPT) - 1
    rounds = list(decode(model, PROMPT, None, options, cache=cache))
    same_up_to_near_ties(rounds, greedy[:60], near_ties.limit("float32", 4))


def test_a_model_without_such_a_cache_is_refused_in_words() -> None:
    with pytest.raises(DraftlightError, match=r"mamba cannot use a K/V cache of 4 bits: its layers are recurrent"):
        make_quantised_cache(tiny("mamba"), 4, "mamba")


# Draft models


def test_a_draft_model_has_as_many_bits_as_its_target() -> None:
    """It proposes what mlx-lm's quantised rows give, even when the bits of one drafter change."""
    draft, drafter = tiny_llama(3), DraftModel(tiny_llama(3))
    for bits in (None, 4, 8):
        rounds = list(decode(TARGET, PROMPT, drafter, DecodingOptions(temperature=0, gamma=3, max_tokens=9, kv_bits=bits)))
        cache: list[Any] = [QuantizedKVCache(64, bits) for _ in draft.layers] if bits else make_prompt_cache(draft)
        held = PROMPT
        for current in rounds:
            steps = generate_step(mx.array(held), draft, max_tokens=max(1, len(current.proposals)), prompt_cache=cache)
            wanted = [int(token) for token, _ in steps][: len(current.proposals)]
            assert [proposal.id for proposal in current.proposals] == wanted
            held = [*held, *(token.id for token in current.emitted)]
            cache = [QuantizedKVCache(64, bits) for _ in draft.layers] if bits else make_prompt_cache(draft)
        kinds = {type(layer) for layer in drafter.cache}
        assert kinds == ({QuantizedKVCache} if bits else {KVCache})


def test_a_draft_model_that_cannot_have_few_bits_keeps_full_precision() -> None:
    drafter = DraftModel(tiny("mamba", vocab_size=97))
    plain = rounds_of(None, 4, temperature=0)
    same_up_to_near_ties(rounds_of(drafter, 4, temperature=0), emitted_ids(plain), near_ties.limit("float32", 4))


def test_a_head_that_no_group_divides_is_refused(tmp_path: Path) -> None:
    """The tiny model in the files has heads of 16."""
    model = load(tiny_models.write_folder(tmp_path).as_posix()).model
    with pytest.raises(DraftlightError, match="heads are 16 wide"):
        make_quantised_cache(model, 8, "tiny")


def test_an_attention_that_cannot_compute_with_it_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def sinks(*arguments: Any, **named: Any) -> None:
        raise ValueError("Quantized SDPA does not support attention sinks.")

    monkeypatch.setattr("mlx_lm.models.base.quantized_scaled_dot_product_attention", sinks)
    with pytest.raises(DraftlightError, match="attention cannot compute with one"):
        make_quantised_cache(TARGET, 8, "tiny")


def served(engine: Engine, request: Request) -> RunFinished | RunFailed:
    engine.submit(request)
    seen: list[Any] = []
    while not any(isinstance(event, (RunFinished, RunFailed)) for event in seen):
        assert engine.wait(PATIENCE)
        seen += engine.events()
    return next(event for event in seen if isinstance(event, (RunFinished, RunFailed)))


def test_a_conversation_keeps_a_cache_for_each_number_of_bits(tmp_path: Path, home: Path) -> None:
    """A turn with other bits reads the whole prompt; going back to the earlier bits reuses their cache. The trace states the
    bits."""
    wide = {"num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 32}  # the same weights as fewer, wider heads
    head = tiny_models.write_folder(tmp_path / "tiny", **wide)
    engine = Engine()
    reused = []
    try:
        for bits in (None, 8, None, 8):
            options = DecodingOptions(seed=1, max_tokens=3, kv_bits=bits)
            end = served(engine, Request((Message("user", "hello"),), options, str(head), conversation="c"))
            assert isinstance(end, RunFinished), end
            assert end.trace_path is not None
            found = read(end.trace_path)
            assert found.header["options"]["kv_bits"] == bits
            assert found.summary is not None
            reused.append(found.summary["reused_tokens"] > 0)
        small = tiny_models.write_folder(tmp_path / "small")
        failed = served(engine, Request((Message("user", "hello"),), DecodingOptions(kv_bits=4), str(small)))
    finally:
        engine.close()
    assert reused == [False, False, True, True]
    assert isinstance(failed, RunFailed)
    assert failed.message.startswith("small cannot use a K/V cache of 4 bits")
