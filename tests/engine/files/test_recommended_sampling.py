"""What a model's files recommend, and what is no recommendation."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from engine.files import recommended_sampling
from engine.models.loading import load
from tests.engine import tiny_models


@pytest.mark.parametrize(
    ("stated", "expected"),
    [
        (
            {"do_sample": True, "temperature": 0.6, "top_k": 20, "top_p": 0.95, "eos_token_id": [1, 2]},
            {"temperature": 0.6, "top_k": 20, "top_p": 0.95},
        ),
        ({"do_sample": False, "temperature": 0.6, "repetition_penalty": 1.05}, {"temperature": 0, "repetition_penalty": 1.05}),
        ({"temperature": -1, "top_p": 2, "min_p": "much", "top_k": None, "repetition_penalty": float("inf")}, {}),
        ({"temperature": True, "top_k": 1e300}, {}),
        ({}, {}),
    ],
)
def test_a_folder_recommends_what_its_generation_config_states(stated: Any, expected: dict[str, float], tmp_path: Path) -> None:
    folder = tiny_models.write_folder(tmp_path / "folder")
    (folder / "generation_config.json").write_text(json.dumps(stated))
    assert dict(recommended_sampling.of_target(folder.as_posix())) == expected
    assert dict(load(folder.as_posix()).sampling) == expected


def test_a_gguf_file_recommends_what_its_metadata_state(tmp_path: Path) -> None:
    stated = {"general__sampling__temp": 0.7, "general__sampling__top_k": 40, "general__sampling__penalty_repeat": 1.1}
    path = tiny_models.write_gguf(tmp_path / "tiny.gguf", general__sampling__min_p=7.0, **stated)
    expected = {"temperature": 0.7, "top_k": 40, "repetition_penalty": 1.1}
    assert dict(recommended_sampling.of_target(path.as_posix())) == dict(load(path.as_posix()).sampling) == expected


def test_unreadable_files_recommend_nothing(tmp_path: Path) -> None:
    (tmp_path / "damaged.gguf").write_bytes(b"GGUF and no more")
    (tmp_path / "generation_config.json").write_text("{")
    (tmp_path / "list").mkdir()
    (tmp_path / "list" / "generation_config.json").write_text("[1, 2]")
    for name in (tmp_path / "damaged.gguf", tmp_path, tmp_path / "list", tmp_path / "missing"):
        assert recommended_sampling.of_target(name.as_posix()) == ()
    assert recommended_sampling.of_target("nobody/nothing-of-the-kind") == ()
    assert dict(recommended_sampling.of_target("builtin")) == {"temperature": 0.2, "top_p": 0.9}
