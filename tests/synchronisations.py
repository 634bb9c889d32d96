"""Counts how often the host waits for the device, through MLX's own functions, numpy, or Python's conversions.

The host waits when it reads an array that is not computed yet: one that is still in the lazy graph, or that was queued and not
awaited since. Reading a computed array again is not counted.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from mlx.utils import tree_flatten

from engine.decode.decoding import decode
from engine.drafters.base import Drafter
from engine.types import DecodingOptions, Round

CONVERSIONS = ("item", "tolist", "__int__", "__float__", "__bool__")


@dataclass
class Count:
    """What happened so far.

    Attributes:
        waits: how often the host waited.
        queued: arrays that were handed to the device and not waited for since; held, so that no other array gets their identity.
    """

    waits: int = 0
    queued: list[mx.array] = field(default_factory=list)

    def look(self, arrays: Any) -> None:
        """The host looks at arrays, however nested."""
        wanted = _arrays_of(arrays)
        known = {id(array) for array in wanted}
        queued = any(array is each for array in wanted for each in self.queued)
        self.waits += queued or any(_is_lazy(array) for array in wanted)
        self.queued = [array for array in self.queued if id(array) not in known]

    def queue(self, arrays: Any) -> None:
        """Arrays are handed to the device."""
        self.queued += [array for array in _arrays_of(arrays) if _is_lazy(array)]


def _arrays_of(tree: Any) -> list[mx.array]:
    return [leaf for _, leaf in tree_flatten(tree) if isinstance(leaf, mx.array)]


def _is_lazy(array: mx.array) -> bool:
    """Whether operations lead to it that have not been handed to the device: they are the boxes of MLX's picture of its graph."""
    picture = io.StringIO()
    mx.export_to_dot(picture, array)
    return "rectangle" in picture.getvalue()


@contextmanager
def counted() -> Iterator[Count]:
    """Counts within this context, in every thread."""
    count = Count()

    def before(original: Callable[..., Any], note: Callable[[Any], None]) -> Callable[..., Any]:
        """`original`, with what it is given noted first."""

        def noting(*arguments: Any, **options: Any) -> Any:
            """As the original."""
            note(list(arguments))
            return original(*arguments, **options)

        return noting

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mx, "eval", before(mx.eval, count.look))
        patch.setattr(mx, "async_eval", before(mx.async_eval, count.queue))
        for name in CONVERSIONS:
            patch.setattr(mx.array, name, before(getattr(mx.array, name), count.look))
        for name in ("asarray", "array"):
            patch.setattr(np, name, before(getattr(np, name), lambda given: count.look(given[:1])))
        yield count


def rounds_and_waits(
    target: Any, prompt: Sequence[int], drafter: Drafter | None, options: DecodingOptions, **asked: Any
) -> list[tuple[Round, int]]:
    """The rounds of an answer, and how often the host waited in each; without the first, which pays for what only happens once,
    and the last, behind which caches are put in order."""
    found = []
    with counted() as count:
        for current in decode(target, prompt, drafter, options, **asked):
            found.append((current, count.waits))
            count.waits = 0
    return found[1:-1]
