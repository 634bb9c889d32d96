"""Writes tiny block drafters with random weights in every published packaging: documented names, shapes and config.json."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
from safetensors.numpy import save_file

from engine.models.block_config import read_block_config
from engine.models.block_model import BlockModel
from tests.engine.block_reference import Reading
from tests.engine.small_models import VOCAB

HIDDEN, HEADS, KV_HEADS, SIZE, MLP, RANK, MASK = 128, 4, 2, 32, 64, 32, 90
COLUMNS = 60
SHAPES = {
    "hidden_size": HIDDEN,
    "intermediate_size": MLP,
    "num_hidden_layers": 2,
    "num_attention_heads": HEADS,
    "num_key_value_heads": KV_HEADS,
    "head_dim": SIZE,
    "rms_norm_eps": 1e-6,
    "vocab_size": VOCAB,
    "max_position_embeddings": 4096,
    "rope_theta": 10000.0,
    "model_type": "qwen3",
}
YARN = {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 64}
FOUR_BITS, EIGHT_BITS = {"group_size": 32, "bits": 4}, {"group_size": 32, "bits": 8}
INSIDE = {"mask_token_id": MASK, "target_layer_ids": [0, 2], "block_size": 5}


@dataclass(frozen=True)
class Packaged:
    """A checkpoint, and how it is meant.

    Attributes:
        config: its config.json. parts: what its file has beside the plain layers, one by one as `written` knows them.
        taps: target layers. first: the slot that predicts the token after the anchor. whole: whether all slots always run.
    """

    config: Mapping[str, Any]
    parts: tuple[str, ...] = ()
    taps: tuple[int, ...] = (0, 2)
    first: int = 1
    whole: bool = False
    size: int = 5
    quantised: bool = False
    reading: Mapping[str, Any] = field(default_factory=dict)

    def how(self) -> Reading:
        plain: dict[str, Any] = {"causal": (False, False), "windows": (None, None)}
        return Reading(HEADS, KV_HEADS, SIZE, 1e-6, 10000.0, **{**plain, **self.reading})


SLIDING = {"layer_types": ["sliding_attention", "full_attention"], "sliding_window": 6}
NEW = {**SHAPES, "architectures": ["DFlashDraftModel"], "dflash_config": INSIDE}
OLD = {**SHAPES, **INSIDE, "architectures": ["DFlashDraftModel"]}
SECOND = {
    **SHAPES,
    "architectures": ["DFlash2DraftModel"],
    "dflash_config": {**INSIDE, "conv_kernel_size": 3, "conv_group_size": 32, "selector_rank": RANK, "selector_top_k": 8},
}
DEEPSPEC = {**SHAPES, **INSIDE, "architectures": ["Qwen3DSparkModel"]}
SPECULATORS = {
    "speculators_model_type": "dflash",
    "transformer_layer_config": SHAPES,
    "aux_hidden_state_layer_ids": [1, 3],
    "mask_token_id": MASK,
    "block_size": 5,
    "draft_vocab_size": COLUMNS,
}
OWN = ("own rows", "embedding")

PACKAGED = {
    "dflash, nested": Packaged(NEW),
    "dflash, top level": Packaged(OLD, parts=("prefix",)),
    "dflash, default taps": Packaged(
        {**SHAPES, "num_target_layers": 6, "architectures": ["DFlashDraftModel"], "block_size": 5, "mask_token_id": MASK},
        taps=(1, 3),
    ),
    "dflash, sliding": Packaged({**NEW, **SLIDING}, reading={"causal": (True, False), "windows": (6, None)}),
    "dflash, sliding but not causal": Packaged({**NEW, **SLIDING, "is_causal": False}, reading={"windows": (6, None)}),
    "dflash, causal": Packaged({**NEW, "is_causal": True}, reading={"causal": (True, True)}),
    "dflash, scaled": Packaged(
        {
            **NEW,
            "final_logit_softcapping": 6.0,
            "attention_bias": True,
            "dflash_config": {**INSIDE, "input_embedding_scale": 3.0, "output_multiplier": 2.0},
        },
        parts=("bias",),
        reading={"embedding_scale": 3.0, "multiplier": 2.0, "cap": 6.0},
    ),
    "dflash, yarn": Packaged(
        {**NEW, "rope_parameters": YARN},
        reading={"yarn": (4.0, 64)},
    ),
    "dflash, yarn by type of layer": Packaged(
        {**NEW, "rope_parameters": {"full_attention": YARN, "sliding_attention": {"rope_theta": 1e6}}},
        reading={"yarn": (4.0, 64)},
    ),
    "dflash, gelu": Packaged({**NEW, "hidden_act": "gelu"}, reading={"activation": "gelu"}),
    "dflash, gelu with tanh": Packaged({**NEW, "hidden_act": "gelu_pytorch_tanh"}, reading={"activation": "gelu_pytorch_tanh"}),
    "dflash, quick gelu": Packaged({**NEW, "hidden_act": "quick_gelu"}, reading={"activation": "quick_gelu"}),
    "dflash, relu2": Packaged({**NEW, "hidden_act": "relu2"}, reading={"activation": "relu2"}),
    "dflash, side by side": Packaged({**NEW, "rope_interleave": True}, reading={"interleaved": True}),
    "dflash, first layer full": Packaged(
        {**NEW, "use_sliding_window": True, "sliding_window": 6, "max_window_layers": 1},
        reading={"causal": (False, True), "windows": (None, 6)},
    ),
    "dflash, 4-bit": Packaged({**NEW, "quantization": FOUR_BITS}, quantised=True),
    "dflash 2": Packaged(SECOND, parts=("convolutions", "selector"), reading={"convolution": (3, 32), "top_k": 8}),
    "deepspec": Packaged(DEEPSPEC, parts=(*OWN, "markov", "confidence"), first=0, whole=True),
    "deepspec, gated": Packaged(DEEPSPEC, parts=(*OWN, "markov", "gated", "wide confidence"), first=0, whole=True),
    "deepspec, recurrent": Packaged(DEEPSPEC, parts=(*OWN, "markov", "rnn"), first=0, whole=True),
    "deepspec, 4-bit": Packaged(
        {**DEEPSPEC, "quantization": FOUR_BITS}, (*OWN, "markov", "confidence"), first=0, whole=True, quantised=True
    ),
    "deepspec, lfm2": Packaged(
        {**DEEPSPEC, "architectures": ["Lfm2DSparkDraftModel"]}, OWN, first=0, whole=True, reading={"interleaved": True}
    ),
    "speculators": Packaged(SPECULATORS, parts=(*OWN, "draft vocabulary")),
    "speculators, from the anchor": Packaged(
        {
            **SPECULATORS,
            "transformer_layer_config": {**SHAPES, **SLIDING},
            "sliding_window_non_causal": True,
            "speculators_config": {"proposal_methods": [{"proposal_type": "greedy", "speculative_tokens": 5}]},
        },
        parts=(*OWN, "draft vocabulary"),
        first=0,
        reading={"windows": (6, None), "from_anchor": True},
    ),
    "speculators, dspark": Packaged(
        {**SPECULATORS, "speculators_model_type": "dspark"}, (*OWN, "draft vocabulary", "markov"), first=0
    ),
    "specforge, dspark": Packaged(
        {**SHAPES, "dflash_config": {**INSIDE, "projector_type": "dspark"}}, ("markov",), first=0, whole=True
    ),
    "specforge, domino": Packaged({**SHAPES, "dflash_config": {**INSIDE, "projector_type": "domino"}}, whole=True),
    "draftlight": Packaged(
        {**SHAPES, "model_type": "draftlight_block", "is_causal": True, "dflash_config": INSIDE},
        ("markov", "target ids"),
        first=0,
        reading={"causal": (True, True)},
    ),
    "draftlight, paired": Packaged(
        {**SHAPES, "model_type": "draftlight_block", "is_causal": True, "paired": True, "dflash_config": INSIDE},
        ("paired", "own rows", "markov", "rnn", "target ids"),
        first=0,
        reading={"causal": (True, True), "paired": True},
    ),
    "draftlight, paired, 8-bit": Packaged(
        {**SHAPES, "model_type": "draftlight_block", "is_causal": True, "paired": True, "dflash_config": INSIDE}
        | {"quantization": EIGHT_BITS},
        ("paired", "own rows", "markov", "rnn", "target ids"),
        first=0,
        quantised=True,
        reading={"causal": (True, True), "paired": True},
    ),
}


def written(folder: Path, packaged: Packaged, seed: int = 3) -> dict[str, np.ndarray]:
    """Writes the checkpoint; returns its weights as they are meant, float64, names without a prefix."""
    generator = np.random.default_rng(seed)
    parts, taps = set(packaged.parts), len(packaged.taps)
    shapes: dict[str, tuple[int, ...]] = {
        "fc.weight": (HIDDEN, taps * HIDDEN),
        "hidden_norm.weight": (HIDDEN,),
        "norm.weight": (HIDDEN,),
    }
    for layer in range(2):
        name = f"layers.{layer}"
        width = 2 * HIDDEN if "paired" in parts else HIDDEN
        attention = {"q_proj": (HEADS * SIZE, width), "k_proj": (KV_HEADS * SIZE, width), "v_proj": (KV_HEADS * SIZE, width)}
        for part, shape in {**attention, "o_proj": (HIDDEN, HEADS * SIZE)}.items():
            shapes[f"{name}.self_attn.{part}.weight"] = shape
            if "bias" in parts:
                shapes[f"{name}.self_attn.{part}.bias"] = shape[:1]
        if "paired" not in parts:
            shapes |= {f"{name}.self_attn.{part}_norm.weight": (SIZE,) for part in "qk"}
        shapes |= {f"{name}.mlp.{part}_proj.weight": (MLP, HIDDEN) for part in ("gate", "up")}
        shapes |= {f"{name}.mlp.down_proj.weight": (HIDDEN, MLP)}
        shapes |= {f"{name}.{part}_layernorm.weight": (HIDDEN,) for part in ("input", "post_attention")}
        if "convolutions" in parts:
            for part in ("attention_conv", "mlp_conv"):
                shapes[f"{name}.{part}.base_kernel"] = (2, 3, HIDDEN)
                shapes[f"{name}.{part}.kernel_projection.weight"] = (2 * 3 * HIDDEN // 32, HIDDEN)
    columns = COLUMNS if parts & {"draft vocabulary", "target ids"} else VOCAB
    optional: dict[str, dict[str, tuple[int, ...]]] = {
        "paired": {
            "embedding_norm.weight": (HIDDEN,),
            "mask_norm.weight": (HIDDEN,),
            "mask_features": (packaged.size - 1, HIDDEN),
            "mask_embeddings": (packaged.size - 1, HIDDEN),
        },
        "own rows": {"lm_head.weight": (columns, HIDDEN)},
        "embedding": {"embed_tokens.weight": (VOCAB, HIDDEN)},
        "markov": {"markov_head.markov_w1.weight": (VOCAB, RANK), "markov_head.markov_w2.weight": (columns, RANK)},
        "gated": {"markov_head.gate_proj.weight": (RANK, HIDDEN + RANK), "markov_head.gate_proj.bias": (RANK,)},
        "rnn": {"markov_head.joint_proj.weight": (3 * RANK, HIDDEN + 2 * RANK), "markov_head.joint_proj.bias": (3 * RANK,)},
        "confidence": {"confidence_head.proj.weight": (1, HIDDEN), "confidence_head.proj.bias": (1,)},
        "wide confidence": {"confidence_head.proj.weight": (1, HIDDEN + RANK), "confidence_head.proj.bias": (1,)},
        "selector": {
            "candidate_selector.predecessor_codebook": (VOCAB, RANK),
            "candidate_selector.successor_codebook": (VOCAB, RANK),
            "candidate_selector.hidden_projection.weight": (RANK, HIDDEN),
        },
    }
    for part in optional.keys() & parts:
        shapes |= optional[part]
    weights = {name: _random(generator, name, shape) for name, shape in shapes.items()}
    ids = np.sort(generator.permutation(VOCAB)[:COLUMNS])
    extra: dict[str, np.ndarray] = {}
    if "draft vocabulary" in parts:
        extra = {"d2t": ids - np.arange(COLUMNS), "t2d": np.isin(np.arange(VOCAB), ids)}
    elif "target ids" in parts:
        extra = {"target_ids": ids.astype(np.int32)}
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(packaged.config))
    prefix = "model." if "prefix" in parts else ""
    stored = dict(weights)
    if packaged.quantised:
        for name in [
            name for name in weights if name.endswith("weight") and weights[name].ndim == 2 and len(weights[name]) % 32 == 0
        ]:
            bits = packaged.config["quantization"]["bits"]
            small, scales, biases = mx.quantize(mx.array(weights[name]), group_size=32, bits=bits)
            weights[name] = np.array(mx.dequantize(small, scales, biases, group_size=32, bits=bits))
            stored |= {name: np.array(small), name.replace("weight", "scales"): np.array(scales)}
            stored[name.replace("weight", "biases")] = np.array(biases)
    save_file({prefix + name: array for name, array in {**stored, **extra}.items()}, folder / "model.safetensors")
    return {name: array.astype(np.float64) for name, array in {**weights, **({"ids": ids} if extra else {})}.items()}


def _random(generator: np.random.Generator, name: str, shape: tuple[int, ...]) -> np.ndarray:
    if "norm" in name:
        return generator.uniform(0.5, 1.5, shape).astype(np.float32)
    scale = {"lm_head.weight": 0.3, "markov_head.markov_w2.weight": 0.7}.get(name, 1.5 / np.sqrt(shape[-1]))
    if "codebook" in name or "markov_w1" in name or "embed_tokens" in name or "base_kernel" in name:
        scale = 1.0
    return (generator.standard_normal(shape) * scale).astype(np.float32)


def random_block(columns: int = VOCAB, taps: tuple[int, ...] = (0, 2), layers: int = 2, **changes: Any) -> BlockModel:
    """A block drafter in memory, of our own packaging, with output rows of its own."""
    inside = {**INSIDE, "target_layer_ids": list(taps), "mask_token_id": 0}
    own = {"num_hidden_layers": layers, "model_type": "draftlight_block", "is_causal": True, "dflash_config": inside}
    mx.random.seed(6)
    block = BlockModel(read_block_config({**SHAPES, **own, **changes}, "a block"), {"lm_head.weight": (columns, HIDDEN)})
    block.lm_head.weight = block.lm_head.weight * 20
    mx.eval(block.parameters())
    return block
