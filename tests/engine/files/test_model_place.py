"""Whether a model is on this machine, by its name."""

from __future__ import annotations

from pathlib import Path

import pytest
from huggingface_hub import constants

from engine.files.hub import is_here
from engine.files.paths import hub_cache


def test_what_comes_with_draftlight_and_what_is_a_path_is_here(tmp_path: Path) -> None:
    assert is_here("builtin") and is_here("none") and is_here("ngram") and is_here(str(tmp_path))
    assert not is_here(str(tmp_path / "gone.gguf"))
    assert not is_here("gone/model.gguf")


def test_a_model_of_the_hub_is_here_once_its_configuration_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    assert not is_here("owner/Model-4bit")
    folder = tmp_path / "models--owner--Model-4bit" / "snapshots" / "abc"
    folder.mkdir(parents=True)
    assert not is_here("owner/Model-4bit")
    (folder / "config.json").write_text("{}")
    assert is_here("owner/Model-4bit")


def test_the_cache_is_where_the_hubs_own_library_has_it() -> None:
    assert hub_cache() == Path(constants.HF_HUB_CACHE)
