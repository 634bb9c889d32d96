"""Tokenizers of SentencePiece's kinds against SentencePiece, and ranks against tiktoken; in GGUF files and in folders."""

from __future__ import annotations

import base64
import io
import json
import random
import unicodedata
from pathlib import Path
from typing import Any

import pytest
import regex
import sentencepiece
import tiktoken
from sentencepiece import sentencepiece_model_pb2
from tokenizers import decoders

from engine.models.gguf_tokenizer import from_gguf
from engine.models.pieces import WORD_SPLITS
from engine.models.tokenizer import Tokenizer
from engine.models.tokenizer_files import from_folder
from engine.values.errors import DraftlightError
from tests.engine import tiny_models
from tests.engine.models.test_tokenizer import LLAMA3_WORDS, MORE_TEXTS, random_texts

ROOT = Path(__file__).parents[3]
TEXTS = [
    *(ROOT / "README.md").read_text(encoding="utf-8").split("\n")[:60],
    *["  two  spaces ", "\n\nnew\nlines\t\ttabs", "<s>typed</s> <unk>", "naïve 東京 🫠 ½", "", " ", "▁ already ▁▁ there"],
    *random_texts(150),
]
WIDTH = 700


@pytest.fixture(scope="module", params=["bpe", "unigram", "bpe, gemma's way"])
def model(request: pytest.FixtureRequest) -> bytes:
    """A model that SentencePiece has trained on this project's own texts."""
    written = io.BytesIO()
    kind, _, gemma = request.param.partition(", ")
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter((ROOT / "DESIGN.md").read_text(encoding="utf-8").split("\n")[:120]),
        model_writer=written,
        model_type=kind,
        vocab_size=600,
        character_coverage=0.995,
        byte_fallback=True,
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        add_dummy_prefix=not gemma,
        user_defined_symbols=["<start_of_turn>", "\t\t"] if gemma else [],
        minloglevel=2,
    )
    return written.getvalue()


def proto_of(model: bytes) -> Any:
    proto = sentencepiece_model_pb2.ModelProto()
    proto.ParseFromString(model)
    return proto


def metadata_of(model: bytes) -> dict[str, Any]:
    """As llama.cpp's conversion writes it (`_set_vocab_sentencepiece`)."""
    proto = proto_of(model)
    return {
        "general.architecture": "llama",
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": [piece.piece for piece in proto.pieces],
        "tokenizer.ggml.scores": [piece.score for piece in proto.pieces],
        "tokenizer.ggml.token_type": [piece.type for piece in proto.pieces],
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.unknown_token_id": 0,
        "tokenizer.ggml.add_space_prefix": proto.normalizer_spec.add_dummy_prefix,
        "tokenizer.chat_template": "{% for m in messages %}<s>{{ m['content'] }}</s>{% endfor %}",
    }


def tokenizers_of(model: bytes, folder: Path) -> list[Tokenizer]:
    (folder / "tokenizer.model").write_bytes(model)
    named = {"bos_token": "<s>", "eos_token": "</s>", "tokenizer_class": "LlamaTokenizer"}
    named["chat_template"] = metadata_of(model)["tokenizer.chat_template"]
    (folder / "tokenizer_config.json").write_text(json.dumps(named))
    made = [from_folder(folder, WIDTH)]
    if proto_of(model).trainer_spec.model_type == 2:  # files of GGUF are for BPE only
        made.append(from_gguf(metadata_of(model), WIDTH))
    return made


def test_ids_are_sentencepieces_and_decode_to_the_text(model: bytes, tmp_path: Path) -> None:
    theirs = sentencepiece.SentencePieceProcessor(model_proto=model)
    for ours in tokenizers_of(model, tmp_path):
        for text in TEXTS:
            expected = theirs.encode(text)
            assert ours.encode(text) == expected, repr(text)
            spaced = proto_of(model).normalizer_spec.add_dummy_prefix and bool(text)
            if "▁" not in text:
                assert ours.decode(expected) == " " * spaced + text


def test_typed_control_tokens_are_text_and_those_of_the_template_are_not(model: bytes, tmp_path: Path) -> None:
    for ours in tokenizers_of(model, tmp_path):
        assert {1, 2} & set(ours.encode("<s>hello</s>")) == set()
        ids = ours.apply_chat_template([{"role": "user", "content": "say <s> and </s>"}])
        assert (ids[0], ids[-1]) == (1, 2)
        assert {1, 2} & set(ids[1:-1]) == set()
        assert ours.apply_chat_template([{"role": "user", "content": "hello"}]) == [1, *ours.encode("hello"), 2]
        assert ours.prefix == (1,)
        assert ours.eos_ids == {2}


