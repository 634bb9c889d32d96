"""Tiny checkpoints with MTP heads: per family the published config.json and tensor names, and every packaging seen in public.

The weights follow from `SEED` and the tensors' names (`seeded_weights`). `tests/references/mtp` holds logits of other
implementations for them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from tests.engine import seeded_weights
from tests.engine.checkpoint_folders import CONVERTED, VOCABULARY, write_description, write_tensors
from tests.engine.seeded_weights import Shape

SEED = 46
HIDDEN, HEADS, KEY_HEADS, SIZE, FEED_FORWARD, LAYERS = 64, 4, 2, 32, 96, 4
EXPERTS, EXPERT = 4, 32
REFERENCES = Path(__file__).parents[1] / "references" / "mtp"
PROMPT = (1, 76, 9, 33, 71, 5, 98, 71, 9, 33, 60, 12)


@dataclass(frozen=True)
class Family:
    """A family of checkpoints.

    Attributes:
        config: its config.json. target: shapes of the target's tensors. head: shapes of the head's tensors, by their published
            names. zero_centred: whether its norms are stored as their weight less one. drafter_type, block_size, drafter_text:
            entries that mlx-vlm writes into the config.json of a drafter repository, and adds to its `text_config`.
    """

    config: Mapping[str, Any]
    target: Mapping[str, Shape]
    head: Mapping[str, Shape]
    zero_centred: bool = False
    drafter_type: str = ""
    block_size: int = 2
    drafter_text: Mapping[str, Any] = field(default_factory=dict)

    def target_weights(self) -> dict[str, np.ndarray]:
        """Returns the target's tensors as published."""
        return seeded_weights.weights(self.target, SEED, self.zero_centred)

    def head_weights(self) -> dict[str, np.ndarray]:
        """Returns the head's tensors as published. Copies of the target's embedding and head are equal to them."""
        made = seeded_weights.weights(self.head, SEED, self.zero_centred)
        target = self.target_weights()
        for name in made:
            if name.endswith(".embed_tokens.weight"):
                made[name] = target["model.embed_tokens.weight"]
            elif name.endswith((".shared_head.head.weight", ".shared_head.output.weight")):
                made[name] = target["lm_head.weight"]
        return made

    def fingerprint(self) -> str:
        """Returns the hash under which references were stored."""
        return seeded_weights.fingerprint(self.target_weights() | self.head_weights())


def prefixed(prefix: str, shapes: Mapping[str, Shape]) -> dict[str, Shape]:
    """Returns the same shapes with a prefix before each name."""
    return {f"{prefix}{name}": shape for name, shape in shapes.items()}


def _mlp(width: int) -> dict[str, Shape]:
    return {
        "gate_proj.weight": (width, HIDDEN),
        "up_proj.weight": (width, HIDDEN),
        "down_proj.weight": (HIDDEN, width),
    }


def _norms() -> dict[str, Shape]:
    return {"input_layernorm.weight": (HIDDEN,), "post_attention_layernorm.weight": (HIDDEN,)}


# Qwen3-Next and Qwen3.5


def _gated_attention() -> dict[str, Shape]:
    """Query rows and their gate's rows lie head by head in q_proj."""
    return {
        "self_attn.q_proj.weight": (2 * HEADS * SIZE, HIDDEN),
        "self_attn.k_proj.weight": (KEY_HEADS * SIZE, HIDDEN),
        "self_attn.v_proj.weight": (KEY_HEADS * SIZE, HIDDEN),
        "self_attn.o_proj.weight": (HIDDEN, HEADS * SIZE),
        "self_attn.q_norm.weight": (SIZE,),
        "self_attn.k_norm.weight": (SIZE,),
    }


_LINEAR = {
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 32,
    "linear_value_head_dim": 32,
    "linear_conv_kernel_dim": 4,
}
_KEYS, _VALUES = 2 * 32, 4 * 32


