"""Loads models in GGUF files as mlx-lm models.

Weights are read block by block (`engine.models.gguf_blocks`), one tensor after another, so only one tensor at a time is in
memory twice. On the CPU every weight becomes float32. On a GPU, layers of the affine types and of MXFP4 stay quantised without
loss. Affine scales are stored in 16 bits where that is exact, else in 32: those of Q4_K are products of two numbers. The other
types are expanded to 16 bits.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO, cast

import mlx.core as mx
import mlx.nn as nn
import numpy as np
from mlx.utils import tree_map_with_path
from mlx_lm.models.switch_layers import QuantizedSwitchLinear, SwitchLinear

from engine.files.gguf_architectures import (
    LONG_FACTORS,
    ROPE_FACTORS,
    SHORT_FACTORS,
    Architecture,
    Facts,
    architecture_of,
)
from engine.files.gguf_header import GgufHeader, TensorInfo
from engine.files.mtp_files import COPY, names_of_heads
from engine.models import gguf_blocks
from engine.values.errors import DraftlightError

_SETTING_TENSORS = (ROPE_FACTORS, LONG_FACTORS, SHORT_FACTORS)
"""Tensors that contain settings, not weights."""


class FactoredRope(nn.Module):
    """Rotary embedding with one factor per frequency that stretches its period, as in GGUF files of Llama 3.1 and later."""

    def __init__(self, dims: int, base: float, factors: mx.array) -> None:
        super().__init__()
        self.dims = dims
        self._freqs = base ** (mx.arange(0, dims, 2) / dims) * factors.astype(mx.float32)

    def __call__(self, x: mx.array, offset: int | mx.array = 0) -> mx.array:
        return mx.fast.rope(x, self.dims, traditional=False, base=None, scale=1.0, offset=offset, freqs=self._freqs)


class _QuantisedLinear(nn.QuantizedLinear):
    """Quantised layer whose result has the type of its input, even if its scales are more precise."""

    def __call__(self, x: mx.array) -> mx.array:
        return super().__call__(x).astype(x.dtype)


class _QuantisedSwitchLinear(QuantizedSwitchLinear):
    """Quantised expert layer whose result has the type of its input, even if its scales are more precise."""

    def __call__(self, x: mx.array, indices: mx.array, sorted_indices: bool = False) -> mx.array:
        return super().__call__(x, indices, sorted_indices=sorted_indices).astype(x.dtype)


class _QuantisedEmbedding(nn.QuantizedEmbedding):
    """Quantised embedding whose rows have the type `_half`, and whose logits have the type of the input."""

    _half = mx.float16

    def __call__(self, x: mx.array) -> mx.array:
        return super().__call__(x).astype(self._half)

    def as_linear(self, x: mx.array) -> mx.array:
        """Returns logits (..., tokens) of hidden states (..., width): the embedding used as output head."""
        return super().as_linear(x).astype(x.dtype)


_QUANTISED_CLASS: dict[type, type] = {
    nn.QuantizedLinear: _QuantisedLinear,
    QuantizedSwitchLinear: _QuantisedSwitchLinear,
    nn.QuantizedEmbedding: _QuantisedEmbedding,
}
_QUANTISABLE = (nn.Linear, nn.Embedding, SwitchLinear)


_MAX_FACTORS = 65_536
"""Maximum number of rotary scaling factors, one for each pair of a head's dimensions."""


def read_config(path: Path, header: GgufHeader) -> dict[str, Any]:
    """Returns mlx-lm's configuration of the file's model.

    Raises:
        DraftlightError: the architecture or one of its features is not supported, or numbers contradict each other.
    """
    return _described(path, header)[1]


def _described(path: Path, header: GgufHeader) -> tuple[Architecture, dict[str, Any]]:
    def values(name: str) -> list[float]:
        """Returns the numbers of a small tensor."""
        tensor = header.tensors[name]
        if math.prod(tensor.shape) > _MAX_FACTORS:
            raise DraftlightError(f"{path.name} is damaged: {name} has the shape {tensor.shape}. Download it again.")
        try:
            with path.open("rb") as file:
                return cast(list[float], gguf_blocks.expand(tensor.kind, _raw(file, tensor, path.name)).flatten().tolist())
        except OSError as error:
            raise DraftlightError(f"{path} cannot be read: {error.strerror or error}.") from error

    facts = Facts(header, path.name, values)
    architecture = architecture_of(facts, path.name)
    return architecture, architecture.config(facts)


