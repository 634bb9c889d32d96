"""The exceptions that reading a damaged archive raises. No MLX."""

from __future__ import annotations

import lzma
import zipfile
import zlib

UNREADABLE = (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, zlib.error, lzma.LZMAError)
"""Exceptions that `zipfile` raises for damaged archives and for unknown compression methods."""
