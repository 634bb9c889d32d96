"""The device that MLX computes on, as MLX reports it; memory, types, weights and defaults depend on it.

In processes that do not import MLX, such as the window's, `engine.machine.mlx_import.device_kind` derives it from the installed
packages.
"""

from __future__ import annotations

from typing import NamedTuple

import mlx.core as mx

from engine.machine.mlx_import import Kind


class Device(NamedTuple):
    """A processor or a GPU.

    Attributes:
        name: as MLX reports it.
        memory: bytes that MLX may use on a GPU: Metal's recommendation, or the memory that other programs leave free on NVIDIA's.
            None on the CPU, where the system decides.
    """

    kind: Kind
    name: str
    memory: int | None


def kind() -> Kind:
    """Returns the kind of device that MLX computes on."""
    if mx.default_device() == mx.Device(mx.cpu):
        return "cpu"
    return "metal" if mx.metal.is_available() else "cuda"


def device() -> Device:
    """Returns the device that MLX computes on, with its memory at this moment."""
    default, information = kind(), mx.device_info()
    memory = information.get({"cpu": "", "metal": "max_recommended_working_set_size", "cuda": "free_memory"}[default])
    if memory is not None:
        memory = int(memory) + (mx.get_active_memory() + mx.get_cache_memory() if default == "cuda" else 0)
    return Device(default, str(information.get("device_name", mx.default_device())), memory)
