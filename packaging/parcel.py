#!/usr/bin/env python3
"""Makes a parcel for a Linux machine without a network: what `make gpu-check` needs there, in parts small enough to send.

    python packaging/parcel.py [--backend cuda13] [--output build/parcel]

The machine has x86-64, Python 3.12 and, for CUDA, a driver and NVIDIA's CUDA 13 libraries, as PyTorch brings them: those are not
carried. The parcel has the wheels of the lock without Qt, the built-in model, the code, the tests and the drafters' weights: a
tar archive in parts of at most 40 MB, with their SHA-256 in manifest.json. Send them with open_parcel.py, which lies beside them.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name, parse_wheel_filename
from packaging.version import Version

REPOSITORY = Path(__file__).parents[1]
sys.path.insert(0, str(REPOSITORY))

from engine.files.builtin import builtin_path, check_builtin  # noqa: E402  the repository has to be on the path
from engine.files.paths import models_folder  # noqa: E402
from tests.gpu_check.parts import commit  # noqa: E402

PYTHON = "3.12"
PART_BYTES = 40_000_000
BACKENDS = {"cpu": ("mlx-cpu", "cmeel", "cmeel-openblas"), "cuda12": ("mlx-cuda-12",), "cuda13": ("mlx-cuda-13",)}
"""Packages that only one back-end needs. Those of MLX are released together, under one version number."""
WINDOW = ("pyside6-essentials", "shiboken6", "pyqtgraph")
TESTS = ("pytest", "pluggy", "iniconfig")
NEWEST_GLIBC = 35
CODE = ("app", "engine", "shaders", "tests", "assets/drafters", "assets/prompts.jsonl", "pyproject.toml", "LICENSE", "NOTICE")


def locked(path: Path) -> dict[str, str]:
    """Returns the entries of a lock for Linux on x86-64 and Python `PYTHON`, by name, as lines of a requirements file without
    markers."""
    marker = {
        "python_version": PYTHON,
        "python_full_version": f"{PYTHON}.0",
        "sys_platform": "linux",
        "platform_machine": "x86_64",
    }
    marker |= {"platform_system": "Linux", "os_name": "posix", "implementation_name": "cpython"}
    entries = {}
    for entry in path.read_text(encoding="utf-8").replace("\\\n", " ").splitlines():
        words, *hashes = re.split(r"\s+(?=--hash=)", entry.strip())
        if words and not words.startswith("#"):
            requirement = Requirement(words)
            if requirement.marker is None or requirement.marker.evaluate(marker):
                entries[requirement.name] = " ".join([f"{requirement.name}{requirement.specifier}", *hashes])
    return entries


def requirements(backend: str) -> dict[str, list[str]]:
    """Returns lines of two requirements files: "locked", with hashes, and "released", for packages that no lock has."""
    runtime, development = (locked(REPOSITORY / "packaging" / f"{name}.lock") for name in ("runtime", "development"))
    others = {name for other, names in BACKENDS.items() if other != backend for name in names}
    lines = [line for name, line in runtime.items() if name not in others and name not in WINDOW]
    lines += [development[name] for name in TESTS]
    lock = REPOSITORY / "packaging" / f"{backend}.lock"
    exchanged = {name: line for name, line in (locked(lock) if lock.is_file() else {}).items() if name in BACKENDS[backend]}
    mlx = runtime["mlx"].split()[0].removeprefix("mlx")
    released = [f"{name}{mlx}" for name in BACKENDS[backend] if name not in (*runtime, *exchanged)]
    return {"locked": [*lines, *exchanged.values()], "released": released}


def download(backend: str, folder: Path) -> list[Path]:
    """Downloads the wheels to `folder`, except those that are there already, and returns their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    platforms = [f"manylinux_2_{minor}_x86_64" for minor in range(NEWEST_GLIBC, 4, -1)] + [
        "manylinux2014_x86_64",
        "manylinux1_x86_64",
    ]
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    command += ["--only-binary", ":all:"]
    command += ["--python-version", PYTHON, "--implementation", "cp", "--dest", str(folder)]
    command += [option for platform in platforms for option in ("--platform", platform)]
    needed: list[tuple[str, ...]] = []
    for kind, lines in requirements(backend).items():
        if lines:
            file = folder / f"{kind}.txt"
            file.write_text("\n".join(lines) + "\n", encoding="utf-8")
            subprocess.run(
                [*command, *(["--require-hashes"] if kind == "locked" else []), "--requirement", str(file)], check=True
            )
            needed += [tuple(line.split()[0].split("==")) for line in lines]
    wheels = {parse_wheel_filename(path.name)[:2]: path for path in folder.glob("*.whl")}
    return sorted(wheels[canonicalize_name(name), Version(version)] for name, version in needed)


