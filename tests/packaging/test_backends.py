"""`make setup` exchanges the back-end of MLX when it is asked for another one, and takes the one before out first."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.packaging import REPOSITORY

LOCKS = REPOSITORY / "packaging"
PYTHON = """#!/usr/bin/env bash
# Notes what pip is asked for, and shows what is installed; is Python otherwise.
if [ "$1 $2" != "-m pip" ]; then exec {python} -S "$@"; fi
shift 2
case "$*" in
    list*) printf '%s\\n' {installed} ;;
    *--requirement*|*-r*) echo "$@" >>{log}; while [ $# -gt 0 ]; do [ "$1" != -r ] || cat "$2" >>{log}.locks; shift; done ;;
    *) echo "$@" >>{log} ;;
esac
"""

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="a Mac has one back-end")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """What setup.sh needs of a checkout, with an environment in which nothing is installed."""
    for name in ("Makefile", "pyproject.toml", "engine", "packaging"):
        copied = shutil.copytree if (REPOSITORY / name).is_dir() else shutil.copy
        copied(REPOSITORY / name, tmp_path / name)
    (tmp_path / "packaging" / "system_packages.sh").write_text("")
    (tmp_path / ".venv" / "lib" / "python3" / "site-packages" / "mlx").mkdir(parents=True)
    return tmp_path


def furnish(checkout: Path, *installed: str) -> Path:
    """Makes an environment in which these packages are installed; returns where what pip is asked for is noted."""
    log = checkout / "pip.log"
    for package in installed:
        described = f"{package.replace('-', '_')}-0.32.4.dist-info"
        (checkout / ".venv" / "lib" / "python3" / "site-packages" / described).mkdir()
    python = checkout / ".venv" / "bin" / "python"
    python.parent.mkdir()
    listed = " ".join(f"{package}==0.32.4" for package in (*installed, "numpy"))
    python.write_text(PYTHON.format(python=sys.executable, installed=listed, log=log))
    python.chmod(0o755)
    (checkout / ".venv" / ".complete").touch()
    return log


def make(checkout: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs `make setup` where no driver is found and no environment variable chooses."""
    environment = {name: value for name, value in os.environ.items() if name not in ("BACKEND", "MAKEFLAGS")}
    environment["PYTHONPATH"] = str(checkout / ".venv" / "lib" / "python3" / "site-packages")
    return subprocess.run(
        ["make", "setup", *arguments], cwd=checkout, env=environment, capture_output=True, text=True, check=False
    )


def requirements(log: Path) -> set[str]:
    return set(re.findall(r"^([a-z0-9.-]+)==", Path(f"{log}.locks").read_text(), re.MULTILINE))


@pytest.mark.parametrize(
    ("before", "asked", "removed"),
    [
        (["mlx-cpu"], "cuda13", "mlx-cpu"),
        (["mlx-cpu"], "cuda12", "mlx-cpu"),
        (["mlx-cuda-13", "nvidia-cublas", "nvidia-nccl-cu13"], "cpu", "mlx-cuda-13 nvidia-cublas nvidia-nccl-cu13"),
        (["mlx-cuda-12", "nvidia-nccl-cu12"], "cuda13", "mlx-cuda-12 nvidia-nccl-cu12"),
        (["mlx-cpu", "mlx-cuda-13", "nvidia-cublas"], "cpu", "mlx-cpu mlx-cuda-13 nvidia-cublas"),
    ],
)
def test_another_back_end_takes_the_place_of_the_one_before(checkout: Path, before: list[str], asked: str, removed: str) -> None:
    log = furnish(checkout, *before)
    done = make(checkout, f"BACKEND={asked}")
    assert done.returncode == 0, done.stderr
    first, second, *_ = log.read_text().splitlines()
    assert first == f"uninstall --quiet --yes {removed}"
    assert second.startswith("install --quiet --require-hashes")
    package = asked.replace("cuda", "mlx-cuda-") if asked != "cpu" else "mlx-cpu"
    found = requirements(log)
    assert {name for name in found if name.startswith(("mlx-cpu", "mlx-cuda"))} == {package}
    assert any(name.startswith("nvidia-") for name in found) == (asked != "cpu")
    # Nothing but the back-end is left out.
    everything = set(re.findall(r"^([a-z0-9.-]+)==", (LOCKS / "development.lock").read_text(), re.MULTILINE))
    assert everything - {"mlx-cpu"} <= found


def test_an_environment_keeps_its_back_end_until_another_is_asked_for(checkout: Path) -> None:
    log = furnish(checkout, "mlx-cuda-12")
    for arguments in ([], ["BACKEND=cuda12"]):
        assert make(checkout, *arguments).returncode == 0
        assert not log.exists()
    os.utime(checkout / "packaging" / "development.lock", (2**32, 2**32))
    assert make(checkout).returncode == 0
    assert "uninstall" not in log.read_text()
    assert "mlx-cuda-12" in requirements(log)


@pytest.mark.skipif(Path("/proc/driver/nvidia").exists(), reason="there is a driver")
def test_a_new_environment_is_for_the_cpu_where_there_is_no_driver(checkout: Path) -> None:
    log = furnish(checkout)
    (checkout / ".venv" / ".complete").unlink()
    assert make(checkout).returncode == 0
    assert "uninstall" not in log.read_text()
    assert "mlx-cpu" in requirements(log)


def test_a_back_end_that_does_not_exist_is_refused(checkout: Path) -> None:
    log = furnish(checkout, "mlx-cpu")
    done = make(checkout, "BACKEND=rocm")
    assert done.returncode
    assert "BACKEND has to be cpu, cuda12 or cuda13, not rocm." in done.stderr
    assert not log.exists()


@pytest.mark.parametrize("version", [12, 13])
def test_cuda_is_locked_at_the_version_of_mlx_for_both_processors(version: int) -> None:
    (of_mlx,) = re.findall(r"^mlx==(\S+)", (LOCKS / "development.lock").read_text(), re.MULTILINE)
    lock = (LOCKS / f"cuda{version}.lock").read_text()
    assert f"mlx-cuda-{version}=={of_mlx} ;" in lock
    assert "://" not in lock
    assert all(line.startswith("    --hash=sha256:") or "aarch64" in line for line in lock.splitlines())