def load_gguf(path: Path, header: GgufHeader, widen: bool) -> tuple[nn.Module, dict[str, Any], str]:
    """Returns the model, its configuration, and a text that describes how its weights are stored.

    Args:
        header: of the same file, from `read_header`.
        widen: whether to expand all weights to 32 bits.

    Raises:
        DraftlightError: something is not supported, or the tensors do not fit the metadata.
    """
    architecture, config = _described(path, header)
    names = {name: architecture.renamed(name) for name in header.tensors if name not in _SETTING_TENSORS}
    if unknown := [name for name, renamed in names.items() if not renamed]:
        raise DraftlightError(
            f"{path.name} contains weights that a model of architecture {header.metadata['general.architecture']} does not have "
            f"({unknown[0]}). Use the model's mlx-lm folder instead."
        )
    try:
        module = importlib.import_module(f"mlx_lm.models.{config['model_type']}")
        model: nn.Module = module.Model(module.ModelArgs.from_dict(config))
        if config["tie_word_embeddings"]:
            model.pop("lm_head", None)
            model.tie_word_embeddings = True
        with path.open("rb") as file:
            reader = _Reader(file, path.name, header, architecture, config, model, widen)
            weights: dict[str, mx.array] = {}
            for name, renamed in names.items():
                weights |= reader.read(name, renamed)
            weights = _unshared(weights, config)
            _fill_missing(weights, model)
            model.load_weights(list(weights.items()))
            model(mx.array([[0]]))  # builds the graph without computing it, which shows missing parts
            if ROPE_FACTORS in header.tensors and config["model_type"] != "gemma4_text":
                factors = gguf_blocks.expand(
                    header.tensors[ROPE_FACTORS].kind, _raw(file, header.tensors[ROPE_FACTORS], path.name)
                ).flatten()
                for layer in model.layers:
                    if isinstance(getattr(layer.self_attn, "rope", None), nn.Module) and hasattr(layer.self_attn.rope, "dims"):
                        layer.self_attn.rope = FactoredRope(config["head_dim"], config["rope_theta"], factors)
    except (ValueError, RuntimeError, KeyError, OverflowError, TypeError, AttributeError, IndexError) as error:
        raise DraftlightError(f"{path.name} is damaged: its weights do not match its header ({error}).") from error
    except OSError as error:
        raise DraftlightError(f"{path} cannot be read: {error.strerror or error}.") from error
    model.eval()
    return model, config, reader.form()


def head_names(path: Path, header: GgufHeader) -> list[dict[str, str]]:
    """Returns, for each layer of the file's MTP head, its tensors' names as in `engine.files.mtp_files`, by those in the file;
    without copies of the target's rows.

    Raises:
        DraftlightError: as in `read_config`, or a name is unknown.
    """
    architecture, config = _described(path, header)
    own = config["num_hidden_layers"]
    published: dict[str, str] = {}
    for name in header.head:
        before, _, part = name.partition(".nextn.")
        renamed = (f"model.layers.{before.removeprefix('blk.')}.{part}",) if part else architecture.renamed(name)
        if len(renamed) != 1:
            raise DraftlightError(
                f"The MTP head of {path.name} contains unknown weights ({name}). Choose ngram, or another drafter."
            )
        published[name] = renamed[0]
    found = names_of_heads(published.values(), own)
    layers: list[dict[str, str]] = [{} for _ in range(max((index for index, _ in found.values()), default=-1) + 1)]
    for name, whole in published.items():
        index, inner = found.get(whole, (0, COPY))
        if not inner.startswith(COPY):
            layers[index][name] = inner
    return layers


def read_head(
    path: Path, header: GgufHeader, names: Sequence[Mapping[str, str]], model: nn.Module, widen: bool
) -> dict[str, mx.array]:
    """Returns the weights of an MTP head by the names of its parameters, `layers.N.` and those in `names`. Replaces layers of the
    model by quantised ones.

    Args:
        names: from `head_names`. widen: whether to expand all weights to 32 bits.
    """
    architecture, config = _described(path, header)
    weights: dict[str, mx.array] = {}
    with path.open("rb") as file:
        reader = _Reader(file, path.name, replace(header, tensors=header.head), architecture, config, model, widen)
        for index, layer in enumerate(names):
            for name, inner in layer.items():
                weights |= reader.read(name, (f"layers.{index}.{inner}",))
    return weights


