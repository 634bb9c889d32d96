"""What lies in the places where other programs keep models, told from headers, and read again only when it has changed."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import platformdirs
import pytest

from app.cli.models import show_models
from engine.files import library, recommended_sampling
from engine.models.loading import load
from engine.values.errors import DraftlightError
from tests.engine import eagle_files, gguf_files, mtp_files, tiny_models
from tests.engine.checkpoint_folders import write_tensors


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder with models of every program."""
    for name in ("HF_HOME", "HF_HUB_CACHE", "OLLAMA_MODELS", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", tmp_path.as_posix())
    monkeypatch.setenv("DRAFTLIGHT_HOME", (tmp_path / "draftlight").as_posix())
    made = tiny_models.write_gguf(tmp_path / "made.gguf", "Q4_0", general__file_type=2)
    studio = tmp_path / ".lmstudio" / "models" / "publisher" / "tiny-GGUF"
    studio.mkdir(parents=True)
    shutil.copy(made, studio / "tiny-Q4_0.gguf")
    (studio / "mmproj-tiny.gguf").write_bytes(b"GGUF")
    hub = tmp_path / ".cache" / "huggingface" / "hub" / "models--org--tiny"
    tiny_models.write_folder(hub / "snapshots" / "new")
    tiny_models.write_folder(hub / "snapshots" / "old")
    (hub / "refs").mkdir()
    (hub / "refs" / "main").write_text("new")
    ollama = tmp_path / ".ollama" / "models"
    manifest = ollama / "manifests" / "registry.ollama.ai" / "library" / "tiny" / "latest"
    manifest.parent.mkdir(parents=True)
    layers = [{"mediaType": "application/vnd.ollama.image.model", "digest": "sha256:abc"}]
    manifest.write_text(json.dumps({"layers": layers}))
    (ollama / "blobs").mkdir()
    made.rename(ollama / "blobs" / "sha256-abc")
    return tmp_path


def test_models_of_other_programs_are_found_and_can_be_loaded(home: Path) -> None:
    found = {model.source: model for model in library.find()}
    assert {source: model.name for source, model in found.items()} == {
        "Hugging Face": "org/tiny",
        "LM Studio": "publisher/tiny-GGUF/tiny-Q4_0",
        "Ollama": "tiny:latest",
    }
    assert found["Hugging Face"].target.endswith("snapshots/new")
    for model in found.values():
        assert (model.architecture, model.context, model.remembers, model.problem) == ("llama", tiny_models.CONTEXT, "keys", "")
        assert load(model.target).context_length == model.context
    assert [found[source].form for source in ("Hugging Face", "LM Studio", "Ollama")] == ["safetensors", "GGUF", "GGUF"]
    assert found["Ollama"].quantisation == "Q4_0"
    assert found["Hugging Face"].quantisation == "F32"


def test_found_models_are_read_again_only_after_a_change(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[Path] = []
    for name in ("read_beginning", "weights_of"):  # of GGUF files and of folders
        reading = getattr(library, name)
        monkeypatch.setattr(library, name, lambda path, reading=reading: (read.append(path), reading(path))[1])
    first = library.find()
    assert len(read) == 3
    assert library.find() == first
    assert len(read) == 3
    (changed,) = (model for model in first if model.source == "LM Studio")
    os.utime(changed.target, ns=(1, 1))
    assert library.find() == first
    assert read[3:] == [Path(changed.target)]
    (home / "draftlight" / "library.json").write_text('{"version": 1, "models": {"x": 3}}')
    assert library.find() == first
    Path(changed.target).unlink()
    assert changed not in library.find()


def test_estimated_need_is_about_the_loaded_size(home: Path) -> None:
    for model in library.find():
        told: list[int] = []
        load(model.target, make_room=lambda need, told=told: told.append(need.total))
        assert model.need == pytest.approx(told[0], rel=0.2)


@pytest.mark.parametrize(
    ("name", "remembers"), [("qwen3", "keys"), ("gemma3", "window"), ("gpt-oss", "window"), ("cohere2", "window")]
)
def test_attention_kind_is_read_from_the_header(name: str, remembers: str, home: Path) -> None:
    gguf_files.write_pair(name, "F32", home / "mine")
    models = library.find([home / "mine"])
    assert {model.remembers for model in models if model.source == str(home / "mine")} == {remembers}


def test_unusable_models_are_listed_with_the_reason(home: Path) -> None:
    mine = home / "mine"
    mine.mkdir()
    tiny_models.write_gguf(mine / "other.gguf", architecture="rwkv6")
    tiny_models.write_gguf(mine / "split-00001-of-00002.gguf", split__count=2)
    (mine / "damaged.gguf").write_bytes(b"GGUF\x03\0\0\0" + b"\xff" * 16)
    cut = tiny_models.write_folder(mine / "cut")
    with (cut / "model.safetensors").open("r+b") as file:
        file.truncate(900)
    problems = {model.name: model.problem for model in library.find([mine, home / "missing"]) if model.source == str(mine)}
    assert "rwkv6 is not supported" in problems["other"]
    assert "split into several files" in problems["split-00001-of-00002"]
    assert "claims to have" in problems["damaged"]
    assert "is damaged" in problems["cut"]


@pytest.mark.parametrize("place", ["home", "pointer", "application data", "old home"])
def test_chosen_folder_of_lm_studio_is_searched(place: str, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", (home / "config").as_posix())
    chosen = home / "drive" / "models"
    (chosen / "publisher" / "moved").mkdir(parents=True)
    tiny_models.write_gguf(chosen / "publisher" / "moved" / "moved.gguf")
    settings = {
        "home": home / ".lmstudio",
        "pointer": home / "elsewhere",
        "application data": Path(platformdirs.user_config_path("LM Studio", appauthor=False, roaming=True)),
        "old home": home / ".cache" / "lm-studio",
    }[place]
    settings.mkdir(parents=True, exist_ok=True)
    if place == "pointer":
        (home / ".lmstudio-home-pointer").write_text(f"{settings}\n", encoding="utf-8-sig")
        tiny_models.write_folder(settings / "models" / "publisher" / "beside")
    written = "~/drive/models" if place == "old home" else chosen.as_posix()
    (settings / "settings.json").write_text(json.dumps({"downloadsFolder": written}))
    names = {model.name for model in library.find() if model.source == "LM Studio"}
    beside = {"publisher/beside"} if place == "pointer" else set()
    assert names == {"publisher/tiny-GGUF/tiny-Q4_0", "publisher/moved/moved"} | beside
    (settings / "settings.json").write_text('{"downloadsFolder": ["\0"]}')
    (home / ".lmstudio-home-pointer").write_bytes(b"\xff\0")
    assert "publisher/tiny-GGUF/tiny-Q4_0" in {model.name for model in library.find()}


APPLE_DOUBLE = bytes.fromhex("0005160700020000") + b"Mac OS X        " + bytes(4000)


def test_appledouble_files_are_no_models(home: Path) -> None:
    """On a drive that cannot hold it otherwise, it lies beside each file under its name."""
    mine = home / "mine"
    folder = tiny_models.write_folder(mine / "folder")
    tiny_models.write_gguf(mine / "good.gguf")
    (mine / "alone").mkdir()
    (mine / "alone" / "config.json").write_text("{}")
    for name in (
        "good.gguf",
        "folder/config.json",
        "folder/model.safetensors",
        "folder/tokenizer.json",
        "alone/model.safetensors",
    ):
        place = mine / name
        place.with_name(f"._{place.name}").write_bytes(APPLE_DOUBLE)
    found = {model.name: model.problem for model in library.find([mine]) if model.source == str(mine)}
    assert found == {"good": "", "folder": ""}
    load(folder.as_posix())
    with pytest.raises(DraftlightError, match=r"._good.gguf only holds what macOS notes about another file\. Choose the file"):
        load((mine / "._good.gguf").as_posix())


def test_of_a_split_file_the_first_part_is_listed(home: Path) -> None:
    """llama.cpp notes behind the vocabulary that it is split, so the listing goes by the name."""
    mine = home / "mine"
    mine.mkdir()
    for name in ("a-00001-of-00003", "a-00002-of-00003", "a-00003-of-00003", "b-00002-of-00002"):
        tiny_models.write_gguf(mine / f"{name}.gguf")
    problems = {model.name: model.problem for model in library.find([mine]) if model.source == str(mine)}
    assert set(problems) == {"a-00001-of-00003", "b-00002-of-00002"}
    assert problems["a-00001-of-00003"].startswith("It is part 1 of 3 of a model that is split into several files. Join them")
    assert problems["b-00002-of-00002"].startswith("It is part 2 of 2")


@pytest.mark.parametrize("note", ["new\n", " new \r\n", None, "gone", "../../elsewhere"])
def test_copied_hub_cache_without_refs_is_read(note: str | None, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Listed, loaded by its name without a network, and recommended sampling is found, too."""
    hub = home / ".cache" / "huggingface" / "hub"
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", hub.as_posix())
    repository = hub / "models--org--tiny"
    os.utime(repository / "snapshots" / "old", (1, 1))
    (repository / "snapshots" / "new" / "generation_config.json").write_text('{"temperature": 0.25}')
    (repository / "refs" / "main").unlink()
    if note is not None:
        (repository / "refs" / "main").write_text(note)
    (listed,) = (model for model in library.find() if model.source == "Hugging Face")
    assert (listed.name, listed.target) == ("org/tiny", (repository / "snapshots" / "new").as_posix())
    loaded = load("org/tiny")
    assert (loaded.name, loaded.path) == ("org/tiny", listed.target)
    assert recommended_sampling.of_target("org/tiny") == loaded.sampling == (("temperature", 0.25),)
    (repository / "snapshots" / "new" / "model.safetensors").unlink()
    if note in (None, "gone", "../../elsewhere"):
        assert load("org/tiny").path.endswith("old"), "the newest that is whole"


def test_unknown_architecture_is_reported_without_mlx(home: Path) -> None:
    for architecture in ("llama", "mistral", "kimi_k2", "qwen3_next", "draftlight_head", "draftlight_block"):
        assert library.problem_of_architecture(architecture) == ""
    assert library.problem_of_architecture("unheard_of") == "mlx-lm has no architecture unheard_of."


# Heads


def test_three_states_of_a_head_are_told(home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of an original checkpoint, of mlx-lm's conversion, which drops the head, and of a model that never had one; a folder with a
    head alone is a drafter."""
    folder = tmp_path / "models"
    mtp_files.write_published(folder / "original", "qwen3_5")
    mtp_files.write_promise(folder / "converted", "qwen3_5")
    glm = mtp_files.FAMILIES["glm4_moe"]
    both = mtp_files.stacked({**glm.target_weights(), **glm.head_weights()})
    gguf_files.write_published(folder / "of-llama.cpp.gguf", "glm4moe", glm.config, both)
    eagle_files.write_target(folder / "without")
    mtp_files.write_drafter(folder / "alone", "qwen3_5")
    eagle_files.write_head(folder / "eagle", "authors")
    found = {model.name: model for model in library.find([folder]) if model.source == str(folder)}
    assert {name: model.head for name, model in found.items()} == {
        "original": "yes",
        "of-llama.cpp": "yes",
        "converted": "missing",
        "without": "no",
        "alone": "",
        "eagle": "",
    }
    assert "15 tensors, 1 layer" in found["original"].heads and "mlx_vlm.split_mtp" in found["converted"].heads
    assert found["alone"].only_drafts and found["eagle"].only_drafts
    show_models([folder])
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert {row[0]: row.count("missing") for row in rows if row[0] in found} == {name: name == "converted" for name in found}
    for name in ("alone", "eagle"):
        with pytest.raises(DraftlightError, match=r"contains only a drafter \((MTP|EAGLE-3) head\).* Choose it as the drafter"):
            load(found[name].target)


def test_a_head_that_is_put_beside_a_model_is_noticed(home: Path, tmp_path: Path) -> None:
    folder = tmp_path / "models"
    mtp_files.write_promise(folder / "tiny", "qwen3_5")
    assert [model.head for model in library.find([folder]) if model.source == str(folder)] == ["missing"]
    write_tensors(folder / "tiny" / "mtp.safetensors", mtp_files.FAMILIES["qwen3_5"].head_weights())
    assert [model.head for model in library.find([folder]) if model.source == str(folder)] == ["yes"]
