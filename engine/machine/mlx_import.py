"""Checks, without importing MLX, what device it would compute on and whether the import would work.

A failing import may end the process instead of raising an error, or give no hint at a remedy.

On Linux each back-end of MLX has its own library, mlx/lib/libmlx.so, in its own package. An environment has room for only one.
"""

from __future__ import annotations

import ctypes
import functools
import shlex
import sys
from pathlib import Path
from typing import Literal

from engine.machine import nvidia
from engine.values.errors import DraftlightError

Kind = Literal["cpu", "metal", "cuda"]
"""Kinds of devices that MLX can compute on."""

_METAL = "/System/Library/Frameworks/Metal.framework/Metal"
_CORE_FOUNDATION = "/System/Library/Frameworks/CoreFoundation.framework/CoreFoundation"


def device_kind() -> Kind:
    """Returns the kind of device that MLX will compute on, from the installed packages. Once MLX is imported, use
    `engine.machine.device`."""
    if sys.platform == "darwin":
        return "metal"
    return "cuda" if any(package in nvidia.NEEDS for package in backends()) else "cpu"


def device_name() -> str:
    """Returns the device in words, such as "the CPU", with the name of NVIDIA's GPU if its driver gives it."""
    gpu = nvidia.gpu() if device_kind() == "cuda" else None
    return {"cpu": "the CPU", "metal": "Apple's GPU", "cuda": f"{gpu[0] if gpu else 'a GPU'} (CUDA)"}[device_kind()]


@functools.cache
def backends() -> tuple[str, ...]:
    """Returns the installed packages that contain libmlx.so, such as "mlx-cpu"."""
    packages_ = {"mlx_cpu", *(package.replace("-", "_") for package in nvidia.NEEDS)}
    result = {described.name.partition("-")[0] for site in _package_folders() for described in site.glob("mlx_*.dist-info")}
    return tuple(sorted(name.replace("_", "-") for name in result & packages_))


def _package_folders() -> list[Path]:
    """Returns the folders that contain parts of MLX and the descriptions of its packages."""
    return [Path(place) for place in sys.path if Path(place, "mlx").is_dir()]


def require_device() -> None:
    """Checks that MLX has a device to run on.

    Raises:
        DraftlightError: on a Mac, if this session has no GPU, as over some remote connections or in a virtual machine; MLX would
            end the process with an NSRangeException during import (ml-explore/mlx#3148). On Linux, if several back-ends are
            installed or the installed one cannot be loaded.
    """
    if sys.platform == "darwin":
        if not metal_devices():
            raise DraftlightError(
                "macOS offers no GPU to this session, and MLX cannot start without one. In most virtual machines and over "
                "some remote connections that is so. Start Draftlight on the Mac itself, as a user who is logged in."
            )
    elif (installed := backends()) and (problem := _problem(installed)):
        raise DraftlightError(f"{problem}; to compute on the CPU, run: {_cpu_command(installed)}")


def _problem(installed: tuple[str, ...]) -> str:
    """Returns why MLX cannot be imported with these back-ends, as the beginning of a sentence; "" if no problem is found."""
    if len(installed) > 1:
        return f"{' and '.join(installed)} are installed together, and each overwrites the library of the other"
    (package,) = installed
    library = next((path for site in _package_folders() if (path := site / "mlx" / "lib" / "libmlx.so").is_file()), None)
    if library is None:
        return f"{package} is installed without its library, libmlx.so"
    if package not in nvidia.NEEDS:
        return ""
    problem = nvidia.problem(package)
    if not problem:
        try:
            ctypes.CDLL(library.as_posix())  # like the import, which then finds it loaded
        except OSError as error:
            problem = f"a library is missing or does not fit ({error})"
    return problem and f"MLX is installed for CUDA ({package}), but {problem}"


def _cpu_command(installed: tuple[str, ...]) -> str:
    """Returns the command that replaces these back-ends with that of the CPU."""
    if Path(sys.prefix, ".complete").is_file() and installed != ("mlx-cpu",):  # made by packaging/setup.sh
        return f"make -C {shlex.quote(Path(sys.prefix).parent.as_posix())} setup BACKEND=cpu"
    pip = f"{shlex.quote(sys.executable)} -m pip"
    return f"{pip} uninstall --yes {' '.join(installed)} && {pip} install 'mlx[cpu]'"


def metal_devices() -> int:
    """Returns the number of GPUs that Metal lists for this process, queried in the same way as by MLX."""
    try:
        metal, foundation = ctypes.CDLL(_METAL), ctypes.CDLL(_CORE_FOUNDATION)
    except OSError:
        return 0
    metal.MTLCopyAllDevices.restype = ctypes.c_void_p
    foundation.CFArrayGetCount.argtypes, foundation.CFArrayGetCount.restype = [ctypes.c_void_p], ctypes.c_long
    foundation.CFRelease.argtypes = [ctypes.c_void_p]
    devices = metal.MTLCopyAllDevices()
    if not devices:
        return 0
    count: int = foundation.CFArrayGetCount(devices)
    foundation.CFRelease(devices)
    return count
