"""What a draft head is trained on: chains of steps that are fed their own features, and a loss against soft labels.

At run time the head drafts in a chain: its first step sees the target's feature at position t, each further one the feature that
the step before put out. Training unrolls the same chains from every position of a text at once. The step s of the chain from
position t attends to the first steps' keys up to t, made from the target's features, and to the keys of its own chain; that is
what `engine.drafters.feature_head` has in its cache there (a test holds the two together).
"""

from __future__ import annotations

from typing import cast

import mlx.core as mx

from engine.models.head_model import HeadModel

_NEVER = -1e9


def unroll(head: HeadModel, fused: mx.array, embedded: mx.array, steps: int) -> list[mx.array]:
    """The head's features after each step of all chains.

    Args:
        fused: (batch, rows, hidden), `head.fuse` of the target's features at positions 0 to rows - 1.
        embedded: (batch, at least rows + steps - 1, hidden) embeddings of the tokens from position 1 on.

    Returns:
        For each step s (batch, rows, hidden): row t is the chain from position t, whose logits are of the token at t + 2 + s.
    """
    batch, rows, _ = fused.shape
    config = head.config
    kv_heads, size = config.num_key_value_heads, config.head_size
    mask = mx.triu(mx.full((rows, rows), _NEVER), k=1)
    feature = fused
    first: tuple[mx.array, mx.array] | None = None
    own: list[tuple[mx.array, mx.array]] = []
    features = []
    for step in range(steps):
        queries, keys, values = head.project(feature, embedded[:, step : step + rows], step)
        queries = queries.reshape(batch, kv_heads, -1, rows, size) * size**-0.5
        keys, values = keys[:, :, None], values[:, :, None]
        if first is None:
            first = keys, values
            attended = mx.softmax(queries @ keys.swapaxes(-1, -2) + mask, axis=-1) @ values
        else:
            own.append((keys, values))
            attended = _attend(queries, first, own, mask)
        feature = head.leave(feature, attended.reshape(batch, -1, rows, size))
        features.append(feature)
    return features


def _attend(
    queries: mx.array, first: tuple[mx.array, mx.array], own: list[tuple[mx.array, mx.array]], mask: mx.array
) -> mx.array:
    """Attention to the first steps of all positions so far and to one key of each later step: a softmax in parts, which spares
    the (rows, steps x rows) scores."""
    scores = queries @ first[0].swapaxes(-1, -2) + mask
    single = [(queries * keys).sum(axis=-1, keepdims=True) for keys, _ in own]
    highest = scores.max(axis=-1, keepdims=True)
    for score in single:
        highest = mx.maximum(highest, score)
    highest = mx.stop_gradient(highest)
    weights = mx.exp(scores - highest)
    total, attended = weights.sum(axis=-1, keepdims=True), weights @ first[1]
    for score, (_, values) in zip(single, own, strict=True):
        weight = mx.exp(score - highest)
        total, attended = total + weight, attended + weight * values
    return attended / total


def soft_loss(
    hidden: mx.array,
    head: mx.array,
    columns: mx.array,
    labels: mx.array,
    weights: mx.array,
    sharpness: float,
    variation: float,
    base: tuple[mx.array, mx.array] | None = None,
) -> mx.array:
    """Weighted cross-entropy with soft labels, and total variation from them: what `rejection` accepts is one minus that.

    The gradient is written out: one exponential over the vocabulary instead of the two that automatic differentiation takes. On
    the CPU that saves a quarter (0.27 against 0.35 seconds for 1,024 positions and 8,192 columns).

    Args:
        hidden: (positions, hidden) normed features. head: (vocabulary, hidden).
        columns: (positions, labels) int32 columns of the labels, -1 outside the head.
        labels: (positions, labels) probabilities at temperature 1 / sharpness, 0 where the column is -1.
        weights: (positions,). sharpness: multiplies the logits. variation: weight of the total variation.
        base: features (positions, width) and rows (vocabulary, width) of logits to which those of `hidden` and `head` are added.
            The rows are given: only the features have a gradient.
    """
    features, rows_given = base if base is not None else (mx.zeros((hidden.shape[0], 0)), mx.zeros((head.shape[0], 0)))

    @mx.custom_function
    def loss(
        hidden: mx.array, head: mx.array, features: mx.array, columns: mx.array, labels: mx.array, weights: mx.array
    ) -> tuple[mx.array, mx.array, mx.array, mx.array]:
        """() the loss, and beside it its gradients by `hidden`, `head` and `features`, which `backwards` hands on."""
        logits = hidden @ head.T
        if base is not None:
            logits = logits + features @ rows_given.T
        logits = logits * sharpness
        highest = logits.max(axis=-1, keepdims=True)
        powers = mx.exp(logits - highest)
        total = powers.sum(axis=-1, keepdims=True)
        inside = columns >= 0
        places = mx.maximum(columns, 0)
        logs = mx.take_along_axis(logits, places, axis=-1) - highest - mx.log(total)
        drafted = mx.exp(logs) * inside
        mass = labels.sum(axis=-1, keepdims=True)
        cross_entropy = -(labels * logs).sum(axis=-1)
        overlap = mx.minimum(labels, drafted).sum(axis=-1)
        value = ((cross_entropy + variation * (mass[:, 0] - overlap)) * weights).sum()

        below = drafted * (drafted < labels)  # where more probability would be accepted
        pull = labels + variation * below
        gradient = powers * (weights[:, None] * (mass + variation * below.sum(axis=-1, keepdims=True)) / total)
        # Within a row columns differ where they count; those outside all add 0 to column 0.
        rows = mx.broadcast_to(mx.arange(hidden.shape[0])[:, None], places.shape)
        gradient = gradient.at[rows, places].add(-weights[:, None] * pull * inside) * sharpness
        by_features = mx.zeros_like(features) if base is None else gradient @ rows_given
        return value, gradient @ head, gradient.T @ hidden, by_features

    @loss.vjp
    def backwards(
        primals: tuple[mx.array, ...], cotangents: tuple[mx.array, ...], outputs: tuple[mx.array, ...]
    ) -> tuple[mx.array, ...]:
        """The gradients that the forward pass has worked out, scaled; only `hidden`, `head` and `features` have one."""
        constants = (mx.zeros_like(primal) for primal in primals[3:])
        return *(cotangents[0] * gradient for gradient in outputs[1:]), *constants

    return cast(tuple[mx.array, ...], loss(hidden, head, features, columns, labels, weights))[0]
