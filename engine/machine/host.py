"""Decides where numpy replaces slow operations of MLX's CPU back-end: exponentials and draws over a vocabulary.

Importing this module also turns off two harmful defaults of MLX: compilation on the CPU, and an unlimited pool of freed memory on
a GPU.
"""

from __future__ import annotations

import mlx.core as mx
import numpy as np

from engine.machine.device import kind

FREED_BYTES = 2**30
"""Maximum bytes of freed arrays that MLX may reuse on a GPU; enough to pass buffers from one layer to the next."""


def computes_on_host() -> bool:
    """Returns whether MLX computes on the CPU, as its plain Linux build does. numpy then computes exponentials and draws over the
    vocabulary.

    On the CPU back-end MLX's exponential takes ten times as long (one value at a time), every operation is passed to another
    thread, and there is no device queue that an early evaluation would stall. On a GPU everything stays in the lazy graph.
    """
    return kind() == "cpu"


if computes_on_host():
    # With g++ installed, MLX would compile a library for each expression that mlx-lm marks for compilation. Each takes most of a
    # second during the first answer, again after every restart of the machine, and nothing becomes faster on the CPU.
    mx.disable_compile()
else:
    # By default MLX keeps freed arrays until the GPU's memory is nearly full. Grown keys and values do not fit into the buffers
    # that they left, so one long prompt would fill the memory several times over with unusable buffers.
    mx.set_cache_limit(FREED_BYTES)


def on_host(array: mx.array) -> np.ndarray | None:
    """Returns the evaluated array as numpy's if numpy continues with it, else None."""
    if not computes_on_host():
        return None
    try:
        mx.eval(array)
    except ValueError:  # inside mx.vmap and mx.compile an array has no value yet
        return None
    return np.asarray(array)
