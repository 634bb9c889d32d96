"""Tiny random models of every architecture that mlx-lm has, made from its own model files.

Sizes follow from the names of an architecture's settings (`SIZES`); further settings of an architecture are in `FAMILIES`.
Windows and chunks are `WINDOW` tokens, so that a short text exceeds them.
"""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import mlx.core as mx
import mlx.nn as nn
import mlx_lm.models
from mlx.utils import tree_flatten, tree_map_with_path

from engine.drafters.base import Drafter, Proceed, always
from engine.drafters.draft import Draft, DraftContext, DrafterCapabilities, DraftPlan
from engine.drafters.sampler import Sampler

VOCAB = 97
WINDOW = 16
LAYERS = 4
ALTERNATING = ["sliding_attention", "full_attention"] * (LAYERS // 2)

SIZES: Mapping[str, Any] = MappingProxyType(
    {
        **dict.fromkeys(("vocab_size", "vocab_size_per_layer_input"), VOCAB),
        **dict.fromkeys(("num_hidden_layers", "num_layers", "n_layers", "n_layer"), LAYERS),
        **dict.fromkeys(("hidden_size", "hidden_dim", "d_model", "n_embd", "dim_model_base", "block_dim", "embedding_dim"), 64),
        **dict.fromkeys(("intermediate_size", "ffn_hidden_size", "intermediate_size_mlp", "block_ff_dim"), 96),
        **dict.fromkeys(("moe_intermediate_size", "shared_intermediate_size", "expert_ffn_hidden_size"), 32),
        **dict.fromkeys(("shared_expert_intermediate_size", "moe_shared_expert_intermediate_size"), 32),
        **dict.fromkeys(("num_attention_heads", "num_heads", "n_heads", "n_head", "swa_num_attention_heads"), 4),
        **dict.fromkeys(("num_key_value_heads", "num_kv_heads", "n_kv_heads", "swa_num_key_value_heads"), 2),
        **dict.fromkeys(("head_dim", "global_head_dim", "v_head_dim", "swa_head_dim", "swa_v_head_dim", "qk_nope_head_dim"), 16),
        **dict.fromkeys(("qk_rope_head_dim", "rotary_dim", "kv_lora_rank", "q_lora_rank", "index_head_dim"), 8),
        **dict.fromkeys(("rms_norm_eps", "layer_norm_eps", "norm_eps", "layer_norm_epsilon", "layernorm_epsilon"), 1e-5),
        **dict.fromkeys(("rope_theta", "swa_rope_theta", "rope_local_base_freq", "rotary_emb_base"), 1e4),
        **dict.fromkeys(("max_position_embeddings", "n_positions", "n_ctx", "block_size", "model_max_length"), 4096),
        **dict.fromkeys(
            ("sliding_window", "sliding_window_size", "attention_window_size", "window_size", "loop_window_size"), WINDOW
        ),
        **dict.fromkeys(("attention_chunk_size",), WINDOW),
        **dict.fromkeys(("sliding_window_pattern",), 2),
        **dict.fromkeys(("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts"), 4),
        **dict.fromkeys(("num_experts_per_tok", "num_experts_per_token", "moe_topk", "moe_k"), 2),
        **dict.fromkeys(("num_shared_experts", "n_shared_experts", "num_shared_expert", "decoder_sparse_step"), 1),
        **dict.fromkeys(("n_group", "topk_group", "num_dense_layers", "first_k_dense_replace", "moe_layer_freq"), 1),
        **dict.fromkeys(
            ("attention_bias", "mlp_bias", "use_bias", "tie_word_embeddings", "use_qk_norm", "norm_topk_prob"), False
        ),
        **dict.fromkeys(("logits_scaling", "attention_multiplier", "embedding_multiplier", "residual_multiplier"), 1.0),
        **dict.fromkeys(("scale_depth", "scale_emb", "routed_scaling_factor"), 1.0),
        "partial_rotary_factor": 0.5,
        "layer_types": ALTERNATING,
        "rope_scaling": None,
        "mlp_only_layers": [],
    }
)
"""Values by the name of the setting, wherever an architecture has it."""

LINEAR = {"linear_num_value_heads": 4, "linear_num_key_heads": 2, "linear_key_head_dim": 16, "linear_value_head_dim": 16}
LINEAR |= {"linear_conv_kernel_dim": 4}
MAMBA = {"mamba_n_heads": 4, "mamba_d_head": 16, "mamba_d_state": 8, "mamba_d_conv": 4, "mamba_n_groups": 1}
PLAIN_MAMBA = {"state_size": 8, "conv_kernel": 4, "use_conv_bias": True}
LFM2 = {"norm_eps": 1e-5, "conv_bias": False, "conv_L_cache": 3, "full_attn_idxs": [1, 3], "layer_types": None}
KIMI_LINEAR = {"kda_layers": [1, 2, 3], "full_attn_layers": [4], "num_heads": 4, "head_dim": 16, "short_conv_kernel_size": 4}
QWEN_HYBRID = LINEAR | {"full_attention_interval": 2, "layer_types": None}
LONGCAT = {"attention_method": "MLA", "zero_expert_type": "identity", "zero_expert_num": 1, "mla_scale_q_lora": True}
LONGCAT |= {"mla_scale_kv_lora": True}
ROPE = {"rope_theta": 1e4, "rope_type": "default", "type": "default"}
YARN = {"type": "yarn", "factor": 2.0, "original_max_position_embeddings": 4096, "mscale_all_dim": 1.0, "mscale": 1.0}
BY_TYPE = {"full_attention": ROPE, "sliding_attention": ROPE}
LLAMA_4_ROPE = ROPE | {"llama_4_scaling_beta": 0.1, "original_max_position_embeddings": 4096}
SPARSE_INDEX = {"index_n_heads": 2, "index_topk": 64, "topk_method": "noaux_tc", "scoring_func": "sigmoid"}

FAMILIES: dict[str, dict[str, Any]] = {
    "afm7": {"num_kv_reuse_layers": 2},
    "apertus": {"post_norm": True, "qk_norm": True},
    "baichuan_m1": {"sliding_window_layers": [0, 2], "conv_window": 2},
    "bailing_hybrid": {"layer_group_size": 2, "group_norm_size": 2},
    "bailing_moe_linear": {"layer_group_size": 2, "group_norm_size": 2},
    "dbrx": {"ffn_config": {"ffn_hidden_size": 32, "moe_num_experts": 4, "moe_top_k": 2, "moe_jitter_eps": 0.01}}
    | {"attn_config": {"kv_n_heads": 2, "clip_qkv": 8, "rope_theta": 1e4}},
    "deepseek_v2": {"rope_scaling": YARN, "num_key_value_heads": 4},
    "exaone4": {"sliding_window_pattern": "LG"},
    "exaone_moe": {"is_moe_layer": [False, True] * 2},
    "falcon_h1": MAMBA | {"mamba_d_ssm": 64},
    "gear": {"layer_types": ["conv_mixer", "sliding_attention", "full_attention", "conv_mixer"]},
    "gemma3n": {"num_kv_shared_layers": 2, "final_logit_softcapping": 30.0, "activation_sparsity_pattern": [0.95, 0.0] * 2}
    | {"hidden_size_per_layer_input": 8, "altup_num_inputs": 2, "altup_coef_clip": 120.0, "altup_correct_scale": True}
    | {"altup_active_idx": 0, "laurel_rank": 4},
    "gemma4": {"num_kv_shared_layers": 2, "hidden_size_per_layer_input": 8},
    "gemma4_text": {"num_kv_shared_layers": 2, "hidden_size_per_layer_input": 8},
    "glm_moe_dsa": SPARSE_INDEX | {"rope_parameters": ROPE},
    "gpt2": {"n_inner": 96},
    "gpt_bigcode": {"n_inner": 96},
    "gpt_neox": {"rotary_pct": 0.5, "use_parallel_residual": True},
    "granitemoehybrid": MAMBA | {"layer_types": ["mamba", "attention"] * 2, "mamba_proj_bias": False, "mamba_conv_bias": True},
    "hunyuan": {"use_mixed_mlp_moe": True, "use_cla": False, "cla_share_factor": 2}
    | {"rope_scaling": {"alpha": 1.0, "factor": 1.0, "type": "dynamic"}},
    "jamba": {"attn_layer_offset": 1, "attn_layer_period": 2, "expert_layer_offset": 1, "expert_layer_period": 2}
    | {"mamba_d_conv": 4, "mamba_d_state": 8, "mamba_expand": 2},
    "kimi_k3": {"linear_attn_config": KIMI_LINEAR, "q_lora_rank": None, "first_k_dense_replace": 1},
    "kimi_linear": {"linear_attn_config": KIMI_LINEAR},
    "lfm2": LFM2 | {"block_multiple_of": 16, "block_ffn_dim_multiplier": 1.0, "block_auto_adjust_ff_dim": False},
    "lfm2-vl": LFM2 | {"block_multiple_of": 16, "block_ffn_dim_multiplier": 1.0, "block_auto_adjust_ff_dim": False},
    "lfm2_moe": LFM2 | {"use_expert_bias": True},
    "llama4": {"interleave_moe_layer_step": 2, "num_experts_per_tok": 1},
    "llama4_text": {"no_rope_layers": [1, 1, 1, 0]},
    "longcat_flash": LONGCAT,
    "longcat_flash_ngram": LONGCAT | {"ngram_vocab_size_ratio": 3, "emb_neighbor_num": 3, "emb_split_num": 2},
    "mamba": PLAIN_MAMBA | {"time_step_rank": 4},
    "mamba2": PLAIN_MAMBA | {"time_step_rank": 4, "n_groups": 1, "time_step_limit": [0.001, 100.0], "num_heads": 8},
    "mellum": {"rope_parameters": BY_TYPE},
    "mimo_v2_flash": {"hybrid_layer_pattern": [1, 0] * 2, "moe_layer_freq": [0, 1] * 2, "topk_method": "noaux_tc"}
    | {"add_swa_attention_sink_bias": True, "add_full_attention_sink_bias": False, "scoring_func": "sigmoid"},
    "minicpm3": {"rope_scaling": {"original_max_position_embeddings": 4096, "short_factor": 1.0, "long_factor": 1.0}},
    "minimax_m3_vl": {"moe_layer_freq": [0, 1] * 2},
    "ministral3": {"rope_parameters": LLAMA_4_ROPE},
    "mistral3": {"rope_parameters": LLAMA_4_ROPE},
    "mistral4": {"rope_parameters": LLAMA_4_ROPE | YARN},
    "nemotron": {"hidden_act": "relu2"},
    "nemotron-nas": {
        "block_configs": [{"attention": {"n_heads_in_group": 2}, "ffn": {"ffn_mult": 1.5}} for _ in range(LAYERS)],
    },
    "nemotron_h": PLAIN_MAMBA
    | {"mamba_num_heads": 4, "mamba_head_dim": 16, "mamba_proj_bias": False, "ssm_state_size": 8, "n_groups": 1}
    | {"hybrid_override_pattern": ["M", "*", "-", "M"], "layer_types": None},
    "olmo_hybrid": LINEAR | {"linear_allow_neg_eigval": True, "layer_types": ["linear_attention", "full_attention"] * 2},
    "openelm": {"num_transformer_layers": LAYERS, "model_dim": 64, "ffn_dim_divisor": 16, "num_query_heads": [4] * LAYERS}
    | {"ffn_multipliers": [2.0] * LAYERS, "num_kv_heads": [2] * LAYERS},
    "phi3small": {"dense_attention_every_n_layers": 2, "ff_intermediate_size": 96, "gegelu_limit": 20.0},
    "phixtral": {
        "num_vocab": VOCAB,
        "model_dim": 64,
        "num_heads": 4,
        "num_layers": LAYERS,
        "rotary_dim": 8,
        "num_local_experts": 4,
    },
    "plamo": {"n_shared_head": 2},
    "plamo2": {"mamba_d_state": 8, "mamba_num_heads": 4, "hidden_size_per_head": 16},
    "qwen": {"kv_channels": 16, "num_key_value_heads": 4},
    "qwen3_5": QWEN_HYBRID | {"rope_parameters": ROPE | {"partial_rotary_factor": 0.5}},
    "qwen3_5_moe": QWEN_HYBRID | {"rope_parameters": ROPE | {"partial_rotary_factor": 0.5}},
    "qwen3_next": QWEN_HYBRID,
    "recurrent_gemma": {"conv1d_width": 4, "logits_soft_cap": 30.0, "block_types": ["recurrent", "attention"]},
    "rwkv7": {"a_low_rank_dim": 8, "v_low_rank_dim": 8, "gate_low_rank_dim": 8, "decay_low_rank_dim": 8},
    "spark2_5": {"rope_parameters": BY_TYPE},
    "stablelm": {"use_qkv_bias": False},
    "step3p5": {"num_attention_groups": 2, "moe_top_k": 2, "share_expert_dim": 32, "moe_layers_enum": "2,3"},
}
"""What an architecture needs beyond `SIZES`."""

TEXTS = {
    "gemma3": "gemma3_text",
    "gemma4": "gemma4_text",
    "lfm2-vl": "lfm2",
    "mistral3": "ministral3",
    "pixtral": "llama",
    "qwen2_vl": "qwen2",
    "qwen3_vl": "qwen3",
    "qwen3_vl_moe": "qwen3_moe",
    "qwen3_5_moe": "qwen3_5",
}
"""Architectures whose text model is one of its own."""


LOUD = {"gemma2": 8.0, "gemma3n": 8.0}
"""Head and embedding are one here, and the embedding is most of what reaches the head: a tiny random model says its last token
over and over unless the norms behind its layers are this many times larger."""


NOT_BUILT = {
    "bitnet": "its layers exist for Apple's GPU only",
    "muse_spark": "its layers exist for Apple's GPU only",
    "phi3small": "a tiny random one crashes MLX on Linux in mlx-lm's own plain loop",
    "prism_hadamard_qwen35": "it needs a file of packed 2-bit weights; its layers are those of qwen3_5",
}
"""Architectures without a tiny random model, and why."""


def architectures() -> list[str]:
    """The names of mlx-lm's model files that hold a model."""
    found = []
    for module in pkgutil.iter_modules(mlx_lm.models.__path__):
        try:
            loaded = importlib.import_module(f"mlx_lm.models.{module.name}")
        except ImportError:
            continue
        except SystemExit:
            continue
        if hasattr(loaded, "Model") and hasattr(loaded, "ModelArgs"):
            found.append(module.name)
    return found


def config_of(name: str, sizes: Mapping[str, Any] = SIZES) -> dict[str, Any]:
    """The config.json of a tiny model of this architecture. `FAMILIES` describes the text model."""
    arguments = importlib.import_module(f"mlx_lm.models.{name}").ModelArgs
    given = FAMILIES.get(name, {})
    text = text_arguments(name)
    if text is not None:
        described = {"text_config": _sized(text, given, sizes) | {"model_type": TEXTS.get(name, name)}}
        return _sized(arguments, described, sizes) | {"model_type": name}
    return _sized(arguments, given, sizes) | {"model_type": name}


def _sized(arguments: Any, given: dict[str, Any], sizes: Mapping[str, Any]) -> dict[str, Any]:
    return {field.name: sizes[field.name] for field in dataclasses.fields(arguments) if field.name in sizes} | given


def text_arguments(name: str) -> Any:
    """The dataclass of the text model's settings where they are described apart; None where they are not."""
    module = importlib.import_module(f"mlx_lm.models.{TEXTS.get(name, name)}")
    if name in TEXTS and TEXTS[name] != "qwen3_5":
        return module.ModelArgs
    return next((getattr(module, kind) for kind in ("TextArgs", "TextConfig", "TextModelArgs") if hasattr(module, kind)), None)


def tiny(
    name: str, seed: int = 0, by: float = 2.0, fill: bool = False, sizes: Mapping[str, Any] = SIZES, **given: Any
) -> nn.Module:
    """A random model of this architecture, its weights `by` times as large as mlx-lm makes them.

    Args:
        fill: weights that mlx-lm leaves at 0 become random too.
        sizes: values by the name of the setting, wherever the architecture has it.
        given: other settings than those of `config_of`.
    """
    module = importlib.import_module(f"mlx_lm.models.{name}")
    mx.random.seed(seed)
    model: nn.Module = module.Model(module.ModelArgs.from_dict(config_of(name, sizes) | given))
    sharpen(model, by, fill)
    if name in LOUD:
        louder = {path: weight * LOUD[name] for path, weight in tree_flatten(model.parameters()) if ".post_" in path}
        model.load_weights([*louder.items()], strict=False)
    return model


def sharpen(model: nn.Module, by: float, fill: bool = False) -> None:
    """Random weights make a nearly uniform head and layers that hardly matter: larger ones have opinions."""

    def larger(path: str, weight: mx.array) -> mx.array:
        if fill and not weight.any():
            return mx.random.normal(weight.shape).astype(weight.dtype) * 0.3
        return weight * by if weight.ndim > 1 and mx.issubdtype(weight.dtype, mx.floating) else weight

    model.update(tree_map_with_path(larger, model.parameters()))
    mx.eval(model.parameters())


def varies(text: Sequence[int]) -> bool:
    """Whether a text is neither constant nor soon periodic: of one that repeats itself, equality would prove little."""
    last = list(text[-60:])
    repeats = any(last[period:] == last[:-period] for period in range(1, 21))
    return len(set(text)) > 12 and not repeats


class Scripted(Drafter):
    """Proposes a known text with a wrong token at every `every`-th place, so that every length is accepted and rejected."""

    name = "scripted"
    capabilities = DrafterCapabilities(samples=False)

    def __init__(self, text: Sequence[int], every: int) -> None:
        self._text, self._every, self._length = list(text), every, 0

    def start(self, context: DraftContext, proceed: Proceed = always) -> bool:
        self._length = len(context.tokens)
        return True

    def propose(self, plan: DraftPlan, sampler: Sampler) -> Draft:
        places = range(self._length, min(self._length + plan.length, len(self._text)))
        return sampler.copied([(self._text[place] + (place % self._every == 0)) % VOCAB for place in places])

    def commit(self, path: Sequence[int], tokens: Sequence[int], hidden_states: mx.array | None) -> None:
        self._length += len(tokens)
