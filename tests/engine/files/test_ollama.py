"""Models of Ollama: every name is one, with its own system prompt and parameters, and never without its adapter."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine.files import library, recommended_sampling
from engine.files.ollama import model_of, name_of
from engine.models.loading import load
from engine.models.unloaded_pair import unloaded_pair
from engine.values.errors import DraftlightError
from tests.engine import tiny_models
from tests.engine.files.ollama_store import write_layer, write_manifest, write_weights

HOST = "registry.ollama.ai/library"
PARAMETERS = {
    "temperature": 0.3,
    "repeat_penalty": 1.1,
    "top_k": 7,
    "num_ctx": 4096,
    "stop": ["<|im_end|>", "User:"],
    "top_p": "x",
}


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OLLAMA_MODELS", (tmp_path / "ollama").as_posix())
    monkeypatch.setenv("HOME", (tmp_path / "home").as_posix())
    monkeypatch.setenv("HF_HUB_CACHE", (tmp_path / "hub").as_posix())
    monkeypatch.setenv("DRAFTLIGHT_HOME", (tmp_path / "draftlight").as_posix())
    (tmp_path / "ollama").mkdir()
    return tmp_path / "ollama"


def listed() -> dict[str, library.LibraryModel]:
    return {model.name: model for model in library.find() if model.source == "Ollama"}


def test_every_name_is_listed_and_loaded_though_they_share_a_file(store: Path) -> None:
    weights = write_weights(store)
    for name in (f"{HOST}/llama3/latest", f"{HOST}/llama3/8b", "registry.ollama.ai/me/mine/v1", "hf.co/me/other/Q4_0"):
        write_manifest(store, name, weights)
    write_manifest(store, f"{HOST}/._llama3/latest", weights)
    (store / "manifests" / HOST / "llama3" / "._latest").write_bytes(b"\0\5\x16\7")
    write_manifest(store, f"{HOST}/cloud/latest", write_layer(store, "license", b"MIT"))
    write_manifest(store, f"{HOST}/gone/latest", (weights[0], "sha256:gone"))
    (write_manifest(store, f"{HOST}/odd/latest")).write_text('{"layers": [3, {"mediaType": 3}, {"digest": "x"}]}')
    found = listed()
    assert set(found) == {"llama3:latest", "llama3:8b", "me/mine:v1", "hf.co/me/other:Q4_0"}
    assert len({model.target for model in found.values()}) == 4
    for name, model in found.items():
        loaded = load(model.target)
        assert (loaded.name, loaded.path, loaded.context_length) == (name, model.target, model.context)
        assert loaded.weight_files == (store / "blobs" / weights[1].replace(":", "-"),)
        assert name_of(model.target) == name
        assert (model.problem, model.form, model.size) == ("", "GGUF", loaded.weight_files[0].stat().st_size)
    assert name_of("/models/folder/of/a/model.gguf") == name_of("builtin") == ""


def test_system_prompt_and_parameters_come_with_the_name(store: Path) -> None:
    weights = write_weights(store, general__sampling__temp=0.9, general__sampling__min_p=0.05)
    layers = (
        write_layer(store, "system", " You are\nMario. é\n".encode()),
        write_layer(store, "params", json.dumps(PARAMETERS).encode()),
    )
    mario, plain = (write_manifest(store, f"{HOST}/{name}/latest", weights) for name in ("a-mario", "llama3"))
    write_manifest(store, f"{HOST}/a-mario/latest", weights, *layers)
    expected = {
        "temperature": 0.3,
        "top_k": 7,
        "min_p": 0.05,
        "repetition_penalty": 1.1,
        "stop": ("<|im_end|>", "User:"),
        "system_prompt": "You are\nMario. é",
    }
    assert dict(load(mario.as_posix()).sampling) == dict(recommended_sampling.of_target(mario.as_posix())) == expected
    assert dict(load(plain.as_posix()).sampling) == {"temperature": 0.9, "min_p": 0.05}


def test_layers_that_cannot_be_read_are_left_out(store: Path) -> None:
    weights = write_weights(store)
    broken = [write_layer(store, "params", text) for text in (b"[1]", b"{", b'{"stop": 3, "temperature": "hot"}')]
    lost = ("application/vnd.ollama.image.system", "sha256:lost")
    long = write_layer(store, "system", b"a" * 1_000_001)
    for layer in (*broken, lost, long):
        path = write_manifest(store, f"{HOST}/odd/latest", weights, layer)
        assert recommended_sampling.of_target(path.as_posix()) == () == load(path.as_posix()).sampling


def test_a_model_with_an_adapter_never_answers_as_its_base(store: Path) -> None:
    weights = write_weights(store)
    adapter = write_layer(store, "adapter", b"GGUF and so on")
    path = write_manifest(store, f"{HOST}/my-lora/latest", weights, adapter)
    blob = store / "blobs" / weights[1].replace(":", "-")
    said = (
        rf"my-lora:latest has a LoRA adapter \({adapter[1][:19]}…\), which cannot be used .*Choose that, or .*llama-export-lora"
    )
    for target in (path, blob):
        with pytest.raises(DraftlightError, match=said):
            load(target.as_posix())
    target = load(tiny_models.write_folder(store / "folder").as_posix())
    assert "has a LoRA adapter" in unloaded_pair(target, path)[0]
    assert "It has a LoRA adapter" in listed()["my-lora:latest"].problem
    write_manifest(store, f"{HOST}/base/latest", weights)
    assert load(blob.as_posix()).name == blob.name, "another name has the file without an adapter"
    assert unloaded_pair(target, Path(listed()["base:latest"].target)) == ("", "")


def test_a_file_of_weights_is_the_one_model_that_has_it(store: Path) -> None:
    """As chats from earlier versions name it."""
    weights, system = write_weights(store), write_layer(store, "system", b"You are Mario.")
    blob = store / "blobs" / weights[1].replace(":", "-")
    assert model_of(blob) is None
    write_manifest(store, f"{HOST}/mario/latest", weights, system)
    assert load(blob.as_posix()).name == "mario:latest"
    assert dict(recommended_sampling.of_target(blob.as_posix())) == {"system_prompt": "You are Mario."}
    write_manifest(store, f"{HOST}/llama3/latest", weights)
    assert model_of(blob) is None and recommended_sampling.of_target(blob.as_posix()) == ()


def test_changed_manifest_is_read_again(store: Path) -> None:
    weights = write_weights(store)
    write_manifest(store, f"{HOST}/one/latest", weights)
    assert listed()["one:latest"].problem == ""
    write_manifest(store, f"{HOST}/one/latest", weights, write_layer(store, "adapter", b"x"))
    assert "LoRA" in listed()["one:latest"].problem
