"""Maps the architectures of GGUF files to mlx-lm's models: metadata to configurations, and names of tensors.

Names: `gguf-py/gguf/constants.py` of https://github.com/ggml-org/llama.cpp. llama.cpp's conversion also changes some weights: it
permutes the rows of queries and keys for interleaved rotary embeddings, and adds to Gemma's norms the 1 that Gemma's own code
adds. `engine.models.gguf_model` undoes that when it reads the weights.

To support another architecture, write a function that returns mlx-lm's configuration, and add an entry to `ARCHITECTURES`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from engine.files.gguf_header import GgufHeader
from engine.values.errors import DraftlightError
from engine.values.wording import noun

ROPE_FACTORS = "rope_freqs.weight"
LONG_FACTORS, SHORT_FACTORS = "rope_factors_long.weight", "rope_factors_short.weight"
_PARTS = re.compile(r"(?:blk\.(\d+)\.)?([a-z0-9_]+)\.([a-z]+)")


class Facts:
    """The checked metadata of a GGUF file's model.

    Args:
        name: name of the file, for messages.
        values: returns the numbers of a small tensor of the file.
    """

    def __init__(self, header: GgufHeader, name: str, values: Callable[[str], list[float]]) -> None:
        self.tensors = header.tensors
        self.values = values
        self._metadata = header.metadata
        self._name = name
        self.architecture = header.metadata.get("general.architecture")

    def get(self, key: str) -> Any:
        """Returns the metadata entry of this architecture, None if it is missing."""
        return self._metadata.get(f"{self.architecture}.{key}")

    def number(self, key: str, default: float | None = None) -> Any:
        """Returns a positive number, or the default if the entry is missing. Raises DraftlightError for anything else."""
        value = self.get(key)
        value = default if value is None else value
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < math.inf:
            raise DraftlightError(
                f"{self._name} is damaged or incomplete: {self.architecture}.{key} is {value!r}. Download it again."
            )
        return value

    def integer(self, key: str, default: int | None = None) -> int:
        """Returns a positive integer; otherwise like `number`. If the entry is a list, one value per layer, all must be equal."""
        stated = self.get(key)
        if isinstance(stated, list) and stated and all(value == stated[0] for value in stated):
            stated = stated[0]
            value = stated if isinstance(stated, int) and stated > 0 else self.number(key)
        else:
            value = self.number(key, default)
        if not isinstance(value, int):
            raise DraftlightError(
                f"{self._name} is damaged: {self.architecture}.{key} is {value!r}, not a whole number. Download it again."
            )
        return value

    def per_layer(self, key: str, kind: type, default: Any = None) -> list[Any]:
        """Returns one value per layer, from a list or from one value for all. Raises DraftlightError for anything else."""
        layers = self.integer("block_count")
        if layers > len(self.tensors):
            raise self.damaged(f"it has {len(self.tensors)} tensors and is said to have {layers} {noun(layers, 'layer')}")
        stated = self.get(key)
        stated = default if stated is None else stated
        found = stated if isinstance(stated, list) else [stated] * layers
        if len(found) != layers or not all(type(value) is kind for value in found):
            raise DraftlightError(f"{self._name} is damaged: {self.architecture}.{key} is {stated!r}. Download it again.")
        return found

    def refuse(self, feature: str) -> DraftlightError:
        """Returns the error for a model with an unsupported feature."""
        return DraftlightError(f"{self._name} has {feature}, which is not supported. Use the model's mlx-lm folder instead.")

    def damaged(self, what: str) -> DraftlightError:
        """Returns the error for a file that contradicts itself."""
        return DraftlightError(f"{self._name} is damaged or only part of a model: {what}. Choose a file with the whole model.")


Config = dict[str, Any]

_SIGMOID = 2
"""Value of `expert_gating_func`."""


def _decoder(facts: Facts, scalings: tuple[str, ...] = ("linear", "yarn"), partly_rotated: bool = False) -> Config:
    """Returns the configuration that all decoders share. mlx-lm's classes ignore entries that they do not know."""
    hidden, heads, blocks = facts.integer("embedding_length"), facts.integer("attention.head_count"), facts.integer("block_count")
    key_value_heads = facts.integer("attention.head_count_kv", heads)
    head_dim = facts.integer("attention.key_length", max(1, hidden // heads))
    rotated = facts.integer("rope.dimension_count", head_dim)
    embedding = facts.tensors.get("token_embd.weight")
    layers = {int(match[1]) for match in map(_PARTS.fullmatch, facts.tensors) if match and match[1]}
    if embedding is None or embedding.shape[-1] != hidden or len(layers) != blocks or layers != set(range(len(layers))):
        raise facts.damaged(f"its tensors do not form {blocks} {noun(blocks, 'layer')} of width {hidden}")
    if heads % key_value_heads:
        raise facts.refuse("uneven heads")
    if facts.integer("attention.value_length", head_dim) != head_dim:
        raise facts.refuse("values narrower than keys")
    if (rotated != head_dim and not partly_rotated) or rotated % 2 or rotated > head_dim:
        raise facts.refuse("partly rotated heads")
    return {
        "hidden_size": hidden,
        "num_hidden_layers": blocks,
        "intermediate_size": max(facts.per_layer("feed_forward_length", int, 0)) or facts.integer("expert_feed_forward_length"),
        "num_attention_heads": heads,
        "num_key_value_heads": key_value_heads,
        "head_dim": head_dim,
        "partial_rotary_factor": rotated / head_dim,
        "rms_norm_eps": facts.number("attention.layer_norm_rms_epsilon", facts.get("attention.layer_norm_epsilon")),
        "vocab_size": embedding.shape[0],
        "max_position_embeddings": facts.integer("context_length"),
        "rope_theta": facts.number("rope.freq_base", 10000.0),
        "rope_scaling": _rope_scaling(facts, scalings),
        "tie_word_embeddings": "output.weight" not in facts.tensors,
        "attention_bias": "blk.0.attn_q.bias" in facts.tensors,
        "mlp_bias": "blk.0.ffn_up.bias" in facts.tensors,
    }


def _rope_scaling(facts: Facts, known: tuple[str, ...]) -> Config | None:
    kind = facts.get("rope.scaling.type")
    if kind in (None, "none") or LONG_FACTORS in facts.tensors:
        return None
    if kind not in known:
        raise facts.refuse(f"rotary scaling {kind!r}")
    factor = float(facts.number("rope.scaling.factor"))
    if kind == "linear":
        return {"type": "linear", "factor": factor}
    stated = {"beta_fast": facts.get("rope.scaling.yarn_beta_fast"), "beta_slow": facts.get("rope.scaling.yarn_beta_slow")}
    return {
        "type": "yarn",
        "factor": factor,
        "original_max_position_embeddings": facts.integer("rope.scaling.original_context_length"),
        **{key: value for key, value in stated.items() if isinstance(value, float)},
    }


def _experts(facts: Facts) -> Config:
    count, used = facts.integer("expert_count"), facts.integer("expert_used_count")
    if used > count:
        raise facts.damaged(f"it uses {used} of {count} experts")
    width = facts.integer("expert_feed_forward_length", max(facts.per_layer("feed_forward_length", int, 0)) or None)
    return {
        "num_experts": count,
        "num_local_experts": count,
        "num_experts_per_tok": used,
        "moe_intermediate_size": width,
        "intermediate_size": width,
    }


def _like_others(
    model_type: str,
    scalings: tuple[str, ...] = ("linear", "yarn"),
    experts: bool = False,
    numbers: Mapping[str, str] = MappingProxyType({}),
    **fixed: Any,
) -> Callable[[Facts], Config]:
    """Returns a function that makes the configuration of an architecture with few entries beyond those of all decoders.

    Args:
        numbers: keys of further numbers in the file, by mlx-lm's names.
        fixed: entries that are the same in all of its models.
    """

    def config(facts: Facts) -> Config:
        """Returns the configuration of one file."""
        stated = {name: facts.number(key) for name, key in numbers.items()}
        return _decoder(facts, scalings) | (_experts(facts) if experts else {}) | stated | fixed | {"model_type": model_type}

    return config


_GRANITE = {
    "logits_scaling": "logit_scale",
    "attention_multiplier": "attention.scale",
    "embedding_multiplier": "embedding_scale",
    "residual_multiplier": "residual_scale",
}


def _llama(facts: Facts) -> Config:
    if facts.get("expert_count"):
        return _decoder(facts, ()) | _experts(facts) | {"model_type": "mixtral"}
    return _decoder(facts) | {"model_type": "llama"}


def _qwen2_moe(facts: Facts) -> Config:
    shared = {"shared_expert_intermediate_size": facts.integer("expert_shared_feed_forward_length")}
    return _decoder(facts, ("linear",)) | _experts(facts) | shared | {"model_type": "qwen2_moe"}


def _gemma2(facts: Facts) -> Config:
    config = _decoder(facts, ())
    return config | {
        "model_type": "gemma2",
        "attn_logit_softcapping": facts.number("attn_logit_softcapping", 50.0),
        "final_logit_softcapping": facts.number("final_logit_softcapping", 30.0),
        "query_pre_attn_scalar": _query_scalar(config, 46),
    }


def _query_scalar(config: Config, blocks: int) -> float:
    """Returns the square of Gemma's divisor of queries, which files do not state. As in llama.cpp, it is the width of a head,
    except in the largest model, the one with `blocks` blocks, where it is the model's width divided by the number of heads."""
    if config["num_hidden_layers"] == blocks:
        return float(config["hidden_size"] / config["num_attention_heads"])
    return float(config["head_dim"])


def _gemma3(facts: Facts) -> Config:
    config = _decoder(facts, ("linear",))
    pattern = facts.get("attention.sliding_window_pattern")
    return config | {
        "model_type": "gemma3_text",
        "query_pre_attn_scalar": _query_scalar(config, 62),
        "sliding_window": facts.integer("attention.sliding_window"),
        "sliding_window_pattern": pattern if isinstance(pattern, int) and pattern > 0 else 6,
        "rope_theta": facts.number("rope.freq_base", 1e6),
        "rope_local_base_freq": facts.number("rope.freq_base_swa", 1e4),
    }


def _gemma4(facts: Facts) -> Config:
    blocks, heads = facts.integer("block_count"), facts.integer("attention.head_count")
    slides = facts.per_layer("attention.sliding_window_pattern", bool)
    key_value_heads = facts.per_layer("attention.head_count_kv", int, heads)
    widths = facts.per_layer("feed_forward_length", int)
    wide, narrow = facts.integer("attention.key_length"), facts.integer("attention.key_length_swa")
    embedding = facts.tensors.get("token_embd.weight")
    if embedding is None or min(widths) < 1 or min(key_value_heads) < 1:
        raise facts.damaged("it lacks an embedding or has empty layers")
    if facts.integer("rope.dimension_count_swa", narrow) != narrow:
        raise facts.refuse("partly rotated heads in the layers with a window")
    window_heads = {count for count, slide in zip(key_value_heads, slides, strict=True) if slide} or {key_value_heads[0]}
    full_heads = {count for count, slide in zip(key_value_heads, slides, strict=True) if not slide} or window_heads
    if len(window_heads) > 1 or len(full_heads) > 1:
        raise facts.refuse("layers of one kind with different numbers of heads")
    shared = facts.get("attention.shared_kv_layers") or 0
    per_layer = facts.tensors.get("per_layer_token_embd.weight")
    full = [layer for layer in range(blocks) if not slides[layer]]
    rotated = 1.0
    if ROPE_FACTORS in facts.tensors:  # 1 for rotated pairs, huge for the others
        rotated = 2 * sum(factor == 1 for factor in facts.values(ROPE_FACTORS)) / wide
    config = {
        "model_type": "gemma4_text",
        "hidden_size": facts.integer("embedding_length"),
        "num_hidden_layers": blocks,
        "intermediate_size": widths[0],
        "use_double_wide_mlp": widths[-1] == 2 * widths[0],
        "num_attention_heads": heads,
        "num_key_value_heads": min(window_heads),
        "num_global_key_value_heads": min(full_heads),
        "head_dim": narrow,
        "global_head_dim": wide,
        "rms_norm_eps": facts.number("attention.layer_norm_rms_epsilon"),
        "vocab_size": embedding.shape[0],
        "max_position_embeddings": facts.integer("context_length"),
        "num_kv_shared_layers": shared,
        "hidden_size_per_layer_input": facts.get("embedding_length_per_layer_input") or 0,
        "vocab_size_per_layer_input": embedding.shape[0] if per_layer is None else per_layer.shape[0],
        "sliding_window": facts.integer("attention.sliding_window"),
        "layer_types": ["sliding_attention" if slide else "full_attention" for slide in slides],
        "attention_k_eq_v": bool(full) and f"blk.{full[0]}.attn_v.weight" not in facts.tensors,
        "final_logit_softcapping": facts.number("final_logit_softcapping", 30.0),
        "tie_word_embeddings": "output.weight" not in facts.tensors,
        "rope_parameters": {
            "full_attention": {
                "rope_type": "proportional",
                "partial_rotary_factor": rotated,
                "rope_theta": facts.number("rope.freq_base", 1e6),
            },
            "sliding_attention": {"rope_type": "default", "rope_theta": facts.number("rope.freq_base_swa", 1e4)},
        },
    }
    if facts.get("expert_count"):
        experts = _experts(facts)
        config |= {key: experts[key] for key in ("num_experts", "moe_intermediate_size")}
        config |= {"enable_moe_block": True, "top_k_experts": experts["num_experts_per_tok"]}
    return config


def _phi3(facts: Facts) -> Config:
    config = _decoder(facts, ("linear",), partly_rotated=True)
    context = config["max_position_embeddings"]
    if LONG_FACTORS in facts.tensors:
        config["rope_scaling"] = {"type": "longrope", "long_factor": facts.values(LONG_FACTORS)}
        config["rope_scaling"]["short_factor"] = facts.values(SHORT_FACTORS) if SHORT_FACTORS in facts.tensors else 1.0
    elif config["rope_scaling"] is not None:
        config["rope_scaling"]["long_factor"] = 1.0  # mlx-lm requires it for every type
    original = facts.integer("rope.scaling.original_context_length", context)
    return config | {"model_type": "phi3", "original_max_position_embeddings": original}


def _granite_moe(facts: Facts) -> Config:
    if facts.get("expert_shared_feed_forward_length"):
        raise facts.refuse("shared experts")
    return _like_others("granitemoe", experts=True, numbers=_GRANITE)(facts)


def _cohere(facts: Facts) -> Config:
    return _decoder(facts, ()) | {
        "model_type": "cohere",
        "layer_norm_eps": facts.number("attention.layer_norm_epsilon"),
        "logit_scale": facts.number("logit_scale"),
        "use_qk_norm": "blk.0.attn_q_norm.weight" in facts.tensors,
    }


def _cohere2(facts: Facts) -> Config:
    numbers = {"layer_norm_eps": "attention.layer_norm_epsilon", "logit_scale": "logit_scale"}
    window = facts.integer("attention.sliding_window")
    return _like_others("cohere2", (), numbers=numbers, sliding_window=window, sliding_window_pattern=4)(facts)


def _seed_oss(facts: Facts) -> Config:
    return _decoder(facts) | {"model_type": "seed_oss", "attention_out_bias": "blk.0.attn_output.bias" in facts.tensors}


def _gpt_oss(facts: Facts) -> Config:
    config = _decoder(facts, ("yarn",))
    if (scaling := config["rope_scaling"]) is not None:
        scaling |= {"rope_type": "yarn", "beta_fast": 32.0, "beta_slow": 1.0}
    alternating = ["sliding_attention", "full_attention"] * config["num_hidden_layers"]
    return (
        config
        | _experts(facts)
        | {
            "model_type": "gpt_oss",
            "sliding_window": facts.integer("attention.sliding_window"),
            "layer_types": alternating[: config["num_hidden_layers"]],
        }
    )


def _glm4_moe(facts: Facts) -> Config:
    if facts.get("expert_gating_func") not in (None, _SIGMOID):
        raise facts.refuse("experts that are not chosen by a sigmoid")
    config = _experts(facts) | _decoder(facts, (), partly_rotated=True)
    blocks = range(config["num_hidden_layers"])
    return config | {
        "model_type": "glm4_moe",
        "use_qk_norm": "blk.0.attn_q_norm.weight" in facts.tensors,
        "n_routed_experts": config["num_experts"],
        "n_shared_experts": facts.integer("expert_shared_count", 1),
        "n_group": facts.integer("expert_group_count", 1),
        "topk_group": facts.integer("expert_group_used_count", 1),
        "norm_topk_prob": bool(facts.get("expert_weights_norm")),
        "routed_scaling_factor": facts.number("expert_weights_scale", 1.0),
        "first_k_dense_replace": sum(f"blk.{block}.ffn_gate_inp.weight" not in facts.tensors for block in blocks),
    }


_OUTSIDE = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
_ATTENTION = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
}
_HEAD_NORMS = {"attn_q_norm": "self_attn.q_norm", "attn_k_norm": "self_attn.k_norm"}
_MLP = {
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_FOUR_NORMS = {
    "post_attention_norm": "post_attention_layernorm",
    "ffn_norm": "pre_feedforward_layernorm",
    "post_ffw_norm": "post_feedforward_layernorm",
}
_PLAIN = _OUTSIDE | _ATTENTION | _MLP


def _routed(router: str, experts: str) -> dict[str, str]:
    return {
        "ffn_gate_inp": router,
        "ffn_gate_exps": f"{experts}.gate_proj",
        "ffn_up_exps": f"{experts}.up_proj",
        "ffn_down_exps": f"{experts}.down_proj",
    }


_SHARED_EXPERT = {
    "ffn_gate_inp_shexp": "mlp.shared_expert_gate",
    "ffn_gate_shexp": "mlp.shared_expert.gate_proj",
    "ffn_up_shexp": "mlp.shared_expert.up_proj",
    "ffn_down_shexp": "mlp.shared_expert.down_proj",
}
_GEMMA4 = {
    "per_layer_token_embd": "model.embed_tokens_per_layer",
    "per_layer_model_proj": "model.per_layer_model_projection",
    "per_layer_proj_norm": "model.per_layer_projection_norm",
    "inp_gate": "per_layer_input_gate",
    "proj": "per_layer_projection",
    "post_norm": "post_per_layer_input_norm",
    "layer_output_scale.weight": "layer_scalar",
    "pre_ffw_norm_2": "pre_feedforward_layernorm_2",
    "post_ffw_norm_1": "post_feedforward_layernorm_1",
    "post_ffw_norm_2": "post_feedforward_layernorm_2",
    "ffn_gate_inp": "router.proj",
    "ffn_gate_inp.scale": "router.scale",
    "ffn_down_exps": "experts.switch_glu.down_proj",
    "ffn_down_exps.scale": "router.per_expert_scale",
    "ffn_gate_up_exps": "experts.switch_glu.gate_proj+experts.switch_glu.up_proj",
}


@dataclass(frozen=True)
class Architecture:
    """The conversion of an architecture's files to one of mlx-lm's models.

    Attributes:
        config: makes mlx-lm's configuration, with `model_type`. Raises DraftlightError for unsupported features.
        names: mlx-lm's names by llama.cpp's; names in a layer lack "model.layers.N". A key with a suffix, such as
            "attn_sinks.weight", maps to the whole name. Two names joined by "+" share a tensor: the first has the first half of
            the rows.
        interleaved: whether the rows of queries and keys are in the order of interleaved rotary embeddings.
        norm_offset: number that was added to every norm.
        half: 16-bit type of the computation; "bfloat16" if activations exceed the range of float16.
    """

    config: Callable[[Facts], Config]
    names: Mapping[str, str] = field(default_factory=lambda: _PLAIN)
    interleaved: bool = False
    norm_offset: float = 0.0
    half: str = "float16"

    def renamed(self, name: str) -> tuple[str, ...]:
        """Returns mlx-lm's names for a tensor: two if it holds two, none if the architecture does not have it."""
        match = _PARTS.fullmatch(name)
        if match is None:
            return ()
        layer, tensor, part = match.groups()
        whole = self.names.get(f"{tensor}.{part}")
        stems = [whole] if whole is not None else self.names.get(tensor, "").split("+")
        if not stems[0] or stems[0].startswith(("model.", "lm_head")) != (layer is None):
            return ()
        if whole is None and part not in ("weight", "bias"):
            return ()
        prefix, suffix = "" if layer is None else f"model.layers.{layer}.", "" if whole is not None else f".{part}"
        return tuple(f"{prefix}{stem}{suffix}" for stem in stems)


_QWEN3 = _PLAIN | _HEAD_NORMS

ARCHITECTURES: dict[str, Architecture] = {
    "llama": Architecture(_llama, _PLAIN | _routed("block_sparse_moe.gate", "block_sparse_moe.switch_mlp"), interleaved=True),
    "qwen2": Architecture(_like_others("qwen2")),
    "qwen2moe": Architecture(_qwen2_moe, _PLAIN | _routed("mlp.gate", "mlp.switch_mlp") | _SHARED_EXPERT),
    "qwen3": Architecture(_like_others("qwen3"), _QWEN3),
    "qwen3moe": Architecture(
        _like_others("qwen3_moe", experts=True, decoder_sparse_step=1, mlp_only_layers=[], norm_topk_prob=True),
        _QWEN3 | _routed("mlp.gate", "mlp.switch_mlp"),
    ),
    "gemma": Architecture(_like_others("gemma", ()), norm_offset=1.0, half="bfloat16"),
    "gemma2": Architecture(_gemma2, _PLAIN | _FOUR_NORMS, norm_offset=1.0, half="bfloat16"),
    "gemma3": Architecture(_gemma3, _QWEN3 | _FOUR_NORMS, norm_offset=1.0, half="bfloat16"),
    "gemma4": Architecture(_gemma4, _QWEN3 | _FOUR_NORMS | _GEMMA4, half="bfloat16"),
    "phi3": Architecture(_phi3, _PLAIN | {"attn_qkv": "self_attn.qkv_proj", "ffn_up": "mlp.gate_up_proj"}),
    "granite": Architecture(_like_others("granite", numbers=_GRANITE), interleaved=True),
    "granitemoe": Architecture(
        _granite_moe,
        _PLAIN | _routed("block_sparse_moe.router.layer", "block_sparse_moe.switch_mlp"),
        interleaved=True,
    ),
    "smollm3": Architecture(_like_others("smollm3", no_rope_layer_interval=4), interleaved=True),
    "olmo2": Architecture(_like_others("olmo2"), _QWEN3 | _FOUR_NORMS),
    "command-r": Architecture(_cohere, _QWEN3),
    "cohere2": Architecture(_cohere2),
    "starcoder2": Architecture(
        _like_others("starcoder2", (), numbers={"norm_epsilon": "attention.layer_norm_epsilon"}),
        _PLAIN | {"ffn_up": "mlp.c_fc", "ffn_down": "mlp.c_proj"},
    ),
    "seed_oss": Architecture(_seed_oss, _PLAIN | {"post_attention_norm": "post_attention_layernorm"}),
    "glm4moe": Architecture(
        _glm4_moe,
        _QWEN3
        | {"post_attention_norm": "post_attention_layernorm", "exp_probs_b.bias": "mlp.gate.e_score_correction_bias"}
        | {f"ffn_{part}_shexp": f"mlp.shared_experts.{part}_proj" for part in ("gate", "up", "down")}
        | _routed("mlp.gate", "mlp.switch_mlp"),
        half="bfloat16",
    ),
    "gpt-oss": Architecture(
        _gpt_oss,
        _PLAIN
        | {"post_attention_norm": "post_attention_layernorm", "attn_sinks.weight": "self_attn.sinks"}
        | _routed("mlp.router", "mlp.experts"),
        half="bfloat16",
    ),
}
"""The supported architectures, by their name in `general.architecture`."""


def architecture_of(facts: Facts, name: str) -> Architecture:
    """Returns the architecture of a file. Raises DraftlightError, with the supported ones, if it is not supported."""
    found = ARCHITECTURES.get(facts.architecture) if isinstance(facts.architecture, str) else None
    if found is None:
        raise DraftlightError(
            f"{name} contains a model of architecture {facts.architecture!r}; the GGUF architectures supported are "
            f"{', '.join(ARCHITECTURES)}. Use the model's mlx-lm folder instead."
        )
    return found
