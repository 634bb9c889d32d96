"""The draft head before its training: shapes and first weights from the target, or an earlier head."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx.nn as nn
import numpy as np

from engine.errors import DraftlightError
from engine.models.head_model import HeadConfig, HeadModel, load_head
from engine.models.loaded import LoadedModel
from engine.target.layer_taps import dense, embedding_of
from engine.training.features import Example


def config_for(target: LoadedModel, taps: Sequence[int]) -> HeadConfig:
    """A head of the shape of one of the target's layers, as near as the head's format comes.

    Heads of attention fill the hidden size exactly: a target whose heads do not gets as many of its size as fit, or of 64.
    """
    model = getattr(target.model, "language_model", target.model)
    args = getattr(model, "args", None)
    weight = embedding_of(target.model).weight
    hidden = int(embedding_of(target.model)(mx.array([0])).shape[-1])
    wanted = int(getattr(args, "num_attention_heads", 0) or 0)
    size = getattr(args, "head_dim", None) or (hidden // wanted if wanted else 64)
    size = next(candidate for candidate in (int(size), 64, 32, 16, 8, 4, 2, 1) if hidden % candidate == 0)
    if size % 2:
        raise DraftlightError(f"No head can be made for {target.name}: its hidden size, {hidden}, is odd.")
    heads = hidden // size
    kv_heads = min(heads, int(getattr(args, "num_key_value_heads", None) or heads))
    while heads % kv_heads:
        kv_heads -= 1
    return HeadConfig(
        target_sha256=target.sha256,
        taps=tuple(taps),
        hidden_size=hidden,
        intermediate_size=int(getattr(args, "intermediate_size", None) or 3 * hidden),
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        rope_theta=float(getattr(args, "rope_theta", None) or 10000.0),
        rms_norm_eps=float(getattr(args, "rms_norm_eps", None) or 1e-5),
        vocab_size=int(weight.shape[0]),
        max_position_embeddings=target.context_length,
    )


def frequent_tokens(examples: Sequence[Example], size: int, vocabulary: int) -> np.ndarray:
    """(at most size,) int32 ids in rising order: the most frequent in answers, then in prompts, then the lowest."""
    answers = np.zeros(vocabulary, np.int64)
    everything = np.zeros(vocabulary, np.int64)
    for example in examples:
        answers += np.bincount(example.tokens[example.prompt_length :], minlength=vocabulary)
        everything += np.bincount(example.tokens, minlength=vocabulary)
    order = np.lexsort((np.arange(vocabulary), -everything, -answers))
    return np.sort(order[:size]).astype(np.int32)


def fresh_head(target: LoadedModel, config: HeadConfig, target_ids: np.ndarray, seed: int) -> HeadModel:
    """An untrained head in float32: copies of the target's last layer, norm and output rows, dequantised, where their shapes
    are the head's; random elsewhere. It starts as if the newest tap were the feature and the embedding did not count."""
    mx.random.seed(seed)
    head = HeadModel(config, len(target_ids))
    head.about.target_ids = mx.array(target_ids)
    model = getattr(target.model, "language_model", target.model)
    layer = model.layers[-1]
    attention, mlp = getattr(layer, "self_attn", None), getattr(layer, "mlp", None)
    hidden = config.hidden_size

    newest = mx.concatenate([mx.zeros((hidden, (len(config.taps) - 1) * hidden)), mx.eye(hidden)], axis=1)
    head.fc.weight = newest + mx.random.normal(newest.shape) * 0.003
    projections = [dense(getattr(attention, name, None)) for name in ("q_proj", "k_proj", "v_proj")]
    found = [part for part in projections if part is not None]
    if len(found) == 3:
        joined = mx.concatenate(found)
        copy_where_it_fits(head.qkv, mx.concatenate([joined, mx.random.normal(joined.shape) * 0.01], axis=1))
    copy_where_it_fits(head.output, dense(getattr(attention, "o_proj", None)))
    gate, up = dense(getattr(mlp, "gate_proj", None)), dense(getattr(mlp, "up_proj", None))
    if gate is not None and up is not None:
        copy_where_it_fits(head.gate_up, mx.concatenate([gate, up]))
    copy_where_it_fits(head.down, dense(getattr(mlp, "down_proj", None)))
    copy_where_it_fits(head.feature_norm, norm_weight(getattr(layer, "input_layernorm", None)))
    copy_where_it_fits(head.mlp_norm, norm_weight(getattr(layer, "post_attention_layernorm", None)))
    copy_where_it_fits(head.norm, norm_weight(getattr(getattr(model, "model", model), "norm", None)))
    copy_where_it_fits(head.head, dense(getattr(model, "lm_head", None) or embedding_of(target.model), mx.array(target_ids)))
    head.set_dtype(mx.float32)
    mx.eval(head.parameters())
    return head


def earlier_head(folder: Path, target: LoadedModel, taps: Sequence[int] | None) -> HeadModel:
    """A head to go on from, in float32.

    Raises:
        DraftlightError: it is no usable head, or of another target or other taps.
    """
    head = load_head(folder)
    head.require_target(target)
    if taps is not None and tuple(taps) != head.config.taps:
        own = ",".join(map(str, head.config.taps))
        raise DraftlightError(f"The head in {folder} reads layers {own}. Omit --taps to continue from it.")
    head.set_dtype(mx.float32)
    head.train()
    return head


def copy_where_it_fits(module: Any, array: mx.array | None) -> None:
    """Where there is something of the right shape to copy."""
    if array is not None and array.shape == module.weight.shape:
        module.weight = array.astype(mx.float32)


def norm_weight(module: Any) -> mx.array | None:
    """The weights of a plain RMS norm; others (such as those that add one) mean something else by theirs."""
    return module.weight if type(module) is nn.RMSNorm else None
