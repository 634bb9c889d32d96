"""Checks an application for macOS before it is signed: python packaging/macos/check_bundle.py Draftlight.app

It only reads files, so it runs on any machine. It finds faults that are known from other applications: kernels in another folder
than MLX's library, data next to the program, libraries for a newer system or another processor, different libraries with the same
name, and files that Python would write into the bundle.
"""

from __future__ import annotations

import plistlib
import struct
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.parsers.expat import ExpatError

OLDEST_SYSTEM = (15, 0)
OWN_FILES = {"jsonl", "jsonl.gz", "gguf"}
"""Extensions of files that Draftlight opens on a double-click: traces and models."""
FOREIGN_FILES = {"public.json", "public.zip-archive", "org.gnu.gnu-zip-archive", "public.folder"}
"""Types of macOS itself that Draftlight can open but other programs own: chats, compressed traces, model folders."""
ARM64, X86_64 = 0x0100000C, 0x01000007
_THIN, _FAT = 0xFEEDFACF, 0xCAFEBABE
_BUILD_VERSION, _VERSION_MIN = 0x32, 0x24


@dataclass(frozen=True)
class Code:
    """The headers of a Mach-O file: for each processor, the oldest system that it supports, as (major, minor), or None."""

    systems: dict[int, tuple[int, int] | None]


def read_code(data: bytes) -> Code | None:
    """Reads the headers of a Mach-O file (loader.h and fat.h of the macOS SDK); returns None for any other file."""
    if len(data) < 32:
        return None
    if struct.unpack_from(">I", data)[0] == _FAT:
        count = struct.unpack_from(">I", data, 4)[0]
        if count > 16:  # a Java class file has the same magic bytes
            return None
        parts = [struct.unpack_from(">5I", data, 8 + 20 * index) for index in range(count)]
        return Code({processor: _oldest_system(data[offset : offset + size]) for processor, _, offset, size, _ in parts})
    if struct.unpack_from("<I", data)[0] != _THIN:
        return None
    return Code({struct.unpack_from("<I", data, 4)[0]: _oldest_system(data)})


def _oldest_system(data: bytes) -> tuple[int, int] | None:
    commands, offset = struct.unpack_from("<I", data, 16)[0], 32
    for _ in range(commands):
        kind, size = struct.unpack_from("<II", data, offset)
        if kind in (_BUILD_VERSION, _VERSION_MIN):
            version = struct.unpack_from("<I", data, offset + (12 if kind == _BUILD_VERSION else 8))[0]
            return version >> 16, version >> 8 & 0xFF
        offset += size
    return None


def problems(app: Path) -> Iterator[str]:
    """Yields the faults of an application, most important first."""
    yield from _check_plist(app)
    packages = app / "Contents" / "Resources" / "app_packages"
    kernels = packages / "mlx" / "lib" / "mlx.metallib"
    if not kernels.is_file() or not (kernels.parent / "libmlx.dylib").is_file():
        yield f"MLX finds its kernels beside its library only; {kernels.name} and libmlx.dylib are not both in {kernels.parent}"
    models = list((packages / "assets" / "models").glob("*.gguf"))
    if len(models) != 1:
        yield f"{len(models)} built-in models instead of one"
    programs = [path.name for path in (app / "Contents" / "MacOS").glob("*")]
    if programs != [app.stem]:
        listed = ", ".join(programs) or "nothing"
        yield f"Contents/MacOS has {listed}; everything there is taken for code, so only the program may be there"
    files = [path for path in sorted(app.rglob("*")) if path.is_file()]
    codes = {path: code for path in files if not path.is_symlink() and (code := read_code(path.read_bytes()))}
    yield from _check_code(app, codes)
    yield from _check_links(app, files)
    compiled = {path.parent.parent for path in packages.rglob("*.pyc")}
    if packages / "app" not in compiled or packages / "engine" not in compiled:
        yield "the packages are not compiled, and Python must not write into a signed application"


