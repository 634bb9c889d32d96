"""How much memory a model needs, as its files' headers say, and how much there is.

What is needed is counted before any weight is read, so a model that is too large is refused instead of bringing the machine down.
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
"""Tokens of keys and values that are counted beside the weights: a conversation of some length. Longer ones need more."""
_KEPT = {
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
"""Bytes of a weight of GGUF on a GPU: codes with a scale and a bias for each 32, of 16 bits or, in the K-quants, of 32. What is
not here is expanded to 16 bits (`engine.models.gguf_model`)."""


@dataclass(frozen=True, slots=True)
class MemoryNeed:
    """What a model takes once it is loaded, in bytes.

    Attributes:
        weights: in the form in which they are computed with. cache: keys and values of `CACHE_TOKENS` tokens.
        stored: the weights in their files.
        widened: whether they are expanded to 32-bit numbers.
        is_ahead: whether it is known before the files are here: a refusal then saves the download, and nothing else is given up
            yet for a model that may never arrive.
    """

    name: str
    weights: int
    cache: int
    stored: int
    widened: bool
    is_ahead: bool = False

    @property
    def total(self) -> int:
        """Weights and cache together."""
        return self.weights + self.cache

    def refusal(self, available: int) -> str:
        """Why the model is not loaded into so much memory, in sentences with the figures."""
        expanded = (
            f" Without a GPU that MLX can use, its weights are expanded to 32-bit numbers, "
            f"{self.weights / self.stored:.1f} times the {size(self.stored)} in the file."
            if self.widened and self.weights > 1.5 * self.stored
            else ""
        )
        spared = "It was not downloaded. " if self.is_ahead else ""
        return (
            f"{self.name} needs about {size(self.total)} of memory, but only {size(max(0, available))} are available.{expanded} "
            f"{spared}Choose a smaller model, close other programs, or load it anyway."
        )


MakeRoom = Callable[[MemoryNeed], None]
"""Called with what a model will need before its weights are read. Makes room, or raises NotEnoughMemory."""


def need_of_gguf(name: str, header: GgufHeader, config: Mapping[str, Any], widened: bool) -> MemoryNeed:
    """The need of a GGUF file. `config`: as mlx-lm would describe the model. `widened`: whether it runs in float32."""
    weights, stored = 0.0, 0
    for tensor in header.tensors.values():
        stored += tensor.size
        weights += math.prod(tensor.shape) * (4 if widened else _KEPT.get(tensor.kind, 2))
    return MemoryNeed(name, round(weights), cache_bytes(config, widened), stored, widened)


def need_of_folder(name: str, tables: Iterable[Table], config: Mapping[str, Any], widened: bool) -> MemoryNeed:
    """The need of an mlx-lm folder with these safetensors files. `config`: its config.json."""
    tensors: Table = {name: tensor for own in tables for name, tensor in own.items()}
    stored = sum(math.prod(shape) * SIZES[dtype] for dtype, shape in tensors.values())
    weights = sum(_widened(part, tensors, config) for part in tensors) if widened else stored
    return MemoryNeed(name, weights, cache_bytes(config, widened), stored, widened)


def _widened(name: str, tensors: Table, config: Mapping[str, Any]) -> int:
    """Bytes of a tensor after its layer was expanded to float32; scales and biases of quantised layers are gone then."""
    layer, _, part = name.rpartition(".")
    scales = tensors.get(f"{layer}.scales")
    dtype, shape = tensors[name]
    if scales is not None and dtype == "U32" and part == "weight":
        return 4 * math.prod(scales[1]) * _group_size(layer, config)
    if scales is not None and part in ("scales", "biases"):
        return 0
    return math.prod(shape) * (SIZES[dtype] if dtype[0] in "IUB" and dtype != "BF16" else 4)


def _group_size(layer: str, config: Mapping[str, Any]) -> int:
    """Weights that share a scale, of the layer or of all; mlx-lm's own default is 64."""
    quantisation = table(config.get("quantization"))
    own = quantisation.get(layer)
    found = (own if isinstance(own, dict) else quantisation).get("group_size")
    return found if isinstance(found, int) else 64


def cache_bytes(config: Mapping[str, Any], widened: bool) -> int:
    """Bytes of keys and values of `CACHE_TOKENS` tokens; 0 where the configuration does not say."""
    text = {**config, **table(config.get("text_config"))}

    def whole(*names: str) -> int:
        """The first of these entries that is a positive number; 0 if none is."""
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
    """Bytes that a program may take without others being written to disk; None where nothing says.

    On Linux what the kernel estimates and what the limits of the process's control groups leave, whichever is less. Elsewhere, as
    on macOS, which compresses and swaps as it sees fit, all the memory there is. With MLX for CUDA it is the GPU's.

    Args:
        root: where /proc and /sys are, elsewhere in tests.
    """
    if device_kind() == "cuda":
        gpu = nvidia.gpu()
        return None if gpu is None else gpu[1]
    left = [amount for amount in (_of_the_kernel(root), *_of_control_groups(root)) if amount is not None]
    return min(left) if left else provenance.physical_memory()


def _of_the_kernel(root: Path) -> int | None:
    for line in _lines(root / "proc/meminfo"):
        key, _, value = line.partition(":")
        if key == "MemAvailable":
            return int(value.split()[0]) * 1024
    return None


def _of_control_groups(root: Path) -> list[int]:
    """What each group that the process is in may still take; cached files that nobody has changed can be given up."""
    left = []
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
                left.append(max(0, limit - used + cached))
    return left


def _is_cached(entry: str) -> bool:
    return entry.startswith(("inactive_file ", "total_inactive_file "))


def _number(path: Path) -> int | None:
    text = "".join(_lines(path)).strip()
    return int(text) if text.isdigit() else None


def _lines(path: Path) -> list[str]:
    with contextlib.suppress(OSError):
        return path.read_text(errors="replace").splitlines()
    return []
