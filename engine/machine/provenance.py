"""Versions and hardware of this machine, for the header of a trace. Nothing here imports MLX."""

from __future__ import annotations

import functools
import importlib.metadata
import os
import platform
import resource
import subprocess
import sys
from pathlib import Path

_PACKAGES = ("mlx", "mlx-lm", "tokenizers", "numpy")


def version() -> str:
    """Returns Draftlight's version, or "unknown" if it is run without being installed."""
    return _package_version("draftlight") or "unknown"


@functools.cache
def versions() -> dict[str, str | None]:
    """Returns versions by name; None for a package that is not installed."""
    return {
        "draftlight": version(),
        "python": platform.python_version(),
        **{name: _package_version(name) for name in _PACKAGES},
        "platform": platform.platform(),
    }


@functools.cache
def hardware() -> dict[str, str | int | None]:
    """Returns machine type, processor name, number of cores and bytes of memory, as far as the system reports them."""
    return {"machine": platform.machine(), "processor": _processor(), "cores": os.cpu_count(), "memory_bytes": physical_memory()}


@functools.cache
def _package_version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _processor() -> str | None:
    try:
        if sys.platform == "darwin":
            command = ["/usr/sbin/sysctl", "-n", "machdep.cpu.brand_string"]
            return subprocess.run(command, capture_output=True, text=True, timeout=5, check=True).stdout.strip() or None
        for line in Path("/proc/cpuinfo").read_text(errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip() or None
    except (OSError, subprocess.SubprocessError):
        return None
    return platform.processor() or None


def peak_memory() -> int:
    """Returns the peak resident memory of this process since its start, in bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak * (1 if sys.platform == "darwin" else 1024)  # macOS counts in bytes, others in kibibytes


def physical_memory() -> int | None:
    """Returns the machine's memory in bytes; None if the system does not report it."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None
