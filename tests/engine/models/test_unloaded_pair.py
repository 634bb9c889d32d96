"""What files alone say of a pair is what loading both would have said of their tokens."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine.models.loaded import LoadedModel
from engine.models.loading import load
from engine.models.pair_check import check_pair
from engine.models.unloaded_pair import unloaded_pair
from engine.values.errors import DraftlightError
from tests.engine import tiny_models
from tests.engine.block_files import NEW


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> LoadedModel:
    return load(tiny_models.write_folder(tmp_path_factory.mktemp("target") / "target").as_posix())


def renamed(folder: Path) -> Path:
    """The folder with other spellings of two tokens."""
    path = folder / "tokenizer.json"
    text = path.read_text(encoding="utf-8")
    described = json.loads(text)
    spelt = described["model"]["vocab"]
    spelt["a"], spelt["b"] = spelt["b"], spelt["a"]
    path.write_text(json.dumps(described), encoding="utf-8")
    return folder


def test_equal_tokens_fit_in_folders_and_files(target: LoadedModel, tmp_path: Path) -> None:
    for place in (tiny_models.write_folder(tmp_path / "same"), tiny_models.write_gguf(tmp_path / "same.gguf")):
        assert check_pair(target, load(place.as_posix())).usable
        assert unloaded_pair(target, place) == ("", "")


def test_different_vocabularies_get_the_message_of_the_full_check(target: LoadedModel, tmp_path: Path) -> None:
    place = renamed(tiny_models.write_folder(tmp_path / "other"))
    (said,) = check_pair(target, load(place.as_posix())).reasons
    assert "differ in 2 entries" in said
    assert unloaded_pair(target, place) == (said, "")
    (place / "model.safetensors").unlink()
    assert unloaded_pair(target, place) == (said, ""), "the weights were read"


@pytest.mark.parametrize(
    ("kind", "words"), [("draftlight_head", "was not trained for target"), ("draftlight_cut", "was made for")]
)
def test_head_of_another_target_is_refused(kind: str, words: str, target: LoadedModel, tmp_path: Path) -> None:
    for digest, fits in ((target.sha256, True), ("0" * 64, False)):
        (tmp_path / "config.json").write_text(json.dumps({"model_type": kind, "target_sha256": digest}))
        reason, _ = unloaded_pair(target, tmp_path)
        assert (not reason) == fits
        assert fits or words in reason


def test_published_block_drafter_is_checked_by_its_vocabulary(target: LoadedModel, tmp_path: Path) -> None:
    tokens = len(target.vocabulary)
    for vocabulary, words in ((tokens, ""), (5, "made for a target with 5 tokens")):
        (tmp_path / "config.json").write_text(json.dumps({**NEW, "vocab_size": vocabulary}))
        reason, _ = unloaded_pair(target, tmp_path)
        assert bool(reason) == bool(words) and words in reason


def test_damaged_files_give_a_reason(target: LoadedModel, tmp_path: Path) -> None:
    place = tiny_models.write_folder(tmp_path / "damaged")
    (place / "tokenizer.json").write_text("{")
    assert "tokenizer.json" in unloaded_pair(target, place)[0]
    (tmp_path / "cut.gguf").write_bytes(b"GGUF\x03\0\0\0")
    assert "cut.gguf" in unloaded_pair(target, tmp_path / "cut.gguf")[0]


def test_different_chat_template_gives_a_warning_only(target: LoadedModel, tmp_path: Path) -> None:
    place = tiny_models.write_folder(tmp_path / "other")
    settings = json.loads((place / "tokenizer_config.json").read_text())
    for template, said in (
        (tiny_models.TEMPLATE.replace("<|im_start|>", "<|endoftext|>"), "target uses '<|im_start|>', '<|im_end|>', other uses"),
        (tiny_models.TEMPLATE.replace("assistant", "model"), "differ in their words, not in their control tokens"),
        ("{{ messages }}", "other uses no control tokens"),
        ("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}", "Fewer of its proposals"),
        (f"{tiny_models.TEMPLATE}\n", ""),
        (None, "other has no chat template"),
    ):
        (place / "tokenizer_config.json").write_text(json.dumps(settings | {"chat_template": template}))
        reason, warning = unloaded_pair(target, place)
        assert not reason
        assert (said in warning) if said else not warning


@pytest.mark.parametrize(
    ("changes", "words"),
    [({"hidden_act": "gelu"}, "states hidden_act (gelu)"), ({"model_type": "unheard-of"}, "Model type unheard-of not supported")],
)
def test_unsupported_configuration_gives_the_message_of_loading(
    changes: dict[str, str], words: str, target: LoadedModel, tmp_path: Path
) -> None:
    place = tiny_models.write_folder(tmp_path, **changes)
    with pytest.raises(DraftlightError) as refused:
        load(place.as_posix())
    assert unloaded_pair(target, place) == (str(refused.value), "")
    assert words in str(refused.value)
