"""Removes the code for Intel processors from an application for macOS: python packaging/macos/thin.py Draftlight.app

Like `lipo -thin arm64` for each universal file. An application for Apple silicon never runs the rest. Run it before the
application is signed.
"""

from __future__ import annotations

import struct
import sys
from pathlib import Path

ARM64 = 0x0100000C
UNIVERSAL = 0xCAFEBABE
_MAX_PARTS = 16
"""Maximum number of parts of a universal file. A Java class file has the same magic bytes, then a version above this number."""


def thin(path: Path) -> int:
    """Replaces a universal file by its part for Apple silicon.

    Returns:
        The number of bytes saved: 0 for any other file, and for one without such a part.
    """
    with path.open("rb") as file:
        header = file.read(8 + 20 * _MAX_PARTS)
        if len(header) < 28 or struct.unpack_from(">I", header)[0] != UNIVERSAL:
            return 0
        count = struct.unpack_from(">I", header, 4)[0]
        parts = [struct.unpack_from(">5I", header, 8 + 20 * index) for index in range(count)] if count <= _MAX_PARTS else []
        offsets = {processor: (offset, size) for processor, _, offset, size, _ in parts}
        if ARM64 not in offsets:
            return 0
        offset, size = offsets[ARM64]
        file.seek(offset)
        part = file.read(size)
    saved = path.stat().st_size - size
    mode = path.stat().st_mode
    path.unlink()  # it may be a hard link
    path.write_bytes(part)
    path.chmod(mode)
    return saved


def main() -> int:
    """Thins all files of the application and prints the bytes saved."""
    app = Path(sys.argv[1])
    saved = sum(thin(path) for path in sorted(app.rglob("*")) if path.is_file() and not path.is_symlink())
    print(f"{app.name}: {saved / 1e6:,.0f} MB of code for Intel processors removed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