def _linear_attention(split: bool) -> dict[str, Shape]:
    """`split`: four projections (Qwen3.5) instead of two (Qwen3-Next)."""
    inputs: dict[str, Shape] = (
        {
            "in_proj_qkv.weight": (2 * _KEYS + _VALUES, HIDDEN),
            "in_proj_z.weight": (_VALUES, HIDDEN),
            "in_proj_b.weight": (4, HIDDEN),
            "in_proj_a.weight": (4, HIDDEN),
        }
        if split
        else {"in_proj_qkvz.weight": (2 * _KEYS + 2 * _VALUES, HIDDEN), "in_proj_ba.weight": (8, HIDDEN)}
    )
    return prefixed(
        "linear_attn.",
        inputs
        | {
            "conv1d.weight": (2 * _KEYS + _VALUES, 1, 4),
            "dt_bias": (4,),
            "A_log": (4,),
            "norm.weight": (32,),
            "out_proj.weight": (HIDDEN, _VALUES),
        },
    )


def _qwen_experts(fused: bool) -> dict[str, Shape]:
    """`fused`: all experts of a projection in one tensor, without the suffix `.weight` (Qwen3.5)."""
    experts: dict[str, Shape]
    if fused:
        experts = {"experts.gate_up_proj": (EXPERTS, 2 * EXPERT, HIDDEN), "experts.down_proj": (EXPERTS, HIDDEN, EXPERT)}
    else:
        experts = {name: shape for e in range(EXPERTS) for name, shape in prefixed(f"experts.{e}.", _mlp(EXPERT)).items()}
    rest = {"gate.weight": (EXPERTS, HIDDEN), "shared_expert_gate.weight": (1, HIDDEN)}
    return prefixed("mlp.", experts | rest | prefixed("shared_expert.", _mlp(EXPERT)))


def _qwen(config: Mapping[str, Any], split: bool, mlp: Mapping[str, Shape], inner: str, **more: Any) -> Family:
    target: dict[str, Shape] = {f"{inner}embed_tokens.weight": (VOCABULARY, HIDDEN), f"{inner}norm.weight": (HIDDEN,)}
    target["lm_head.weight"] = (VOCABULARY, HIDDEN)
    for layer in range(LAYERS):
        attention = _gated_attention() if (layer + 1) % 4 == 0 else _linear_attention(split)
        target |= prefixed(f"{inner}layers.{layer}.", {**attention, **mlp, **_norms()})
    head = {
        "mtp.fc.weight": (HIDDEN, 2 * HIDDEN),
        "mtp.pre_fc_norm_embedding.weight": (HIDDEN,),
        "mtp.pre_fc_norm_hidden.weight": (HIDDEN,),
        "mtp.norm.weight": (HIDDEN,),
        **prefixed("mtp.layers.0.", {**_gated_attention(), **mlp, **_norms()}),
    }
    return Family(config, target, head, True, drafter_type="qwen3_5_mtp", block_size=3, **more)


_QWEN_TEXT = {
    "hidden_size": HIDDEN,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "num_key_value_heads": KEY_HEADS,
    "head_dim": SIZE,
    "hidden_act": "silu",
    "rms_norm_eps": 1e-6,
    "vocab_size": VOCABULARY,
    "max_position_embeddings": 4096,
    "attention_bias": False,
    "full_attention_interval": 4,
    "tie_word_embeddings": False,
    "eos_token_id": 2,
    **_LINEAR,
}
_QWEN_EXPERTS = {
    "num_experts": EXPERTS,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": EXPERT,
    "shared_expert_intermediate_size": EXPERT,
}
_QWEN_35_TEXT = {
    **_QWEN_TEXT,
    "layer_types": ["linear_attention"] * 3 + ["full_attention"],
    "rope_parameters": {
        "rope_type": "default",
        "rope_theta": 10000,
        "partial_rotary_factor": 0.25,
        "mrope_section": [2, 1, 1],
        "mrope_interleaved": True,
    },
    "attn_output_gate": True,
    "mamba_ssm_dtype": "float32",
    "mtp_num_hidden_layers": 1,
    "mtp_use_dedicated_embeddings": False,
}
_INNER = "model.language_model."