def _check_plist(app: Path) -> Iterator[str]:
    try:
        plist = plistlib.loads((app / "Contents" / "Info.plist").read_bytes())
    except (OSError, plistlib.InvalidFileException, ExpatError) as error:
        yield f"Info.plist cannot be read: {error}"
        return
    if not (app / "Contents" / "MacOS" / str(plist.get("CFBundleExecutable"))).is_file():
        yield "Info.plist names a program that is not there"
    icon = app / "Contents" / "Resources" / str(plist.get("CFBundleIconFile"))
    if not icon.is_file() or icon.read_bytes()[:4] != b"icns":
        yield "there is no icon"
    if str(plist.get("CFBundleShortVersionString", "0")) == "0":
        yield "there is no version"
    if not plist.get("NSLocalNetworkUsageDescription"):
        missing = "without which macOS may not let it reach the other machines of a split target"
        yield f"there is no NSLocalNetworkUsageDescription, {missing}"
    yield from _check_document_types(plist)
    oldest = ".".join(map(str, OLDEST_SYSTEM))
    if plist.get("LSMinimumSystemVersion") != oldest:
        yield f"LSMinimumSystemVersion is {plist.get('LSMinimumSystemVersion')} instead of {oldest}"


def _check_document_types(plist: dict[str, Any]) -> Iterator[str]:
    """Checks the lists of file types, without which Finder, `open -a` and the Dock pass no file to the application."""
    declared = {
        each["UTTypeIdentifier"]: set(each["UTTypeTagSpecification"]["public.filename-extension"])
        for each in plist.get("UTImportedTypeDeclarations", [])
    }
    ranks = {
        kind: each.get("LSHandlerRank")
        for each in plist.get("CFBundleDocumentTypes", [])
        for kind in each.get("LSItemContentTypes", [])
    }
    opened = {ending for kind, endings in declared.items() if kind in ranks for ending in endings}
    if missing := OWN_FILES - opened:
        yield f"a double-click opens no {', '.join(f'.{ending}' for ending in sorted(missing))}"
    if missing := FOREIGN_FILES - set(ranks):
        yield f"nothing of {', '.join(sorted(missing))} can be dropped on the Dock's icon"
    for kind in ranks:
        if kind not in declared and kind not in FOREIGN_FILES:
            yield f"{kind} is no type of macOS's own and not declared"
        elif kind in FOREIGN_FILES and ranks[kind] != "Alternate":
            yield f"{kind} would be opened by Draftlight instead of by the program that it belongs to"


def _check_code(app: Path, codes: dict[Path, Code]) -> Iterator[str]:
    by_name: dict[str, list[Path]] = defaultdict(list)
    for path, code in codes.items():
        name = path.relative_to(app).as_posix()
        if path.suffix == ".dylib":
            by_name[path.name].append(path)
        if ARM64 not in code.systems:
            yield f"{name} is not for Apple silicon"
        elif (oldest := code.systems[ARM64]) is not None and oldest > OLDEST_SYSTEM:
            yield f"{name} needs macOS {'.'.join(map(str, oldest))}"
        if X86_64 in code.systems:
            yield f"{name} has code for Intel processors, too"
    for same in by_name.values():
        if len({path.read_bytes() for path in same}) > 1:
            yield f"different libraries of one name: {', '.join(path.relative_to(app).as_posix() for path in same)}"


def _check_links(app: Path, files: list[Path]) -> Iterator[str]:
    root = app.resolve()
    for path in (path for path in files if path.is_symlink()):
        if root not in path.resolve().parents:
            yield f"{path.relative_to(app)} leads out of the application"


def main() -> int:
    """Prints the faults, or the size of the application; returns 1 if there is a fault."""
    app = Path(sys.argv[1])
    found = list(problems(app))
    for problem in found:
        print(f"{app.name}: {problem}", file=sys.stderr)
    if not found:
        size = sum(path.stat().st_size for path in app.rglob("*") if path.is_file() and not path.is_symlink())
        print(f"{app.name}: {size / 1e6:,.0f} MB, nothing wrong")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
