"""NumPy's files (``.npz``, ``.npy``), which may be cut, empty, damaged or another program's. No MLX."""

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
"""What NumPy raises for such files: where there is no file or no such array, of their archives, and of their headers, which it
reads as Python and which may ask for any amount of memory."""

WHOLE, FLOATS = "ui", "f"
"""Kinds of numbers, by the letters of `numpy.dtype.kind`."""


def arrays_of(path: Path, names: Iterable[str]) -> list[np.ndarray]:
    """The named arrays of an ``.npz`` file. Raises one of `UNREADABLE`."""
    with open_file(path) as file:
        if not zipfile.is_zipfile(file):
            raise ValueError("it is no archive of arrays")
        file.seek(0)
        with np.load(file) as arrays:
            return [np.asarray(arrays[name]) for name in names]  # bytes, where it is no array


def vectors(path: Path, kinds: Mapping[str, str]) -> list[np.ndarray]:
    """As `arrays_of`, each of one dimension and of one of its kinds of numbers."""
    found = arrays_of(path, kinds)
    for (name, kind), array in zip(kinds.items(), found, strict=True):
        if array.ndim != 1 or array.dtype.kind not in kind:
            raise ValueError(f"{name} is not a row of {'whole numbers' if kind == WHOLE else 'numbers'}")
    return found