def load_embedding(path: Path, header: GgufHeader, dtype: mx.Dtype) -> nn.Module:
    """Returns the token embedding alone, expanded."""
    tensor = header.tensors["token_embd.weight"]
    embedding = nn.Embedding(*tensor.shape)
    with path.open("rb") as file:
        embedding.weight = gguf_blocks.expand(tensor.kind, _raw(file, tensor, path.name)).reshape(tensor.shape).astype(dtype)
    return embedding


def _raw(file: BinaryIO, tensor: TensorInfo, name: str) -> mx.array:
    """Returns the tensor's bytes by row, (rows, bytes) uint8. Raises DraftlightError if the file has become shorter."""
    file.seek(tensor.start)
    stored = np.fromfile(file, dtype=np.uint8, count=tensor.size)
    if stored.size < tensor.size:
        raise DraftlightError(f"{name} has changed while it was read: {tensor.name} is cut off. Download it again.")
    return mx.array(stored.reshape(-1, tensor.size * tensor.shape[-1] // math.prod(tensor.shape)))


@dataclass
class _Reader:
    """Reads tensors and converts them to the data types in which the model computes: quantised layers, 16 or 32 bits."""

    file: BinaryIO
    name: str
    header: GgufHeader
    architecture: Architecture
    config: dict[str, Any]
    model: nn.Module
    widen: bool

    def __post_init__(self) -> None:
        self._modules = dict(self.model.named_modules())
        self._half = mx.float32 if self.widen else self._half_type()
        self._may_cast = getattr(self.model, "cast_predicate", lambda name: True)
        self._quantised_kinds: set[str] = set()
        self._expanded_kinds: set[str] = set()

    def _half_type(self) -> mx.Dtype:
        """Returns the type that the model computes in: 16 bits unless all of its matrices have 32."""
        kinds = {tensor.kind for tensor in self.header.tensors.values() if len(tensor.shape) > 1}
        if kinds <= {"F32"}:
            return mx.float32
        return mx.bfloat16 if "BF16" in kinds or self.architecture.half == "bfloat16" else mx.float16

    def form(self) -> str:
        """Returns a text that says which types stay quantised and which are expanded."""
        if self.widen:
            return f"{_listed(self._expanded_kinds)}, expanded to 32 bits" if self._expanded_kinds else "32 bits"
        bits = 32 if self._half == mx.float32 else 16
        kept = [f"{_listed(self._quantised_kinds)} kept quantised"] if self._quantised_kinds else []
        expanded = [f"{_listed(self._expanded_kinds)} expanded to {bits} bits"] if self._expanded_kinds else []
        return ", ".join(kept + expanded) or f"{bits} bits"

    def read(self, name: str, renamed: tuple[str, ...]) -> dict[str, mx.array]:
        """Returns the tensor's parameters by mlx-lm's names, evaluated."""
        tensor = self.header.tensors[name]
        raw = self._without_permutation(name, _raw(self.file, tensor, self.name))
        parts = [raw]
        shape = tensor.shape
        if len(renamed) == 2:  # the first half of the rows of every expert, then the second half
            split = raw.reshape(shape[0], 2, shape[1] // 2, -1)
            shape = (shape[0], shape[1] // 2, shape[2])
            parts = [split[:, index].reshape(shape[0] * shape[1], -1) for index in (0, 1)]
        parameters: dict[str, mx.array] = {}
        for target, part in zip(renamed, parts, strict=True):
            parameters |= self._parameters(tensor.kind, target, part, shape)
        mx.eval(list(parameters.values()))
        return parameters

    def _parameters(self, kind: str, target: str, raw: mx.array, shape: tuple[int, ...]) -> dict[str, mx.array]:
        layer, _, part = target.rpartition(".")
        if not self.widen and part == "weight" and type(self._modules.get(layer)) in _QUANTISABLE:
            if kind in gguf_blocks.AFFINE:
                self._quantised_kinds.add(kind)
                return self._keep(gguf_blocks.affine(kind, raw), layer, shape)
            if kind == "MXFP4":
                self._quantised_kinds.add(kind)
                self._quantise(layer, bits=4, mode="mxfp4")
                weight, scales = gguf_blocks.mxfp4(raw)
                return {f"{layer}.weight": weight.reshape(*shape[:-1], -1), f"{layer}.scales": scales.reshape(*shape[:-1], -1)}
        if kind not in ("F32", "F16", "BF16"):
            self._expanded_kinds.add(kind)
        weights = gguf_blocks.expand(kind, raw).reshape(shape)
        if target.endswith("norm.weight"):
            weights = weights - self.architecture.norm_offset
        if part == "weight" and isinstance(module := self._modules.get(layer), nn.Linear) and weights.ndim < 2:
            weights = weights.reshape(module.weight.shape)  # llama.cpp drops the dimension of a single row
        return {target: weights.astype(self._half) if self._may_cast(target) else weights}

    def _keep(self, affine: gguf_blocks.Affine, layer: str, shape: tuple[int, ...]) -> dict[str, mx.array]:
        """Replaces the layer by a quantised one, and returns its parameters."""
        exact = all(mx.array_equal(part.astype(self._half), part) for part in (affine.scales, affine.biases))
        self._quantise(layer, bits=affine.bits, mode="affine")
        kind = self._half if exact else mx.float32
        groups = shape[-1] // gguf_blocks.GROUP
        return {
            f"{layer}.weight": affine.packed().reshape(*shape[:-1], -1),
            f"{layer}.scales": affine.scales.reshape(*shape[:-1], groups).astype(kind),
            f"{layer}.biases": affine.biases.reshape(*shape[:-1], groups).astype(kind),
        }

    def _quantise(self, layer: str, bits: int, mode: str) -> None:
        """Replaces the layer by a quantised one of the same size."""
        quantised = self._modules[layer].to_quantized(group_size=gguf_blocks.GROUP, bits=bits, mode=mode)
        quantised.__class__ = _QUANTISED_CLASS[type(quantised)]
        if isinstance(quantised, _QuantisedEmbedding):
            quantised._half = self._half
        parent, _, name = layer.rpartition(".")
        setattr(self._modules[parent] if parent else self.model, name, quantised)

    def _without_permutation(self, name: str, raw: mx.array) -> mx.array:
        """Undoes llama.cpp's reordering of query and key rows (`LlamaModel.permute` in `convert_hf_to_gguf.py`).

        In the file the rows of each head are ordered (pair, half); in the result they are ordered (half, pair).
        """
        heads = {"attn_q": self.config["num_attention_heads"], "attn_k": self.config["num_key_value_heads"]}.get(
            name.split(".")[-2] if self.architecture.interleaved else ""
        )
        if heads is None:
            return raw
        if name.endswith(".bias"):
            return raw.reshape(heads, -1, 2, 4).swapaxes(1, 2).reshape(raw.shape)
        rows, taken = raw.shape
        return raw.reshape(heads, rows // heads // 2, 2, taken).swapaxes(1, 2).reshape(rows, taken)


def _unshared(weights: dict[str, mx.array], config: dict[str, Any]) -> dict[str, mx.array]:
    """Returns the weights without keys and values of layers that share another layer's: mlx-lm's Gemma 4 has no field for
    them."""
    shared = config.get("num_kv_shared_layers", 0)
    if not shared:
        return weights
    first = config["num_hidden_layers"] - shared
    own = {"k_proj", "v_proj", "k_norm"}
    return {
        name: array
        for name, array in weights.items()
        if not (name.startswith("model.layers.") and int(name.split(".")[2]) >= first and own & set(name.split(".")))
    }


def _fill_missing(weights: dict[str, mx.array], model: nn.Module) -> None:
    """Adds a zero bias for an output projection without one: mlx-lm's class gives a bias to all four projections or to none."""

    def fill(path: str, parameter: mx.array) -> mx.array:
        """Adds the bias if it is missing."""
        if path.endswith("self_attn.o_proj.bias") and path not in weights:
            weights[path] = mx.zeros(parameter.shape)
        return parameter

    tree_map_with_path(fill, model.parameters())


def _listed(kinds: set[str]) -> str:
    return " and ".join(sorted(kinds)) if len(kinds) < 3 else ", ".join(sorted(kinds))