def test_pieces_that_the_settings_list_as_special_are_control_tokens(model: bytes, tmp_path: Path) -> None:
    """As in Gemma's folders, whose `tokenizer.model` has them as symbols that a user defined."""
    tokenizers_of(model, tmp_path)
    listed = [piece.piece for piece in proto_of(model).pieces if piece.type == 4][:1] or ["▁the"]
    path = tmp_path / "tokenizer_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"additional_special_tokens": listed, "pad_token": "e"}))
    ours = from_folder(tmp_path, WIDTH)
    assert {token.text for token in ours.special.values()} == {"<s>", "</s>", *listed}
    typed = ours.encode(f"a{listed[0]}e")
    assert not set(typed) & set(ours.special)
    assert ours.decode(typed).endswith(f"a{listed[0]}e".replace("▁", " "))


def test_stated_merges_need_no_scores() -> None:
    """As in Gemma 4's files: merges as of BPE, spaces as U+2581, no space in front."""
    tokens = ["<pad>", "<eos>", "<bos>", "<unk>", *(f"<0x{byte:02X}>" for byte in range(256)), *"abc▁\n", "▁a", "▁ab", "\n\n"]
    metadata = {
        "tokenizer.ggml.model": "gemma4",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [3, 3, 3, 2, *[6] * 256, *[1] * 8],
        "tokenizer.ggml.merges": ["▁ a", "▁a b", "\n \n"],
        "tokenizer.ggml.bos_token_id": 2,
        "tokenizer.ggml.eos_token_id": 1,
    }
    ours = from_gguf(metadata, len(tokens))
    assert [tokens[index] for index in ours.encode("a abc\n\né")] == ["a", "▁ab", "c", "\n\n", "<0xC3>", "<0xA9>"]
    assert ours.decode(ours.encode(" ab c é")) == " ab c é"


