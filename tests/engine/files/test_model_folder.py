"""What a folder is, by whichever way a model is looked for: listed, dropped, by its name on the Hub, loaded."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from engine.files import library, recommended_sampling
from engine.files.hub import folder_of, is_here
from engine.files.model_folder import base_of, is_model_folder
from engine.models.loading import load
from tests.engine import tiny_models


@pytest.fixture
def cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the Hub's own programs keep org/tiny."""
    monkeypatch.setenv("DRAFTLIGHT_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    folder = tmp_path / "hub" / "models--org--tiny" / "snapshots" / "abc"
    folder.mkdir(parents=True)
    return folder


def adapter(folder: Path) -> None:
    """What mlx-lm leaves of training an adapter, as far as it is looked at before it is loaded."""
    (folder / "adapter_config.json").write_text(json.dumps({"fine_tune_type": "lora", "model": "org/base"}))
    (folder / "adapters.safetensors").touch()


def listed() -> list[str]:
    return [model.name for model in library.find() if model.source == library.HUB]


def test_a_whole_model_with_an_adapters_file_beside_it_is_a_model(cached: Path) -> None:
    """As where an adapter was merged into its base, and its description left."""
    tiny_models.write_folder(cached)
    adapter(cached)
    assert listed() == ["org/tiny"] and is_model_folder(cached)
    assert base_of(cached) is None and folder_of("org/tiny") == cached
    assert load("org/tiny").weight_files == (cached / "model.safetensors",)


def test_adapter_alone_is_not_listed_as_a_model_but_can_be_used(cached: Path) -> None:
    adapter(cached)
    assert listed() == [] and is_model_folder(cached)
    assert base_of(cached) == "org/base" and folder_of("org/tiny") == cached


def test_partial_download_of_another_program_is_not_a_model_and_is_resumed(cached: Path) -> None:
    tiny_models.write_folder(cached)
    (cached / "model.safetensors").rename(cached / "model-00001-of-00002.safetensors")
    assert folder_of("org/tiny") is None and is_here("org/tiny")
    (model,) = library.find()
    assert "1 of 2 weight files is missing" in model.problem


def test_what_draftlight_downloaded_goes_before_the_cache_for_everything_that_is_read(cached: Path) -> None:
    """Also for the sampling that is recommended before the model is loaded."""
    for folder, temperature in ((cached, 0.5), (library.download_destination("org/tiny"), 0.25)):
        tiny_models.write_folder(folder)
        (folder / "generation_config.json").write_text(json.dumps({"temperature": temperature}))
    assert folder_of("org/tiny") == library.download_destination("org/tiny")
    assert recommended_sampling.of_target("org/tiny") == load("org/tiny").sampling == (("temperature", 0.25),)


# Where a model is


def test_built_in_names_and_existing_paths_are_local(tmp_path: Path) -> None:
    assert is_here("builtin") and is_here("none") and is_here("ngram") and is_here(str(tmp_path))
    assert not is_here(str(tmp_path / "gone.gguf"))
    assert not is_here("gone/model.gguf")


def test_hub_model_is_local_once_its_configuration_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    assert not is_here("owner/Model-4bit")
    folder = tmp_path / "models--owner--Model-4bit" / "snapshots" / "abc"
    folder.mkdir(parents=True)
    assert not is_here("owner/Model-4bit")
    (folder / "config.json").write_text("{}")
    assert is_here("owner/Model-4bit")


COMPARISON = """
import importlib, json, os, sys
from huggingface_hub import constants
from engine.files.paths import hub_cache
usual = dict(os.environ)
for changed in json.loads(sys.argv[1]):
    os.environ.clear()
    os.environ.update(usual | changed)
    print(json.dumps([str(hub_cache()), importlib.reload(constants).HF_HUB_CACHE]))
"""


def test_the_cache_is_where_the_hubs_own_library_has_it() -> None:
    environments: list[dict[str, str]] = [
        {},
        {"HOME": "/somebody", "XDG_CACHE_HOME": "~/caches"},
        {"XDG_CACHE_HOME": "/caches"},
        {"HF_HOME": "~/faces", "HOME": "/somebody"},
        {"HF_HOME": "$PLACE/faces", "PLACE": "/place"},
        {"HUGGINGFACE_HUB_CACHE": "/older", "HF_HOME": "/faces"},
        {"HF_HUB_CACHE": "~/$PLACE", "PLACE": "own", "HUGGINGFACE_HUB_CACHE": "/older"},
    ]
    command = [sys.executable, "-c", COMPARISON, json.dumps(environments)]
    told = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout.splitlines()
    assert len(told) == len(environments)
    for line, environment in zip(told, environments, strict=True):
        ours, theirs = json.loads(line)
        assert ours == theirs, environment
