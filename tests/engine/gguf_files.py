"""Tiny models of every supported architecture as GGUF files, and as the mlx-lm folders they were made from.

The model is one of mlx-lm's own, random. Tensors are named by the `gguf` package, and its writer writes the entries that
llama.cpp's conversion writes. What is quantised is dequantised again by the package for the folder; types that it cannot
quantise to are random blocks. Nothing here uses the code under test.
"""

from __future__ import annotations

import importlib
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import gguf
import mlx.core as mx
import mlx.nn as nn
import numpy as np
from gguf.quants import dequantize, quantize
from mlx.utils import tree_flatten
from safetensors.numpy import save_file

from tests.engine import tiny_models
from tests.engine.families import sharpen

LAYERS, HIDDEN, CONTEXT, WINDOW = 2, 256, 128, 16
MATRIX_KINDS = (
    "F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL", "IQ4_XS",
    "MXFP4",
)  # fmt: skip
HALVES: dict[str, tuple[tuple[int, float], ...]] = {
    "Q2_K": ((80, 1 / 11), (82, 1.5 / 11)),
    "Q3_K": ((108, 1 / 40),),
    "Q4_K": ((0, 1 / 150), (2, 7.5 / 150)),
    "Q5_K": ((0, 1 / 300), (2, 15.5 / 300)),
    "Q6_K": ((208, 1 / 1400),),
    "IQ4_NL": ((0, 1 / 70),),
    "IQ4_XS": ((0, 1 / 1300),),
}
"""Where a block keeps its numbers of half precision, and how large they are for weights of order one."""


