"""Reads NumPy files (``.npz``, ``.npy``) that may be cut off, empty, damaged or from another program. No MLX."""

from __future__ import annotations

import tokenize
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np

from engine.files import archives
from engine.files.foreign import open_file

_OF_HEADERS = (SyntaxError, tokenize.TokenError, TypeError, OverflowError, MemoryError)
UNREADABLE = (OSError, ValueError, KeyError, *archives.UNREADABLE, *_OF_HEADERS)
"""Exceptions that NumPy raises for such files: for a missing file or array, for damaged archives, and for damaged headers,
which it parses as Python and which may request any amount of memory."""

WHOLE, FLOATS = "ui", "f"
"""Kinds of numbers: integers and floats, by the letters of `numpy.dtype.kind`."""


def arrays_of(path: Path, names: Iterable[str]) -> list[np.ndarray]:
    """Returns the named arrays of an ``.npz`` file. Raises one of `UNREADABLE`."""
    with open_file(path) as file:
        if not zipfile.is_zipfile(file):
            raise ValueError("it is no archive of arrays")
        file.seek(0)
        with np.load(file) as arrays:
            return [np.asarray(arrays[name]) for name in names]  # bytes if the member is not an array


def vectors(path: Path, kinds: Mapping[str, str]) -> list[np.ndarray]:
    """Returns the arrays like `arrays_of`. Raises ValueError unless each has one dimension and its kind of numbers."""
    arrays = arrays_of(path, kinds)
    for (name, kind), array in zip(kinds.items(), arrays, strict=True):
        if array.ndim != 1 or array.dtype.kind not in kind:
            raise ValueError(f"{name} is not a row of {'whole numbers' if kind == WHOLE else 'numbers'}")
    return arrays
