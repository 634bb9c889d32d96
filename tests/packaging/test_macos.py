"""What of the application for macOS can be checked without a Mac: its description, its files, and the order of its building."""

from __future__ import annotations

import os
import plistlib
import shutil
import struct
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtGui import QImage

from engine.runtime.process.launch import own_python
from tests.packaging import REPOSITORY, script

check_bundle = script("macos/check_bundle.py")
make_icon = script("macos/make_icon.py")
thin = script("macos/thin.py")
ARM64, X86_64 = 0x0100000C, 0x01000007


def code(processor: int = ARM64, system: tuple[int, int] = (15, 0), tail: bytes = b"") -> bytes:
    """A Mach-O library of one processor with the command that names the oldest system, as the SDK's loader.h describes it."""
    command = struct.pack("<IIIIII", 0x32, 24, 1, system[0] << 16 | system[1] << 8, 0, 0)
    return struct.pack("<8I", 0xFEEDFACF, processor, 0, 6, 1, len(command), 0, 0) + command + tail


def universal(*parts: bytes) -> bytes:
    """Several such libraries in one file."""
    at, header = 64, struct.pack(">II", 0xCAFEBABE, len(parts))
    for part in parts:
        header += struct.pack(">5I", struct.unpack_from("<I", part, 4)[0], 0, at, len(part), 0)
        at += len(part)
    return header.ljust(64, b"\0") + b"".join(parts)


def described() -> dict[str, Any]:
    """What packaging/macos/pyproject.toml says of the application for macOS."""
    whole = tomllib.loads((REPOSITORY / "packaging/macos/pyproject.toml").read_text(encoding="utf-8"))
    application: dict[str, Any] = whole["tool"]["briefcase"]["app"]["draftlight"]
    return application


@pytest.fixture
def app(tmp_path: Path) -> Path:
    """An application with nothing wrong, as small as can be."""
    contents = tmp_path / "Draftlight.app" / "Contents"
    packages = contents / "Resources" / "app_packages"
    plist = {
        "CFBundleExecutable": "Draftlight",
        "CFBundleIconFile": "draftlight.icns",
        "CFBundleShortVersionString": "0.1.0",
        "LSMinimumSystemVersion": "15.0",
        **described()["macOS"]["info"],
    }
    files = {
        contents / "Info.plist": plistlib.dumps(plist),
        contents / "MacOS" / "Draftlight": code(),
        contents / "Resources" / "draftlight.icns": b"icns",
        packages / "mlx" / "lib" / "libmlx.dylib": code(),
        packages / "mlx" / "lib" / "mlx.metallib": b"MTLB",
        packages / "assets" / "models" / "small.gguf": b"GGUF",
        packages / "app" / "__pycache__" / "a.cpython-312.pyc": b"",
        packages / "engine" / "__pycache__" / "a.cpython-312.pyc": b"",
        packages / "PySide6" / "libpyside6.dylib": code(ARM64, (13, 0)),
    }
    for path, data in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return contents.parent


def test_a_good_application_passes(app: Path) -> None:
    assert list(check_bundle.problems(app)) == []


def _plist(app: Path, **changes: Any) -> None:
    path = app / "Contents" / "Info.plist"
    path.write_bytes(plistlib.dumps({**plistlib.loads(path.read_bytes()), **changes}))


def _documents(app: Path, before: str, after: str) -> None:
    """Puts other words into the lists of what can be opened."""
    path = app / "Contents" / "Info.plist"
    path.write_bytes(path.read_bytes().replace(before.encode(), after.encode()))


def _packages(app: Path) -> Path:
    return app / "Contents" / "Resources" / "app_packages"


