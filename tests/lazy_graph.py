"""Decodes as on a GPU: everything of a round stays in one lazy graph, and numpy does nothing.

On the CPU MLX sums a softmax up one value after another in float32: of a hundred thousand equally unlikely tokens it has three
digits. So figures of long flat rows do not show here what a GPU would say.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from unittest.mock import patch

from engine.decode import loop
from engine.drafters import sampler
from engine.machine import host
from engine.target import distribution


@contextmanager
def as_on_a_gpu() -> Iterator[None]:
    """Within this context, on whatever device MLX computes."""
    with ExitStack() as stack:
        for module in (host, distribution, sampler, loop):
            stack.enter_context(patch.object(module, "computes_on_host", lambda: False))
        yield
