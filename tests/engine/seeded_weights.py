"""Random weights that depend on a seed and on a tensor's name and shape only, so that stored references need not store weights.

Only NumPy is needed: the scripts under `tests/references` run this where neither MLX nor Draftlight is installed.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Mapping

import numpy as np

Shape = tuple[int, ...]


def weights(shapes: Mapping[str, Shape], seed: int, zero_centred: bool = False) -> dict[str, np.ndarray]:
    """Returns float32 arrays of these shapes by name.

    Args:
        zero_centred: whether norms are stored as their weight less one, except the norm inside a linear attention.
    """
    return {name: tensor(name, shape, seed, zero_centred) for name, shape in sorted(shapes.items())}


def tensor(name: str, shape: Shape, seed: int, zero_centred: bool = False) -> np.ndarray:
    """Returns one array. Its scale follows from the kind of tensor, so that the logits of a tiny model differ by a few units and
    its attention is neither flat nor one-hot."""
    normal = np.random.default_rng([seed, zlib.crc32(name.encode())]).standard_normal(shape)
    if name.endswith(".A_log"):
        made = np.log(1 + 15 * np.abs(normal) / (1 + np.abs(normal)))
    elif name.endswith("bias"):
        made = 0.2 * normal
    elif len(shape) == 1:
        made = 0.3 * normal + (0 if zero_centred and "linear_attn" not in name else 1)
    else:
        made = normal * _gain(name) / np.sqrt(shape[-1])
    return made.astype(np.float32)


def _gain(name: str) -> float:
    """Returns the factor of a matrix: larger for what decides where attention looks, which expert runs and which token wins."""
    if "embed_tokens" in name:
        return 6
    if name.startswith("lm_head") or name.endswith("shared_head.head.weight"):
        return 3
    return 2 if name.endswith(("q_proj.weight", "k_proj.weight", ".gate.weight", "in_proj_qkv.weight")) else 1


def fingerprint(made: Mapping[str, np.ndarray]) -> str:
    """Returns the SHA-256 of names, shapes and values."""
    digest = hashlib.sha256()
    for name, array in sorted(made.items()):
        digest.update(f"{name} {array.dtype} {array.shape}\n".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()