def _qwen_35(kind: str, architecture: str, text: Mapping[str, Any], mlp: Mapping[str, Shape]) -> Family:
    config = {
        "architectures": [architecture],
        "model_type": kind,
        "tie_word_embeddings": False,
        "text_config": {**_QWEN_35_TEXT, "model_type": f"{kind}_text", **text},
    }
    return _qwen(config, True, mlp, _INNER)


_DENSE = prefixed("mlp.", _mlp(FEED_FORWARD))

FAMILIES: dict[str, Family] = {
    "qwen3_5": _qwen_35("qwen3_5", "Qwen3_5ForConditionalGeneration", {"intermediate_size": FEED_FORWARD}, _DENSE),
    "qwen3_5_moe": _qwen_35("qwen3_5_moe", "Qwen3_5MoeForConditionalGeneration", _QWEN_EXPERTS, _qwen_experts(True)),
    "qwen3_next": _qwen(
        {
            **_QWEN_TEXT,
            **_QWEN_EXPERTS,
            "architectures": ["Qwen3NextForCausalLM"],
            "model_type": "qwen3_next",
            "intermediate_size": FEED_FORWARD,
            "decoder_sparse_step": 1,
            "mlp_only_layers": [],
            "norm_topk_prob": True,
            "partial_rotary_factor": 0.25,
            "rope_theta": 10000,
        },
        False,
        _qwen_experts(False),
        "model.",
        drafter_text={
            "rope_parameters": {
                "type": "default",
                "rope_theta": 10000,
                "partial_rotary_factor": 0.25,
                "mrope_section": [4, 0, 0],
            }
        },
    ),
}


# DeepSeek and GLM: the head is one more layer of the target's numbering


_ROUTED, _DEEP = 8, 3


def _routed_experts() -> dict[str, Shape]:
    experts = {name: shape for e in range(_ROUTED) for name, shape in prefixed(f"experts.{e}.", _mlp(EXPERT)).items()}
    rest: dict[str, Shape] = {"gate.weight": (_ROUTED, HIDDEN), "gate.e_score_correction_bias": (_ROUTED,)}
    return prefixed("mlp.", experts | rest | prefixed("shared_experts.", _mlp(EXPERT)))


_QUERY_RANK, _RANK, _PLAIN, _ROTATED, _VALUE = 32, 16, 16, 8, 16


def _latent_attention() -> dict[str, Shape]:
    return {
        "self_attn.q_a_proj.weight": (_QUERY_RANK, HIDDEN),
        "self_attn.q_a_layernorm.weight": (_QUERY_RANK,),
        "self_attn.q_b_proj.weight": (HEADS * (_PLAIN + _ROTATED), _QUERY_RANK),
        "self_attn.kv_a_proj_with_mqa.weight": (_RANK + _ROTATED, HIDDEN),
        "self_attn.kv_a_layernorm.weight": (_RANK,),
        "self_attn.kv_b_proj.weight": (HEADS * (_PLAIN + _VALUE), _RANK),
        "self_attn.o_proj.weight": (HIDDEN, HEADS * _VALUE),
    }


def _biased_attention() -> dict[str, Shape]:
    return {
        "self_attn.q_proj.weight": (HEADS * 16, HIDDEN),
        "self_attn.q_proj.bias": (HEADS * 16,),
        "self_attn.k_proj.weight": (KEY_HEADS * 16, HIDDEN),
        "self_attn.k_proj.bias": (KEY_HEADS * 16,),
        "self_attn.v_proj.weight": (KEY_HEADS * 16, HIDDEN),
        "self_attn.v_proj.bias": (KEY_HEADS * 16,),
        "self_attn.o_proj.weight": (HIDDEN, HEADS * 16),
        "self_attn.q_norm.weight": (16,),
        "self_attn.k_norm.weight": (16,),
    }