FAULTS: dict[str, tuple[Callable[[Path], object], str]] = {
    "kernels elsewhere": (
        lambda app: (_packages(app) / "mlx/lib/mlx.metallib").rename(app / "mlx.metallib"),
        "MLX finds its kernels",
    ),
    "no model": (lambda app: (_packages(app) / "assets/models/small.gguf").unlink(), "0 built-in models"),
    "data beside the program": (lambda app: (app / "Contents/MacOS/mlx.metallib").touch(), "taken for code"),
    "a wheel for a newer system": (
        lambda app: (_packages(app) / "mlx/lib/libmlx.dylib").write_bytes(code(system=(26, 2))),
        "needs macOS 26.2",
    ),
    "code for Intel beside it": (
        lambda app: (_packages(app) / "a.so").write_bytes(universal(code(X86_64, (10, 15)), code(ARM64, (13, 0)))),
        "has code for Intel processors",
    ),
    "a wheel for Intel": (lambda app: (_packages(app) / "a.so").write_bytes(universal(code(X86_64))), "not for Apple silicon"),
    "two libraries of one name": (
        lambda app: (_packages(app) / "libmlx.dylib").write_bytes(code(tail=b"x")),
        "different libraries of one name",
    ),
    "a link to the builder's disk": (lambda app: (_packages(app) / "python").symlink_to("/usr/bin/env"), "leads out of"),
    "nothing compiled": (lambda app: shutil.rmtree(_packages(app) / "engine/__pycache__"), "not compiled"),
    "no version": (lambda app: _plist(app, CFBundleShortVersionString="0"), "no version"),
    "another program": (lambda app: _plist(app, CFBundleExecutable="Stub"), "names a program"),
    "an older system": (lambda app: _plist(app, LSMinimumSystemVersion="11.0"), "instead of 15.0"),
    "silence about the network": (lambda app: _plist(app, NSLocalNetworkUsageDescription=""), "other machines of a split target"),
    "no documents": (lambda app: _plist(app, CFBundleDocumentTypes=[]), "opens no .gguf, .jsonl, .jsonl.gz"),
    "an ending not declared": (lambda app: _documents(app, "jsonl.gz<", "jsonlz<"), "opens no .jsonl.gz"),
    "chats left out": (lambda app: _documents(app, "public.json<", "org.ggml.gguf<"), "nothing of public.json"),
    "chats taken over": (lambda app: _documents(app, ">Alternate<", ">Default<"), "public.json would be opened by Draftlight"),
    "an unknown type": (lambda app: _documents(app, "public.folder<", "folder<"), "folder is no type of macOS's own"),
    "no icon": (lambda app: (app / "Contents/Resources/draftlight.icns").unlink(), "no icon"),
    "a broken plist": (lambda app: (app / "Contents/Info.plist").write_text("<plist>"), "cannot be read"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_of_the_application_is_found(fault: str, app: Path) -> None:
    plant, words = FAULTS[fault]
    plant(app)
    assert any(words in problem for problem in check_bundle.problems(app))


def test_thinning_leaves_the_part_for_apple_silicon(app: Path) -> None:
    library, other, java = (_packages(app) / name for name in ("a.so", "intel.so", "A.class"))
    library.write_bytes(universal(code(X86_64, (10, 15), b"intel" * 50), code(ARM64, (13, 0), b"arm")))
    library.chmod(0o755)
    linked = app.parent / "cache.so"
    linked.hardlink_to(library)
    whole = library.read_bytes()
    other.write_bytes(universal(code(X86_64)))
    java.write_bytes(b"\xca\xfe\xba\xbe\x00\x00\x00\x41" + bytes(100))
    unchanged = {path: path.read_bytes() for path in (other, java, _packages(app) / "libmlx.dylib") if path.exists()}
    assert thin.thin(library) == len(whole) - len(code(ARM64, (13, 0), b"arm"))
    assert library.read_bytes() == code(ARM64, (13, 0), b"arm")
    assert library.stat().st_mode & 0o777 == 0o755
    assert linked.read_bytes() == whole, "another file that shared its content"
    assert all(thin.thin(path) == 0 and path.read_bytes() == content for path, content in unchanged.items())
    other.unlink()
    assert list(check_bundle.problems(app)) == []


def test_the_description_asks_for_what_the_check_demands() -> None:
    application = described()
    macos = application["macOS"]
    assert tuple(map(int, macos["min_os_version"].split("."))) == check_bundle.OLDEST_SYSTEM
    assert macos["universal_build"] is False
    assert all(name.startswith("com.apple.security.") and value is True for name, value in macos["entitlement"].items())
    plistlib.dumps(macos["info"])
    assert macos["info"]["NSLocalNetworkUsageDescription"]
    assert (REPOSITORY / "packaging/macos" / application["sources"][0] / "__main__.py").is_file()
    assert "requires" not in application  # the lock says what is in it (fill_packages.sh)


def test_the_icon_has_the_sizes_that_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, qapp: object) -> None:
    """It takes the application that there is: one of its own would be in the way of every later test of the window."""
    monkeypatch.setattr("sys.argv", ["make_icon.py", str(tmp_path / "icon" / "a.icns")])
    make_icon.main()
    data = (tmp_path / "icon" / "a.icns").read_bytes()
    assert data[:4] == b"icns" and struct.unpack_from(">I", data, 4)[0] == len(data)
    at, sizes, pictures = 8, {}, {}
    while at < len(data):
        kind, length = struct.unpack_from(">4sI", data, at)
        assert data[at + 8 : at + 16] == b"\x89PNG\r\n\x1a\n"
        sizes[kind] = struct.unpack_from(">II", data, at + 24)
        pictures[kind] = QImage.fromData(data[at + 8 : at + length])
        at += length
    assert sizes == {kind: (side, side) for kind, side in make_icon.SIZES.items()}
    largest = pictures[b"ic10"]
    across = [at for at in range(1024) if largest.pixelColor(at, 512).alpha() > 127]
    assert (across[0], across[-1]) == (100, 923), "as wide as other icons in the Dock"


TOOL = """#!/bin/sh
echo "$(basename "$0") $*" >> "$CALLS"
"""


def build(
    tmp_path: Path, identity: str = "", is_synchronised: bool = False
) -> tuple[subprocess.CompletedProcess[str], list[str]]:
    """Runs the script itself, with tools that write down how they were called; returns how it ended, and the calls."""
    for name in ("packaging/macos", "packaging/macos/draftlight"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("macos/build_app.sh", "macos/pyproject.toml"):
        shutil.copy(REPOSITORY / "packaging" / name, tmp_path / "packaging" / name)
    (tmp_path / "dist").mkdir()
    (tmp_path / "dist" / "draftlight-0.1.0-py3-none-any.whl").touch()
    (tmp_path / "dist" / "Draftlight-0.1.0.dmg").touch()
    tools, calls = tmp_path / "tools", tmp_path / "calls"
    venv = "".join(
        f'[ "$2" != venv ] || {{ mkdir -p build/briefcase/bin; cp "$0" build/briefcase/bin/{name}; }}\n'
        for name in ("python", "briefcase")
    )
    image = 'case "$PWD" in */build/macos) mkdir -p dist; touch dist/Draftlight-0.1.0.dmg ;; esac\n'
    for name in (
        "tools/plutil",
        "tools/codesign",
        "tools/xattr",
        "packaging/fill_packages.sh",
        "packaging/macos/check_app.sh",
        ".venv/bin/python",
        "tools/python3",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(TOOL + (venv + image if name == ".venv/bin/python" else ""))
        (tmp_path / name).chmod(0o755)
    (tools / "xattr").write_text(TOOL + ("exit 0\n" if is_synchronised else "exit 1\n"))
    environment = {"PATH": f"{tools}:{os.environ['PATH']}", "CALLS": str(calls), "SIGNING_IDENTITY": identity}
    done = subprocess.run(["bash", "packaging/macos/build_app.sh"], cwd=tmp_path, env=environment, capture_output=True, text=True)
    return done, calls.read_text().splitlines()


@pytest.mark.parametrize("identity, signed", [("", "--adhoc-sign"), ("ABC123", "--identity ABC123")])
def test_application_is_filled_checked_signed_and_tested_in_this_order(identity: str, signed: str, tmp_path: Path) -> None:
    done, lines = build(tmp_path, identity)
    assert done.returncode == 0, done.stderr
    assert not [line for line in lines if line.startswith("python3 ")], "only the environment's interpreter is known to fit"
    order = [
        "make_icon.py",
        "briefcase create",
        "plutil -replace LSMinimumSystemVersion",
        "fill_packages.sh",
        "briefcase build",
        "thin.py",
        "check_bundle.py",
        "briefcase package",
    ]
    places = [
        next(index for index, line in enumerate(lines) if words in line)
        for words in [*order, "codesign --verify", "check_app.sh"]
    ]
    assert places == sorted(places)
    package = next(line for line in lines if "briefcase package" in line)
    assert signed in package and "version='0.1.0'" in package and ("--adhoc-sign" in package) == (not identity)
    assert "aarch64-apple-darwin" in next(line for line in lines if "fill_packages.sh" in line)


def test_a_checkout_in_icloud_is_refused_before_anything_is_built(tmp_path: Path) -> None:
    done, lines = build(tmp_path, is_synchronised=True)
    assert done.returncode == 1
    assert "synchronised with iCloud" in done.stderr and "Move the checkout" in done.stderr
    assert [line.split()[0] for line in lines] == ["xattr"]


def test_the_application_starts_the_process_of_its_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """What runs there takes no options of Python's, so its own start has to know what it is started for."""
    monkeypatch.setattr(sys, "executable", "/Applications/Draftlight.app/Contents/MacOS/Draftlight")
    program, *arguments = own_python("engine.runtime.process.child")
    assert program == sys.executable
    shell = REPOSITORY / "packaging/macos/draftlight/__main__.py"
    monkeypatch.undo()
    command = [sys.executable, "-X", "importtime", str(shell), *arguments]
    paths = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    ran = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, env=paths)
    assert ran.returncode == 0, ran.stderr
    assert "engine.runtime.process.wire" in ran.stderr and "PySide6" not in ran.stderr
    assert own_python("engine.runtime.process.child")[0] == sys.executable


def test_the_application_is_the_resource_tracker_when_asked(tmp_path: Path) -> None:
    """A lock of tqdm's starts multiprocessing's tracker as `sys.executable -c …`, which is the application there."""
    shell = tmp_path / "Draftlight"
    shell.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{REPOSITORY}/packaging/macos/draftlight/__main__.py" "$@"\n')
    shell.chmod(0o755)
    program = (
        "import multiprocessing, multiprocessing.resource_tracker as tracker, os, sys\n"
        f"multiprocessing.set_executable({str(shell)!r})\n"
        "multiprocessing.set_start_method('spawn')\n"
        "from tqdm import tqdm\n"
        "list(tqdm(range(3), file=sys.stdout))\n"
        "tracker.ensure_running()\n"
        "assert tracker._resource_tracker._check_alive()\n"
    )
    paths = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=paths, timeout=120)
    assert (ran.returncode, ran.stderr) == (0, "")
