"""Tiny EAGLE heads in both published packagings, and the tiny llama that they draft for.

The weights follow from `SEED` and the tensors' names (`seeded_weights`). `tests/references/eagle` holds logits of other
implementations for them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tests.engine import seeded_weights
from tests.engine.checkpoint_folders import VOCABULARY, write_description, write_tensors
from tests.engine.mtp_files import PROMPT
from tests.engine.seeded_weights import Shape

SEED = 47
HIDDEN, HEADS, KEY_HEADS, SIZE, FEED_FORWARD, LAYERS = 64, 4, 2, 16, 96, 8
COLUMNS = 40
"""Tokens of a reduced vocabulary."""
REFERENCES = Path(__file__).parents[1] / "references" / "eagle"
DEFAULT_TAPS = (2, LAYERS // 2, LAYERS - 3)
"""Layers whose input a head reads if its config.json names none."""

TARGET = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": HIDDEN,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "num_key_value_heads": KEY_HEADS,
    "head_dim": SIZE,
    "intermediate_size": FEED_FORWARD,
    "hidden_act": "silu",
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "vocab_size": VOCABULARY,
    "max_position_embeddings": 4096,
    "tie_word_embeddings": False,
    "eos_token_id": 2,
}


@dataclass(frozen=True)
class Head:
    """A head.

    Attributes:
        config: its config.json. shapes: its tensors other than `d2t` and `t2d`. taps: the layers whose input it reads, counted
            from 0; `LAYERS` is the output of the last before the final norm; without taps it reads the state after that norm.
            columns: size of its vocabulary.
    """

    config: Mapping[str, Any]
    shapes: Mapping[str, Shape]
    taps: Sequence[int] = DEFAULT_TAPS
    columns: int = COLUMNS

    def target_ids(self) -> np.ndarray:
        """Returns the target id of each of its tokens."""
        if self.columns == VOCABULARY:
            return np.arange(VOCABULARY)
        return np.sort(np.random.default_rng([SEED, self.columns]).permutation(VOCABULARY)[: self.columns])

    def weights(self) -> dict[str, np.ndarray]:
        """Returns its tensors as published; those that map a reduced vocabulary are there if it has one."""
        made = seeded_weights.weights(self.shapes, SEED)
        if self.columns < VOCABULARY:
            ids = self.target_ids()
            made["d2t"] = ids - np.arange(self.columns)
            made["t2d"] = np.isin(np.arange(VOCABULARY), ids)
        return made

    def fingerprint(self) -> str:
        """Returns the hash under which references were stored."""
        return seeded_weights.fingerprint(target_weights() | {f"head.{name}": array for name, array in self.weights().items()})


def target_weights() -> dict[str, np.ndarray]:
    """Returns the target's tensors."""
    shapes: dict[str, Shape] = {"model.embed_tokens.weight": (VOCABULARY, HIDDEN), "model.norm.weight": (HIDDEN,)}
    shapes["lm_head.weight"] = (VOCABULARY, HIDDEN)
    for layer in range(LAYERS):
        shapes |= {f"model.layers.{layer}.{name}": shape for name, shape in _layer(HIDDEN, HIDDEN, SIZE).items()}
    return seeded_weights.weights(shapes, SEED)


def _layer(hidden: int, inputs: int, size: int) -> dict[str, Shape]:
    return {
        "self_attn.q_proj.weight": (HEADS * size, inputs),
        "self_attn.k_proj.weight": (KEY_HEADS * size, inputs),
        "self_attn.v_proj.weight": (KEY_HEADS * size, inputs),
        "self_attn.o_proj.weight": (hidden, HEADS * size),
        "mlp.gate_proj.weight": (FEED_FORWARD, hidden),
        "mlp.up_proj.weight": (FEED_FORWARD, hidden),
        "mlp.down_proj.weight": (hidden, FEED_FORWARD),
        "input_layernorm.weight": (hidden,),
        "post_attention_layernorm.weight": (hidden,),
    }


def _shapes(
    layer: str, columns: int, taps: int = 3, hidden: int = HIDDEN, size: int = SIZE, embedding: bool = False
) -> dict[str, Shape]:
    """Returns the shapes of an EAGLE-3 head; `layer` is the name of its layer."""
    block = {**_layer(hidden, 2 * hidden, size), "hidden_norm.weight": (hidden,)}
    return {
        "fc.weight": (hidden, taps * HIDDEN),
        **{f"{layer}.{name}": shape for name, shape in block.items()},
        "norm.weight": (hidden,),
        "lm_head.weight": (columns, hidden),
        **({"embed_tokens.weight": (VOCABULARY, hidden)} if embedding else {}),
    }


_AUTHORS = {
    "architectures": ["LlamaForCausalLMEagle3"],
    "model_type": "llama",
    "hidden_size": HIDDEN,
    "num_attention_heads": HEADS,
    "num_key_value_heads": KEY_HEADS,
    "intermediate_size": FEED_FORWARD,
    "num_hidden_layers": 1,
    "hidden_act": "silu",
    "rms_norm_eps": 1e-5,
    "vocab_size": VOCABULARY,
    "draft_vocab_size": COLUMNS,
    "max_position_embeddings": 2048,
    "rope_theta": 10000.0,
    "rope_scaling": None,
    "pretraining_tp": 1,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
    "tie_word_embeddings": False,
}
_NARROW, _WIDE_SIZE = 48, 32


