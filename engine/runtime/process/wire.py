"""Encodes commands and events as bytes: pickled, because that is exact and fast, and decoded with an allow-list.

Plain pickles can run any code. Here the reader creates only paths and the frozen values of `engine.types`, by their
constructors, which check their arguments. JSON (`engine.rounds.codec`) would be as safe, but it covers only rounds, writes
non-finite numbers as null, and takes longer.
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
    defined_here = (kind for kind in vars(module).values() if isinstance(kind, type) and kind.__module__ == module.__name__)
    return {(kind.__module__, kind.__qualname__): kind for kind in defined_here if dataclasses.is_dataclass(kind)}


_PATH = type(Path())
_VALUES = {name: kind for module in _MODULES for name, kind in _values_of(module).items()}
_KNOWN = {**_VALUES, (_PATH.__module__, _PATH.__qualname__): _PATH}


def _fields_of(kind: type) -> Callable[[Any], tuple[Any, ...]]:
    """Returns a function that reads all fields of a value at once."""
    names = [field.name for field in dataclasses.fields(kind)]
    if len(names) > 1:
        return attrgetter(*names)
    return lambda value: tuple(getattr(value, name) for name in names)


_FIELDS = {kind: _fields_of(kind) for kind in _VALUES.values()}


class _Packer(pickle.Pickler):
    def reducer_override(self, value: Any) -> Any:
        """Reduces a value to class and fields, in a fifth of the time of the default for dataclasses with slots."""
        fields = _FIELDS.get(type(value))
        return NotImplemented if fields is None else (type(value), fields(value))


class _Unpacker(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        """Returns a class of the allow-list; refuses any other."""
        try:
            return _KNOWN[module, name]
        except KeyError:
            raise pickle.UnpicklingError(f"{module}.{name} is no value of an engine") from None


def packed(value: Any) -> bytes:
    """Returns plain values as bytes: numbers, texts, tuples, lists, dictionaries, paths, and dataclasses of `engine.types`."""
    buffer = io.BytesIO()
    _Packer(buffer, 5).dump(value)
    return buffer.getvalue()


def unpacked(content: bytes) -> Any:
    """Returns the value that `packed` encoded. Raises UnpicklingError if the bytes name anything but values."""
    return _Unpacker(io.BytesIO(content)).load()
