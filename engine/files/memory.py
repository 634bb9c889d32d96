"""Estimates the memory that a model needs, from the headers of its files, and the memory that is available.

The need is known before any weight is read, so a model that is too large is refused and does not exhaust the machine's memory.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.files.foreign import table
from engine.files.gguf_header import GgufHeader
from engine.files.safetensors_header import SIZES, Table
from engine.machine import nvidia, provenance
from engine.machine.mlx_import import device_kind
from engine.values.wording import size

CACHE_TOKENS = 4096
"""Tokens of KV cache that are added to the weights. Longer conversations need more."""
_BITS_OF_KEPT_TYPES = {
    "F32": 4,
    "Q4_0": 20 / 32,
    "Q4_1": 20 / 32,
    "Q5_0": 24 / 32,
    "Q5_1": 24 / 32,
    "Q8_0": 36 / 32,
    "Q4_K": 24 / 32,
    "Q5_K": 28 / 32,
    "MXFP4": 17 / 32,
}
"""Bytes per weight of GGUF types on a GPU: codes, and for each 32 of them a scale and a bias of 16 bits, or 32 in K-quants. Other
types are expanded to 16 bits (`engine.models.gguf_model`)."""


@dataclass(frozen=True, slots=True)
class MemoryNeed:
    """The bytes of memory that a loaded model takes.

    Attributes:
        weights: as they are in memory. cache: KV cache of `CACHE_TOKENS` tokens.
        stored: the weights in their files.
        widened: whether the weights are expanded to 32-bit floats.
        is_ahead: whether the files are not downloaded yet. A refusal then saves the download, and no other model is unloaded for
            one that may never arrive.
    """

    name: str
    weights: int
    cache: int
    stored: int
    widened: bool
    is_ahead: bool = False

    @property
    def total(self) -> int:
        """The bytes of weights and cache together."""
        return self.weights + self.cache

    def refusal(self, available: int) -> str:
        """Returns the message that the model does not fit into `available` bytes of memory."""
        expanded = (
            f" Without a GPU that MLX can use, its weights are expanded to 32-bit numbers, "
            f"{self.weights / self.stored:.1f} times the {size(self.stored)} in the file."
            if self.widened and self.weights > 1.5 * self.stored
            else ""
        )
        smaller = "It was not downloaded. " if self.is_ahead else ""
        return (
            f"{self.name} needs about {size(self.total)} of memory, but only {size(max(0, available))} are available.{expanded} "
            f"{smaller}Choose a smaller model, close other programs, or load it anyway."
        )


MakeRoom = Callable[[MemoryNeed], None]
"""Called with the memory need of a model before its weights are read. Frees memory, or raises NotEnoughMemory."""


def need_of_gguf(name: str, header: GgufHeader, config: Mapping[str, Any], widened: bool) -> MemoryNeed:
    """Returns the need of a GGUF file. `config`: mlx-lm's configuration of the model. `widened`: whether it runs in float32."""
    weights, stored = 0.0, 0
    for tensor in header.tensors.values():
        stored += tensor.size
        weights += math.prod(tensor.shape) * (4 if widened else _BITS_OF_KEPT_TYPES.get(tensor.kind, 2))
    return MemoryNeed(name, round(weights), cache_bytes(config, widened), stored, widened)


def need_of_folder(name: str, tables: Iterable[Table], config: Mapping[str, Any], widened: bool) -> MemoryNeed:
    """Returns the need of an mlx-lm folder with these safetensors files. `config`: its config.json."""
    tensors: Table = {name: tensor for own in tables for name, tensor in own.items()}
    stored = sum(math.prod(shape) * SIZES[dtype] for dtype, shape in tensors.values())
    weights = sum(_widened(part, tensors, config) for part in tensors) if widened else stored
    return MemoryNeed(name, weights, cache_bytes(config, widened), stored, widened)


