"""A fast matrix product for MLX on Linux, chosen before MLX is imported.

The Linux CPU build of MLX links a bundled reference BLAS that computes about 4.5 GFLOP/s whatever the shape. Its symbols are
looked up in the global scope first, so a library loaded there beforehand takes their place: OpenBLAS raises float32
products to more than 100 GFLOP/s, and makes the verification of eight rows cost 1.6 times one row instead of seven times.
"""

from __future__ import annotations

import ctypes
import functools
import os
import sys
import sysconfig
from pathlib import Path

_PLAIN_RUNTIME = b"libgfortran.so.5"


@functools.cache
def prefer_fast_blas() -> str | None:
    """Load OpenBLAS where MLX will find it. Call before the first `import mlx.core`; further calls change nothing.

    Returns:
        The path or name of the library in force. None where there is nothing to prefer (macOS has Accelerate and Metal) or
        nothing to be had: no OpenBLAS installed, it does not load, or MLX was imported before. MLX then runs with its own
        BLAS, several times slower on Linux and otherwise alike.
    """
    if sys.platform != "linux" or "mlx.core" in sys.modules:
        return None
    site = Path(sysconfig.get_paths()["purelib"])
    packaged = site / "cmeel.prefix" / "lib" / "libopenblas.so"
    if packaged.is_file():
        if _load(packaged.as_posix()) or (_load_fortran_runtime(site / "mlx_cpu.libs") and _load(packaged.as_posix())):
            _leave_a_core(ctypes.CDLL(packaged.as_posix()))
            return packaged.as_posix()
    if _load("libopenblas.so.0"):
        _leave_a_core(ctypes.CDLL("libopenblas.so.0"))
        return "libopenblas.so.0"
    return None


def _leave_a_core(library: ctypes.CDLL) -> None:
    """Use all cores but one, unless OPENBLAS_NUM_THREADS says otherwise.

    OpenBLAS's threads wait for each other busily, so a product stands still whenever the window, or another program, takes
    the core of one of them: with as many threads as cores, a busy machine decodes five to ten times slower than with one
    thread, and an idle one with two cores hardly faster.
    """
    if "OPENBLAS_NUM_THREADS" not in os.environ:
        library.openblas_set_num_threads(max(1, len(os.sched_getaffinity(0)) - 1))


def _load(name: str) -> bool:
    try:
        ctypes.CDLL(name, mode=ctypes.RTLD_GLOBAL)
    except OSError:
        return False
    return True


def _load_fortran_runtime(libraries: Path) -> bool:
    """Load the Fortran runtime that MLX's wheel bundles under the name that OpenBLAS asks for.

    OpenBLAS needs `libgfortran.so.5`, which a fresh system lacks. The wheel's copy is the same library, but its recorded
    name (SONAME) carries a hash so that wheels do not meet. The dynamic linker compares recorded names only, so a copy
    in memory whose recorded name is the plain one satisfies it; the file on disk stays as installed.
    """
    try:
        bundled = next(libraries.glob("libgfortran-*.so.5*"))
        for helper in libraries.glob("libquadmath-*.so*"):
            ctypes.CDLL(helper.as_posix(), mode=ctypes.RTLD_GLOBAL)
        hashed = bundled.name.encode()
        image = bundled.read_bytes().replace(hashed + b"\0", _PLAIN_RUNTIME.ljust(len(hashed) + 1, b"\0"))
        descriptor = os.memfd_create("libgfortran")
    except (StopIteration, OSError):
        return False
    try:
        with os.fdopen(descriptor, "wb", closefd=False) as memory:
            memory.write(image)
        return _load(f"/proc/self/fd/{descriptor}")
    except OSError:
        return False
    finally:
        os.close(descriptor)
