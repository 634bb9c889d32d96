"""Tiny random models of real architectures, made in the test; they run mlx-lm's own code in milliseconds."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import mlx.core as mx
import mlx.nn as nn
import pytest
from mlx.utils import tree_map
from mlx_lm.generate import generate_step
from mlx_lm.models import gemma3_text, llama, qwen3

from engine.decode import run_control
from engine.rounds import near_ties
from engine.types import Emitted, Milliseconds, Proposal, Round
from engine.values.answers import Status

VOCAB = 97
PROMPT = [1, 5, 7, 9, 11, 5, 7]


@contextmanager
def ticking_clock() -> Iterator[None]:
    """Every look at the decode loop's clock finds it a millisecond later, however busy the machine is.

    Under gamma auto the length of a draft follows from measured times, and under rejection and block the text from the length:
    only with such a clock does a seed give one text, and a statistical test one result.
    """
    ticks = itertools.count()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run_control, "time", SimpleNamespace(perf_counter=lambda: next(ticks) / 1000))
        yield


def tiny_llama(seed: int, layers: int = 2, vocab: int = VOCAB) -> nn.Module:
    """Two heads of 64, so that its cache can be quantised in groups of 64."""
    mx.random.seed(seed)
    arguments = llama.ModelArgs(
        model_type="llama",
        hidden_size=128,
        num_hidden_layers=layers,
        intermediate_size=256,
        num_attention_heads=2,
        num_key_value_heads=1,
        rms_norm_eps=1e-5,
        vocab_size=vocab,
        rope_theta=1e4,
        tie_word_embeddings=False,
    )
    return _sharpened(llama.Model(arguments))


def tiny_qwen3(seed: int, layers: int = 2) -> nn.Module:
    mx.random.seed(seed)
    arguments = qwen3.ModelArgs(
        model_type="qwen3",
        hidden_size=128,
        num_hidden_layers=layers,
        intermediate_size=256,
        num_attention_heads=2,
        num_key_value_heads=1,
        rms_norm_eps=1e-6,
        vocab_size=VOCAB,
        max_position_embeddings=4096,
        rope_theta=1e4,
        head_dim=64,
        tie_word_embeddings=False,
    )
    return _sharpened(qwen3.Model(arguments))


def tiny_sliding_window(seed: int) -> nn.Module:
    """A model whose cache forgets: gemma 3 with a window of 16."""
    mx.random.seed(seed)
    arguments = gemma3_text.ModelArgs(
        model_type="gemma3_text",
        hidden_size=64,
        num_hidden_layers=2,
        intermediate_size=128,
        num_attention_heads=2,
        head_dim=32,
        vocab_size=VOCAB,
        num_key_value_heads=1,
        sliding_window=16,
        sliding_window_pattern=2,
    )
    return gemma3_text.Model(arguments)


def _sharpened(model: nn.Module) -> nn.Module:
    """A random head is nearly uniform, which makes every arg-max a near-tie; this one has opinions."""
    model.lm_head.weight = model.lm_head.weight * 6
    mx.eval(model.parameters())
    return model


def near(model: nn.Module, other: nn.Module, amount: float = 0.1) -> nn.Module:
    """`other` with the weights of `model` and this much of its own: about half of what it drafts for `model` is accepted."""
    other.update(tree_map(lambda own, others: own + amount * others, model.parameters(), other.parameters()))
    mx.eval(other.parameters())
    return other


def greedy_of_mlx_lm(model: nn.Module, prompt: Sequence[int], tokens: int, **options: Any) -> list[int]:
    """The reference: mlx-lm's own plain greedy loop."""
    steps = generate_step(mx.array(list(prompt)), model, max_tokens=tokens, **options)
    return [int(token) for token, _ in steps]


def emitted_ids(rounds: Sequence[Round]) -> list[int]:
    return [token.id for current in rounds for token in current.emitted]


def same_up_to_near_ties(rounds: Sequence[Round], reference: Sequence[int], near: float = near_ties.FLOAT32) -> bool:
    """Whether the text equals the reference, or first differs at a near-tie. Fails with both texts otherwise."""
    tokens = [token for current in rounds for token in current.emitted]
    for index, (token, wanted) in enumerate(zip(tokens, reference, strict=False)):
        if token.id != wanted:
            gap = near_ties.nearest([token], 1.0)  # of texts at or below it, so more is never excused
            assert gap is not None and gap.size < near, f"differs at token {index}, {gap}: {token.id} for {wanted}"
            return False
    assert len(tokens) == len(reference)
    return True


def round_of(accepted: int, gamma: int, milliseconds: float) -> Round:
    """A first round in which this many of `gamma` proposals were accepted and the next was rejected."""
    statuses: list[Status] = ["accepted"] * accepted
    statuses += ["rejected"] * (accepted < gamma) + ["unjudged"] * max(0, gamma - accepted - 1)
    return Round(
        index=0,
        position=0,
        drafter="d",
        rule="gumbel",
        proposals=tuple(Proposal(0, "", b"", status) for status in statuses),
        emitted=(Emitted(0, "", b"", "correction"),) * (accepted + 1),
        expected=(),
        milliseconds=Milliseconds(milliseconds),
        rows=gamma + 1,
        cache_length=0,
    )


class OnAClock:
    """A model whose passes take scripted time: 20 ms, 2 for each row, and what layers that read again owe."""

    def __init__(self, model: Any) -> None:
        self._model, self.now, self.owed = model, 0.0, 0.0

    def __call__(self, tokens: mx.array, cache: Any = None) -> mx.array:
        self.now += 0.020 + 0.002 * tokens.shape[1] + self.owed
        self.owed = 0.0
        return self._model(tokens, cache=cache)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)
