"""Where numpy does what MLX's CPU back-end does slowly: exponentials over a vocabulary, and the many small steps of a draw.

Importing it keeps MLX from compiling where that gains nothing.
"""

from __future__ import annotations

import mlx.core as mx
import numpy as np


def computes_on_host() -> bool:
    """Whether exponentials and draws over the vocabulary are left to numpy.

    On the CPU back-end MLX's exponential takes ten times as long (one value at a time), every operation is handed to another
    thread, and there is no device whose queue an early evaluation would stall. On a GPU everything stays in the lazy graph.
    """
    return bool(mx.default_device() == mx.Device(mx.cpu))


if computes_on_host():
    # MLX would have g++, where there is one, make a library of each expression that mlx-lm marks for compilation. Each takes most
    # of a second of the first answer, again after every restart of the machine, and nothing is faster for it on the CPU.
    mx.disable_compile()


def on_host(array: mx.array) -> np.ndarray | None:
    """The evaluated array where numpy is to go on with it, else None."""
    if not computes_on_host():
        return None
    try:
        mx.eval(array)
    except ValueError:  # inside mx.vmap and mx.compile there is no value yet
        return None
    return np.asarray(array)