def _one_more_layer(config: Mapping[str, Any], attention: Mapping[str, Shape], **more: Any) -> Family:
    """The target's first layer is dense; the head has experts."""
    target: dict[str, Shape] = {"model.embed_tokens.weight": (VOCABULARY, HIDDEN), "model.norm.weight": (HIDDEN,)}
    target["lm_head.weight"] = (VOCABULARY, HIDDEN)
    for layer in range(_DEEP):
        target |= prefixed(f"model.layers.{layer}.", {**attention, **(_routed_experts() if layer else _DENSE), **_norms()})
    own: dict[str, Shape] = {
        "embed_tokens.weight": (VOCABULARY, HIDDEN),
        "enorm.weight": (HIDDEN,),
        "hnorm.weight": (HIDDEN,),
        "eh_proj.weight": (HIDDEN, 2 * HIDDEN),
        "shared_head.norm.weight": (HIDDEN,),
        "shared_head.head.weight": (VOCABULARY, HIDDEN),
    }
    return Family(
        config, target, prefixed(f"model.layers.{_DEEP}.", {**own, **attention, **_routed_experts(), **_norms()}), **more
    )


_ROUTING = {
    "hidden_size": HIDDEN,
    "num_hidden_layers": _DEEP,
    "num_nextn_predict_layers": 1,
    "num_attention_heads": HEADS,
    "intermediate_size": FEED_FORWARD,
    "moe_intermediate_size": EXPERT,
    "n_routed_experts": _ROUTED,
    "n_shared_experts": 1,
    "num_experts_per_tok": 2,
    "n_group": 1,
    "topk_group": 1,
    "norm_topk_prob": True,
    "routed_scaling_factor": 1.8,
    "scoring_func": "sigmoid",
    "topk_method": "noaux_tc",
    "first_k_dense_replace": 1,
    "hidden_act": "silu",
    "vocab_size": VOCABULARY,
    "max_position_embeddings": 163840,
    "tie_word_embeddings": False,
    "eos_token_id": 2,
}
_LATENT = {
    "q_lora_rank": _QUERY_RANK,
    "kv_lora_rank": _RANK,
    "qk_nope_head_dim": _PLAIN,
    "qk_rope_head_dim": _ROTATED,
    "v_head_dim": _VALUE,
    "num_key_value_heads": HEADS,
    "attention_bias": False,
}

FAMILIES |= {
    "deepseek_v3": _one_more_layer(
        {
            **_ROUTING,
            **_LATENT,
            "architectures": ["DeepseekV3ForCausalLM"],
            "model_type": "deepseek_v3",
            "n_group": 2,
            "moe_layer_freq": 1,
            "rms_norm_eps": 1e-6,
            "rope_theta": 10000,
            "rope_scaling": {
                "type": "yarn",
                "factor": 40,
                "original_max_position_embeddings": 4096,
                "beta_fast": 32,
                "beta_slow": 1,
                "mscale": 1.0,
                "mscale_all_dim": 1.0,
            },
        },
        _latent_attention(),
    ),
    "glm4_moe": _one_more_layer(
        {
            **_ROUTING,
            "architectures": ["Glm4MoeForCausalLM"],
            "model_type": "glm4_moe",
            "num_key_value_heads": KEY_HEADS,
            "head_dim": 16,
            "attention_bias": True,
            "use_qk_norm": True,
            "partial_rotary_factor": 0.5,
            "rms_norm_eps": 1e-5,
            "rope_theta": 1000000,
            "rope_scaling": None,
        },
        _biased_attention(),
    ),
    "glm4_moe_lite": _one_more_layer(
        {
            **_ROUTING,
            **_LATENT,
            "architectures": ["Glm4MoeLiteForCausalLM"],
            "model_type": "glm4_moe_lite",
            "partial_rotary_factor": 1.0,
            "rms_norm_eps": 1e-6,
            "rope_theta": 1000000,
            "rope_scaling": None,
        },
        _latent_attention(),
        drafter_type="glm4_moe_lite_mtp",
    ),
}
"""GLM-4.7-Flash has an epsilon of 1e-5; transformers takes 1e-6 for the two norms inside its attention, mlx-lm the model's."""


