"""Public import path of the choice of MLX's BLAS, which is in `engine.machine.blas`."""

from engine.machine.blas import prefer_fast_blas

__all__ = ["prefer_fast_blas"]