def _widened(name: str, tensors: Table, config: Mapping[str, Any]) -> int:
    """Returns the bytes of a tensor after its layer was expanded to float32; 0 for scales and biases, which are then gone."""
    layer, _, part = name.rpartition(".")
    scales = tensors.get(f"{layer}.scales")
    dtype, shape = tensors[name]
    if scales is not None and dtype == "U32" and part == "weight":
        return 4 * math.prod(scales[1]) * _group_size(layer, config)
    if scales is not None and part in ("scales", "biases"):
        return 0
    return math.prod(shape) * (SIZES[dtype] if dtype[0] in "IUB" and dtype != "BF16" else 4)


def _group_size(layer: str, config: Mapping[str, Any]) -> int:
    """Returns the quantisation group size of a layer, or that of the model; mlx-lm's default is 64."""
    quantisation = table(config.get("quantization"))
    layer_entry = quantisation.get(layer)
    size = (layer_entry if isinstance(layer_entry, dict) else quantisation).get("group_size")
    return size if isinstance(size, int) else 64


def cache_bytes(config: Mapping[str, Any], widened: bool) -> int:
    """Returns the bytes of the KV cache of `CACHE_TOKENS` tokens; 0 if the configuration lacks the sizes."""
    text = {**config, **table(config.get("text_config"))}

    def whole(*names: str) -> int:
        """Returns the first of these entries that is a positive integer, else 0."""
        return next((text[name] for name in names if isinstance(text.get(name), int) and text[name] > 0), 0)

    heads = whole("num_attention_heads")
    wide = whole("head_dim") or (whole("hidden_size") // heads if heads else 0)
    tokens = min(CACHE_TOKENS, whole("max_position_embeddings") or CACHE_TOKENS)
    return (
        2
        * whole("num_hidden_layers")
        * whole("num_key_value_heads", "num_attention_heads")
        * wide
        * tokens
        * (4 if widened else 2)
    )


def available_memory(root: Path = Path("/")) -> int | None:
    """Returns the bytes of memory that a model may take; None if unknown.

    - Linux: the memory that is available without swapping, by the kernel's estimate or the limits of the process's control
      groups, whichever is less.
    - Other systems: all physical memory. macOS has no such estimate: it compresses and swaps on its own.
    - With MLX for CUDA: the memory of the GPU that no program uses.

    Args:
        root: folder of /proc and /sys, a different one in tests.
    """
    if device_kind() == "cuda":
        gpu = nvidia.gpu()
        return None if gpu is None else gpu[1]
    limits = [amount for amount in (_kernel_available(root), *_control_group_available(root)) if amount is not None]
    return min(limits) if limits else provenance.physical_memory()


def _kernel_available(root: Path) -> int | None:
    for line in _lines(root / "proc/meminfo"):
        key, _, value = line.partition(":")
        if key == "MemAvailable":
            return int(value.split()[0]) * 1024
    return None


def _control_group_available(root: Path) -> list[int]:
    """Returns the bytes left in each control group of the process. Inactive file cache counts as free: it can be reclaimed."""
    remaining = []
    for line in _lines(root / "proc/self/cgroup"):
        _, kinds, path = line.split(":", 2)
        if kinds and "memory" not in kinds.split(","):
            continue
        base = root / "sys/fs/cgroup" / ("memory" if kinds else "")
        limit_name, used_name = ("memory.limit_in_bytes", "memory.usage_in_bytes") if kinds else ("memory.max", "memory.current")
        folder = base / path.strip("/")
        for group in (folder, *folder.parents):
            if not group.is_relative_to(base):
                break
            limit, used = _number(group / limit_name), _number(group / used_name)
            if limit is not None and used is not None:
                cached = next((int(entry.split()[1]) for entry in _lines(group / "memory.stat") if _is_cached(entry)), 0)
                remaining.append(max(0, limit - used + cached))
    return remaining


def _is_cached(entry: str) -> bool:
    return entry.startswith(("inactive_file ", "total_inactive_file "))


def _number(path: Path) -> int | None:
    text = "".join(_lines(path)).strip()
    return int(text) if text.isdigit() else None


def _lines(path: Path) -> list[str]:
    with contextlib.suppress(OSError):
        return path.read_text(errors="replace").splitlines()
    return []