# MiMo-7B: hidden state first


def _mimo() -> Family:
    layer = {**{name: shape for name, shape in _biased_attention().items() if "norm" not in name}, **_DENSE, **_norms()}
    target: dict[str, Shape] = {"model.embed_tokens.weight": (VOCABULARY, HIDDEN), "model.norm.weight": (HIDDEN,)}
    target["lm_head.weight"] = (VOCABULARY, HIDDEN)
    for number in range(_DEEP):
        target |= prefixed(f"model.layers.{number}.", layer)
    own: dict[str, Shape] = {
        "token_layernorm.weight": (HIDDEN,),
        "hidden_layernorm.weight": (HIDDEN,),
        "input_proj.weight": (HIDDEN, 2 * HIDDEN),
        "final_layernorm.weight": (HIDDEN,),
    }
    config = {
        "architectures": ["MiMoForCausalLM"],
        "model_type": "mimo",
        "hidden_size": HIDDEN,
        "num_hidden_layers": _DEEP,
        "num_nextn_predict_layers": 1,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KEY_HEADS,
        "head_dim": 16,
        "attention_bias": True,
        "intermediate_size": FEED_FORWARD,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-5,
        "rope_theta": 640000,
        "use_sliding_window": False,
        "vocab_size": VOCABULARY,
        "max_position_embeddings": 32768,
        "tie_word_embeddings": False,
        "eos_token_id": 2,
    }
    return Family(config, target, prefixed("model.mtp_layers.0.", {**own, **layer}))


FAMILIES["mimo"] = _mimo()


# Step-3.5: three layers, each for one step of a chain; the state before the final norm


_FULL, _SLIDING = "full_attention", "sliding_attention"
_STEP_KINDS = [_FULL, _SLIDING, _SLIDING, _SLIDING, _FULL, _SLIDING]
"""Of the target's three layers and the head's."""
_STEP_WINDOW, _STEP_HEADS = 8, 6
"""Window and query heads of sliding layers."""


def _step_layer(number: int) -> dict[str, Shape]:
    heads = HEADS if _STEP_KINDS[number] == _FULL else _STEP_HEADS
    return {
        "self_attn.q_proj.weight": (heads * 16, HIDDEN),
        "self_attn.k_proj.weight": (KEY_HEADS * 16, HIDDEN),
        "self_attn.v_proj.weight": (KEY_HEADS * 16, HIDDEN),
        "self_attn.o_proj.weight": (HIDDEN, heads * 16),
        "self_attn.g_proj.weight": (heads, HIDDEN),
        "self_attn.q_norm.weight": (16,),
        "self_attn.k_norm.weight": (16,),
        **_norms(),
    }


