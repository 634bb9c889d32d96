"""Commands and events as bytes and back: pickled, because that is exact and fast, and read by an allow-list.

Plain pickles run whatever code whoever wrote them wants. Here the reader makes the frozen values of `engine.types` and paths, and
nothing else, by their constructors, which check what they are given. JSON (`engine.rounds.codec`) would be as safe, but it knows
rounds only, writes what is not finite as null, and takes between two and three times as long (`make bench-process ARGS="--parts
wire"`).
"""

from __future__ import annotations

import dataclasses
import io
import pickle
from collections.abc import Callable
from operator import attrgetter
from pathlib import Path
from types import ModuleType
from typing import Any

from engine.values import answers as values
from engine.values import events
from engine.values.requests import bench, commands, compare, prove, train

_MODULES: tuple[ModuleType, ...] = (values, events, commands, bench, compare, prove, train)


def _values_of(module: ModuleType) -> dict[tuple[str, str], type]:
    made_here = (kind for kind in vars(module).values() if isinstance(kind, type) and kind.__module__ == module.__name__)
    return {(kind.__module__, kind.__qualname__): kind for kind in made_here if dataclasses.is_dataclass(kind)}


_PATH = type(Path())
_VALUES = {name: kind for module in _MODULES for name, kind in _values_of(module).items()}
_KNOWN = {**_VALUES, (_PATH.__module__, _PATH.__qualname__): _PATH}


def _fields_of(kind: type) -> Callable[[Any], tuple[Any, ...]]:
    """What reads all fields of a value at once."""
    names = [field.name for field in dataclasses.fields(kind)]
    if len(names) > 1:
        return attrgetter(*names)
    return lambda value: tuple(getattr(value, name) for name in names)


_FIELDS = {kind: _fields_of(kind) for kind in _VALUES.values()}


class _Packer(pickle.Pickler):
    def reducer_override(self, value: Any) -> Any:
        """A value as its class and fields: a fifth of the time of what dataclasses with slots do by themselves."""
        fields = _FIELDS.get(type(value))
        return NotImplemented if fields is None else (type(value), fields(value))


class _Unpacker(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        """A class of the allow-list; anything else is refused."""
        try:
            return _KNOWN[module, name]
        except KeyError:
            raise pickle.UnpicklingError(f"{module}.{name} is no value of an engine") from None


def packed(value: Any) -> bytes:
    """The bytes of plain values: numbers, texts, tuples, lists, dictionaries, paths, and the dataclasses of `engine.types`."""
    buffer = io.BytesIO()
    _Packer(buffer, 5).dump(value)
    return buffer.getvalue()


def unpacked(content: bytes) -> Any:
    """The value that `packed` wrote. Raises UnpicklingError where it names anything but values."""
    return _Unpacker(io.BytesIO(content)).load()
