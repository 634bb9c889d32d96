"""Archives that may be damaged: what reading one raises. No MLX."""

from __future__ import annotations

import lzma
import zipfile
import zlib

UNREADABLE = (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, zlib.error, lzma.LZMAError)
"""What `zipfile` raises for damaged archives and for ways to compress that it does not know."""
