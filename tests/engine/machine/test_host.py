"""Limits set for MLX: no compilation on the CPU, no accumulation of freed memory on a GPU."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import mlx.core as mx
import pytest

from engine.machine.host import FREED_BYTES, computes_on_host

ROOT = Path(__file__).parents[3]


@pytest.mark.skipif(not computes_on_host(), reason="a GPU compiles")
def test_on_the_cpu_mlx_compiles_nothing() -> None:
    calls: list[mx.array] = []

    def noted(x: mx.array) -> mx.array:
        calls.append(x)
        return x + 1

    compiled = mx.compile(noted)
    assert [compiled(mx.array(value)).item() for value in (1, 2)] == [2, 3]
    assert len(calls) == 2, "what is compiled is looked at once"


@pytest.mark.parametrize(("device", "is_limited"), [("gpu", True), ("cpu", False)])
def test_on_a_gpu_mlx_keeps_little_of_what_was_freed(device: str, is_limited: bool) -> None:
    program = f"import mlx.core as mx; mx.default_device = lambda: mx.Device(mx.{device}); import engine.machine.host"
    program += "; print(mx.set_cache_limit(0))"
    asked = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert (int(asked.stdout) == FREED_BYTES) == is_limited
