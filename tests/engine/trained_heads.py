"""Writes a tiny trained target and the heads that were trained on its states, MTP and EAGLE-3 (`tests/references/probe`)."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file

from tests.engine.checkpoint_folders import CONVERTED, PUBLISHED, VOCABULARY, tokenizer, write_description, write_tensors

WEIGHTS = Path(__file__).parents[1] / "references" / "probe"
HIDDEN, LAYERS = 48, 4
TAPS = (0, 1, 2)
"""Target layers whose outputs the EAGLE-3 head was trained on."""

_NAMES = ("Ada", "Bo", "Kim", "Lu", "Max", "Zoe")
_VERBS = ("sees", "paints", "sells", "likes")
_COLOURS = ("red", "blue", "green", "black")
_THINGS = ("cat", "house", "boat", "tree", "bird")

_LAYER = {
    "hidden_size": HIDDEN,
    "num_attention_heads": 3,
    "num_key_value_heads": 1,
    "head_dim": 16,
    "intermediate_size": 96,
    "hidden_act": "silu",
    "rms_norm_eps": 1e-6,
    "vocab_size": VOCABULARY,
}
_TEXT = {
    "model_type": "qwen3_5_text",
    **_LAYER,
    "num_hidden_layers": LAYERS,
    "max_position_embeddings": 4096,
    "attention_bias": False,
    "full_attention_interval": 2,
    "layer_types": ["linear_attention", "full_attention"] * 2,
    "tie_word_embeddings": False,
    "eos_token_id": 2,
    "linear_num_key_heads": 1,
    "linear_num_value_heads": 2,
    "linear_key_head_dim": 32,
    "linear_value_head_dim": 32,
    "linear_conv_kernel_dim": 4,
    "rope_parameters": {"rope_type": "default", "rope_theta": 10000, "partial_rotary_factor": 0.5},
    "mtp_num_hidden_layers": 1,
}
TARGET: Mapping[str, Any] = {"model_type": "qwen3_5", "tie_word_embeddings": False, "text_config": _TEXT}
EAGLE: Mapping[str, Any] = {
    "architectures": ["Eagle3DraftModel"],
    "speculators_model_type": "eagle3",
    "draft_vocab_size": VOCABULARY,
    "norm_before_residual": False,
    "norm_output": False,
    "eagle_aux_hidden_state_layer_ids": [tap + 1 for tap in TAPS],
    "transformer_layer_config": {
        "model_type": "llama",
        **_LAYER,
        "max_position_embeddings": 2048,
        "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0},
    },
}


def sentences(seed: int, length: int) -> list[int]:
    """Returns tokens of sentences with a fixed grammar and random words; a sentence's last word is its first again."""
    generator = np.random.default_rng(seed)
    words = (
        f"{name} {generator.choice(_VERBS)} the {generator.choice(_COLOURS)} {generator.choice(_THINGS)}, says {name}. "
        for name in (generator.choice(_NAMES) for _ in itertools.count())
    )
    text = "".join(itertools.islice(words, 1 + length // 20))
    return list(tokenizer().encode(text).ids[:length])


def read(name: str) -> dict[str, np.ndarray]:
    """Returns stored tensors in float32, by their names in a file."""
    return {key: array.astype(np.float32) for key, array in load_file(WEIGHTS / f"{name}.safetensors").items()}


def write_target(folder: Path, metadata: Mapping[str, str] = PUBLISHED, change: Mapping[str, Any] | None = None) -> Path:
    """Writes the target, as MLX converts it, and its MTP head beside it, as published: norms are stored as their weight less one.

    Args:
        metadata: what the head's file says that wrote it. change: entries that are added to config.json.
    """
    write_description(folder, {**TARGET, **(change or {})})
    write_tensors(folder / "model.safetensors", read("target"), CONVERTED)
    write_tensors(folder / "mtp.safetensors", read("mtp"), metadata)
    return folder


def write_eagle(folder: Path, change: Mapping[str, Any] | None = None, ids: Sequence[int] = ()) -> Path:
    """Writes the EAGLE-3 head in the packaging of speculators.

    Args:
        change: entries of config.json. ids: ascending, the only tokens that it drafts; empty for all.
    """
    config, tensors = {**EAGLE, **(change or {})}, read("eagle")
    if ids:
        config["draft_vocab_size"] = len(ids)
        tensors["lm_head.weight"] = tensors["lm_head.weight"][list(ids)]
        tensors["d2t"] = np.array(ids) - np.arange(len(ids))
    write_description(folder, config, tokens=False)
    write_tensors(folder / "model.safetensors", tensors)
    return folder
