"""Tokens that a model has no embedding for, and doubled or empty entries: they are unusable, and the model is not."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
from tokenizers import AddedToken, models
from tokenizers import Tokenizer as Backend
from tokenizers.processors import TemplateProcessing
from transformers import AutoTokenizer

from engine.decode.decoding import decode
from engine.models.gguf_tokenizer import from_gguf
from engine.models.loaded import LoadedModel
from engine.models.loading import load
from engine.models.tokenizer_files import from_folder
from engine.types import DecodingOptions
from engine.values.errors import DraftlightError
from tests.engine import tiny_models

WIDTH = tiny_models.VOCABULARY
TEXTS = ("hello world 42", "  héllo\n<|im_end|>", "<image_soft_token> and [PAD]")


def added(index: int, text: str, special: bool = True) -> dict[str, Any]:
    """As `tokenizer.json` describes an added token."""
    flags = dict.fromkeys(("normalized", "lstrip", "rstrip", "single_word"), False)
    return {"id": index, "content": text, "special": special} | flags


ODD: dict[str, tuple[list[dict[str, Any]], dict[str, int]]] = {
    "one, as in Gemma 3": ([added(WIDTH, "<image_soft_token>")], {"<image_soft_token>": WIDTH}),
    "only an added one": ([added(WIDTH, "[PAD]")], {}),
    "only in the vocabulary": ([], {"<image_soft_token>": WIDTH}),
    "several, far away": (
        [added(WIDTH, "[PAD]"), added(WIDTH + 9, "<a>", special=False), added(2**31, "<b>")],
        {"<image_soft_token>": WIDTH + 70, "<c>": 10**9},
    ),
}


@pytest.mark.parametrize("name", ODD)
def test_a_model_is_used_without_the_tokens_it_has_no_embedding_for(name: str, tmp_path: Path) -> None:
    folder = tiny_models.write_folder(tmp_path)
    path = folder / "tokenizer.json"
    described = json.loads(path.read_text())
    more, entries = ODD[name]
    described["added_tokens"] += more
    described["model"]["vocab"] |= entries
    path.write_text(json.dumps(described))
    loaded = load(folder.as_posix())
    assert loaded.vocabulary == load(tiny_models.write_folder(tmp_path / "plain").as_posix()).vocabulary
    plain = tiny_models.backend()
    for text in TEXTS:
        assert loaded.tokenizer.encode(text, allow_special=True) == plain.encode(text, add_special_tokens=False).ids
    theirs = AutoTokenizer.from_pretrained(folder).apply_chat_template([{"role": "user", "content": "hello"}], return_dict=False)
    assert loaded.tokenizer.apply_chat_template([{"role": "user", "content": "hello"}], False) == theirs


def test_prefix_omits_tokens_beyond_the_embedding(tmp_path: Path) -> None:
    folder = tiny_models.write_folder(tmp_path)
    made = tiny_models.backend()
    made.add_special_tokens([AddedToken("<odd>", special=True)])
    made.post_processor = TemplateProcessing(
        single="<odd> <|im_start|> $A", special_tokens=[("<odd>", WIDTH), ("<|im_start|>", 1)]
    )
    made.save((folder / "tokenizer.json").as_posix())
    assert from_folder(folder, WIDTH + 1).raw_prompt("ab")[:2] == [WIDTH, 1]
    assert from_folder(folder, WIDTH).raw_prompt("ab") == [1, *from_folder(folder, WIDTH).encode("ab")]


def test_a_unigram_vocabulary_may_have_one_more_too(tmp_path: Path) -> None:
    pieces = [("<unk>", 0.0), *((letter, -1.0) for letter in "▁abc"), ("<odd>", -3.0)]
    described = json.loads(Backend(models.Unigram(pieces, 0, False)).to_str())
    described |= {"decoder": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "never", "split": True}}
    described["added_tokens"] = [added(len(pieces) - 1, "<odd>")]
    (tmp_path / "tokenizer.json").write_text(json.dumps(described))
    assert from_folder(tmp_path, len(pieces) - 1).encode("abc") == [2, 3, 4]


def test_the_tokenizer_of_another_model_is_still_refused(tmp_path: Path) -> None:
    folder = tiny_models.write_folder(tmp_path)
    for narrower in (1, 3, 100):
        with pytest.raises(DraftlightError, match="do not match"):
            from_folder(folder, WIDTH - narrower)


@pytest.mark.parametrize("place", ["added_tokens.json", "tokenizer_config.json"])
def test_an_added_token_behind_a_sentencepiece_model_may_have_no_embedding(place: str, tmp_path: Path) -> None:
    """As in fine-tunes of Llama that added a [PAD]."""
    written = io.BytesIO()
    lines = iter(Path(__file__).read_text(encoding="utf-8").split("\n"))
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=lines, model_writer=written, model_type="bpe", vocab_size=400, byte_fallback=True, minloglevel=2
    )
    (tmp_path / "tokenizer.model").write_bytes(written.getvalue())
    odd = {"[PAD]": 400, "<far>": 10**9}
    settings: dict[str, Any] = {
        "bos_token": "<s>",
        "eos_token": "</s>",
        "pad_token": "[PAD]",
        "tokenizer_class": "LlamaTokenizer",
    }
    if place == "tokenizer_config.json":
        settings["added_tokens_decoder"] = {str(index): {"content": text, "special": True} for text, index in odd.items()}
    else:
        (tmp_path / place).write_text(json.dumps(odd))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
    ours = from_folder(tmp_path, 400)
    for text in TEXTS:
        assert ours.encode(text) == sentencepiece.SentencePieceProcessor(model_proto=written.getvalue()).encode(text)
    assert (len(ours.vocabulary), ours.eos_ids, set(ours.special)) == (400, {2}, {1, 2})


def drawn(loaded: LoadedModel) -> set[int]:
    """Tokens of an answer that is all but drawn evenly."""
    options = DecodingOptions(temperature=100.0, max_tokens=30, seed=1)
    rounds = decode(loaded, loaded.tokenizer.encode("ab"), None, options, eos_ids=())
    return {token.id for each in rounds for token in each.emitted}


def test_doubled_and_empty_entries_of_a_gguf_file_are_never_used(tmp_path: Path) -> None:
    """The last three, of which a merge makes two; and a third of all, of which none is in the text."""
    tokens = tiny_models.tokens()
    unused = [token for token in tokens[3:259] if token not in "helowrd42ĠÃ©Ċabimnd_stop<|>[]PADkn"]
    for lost in (tokens[-3:], unused[:80]):
        entries = [("" if index % 2 else "<|im_start|>") if token in lost else token for index, token in enumerate(tokens)]
        path = tiny_models.write_gguf(tmp_path / "odd.gguf", tokenizer__ggml__tokens=entries)
        loaded = load(path.as_posix())
        odd = {tokens.index(token) for token in lost}
        assert {index for index, entry in enumerate(loaded.vocabulary) if entry is None} == odd
        assert not odd & drawn(loaded)
        described = json.loads(tiny_models.backend().to_str())
        described["model"]["vocab"] = {token: index for token, index in described["model"]["vocab"].items() if token not in lost}
        merges = [merge for merge in described["model"]["merges"] if not {*merge, "".join(merge)} & set(lost)]
        described["model"]["merges"] = merges
        theirs = Backend.from_str(json.dumps(described))
        for text in ("hello world 42", "abé  <|im_start|>\n"):
            assert loaded.tokenizer.encode(text, allow_special=True) == theirs.encode(text, add_special_tokens=False).ids


def test_of_duplicate_entries_the_used_one_remains(tmp_path: Path) -> None:
    """The one that the file names, else a control token, else the first."""
    tokens, types = tiny_models.tokens(), tiny_models.metadata()["tokenizer.ggml.token_type"]
    tokens += ["<|im_end|>", "<|im_start|>", "twice", "twice", "<odd>", "<odd>"]
    types = [*types, 3, 1, 1, 1, 1, 3]
    changes = {"tokenizer.ggml.tokens": tokens, "tokenizer.ggml.token_type": types, "tokenizer.ggml.eos_token_id": WIDTH}
    made = from_gguf(tiny_models.metadata() | changes, len(tokens))
    assert [index for index, entry in enumerate(made.vocabulary) if entry is None] == [2, WIDTH + 1, WIDTH + 3, WIDTH + 4]
    assert made.encode("<|im_end|><|im_start|><odd>", allow_special=True) == [WIDTH, 1, WIDTH + 5]
    assert made.eos_ids == {0, WIDTH}


def test_a_gguf_file_may_have_control_tokens_behind_its_embeddings(tmp_path: Path) -> None:
    plain = tiny_models.metadata()
    more = {"tokenizer.ggml.tokens": [*tiny_models.tokens(), "<odd>", "<odder>"], "tokenizer.ggml.padding_token_id": WIDTH}
    kinds = plain["tokenizer.ggml.token_type"]
    made = from_gguf(plain | more | {"tokenizer.ggml.token_type": [*kinds, 3, 4]}, WIDTH)
    assert (len(made.vocabulary), made.named.get("pad_token")) == (WIDTH, None)
    assert made.encode("<odd>hello", allow_special=True) == tiny_models.backend().encode("<odd>hello").ids
    with pytest.raises(DraftlightError, match=rf"{WIDTH} embeddings"):
        from_gguf(plain | more | {"tokenizer.ggml.token_type": [*kinds, 3, 1]}, WIDTH)
