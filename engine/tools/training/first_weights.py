"""Shapes and initial weights of a head or a block drafter, from the target or from an earlier head of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx.nn as nn
import numpy as np
from mlx.utils import tree_flatten

from engine.files.model_folder import CONFIG, read_json
from engine.models.block_config import BlockConfig
from engine.models.block_model import BlockModel
from engine.models.eagle3_model import Eagle3Model, load_eagle3
from engine.models.head_model import HeadConfig, HeadModel, load_head
from engine.models.loaded import LoadedModel
from engine.target.layer_taps import dense, embedding_of, hidden_size_of
from engine.tools.training.features import Example
from engine.values.drafter_kinds import EAGLE_FOLDER, MTP_FOLDER, type_stated
from engine.values.errors import DraftlightError


def config_for(target: LoadedModel, taps: Sequence[int]) -> HeadConfig:
    """Returns a head configuration as close to the target's layer shape as the head's format allows.

    The attention heads of a draft head must fill the hidden size exactly. If the target's do not, the draft head gets as many
    heads of the target's size as fit, or of size 64.
    """
    model: Any = _text_model(target)
    args = getattr(model, "args", None)
    weight = embedding_of(target.model).weight
    hidden = hidden_size_of(embedding_of(target.model))
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


def _text_model(target: LoadedModel) -> Any:
    """Returns the part of a target that has its layers: all of it, unless it also reads pictures."""
    return getattr(target.model, "language_model", target.model)


def _newest_tap(config: HeadConfig | BlockConfig) -> mx.array:
    """Returns (hidden, taps x hidden): a projection that takes almost nothing but the newest tap."""
    hidden = config.hidden_size
    newest = mx.concatenate([mx.zeros((hidden, (len(config.taps) - 1) * hidden)), mx.eye(hidden)], axis=1)
    return newest + mx.random.normal(newest.shape) * 0.003


def frequent_tokens(examples: Sequence[Example], size: int, vocabulary: int) -> np.ndarray:
    """Returns (at most size,) int32 ids in rising order: the most frequent in answers, then in prompts, then the lowest."""
    answers = np.zeros(vocabulary, np.int64)
    everything = np.zeros(vocabulary, np.int64)
    for example in examples:
        answers += np.bincount(example.tokens[example.prompt_length :], minlength=vocabulary)
        everything += np.bincount(example.tokens, minlength=vocabulary)
    return np.sort(np.lexsort((np.arange(vocabulary), -everything, -answers))[:size]).astype(np.int32)


def fresh_head(target: LoadedModel, config: HeadConfig, target_ids: np.ndarray, seed: int) -> HeadModel:
    """Returns an untrained head in float32. It has dequantised copies of the target's last layer, norm and output rows where
    their shapes fit, and random weights elsewhere. Initially it reads only the newest tap, and almost ignores the embedding."""
    mx.random.seed(seed)
    head = HeadModel(config, len(target_ids))
    head.metadata.target_ids = mx.array(target_ids)
    model: Any = _text_model(target)
    layer = model.layers[-1]
    attention, mlp = getattr(layer, "self_attn", None), getattr(layer, "mlp", None)
    head.fc.weight = _newest_tap(config)
    projections = [part for name in ("q_proj", "k_proj", "v_proj") if (part := dense(getattr(attention, name, None))) is not None]
    if len(projections) == 3:
        joined = mx.concatenate(projections)
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
    """Returns an earlier head to continue training, in float32; a published EAGLE-3 head becomes one of ours.

    Raises:
        DraftlightError: it is not a usable head, or it belongs to another target or other taps.
    """
    kind = type_stated(read_json(folder / CONFIG))
    if kind == MTP_FOLDER:
        raise DraftlightError(
            f"Training cannot start from {folder}: the attention of an MTP head reads state and token fused into one vector, and "
            "that of a draft head reads both. Omit --start, or use the MTP head as it is."
        )
    if kind == EAGLE_FOLDER:
        head = head_of_eagle3(load_eagle3(folder, target), target, folder)
    else:
        head = load_head(folder)
    head.require_target(target)
    if taps is not None and tuple(taps) != head.config.taps:
        own = ",".join(map(str, head.config.taps))
        raise DraftlightError(f"The head in {folder} reads layers {own}. Omit --taps to continue from it.")
    head.set_dtype(mx.float32)
    head.train()
    return head


def head_of_eagle3(eagle: Eagle3Model, target: LoadedModel, folder: Path) -> HeadModel:
    """Returns a head that computes what an EAGLE-3 head does. Its columns of `qkv` are in the other order: state, embedding.

    Raises:
        DraftlightError: the head has parts that ours lack, or another size; names them.
    """
    stated, config, layer = eagle.stated, config_for(target, eagle.config.taps), eagle.layers[0]
    attention, mlp = layer.self_attn, layer.mlp
    differs = {
        "another kind than EAGLE-3": stated.is_second or stated.reads_final_state,
        f"{len(eagle.layers)} layers": len(eagle.layers) > 1,
        "another hidden size than the target": stated.hidden_size != config.hidden_size,
        "norms before fc": stated.norm_before_fc or stated.fc_norm,
        "norms of queries and keys": "weight" in attention.q_norm,
        "biases": any(name.endswith(".bias") for name in dict(tree_flatten(eagle.parameters()))),
        "a residual stream or a chain after the norm": eagle.reading.norm_before_residual or eagle.reading.chain_normed,
        "heads of another width": stated.head_dim * stated.num_attention_heads != stated.hidden_size,
        "scaled rotary positions": stated.rope_scaling is not None,
        "another activation than silu": stated.activation != "silu",
        "an embedding of its own": "embed_tokens" in eagle and not _is_embedding_of(target, eagle.embed_tokens),
        "no output rows": "lm_head" not in eagle,
        "the embedding among its layers": min(config.taps) < 0,
    }
    if found := [what for what, is_true in differs.items() if is_true]:
        raise DraftlightError(f"Training cannot start from {folder}, because it has {', '.join(found)}. Omit --start.")
    gate_up = mx.concatenate([part for module in (mlp.gate_proj, mlp.up_proj) if (part := dense(module)) is not None])
    config = replace(
        config,
        intermediate_size=gate_up.shape[0] // 2,
        num_attention_heads=stated.num_attention_heads,
        num_key_value_heads=stated.num_key_value_heads,
        rope_theta=stated.rope_theta,
        rms_norm_eps=stated.rms_norm_eps,
    )
    projections = (attention.q_proj, attention.k_proj, attention.v_proj)
    joined = mx.concatenate([part for module in projections if (part := dense(module)) is not None])
    of_embedding, of_state = mx.split(joined, 2, axis=1)
    weights = {
        "fc": dense(eagle.fc),
        "feature_norm": layer.hidden_norm.weight,
        "embedding_norm": layer.input_layernorm.weight,
        "qkv": mx.concatenate([of_state, of_embedding], axis=1),
        "output": dense(attention.o_proj),
        "mlp_norm": layer.post_attention_layernorm.weight,
        "gate_up": gate_up,
        "down": dense(mlp.down_proj),
        "norm": eagle.norm.weight,
        "head": dense(eagle.lm_head),
    }
    ids = eagle.target_ids if eagle.target_ids is not None else mx.arange(eagle.lm_head.weight.shape[0], dtype=mx.int32)
    head = HeadModel(config, ids.size)
    head.metadata.target_ids, head.metadata.files = ids, eagle.metadata.files[:1]
    head.load_weights([(f"{name}.weight", array) for name, array in weights.items() if array is not None])
    mx.eval(head.parameters(), ids)
    return head


def _is_embedding_of(target: LoadedModel, own: nn.Module) -> bool:
    there, here = dense(embedding_of(target.model)), dense(own)
    return there is not None and here is not None and there.shape == here.shape and bool(mx.allclose(there, here, atol=1e-3))


def copy_where_it_fits(module: Any, array: mx.array | None) -> None:
    """Copies the array to the module's weight if there is one of the right shape."""
    if array is not None and array.shape == module.weight.shape:
        module.weight = array.astype(mx.float32)


