"""Queries of the NVIDIA driver through its API, with compiled stand-ins for the driver."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.engine.drivers import DRIVER, MANAGEMENT, compile_library
from tests.shim.needs import needs_compiler

ROOT = Path(__file__).parents[3]
GOOD = {"CUDA": 13_000, "GPUS": 1, "CAPABILITY": 90}
CASES: dict[str, tuple[dict[str, int], str, str]] = {
    "driver 580": (GOOD, "", ""),
    "driver 570": ({"CUDA": 12_080}, "580 or later", ""),
    "driver 550.54": ({"CUDA": 12_040}, "580 or later", ""),
    "driver 545": ({"CUDA": 12_030}, "580 or later", "550.54 or later"),
    "no GPU": ({"GPUS": 0}, "finds no GPU", "finds no GPU"),
    "driver that does not start": ({"FAILURE": 100}, "finds no GPU", "finds no GPU"),
    "Turing": ({"CAPABILITY": 75}, "", ""),
    "Volta": ({"CAPABILITY": 70}, "7.5 or higher, and this one has 7.0", "7.5 or higher, and this one has 7.0"),
    "Blackwell": ({"CAPABILITY": 120}, "", ""),
}
"""Values of the stand-in, and the problem that each gives for mlx-cuda-13 and for mlx-cuda-12 (empty for none)."""
PROGRAM = """
import json, os, sys
from engine.machine import nvidia
found = []
for case in json.loads(sys.argv[1]):
    os.environ |= {f"STAND_IN_{name}": str(value) for name, value in case.items()}
    found.append([*(nvidia.problem(f"mlx-cuda-{version}") for version in (13, 12)), nvidia.fitting()])
nvidia.platform.libc_ver = lambda: ("glibc", "2.34")
old = nvidia.fitting()
nvidia.platform.libc_ver = lambda: ("", "")
print(json.dumps([found, old, nvidia.fitting(), nvidia.gpu()]))
"""


def ask(libraries: Path, *cases: dict[str, int]) -> Any:
    environment = {**os.environ, "LD_LIBRARY_PATH": str(libraries), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-S", "-c", PROGRAM, json.dumps(cases)]
    return json.loads(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout)


@needs_compiler
def test_cuda_is_taken_where_driver_and_gpu_are_new_enough(tmp_path: Path) -> None:
    compile_library(tmp_path / "libcuda.so.1", DRIVER)
    compile_library(tmp_path / "libnvidia-ml.so.1", MANAGEMENT)
    found, old, unknown, gpu = ask(tmp_path, *({"FAILURE": 0, **GOOD, **says} for says, _, _ in CASES.values()))
    for (_, *expected), (*problems, taken) in zip(CASES.values(), found, strict=True):
        for words, problem in zip(expected, problems, strict=True):
            assert (words in problem) if words else not problem
        assert taken == next(
            (f"mlx-cuda-{version}" for version, words in zip((13, 12), expected, strict=True) if not words), "mlx-cpu"
        )
    assert old == unknown == "mlx-cpu", "wheels for CUDA need glibc 2.35"
    assert gpu == ["NVIDIA H100 80GB HBM3", 75 * 2**30]


@pytest.mark.skipif(sys.platform != "linux" or Path("/proc/driver/nvidia").exists(), reason="there is a driver")
def test_without_a_driver_it_is_the_cpu(tmp_path: Path) -> None:
    ((*problems, taken),), _, _, gpu = ask(tmp_path, GOOD)
    assert all("no NVIDIA driver (libcuda.so.1)" in problem for problem in problems)
    assert (taken, gpu) == ("mlx-cpu", None)
