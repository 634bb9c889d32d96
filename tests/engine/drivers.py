"""Fake libraries of NVIDIA's driver, compiled from C, and a folder of packages like that of an environment."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.shim import execute

DRIVER = """
#include <stdlib.h>
static int is(const char* name) { const char* value = getenv(name); return value ? atoi(value) : 0; }
int cuDriverGetVersion(int* found) { *found = is("STAND_IN_CUDA"); return 0; }
int cuInit(unsigned flags) { return is("STAND_IN_FAILURE"); }
int cuDeviceGetCount(int* found) { *found = is("STAND_IN_GPUS"); return 0; }
int cuDeviceGet(int* found, int index) { *found = 7 + index; return 0; }
int cuDeviceGetAttribute(int* found, int attribute, int device) {
  int capability = is("STAND_IN_CAPABILITY");
  if (device != 7) return 1;
  *found = attribute == 75 ? capability / 10 : attribute == 76 ? capability % 10 : -1;
  return 0;
}
"""
"""Driver API: cuda.h, names and attributes as NVIDIA documents them."""
MANAGEMENT = """
#include <string.h>
struct memory { unsigned long long total, free, used; };
static int device;
int nvmlInit_v2(void) { return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** found) { *found = &device; return index != 0; }
int nvmlDeviceGetName(void* of, char* name, unsigned length) {
  strncpy(name, "NVIDIA H100 80GB HBM3", length); return of != &device;
}
int nvmlDeviceGetMemoryInfo(void* of, struct memory* found) {
  found->total = 80ull << 30; found->free = 75ull << 30; found->used = 5ull << 30; return of != &device;
}
"""


def compile_library(path: Path, source: str, *options: str) -> None:
    """Compiles C; the library is known to others by the name of its file."""
    compiler = execute.compiler()
    assert compiler is not None
    path.parent.mkdir(parents=True, exist_ok=True)
    command = [compiler, "-x", "c", "-", "-x", "none", "-shared", "-fPIC", "-o", str(path), f"-Wl,-soname,{path.name}", *options]
    subprocess.run(command, input=source, text=True, check=True)


def packages(folder: Path, *backends: str) -> Path:
    """Makes a folder in which these back-ends of MLX are installed, as "mlx-cuda-13", without their library."""
    (folder / "mlx" / "lib").mkdir(parents=True)
    for backend in backends:
        (folder / f"{backend.replace('-', '_')}-0.32.4.dist-info").mkdir()
    return folder
