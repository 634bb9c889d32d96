"""OpenBLAS is found, its absence is harmless, and it computes what numpy computes. Each claim needs a separate process."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from engine.machine.blas import prefer_fast_blas, runs_here

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="other platforms have a fast BLAS already")


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    return done.stdout.strip()


OWNER_OF_THE_MATRIX_PRODUCT = """
import ctypes
class Info(ctypes.Structure):
    _fields_ = [("path", ctypes.c_char_p), ("base", ctypes.c_void_p), ("name", ctypes.c_char_p), ("address", ctypes.c_void_p)]
everything = ctypes.CDLL(None)
info = Info()
assert everything.dladdr(ctypes.cast(everything.cblas_sgemm, ctypes.c_void_p), ctypes.byref(info))
print(info.path.decode())
"""


@linux_only
def test_openblas_takes_the_place_of_the_bundled_blas() -> None:
    owner, loaded = run(
        """
from engine.machine.blas import prefer_fast_blas
first = prefer_fast_blas()
assert prefer_fast_blas() is first
import mlx.core as mx
"""
        + OWNER_OF_THE_MATRIX_PRODUCT
        + """
import numpy as np
a = np.random.default_rng(0).standard_normal((70, 300)).astype(np.float32)
b = np.random.default_rng(1).standard_normal((300, 50)).astype(np.float32)
np.testing.assert_allclose(np.array(mx.array(a) @ mx.array(b)), a @ b, atol=1e-4)
print(first)
"""
    ).split()
    assert loaded == owner
    assert "openblas" in loaded


@linux_only
@pytest.mark.parametrize(
    "module", ["engine.types", *(pytest.param(name, marks=pytest.mark.full) for name in ("engine.acceptance", "engine.drafters"))]
)
def test_every_import_of_the_engine_loads_openblas_before_mlx(module: str) -> None:
    assert "openblas" in run(f"import {module}; import mlx.core" + OWNER_OF_THE_MATRIX_PRODUCT)


@linux_only
def test_mlx_alone_brings_no_matrix_product_for_all() -> None:
    """Mutant: without the engine, no matrix product in the global scope could replace MLX's own."""
    assert run("import ctypes, mlx.core; print(hasattr(ctypes.CDLL(None), 'cblas_sgemm'))") == "False"


AVX2 = frozenset({"sse2", "avx", "avx2", "fma"})
AVX512 = AVX2 | {"avx512f", "avx512cd", "avx512bw", "avx512dq", "avx512vl"}


@pytest.mark.parametrize(
    ("core", "config", "features", "runs"),
    [
        ("SKYLAKEX", "OpenBLAS 0.3.31 NO_AFFINITY SKYLAKEX MAX_THREADS=4", AVX2, False),
        ("SKYLAKEX", "OpenBLAS 0.3.31 NO_AFFINITY SKYLAKEX MAX_THREADS=4", AVX512, True),
        ("ZEN", "OpenBLAS 0.3.29 NO_AFFINITY ZEN MAX_THREADS=4", AVX2, True),
        ("ZEN", "OpenBLAS 0.3.29 NO_AFFINITY ZEN MAX_THREADS=4", frozenset({"sse2", "avx"}), False),
        ("SKYLAKEX", "OpenBLAS 0.3.21 DYNAMIC_ARCH NO_AFFINITY SkylakeX MAX_THREADS=64", AVX2, True),
        ("NEOVERSEN2", "OpenBLAS 0.3.29 NO_AFFINITY NEOVERSEN2", frozenset({"fp", "asimd", "asimddp"}), False),
        ("unheard of", "OpenBLAS 9.9", AVX512, False),
    ],
)
def test_a_library_built_for_another_processor_is_passed_over(
    core: str, config: str, features: frozenset[str], runs: bool
) -> None:
    assert runs_here(core, config, features) is runs


@linux_only
def test_a_processor_without_the_features_gets_another_library() -> None:
    """The packaged library is refused if /proc/cpuinfo cannot be read; MLX still computes."""
    found, product = run(
        """
import pathlib
def unreadable(*arguments, **options):
    raise OSError
pathlib.Path.read_text = unreadable
from engine.machine.blas import prefer_fast_blas
print(prefer_fast_blas())
import mlx.core as mx
print((mx.ones((2, 3)) @ mx.ones((3, 2))).tolist())
"""
    ).splitlines()
    assert found in ("None", "libopenblas.so.0")
    assert product == "[[3.0, 3.0], [3.0, 3.0]]"


@linux_only
def test_one_core_is_left_to_the_window_unless_the_user_says_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    code = """
import ctypes
from engine.machine.blas import prefer_fast_blas
print(ctypes.CDLL(prefer_fast_blas()).openblas_get_num_threads())
"""
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
    assert run(code) == str(max(1, len(os.sched_getaffinity(0)) - 1))
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "2")
    assert run(code) == str(min(2, len(os.sched_getaffinity(0))))


def test_without_openblas_mlx_runs_as_it_comes() -> None:
    assert (
        run(
            """
import ctypes
def missing(name, mode=0):
    raise OSError(name)
ctypes.CDLL = missing
from engine.machine.blas import prefer_fast_blas
assert prefer_fast_blas() is None
import mlx.core as mx
print((mx.ones((2, 3)) @ mx.ones((3, 2))).tolist())
"""
        )
        == "[[3.0, 3.0], [3.0, 3.0]]"
    )


def test_loading_openblas_after_mlx_does_nothing() -> None:
    assert run("import mlx.core; from engine.machine.blas import prefer_fast_blas; print(prefer_fast_blas())") == "None"


def test_macos_keeps_accelerate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert prefer_fast_blas.__wrapped__() is None
