"""The tests. `engine` comes first: it chooses MLX's BLAS, which is too late once a test or a benchmark has imported MLX."""

import engine  # noqa: F401
