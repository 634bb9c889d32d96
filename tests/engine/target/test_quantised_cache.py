"""Keys and values in few bits: the text is mlx-lm's, speculation changes nothing of it, and what cannot have them is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest
from mlx_lm.generate import generate_step
from mlx_lm.models.cache import QuantizedKVCache

from engine import near_ties
from engine.decoding import decode
from engine.drafters import DraftModel, NGram
from engine.errors import DraftlightError
from engine.models.loading import load
from engine.target.prompt_cache import make_prompt_cache
from engine.target.quantised_cache import make_quantised_cache
from engine.trace import read
from engine.types import KV_BITS, RULES, DecodingOptions, Message, Request, Round, RunFailed, RunFinished
from engine.worker import Engine
from tests.engine import tiny_models
from tests.engine.fakes import PATIENCE
from tests.engine.small_models import PROMPT, same_up_to_near_ties, tiny_llama, tiny_sliding_window

TARGET = tiny_llama(0)
TOKENS = 60


def rounds_of(drafter: Any, bits: int | None, **options: Any) -> list[Round]:
    wanted = DecodingOptions(**{"seed": 11, "gamma": 4, "max_tokens": TOKENS, "kv_bits": bits, **options})
    return list(decode(TARGET, PROMPT, drafter, wanted))


def ids(rounds: list[Round]) -> list[int]:
    return [token.id for current in rounds for token in current.emitted]


@pytest.mark.parametrize("bits", KV_BITS)
def test_temperature_0_gives_the_tokens_of_mlx_lm_with_such_a_cache(bits: int) -> None:
    cache = [QuantizedKVCache(group_size=64, bits=bits) for _ in TARGET.layers]
    steps = generate_step(mx.array(PROMPT), TARGET, max_tokens=TOKENS, prompt_cache=cache)
    same_up_to_near_ties(rounds_of(None, bits, temperature=0), [int(token) for token, _ in steps])


@pytest.mark.parametrize("bits", KV_BITS)
@pytest.mark.parametrize("rule", ["match", "gumbel"])
@pytest.mark.parametrize("name", ["ngram", "model"])
def test_speculation_gives_the_plain_text_of_the_same_bits(name: str, rule: str, bits: int) -> None:
    plain = ids(rounds_of(None, bits, temperature=0.7))
    for gamma in (1, 5):
        drafter = NGram() if name == "ngram" else DraftModel(tiny_llama(3))
        drafted = rounds_of(drafter, bits, temperature=0.7, rule=rule, gamma=gamma)
        assert any(round_.proposals for round_ in drafted)
        same_up_to_near_ties(drafted, plain, near_ties.limit("float32", bits))


def test_fewer_bits_are_another_text() -> None:
    """Else the tests above would show little."""
    texts = {bits: tuple(ids(rounds_of(None, bits, temperature=0.7))) for bits in (None, *KV_BITS)}
    assert len(set(texts.values())) > 1


@pytest.mark.parametrize("rule", RULES)
def test_every_rule_ends_with_a_cache_that_holds_what_was_committed(rule: str) -> None:
    rounds = rounds_of(DraftModel(tiny_llama(3)), 4, temperature=0.7, rule=rule)
    assert rounds[-1].cache_length == len(PROMPT) + TOKENS - 1


@pytest.mark.parametrize("bits", KV_BITS)
def test_it_takes_a_share_of_the_memory(bits: int) -> None:
    """For every 64 numbers of 32 bits, 64 of few bits, a scale and a bias."""
    taken = {}
    for kind in (None, bits):
        cache = make_quantised_cache(TARGET, bits, "tiny") if kind else make_prompt_cache(TARGET)
        TARGET(mx.array([[1] * 256]), cache=cache)
        taken[kind] = sum(layer.nbytes for layer in cache)
    assert taken[bits] / taken[None] == (64 * bits / 8 + 8) / (64 * 4)


def test_a_model_without_such_a_cache_is_refused_in_words() -> None:
    with pytest.raises(DraftlightError, match=r"gemma cannot use a K/V cache of 4 bits: not all of its layers keep plain keys"):
        make_quantised_cache(tiny_sliding_window(0), 4, "gemma")


def test_a_head_that_no_group_divides_is_refused(tmp_path: Path) -> None:
    """The tiny model of the files has heads of 16."""
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
    """A turn with other bits reads anew; back again, it goes on. The trace says which there were."""
    wide = {"num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 32}  # the same weights, as heads of 32
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
