"""Decoding: models, drafters, acceptance rules, noise, traces and the thread that owns them.

This package has everything that computes, and nothing that paints; none of its modules imports Qt or `app`. Values, mathematics,
traces, metrics and exports do not import MLX either; a contract in `pyproject.toml` lists them. A new acceptance rule is a
function in `engine.acceptance`; the `__init__` of each subpackage says how to extend it.

Importing any module of this package first chooses MLX's BLAS (`engine.machine.blas`; it takes about 17 ms and does not import
MLX), so modules can be imported in any order.
"""

from engine.machine.blas import prefer_fast_blas

prefer_fast_blas()
