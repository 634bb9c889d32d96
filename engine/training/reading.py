"""What a training asks of a target: features and soft labels of text, and many answers at once.

`TargetReader` works for every target that a draft head fits, on every device: the model as mlx-lm serves it, quantised or not,
tapped by `engine.target.layer_taps`. On the CPU `engine.training.cpu_llama` does the same for llama models faster.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mlx.core as mx
import numpy as np
from mlx_lm.models.cache import BatchKVCache, KVCache

from engine.errors import DraftlightError
from engine.models.loaded import LoadedModel
from engine.models.loading import runs_on_cpu
from engine.models.pair_check import cache_reason
from engine.target.layer_taps import tap
from engine.target.prompt_cache import logits_width, make_prompt_cache
from engine.training.batches import LABELS, LARGEST, Batch, Read, Reader, padded
from engine.training.cpu_llama import CpuLlama

_PREFILL = 256
_LOGITS = 1 << 26
"""Logits at once: it bounds the rows of a forward pass for large vocabularies."""


def default_taps(layers: int) -> tuple[int, ...]:
    """About a third and two thirds of the way up, and the last layer but one: 9, 20 and 28 of 30."""
    wanted = (round(0.3 * layers), round(0.66 * layers), layers - 2)
    return tuple(sorted({min(max(0, layer), layers - 1) for layer in wanted}))


def reader_for(target: LoadedModel, taps: Sequence[int]) -> Reader:
    """The fastest reader that is right for the target.

    Raises:
        DraftlightError: no draft head can work for it.
    """
    reason = cache_reason(target.model)
    if reason is not None:
        raise DraftlightError(f"A head for {target.name} could not be used: it {reason}")
    tapped = TargetReader(target.model, taps)
    if runs_on_cpu() and CpuLlama.fits(target.model):
        return CpuLlama(target.model, taps)
    return tapped


class TargetReader:
    """Reads with mlx-lm's own model."""

    fast = False

    def __init__(self, model: Any, taps: Sequence[int]) -> None:
        self._model = model
        self._taps = tap(model, taps)
        self._width = logits_width(model)

    def read(self, texts: Sequence[np.ndarray]) -> list[Read]:
        """As in `Reader`."""
        tokens = padded(texts)
        rows = max(1, _LOGITS // (self._width * tokens.shape[1]))
        return [read for start in range(0, len(texts), rows) for read in self._read(texts[start : start + rows], tokens[start:])]

    def _read(self, texts: Sequence[np.ndarray], tokens: np.ndarray) -> list[Read]:
        logits = self._model(mx.array(tokens[: len(texts)])).astype(mx.float32)
        features = mx.clip(self._taps.take_batch().astype(mx.float32), -LARGEST, LARGEST).astype(mx.float16)
        labels = min(LABELS, int(logits.shape[-1]))
        ids = mx.argpartition(logits, kth=-labels, axis=-1)[..., -labels:]
        logs = mx.take_along_axis(logits, ids, axis=-1) - mx.logsumexp(logits, axis=-1, keepdims=True)
        mx.eval(features, ids, logs)
        arrays = [np.array(array) for array in (features, ids.astype(mx.int32), logs.astype(mx.float16))]
        return [Read(*(array[row, : len(text)] for array in arrays)) for row, text in enumerate(texts)]

    def begin(self, prompts: Sequence[Sequence[int]]) -> Batch:
        """As in `Reader`."""
        return _TargetBatch(self._model, prompts)


class _TargetBatch:
    """Answers from mlx-lm's batched cache. Prompts are padded at the end and the cache is shifted afterwards, as mlx-lm does."""

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
        """As in `Batch`."""
        logits = self._model(mx.array(tokens[:, None].astype(np.int32)), cache=self._cache)[:, -1].astype(mx.float32)
        if temperature == 0:
            return np.array(mx.argmax(logits, axis=-1)).astype(np.int64)
        sums = mx.cumsum(mx.softmax(logits * (1 / temperature), axis=-1), axis=-1)
        drawn = (sums <= mx.array(uniforms.astype(np.float32))[:, None] * sums[:, -1:]).sum(axis=-1)
        return np.array(mx.minimum(drawn, logits.shape[-1] - 1)).astype(np.int64)

    def keep(self, rows: np.ndarray) -> None:
        """As in `Batch`."""
        for layer in self._cache:
            layer.filter(mx.array(rows.astype(np.int32)))
