"""A parcel comes out as it went in, and what is missing, damaged or of another kind is said in a sentence."""

from __future__ import annotations

import os
import sys
import tarfile
from pathlib import Path

import pytest

from tests.packaging import script

parcel = script("parcel.py")
opening = script("open_parcel.py")


@pytest.fixture
def packed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A parcel in parts of 64 kB, with one wheel, a model and one file of code."""
    models = tmp_path / "models"
    (models / "some").mkdir(parents=True)
    (models / "some" / "model.gguf").write_bytes(os.urandom(200_000))
    (tmp_path / "a-1-py3-none-any.whl").write_bytes(b"wheel")
    monkeypatch.setattr(parcel, "CODE", ("pyproject.toml",))
    monkeypatch.setattr(parcel, "models_folder", lambda: models)
    output = tmp_path / "parcel"
    parcel.pack(output, "cpu", [tmp_path / "a-1-py3-none-any.whl"], models / "some" / "model.gguf", max_bytes=1 << 16)
    return output


def test_unpacked_files_equal_the_packed_ones(packed: Path, tmp_path: Path) -> None:
    manifest = opening.read_manifest(str(packed))
    assert len(manifest["parts"]) > 3 and max(part["size"] for part in manifest["parts"]) == 1 << 16
    opening.unpack(opening.check_parts(str(packed), manifest["parts"]), str(tmp_path / "out"))
    out = tmp_path / "out"
    assert (out / "wheels" / "a-1-py3-none-any.whl").read_bytes() == b"wheel"
    model = Path("models", "some", "model.gguf")
    assert (out / "home" / model).read_bytes() == (tmp_path / model).read_bytes()
    assert (out / "code" / "pyproject.toml").read_bytes() == (parcel.REPOSITORY / "pyproject.toml").read_bytes()
    assert (out / "code" / "COMMIT").read_text() == manifest["commit"]
    assert (packed / "open_parcel.py").read_bytes() == (parcel.REPOSITORY / "packaging" / "open_parcel.py").read_bytes()


def test_missing_and_damaged_parts_are_named(packed: Path) -> None:
    parts = opening.read_manifest(str(packed))["parts"]
    (packed / "part-01").unlink()
    damaged = bytearray((packed / "part-02").read_bytes())
    damaged[100] ^= 1
    (packed / "part-02").write_bytes(damaged)
    (packed / "part-03").write_bytes((packed / "part-03").read_bytes()[:-1])
    with pytest.raises(opening.Failed, match=r"^part-01 is missing, part-02 is damaged, part-03 is damaged\. Send these again"):
        opening.check_parts(str(packed), parts)
    (packed / "manifest.json").write_text("{")
    with pytest.raises(opening.Failed, match=r"manifest\.json is damaged"):
        opening.read_manifest(str(packed))
    (packed / "manifest.json").unlink()
    with pytest.raises(opening.Failed, match=r"manifest\.json is missing"):
        opening.read_manifest(str(packed))


def test_other_python_versions_are_refused() -> None:
    opening.require_python(f"{sys.version_info.major}.{sys.version_info.minor}")
    with pytest.raises(opening.Failed, match=r"for Python 3\.2, and this is Python 3"):
        opening.require_python("3.2")


@pytest.mark.parametrize(
    "said, words",
    [
        (
            "ImportError: libcuda.so.1: cannot open shared object file: No such file",
            "libcuda.so.1 is missing: there is no NVIDIA driver",
        ),
        ("ImportError: libnccl.so.2: cannot open shared object file: No such file", "libnccl.so.2 is missing. NVIDIA's packages"),
        ("something else", "MLX cannot compute here. It said:\nsomething else"),
    ],
)
def test_a_missing_library_is_named(tmp_path: Path, said: str, words: str) -> None:
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\necho "{said}" >&2\nexit 1\n')
    python.chmod(0o755)
    with pytest.raises(opening.Failed) as failed:
        opening.require_mlx(str(python), dict(os.environ))
    assert str(failed.value).startswith(words)


def test_nvidias_packages_of_the_opening_python_are_linked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library = tmp_path / "theirs" / "nvidia" / "nccl" / "lib" / "libnccl.so.2"
    library.parent.mkdir(parents=True)
    library.touch()
    packages = tmp_path / "venv" / "lib" / "python3.12" / "site-packages"
    packages.mkdir(parents=True)
    monkeypatch.setattr(opening.site, "getsitepackages", lambda: [str(tmp_path / "theirs")])
    monkeypatch.setenv("LD_LIBRARY_PATH", "/own")
    variables = opening.environment_of_libraries(str(tmp_path))
    assert (packages / "nvidia" / "nccl" / "lib" / "libnccl.so.2").exists()
    folders = variables["LD_LIBRARY_PATH"].split(":")
    assert folders[0] == "/own" and str(packages / "nvidia" / "nccl" / "lib") in folders


def test_each_back_end_gets_its_own_packages_for_python_3_12() -> None:
    cpu, cuda = parcel.requirements("cpu"), parcel.requirements("cuda13")
    names = {kind: {line.split("==")[0] for line in found["locked"]} for kind, found in (("cpu", cpu), ("cuda13", cuda))}
    assert names["cpu"] - names["cuda13"] == {"mlx-cpu", "cmeel", "cmeel-openblas"} and not cpu["released"]
    (mlx,) = (line.split()[0] for line in cuda["locked"] if line.startswith("mlx=="))
    everything = [line.split()[0] for line in (*cuda["locked"], *cuda["released"])]
    assert mlx.replace("mlx==", "mlx-cuda-13==") in everything and not any(line.startswith("nvidia") for line in everything)
    assert {"mlx-lm", "numpy", "pytest", "pip"} <= names["cuda13"] and not names["cpu"] & {
        "pyside6-essentials",
        "pyqtgraph",
        "mlx-metal",
    }
    assert all("--hash=sha256:" in line and ";" not in line for line in cuda["locked"])
    (numpy,) = (line for line in cuda["locked"] if line.startswith("numpy=="))
    lock = (parcel.REPOSITORY / "packaging" / "runtime.lock").read_text(encoding="utf-8")
    assert f"{numpy.split()[0]} ; python_full_version >= '3.12'" in lock


def test_the_archive_is_a_plain_one(packed: Path) -> None:
    parts = sorted(packed.glob("part-*"))
    joined = packed / "whole.tar"
    joined.write_bytes(b"".join(part.read_bytes() for part in parts))
    with tarfile.open(joined) as archive:
        assert "code/COMMIT" in archive.getnames()
