"""Decoding: models, drafters, acceptance rules, noise, traces and the thread that owns them.

Lives here: everything that computes. Does not live here: anything that paints; no module of this package imports Qt or `app`.
Values, mathematics, traces, metrics and exports do not import MLX either; a contract in `pyproject.toml` lists them. A further
rule is a function in `engine.acceptance`; the folders say in their `__init__` how each is added to.

Importing any module of this package chooses MLX's BLAS first (`engine.machine.blas`; it takes some 17 ms and does not import
MLX), so no module has to mind the order of its imports.
"""

from engine.machine.blas import prefer_fast_blas

prefer_fast_blas()
