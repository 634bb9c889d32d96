"""Decoding: models, drafters, acceptance rules, noise, traces and the thread that owns them.

Lives here: everything that computes. Does not live here: anything that paints. No module of this package imports Qt or
`app`; `types`, `theory`, `trace`, `metrics` and `export` do not import MLX either.

Importing any module of this package chooses MLX's BLAS first (`engine.blas`; it takes some 17 ms and does not import MLX), so no
module has to mind the order of its imports.
"""

from engine.blas import prefer_fast_blas

prefer_fast_blas()