def random_blocks(kind: str, rows: int, columns: int, generator: np.random.Generator, size: float = 1.0) -> np.ndarray:
    """(rows, bytes) uint8: random codes under scales that give weights of about `size`."""
    weights, taken = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[kind]]
    raw = generator.integers(0, 256, (rows * columns // weights, taken), dtype=np.uint8)
    for place, unit in HALVES[kind]:
        halves = (unit * size * generator.uniform(0.8, 1.2, (len(raw), 1))).astype(np.float16)
        raw[:, place : place + 2] = halves.view(np.uint8)
    return raw.reshape(rows, -1)


Writer = gguf.GGUFWriter
Said = Callable[[Writer, dict[str, Any]], None]


@dataclass(frozen=True)
class Kind:
    """An architecture: mlx-lm's name and settings, llama.cpp's name and what its conversion writes and changes."""

    module: str
    arch: gguf.MODEL_ARCH
    settings: dict[str, Any] = field(default_factory=dict)
    said: Said = lambda writer, config: None
    permuted: bool = False
    norm_shift: float = 0.0
    extra: Callable[[dict[str, Any]], dict[str, np.ndarray]] = lambda config: {}


def _experts(writer: Writer, config: dict[str, Any]) -> None:
    writer.add_expert_count(4)
    writer.add_expert_used_count(2)
    if width := config.get("moe_intermediate_size"):
        writer.add_expert_feed_forward_length(width)


def _shared_expert(writer: Writer, config: dict[str, Any]) -> None:
    _experts(writer, config)
    writer.add_expert_shared_feed_forward_length(config["shared_expert_intermediate_size"])


def _gemma2(writer: Writer, config: dict[str, Any]) -> None:
    writer.add_attn_logit_softcapping(config["attn_logit_softcapping"])
    writer.add_final_logit_softcapping(config["final_logit_softcapping"])
    writer.add_sliding_window(CONTEXT)  # mlx-lm's Gemma 2 has no window


def _gemma3(writer: Writer, config: dict[str, Any]) -> None:
    writer.add_sliding_window(config["sliding_window"])
    writer.add_sliding_window_pattern(config["sliding_window_pattern"])
    writer.add_rope_freq_base_swa(config["rope_local_base_freq"])
    writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
    writer.add_rope_scaling_factor(config["rope_scaling"]["factor"])


def _gemma4(writer: Writer, config: dict[str, Any]) -> None:
    layers = [kind == "sliding_attention" for kind in config["layer_types"]]
    shared = config["num_kv_shared_layers"]
    writer.add_shared_kv_layers(shared)
    writer.add_embedding_length_per_layer_input(config["hidden_size_per_layer_input"])
    writer.add_sliding_window_pattern(layers)
    writer.add_sliding_window(config["sliding_window"])
    for add in (writer.add_key_length, writer.add_value_length):
        add(config["global_head_dim"])
    for add in (writer.add_key_length_swa, writer.add_value_length_swa):
        add(config["head_dim"])
    wide = config["intermediate_size"]
    writer.add_feed_forward_length([wide * 2 if layer >= len(layers) - shared else wide for layer in range(len(layers))])
    many, few = config["num_key_value_heads"], config["num_global_key_value_heads"]
    writer.add_head_count_kv([many if slides else few for slides in layers] if few else many)
    writer.add_rope_dimension_count(config["global_head_dim"])
    writer.add_rope_dimension_count_swa(config["head_dim"])
    writer.add_rope_freq_base_swa(config["rope_parameters"]["sliding_attention"]["rope_theta"])
    writer.add_final_logit_softcapping(config["final_logit_softcapping"])


def _gemma4_factors(config: dict[str, Any]) -> dict[str, np.ndarray]:
    pairs = config["global_head_dim"] // 2
    rotated = int(pairs * config["rope_parameters"]["full_attention"]["partial_rotary_factor"])
    return {"rope_freqs.weight": np.array([1.0] * rotated + [1e30] * (pairs - rotated), np.float32)}


def _phi3(writer: Writer, config: dict[str, Any]) -> None:
    original = config["original_max_position_embeddings"]
    writer.add_rope_scaling_orig_ctx_len(original)
    stretched = config["max_position_embeddings"] / original
    writer.add_rope_scaling_attn_factors(math.sqrt(1 + math.log(stretched) / math.log(original)))


def _phi3_factors(config: dict[str, Any]) -> dict[str, np.ndarray]:
    scaling = config["rope_scaling"]
    return {f"rope_factors_{side}.weight": np.array(scaling[f"{side}_factor"], np.float32) for side in ("long", "short")}


def _granite(writer: Writer, config: dict[str, Any]) -> None:
    writer.add_logit_scale(config["logits_scaling"])
    writer.add_attention_scale(config["attention_multiplier"])
    writer.add_embedding_scale(config["embedding_multiplier"])
    writer.add_residual_scale(config["residual_multiplier"])


def _granite_moe(writer: Writer, config: dict[str, Any]) -> None:
    _granite(writer, config)
    _experts(writer, config)


def _cohere(writer: Writer, config: dict[str, Any]) -> None:
    writer.add_logit_scale(config["logit_scale"])
    writer.add_layer_norm_eps(config["layer_norm_eps"])
    if "sliding_window" in config:
        writer.add_sliding_window(config["sliding_window"])


def _gpt_oss(writer: Writer, config: dict[str, Any]) -> None:
    _experts(writer, config | {"moe_intermediate_size": config["intermediate_size"]})
    writer.add_sliding_window(config["sliding_window"])
    _yarn(writer, config)


def _glm4_moe(writer: Writer, config: dict[str, Any]) -> None:
    writer.add_expert_count(config["n_routed_experts"])
    writer.add_expert_used_count(config["num_experts_per_tok"])
    writer.add_expert_feed_forward_length(config["moe_intermediate_size"])
    writer.add_expert_shared_count(config["n_shared_experts"])
    writer.add_leading_dense_block_count(config["first_k_dense_replace"])
    writer.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)
    writer.add_expert_weights_scale(config["routed_scaling_factor"])
    writer.add_expert_weights_norm(config["norm_topk_prob"])


def _yarn(writer: Writer, config: dict[str, Any]) -> None:
    scaling = config["rope_scaling"]
    writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
    writer.add_rope_scaling_factor(scaling["factor"])
    writer.add_rope_scaling_orig_ctx_len(scaling["original_max_position_embeddings"])


YARN = {"type": "yarn", "factor": 2.0, "original_max_position_embeddings": 64}
MOE = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 256}
GRANITE = {"logits_scaling": 2.0, "attention_multiplier": 0.1, "embedding_multiplier": 3.0, "residual_multiplier": 0.5}
GEMMA4 = {
    "layer_types": ["sliding_attention", "full_attention", "sliding_attention", "full_attention"],
    "num_hidden_layers": 4,
    "num_kv_shared_layers": 2,
    "hidden_size_per_layer_input": 64,
    "vocab_size_per_layer_input": tiny_models.VOCABULARY,
    "num_global_key_value_heads": None,
    "global_head_dim": 128,
    "final_logit_softcapping": 30.0,
    "rope_parameters": {
        "full_attention": {"partial_rotary_factor": 0.25, "rope_theta": 1e6, "rope_type": "proportional"},
        "sliding_attention": {"rope_theta": 1e4, "rope_type": "default"},
    },
}
LONG = {"type": "longrope", "long_factor": [1.0 + i / 8 for i in range(24)], "short_factor": [1.0] * 24}
A = gguf.MODEL_ARCH
KINDS: dict[str, Kind] = {
    "llama": Kind("llama", A.LLAMA, {"tie_word_embeddings": False}, permuted=True),
    "llama, experts": Kind(
        "mixtral", A.LLAMA, {"num_local_experts": 4, "num_experts_per_tok": 2}, said=_experts, permuted=True
    ),
    "qwen2": Kind("qwen2", A.QWEN2),
    "qwen2moe": Kind("qwen2_moe", A.QWEN2MOE, MOE | {"shared_expert_intermediate_size": 256}, said=_shared_expert),
    "qwen3": Kind("qwen3", A.QWEN3, {"rope_scaling": YARN, "head_dim": 128}, said=_yarn),
    "qwen3moe": Kind(
        "qwen3_moe",
        A.QWEN3MOE,
        MOE | {"decoder_sparse_step": 1, "mlp_only_layers": [], "norm_topk_prob": True},
        said=_experts,
    ),
    "gemma": Kind("gemma", A.GEMMA, norm_shift=1.0),
    "gemma2": Kind(
        "gemma2",
        A.GEMMA2,
        {"attn_logit_softcapping": 40.0, "final_logit_softcapping": 20.0, "query_pre_attn_scalar": 64},
        said=_gemma2,
        norm_shift=1.0,
    ),
    "gemma3": Kind(
        "gemma3_text",
        A.GEMMA3,
        {"sliding_window": WINDOW, "sliding_window_pattern": 2, "query_pre_attn_scalar": 64, "rope_local_base_freq": 1e4}
        | {"rope_scaling": {"rope_type": "linear", "factor": 8.0}},
        said=_gemma3,
        norm_shift=1.0,
    ),
    "gemma4": Kind("gemma4_text", A.GEMMA4, GEMMA4 | {"sliding_window": WINDOW}, said=_gemma4, extra=_gemma4_factors),
    "gemma4, k = v": Kind(
        "gemma4_text",
        A.GEMMA4,
        GEMMA4
        | {"sliding_window": WINDOW, "attention_k_eq_v": True, "num_global_key_value_heads": 1}
        | {"num_kv_shared_layers": 0, "hidden_size_per_layer_input": 0},
        said=_gemma4,
        extra=_gemma4_factors,
    ),
    "phi3": Kind(
        "phi3",
        A.PHI3,
        {"rope_scaling": LONG, "partial_rotary_factor": 0.75, "original_max_position_embeddings": 64},
        said=_phi3,
        extra=_phi3_factors,
    ),
    "granite": Kind("granite", A.GRANITE, GRANITE, said=_granite, permuted=True),
    "granitemoe": Kind("granitemoe", A.GRANITE_MOE, GRANITE | {"num_local_experts": 4, "num_experts_per_tok": 2},
                       said=_granite_moe, permuted=True),
    "smollm3": Kind("smollm3", A.SMOLLM3, permuted=True),
    "olmo2": Kind("olmo2", A.OLMO2, {"tie_word_embeddings": False}),
    "command-r": Kind("cohere", A.COMMAND_R, {"layer_norm_eps": 1e-5}, said=_cohere),
    "command-r, norms": Kind("cohere", A.COMMAND_R, {"layer_norm_eps": 1e-5, "use_qk_norm": True}, said=_cohere),
    "cohere2": Kind(
        "cohere2",
        A.COHERE2,
        {"layer_norm_eps": 1e-5, "sliding_window": WINDOW, "num_hidden_layers": 4},
        said=_cohere,
    ),
    "starcoder2": Kind("starcoder2", A.STARCODER2, {"norm_epsilon": 1e-5}),
    "seed_oss": Kind("seed_oss", A.SEED_OSS, {"attention_bias": True}),
    "glm4moe": Kind(
        "glm4_moe",
        A.GLM4_MOE,
        {"n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 256, "n_shared_experts": 1, "n_group": 1}
        | {"topk_group": 1, "norm_topk_prob": True, "routed_scaling_factor": 1.5, "first_k_dense_replace": 1}
        | {"attention_bias": True, "use_qk_norm": True, "partial_rotary_factor": 0.5, "tie_word_embeddings": False},
        said=_glm4_moe,
    ),
    "gpt-oss": Kind(
        "gpt_oss",
        A.GPT_OSS,
        {"num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": WINDOW, "head_dim": 64}
        | {"layer_types": ["sliding_attention", "full_attention"], "rope_scaling": YARN | {"rope_type": "yarn"}},
        said=_gpt_oss,
    ),
}  # fmt: skip
"""By the name in `general.architecture`, with what distinguishes two of one name."""


def config_of(name: str) -> dict[str, Any]:
    """config.json of the tiny model."""
    return {
        "model_type": KINDS[name].module,
        "hidden_size": HIDDEN,
        "num_hidden_layers": LAYERS,
        "intermediate_size": 256,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 64,
        "rms_norm_eps": 1e-5,
        "vocab_size": tiny_models.VOCABULARY,
        "max_position_embeddings": CONTEXT,
        "rope_theta": 1e4,
        "rope_scaling": None,
        "tie_word_embeddings": True,
        "attention_bias": False,
        "mlp_bias": False,
        "layer_norm_bias": False,
        "logit_scale": 0.25,
        "eos_token_id": 2,
    } | KINDS[name].settings


def write_pair(name: str, kind: str, folder: Path, seed: int = 0) -> tuple[Path, Path]:
    """A GGUF file with its matrices of type `kind`, and the mlx-lm folder of the same weights, dequantised."""
    made, config = KINDS[name], config_of(name)
    module = importlib.import_module(f"mlx_lm.models.{made.module}")
    mx.random.seed(seed)
    model: nn.Module = module.Model(module.ModelArgs.from_dict(config))
    sharpen(model, 2.0, fill=True)
    folder.mkdir(exist_ok=True)
    path = folder / "model.gguf"
    writer = Writer(path, gguf.MODEL_ARCH_NAMES[made.arch])
    _say(writer, made, config)
    number, generator = gguf.GGMLQuantizationType[kind], np.random.default_rng(seed)
    kept: dict[str, np.ndarray] = {}
    names = gguf.get_tensor_name_map(made.arch, config["num_hidden_layers"])
    for parameter, array in tree_flatten(model.parameters()):
        weight = np.array(array)
        called = _gguf_name(parameter, names)
        stays = weight.ndim == 1 or weight.shape[-1] % 256 or "gate_inp" in called
        if stays:
            shifted = weight + np.float32(made.norm_shift) if called.endswith("norm.weight") else weight
            writer.add_tensor(called, _permuted(called, shifted, made, config) if weight.ndim == 1 else weight)
            kept[parameter] = weight
            continue
        raw = _quantised(_permuted(called, weight, made, config), kind, generator)
        writer.add_tensor(called, raw, raw_dtype=number)
        back = dequantize(raw, number).astype(np.float32).reshape(weight.shape)
        kept[parameter] = _permuted(called, back, made, config, undo=True)
    for called, array in made.extra(config).items():
        writer.add_tensor(called, array)
    tiny_models.finish(writer)
    other = folder / "folder"
    other.mkdir()
    (other / "config.json").write_text(json.dumps(config))
    save_file({key: np.ascontiguousarray(array) for key, array in kept.items()}, other / "model.safetensors")
    return path, other


def write_published(path: Path, name: str, config: dict[str, Any], tensors: Mapping[str, np.ndarray], kind: str = "F32") -> Path:
    """A GGUF file of a published checkpoint with its MTP head, which llama.cpp's conversion writes as further blocks.

    Args:
        config: with `num_nextn_predict_layers`. tensors: by their published names, experts stacked, or by GGUF's names.
    """
    made, head = KINDS[name], config["num_nextn_predict_layers"]
    blocks = config["num_hidden_layers"] + head
    writer = Writer(path, gguf.MODEL_ARCH_NAMES[made.arch])
    _say(writer, made, config | {"num_hidden_layers": blocks}, _characters(config["vocab_size"]))
    writer.add_nextn_predict_layers(head)
    names, number = gguf.get_tensor_name_map(made.arch, blocks), gguf.GGMLQuantizationType[kind]
    for tensor, array in tensors.items():
        called = tensor if tensor.startswith("blk.") else _gguf_name(tensor, names)
        stays = array.ndim == 1 or "gate_inp" in called
        raw = array if stays else quantize(array, number)
        writer.add_tensor(called, raw, raw_dtype=None if stays else number)
    tiny_models.finish(writer)
    return path


def _characters(width: int) -> dict[str, Any]:
    """Metadata of a tokenizer of as many tokens, one character each."""
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{code:02X}>" for code in range(width - 3))]
    return {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.scores": [0.0] * width,
        "tokenizer.ggml.token_type": [2, 3, 3, *[6] * (width - 3)],
        "tokenizer.ggml.eos_token_id": 2,
    }


def unpacked(layer: nn.Module) -> mx.array:
    """The weights of a quantised layer in float32, by MLX."""
    if layer.mode != "affine":
        return mx.dequantize(layer.weight, layer.scales, group_size=layer.group_size, bits=layer.bits, mode=layer.mode).astype(
            mx.float32
        )
    parts = (part.astype(mx.float32) for part in (layer.scales, layer.biases))
    return mx.dequantize(layer.weight, *parts, group_size=layer.group_size, bits=layer.bits)


def _quantised(weight: np.ndarray, kind: str, generator: np.random.Generator) -> np.ndarray:
    if kind in HALVES:
        rows, columns = int(np.prod(weight.shape[:-1])), weight.shape[-1]
        return random_blocks(kind, rows, columns, generator, float(weight.std())).reshape(*weight.shape[:-1], -1)
    return quantize(weight, gguf.GGMLQuantizationType[kind])


def _gguf_name(parameter: str, names: gguf.TensorNameMap) -> str:
    """The `gguf` package's name; that of stacked experts is what the conversion calls them."""
    known = parameter.replace("block_sparse_moe.switch_mlp", "mlp.experts").replace("mlp.switch_mlp", "mlp.experts")
    known = known.replace("e_score_correction_bias", "e_score_correction.bias")
    found = names.get_name(known, try_suffixes=(".weight", ".bias"))
    assert found is not None, parameter
    return found if found.endswith((".weight", ".bias")) else f"{found}.weight"


def _permuted(name: str, array: np.ndarray, made: Kind, config: dict[str, Any], undo: bool = False) -> np.ndarray:
    """Query and key rows in the order of interleaved rotary embeddings (`LlamaModel.permute` of the conversion), or back."""
    part = name.split(".")[-2]
    heads = {"attn_q": config["num_attention_heads"], "attn_k": config["num_key_value_heads"]}.get(part)
    if not made.permuted or heads is None:
        return array
    inner = (-1, 2) if undo else (2, -1)
    return np.ascontiguousarray(array.reshape(heads, *inner, *array.shape[1:]).swapaxes(1, 2).reshape(array.shape))


def _say(writer: Writer, made: Kind, config: dict[str, Any], tokenizer: Mapping[str, Any] = MappingProxyType({})) -> None:
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_head_count(config["num_attention_heads"])
    theta = config.get("rope_parameters", {}).get("full_attention", config)["rope_theta"]
    writer.add_rope_freq_base(theta)
    if made.module != "gemma4_text":
        writer.add_feed_forward_length(config["intermediate_size"])
        writer.add_head_count_kv(config["num_key_value_heads"])
        writer.add_key_length(config["head_dim"])
        writer.add_value_length(config["head_dim"])
        writer.add_rope_dimension_count(int(config["head_dim"] * config.get("partial_rotary_factor", 1)))
    if "norm_epsilon" in config:
        writer.add_layer_norm_eps(config["norm_epsilon"])
    elif "layer_norm_eps" not in config:
        writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    made.said(writer, config)
    for key, value in (tokenizer or tiny_models.metadata()).items():
        if key.startswith("tokenizer."):
            tiny_models.say(writer, key, value)
