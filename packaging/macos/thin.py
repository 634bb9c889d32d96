"""Removes the code for Intel processors from an application for macOS: python packaging/macos/thin.py Draftlight.app

Does what `lipo -thin arm64` does to each universal file. An application for Apple silicon never runs the rest. Call it before the
application is signed.
"""

from __future__ import annotations

import struct
import sys
from pathlib import Path

ARM64 = 0x0100000C
UNIVERSAL = 0xCAFEBABE
_MOST_PARTS = 16
"""A class file of Java begins like a universal file, and then names a version that is larger than that."""


def thin(path: Path) -> int:
    """Replaces a universal file by its part for Apple silicon.

    Returns:
        The number of bytes saved: 0 for any other file, and for one without such a part.
    """
    with path.open("rb") as file:
        header = file.read(8 + 20 * _MOST_PARTS)
        if len(header) < 28 or struct.unpack_from(">I", header)[0] != UNIVERSAL:
            return 0
        count = struct.unpack_from(">I", header, 4)[0]
        parts = [struct.unpack_from(">5I", header, 8 + 20 * index) for index in range(count)] if count <= _MOST_PARTS else []
        places = {processor: (offset, size) for processor, _, offset, size, _ in parts}
        if ARM64 not in places:
            return 0
        offset, size = places[ARM64]
        file.seek(offset)
        part = file.read(size)
    saved = path.stat().st_size - size
    mode = path.stat().st_mode
    path.unlink()  # it may share its content with a file elsewhere
    path.write_bytes(part)
    path.chmod(mode)
    return saved


def main() -> int:
    """Prints what was saved."""
    app = Path(sys.argv[1])
    saved = sum(thin(path) for path in sorted(app.rglob("*")) if path.is_file() and not path.is_symlink())
    print(f"{app.name}: {saved / 1e6:,.0f} MB of code for Intel processors removed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
