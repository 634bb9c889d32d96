"""Chooses a fast matrix product (BLAS) for MLX on Linux, before MLX is imported.

The Linux CPU build of MLX links a bundled reference BLAS that computes about 4.5 GFLOP/s whatever the shape. Its symbols are
looked up in the global scope first, so a library that is loaded there beforehand replaces it. OpenBLAS raises float32 products to
more than 100 GFLOP/s, so that verifying eight rows takes 1.6 times as long as one row instead of seven times.
"""

from __future__ import annotations

import ctypes
import functools
import os
import sys
import sysconfig
from collections.abc import Set
from pathlib import Path

from engine.machine.mlx_import import device_kind

_PLAIN_RUNTIME = b"libgfortran.so.5"


@functools.cache
def prefer_fast_blas() -> str | None:
    """Loads OpenBLAS globally, so that MLX uses it. Call before the first `import mlx.core`; further calls change nothing.

    A library that was built for another processor is skipped: it would end the process with an illegal instruction.

    Returns:
        The path or name of the library in force. None if nothing needs to be loaded (on macOS and CUDA) or no library is usable:
            OpenBLAS is not installed, does not load or needs instructions that this processor lacks, or MLX was imported before.
            MLX then uses its own BLAS, which on Linux is several times slower and otherwise equivalent.
    """
    if sys.platform != "linux" or "mlx.core" in sys.modules or device_kind() == "cuda":
        return None
    site = Path(sysconfig.get_paths()["purelib"])
    packaged = site / "cmeel.prefix" / "lib" / "libopenblas.so"
    candidates = [packaged.as_posix()] if packaged.is_file() else []
    for name in (*candidates, "libopenblas.so.0"):
        library = _opened(name)
        if library is None and name in candidates and _load_fortran_runtime(site / "mlx_cpu.libs"):
            library = _opened(name)
        if library is not None and runs_here(*_built_for(library), _processor_features()):
            ctypes.CDLL(name, mode=ctypes.RTLD_GLOBAL)  # the same library again, now with global symbols
            _leave_a_core(library)
            return name
    return None


_NEEDED = {
    "HASWELL": {"avx2", "fma"},
    "ZEN": {"avx2", "fma"},
    "SKYLAKEX": {"avx512f", "avx512cd", "avx512bw", "avx512dq", "avx512vl"},
    "ARMV8": set[str](),
    "NEOVERSEN1": {"asimddp"},
    "NEOVERSEV1": {"sve", "bf16"},
    "NEOVERSEN2": {"sve2", "bf16"},
}
"""For each processor that OpenBLAS is built for: the features that its code needs, as Linux lists them."""


def runs_here(core: str, config: str, features: Set[str]) -> bool:
    """Returns whether an OpenBLAS built like this runs on a processor with these features.

    Args:
        core: the result of `openblas_get_corename`.
        config: the result of `openblas_get_config`; DYNAMIC_ARCH in it means that the library chooses suitable code itself.
        features: the processor's features, as named in /proc/cpuinfo.
    """
    if "DYNAMIC_ARCH" in config.split():
        return True
    needed = _NEEDED.get(core.upper())
    return needed is not None and needed <= features


def _opened(name: str, mode: int = ctypes.DEFAULT_MODE) -> ctypes.CDLL | None:
    try:
        return ctypes.CDLL(name, mode=mode)
    except OSError:
        return None


def _built_for(library: ctypes.CDLL) -> tuple[str, str]:
    """Returns the name of the processor and the build options. Both calls only return strings, so they are safe on any
    processor."""
    for question in (library.openblas_get_corename, library.openblas_get_config):
        question.restype = ctypes.c_char_p
    core, config = library.openblas_get_corename() or b"", library.openblas_get_config() or b""
    return core.decode("ascii", "replace"), config.decode("ascii", "replace")


def _processor_features() -> Set[str]:
    """Returns the features of the first processor in /proc/cpuinfo ("flags" on x86, "Features" on Arm); empty if it cannot be
    read."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return frozenset()
    listed = next((line for line in lines if line.lower().startswith(("flags", "features"))), "")
    return frozenset(listed.partition(":")[2].split())


def _leave_a_core(library: ctypes.CDLL) -> None:
    """Makes OpenBLAS use all cores but one, unless OPENBLAS_NUM_THREADS is set.

    OpenBLAS's threads spin while they wait for each other, so a product stalls whenever the window, or another program, takes the
    core of one of them. With as many threads as cores, a busy machine decodes five to ten times slower than with one thread, and
    an idle one with two cores hardly faster.
    """
    if sys.platform == "linux" and "OPENBLAS_NUM_THREADS" not in os.environ:  # the type checker also reads this for macOS
        library.openblas_set_num_threads(max(1, len(os.sched_getaffinity(0)) - 1))


def _load_fortran_runtime(libraries: Path) -> bool:
    """Loads the Fortran runtime from MLX's wheel under the name that OpenBLAS needs. Returns whether that worked.

    OpenBLAS needs `libgfortran.so.5`, which a fresh system lacks. The wheel's copy is the same library, but its recorded name
    (SONAME) contains a hash so that wheels do not conflict. The dynamic linker compares only recorded names, so a copy in memory
    with the plain recorded name satisfies it; the file on disk is not changed.
    """
    if sys.platform != "linux":
        return False
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
        return _opened(f"/proc/self/fd/{descriptor}", ctypes.RTLD_GLOBAL) is not None
    except OSError:
        return False
    finally:
        os.close(descriptor)
