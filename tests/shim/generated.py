"""Records the Metal source that MLX generates around the kernel's bodies, on a machine without Metal.

MLX can record a kernel call in a graph that is only exported, and prints the source it would have compiled. So the signature
under test is MLX's own: address spaces, shapes and thread indices included.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest

from engine.noise import kernel as noise_kernel


@dataclass(frozen=True)
class Call:
    """One kernel call: its generated source and how it would be launched."""

    source: str
    inputs: list[str]
    outputs: list[str]
    shapes: dict[str, tuple[int, ...]] = field(hash=False)
    grid: tuple[int, int, int]
    threadgroup: tuple[int, int, int]


@contextmanager
def _standard_output_in(file: Path) -> Iterator[None]:
    """Catches what C++ prints, which Python's redirections do not see."""
    saved = os.dup(1)
    descriptor = os.open(file, os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
    os.dup2(descriptor, 1)
    try:
        yield
    finally:
        os.dup2(saved, 1)
        os.close(saved)
        os.close(descriptor)


def _recording(original: Any, inputs: list[str], outputs: list[str], calls: list[Call], scratch: Path) -> Callable[..., Any]:
    def call(**arguments: Any) -> Any:
        printed = scratch / "source.txt"
        with _standard_output_in(printed):
            results = original(**arguments, verbose=True)
        source = printed.read_text().split("```")[1]
        arrays = [*arguments["inputs"], *results]
        shapes = {name: tuple(array.shape) for name, array in zip([*inputs, *outputs], arrays, strict=True)}
        calls.append(Call(source, inputs, outputs, shapes, arguments["grid"], arguments["threadgroup"]))
        return results

    return call


def generated_calls(rows: int, vocab_size: int, dtype: Any, splits: int | None = None) -> list[Call]:
    """The two calls of `engine.noise.kernel.gumbel_argmax` on logits of this shape and type."""
    split_kernel, row_kernel = noise_kernel._kernels()
    kernels = [
        (split_kernel, noise_kernel.SPLIT_INPUTS, noise_kernel.SPLIT_OUTPUTS),
        (row_kernel, noise_kernel.ROW_INPUTS, noise_kernel.ROW_OUTPUTS),
    ]

    def draw(logits: mx.array, positions: mx.array, stream: mx.array) -> list[mx.array]:
        return list(noise_kernel.gumbel_argmax(logits, 1.0, positions, stream, splits))

    arguments = [mx.zeros((rows, vocab_size), dtype), mx.zeros((rows,), mx.uint32), mx.zeros((5,), mx.uint32)]
    return _recorded(kernels, lambda recorded: (noise_kernel, "_kernels", lambda: recorded), draw, arguments)


def _recorded(
    kernels: list[tuple[Any, list[str], list[str]]],
    place: Callable[[tuple[Any, ...]], tuple[Any, str, Any]],
    work: Callable[..., list[mx.array]],
    arguments: list[mx.array],
) -> list[Call]:
    """The calls that `work` makes of kernels, each with its names of inputs and outputs; `place` puts in those that record."""
    calls: list[Call] = []
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        scratch = Path(folder)
        patch.setattr(*place(tuple(_recording(kernel, *names, calls, scratch) for kernel, *names in kernels)))
        mx.export_function(str(scratch / "work.mlxfn"), work, *arguments)
    return calls
