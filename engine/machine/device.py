"""The device that MLX computes on, as MLX itself says: what memory, types, weights and defaults follow.

Where MLX is not imported, as in the window, `engine.machine.mlx_import.device_kind` tells by the installed packages what it will
be.
"""

from __future__ import annotations

from typing import NamedTuple

import mlx.core as mx

from engine.machine.mlx_import import Kind


class Device(NamedTuple):
    """A processor or a GPU.

    Attributes:
        name: as MLX reports it.
        memory: bytes that MLX may hold on a GPU: what Metal recommends, or what other programs leave on NVIDIA's. None on the
            CPU, where the system decides.
    """

    kind: Kind
    name: str
    memory: int | None


def kind() -> Kind:
    """Returns what MLX computes on."""
    if mx.default_device() == mx.Device(mx.cpu):
        return "cpu"
    return "metal" if mx.metal.is_available() else "cuda"


def device() -> Device:
    """Returns the device that MLX computes on, with the memory of this moment."""
    found, information = kind(), mx.device_info()
    memory = information.get({"cpu": "", "metal": "max_recommended_working_set_size", "cuda": "free_memory"}[found])
    if memory is not None:
        memory = int(memory) + (mx.get_active_memory() + mx.get_cache_memory() if found == "cuda" else 0)
    return Device(found, str(information.get("device_name", mx.default_device())), memory)
