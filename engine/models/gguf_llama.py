"""Llama models in GGUF files, as mlx-lm's own llama model.

The weights come through `mx.load`, which turns Q4_0, Q4_1 and Q8_0 into MLX's affine quantisation with groups of 32. Two
things are mended: names are llama.cpp's, and the rows of the query and key projections are stored in the order of
interleaved rotary embeddings, while mlx-lm rotates halves.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, cast

import mlx.core as mx
import mlx.nn as nn
from mlx_lm.models.llama import Model, ModelArgs

from engine.errors import DraftlightError
from engine.files.gguf_header import GgufHeader

_GROUP = 32
_BITS = {"Q4_0": 4, "Q4_1": 4, "Q8_0": 8}
_ROPE_FACTORS = "rope_freqs.weight"
_NAMES = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "output": "lm_head",
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_TENSOR = re.compile(r"(?:blk\.(\d+)\.)?([a-z_]+)\.(weight|scales|biases)")


class FactoredRope(nn.Module):
    """Rotary embedding whose periods are stretched by one factor each, as GGUF files of Llama 3.1 and later carry them."""

    def __init__(self, dims: int, base: float, factors: mx.array) -> None:
        super().__init__()
        self.dims = dims
        self._freqs = base ** (mx.arange(0, dims, 2) / dims) * factors.astype(mx.float32)

    def __call__(self, x: mx.array, offset: int | mx.array = 0) -> mx.array:
        return mx.fast.rope(x, self.dims, traditional=False, base=None, scale=1.0, offset=offset, freqs=self._freqs)


def read_config(header: GgufHeader, name: str) -> dict[str, Any]:
    """mlx-lm's llama configuration for the file.

    Raises:
        DraftlightError: another architecture, or a feature of llama that is not supported, or contradictory numbers.
    """
    metadata, tensors = header.metadata, header.tensors
    architecture = metadata.get("general.architecture")
    if architecture != "llama":
        raise DraftlightError(
            f"{name} contains a model of architecture {architecture!r}; the only GGUF architecture supported is 'llama'. "
            "Use the model's mlx-lm folder instead."
        )

    def number(key: str, default: float | None = None) -> Any:
        """A positive number of the metadata, the default where the key is missing. Raises DraftlightError for anything else."""
        value = metadata.get(f"llama.{key}", default)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0:
            raise DraftlightError(f"{name} is damaged or incomplete: llama.{key} is {value!r}. Download it again.")
        return value

    def whole(key: str, default: int | None = None) -> int:
        """As `number`, for one that has to be whole."""
        value = number(key, default)
        if not isinstance(value, int):
            raise DraftlightError(f"{name} is damaged: llama.{key} is {value!r}, not a whole number. Download it again.")
        return value

    hidden, heads, blocks = whole("embedding_length"), whole("attention.head_count"), whole("block_count")
    key_value_heads = whole("attention.head_count_kv", heads)
    head_dim = whole("attention.key_length", max(1, hidden // heads))
    embedding = tensors.get("token_embd.weight")
    layers = {int(match[1]) for match in map(_TENSOR.fullmatch, tensors) if match and match[1]}
    if embedding is None or embedding.shape[-1] != hidden or len(layers) != blocks or layers != set(range(len(layers))):
        raise DraftlightError(
            f"{name} is damaged or only part of a model: its tensors do not form {blocks} layers of width {hidden}. "
            "Choose a file with the whole model."
        )
    scaling = metadata.get("llama.rope.scaling.type", "none")
    unsupported = {
        "experts": metadata.get("llama.expert_count", 0) != 0,
        f"rotary scaling {scaling!r}": scaling not in ("none", "linear"),
        "partly rotated heads": whole("rope.dimension_count", head_dim) != head_dim or head_dim % 2,
        "values narrower than keys": whole("attention.value_length", head_dim) != head_dim,
        "uneven heads": heads % key_value_heads,
    }
    if found := [feature for feature, there in unsupported.items() if there]:
        raise DraftlightError(f"{name} has {', '.join(found)}, which is not supported. Use the model's mlx-lm folder instead.")
    return {
        "model_type": "llama",
        "hidden_size": hidden,
        "num_hidden_layers": len(layers),
        "intermediate_size": whole("feed_forward_length"),
        "num_attention_heads": heads,
        "num_key_value_heads": key_value_heads,
        "head_dim": head_dim,
        "rms_norm_eps": number("attention.layer_norm_rms_epsilon"),
        "vocab_size": embedding.shape[0],
        "max_position_embeddings": whole("context_length"),
        "rope_theta": number("rope.freq_base", 10000.0),
        "rope_scaling": {"type": "linear", "factor": number("rope.scaling.factor")} if scaling == "linear" else None,
        "tie_word_embeddings": "output.weight" not in tensors,
    }


def load_llama(path: Path, header: GgufHeader) -> tuple[Model, dict[str, Any]]:
    """The model and its configuration, weights as stored: quantised layers stay quantised, nothing is evaluated.

    Args:
        header: of the same file, from `read_header`; `mx.load` must not see a file that was not checked.

    Raises:
        DraftlightError: the file is no llama model, or its tensors do not fit its metadata.
    """
    config = read_config(header, path.name)
    unknown = [name for name in header.tensors if not _is_known(name)]
    if unknown:
        raise DraftlightError(
            f"{path.name} contains weights that a plain llama model does not have ({unknown[0]}). "
            "Use the model's mlx-lm folder instead."
        )
    quantisation = {
        _renamed(name).removesuffix(".weight"): {"group_size": _GROUP, "bits": _BITS[tensor.kind]}
        for name, tensor in header.tensors.items()
        if tensor.kind in _BITS
    }
    try:
        stored = _stored(path)
        factors = stored.pop(_ROPE_FACTORS, None)
        model = Model(ModelArgs.from_dict(config))
        nn.quantize(model, class_predicate=lambda name, _: quantisation.get(name, False))
        model.load_weights([(_renamed(name), _in_halves(name, array, config)) for name, array in stored.items()])
        if factors is not None:
            for layer in model.layers:
                layer.self_attn.rope = FactoredRope(config["head_dim"], config["rope_theta"], factors)
    except (ValueError, RuntimeError, KeyError, OverflowError) as error:
        raise DraftlightError(f"{path.name} is damaged: its weights do not match its header ({error}).") from error
    model.eval()
    return model, config


def load_embedding(path: Path) -> nn.Module:
    """The token embedding alone, as stored, from a file whose header was checked."""
    stored = _stored(path)
    parts = {part: stored[f"token_embd.{part}"] for part in ("weight", "scales", "biases") if f"token_embd.{part}" in stored}
    rows, width = parts["weight"].shape
    if "scales" not in parts:
        embedding: nn.Module = nn.Embedding(rows, width)
    else:
        width = parts["scales"].shape[-1] * _GROUP
        embedding = nn.QuantizedEmbedding(rows, width, _GROUP, parts["weight"].shape[-1] * 32 // width)
    embedding.load_weights(list(parts.items()))
    return embedding


def _stored(path: Path) -> dict[str, mx.array]:
    return cast(dict[str, mx.array], mx.load(path.as_posix(), format="gguf"))


def _is_known(name: str) -> bool:
    match = _TENSOR.fullmatch(name)
    return name == _ROPE_FACTORS or bool(match and match[3] == "weight" and match[2] in _NAMES)


def _renamed(name: str) -> str:
    """`blk.0.attn_q.weight` as `model.layers.0.self_attn.q_proj.weight`."""
    match = _TENSOR.fullmatch(name)
    if match is None:
        return name
    layer, tensor, part = match.groups()
    return f"{'' if layer is None else f'model.layers.{layer}.'}{_NAMES[tensor]}.{part}"


def _in_halves(name: str, array: mx.array, config: dict[str, Any]) -> mx.array:
    """Undo llama.cpp's reordering of query and key rows (`LlamaModel.permute` in `convert_hf_to_gguf.py`).

    Rows of each head come as (pair, half) and leave as (half, pair); packed columns are whole, so scales follow alike.
    """
    heads = {"attn_q": config["num_attention_heads"], "attn_k": config["num_key_value_heads"]}.get(name.split(".")[-2])
    if heads is None:
        return array
    rows, columns = array.shape
    return array.reshape(heads, rows // heads // 2, 2, columns).swapaxes(1, 2).reshape(rows, columns)