def norm_weight(module: Any) -> mx.array | None:
    """Returns the weights of a plain RMS norm; None for other norms, which use their weights differently (some add 1)."""
    return module.weight if type(module) is nn.RMSNorm else None


MARKOV_RANK, PAIRED_RANK = 32, 128
"""Rank of the Markov head; that of a paired block drafter is higher, because it also stores a state of the draft."""
SMALL = 0.02
"""Standard deviation of random initial weights."""


def block_config_for(
    target: LoadedModel, taps: Sequence[int], layers: int, size: int, causal: bool, mask: int, paired: bool = False
) -> BlockConfig:
    """Returns the configuration of a block drafter in Draftlight's own packaging, with layers of the target's shape."""
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
        paired=paired,
        target_sha256=like.target_sha256,
    )


def mask_token(target: LoadedModel, examples: Sequence[Example]) -> int:
    """Returns a token that does not occur in the text: a special one if there is one, else the last."""
    used = {int(token) for example in examples for token in np.unique(example.tokens)}
    special = sorted(target.tokenizer.special) if target.tokenizer is not None else []
    rows = int(embedding_of(target.model).weight.shape[0])
    free = [token for token in (*special, *range(rows - 1, -1, -1)) if token not in used and token not in target.eos_ids]
    return free[0] if free else 0


