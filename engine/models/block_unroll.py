"""Runs the blocks after many anchors of a known text in one pass, for training and for the probe of
`engine.drafters.alignment`.

At run time a block attends to the target's features before its anchor, and to itself. Here blocks start at many anchors of one
text at once. Keys and values of the features are computed once for the whole text. A mask limits each block to the features
before its anchor: it never sees a feature at or after it, nor another block (a test changes those and requires equal outputs).
The output of a slot equals that of `engine.drafters.block` (a test compares both).
"""

from __future__ import annotations

import mlx.core as mx

from engine.models.block_config import BlockConfig
from engine.models.block_model import Attend, BlockModel

_MASKED = -1e9


def unroll_blocks(model: BlockModel, features: mx.array, anchors: mx.array, text: mx.array, slots: int) -> mx.array:
    """Returns the normalised outputs of the blocks of one text.

    Args:
        features: (rows, taps x hidden) of the target at positions 0 to rows - 1; all positions before the last anchor.
        anchors: (blocks,) int32 positions, at least 1. text: its tokens, at least up to the last anchor. slots: number per
            block.

    Returns:
        (blocks, slots, hidden).
    """
    config = model.config
    fused = model.fuse(features)
    rows = model.context(fused, text[1 : features.shape[0] + 1])[None]
    context = [layer.self_attn.keys_and_values(rows, 0) for layer in model.layers]
    positions = mx.arange(features.shape[0])[None, None]

    def attend(index: int) -> Attend:
        """Returns the attention function of one layer."""
        keys, values = (part[0] for part in context[index])
        start, count = model.slot_range(index, anchors, slots)
        masks = _masks(config, index, positions, start[:, None, None], count)

        def attended(queries: mx.array, block_keys: mx.array, block_values: mx.array) -> mx.array:
            """Returns the attention of all blocks (see `Attend`)."""
            return _attended(queries * config.head_dim**-0.5, keys, values, block_keys, block_values, masks)

        return attended

    return model.slot_outputs(text[anchors], fused[anchors - 1], slots, anchors, attend)


def _masks(config: BlockConfig, index: int, positions: mx.array, first: mx.array, slots: int) -> tuple[mx.array, mx.array]:
    """Returns the additive masks of context (blocks, slots, rows) and block (blocks, slots, slots) for one layer whose first
    slot is at position `first` (blocks, 1, 1)."""
    slot_positions = first + mx.arange(slots)[None, :, None]
    window = config.windows[index]
    key_positions = slot_positions.swapaxes(1, 2)
    sees_context, sees_block = (
        mx.broadcast_to(positions < first, (*slot_positions.shape[:2], positions.shape[-1])),
        key_positions >= first,
    )
    if config.causal[index]:
        sees_block = sees_block & (key_positions <= slot_positions)
    if window is not None:
        oldest = slot_positions - window + 1 if config.window_follows_slot else first - window
        sees_context, sees_block = sees_context & (positions >= oldest), sees_block & (key_positions >= oldest)
    return mx.where(sees_context, 0.0, _MASKED), mx.where(sees_block, 0.0, _MASKED)


def _attended(
    queries: mx.array,
    keys: mx.array,
    values: mx.array,
    block_keys: mx.array,
    block_values: mx.array,
    masks: tuple[mx.array, mx.array],
) -> mx.array:
    """Returns (blocks, heads, slots, size), from queries of that shape, keys and values (kv heads, rows, size) of the context
    and (blocks, kv heads, slots, size) of the blocks. One product per key-value head multiplies all blocks with the context."""
    blocks, heads, slots, size = queries.shape
    kv_heads, rows, _ = keys.shape
    shared = heads // kv_heads
    by_head = queries.reshape(blocks, kv_heads, shared * slots, size).swapaxes(0, 1)
    context = (by_head.reshape(kv_heads, -1, size) @ keys.swapaxes(1, 2)).reshape(kv_heads, blocks, shared, slots, rows)
    block = (by_head @ block_keys.swapaxes(0, 1).swapaxes(2, 3)).reshape(kv_heads, blocks, shared, slots, slots)
    scores = mx.concatenate([context + masks[0][None, :, None], block + masks[1][None, :, None]], axis=-1)
    weights = mx.softmax(scores, axis=-1)
    from_context = weights[..., :rows].reshape(kv_heads, -1, rows) @ values
    from_block = weights[..., rows:].reshape(kv_heads, blocks, shared * slots, slots) @ block_values.swapaxes(0, 1)
    attended = from_context.reshape(from_block.shape) + from_block
    return attended.swapaxes(0, 1).reshape(blocks, heads, slots, size).astype(queries.dtype)
