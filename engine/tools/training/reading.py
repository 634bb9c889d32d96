"""Runs a target for training: reads features and soft labels of text, and writes many answers at once.

`TargetReader` works for every target that a draft head fits, on every device: it uses mlx-lm's model, quantised or not, with
the taps of `engine.target.layer_taps`. On the CPU `CpuLlama` does the same for llama models faster.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import mlx.core as mx
import mlx.nn as nn
import numpy as np
from mlx_lm.models import llama
from mlx_lm.models.cache import BatchKVCache, KVCache

from engine.machine.host import computes_on_host
from engine.models.loaded import LoadedModel
from engine.models.pair_check import cache_reason
from engine.target.layer_taps import tap
from engine.target.prompt_cache import logits_width, make_prompt_cache
from engine.values.errors import DraftlightError

LABELS = 64
"""Number of most likely tokens stored at each position."""
MAX_FLOAT16 = 65504.0
"""Maximum of float16, to which features are clipped. Only the outputs of the first token come near it, in some models."""


@dataclass(frozen=True)
class Read:
    """Features and labels of one text: features (length, taps x hidden) float16, and at each position the `LABELS` most likely
    next tokens: ids (length, LABELS) int32, unordered, and log-probabilities at temperature 1 (length, LABELS) float16."""

    features: np.ndarray
    ids: np.ndarray
    logs: np.ndarray


def padded(texts: Sequence[np.ndarray] | Sequence[Sequence[int]]) -> np.ndarray:
    """Returns (texts, longest) int32, padded at the end with token 0."""
    tokens = np.zeros((len(texts), max(map(len, texts))), np.int32)
    for row, text in enumerate(texts):
        tokens[row, : len(text)] = np.asarray(text)
    return tokens


def stored(features: np.ndarray) -> np.ndarray:
    """Returns features in the form in which they are stored."""
    return np.clip(features, -MAX_FLOAT16, MAX_FLOAT16).astype(np.float16)


_MASKED = np.float32(-1e9)
_PREFILL_ROWS = 2048
_GROWTH = 64


class CpuLlama:
    """Runs a llama model's forward pass in numpy, for trainings on the CPU. Only for a model that `fits`.

    MLX's CPU back-end computes exponentials one at a time, while numpy's are vectorised; this matters most for attention over
    long texts. README.md has the figures. The weights are the model's own arrays, not copies. This is used only for training,
    where equality to the last bit is not needed; a test compares it with MLX.
    """

    def __init__(self, model: Any, taps: Sequence[int]) -> None:
        args = model.args
        self.taps = tuple(taps)
        self.heads, self.kv_heads = args.num_attention_heads, args.num_key_value_heads
        self.size = args.head_dim or args.hidden_size // self.heads
        self.epsilon = args.rms_norm_eps
        self.embedding = _view(model.model.embed_tokens.weight)
        self.head = self.embedding if args.tie_word_embeddings else _view(model.lm_head.weight)
        self.norm = _view(model.model.norm.weight)
        self.layers = [_Layer(layer) for layer in model.model.layers]
        half = self.size // 2
        self._periods = (args.rope_theta ** (-np.arange(half) / half)).astype(np.float32)

    @staticmethod
    def fits(model: Any) -> bool:
        """Returns whether the model is a plain float32 llama: no biases, no rotary scaling, no sliding windows."""
        if type(model) is not llama.Model:
            return False
        args = model.args
        plain = not (args.attention_bias or args.mlp_bias or args.rope_traditional or args.rope_scaling)
        return (
            plain
            and all(type(layer.self_attn.rope) is nn.RoPE and not layer.use_sliding for layer in model.model.layers)
            and all(isinstance(module, nn.Linear) for layer in model.model.layers for module in _matrices(layer))
            and bool(model.model.embed_tokens.weight.dtype == mx.float32)
        )

    def read(self, texts: Sequence[np.ndarray]) -> list[Read]:
        """Returns features and labels of texts (length,) each, of similar length."""
        features, final, _ = self.forward(padded(texts))
        return [self._labelled(features[row, : len(text)], final[row, : len(text)]) for row, text in enumerate(texts)]

    def _labelled(self, features: np.ndarray, final: np.ndarray) -> Read:
        logits = final @ self.head.T
        labels = min(LABELS, logits.shape[-1])
        best = logits.max(axis=-1, keepdims=True)
        ids = np.argpartition(logits, -labels, axis=-1)[:, -labels:]
        logs = np.take_along_axis(logits, ids, axis=-1) - best
        logits -= best
        np.exp(logits, out=logits)
        logs -= np.log(logits.sum(axis=-1, keepdims=True))
        return Read(stored(features), ids.astype(np.int32), logs.astype(np.float16))

    def begin(self, prompts: Sequence[Sequence[int]]) -> _CpuBatch:
        """Starts answers to prompts: reads all but the newest token of each."""
        return _CpuBatch(self, prompts)

    def forward(self, tokens: np.ndarray) -> tuple[np.ndarray, np.ndarray, list[tuple[np.ndarray, np.ndarray]]]:
        """Returns for texts (batch, rows): features (batch, rows, taps x hidden), the last norm's output (batch, rows, hidden),
        and each layer's rotated keys and values (batch, kv heads, rows, head size)."""
        batch, rows = tokens.shape
        repeat = self.heads // self.kv_heads
        mask = np.triu(np.full((rows, rows), _MASKED), 1)
        rotation = self._rotation(np.arange(rows)[None, :, None])
        hidden = self.embedding[tokens]
        outputs: dict[int, np.ndarray] = {}
        caches = []
        for index, layer in enumerate(self.layers):
            queries, keys, values = self._project(layer, hidden, (batch, rows), rotation)
            keys, values = (np.ascontiguousarray(part.transpose(0, 2, 1, 3)) for part in (keys, values))
            caches.append((keys, values))
            queries = queries.reshape(batch, rows, self.kv_heads, repeat, self.size).transpose(0, 2, 3, 1, 4)
            queries = queries.reshape(batch, self.kv_heads, repeat * rows, self.size)
            scores = (queries @ keys.transpose(0, 1, 3, 2)).reshape(batch, self.kv_heads, repeat, rows, rows)
            scores += mask
            attended = _softmax(scores).reshape(batch, self.kv_heads, repeat * rows, rows) @ values
            attended = attended.reshape(batch, self.kv_heads, repeat, rows, self.size).transpose(0, 3, 1, 2, 4)
            hidden = self._layer_output(layer, hidden, attended.reshape(batch, rows, -1))
            if index in self.taps:
                outputs[index] = hidden
        return np.concatenate([outputs[index] for index in self.taps], axis=-1), self.final(hidden), caches

    def step(self, tokens: np.ndarray, positions: np.ndarray, keys: list[np.ndarray], values: list[np.ndarray]) -> np.ndarray:
        """Returns logits (rows, vocabulary) for one token per row, each at its own position. Extends the rows' caches (rows, kv
        heads, room, head size) of every layer in place."""
        count, capacity = len(tokens), int(positions.max()) + 1
        every = np.arange(count)
        hidden_from = np.where(np.arange(capacity) <= positions[:, None], np.float32(0), _MASKED)[:, None, None]
        rotation = self._rotation(positions[:, None])
        hidden = self.embedding[tokens]
        for index, layer in enumerate(self.layers):
            queries, fresh_keys, fresh_values = self._project(layer, hidden, (count,), rotation)
            keys[index][every, :, positions] = fresh_keys
            values[index][every, :, positions] = fresh_values
            queries = queries.reshape(count, self.kv_heads, -1, self.size)
            scores = queries @ keys[index][:, :, :capacity].transpose(0, 1, 3, 2)
            scores += hidden_from
            attended = _softmax(scores) @ values[index][:, :, :capacity]
            hidden = self._layer_output(layer, hidden, attended.reshape(count, -1))
        return self.final(hidden) @ self.head.T

    def _project(
        self, layer: _Layer, hidden: np.ndarray, shape: tuple[int, ...], rotation: tuple[np.ndarray, np.ndarray]
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Returns scaled queries, keys and values (..., heads, head size)."""
        flat = _norm(hidden, layer.before_attention, self.epsilon).reshape(-1, hidden.shape[-1])
        queries, keys, values = ((flat @ matrix.T).reshape(*shape, -1, self.size) for matrix in layer.projections)
        return _rotate(queries, rotation) * np.float32(self.size**-0.5), _rotate(keys, rotation), values

    def _layer_output(self, layer: _Layer, hidden: np.ndarray, attended: np.ndarray) -> np.ndarray:
        hidden = hidden + attended @ layer.output.T
        flat = _norm(hidden, layer.before_mlp, self.epsilon).reshape(-1, hidden.shape[-1])
        gate = flat @ layer.gate.T
        gate /= 1 + np.exp(np.minimum(-gate, 80))
        gate *= flat @ layer.up.T
        return hidden + (gate @ layer.down.T).reshape(hidden.shape)

    def final(self, hidden: np.ndarray) -> np.ndarray:
        """Applies the last norm: (..., hidden) outputs of the last layer -> (..., hidden) input of the output head."""
        return _norm(hidden, self.norm, self.epsilon)

    def _rotation(self, positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        angles = positions[..., None].astype(np.float32) * self._periods
        return np.cos(angles), np.sin(angles)


class _Layer:
    """Views of a layer's weights."""

    def __init__(self, layer: Any) -> None:
        attention, mlp = layer.self_attn, layer.mlp
        self.before_attention, self.before_mlp = _view(layer.input_layernorm.weight), _view(layer.post_attention_layernorm.weight)
        self.projections = [_view(part.weight) for part in (attention.q_proj, attention.k_proj, attention.v_proj)]
        self.output = _view(attention.o_proj.weight)
        self.gate, self.up, self.down = (_view(part.weight) for part in (mlp.gate_proj, mlp.up_proj, mlp.down_proj))


class _CpuBatch:
    """Answers whose caches have room for the longest row and are enlarged as needed."""

    def __init__(self, model: CpuLlama, prompts: Sequence[Sequence[int]]) -> None:
        self._model = model
        self._positions = np.array([len(prompt) - 1 for prompt in prompts])
        shape = (len(prompts), model.kv_heads, int(self._positions.max()) + _GROWTH, model.size)
        self._keys = [np.zeros(shape, np.float32) for _ in model.layers]
        self._values = [np.zeros(shape, np.float32) for _ in model.layers]
        texts = [prompt[:-1] for prompt in prompts]
        group_size = max(1, _PREFILL_ROWS // max(1, int(self._positions.max())))
        for start in range(0, len(texts), group_size):
            part = padded(texts[start : start + group_size])
            if part.shape[1] == 0:
                continue
            _, _, new_caches = model.forward(part)
            for layer, (keys, values) in enumerate(new_caches):
                self._keys[layer][start : start + len(part), :, : part.shape[1]] = keys
                self._values[layer][start : start + len(part), :, : part.shape[1]] = values

    def draw(self, tokens: np.ndarray, uniforms: np.ndarray, temperature: float) -> np.ndarray:
        """Returns the next token of every row (rows,), from the newest ones and a uniform number each; at temperature 0 the
        arg-max."""
        if int(self._positions.max()) >= self._keys[0].shape[2]:
            self._keys, self._values = ([_enlarged(cache) for cache in caches] for caches in (self._keys, self._values))
        logits = self._model.step(tokens, self._positions, self._keys, self._values)
        self._positions = self._positions + 1
        if temperature == 0:
            return logits.argmax(axis=-1)
        logits /= np.float32(temperature)
        sums = np.cumsum(_softmax(logits), axis=-1, dtype=np.float64)
        drawn: np.ndarray = (sums <= (uniforms * sums[:, -1])[:, None]).sum(axis=-1)
        return np.minimum(drawn, logits.shape[-1] - 1)

    def keep(self, rows: np.ndarray) -> None:
        """Continues with these rows only."""
        self._positions = self._positions[rows]
        capacity = -(-(int(self._positions.max()) + 1) // _GROWTH) * _GROWTH
        self._keys, self._values = (
            [np.ascontiguousarray(cache[rows][:, :, :capacity]) for cache in caches] for caches in (self._keys, self._values)
        )


def _enlarged(cache: np.ndarray) -> np.ndarray:
    return np.concatenate([cache, np.zeros((*cache.shape[:2], _GROWTH, cache.shape[3]), np.float32)], axis=2)


def _matrices(layer: Any) -> tuple[Any, ...]:
    attention, mlp = layer.self_attn, layer.mlp
    projections = (attention.q_proj, attention.k_proj, attention.v_proj, attention.o_proj)
    return (*projections, mlp.gate_proj, mlp.up_proj, mlp.down_proj)


def _view(array: mx.array) -> np.ndarray:
    mx.eval(array)
    return np.array(array, copy=False)


def _norm(hidden: np.ndarray, weight: np.ndarray, epsilon: float) -> np.ndarray:
    scale: np.ndarray = 1 / np.sqrt(np.mean(hidden * hidden, axis=-1, keepdims=True) + np.float32(epsilon))
    return hidden * scale * weight


def _rotate(array: np.ndarray, rotation: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """Applies rotary embeddings: rotates the two halves of each head; (..., heads, head size)."""
    first, second = np.split(array, 2, axis=-1)
    cosine, sine = rotation
    return np.concatenate([first * cosine - second * sine, second * cosine + first * sine], axis=-1)


def _softmax(scores: np.ndarray) -> np.ndarray:
    """Computes the softmax over the last axis, in place."""
    scores -= scores.max(axis=-1, keepdims=True)
    np.exp(scores, out=scores)
    scores /= scores.sum(axis=-1, keepdims=True)
    return scores


_PREFILL = 256
_LOGITS = 1 << 26
"""Maximum number of logits at once; it limits the rows of a forward pass for large vocabularies."""


def default_taps(layers: int) -> tuple[int, ...]:
    """Returns layers at about one and two thirds of the depth, and the last but one: 9, 20 and 28 of 30."""
    wanted = (round(0.3 * layers), round(0.66 * layers), layers - 2)
    return tuple(sorted({min(max(0, layer), layers - 1) for layer in wanted}))


class TargetReader:
    """Runs mlx-lm's own model."""

    def __init__(self, model: Any, taps: Sequence[int]) -> None:
        self._model = model
        self._taps = tap(model, taps)
        self._width = logits_width(model)

    def read(self, texts: Sequence[np.ndarray]) -> list[Read]:
        """Returns features and labels of texts (length,) each, of similar length."""
        tokens = padded(texts)
        rows = max(1, _LOGITS // (self._width * tokens.shape[1]))
        return [read for start in range(0, len(texts), rows) for read in self._read(texts[start : start + rows], tokens[start:])]

    def _read(self, texts: Sequence[np.ndarray], tokens: np.ndarray) -> list[Read]:
        logits = self._model(mx.array(tokens[: len(texts)]))
        features = mx.clip(self._taps.take_batch().astype(mx.float32), -MAX_FLOAT16, MAX_FLOAT16).astype(mx.float16)
        mx.eval(logits, features)
        # Sorting the logits takes several times their memory, so even one long text is processed in stretches.
        stretch = max(1, _LOGITS // (self._width * len(texts)))
        parts = [self._labels(logits[:, start : start + stretch]) for start in range(0, tokens.shape[1], stretch)]
        arrays = [np.array(features), *(np.concatenate(part, axis=1) for part in zip(*parts, strict=True))]
        return [Read(*(array[row, : len(text)] for array in arrays)) for row, text in enumerate(texts)]

    def _labels(self, logits: mx.array) -> tuple[np.ndarray, np.ndarray]:
        """Returns ids and log-probabilities of the most likely tokens, (texts, positions, LABELS) each."""
        logits = logits.astype(mx.float32)
        labels = min(LABELS, int(logits.shape[-1]))
        ids = mx.argpartition(logits, kth=-labels, axis=-1)[..., -labels:]
        logs = mx.take_along_axis(logits, ids, axis=-1) - mx.logsumexp(logits, axis=-1, keepdims=True)
        mx.eval(ids, logs)
        return np.array(ids.astype(mx.int32)), np.array(logs.astype(mx.float16))

    def begin(self, prompts: Sequence[Sequence[int]]) -> _TargetBatch:
        """Starts answers to prompts: reads all but the newest token of each."""
        return _TargetBatch(self._model, prompts)


class _TargetBatch:
    """Answers with mlx-lm's batched cache. Prompts are padded at the end and the cache is then shifted, as in mlx-lm."""

    def __init__(self, model: Any, prompts: Sequence[Sequence[int]]) -> None:
        self._model = model
        if any(type(layer) is not KVCache for layer in make_prompt_cache(model)):
            raise DraftlightError(
                "This target cannot write many texts at once, because some of its layers keep something else than the keys and "
                "values of all tokens (sliding windows, chunks or recurrent states). Provide text with --text."
            )
        lengths = [len(prompt) - 1 for prompt in prompts]
        self._cache = [BatchKVCache([0] * len(prompts)) for _ in make_prompt_cache(model)]
        if max(lengths) > 0:
            self._prefill(padded([prompt[:-1] for prompt in prompts]), lengths)

    def _prefill(self, tokens: np.ndarray, lengths: Sequence[int]) -> None:
        longest = tokens.shape[1]
        for layer in self._cache:
            layer.prepare(lengths=list(lengths), right_padding=[longest - length for length in lengths])
        for start in range(0, longest, _PREFILL):
            self._model(mx.array(tokens[:, start : start + _PREFILL]), cache=self._cache)
            mx.eval([layer.state for layer in self._cache])
        for layer in self._cache:
            layer.finalize()
        mx.eval([layer.state for layer in self._cache])

    def draw(self, tokens: np.ndarray, uniforms: np.ndarray, temperature: float) -> np.ndarray:
        """Returns the next token of every row (see `_CpuBatch`)."""
        logits = self._model(mx.array(tokens[:, None].astype(np.int32)), cache=self._cache)[:, -1].astype(mx.float32)
        if temperature == 0:
            return np.array(mx.argmax(logits, axis=-1)).astype(np.int64)
        sums = mx.cumsum(mx.softmax(logits * (1 / temperature), axis=-1), axis=-1)
        drawn = (sums <= mx.array(uniforms.astype(np.float32))[:, None] * sums[:, -1:]).sum(axis=-1)
        return np.array(mx.minimum(drawn, logits.shape[-1] - 1)).astype(np.int64)

    def keep(self, rows: np.ndarray) -> None:
        """Continues with these rows only."""
        for layer in self._cache:
            layer.filter(mx.array(rows.astype(np.int32)))


Reader = TargetReader | CpuLlama
"""Runs a target with its taps."""


def reader_for(target: LoadedModel, taps: Sequence[int]) -> Reader:
    """Returns the fastest reader that works for the target.

    Raises:
        DraftlightError: no draft head can work for it.
    """
    reason = cache_reason(target.model)
    if reason is not None:
        raise DraftlightError(f"A head for {target.name} could not be used: it {reason}")
    tapped = TargetReader(target.model, taps)
    return CpuLlama(target.model, taps) if computes_on_host() and CpuLlama.fits(target.model) else tapped
