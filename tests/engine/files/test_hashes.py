"""Digests of model files are right, recorded, and not believed once a file has changed."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import pytest

from engine.files.hashes import file_sha256, files_sha256


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DRAFTLIGHT_HOME", (tmp_path / "data").as_posix())
    return tmp_path / "data"


def test_an_unchanged_file_is_hashed_once(data: Path, tmp_path: Path) -> None:
    file = tmp_path / "weights"
    file.write_bytes(b"abc")
    assert file_sha256(file) == hashlib.sha256(b"abc").hexdigest()
    record = data / "hashes.json"
    record.write_text(json.dumps(dict.fromkeys(json.loads(record.read_text()), "recorded")))
    assert file_sha256(file) == "recorded"
    assert file_sha256(file, trust_record=False) == hashlib.sha256(b"abc").hexdigest()


def test_a_changed_file_is_hashed_again(data: Path, tmp_path: Path) -> None:
    file = tmp_path / "weights"
    file.write_bytes(b"abc")
    file_sha256(file)
    file.write_bytes(b"abd")
    os.utime(file, ns=(1, 1))
    assert file_sha256(file) == hashlib.sha256(b"abd").hexdigest()
    assert len(json.loads((data / "hashes.json").read_text())) == 1


@pytest.mark.parametrize("content", ["{", "[]", '{"a": 1}'])
def test_a_damaged_record_does_no_harm(content: str, data: Path, tmp_path: Path) -> None:
    file = tmp_path / "weights"
    file.write_bytes(b"abc")
    data.mkdir()
    (data / "hashes.json").write_text(content)
    assert file_sha256(file) == hashlib.sha256(b"abc").hexdigest()


def test_a_data_folder_that_cannot_be_written_does_no_harm(data: Path, tmp_path: Path) -> None:
    data.write_text("a file where the folder should be")
    file = tmp_path / "weights"
    file.write_bytes(b"abc")
    assert file_sha256(file) == hashlib.sha256(b"abc").hexdigest()


def test_several_files_have_one_digest_that_knows_their_names(data: Path, tmp_path: Path) -> None:
    one, two = tmp_path / "model-1.safetensors", tmp_path / "model-2.safetensors"
    one.write_bytes(b"abc")
    two.write_bytes(b"abd")
    together = files_sha256([two, one])
    assert together == files_sha256([one, two])
    assert files_sha256([one]) == file_sha256(one)
    one.write_bytes(b"abd")
    two.write_bytes(b"abc")
    os.utime(one, ns=(1, 1))
    os.utime(two, ns=(1, 1))
    assert files_sha256([one, two]) != together
