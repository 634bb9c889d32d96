"""A second implementation of a block drafter's pass, in numpy and float64, from the description of DFlash alone.

It keeps no cache and shares no code with the engine: one loop for each slot, layer and head.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Weights = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Reading:
    """How a checkpoint is meant.

    Attributes:
        paired: whether layers read features and the token after them side by side.
        causal, windows: of each layer. from_anchor: a window is counted from the anchor, not from the slot.
        yarn: factor and original length.
    """

    heads: int
    kv_heads: int
    size: int
    eps: float
    theta: float
    causal: Sequence[bool]
    windows: Sequence[int | None]
    from_anchor: bool = False
    convolution: tuple[int, int] | None = None
    embedding_scale: float = 1.0
    multiplier: float = 1.0
    cap: float = 0.0
    yarn: tuple[float, int] | None = None
    interleaved: bool = False
    top_k: int = 0
    paired: bool = False
    activation: str = "silu"
    extra: dict[str, Any] = field(default_factory=dict)


def rms(x: np.ndarray, weight: np.ndarray, eps: float) -> np.ndarray:
    return x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + eps) * weight


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


ERF = np.vectorize(math.erf)
ACTIVATIONS = {
    "silu": lambda x: x * sigmoid(x),
    "gelu": lambda x: x * (1 + ERF(x / math.sqrt(2))) / 2,
    "gelu_pytorch_tanh": lambda x: x / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "quick_gelu": lambda x: x * sigmoid(1.702 * x),
    "relu2": lambda x: np.maximum(x, 0) ** 2,
}
"""By their names in transformers: Elfwing et al. 2017, Hendrycks and Gimpel 2016 (exact and with tanh), So et al. 2021."""


def linear(weights: Weights, name: str, x: np.ndarray) -> np.ndarray:
    out = x @ weights[f"{name}.weight"].T
    return out + weights[f"{name}.bias"] if f"{name}.bias" in weights else out


def frequencies(how: Reading) -> tuple[np.ndarray, float]:
    """Radians a position of each pair, and YaRN's factor on what is rotated (Peng et al., arXiv 2309.00071)."""
    plain = how.theta ** (-np.arange(0, how.size, 2) / how.size)
    if how.yarn is None:
        return plain, 1.0
    factor, length = how.yarn

    def pair_that_turns(times: float) -> float:
        return how.size * math.log(length / (times * 2 * math.pi)) / (2 * math.log(how.theta))

    low, high = max(math.floor(pair_that_turns(32)), 0), min(math.ceil(pair_that_turns(1)), how.size - 1)
    slow = np.clip((np.arange(how.size // 2) - low) / max(high - low, 0.001), 0, 1)
    return plain / factor * slow + plain * (1 - slow), 0.1 * math.log(factor) + 1


def rotate(x: np.ndarray, position: int, how: Reading) -> np.ndarray:
    turned, factor = frequencies(how)
    angles = turned * position
    first, second = (x[0::2], x[1::2]) if how.interleaved else (x[: how.size // 2], x[how.size // 2 :])
    one, two = first * np.cos(angles) - second * np.sin(angles), second * np.cos(angles) + first * np.sin(angles)
    return factor * (np.stack([one, two], axis=-1).reshape(-1) if how.interleaved else np.concatenate([one, two]))


def convolve(x: np.ndarray, base: np.ndarray, dynamic: np.ndarray, group: int) -> np.ndarray:
    """y[t] = sum over o of (base[o] + dynamic[t, o, channel // group]) x[t - o]."""
    y = np.zeros_like(x)
    for slot in range(len(x)):
        for back in range(min(len(base), slot + 1)):
            for channel in range(x.shape[1]):
                tap = base[back, channel] + dynamic[slot, back, channel // group]
                y[slot, channel] += tap * x[slot - back, channel]
    return y


def around(weights: Weights, name: str, how: Reading, x: np.ndarray, sub_layer: Any) -> np.ndarray:
    if how.convolution is None:
        return sub_layer(x)
    kernel, group = how.convolution
    dynamic = linear(weights, f"{name}.kernel_projection", x).reshape(len(x), 2, kernel, -1)
    base = weights[f"{name}.base_kernel"]
    return convolve(sub_layer(convolve(x, base[0], dynamic[:, 0], group)), base[1], dynamic[:, 1], group)


def attention(weights: Weights, name: str, layer: int, how: Reading, context: np.ndarray, x: np.ndarray) -> np.ndarray:
    anchor = len(context)

    def rotated(rows: np.ndarray, which: str, start: int) -> np.ndarray:
        heads = linear(weights, f"{name}.{which}_proj", rows).reshape(len(rows), -1, how.size)
        normed = heads if how.paired else rms(heads, weights[f"{name}.{which}_norm.weight"], how.eps)
        return np.stack([[rotate(head, start + index, how) for head in row] for index, row in enumerate(normed)])

    queries = rotated(x, "q", anchor)
    keys = np.concatenate([rotated(context, "k", 0), rotated(x, "k", anchor)])
    both = np.concatenate([context, x])
    values = linear(weights, f"{name}.v_proj", both).reshape(len(both), -1, how.size)
    window = how.windows[layer]
    given = np.zeros_like(queries)
    for slot in range(len(x)):
        own = anchor + slot
        seen = []
        for place in range(len(both)):
            if how.causal[layer] and place > own:
                continue
            if window is not None and (place < anchor - window if how.from_anchor else place <= own - window):
                continue
            seen.append(place)
        for head in range(how.heads):
            shared = head * how.kv_heads // how.heads
            scores = keys[seen, shared] @ queries[slot, head] / math.sqrt(how.size)
            chances = np.exp(scores - scores.max())
            given[slot, head] = chances / chances.sum() @ values[seen, shared]
    return linear(weights, f"{name}.o_proj", given.reshape(len(x), -1))


def hidden_and_logits(
    weights: Weights, how: Reading, features: np.ndarray, block: np.ndarray, rows: np.ndarray, after: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Normed outputs and logits of every slot, from features (anchor, taps x hidden) of all rows before the anchor, the embedded
    block (slots, hidden), the output rows (columns, hidden) and the embeddings (anchor, hidden) of the token after each row."""
    fused = linear(weights, "fc", features)
    context = rms(fused, weights["hidden_norm.weight"], how.eps)
    layers = range(len(how.windows))
    if not how.paired:
        hidden = rms(through(weights, how, layers, context, block * how.embedding_scale), weights["norm.weight"], how.eps)
    else:
        after = rms(after * how.embedding_scale, weights["embedding_norm.weight"], how.eps)
        context = np.concatenate([context, after], axis=1)
        first = through(weights, how, layers[:1], context[:-1], fused[-1:], after[-1:])
        others = len(block) - 1
        rest = first + weights["mask_features"][:others]
        rest = through(weights, how, layers[1:], context, rest, weights["mask_embeddings"][:others]) if others else rest
        normed = rms(first, weights["norm.weight"], how.eps), rms(rest, weights["mask_norm.weight"], how.eps)
        hidden = np.concatenate(normed)
    logits = hidden @ rows.T * how.multiplier
    return hidden, how.cap * np.tanh(logits / how.cap) if how.cap else logits


def through(
    weights: Weights, how: Reading, layers: Sequence[int], context: np.ndarray, x: np.ndarray, beside: np.ndarray | None = None
) -> np.ndarray:
    """What these layers make of slots (slots, hidden), from context (rows, width) and what each slot reads beside itself."""
    beside = np.zeros((len(x), 0)) if beside is None else beside
    for layer in layers:
        name = f"layers.{layer}"

        def attend(normed: np.ndarray, name: str = name, layer: int = layer) -> np.ndarray:
            return attention(weights, f"{name}.self_attn", layer, how, context, normed)

        def feed_forward(normed: np.ndarray, name: str = name) -> np.ndarray:
            gate = linear(weights, f"{name}.mlp.gate_proj", normed)
            active = ACTIVATIONS[how.activation](gate)
            return linear(weights, f"{name}.mlp.down_proj", active * linear(weights, f"{name}.mlp.up_proj", normed))

        normed = np.concatenate([rms(x, weights[f"{name}.input_layernorm.weight"], how.eps), beside], axis=1)
        x = x + around(weights, f"{name}.attention_conv", how, normed, attend)
        normed = rms(x, weights[f"{name}.post_attention_layernorm.weight"], how.eps)
        x = x + around(weights, f"{name}.mlp_conv", how, normed, feed_forward)
    return x


def markov(weights: Weights, hidden: np.ndarray, before: int, state: np.ndarray | None) -> tuple[np.ndarray, np.ndarray | None]:
    """What DeepSpec's Markov head adds to the logits of a slot after the token `before`."""
    embedded = weights["markov_head.markov_w1.weight"][before]
    if "markov_head.gate_proj.weight" in weights:
        embedded = sigmoid(linear(weights, "markov_head.gate_proj", np.concatenate([hidden, embedded]))) * embedded
    if "markov_head.joint_proj.weight" in weights:
        state = np.zeros_like(embedded) if state is None else state
        gate, candidate, output = linear(weights, "markov_head.joint_proj", np.concatenate([state, embedded, hidden])).reshape(
            3, -1
        )
        state = sigmoid(gate) * state + (1 - sigmoid(gate)) * np.tanh(candidate)
        embedded = np.tanh(output)
    return weights["markov_head.markov_w2.weight"] @ embedded, state


def selected(weights: Weights, how: Reading, logits: np.ndarray, hidden: np.ndarray, before: int) -> np.ndarray:
    """Scores of the likeliest tokens of a slot, -inf of the others."""
    scores = np.full_like(logits, -np.inf)
    asked = linear(weights, "candidate_selector.hidden_projection", hidden)
    for token in np.argsort(-logits)[: how.top_k]:
        pair = (
            weights["candidate_selector.predecessor_codebook"][before] * weights["candidate_selector.successor_codebook"][token]
        )
        scores[token] = logits[token] + (pair * asked).sum()
    return scores