def _step() -> Family:
    experts: dict[str, Shape] = {
        "moe.gate.weight": (_ROUTED, HIDDEN),
        "moe.router_bias": (_ROUTED,),
        "moe.gate_proj.weight": (_ROUTED, EXPERT, HIDDEN),
        "moe.up_proj.weight": (_ROUTED, EXPERT, HIDDEN),
        "moe.down_proj.weight": (_ROUTED, HIDDEN, EXPERT),
        **prefixed("share_expert.", _mlp(EXPERT)),
    }
    target: dict[str, Shape] = {"model.embed_tokens.weight": (VOCABULARY, HIDDEN), "model.norm.weight": (HIDDEN,)}
    target["lm_head.weight"] = (VOCABULARY, HIDDEN)
    head: dict[str, Shape] = {}
    own: dict[str, Shape] = {
        "enorm.weight": (HIDDEN,),
        "hnorm.weight": (HIDDEN,),
        "eh_proj.weight": (HIDDEN, 2 * HIDDEN),
        "transformer.shared_head.norm.weight": (HIDDEN,),
        "transformer.shared_head.output.weight": (VOCABULARY, HIDDEN),
    }
    for number in range(2 * _DEEP):
        layer = prefixed(f"model.layers.{number}.", _step_layer(number))
        if number < _DEEP:
            target |= layer | prefixed(f"model.layers.{number}.", experts if number else _DENSE)
        else:
            head |= layer | prefixed(f"model.layers.{number}.", {**own, **_DENSE})
    is_full = [kind == _FULL for kind in _STEP_KINDS]
    config = {
        "architectures": ["Step3p5ForCausalLM"],
        "model_type": "step3p5",
        "hidden_size": HIDDEN,
        "num_hidden_layers": _DEEP,
        "num_nextn_predict_layers": _DEEP,
        "num_attention_heads": HEADS,
        "num_attention_groups": KEY_HEADS,
        "attention_other_setting": {
            "attention_type": _SLIDING,
            "num_attention_heads": _STEP_HEADS,
            "num_attention_groups": KEY_HEADS,
            "head_dim": 16,
        },
        "head_dim": 16,
        "intermediate_size": FEED_FORWARD,
        "moe_intermediate_size": EXPERT,
        "share_expert_dim": EXPERT,
        "moe_num_experts": _ROUTED,
        "moe_top_k": 2,
        "moe_layers_enum": "1,2",
        "moe_router_scaling_factor": 3.0,
        "moe_router_activation": "sigmoid",
        "norm_expert_weight": True,
        "use_moe_router_bias": True,
        "use_head_wise_attn_gate": True,
        "layer_types": _STEP_KINDS,
        "sliding_window": _STEP_WINDOW,
        "rope_theta": [5000000.0 if full else 10000.0 for full in is_full],
        "partial_rotary_factors": [0.5 if full else 1.0 for full in is_full],
        "yarn_only_types": [_FULL],
        "swiglu_limits": [0.0] * len(is_full),
        "swiglu_limits_shared": [0.0] * len(is_full),
        "rms_norm_eps": 1e-5,
        "vocab_size": VOCABULARY,
        "max_position_embeddings": 65536,
        "tie_word_embeddings": False,
        "eos_token_id": 2,
    }
    return Family(config, target, head, zero_centred=True)


FAMILIES["step3p5"] = _step()


# Packagings


def head_prefix(family: str) -> str:
    """Returns what a head's published names begin with, up to the number of the layer where there are several."""
    made = FAMILIES[family]
    if "mtp.fc.weight" in made.head:
        return "mtp."
    several = {"mimo": "model.mtp_layers.0.", "step3p5": "model.layers."}
    return several.get(family, f"model.layers.{made.config['num_hidden_layers']}.")


def converted_head(family: str) -> dict[str, np.ndarray]:
    """Returns the head's tensors as converters write them: without prefix, norms as their weight, experts stacked, and the latent
    attention's second projection of keys and values split."""
    made = FAMILIES[family]
    tensors = {name.removeprefix(head_prefix(family)): array for name, array in made.head_weights().items()}
    if made.zero_centred:
        tensors = {name: array + 1 if array.ndim == 1 else array for name, array in tensors.items()}
    fused = tensors.pop("self_attn.kv_b_proj.weight", None)
    if fused is not None:
        keys, values = np.split(fused.reshape(HEADS, _PLAIN + _VALUE, _RANK), [_PLAIN], axis=1)
        tensors["self_attn.embed_q.weight"] = np.ascontiguousarray(keys.swapaxes(1, 2))
        tensors["self_attn.unembed_out.weight"] = np.ascontiguousarray(values)
    return stacked(tensors)


