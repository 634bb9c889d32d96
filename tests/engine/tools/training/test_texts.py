"""Records of text: what is made of given files, how they are stored, and what is said of damaged ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.models import loading
from engine.models.tokenizer import Tokenizer
from engine.tools.training import texts
from engine.tools.training.texts import TextRecord
from engine.values.errors import DraftlightError
from tests.engine import tiny_models

SELF_PLAY = {"tokens": np.arange(30), "offsets": np.array([0, 12, 14, 30]), "prompt_lengths": np.array([1, 2, 9])}
STORED = {name: np.array([9, 12]) for name in ("lengths", "prompts", "groups")}
STORED |= {"tokens": np.arange(21), "temperatures": np.ones(2, np.float32)}


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    return loading.load(str(tiny_models.write_folder(tmp_path_factory.mktemp("model") / "tiny"))).tokenizer


def given(path: Path, tokenizer: Tokenizer, longest: int = 64) -> list[TextRecord]:
    return list(texts.read_given(texts.find([path]), tokenizer, longest))


def test_only_text_is_found_in_a_folder_by_name(tmp_path: Path) -> None:
    for name in ("b.md", "c.jsonl", "a.txt", "d.npz", "ignored.pdf"):
        (tmp_path / name).touch()
    assert [path.name for path in texts.find([tmp_path])] == ["a.txt", "b.md", "c.jsonl", "d.npz"]


def test_a_document_is_cut_into_pieces_of_one_group(tokenizer: Tokenizer, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("hello world, " * 40)
    pieces = given(tmp_path / "a.txt", tokenizer)
    assert len(pieces) > 1 and len({piece.group for piece in pieces}) == 1
    assert max(len(piece.tokens) for piece in pieces) == 64
    assert "".join(tokenizer.decode(piece.tokens[1:]) for piece in pieces) == "hello world, " * 40
    assert all(piece.tokens[0] == tokenizer.bos_id and piece.prompt_length == 1 for piece in pieces)


@pytest.mark.parametrize(
    "line",
    [
        {"prompt": "hello there, hello", "answer": "world to you too"},
        {"messages": [{"role": "user", "content": "hello there, hello"}, {"role": "assistant", "content": "world to you too"}]},
    ],
)
def test_a_chat_is_learned_from_its_last_answer_on(line: dict[str, Any], tokenizer: Tokenizer, tmp_path: Path) -> None:
    (tmp_path / "c.jsonl").write_text(json.dumps({"text": "hello world, and more"}) + "\n\n" + json.dumps(line))
    document, chat = given(tmp_path / "c.jsonl", tokenizer)
    assert (document.prompt_length, tokenizer.decode(document.tokens[1:])) == (1, "hello world, and more")
    assert tokenizer.decode(chat.tokens[: chat.prompt_length]).endswith("<|im_start|>assistant\n")
    assert tokenizer.decode(chat.tokens[chat.prompt_length :]) == "world to you too<|im_end|>"
    assert chat.group == texts.group_of(chat.tokens[: chat.prompt_length])


def test_text_that_the_target_wrote_is_read_as_documented(tokenizer: Tokenizer, tmp_path: Path) -> None:
    np.savez(tmp_path / "d.npz", **SELF_PLAY)
    first, last = given(tmp_path / "d.npz", tokenizer)  # the second record has no answer
    assert (first.tokens.tolist(), first.prompt_length) == (list(range(12)), 1)
    assert (last.tokens.tolist(), last.prompt_length) == (list(range(14, 30)), 9)
    assert last.group == texts.group_of(last.tokens[:9])


def test_records_are_read_as_they_were_saved(tmp_path: Path) -> None:
    records = [TextRecord(np.arange(length, dtype=np.uint32), 2, 10**9 + length, 0.5) for length in (9, 12)]
    texts.save(tmp_path / "given-00000.npz", records)
    for one, other in zip(records, texts.load(tmp_path / "given-00000.npz"), strict=True):
        np.testing.assert_array_equal(one.tokens, other.tokens)
        assert (one.prompt_length, one.group, one.temperature) == (other.prompt_length, other.group, other.temperature)


@pytest.mark.parametrize("is_stored", [True, False])
@pytest.mark.parametrize("damage", ["no archive", "empty", "cut off", "other directory", "header"])
def test_a_damaged_archive_is_named_with_the_remedy(damage: str, is_stored: bool, tokenizer: Tokenizer, tmp_path: Path) -> None:
    path = tmp_path / "given-00000.npz"
    np.savez(path, **(STORED if is_stored else SELF_PLAY))
    whole = path.read_bytes()
    damaged = {"no archive": b"no archive", "empty": b"", "cut off": whole[:-30]}
    damaged |= {
        "other directory": whole.replace(b"PK\x01\x02", b"PK\x01\x03"),
        "header": b"\x93NUMPY\x01\x00\x10\x00{'d': ((((\n",
    }
    path.write_bytes(damaged[damage])
    with pytest.raises(DraftlightError, match=r"given-00000\.npz is .*damaged .*Remove it"):
        texts.load(path) if is_stored else given(path, tokenizer)


@pytest.mark.parametrize(
    ("sound", "name", "array"),
    [
        (STORED, "lengths", np.array(21)),
        (STORED, "lengths", np.array([9, 13])),
        (STORED, "tokens", np.array(["a"] * 21)),
        (STORED, "groups", np.array(1)),
        (SELF_PLAY, "offsets", np.array(3)),
        (SELF_PLAY, "offsets", np.array(["0", "9"])),
        (SELF_PLAY, "offsets", np.array([0, 12, 14, 31])),
        (SELF_PLAY, "prompt_lengths", np.array(["2"])),
    ],
)
def test_arrays_of_another_kind_or_size_are_refused(
    sound: dict[str, np.ndarray], name: str, array: np.ndarray, tokenizer: Tokenizer, tmp_path: Path
) -> None:
    np.savez(tmp_path / "given-00000.npz", **{**sound, name: array})
    with pytest.raises(DraftlightError, match=r"damaged \((its|\w+ is not a row of whole numbers)"):
        texts.load(tmp_path / "given-00000.npz") if sound is STORED else given(tmp_path / "given-00000.npz", tokenizer)


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("missing.txt", None, "There is no text at"),
        ("notes.pdf", b"%PDF", "does not end in .txt, .md, .jsonl, .npz"),
        ("chat.jsonl", b'{"messages": []}', "chat.jsonl, line 1, is not a chat"),
        ("chat.jsonl", b'{"text": "fine and long enough"}\nnot json', "chat.jsonl, line 2, is not a chat"),
        ("chat.jsonl", b"[1, 2]", "is not a chat"),
        ("chat.jsonl", b'{"prompt": "a", "answer": 3}', "is not a chat"),
        ("latin.txt", b"caf\xe9 " * 20, "Text must be UTF-8"),
    ],
)
def test_unreadable_files_are_named(name: str, content: bytes | None, said: str, tokenizer: Tokenizer, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(DraftlightError, match=said):
        given(tmp_path / name, tokenizer)


def test_text_of_another_vocabulary_is_refused(tokenizer: Tokenizer, tmp_path: Path) -> None:
    np.savez(tmp_path / "d.npz", **{**SELF_PLAY, "tokens": np.full(30, 40000, np.uint16)})
    with pytest.raises(DraftlightError, match="written by another model"):
        given(tmp_path / "d.npz", tokenizer)


def test_an_empty_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(DraftlightError, match="There is no text in"):
        texts.find([tmp_path])
