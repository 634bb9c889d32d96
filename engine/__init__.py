"""Decoding: models, drafters, acceptance rules, noise, traces and the thread that owns them.

Lives here: everything that computes. Does not live here: anything that paints. No module of this package imports Qt or
`app`; `types`, `theory`, `trace`, `metrics` and `export` do not import MLX either.
"""