class Parts(io.RawIOBase):
    """A writable file that starts a new part when one is full. `written`: name, size and SHA-256 of each part."""

    def __init__(self, folder: Path, max_bytes: int = PART_BYTES) -> None:
        self._folder, self._max_bytes = folder, max_bytes
        self._file: IO[bytes] | None = None
        self.written: list[dict[str, str | int]] = []

    def writable(self) -> bool:
        """Returns True."""
        return True

    def write(self, data: object) -> int:
        """Writes all of the data, and returns its size in bytes."""
        remaining = memoryview(data).cast("B")  # type: ignore[arg-type]
        total = len(remaining)
        while remaining:
            if self._file is None:
                self._file = (self._folder / f"part-{len(self.written):02}").open("wb")
            count = self._file.write(remaining[: self._max_bytes - self._file.tell()])
            remaining = remaining[count:]
            if self._file.tell() == self._max_bytes:
                self._end_part()
        return total

    def close(self) -> None:
        """Ends the last part."""
        if not self.closed:
            self._end_part()
        super().close()

    def _end_part(self) -> None:
        if self._file is None:
            return
        path = Path(self._file.name)
        self._file.close()
        self._file = None
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        self.written.append({"name": path.name, "size": path.stat().st_size, "sha256": digest})


def pack(output: Path, backend: str, wheels: Iterable[Path], model: Path, max_bytes: int = PART_BYTES) -> dict[str, Any]:
    """Writes the parts, the manifest and the script that opens them; returns the manifest."""
    shutil.rmtree(output, ignore_errors=True)
    output.mkdir(parents=True)
    git = ["git", "-C", str(REPOSITORY)]
    names = subprocess.run([*git, "ls-files", "-z", *CODE], check=True, capture_output=True, text=True).stdout.split("\0")
    head = commit()
    parts = Parts(output, max_bytes)
    with parts, tarfile.open(fileobj=parts, mode="w|") as archive:
        for wheel in wheels:
            archive.add(wheel, f"wheels/{wheel.name}")
        archive.add(model, f"home/models/{model.relative_to(models_folder()).as_posix()}")
        for name in filter(None, names):
            archive.add(REPOSITORY / name, f"code/{name}")
        entry = tarfile.TarInfo("code/COMMIT")
        entry.size = len(head)
        archive.addfile(entry, io.BytesIO(head.encode()))
    manifest = {"format": "draftlight.parcel/1", "backend": backend, "python": PYTHON, "commit": head, "parts": parts.written}
    (output / "manifest.json").write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")
    shutil.copy(REPOSITORY / "packaging" / "open_parcel.py", output)
    return manifest


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--backend", choices=BACKENDS, default="cuda13", help="back-end of MLX; cpu is for a trial run (default: %(default)s)"
    )
    parser.add_argument(
        "--output", type=Path, default=REPOSITORY / "build" / "parcel", metavar="FOLDER", help="where the parcel is written"
    )
    chosen = parser.parse_args(arguments)
    check_builtin()
    wheels = download(chosen.backend, REPOSITORY / "build" / "wheels" / chosen.backend)
    manifest = pack(chosen.output, chosen.backend, wheels, builtin_path())
    for part in manifest["parts"]:
        print(f"{part['sha256']}  {part['name']}  {part['size'] / 1e6:.1f} MB")
    print(f"{len(wheels)} wheels. Send all files in {chosen.output}; there, run: python3 open_parcel.py")


if __name__ == "__main__":
    main()
