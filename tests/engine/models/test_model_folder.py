"""Folders that hold something other than a whole model: what they are is said, and what to do; no code of theirs runs."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from engine.models import loading as hub_models
from engine.models.loading import load
from engine.values.errors import DraftlightError
from tests.engine import tiny_models


def in_shards(folder: Path, shards: int = 3, index: bool = True) -> Path:
    """The tiny model with its weights in several numbered files, as large models come."""
    tiny_models.write_folder(folder)
    (folder / "model.safetensors").unlink()
    made = sorted(tiny_models.weights().items())
    names = [f"model-{part:05}-of-{shards:05}.safetensors" for part in range(1, shards + 1)]
    for part, name in enumerate(names):
        save_file(dict(made[part::shards]), folder / name)
    if index:
        placed = {weight: names[place % shards] for place, (weight, _) in enumerate(made)}
        (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": placed}))
    return folder


POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"4d" * 32 + b"\nsize 988097824\n"
"""What `git clone` leaves in a file's place where Git LFS is not installed."""


@pytest.mark.parametrize(
    "name",
    ["config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "tokenizer.model"],
)
def test_a_pointer_of_git_lfs_in_a_files_place_is_called_that(name: str, tmp_path: Path) -> None:
    folder = tiny_models.write_folder(tmp_path)
    if name == "tokenizer.model":
        (folder / "tokenizer.json").unlink()
    (folder / name).write_bytes(POINTER)
    with pytest.raises(
        DraftlightError, match=rf"{re.escape(name)}.* is only Git LFS's pointer to the file\. .*git lfs pull"
    ) as told:
        load(folder.as_posix())
    assert ".." not in str(told.value)


@pytest.mark.parametrize("index", [True, False])
def test_missing_shards_are_named(index: bool, tmp_path: Path) -> None:
    folder = in_shards(tmp_path, index=index)
    load(folder.as_posix())
    (folder / "model-00002-of-00003.safetensors").unlink()
    with pytest.raises(
        DraftlightError, match=r"1 of 3 weight files is missing: model-00002-of-00003\.safetensors\. Download the model"
    ):
        load(folder.as_posix())
    (folder / "model-00003-of-00003.safetensors").unlink()
    with pytest.raises(DraftlightError, match=r"2 of 3 weight files are missing: model-00002-of-00003\.safetensors, model-00003"):
        load(folder.as_posix())


def test_an_index_whose_shards_are_all_missing_names_them(tmp_path: Path) -> None:
    folder = in_shards(tmp_path, shards=6)
    for file in folder.glob("*.safetensors"):
        file.unlink()
    with pytest.raises(
        DraftlightError, match=r"has no model\*\.safetensors\. 6 of 6 weight files are missing: .* and 2 more\. Download"
    ):
        load(folder.as_posix())


@pytest.mark.parametrize("index", ["stale", "damaged"])
def test_wrong_index_does_not_prevent_loading_a_complete_model(index: str, tmp_path: Path) -> None:
    """mlx-lm does not read it; a conversion may leave the one of the original behind."""
    folder = tiny_models.write_folder(tmp_path)
    stale = json.dumps({"weight_map": {"model.norm.weight": "model-00001-of-00002.safetensors"}})
    (folder / "model.safetensors.index.json").write_text(stale if index == "stale" else "{")
    load(folder.as_posix())


@pytest.mark.parametrize("index", [True, False])
def test_weights_that_a_conversion_left_behind_do_not_count(index: bool, tmp_path: Path) -> None:
    """Those of the index count or, without one, model.safetensors as in transformers; mlx-lm would read whichever comes last."""
    folder = in_shards(tmp_path, index=index)
    stale = {name: np.zeros_like(array) for name, array in tiny_models.weights().items()}
    whole = folder / "model.safetensors"
    save_file(stale, whole)
    if not index:
        for shard in folder.glob("model-*"):
            save_file({name: stale[name] for name in load_file(shard)}, shard)
        save_file(tiny_models.weights(), whole)
    loaded = load(folder.as_posix())
    expected = tiny_models.weights()["model.layers.1.mlp.up_proj.weight"]
    assert np.array_equal(np.array(loaded.model.layers[1].mlp.up_proj.weight), expected)
    assert set(loaded.weight_files) == (set(folder.glob("model-*")) if index else {whole})


def test_two_sets_of_weights_of_which_none_is_whole_are_refused(tmp_path: Path) -> None:
    folder = in_shards(tmp_path, index=False)
    save_file({"model.norm.weight": np.zeros(64, np.float32)}, folder / "model-old.safetensors")
    with pytest.raises(DraftlightError, match=r"weights of the same names in several files: model-00001-of.*Delete those"):
        load(folder.as_posix())


def test_parameters_that_do_not_fit_are_named(tmp_path: Path) -> None:
    made = tiny_models.weights()
    del made["model.layers.0.mlp.up_proj.weight"]
    with pytest.raises(DraftlightError, match=r"Missing 1 parameters: model\.layers\.0\.mlp\.up_proj\.weight\.$"):
        load(tiny_models.write_folder(tmp_path / "missing", made).as_posix())
    many = r"Missing 9 parameters: model\.layers\.2\.\S+, model\S+, model\S+, model\S+ and 5 more\.$"
    with pytest.raises(DraftlightError, match=many):
        load(tiny_models.write_folder(tmp_path / "many", num_hidden_layers=3).as_posix())


def adapter_of_mlx_lm(folder: Path) -> None:
    (folder / "adapter_config.json").write_text(json.dumps({"fine_tune_type": "lora", "model": "org/base"}))
    (folder / "adapters.safetensors").write_bytes(b"")


def adapter_of_peft(folder: Path) -> None:
    (folder / "adapter_config.json").write_text(json.dumps({"peft_type": "LORA", "base_model_name_or_path": "org/base"}))
    (folder / "adapter_model.safetensors").write_bytes(b"")


def one_gguf(folder: Path) -> None:
    (folder / "tiny-Q8_0.gguf").write_bytes(b"GGUF")


def gguf_with_a_configuration(folder: Path) -> None:
    """As repositories of GGUF files have it."""
    one_gguf(folder)
    (folder / "tiny-Q4_0.gguf").write_bytes(b"GGUF")
    (folder / "config.json").write_text(json.dumps({"model_type": "llama"}))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda folder: (folder / "adapter_config.json").write_text("{}"),
            r"is an adapter: it contains changes to a base model, ",
        ),
        (one_gguf, r"contains GGUF .*Choose one of the files instead: tiny-Q8_0\.gguf"),
        (gguf_with_a_configuration, r"Choose one of the files instead: tiny-Q4_0\.gguf, tiny-Q8_0\.gguf"),
        (lambda folder: None, r"has no config\.json, so it is not a model folder"),
    ],
)
def test_folders_that_are_no_model_are_refused_with_a_remedy(make: Callable[[Path], Any], message: str, tmp_path: Path) -> None:
    make(tmp_path)
    with pytest.raises(DraftlightError, match=message):
        load(tmp_path.as_posix())


