"""What the CPU does without MLX: nothing is compiled there."""

from __future__ import annotations

import mlx.core as mx
import pytest

from engine.host import computes_on_host


@pytest.mark.skipif(not computes_on_host(), reason="a GPU compiles")
def test_on_the_cpu_mlx_compiles_nothing() -> None:
    calls: list[mx.array] = []

    def noted(x: mx.array) -> mx.array:
        calls.append(x)
        return x + 1

    compiled = mx.compile(noted)
    assert [compiled(mx.array(value)).item() for value in (1, 2)] == [2, 3]
    assert len(calls) == 2, "what is compiled is looked at once"
