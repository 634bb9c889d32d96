"""Where numpy does what MLX's CPU back-end does slowly: exponentials and draws over a vocabulary.

Importing it keeps MLX from what does harm here: from compiling on the CPU, from piling up freed memory on a GPU.
"""

from __future__ import annotations

import mlx.core as mx
import numpy as np

from engine.machine.device import kind

FREED_BYTES = 2**30
"""Memory of freed arrays that MLX may keep for new ones on a GPU; enough for what one layer leaves to the next."""


def computes_on_host() -> bool:
    """Whether MLX computes on the CPU, as its plain Linux build does. Exponentials and draws over the vocabulary are then left to
    numpy.

    On the CPU back-end MLX's exponential takes ten times as long (one value at a time), every operation is handed to another
    thread, and there is no device whose queue an early evaluation would stall. On a GPU everything stays in the lazy graph.
    """
    return kind() == "cpu"


if computes_on_host():
    # MLX would have g++, where there is one, make a library of each expression that mlx-lm marks for compilation. Each takes most
    # of a second of the first answer, again after every restart of the machine, and nothing is faster for it on the CPU.
    mx.disable_compile()
else:
    # By itself MLX keeps them until the GPU's memory is nearly full. Keys and values that have grown are too large for what they
    # left, so one long prompt would fill the memory several times over with what nobody can use.
    mx.set_cache_limit(FREED_BYTES)


def on_host(array: mx.array) -> np.ndarray | None:
    """The evaluated array where numpy is to go on with it, else None."""
    if not computes_on_host():
        return None
    try:
        mx.eval(array)
    except ValueError:  # inside mx.vmap and mx.compile there is no value yet
        return None
    return np.asarray(array)
