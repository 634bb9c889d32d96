"""Which models can be split over how many ranks, and what is said of the others."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest
from mlx_lm.tuner.utils import linear_to_lora_layers

from engine.cluster.sharding import agree, refusal, split
from engine.values.errors import DraftlightError
from tests.engine.small_models import tiny_llama, tiny_qwen3, tiny_sliding_window


def test_heads_that_cannot_be_shared_out_are_refused_with_numbers_that_can() -> None:
    model = tiny_llama(0)
    heads, kv_heads = model.args.num_attention_heads, model.args.num_key_value_heads
    assert refusal(model, "tiny", kv_heads, "tensor") is None
    model.args.num_attention_heads, model.args.num_key_value_heads = 9, 3
    assert refusal(model, "SmolLM2", 3, "tensor") is None
    assert refusal(model, "SmolLM2", 2, "tensor") == (
        "SmolLM2 cannot be split by tensors over 2 ranks: it has 9 attention heads and 3 key and value heads. Use 3 ranks."
    )
    model.args.num_attention_heads, model.args.num_key_value_heads = 7, 1
    assert "It can only run on one rank." in (refusal(model, "odd", 7, "tensor") or "")
    model.args.num_attention_heads, model.args.num_key_value_heads = heads, kv_heads


def test_models_without_a_way_to_be_split_are_refused_with_the_other_way() -> None:
    llama, qwen3 = tiny_llama(0), tiny_qwen3(0)
    assert "mlx-lm has none for models of its kind. Split it by tensors." in (refusal(llama, "tiny", 2, "pipeline") or "")
    assert "has 2 attention heads and 1 key" in (refusal(qwen3, "tiny", 2, "tensor") or "")
    window = refusal(tiny_sliding_window(0), "tiny", 2, "tensor") or ""
    assert window.startswith("tiny cannot be split: some of its layers keep something else than keys and values (WindowCache).")
    linear_to_lora_layers(llama, 1, {"rank": 2, "scale": 1.0, "dropout": 0.0})
    assert "an adapter is applied to it" in (refusal(llama, "tiny", 2, "tensor") or "")


def test_part_equals_that_of_mlx_lm() -> None:
    """With one rank, which needs no links, nothing is taken away but everything goes through the sharded layers."""
    model, whole = tiny_llama(0), tiny_llama(0)
    split(model, "tiny", mx.distributed.init(), "tensor")
    assert "ShardedToAllLinear" in {type(module).__name__ for module in model.modules()}
    tokens = mx.array([[1, 2, 3]])
    assert np.allclose(np.array(model(tokens)), np.array(whole(tokens)), atol=1e-5)
    model.shard = lambda group: (_ for _ in ()).throw(ValueError("Cannot shard the output of size 96 across 5 devices."))
    with pytest.raises(DraftlightError, match="tiny cannot be split over 1 rank: Cannot shard the output of size 96"):
        split(model, "tiny", mx.distributed.init(), "tensor")


class Rows:
    """A group whose ranks have shown these fingerprints and given these reasons."""

    size = 3

    def __init__(self, *marks: bytes, reasons: tuple[str, ...] = ("", "", "")) -> None:
        self._marks, self._reasons = marks, reasons

    def exchange(self, row: list[int]) -> np.ndarray:
        rows = [[len(mark), *np.frombuffer(mark, np.int32).tolist()] for mark in self._marks]
        return np.array([row + [0] * (64 - len(row)) for row in rows])

    def texts(self, text: str) -> list[str]:
        return list(self._reasons)


def test_ranks_that_loaded_something_else_are_named() -> None:
    one, other = bytes(32), bytes([1] * 32)
    assert agree(Rows(one, one, one), one) is None  # type: ignore[arg-type]
    assert agree(Rows(one, one, other), one) == (2, "It has another model there.")  # type: ignore[arg-type]
    missing = Rows(one, b"", one, reasons=("", "No such folder.", ""))
    assert agree(missing, one) == (1, "No such folder.")  # type: ignore[arg-type]