def stacked(tensors: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Returns the tensors with their experts as MLX wants them: one tensor `switch_mlp.*` for each projection."""
    made: dict[str, np.ndarray] = {}
    experts: dict[str, list[np.ndarray]] = {}
    for name, array in sorted(tensors.items(), key=lambda item: _expert(item[0])):
        before, _, part = name.partition(".experts.")
        if not part or "shared" in before.rpartition(".")[2]:
            made[name] = array
        elif part == "gate_up_proj":
            for projection, half in zip(("gate_proj", "up_proj"), np.split(array, 2, axis=1), strict=True):
                made[f"{before}.switch_mlp.{projection}.weight"] = np.ascontiguousarray(half)
        elif part == "down_proj":
            made[f"{before}.switch_mlp.down_proj.weight"] = array
        else:
            experts.setdefault(f"{before}.switch_mlp.{part.partition('.')[2]}", []).append(array)
    return made | {name: np.stack(arrays) for name, arrays in experts.items()}


def _expert(name: str) -> int:
    number = name.partition(".experts.")[2].partition(".")[0]
    return int(number) if number.isdecimal() else -1


def quantised(tensors: Mapping[str, np.ndarray], bits: int) -> dict[str, np.ndarray]:
    """Returns the tensors with all matrices quantised by MLX in groups of 32, except routers."""
    import mlx.core as mx  # absent where most references are made

    made: dict[str, np.ndarray] = {}
    for name, array in tensors.items():
        module = name.removesuffix(".weight")
        if array.ndim < 2 or name.endswith("mlp.gate.weight") or array.shape[-1] % 32:
            made[name] = array
            continue
        parts = mx.quantize(mx.array(array), group_size=32, bits=bits)
        made |= {f"{module}.{part}": np.array(value) for part, value in zip(("weight", "scales", "biases"), parts, strict=True)}
    return made


def write_published(folder: Path, family: str, changes: Mapping[str, np.ndarray | None] = MappingProxyType({})) -> Path:
    """Writes the checkpoint as its authors publish it: the head's tensors among the target's.

    Args:
        changes: tensors that replace others or are added; None leaves one out.
    """
    made = FAMILIES[family]
    tensors: dict[str, np.ndarray | None] = {**made.target_weights(), **made.head_weights(), **changes}
    write_description(folder, made.config)
    present = {name: array for name, array in tensors.items() if array is not None}
    write_tensors(folder / "model.safetensors", present)
    return folder


def write_promise(folder: Path, family: str) -> Path:
    """Writes the checkpoint without the head's tensors: its config.json still promises them."""
    made = FAMILIES[family]
    write_description(folder, made.config)
    write_tensors(folder / "model.safetensors", made.target_weights())
    return folder


def write_drafter(folder: Path, family: str, tokens: bool = True, bits: int | None = None) -> Path:
    """Writes a drafter repository of mlx-vlm, which has them for some families: the converted head alone, without prefix.

    Args:
        tokens: whether it has a tokenizer. bits: if given, its matrices are quantised in groups of 32.
    """
    assert FAMILIES[family].drafter_type, f"mlx-vlm writes no drafter of {family}"
    text = dict(FAMILIES[family].config.get("text_config", FAMILIES[family].config))
    text |= FAMILIES[family].drafter_text
    config = {
        "model_type": FAMILIES[family].drafter_type,
        "text_config": text,
        "block_size": FAMILIES[family].block_size,
        "tie_word_embeddings": False,
    }
    tensors = converted_head(family)
    if bits is not None:
        tensors = quantised(tensors, bits)
        config |= {key: {"group_size": 32, "bits": bits, "mode": "affine"} for key in ("quantization", "quantization_config")}
    write_description(folder, config, tokens)
    write_tensors(folder / "model.safetensors", {_flat(name): array for name, array in tensors.items()}, CONVERTED)
    return folder


def _flat(name: str) -> str:
    """Returns a tensor's name in mlx-vlm's drafter repositories, from its converted name."""
    if name == "shared_head.head.weight":
        return "lm_head.weight"
    if name in ("embed_tokens.weight", "enorm.weight", "hnorm.weight", "eh_proj.weight"):
        return f"model.{name}"
    if name == "shared_head.norm.weight":
        return "model.shared_head_norm.weight"
    return f"model.mtp_block.{name}" if name.startswith(("self_attn.", "mlp.", "input_", "post_")) else name


def reference(family: str) -> Any:
    """Returns the stored outputs of another implementation."""
    return json.loads((REFERENCES / f"{family}.json").read_text(encoding="utf-8"))