def fresh_block(
    target: LoadedModel, config: BlockConfig, target_ids: np.ndarray, seed: int, head: HeadModel | None = None
) -> BlockModel:
    """Returns an untrained block drafter in float32: copies of the target's last layers and norm where they fit, else random.

    Initially the context is the newest tap, normalised as the copied layer would do it, so that the context's keys and values
    are approximately the target's. The Markov head initially adds nothing; its embedding is the target's, projected to its
    principal components.

    A paired drafter starts from a trained head of the same target and taps (see `_from_head`).
    """
    mx.random.seed(seed)
    if config.paired:
        assert head is not None, "a paired block drafter begins as a head"
        return _from_head(target, config, head)
    rank = min(MARKOV_RANK, config.hidden_size)
    shapes = {"markov_head.markov_w1.weight": (config.vocab_size, rank), "markov_head.markov_w2.weight": (len(target_ids), rank)}
    block = BlockModel(config, shapes)
    block.metadata.target_ids = mx.array(target_ids)
    model: Any = _text_model(target)
    block.fc.weight = _newest_tap(config)
    sources = list(model.layers)[-config.num_hidden_layers :]
    for layer, source in zip(block.layers, sources, strict=False):
        _copy_layer(layer, source)
    copy_where_it_fits(block.hidden_norm, norm_weight(getattr(sources[0], "input_layernorm", None)))
    copy_where_it_fits(block.norm, norm_weight(getattr(getattr(model, "model", model), "norm", None)))
    block.markov_head.markov_w1.weight = _main_directions(target, rank)
    block.markov_head.markov_w2.weight = mx.zeros_like(block.markov_head.markov_w2.weight)
    block.set_dtype(mx.float32)
    block.bind(target.model)
    mx.eval(block.parameters())
    return block


def _from_head(target: LoadedModel, config: BlockConfig, head: HeadModel) -> BlockModel:
    """Returns a paired block drafter whose first slot equals the head's first step, with frozen weights.

    The second layer also starts as a copy of the head, with the first slot in place of the target's features. Layers after it
    change nothing initially. Nor does the Markov head, which has a state.
    """
    columns, hidden = len(head.target_ids), config.hidden_size
    rank = min(PAIRED_RANK, hidden)
    shapes = {
        "lm_head.weight": (columns, hidden),
        "markov_head.markov_w1.weight": (config.vocab_size, rank),
        "markov_head.markov_w2.weight": (columns, rank),
        "markov_head.joint_proj.weight": (3 * rank, 2 * rank + hidden),
    }
    block = BlockModel(config, shapes)
    block.metadata.target_ids = head.target_ids
    for weights_, one in (("fc", "fc"), ("hidden_norm", "feature_norm"), ("embedding_norm", "embedding_norm")):
        copy_where_it_fits(block[weights_], head[one].weight)
    for norm in (block.norm, block.mask_norm):
        copy_where_it_fits(norm, head.norm.weight)
    copy_where_it_fits(block.lm_head, head.head.weight)
    queries = config.num_attention_heads * config.head_dim
    keys = queries + config.num_key_value_heads * config.head_dim
    parts = mx.split(head.qkv.weight, [queries, keys])
    for index, layer in enumerate(block.layers):
        for name, part in zip(("q_proj", "k_proj", "v_proj"), parts, strict=True):
            copy_where_it_fits(layer.self_attn[name], part)
        for name, part in zip(("gate_proj", "up_proj"), mx.split(head.gate_up.weight, 2), strict=True):
            copy_where_it_fits(layer.mlp[name], part)
        copy_where_it_fits(layer.self_attn.o_proj, head.output.weight * (index < 2))
        copy_where_it_fits(layer.mlp.down_proj, head.down.weight * (index < 2))
        copy_where_it_fits(layer.input_layernorm, head.feature_norm.weight)
        copy_where_it_fits(layer.post_attention_layernorm, head.mlp_norm.weight)
    block.set_dtype(mx.float32)
    block.bind(target.model)
    for given in (block.fc, block.hidden_norm, block.embedding_norm, block.layers[0], block.norm, block.lm_head):
        given.freeze()
    default = head.embedding_norm(embedding_of(target.model)(head.target_ids).astype(mx.float32)).mean(axis=0)
    masks = block.mask_features.shape
    block.mask_features = mx.random.normal(masks) * SMALL
    block.mask_embeddings = default + mx.random.normal(masks) * SMALL
    markov = block.markov_head
    markov.markov_w1.weight = _main_directions(target, rank)
    markov.markov_w2.weight = block.lm_head.weight @ (mx.random.normal((hidden, rank)) * SMALL)
    joint = mx.random.normal(markov.joint_proj.weight.shape) * SMALL
    markov.joint_proj.weight = joint * (mx.arange(3 * rank) < 2 * rank)[:, None]
    markov.joint_proj.bias = mx.zeros_like(markov.joint_proj.bias)
    mx.eval(block.parameters())
    return block


def _main_directions(target: LoadedModel, rank: int) -> mx.array:
    """Returns (vocabulary, rank): the target's centred embedding on its principal components, scaled to standard deviation
    1."""
    embedding = np.array(dense(embedding_of(target.model)).astype(mx.float32))
    centred = embedding - embedding.mean(axis=0)
    _, directions = np.linalg.eigh(centred.T @ centred)
    main = centred @ directions[:, -rank:]
    return mx.array((main / main.std()).astype(np.float32))


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
            # The target does not normalise these: use the expected length of the projection of a normalised input.
            length = (own[f"{name}_proj"].weight * layer.input_layernorm.weight).square().sum(axis=1).mean().sqrt()
            own[f"{name}_norm"].weight = mx.ones_like(own[f"{name}_norm"].weight) * length
