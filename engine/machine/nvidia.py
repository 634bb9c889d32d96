"""Queries NVIDIA's driver and GPU without MLX, because its CUDA build cannot even be imported without a driver.

MLX computes on the first GPU that the driver lists, so only that one is queried.
"""

from __future__ import annotations

import ctypes
import platform

NEEDS = {"mlx-cuda-13": (13_000, "580"), "mlx-cuda-12": (12_040, "550.54")}
"""For each package, the best first: the CUDA version that the driver must support, as `cuDriverGetVersion` counts, and the first
driver that does."""
CAPABILITY = (7, 5)
GLIBC = (2, 35)
_MAJOR, _MINOR = 75, 76
"""Attributes of a device (`CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR` and `…_MINOR`)."""


class _Memory(ctypes.Structure):
    """`nvmlMemory_t`, in bytes."""

    _fields_ = [("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong)]


def fitting() -> str:
    """Returns the best of `NEEDS` that can compute here, or "mlx-cpu"."""
    name, version = platform.libc_ver()
    if name != "glibc" or tuple(map(int, version.split(".")[:2])) < GLIBC:
        return "mlx-cpu"
    return next((package for package in NEEDS if not problem(package)), "mlx-cpu")


def problem(package: str) -> str:
    """Returns why a package of `NEEDS` cannot compute here, as the end of a sentence; "" if it can."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return "there is no NVIDIA driver (libcuda.so.1) on this machine"
    version_, needed = ctypes.c_int(0), NEEDS[package]
    if driver.cuDriverGetVersion(ctypes.byref(version_)) or version_.value < needed[0]:
        return f"it needs the NVIDIA driver {needed[1]} or later, and the one on this machine is older"
    if driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(version_)) or not version_.value:
        return "the NVIDIA driver finds no GPU"
    device, capability = ctypes.c_int(0), []
    driver.cuDeviceGet(ctypes.byref(device), 0)
    for attribute in (_MAJOR, _MINOR):
        driver.cuDeviceGetAttribute(ctypes.byref(version_), attribute, device)
        capability.append(version_.value)
    if tuple(capability) < CAPABILITY:
        minimum, this = (".".join(map(str, gpu_)) for gpu_ in (CAPABILITY, capability))
        return f"it needs a GPU of compute capability {minimum} or higher, and this one has {this}"
    return ""


def gpu() -> tuple[str, int] | None:
    """Returns the GPU's name and the bytes of its memory that no program uses; None if the driver does not report them."""
    name, memory, device = ctypes.create_string_buffer(96), _Memory(), ctypes.c_void_p()
    try:
        library = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return None
    if library.nvmlInit_v2() or library.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(device)):
        return None
    if library.nvmlDeviceGetName(device, name, len(name)) or library.nvmlDeviceGetMemoryInfo(device, ctypes.byref(memory)):
        return None
    return name.value.decode(errors="replace"), int(memory.free)