PUBLISHED = {
    "qwen2": [r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"],
    "llama3": [LLAMA3_WORDS],
    "qwen35": [
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*"
        r"|\s*[\r\n]+|\s+(?!\S)|\s+"
    ],
    "tekken": [
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
        r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
        r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    ],
    "gpt-4o": [
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
        r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
        r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    ],
    "deepseek-v3": [
        r"\p{N}{1,3}",
        r"[一-龥぀-ゟ゠-ヿ]+",
        r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"
        r"| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    ],
    "starcoder": [r"\p{N}", r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"],
    "seed-coder": [
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+"
    ],
    "deepseek-coder": [r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", "[一-龥ࠀ-一가-퟿]+", r"\p{N}"],
    "bailingmoe": [r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+"],
}
"""The expressions in the models' own tokenizer.json, one after the other."""


def words(patterns: list[str], text: str) -> list[str]:
    """Each expression cuts what the ones before left."""
    pieces = [text]
    for pattern in patterns:
        cut = []
        for piece in pieces:
            at = 0
            for match in regex.finditer(pattern, piece):
                cut += [piece[at : match.start()], match.group()]
                at = match.end()
            cut.append(piece[at:])
        pieces = [piece for piece in cut if piece]
    return pieces


@pytest.mark.parametrize("pre", PUBLISHED)
def test_words_are_split_as_by_the_published_expressions(pre: str) -> None:
    made, decode = WORD_SPLITS[pre].made(), decoders.ByteLevel()
    for text in [*TEXTS, *MORE_TEXTS]:
        text = "".join(char for char in text if unicodedata.category(char) not in ("Cn", "Cs"))  # new ones differ
        ours = [decode.decode([word]) for word, _ in made.pre_tokenize_str(text)]
        assert ours == words(PUBLISHED[pre], text), repr(text)


def ranks() -> dict[bytes, int]:
    """All bytes, and pairs and longer ones that tiktoken can make."""
    merged = [b"he", b"ll", b"hell", b"hello", b" w", b"or", b" wor", b"ld", b" world", b"\xc3\xa9", b"12", b"  ", b"    ", b"st"]
    return {token: rank for rank, token in enumerate([*(bytes([byte]) for byte in range(256)), *merged])}


def write_ranks(folder: Path, model_type: str, name: str = "qwen.tiktoken") -> Path:
    folder.mkdir(exist_ok=True)
    lines = (base64.b64encode(token) + b" " + str(rank).encode() for token, rank in ranks().items())
    (folder / name).write_bytes(b"\n".join(lines) + b"\n")
    (folder / "config.json").write_text(json.dumps({"model_type": model_type}))
    (folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": "<|endoftext|>"}))
    return folder


@pytest.mark.parametrize(
    ("model_type", "name", "words"), [("qwen", "qwen.tiktoken", "qwen2"), ("llama", "tokenizer.model", "llama3")]
)
def test_ids_of_ranks_are_tiktokens(model_type: str, name: str, words: str, tmp_path: Path) -> None:
    ours = from_folder(write_ranks(tmp_path / "folder", model_type, name), 1000)
    theirs = tiktoken.Encoding("x", pat_str=PUBLISHED[words][0], mergeable_ranks=ranks(), special_tokens={})
    for text in [*TEXTS, "hello world 1234  12", "    st  hello"]:
        text = text.encode("utf-8", "replace").decode()
        assert ours.encode(text) == theirs.encode_ordinary(text), repr(text)
        assert ours.decode(ours.encode(text)) == text
    first = "<|endoftext|>" if model_type == "qwen" else "<|begin_of_text|>"
    assert ours.encode(first, allow_special=True) == [len(ranks())]
    assert len(ours.encode(first)) > 1


def test_a_folder_without_a_tokenizer_that_can_be_read_is_refused_with_the_reason(tmp_path: Path) -> None:
    unknown = write_ranks(tmp_path / "unknown", "kimi_k9")
    for folder, content, message in [
        (tmp_path, None, "no tokenizer.json"),
        (tmp_path, b"\x00\x01 nothing of the kind", "no SentencePiece model and no tiktoken file"),
        (tmp_path, b"", "of a kind that is not supported"),
        (unknown, None, "never run here"),
    ]:
        if content is not None:
            (folder / "tokenizer.model").write_bytes(content)
        with pytest.raises(DraftlightError, match=message):
            from_folder(folder, 1000)
    with pytest.raises(DraftlightError, match="do not match"):
        from_folder(write_ranks(tmp_path / "narrow", "qwen"), 300)


def test_added_tokens_come_from_the_settings(tmp_path: Path) -> None:
    folder = write_ranks(tmp_path / "folder", "qwen")
    count = len(ranks())
    added = {str(count): {"content": "<|one|>", "special": True}, str(count + 1): {"content": "<two>", "special": False}}
    added[str(count + 2)] = {"content": "<three>", "special": False}
    named = {"eos_token": "<|one|>", "additional_special_tokens": ["<three>"]}
    (folder / "tokenizer_config.json").write_text(json.dumps({"added_tokens_decoder": added} | named))
    ours = from_folder(folder, 1000)
    assert ours.eos_id == count
    assert set(ours.special) == {count, count + 2}
    assert ours.encode("a<two>") == [ours.encode("a")[0], count + 1]


ODD = [None, True, -1, 2**63, 1.5, float("nan"), "", " ", "\0", "🫠", [], [None], ["", ""], [["a"]], {}, "a" * 10_000]


@pytest.mark.parametrize("kind", ["gpt2", "llama", "gemma4"])
def test_metadata_of_wrong_kinds_give_a_tokenizer_or_a_refusal(kind: str) -> None:
    """Entries and elements of lists replaced at random; nothing but DraftlightError comes out, and no panic of `tokenizers`."""
    pieces = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *"abc▁", "▁a"]
    whole = tiny_models.metadata() | {"tokenizer.ggml.model": kind}
    if kind != "gpt2":
        whole |= {"tokenizer.ggml.tokens": pieces, "tokenizer.ggml.scores": [0.0] * len(pieces)}
        whole |= {"tokenizer.ggml.token_type": [2, 3, 3, *[6] * 256, *[1] * 5], "tokenizer.ggml.merges": ["▁ a"]}
    generator, refused = random.Random(3), 0
    for _ in range(100):
        changed = {key: list(value) if isinstance(value, list) else value for key, value in whole.items()}
        for key in generator.sample([key for key in changed if key.startswith("tokenizer.")], generator.choice((1, 1, 2))):
            value = changed[key]
            if isinstance(value, list) and generator.random() < 0.8:
                for _ in range(generator.choice((1, 3, 50))):
                    value[generator.randrange(len(value))] = generator.choice([*ODD, *value[:3]])
            else:
                changed[key] = generator.choice(ODD)
        try:
            made = from_gguf(changed, 300)
            made.decode(made.raw_prompt("hello ▁a <s> é\n"))
            if made.chat_template:
                made.apply_chat_template([{"role": "user", "content": "hi <s>"}])
        except DraftlightError:
            refused += 1
    assert 30 < refused < 100


def test_a_damaged_tokenizer_model_gives_a_tokenizer_or_a_refusal(model: bytes, tmp_path: Path) -> None:
    generator, refused = random.Random(4), 0
    for _ in range(30):
        changed = bytearray(model)
        for _ in range(generator.choice((1, 4, 40))):
            changed[generator.randrange(generator.choice((200, len(model))))] = generator.randrange(256)
        (tmp_path / "tokenizer.model").write_bytes(changed[: generator.choice((len(model), len(model) // 2))])
        try:
            made = from_folder(tmp_path, WIDTH)
            made.decode(made.raw_prompt("hello ▁a <s> é\n"))
        except DraftlightError:
            refused += 1
    assert refused > 5