def _speculators(columns: int, layer: Mapping[str, Any], **flags: Any) -> dict[str, Any]:
    config = {
        "architectures": ["Eagle3Speculator"],
        "speculators_model_type": "eagle3",
        "speculators_version": "0.9.0",
        "draft_vocab_size": columns,
        "norm_before_residual": True,
        "eagle_aux_hidden_state_layer_ids": None,
        "target_hidden_size": None,
        "embed_requires_grad": False,
        "transformer_layer_config": {
            "model_type": "llama",
            "hidden_size": HIDDEN,
            "num_attention_heads": HEADS,
            "num_key_value_heads": KEY_HEADS,
            "head_dim": SIZE,
            "intermediate_size": FEED_FORWARD,
            "num_hidden_layers": 1,
            "hidden_act": "silu",
            "attention_bias": False,
            "rms_norm_eps": 1e-5,
            "vocab_size": VOCABULARY,
            "max_position_embeddings": 2048,
            "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0},
            **layer,
        },
        "speculators_config": {
            "algorithm": "eagle3",
            "default_proposal_method": "greedy",
            "proposal_methods": [{"proposal_type": "greedy", "speculative_tokens": 3, "verifier_accept_k": 1}],
            "verifier": {"name_or_path": "example/tiny-llama", "architectures": ["LlamaForCausalLM"]},
        },
    }
    return config | flags


_QWEN = {"self_attn.q_norm.weight": (SIZE,), "self_attn.k_norm.weight": (SIZE,)}
_FC_NORMS = {f"fc_norm.{tap}.weight": (HIDDEN,) for tap in range(3)}

EAGLE_HEADS: dict[str, Head] = {
    "authors": Head(_AUTHORS, _shapes("midlayer", COLUMNS)),
    "authors-narrow": Head(
        {
            **_AUTHORS,
            "hidden_size": _NARROW,
            "target_hidden_size": HIDDEN,
            "head_dim": _WIDE_SIZE,
            "draft_vocab_size": VOCABULARY,
            "eagle_config": {"eagle_aux_hidden_state_layer_ids": [1, 3, 5], "use_aux_hidden_state": True},
        },
        _shapes("midlayer", VOCABULARY, hidden=_NARROW, size=_WIDE_SIZE, embedding=True),
        taps=(2, 4, 6),
        columns=VOCABULARY,
    ),
    "speculators": Head(_speculators(COLUMNS, {}), _shapes("layers.0", COLUMNS, embedding=True)),
    "speculators-residual": Head(
        _speculators(COLUMNS, {}, norm_before_residual=False), _shapes("layers.0", COLUMNS, embedding=True)
    ),
    "speculators-qwen3": Head(
        _speculators(
            VOCABULARY, {"model_type": "qwen3"}, norm_before_fc=True, eagle_aux_hidden_state_layer_ids=[1, 3, 5, LAYERS]
        ),
        {
            **_shapes("layers.0", VOCABULARY, taps=4, embedding=True),
            **{f"layers.0.{name}": shape for name, shape in _QWEN.items()},
            "input_norm.weight": (4 * HIDDEN,),
        },
        taps=(1, 3, 5, LAYERS),
        columns=VOCABULARY,
    ),
    "speculators-fc-norms": Head(
        _speculators(COLUMNS, {}, fc_norm=True, norm_output=True),
        {**_shapes("layers.0", COLUMNS, embedding=True), **_FC_NORMS},
    ),
}

_SECOND = {key: value for key, value in _AUTHORS.items() if key not in ("architectures", "draft_vocab_size")}
EAGLE_HEADS["eagle2"] = Head(
    {**_SECOND, "architectures": ["EagleLlamaForCausalLM"], "bias": True},
    {
        "fc.weight": (HIDDEN, 2 * HIDDEN),
        "fc.bias": (HIDDEN,),
        "embed_tokens.weight": (VOCABULARY, HIDDEN),
        **{f"layers.0.{name}": shape for name, shape in _layer(HIDDEN, HIDDEN, SIZE).items() if name != "input_layernorm.weight"},
    },
    taps=(),
    columns=VOCABULARY,
)
"""EAGLE-1 and 2 share a head: no norm before its attention, none after its layer, and the target's own head."""


def write_target(folder: Path) -> Path:
    """Writes the target that all heads draft for."""
    write_description(folder, TARGET)
    write_tensors(folder / "model.safetensors", target_weights())
    return folder


def write_head(folder: Path, name: str, **changes: np.ndarray | None) -> Path:
    """Writes a head's repository, which has no tokenizer. `changes` replace tensors, with "__" for "." in names; None leaves one
    out."""
    made = EAGLE_HEADS[name]
    tensors: dict[str, np.ndarray | None] = {**made.weights()}
    tensors |= {tensor.replace("__", "."): array for tensor, array in changes.items()}
    write_description(folder, made.config, tokens=False)
    write_tensors(folder / "model.safetensors", {key: array for key, array in tensors.items() if array is not None})
    return folder


def reference(name: str) -> Any:
    """Returns the stored outputs of another implementation."""
    return json.loads(path_of(name).read_text(encoding="utf-8"))


def path_of(name: str) -> Path:
    """Returns the file of a head's reference."""
    return REFERENCES / f"{name}.json"


__all__ = ("EAGLE_HEADS", "PROMPT", "TARGET", "Head", "reference", "write_head", "write_target")
