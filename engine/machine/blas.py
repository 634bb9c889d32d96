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
from collections.abc import Set
from pathlib import Path

from engine.machine.mlx_import import device_kind

_PLAIN_RUNTIME = b"libgfortran.so.5"


@functools.cache
def prefer_fast_blas() -> str | None:
    """Load OpenBLAS where MLX will find it. Call before the first `import mlx.core`; further calls change nothing.

    A library that was built for another processor is passed over: it would end the process with an illegal instruction.

    Returns:
        The path or name of the library in force. None where there is nothing to prefer (on macOS and CUDA) or
        none is usable: no OpenBLAS installed, it does not load, it needs instructions this processor lacks, or MLX was imported
        before. MLX then runs with its own BLAS, several times slower on Linux and otherwise alike.
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
            ctypes.CDLL(name, mode=ctypes.RTLD_GLOBAL)  # the same library again, now for MLX to find
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
"""By the name of the processor that OpenBLAS was built for: the features, as Linux lists them, that its code relies on."""


def runs_here(core: str, config: str, features: Set[str]) -> bool:
    """Whether an OpenBLAS built like this runs on a processor with these features.

    Args:
        core: what `openblas_get_corename` says.
        config: what `openblas_get_config` says; DYNAMIC_ARCH in it means that the library picks what fits.
        features: the processor's, in the words of /proc/cpuinfo.
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
    """Name of the processor and build options. Neither call computes, so both are safe on any processor."""
    for question in (library.openblas_get_corename, library.openblas_get_config):
        question.restype = ctypes.c_char_p
    core, config = library.openblas_get_corename() or b"", library.openblas_get_config() or b""
    return core.decode("ascii", "replace"), config.decode("ascii", "replace")


def _processor_features() -> Set[str]:
    """What /proc/cpuinfo lists for the first processor ("flags" on x86, "Features" on Arm); empty where it cannot be read."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return frozenset()
    listed = next((line for line in lines if line.lower().startswith(("flags", "features"))), "")
    return frozenset(listed.partition(":")[2].split())


def _leave_a_core(library: ctypes.CDLL) -> None:
    """Use all cores but one, unless OPENBLAS_NUM_THREADS says otherwise.

    OpenBLAS's threads wait for each other busily, so a product stands still whenever the window, or another program, takes
    the core of one of them: with as many threads as cores, a busy machine decodes five to ten times slower than with one
    thread, and an idle one with two cores hardly faster.
    """
    if sys.platform == "linux" and "OPENBLAS_NUM_THREADS" not in os.environ:  # the type checker reads this for macOS, too
        library.openblas_set_num_threads(max(1, len(os.sched_getaffinity(0)) - 1))


def _load_fortran_runtime(libraries: Path) -> bool:
    """Load the Fortran runtime that MLX's wheel bundles under the name that OpenBLAS asks for.

    OpenBLAS needs `libgfortran.so.5`, which a fresh system lacks. The wheel's copy is the same library, but its recorded
    name (SONAME) carries a hash so that wheels do not meet. The dynamic linker compares recorded names only, so a copy
    in memory whose recorded name is the plain one satisfies it; the file on disk stays as installed.
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
