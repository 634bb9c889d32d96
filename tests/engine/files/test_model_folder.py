"""What a folder is, by whichever way a model is looked for: listed, dropped, by its name on the Hub, loaded."""

from __future__ import annotations

import json
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
