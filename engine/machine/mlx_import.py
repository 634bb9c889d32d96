"""The device that MLX computes on here, and whether MLX can be imported. This is asked before the import, which ends the process
instead of raising an error, or fails for a reason that names no remedy.

On Linux it has a library for each back-end, mlx/lib/libmlx.so, in a package of its own. An environment has room for one.
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
"""Kinds of devices that MLX computes on."""

_METAL = "/System/Library/Frameworks/Metal.framework/Metal"
_CORE_FOUNDATION = "/System/Library/Frameworks/CoreFoundation.framework/CoreFoundation"


def device_kind() -> Kind:
    """Returns what MLX will compute on, by the packages that are installed. Once it is imported, `engine.machine.device`
    knows."""
    if sys.platform == "darwin":
        return "metal"
    return "cuda" if any(package in nvidia.NEEDS for package in backends()) else "cpu"


def device_name() -> str:
    """Returns the same in words, with the name of NVIDIA's GPU where its driver says it: "the CPU"."""
    gpu = nvidia.gpu() if device_kind() == "cuda" else None
    return {"cpu": "the CPU", "metal": "Apple's GPU", "cuda": f"{gpu[0] if gpu else 'a GPU'} (CUDA)"}[device_kind()]


@functools.cache
def backends() -> tuple[str, ...]:
    """Returns the installed packages that bring libmlx.so, as "mlx-cpu"."""
    known = {"mlx_cpu", *(package.replace("-", "_") for package in nvidia.NEEDS)}
    found = {described.name.partition("-")[0] for site in _sites() for described in site.glob("mlx_*.dist-info")}
    return tuple(sorted(name.replace("_", "-") for name in found & known))


def _sites() -> list[Path]:
    """Returns the folders that hold parts of MLX beside the packages' descriptions."""
    return [Path(place) for place in sys.path if Path(place, "mlx").is_dir()]


def require_device() -> None:
    """Does nothing where MLX has a device to run on.

    Raises:
        DraftlightError: on a Mac that offers no GPU to this session, as over some remote connections or in a virtual
            machine. MLX would end the process with an NSRangeException while it is imported (ml-explore/mlx#3148).
            On Linux where the installed back-ends are several or the one cannot be loaded.
    """
    if sys.platform == "darwin":
        if not metal_devices():
            raise DraftlightError(
                "macOS offers no GPU to this session, and MLX cannot start without one. In most virtual machines and over "
                "some remote connections that is so. Start Draftlight on the Mac itself, as a user who is logged in."
            )
    elif (found := backends()) and (problem := _problem(found)):
        raise DraftlightError(f"{problem}; to compute on the CPU, run: {_to_the_cpu(found)}")


def _problem(found: tuple[str, ...]) -> str:
    """Returns why MLX cannot be imported with these back-ends, the beginning of a sentence; "" if nothing seems wrong."""
    if len(found) > 1:
        return f"{' and '.join(found)} are installed together, and each overwrites the library of the other"
    (package,) = found
    library = next((path for site in _sites() if (path := site / "mlx" / "lib" / "libmlx.so").is_file()), None)
    if library is None:
        return f"{package} is installed without its library, libmlx.so"
    if package not in nvidia.NEEDS:
        return ""
    problem = nvidia.problem(package)
    if not problem:
        try:
            ctypes.CDLL(library.as_posix())  # as the import does, which then finds it loaded
        except OSError as error:
            problem = f"a library is missing or does not fit ({error})"
    return problem and f"MLX is installed for CUDA ({package}), but {problem}"


def _to_the_cpu(found: tuple[str, ...]) -> str:
    """Returns the command that puts the CPU's back-end in the place of these."""
    if Path(sys.prefix, ".complete").is_file() and found != ("mlx-cpu",):  # made by packaging/setup.sh
        return f"make -C {shlex.quote(Path(sys.prefix).parent.as_posix())} setup BACKEND=cpu"
    pip = f"{shlex.quote(sys.executable)} -m pip"
    return f"{pip} uninstall --yes {' '.join(found)} && {pip} install 'mlx[cpu]'"


def metal_devices() -> int:
    """Returns the number of GPUs that Metal lists for this process, in the way that MLX asks for them."""
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
