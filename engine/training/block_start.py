"""The block drafter before its training: shapes and first weights from the target, and from a trained head of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mlx.core as mx
import mlx.nn as nn
import numpy as np

from engine.models.block_config import BlockConfig
from engine.models.block_model import BlockModel
from engine.models.head_model import HeadModel
from engine.models.loaded import LoadedModel
from engine.target.layer_taps import dense, embedding_of
from engine.training.features import Example
from engine.training.head_start import config_for, copy_where_it_fits, norm_weight

MARKOV_RANK = 32


def block_config_for(target: LoadedModel, taps: Sequence[int], layers: int, size: int, causal: bool, mask: int) -> BlockConfig:
    """A block drafter of our own packaging whose layers have the shape of the target's."""
    like = config_for(target, taps)
    return BlockConfig(
        packaging="Draftlight",
        hidden_size=like.hidden_size,
        intermediate_size=like.intermediate_size,
        num_hidden_layers=layers,
        num_attention_heads=like.num_attention_heads,
        num_key_value_heads=like.num_key_value_heads,
        head_dim=like.head_size,
        rms_norm_eps=like.rms_norm_eps,
        vocab_size=like.vocab_size,
        max_position_embeddings=like.max_position_embeddings,
        rope_theta=like.rope_theta,
        rope_scaling=None,
        rope_interleaved=False,
        attention_bias=False,
        taps=like.taps,
        mask_token_id=mask,
        block_size=size,
        anchor_predicts=True,
        whole_blocks=False,
        causal=(causal,) * layers,
        windows=(None,) * layers,
        target_sha256=like.target_sha256,
    )


def mask_token(target: LoadedModel, examples: Sequence[Example]) -> int:
    """A token that the text does not have: a special one if there is one, else the last."""
    used = {int(token) for example in examples for token in np.unique(example.tokens)}
    special = sorted(target.tokenizer.special) if target.tokenizer is not None else []
    rows = int(embedding_of(target.model).weight.shape[0])
    free = [token for token in (*special, *range(rows - 1, -1, -1)) if token not in used and token not in target.eos_ids]
    return free[0] if free else 0


def fresh_block(
    target: LoadedModel, config: BlockConfig, target_ids: np.ndarray, seed: int, head: HeadModel | None = None
) -> BlockModel:
    """An untrained block drafter in float32: copies of the target's last layers and norm where their shapes allow, else random.

    The newest tap is the context at first, normed as the copied layer would norm it, so that its keys and values of the context
    are about the target's. With a trained head of the same target and taps, its fusion and norm of the features are taken. The
    Markov head says nothing at first; its embedding is the target's on its main directions.
    """
    mx.random.seed(seed)
    rank = min(MARKOV_RANK, config.hidden_size)
    shapes = {"markov_head.markov_w1.weight": (config.vocab_size, rank), "markov_head.markov_w2.weight": (len(target_ids), rank)}
    block = BlockModel(config, shapes)
    block.about.target_ids = mx.array(target_ids)
    model = getattr(target.model, "language_model", target.model)
    hidden, count = config.hidden_size, config.num_hidden_layers
    newest = mx.concatenate([mx.zeros((hidden, (len(config.taps) - 1) * hidden)), mx.eye(hidden)], axis=1)
    block.fc.weight = newest + mx.random.normal(newest.shape) * 0.003
    for layer, source in zip(block.layers, list(model.layers)[-count:], strict=False):
        _copy_layer(layer, source)
    copy_where_it_fits(block.hidden_norm, norm_weight(getattr(list(model.layers)[-count:][0], "input_layernorm", None)))
    copy_where_it_fits(block.norm, norm_weight(getattr(getattr(model, "model", model), "norm", None)))
    if head is not None:
        copy_where_it_fits(block.fc, head.fc.weight)
        copy_where_it_fits(block.hidden_norm, head.feature_norm.weight)
    embedding = np.array(dense(embedding_of(target.model)))
    centred = embedding - embedding.mean(axis=0)
    _, directions = np.linalg.eigh(centred.T @ centred)
    main = centred @ directions[:, -rank:]
    block.markov_head.markov_w1.weight = mx.array((main / main.std()).astype(np.float32))
    block.markov_head.markov_w2.weight = mx.zeros_like(block.markov_head.markov_w2.weight)
    block.set_dtype(mx.float32)
    block.bind(target.model)
    mx.eval(block.parameters())
    return block


def _copy_layer(layer: Any, source: nn.Module) -> None:
    attention, mlp = getattr(source, "self_attn", None), getattr(source, "mlp", None)
    own = layer.self_attn
    for name in ("q_proj", "k_proj", "v_proj", "o_proj"):
        copy_where_it_fits(own[name], dense(getattr(attention, name, None)))
    for name in ("gate_proj", "up_proj", "down_proj"):
        copy_where_it_fits(layer.mlp[name], dense(getattr(mlp, name, None)))
    for name in ("input_layernorm", "post_attention_layernorm"):
        copy_where_it_fits(layer[name], norm_weight(getattr(source, name, None)))
    for name in ("q", "k"):
        if (norm := norm_weight(getattr(attention, f"{name}_norm", None))) is not None:
            copy_where_it_fits(own[f"{name}_norm"], norm)
        else:
            # The target does not norm these: the expected length of what its projection makes of a normed input takes the place.
            length = (own[f"{name}_proj"].weight * layer.input_layernorm.weight).square().sum(axis=1).mean().sqrt()
            own[f"{name}_norm"].weight = mx.ones_like(own[f"{name}_norm"].weight) * length