def test_code_that_comes_with_a_model_is_never_run(tmp_path: Path) -> None:
    """Neither mlx-lm's `model_file` nor the `auto_map` of transformers; the latter hinders nothing."""
    ran = tmp_path / "ran"
    code = f"import pathlib\npathlib.Path({str(ran)!r}).touch()\nfrom mlx_lm.models.llama import Model, ModelArgs\n"
    mapped = tiny_models.write_folder(
        tmp_path / "mapped", auto_map={"AutoConfig": "own.Config", "AutoModelForCausalLM": "own.Model"}, trust_remote_code=True
    )
    settings = json.loads((mapped / "tokenizer_config.json").read_text())
    (mapped / "tokenizer_config.json").write_text(json.dumps(settings | {"auto_map": {"AutoTokenizer": ["own.Tokenizer", None]}}))
    (mapped / "own.py").write_text(code)
    load(mapped.as_posix())
    own = tiny_models.write_folder(tmp_path / "own", model_file="own.py")
    (own / "own.py").write_text(code)
    with pytest.raises(DraftlightError, match=r"needs Python code of its own \(own\.py\).*never run.*Choose a model of"):
        load(own.as_posix())
    assert not ran.exists()


def test_an_architecture_whose_package_is_missing_ends_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """mlx-lm's `olmo` ends the process where the package it needs is not installed."""
    with pytest.raises(DraftlightError, match="needs a package that is not installed"):
        load(tiny_models.write_folder(tmp_path, model_type="olmo").as_posix())


# The Hub


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of the Hub's own programs; the Hub itself cannot be reached."""
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(hub_models, "need_before_download", lambda name, widened: None)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "hub"


def test_local_folder_named_like_the_organisation_does_not_hide_the_hub(hub: Path) -> None:
    cached = tiny_models.write_folder(hub / "models--org--model" / "snapshots" / "abc")
    tiny_models.write_folder(Path("org") / "other")
    assert load("org/model").path == cached.as_posix()
    assert load("org/other").path == "org/other"
    shutil.copytree("org/other", "org/model")
    assert load("org/model").path == "org/model"


def test_unknown_name_is_refused_with_the_places_searched(hub: Path) -> None:
    Path("org").mkdir()
    with pytest.raises(
        DraftlightError, match=r"is not a local folder and could not be .*: .* The folder org here has no mistyped in it\."
    ):
        load("org/mistyped")


def test_an_adapter_alone_says_so(hub: Path) -> None:
    cached = hub / "models--org--adapter" / "snapshots" / "abc"
    cached.mkdir(parents=True)
    adapter_of_peft(cached)
    with pytest.raises(DraftlightError, match="is an adapter"):
        load("org/adapter")
