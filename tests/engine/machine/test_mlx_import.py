"""A Mac without a GPU gets an error message instead of an abort, and so does a machine where MLX for CUDA cannot be loaded."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engine.cluster.about import about
from engine.cluster.signs import FAILED, MARK
from engine.machine import mlx_import
from engine.runtime.mlx_backend import MlxBackend
from engine.values.errors import DraftlightError
from tests.engine.drivers import DRIVER, compile_library, packages
from tests.shim.needs import needs_compiler

ROOT = Path(__file__).parents[3]
linux_only = pytest.mark.skipif(sys.platform != "linux", reason="back-ends are packages of their own on Linux")


class Function:
    """A function of a C library, which takes attributes."""

    def __init__(self, function: Callable[..., object]) -> None:
        self.function = function

    def __call__(self, *arguments: object) -> object:
        return self.function(*arguments)


class Framework:
    """The functions of Metal and Core Foundation that are called, with a number of devices."""

    def __init__(self, devices: int | None) -> None:
        self.released: list[object] = []
        self.MTLCopyAllDevices = Function(lambda: None if devices is None else 4096)
        self.CFArrayGetCount = Function({4096: devices}.__getitem__)
        self.CFRelease = Function(self.released.append)


@pytest.mark.parametrize(("devices", "usable"), [(1, True), (2, True), (0, False), (None, False)])
def test_mac_without_a_gpu_is_refused_before_mlx_is_imported(
    monkeypatch: pytest.MonkeyPatch, devices: int | None, usable: bool
) -> None:
    framework = Framework(devices)
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(mlx_import.ctypes, "CDLL", lambda name: framework)
    if usable:
        mlx_import.require_device()
    else:
        with pytest.raises(DraftlightError, match="offers no GPU to this session"):
            mlx_import.require_device()
    assert framework.released == [4096] * (devices is not None)


def test_the_engine_asks_before_it_imports_mlx(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise DraftlightError("no GPU")

    monkeypatch.setattr("engine.runtime.mlx_backend.require_device", refuse)
    with pytest.raises(DraftlightError, match="no GPU"):
        MlxBackend()


@pytest.mark.skipif(sys.platform != "darwin", reason="asks macOS")
def test_metal_lists_what_this_mac_has() -> None:
    assert mlx_import.metal_devices() > 0


PROGRAM = """
import sys
sys.prefix = sys.argv[1]
from engine.machine import blas, mlx_import
from engine.values.errors import DraftlightError
try:
    mlx_import.require_device()
except DraftlightError as error:
    print(error)
assert not any(name.startswith("mlx.") for name in sys.modules)
print(mlx_import.device_kind(), blas.prefer_fast_blas() is None)
"""


def told(site: Path, prefix: Path, libraries: Path | None = None) -> list[str]:
    """Returns the output with only these packages installed; the last line is the kind of device."""
    driver = {"STAND_IN_CUDA": "13000", "STAND_IN_GPUS": "1", "STAND_IN_CAPABILITY": "90"}
    environment = {**os.environ, **driver, "PYTHONPATH": f"{ROOT}:{site}", "LD_LIBRARY_PATH": str(libraries or "")}
    command = [sys.executable, "-S", "-c", PROGRAM, str(prefix)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.splitlines()


@linux_only
@pytest.mark.parametrize(
    ("installed", "words"),
    [
        (["mlx-cuda-13"], r"mlx-cuda-13 is installed without its library, libmlx\.so"),
        (["mlx-cpu"], r"mlx-cpu is installed without its library, libmlx\.so"),
        (
            ["mlx-cpu", "mlx-cuda-13"],
            "mlx-cpu and mlx-cuda-13 are installed together, and each overwrites the library of the other",
        ),
        (["mlx-cpu", "mlx-cuda-12", "mlx-cuda-13"], "mlx-cpu and mlx-cuda-12 and mlx-cuda-13 are installed together"),
    ],
)
def test_no_or_several_back_ends_are_refused_with_the_remedy(installed: list[str], words: str, tmp_path: Path) -> None:
    said, device = told(packages(tmp_path / "site", *installed), tmp_path)
    python = re.escape(shlex.quote(sys.executable))
    command = f"{python} -m pip uninstall --yes {' '.join(installed)} && {python} -m pip install 'mlx\\[cpu\\]'"
    assert re.fullmatch(f"{words}.*; to compute on the CPU, run: {command}", said)
    assert device.startswith("cpu" if installed == ["mlx-cpu"] else "cuda True")


@linux_only
def test_an_environment_of_a_checkout_is_exchanged_by_make(tmp_path: Path) -> None:
    prefix = tmp_path / "a checkout" / ".venv"
    prefix.mkdir(parents=True)
    (prefix / ".complete").touch()
    said, _ = told(packages(tmp_path / "site", "mlx-cuda-12"), prefix)
    assert said.endswith(f"run: make -C {shlex.quote(str(prefix.parent))} setup BACKEND=cpu")


@linux_only
def test_ranks_report_a_missing_device_to_rank_0(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = packages(tmp_path / "site", "mlx-cpu", "mlx-cuda-13")
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{site}"}
    command = [sys.executable, "-S", "-m", "engine.cluster.rank"]
    with subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as rank:
        assert rank.stdout is not None
        assert any(line.startswith(f"{MARK}{FAILED}mlx-cpu and mlx-cuda-13 are installed together") for line in rank.stdout)
        assert rank.wait() == 1
    monkeypatch.setattr(mlx_import, "backends", lambda: ("mlx-cpu", "mlx-cuda-13"))
    assert str(about("builtin", [])["problem"]).startswith("mlx-cpu and mlx-cuda-13 are installed together")


@needs_compiler
def test_missing_requirements_of_cuda_are_reported_before_the_import(tmp_path: Path) -> None:
    """The library is linked against one of NVIDIA's that is then removed, as if their packages were missing."""
    drivers, nvidia = tmp_path / "drivers", tmp_path / "nvidia"
    site = packages(tmp_path / "site", "mlx-cuda-13")
    compile_library(nvidia / "libnccl.so.2", "int nccl(void) { return 0; }")
    library = site / "mlx" / "lib" / "libmlx.so"
    compile_library(library, "int nccl(void); int mlx(void) { return nccl(); }", str(nvidia / "libnccl.so.2"))
    no_driver, _ = told(site, tmp_path)
    assert no_driver.startswith(
        "MLX is installed for CUDA (mlx-cuda-13), but there is no NVIDIA driver (libcuda.so.1) on this machine;"
    )
    compile_library(drivers / "libcuda.so.1", DRIVER)
    (no_nccl, device) = told(site, tmp_path, drivers)
    assert "but a library is missing or does not fit (libnccl.so.2: cannot open shared object file" in no_nccl
    assert device == "cuda True", "and OpenBLAS is left alone"
    (nvidia / "libnccl.so.2").rename(drivers / "libnccl.so.2")
    assert told(site, tmp_path, drivers) == ["cuda True"]


@linux_only
def test_the_cpus_back_end_is_not_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(name: str) -> Any:
        raise AssertionError(name)

    monkeypatch.setattr(mlx_import, "backends", lambda: ("mlx-cpu",))
    monkeypatch.setattr(mlx_import.ctypes, "CDLL", fail)
    mlx_import.require_device()
    assert (mlx_import.device_kind(), mlx_import.device_name()) == ("cpu", "the CPU")
