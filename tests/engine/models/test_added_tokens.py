"""Added tokens, wherever the files of a model describe them: ids against transformers, on tokenizers made at random."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path
from typing import Any

import pytest
from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers
from tokenizers import Tokenizer as Backend
from transformers import AutoTokenizer

from engine.models.tokenizer import Tokenizer
from engine.models.tokenizer_files import from_folder
from engine.types import Message

KINDS = ["bytes", "prepended", "metaspace", "unigram", "lower case"]
LETTERS = "abcdefgh.!<|>[/]_IN0"
TEXTS = [
    "<|im_start|>",
    "<|im_end|>",
    "<s>",
    "</s>",
    "<pad>",
    "[INST]",
    "[/INST]",
    "<|a|>",
    "<|ab|>",
    "<|abc",
    "fed",
    "Hag",
    "gg",
]
FLAGS = ("lstrip", "rstrip", "normalized", "single_word", "special")


def made_backend(kind: str, generator: random.Random, inside: list[str]) -> Backend:
    """A backend without added tokens, in whose vocabulary some of their texts may be."""
    if kind == "bytes":
        characters = sorted(pre_tokenizers.ByteLevel.alphabet())
    else:
        characters = ["<unk>", *(f"<0x{byte:02X}>" for byte in range(256)), "▁", *LETTERS, "H", "A"]
    merges = [("a", "b"), ("ab", "c"), ("f", "e"), ("<", "|"), ("|", ">"), *([] if kind == "bytes" else [("▁", "a")])]
    pieces = [*characters, *("".join(pair) for pair in merges)]
    for text in inside:
        pieces.insert(generator.randrange(1, len(pieces)), text)
    if kind == "unigram":
        scores = [(piece, -10.0 - len(piece) * 0.1 if piece not in inside else 0.0) for piece in pieces]
        backend = Backend(models.Unigram(scores, unk_id=0, byte_fallback=True))
    else:
        unknown = {} if kind == "bytes" else {"unk_token": "<unk>", "fuse_unk": True, "byte_fallback": True}
        vocabulary = {piece: index for index, piece in enumerate(pieces)}
        backend = Backend(models.BPE(vocab=vocabulary, merges=merges, ignore_merges=generator.random() < 0.3, **unknown))
    if kind == "bytes":
        backend.pre_tokenizer, backend.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
        return backend
    spaces = [] if kind == "metaspace" else [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    backend.normalizer = normalizers.Sequence([*([normalizers.Lowercase()] if kind == "lower case" else []), *spaces])
    if kind == "metaspace":
        scheme = generator.choice(["first", "always", "never"])
        backend.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=scheme, split=False)
    backend.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    return backend


class Case:
    """A model folder with added tokens spread over its files, and conversations for it."""

    def __init__(self, folder: Path, kind: str, seed: int) -> None:
        self.folder, self.random = folder, random.Random(f"{kind} {seed}")
        chosen = self.random.sample(TEXTS, self.random.randrange(3, len(TEXTS)))
        inside = [text for text in chosen if self.random.random() < 0.4]
        backend = made_backend(kind, self.random, inside)
        texts = sorted(chosen, key=lambda text: (text not in inside, backend.token_to_id(text) or 0))
        tokens = {text: self._token(text) for text in texts}
        in_file = [text for text in texts if self.random.random() < 0.5]
        for text in in_file:
            backend.add_tokens([tokens[text]])
        elsewhere = [text for text in texts if text not in in_file]
        ids = {text: backend.token_to_id(text) for text in texts}
        following = backend.get_vocab_size()
        for text in elsewhere:
            if ids[text] is None:
                ids[text], following = following, following + 1
        self.tokens, self.ids = tokens, ids
        self.config: dict[str, Any] = {"tokenizer_class": "PreTrainedTokenizerFast"}
        backend.save(str(folder / "tokenizer.json"))
        self._spread(elsewhere, in_file)
        own = self.random.sample(chosen, min(3, len(chosen)))
        self.template_tokens = own
        before, behind, between = (
            self.random.choice(some) for some in (["\n", " ", "", " a"], [" ", "", "\n", "g"], ["", "\n", " "])
        )
        turn = f"{own[0]}{{{{ m['role'] }}}}{before}{{{{ m['content'] }}}}{behind}{own[-1]}{between}"
        self.config["chat_template"] = f"{{% for m in messages %}}{turn}{{% endfor %}}{own[1]}"
        (folder / "tokenizer_config.json").write_text(json.dumps(self.config))
        width = 1 + max(AutoTokenizer.from_pretrained(folder).get_vocab().values())
        self.ours, self.theirs = from_folder(folder, width), AutoTokenizer.from_pretrained(folder)

    def _token(self, text: str) -> AddedToken:
        flags = {flag: self.random.random() < 0.25 for flag in FLAGS[:4]}
        return AddedToken(text, special=self.random.random() < 0.6, **flags)

    def _spread(self, elsewhere: list[str], in_file: list[str]) -> None:
        described = self.random.choice(["decoder", "added_tokens", "nowhere"])
        if described == "decoder":
            known = [*elsewhere, *(text for text in in_file if self.random.random() < 0.5)]
            self.config["added_tokens_decoder"] = {
                str(self.ids[text]): {"content": text, **{flag: getattr(self.tokens[text], flag) for flag in FLAGS}}
                for text in sorted(known, key=lambda text: self.ids[text] or 0)
            }
        elif described == "added_tokens":
            (self.folder / "added_tokens.json").write_text(json.dumps({text: self.ids[text] for text in elsewhere}))
        names = self.config if self.random.random() < 0.5 else {}
        some = self.random.sample([*elsewhere, *in_file], self.random.randrange(1, 3))
        names |= dict(zip(("eos_token", "pad_token"), some, strict=False))
        if self.random.random() < 0.5:
            names["additional_special_tokens"] = self.random.sample(elsewhere, len(elsewhere) // 2)
        if names is not self.config:
            (self.folder / "special_tokens_map.json").write_text(json.dumps(names))


def a_text(generator: random.Random, avoided: set[str]) -> str:
    """A text in which none of these tokens occurs, in whatever case."""
    while True:
        parts = generator.choices([*LETTERS, "  ", " ", "\n", "é", "fed ", *TEXTS], k=generator.randrange(12))
        text = "".join(part for part in parts if generator.random() < 0.8 or part in LETTERS)
        joins = text[-1:].lower() in tuple("ghf")  # with what the template puts behind it
        if not joins and not any(token.lower() in text.lower() for token in avoided):
            return text


@pytest.fixture(scope="module", params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def cases(kind: str, tmp_path_factory: pytest.TempPathFactory) -> list[Case]:
    return [Case(tmp_path_factory.mktemp("case"), kind, seed) for seed in range(25)]


def controls(ours: Tokenizer) -> set[str]:
    return {token.text for token in ours.special.values()}


def test_ids_are_those_of_transformers_wherever_added_tokens_are_described(cases: list[Case]) -> None:
    generator = random.Random(1)
    for case in cases:
        for _ in range(4):
            turns = _turns([a_text(generator, controls(case.ours)) for _ in range(2)])
            expected = case.theirs.apply_chat_template(turns, return_dict=False)
            assert case.ours.apply_chat_template(turns, False) == expected, (case.folder, turns)


def test_a_typed_control_token_stays_text_and_the_templates_own_stay_tokens(kind: str, cases: list[Case]) -> None:
    generator, typed = random.Random(2), 0
    for case in cases:
        flagged = ("single_word", "normalized") if kind == "unigram" else ("single_word",)
        if any(getattr(case.tokens[text], flag) for text in controls(case.ours) for flag in flagged):
            continue  # what stands beside them decides whether they are tokens
        for _ in range(4):
            contents = [a_text(generator, set()) for _ in range(2)]
            neutral = [re.sub("|".join(map(re.escape, controls(case.ours))), _dots, text, flags=re.I) for text in contents]
            typed += contents != neutral
            expected = case.theirs.apply_chat_template(_turns(neutral), return_dict=False)
            ids = case.ours.apply_chat_template(_turns(contents), False)
            special = case.ours.special
            assert [each for each in ids if each in special] == [each for each in expected if each in special], contents
            if kind == "bytes":
                rendered = case.theirs.apply_chat_template(_turns(contents), tokenize=False)
                assert "".join(case.ours.decode(ids).split()) == "".join(rendered.split())
    assert typed


def _turns(contents: list[str]) -> list[dict[str, str]]:
    return [{"role": "user", "content": content} for content in contents]


def _dots(found: re.Match[str]) -> str:
    return "." * len(found[0])


def test_text_with_typed_control_tokens_is_encoded_in_one_pass_however_many_there_are(tmp_path: Path) -> None:
    """A vocabulary like Gemma's. Trying each token at each character would take minutes."""
    special = ["<bos>", "<start_of_turn>", "<end_of_turn>", *(f"<unused{index}>" for index in range(6242))]
    pieces = [*special, *sorted(pre_tokenizers.ByteLevel.alphabet())]
    backend = Backend(models.BPE(vocab={piece: index for index, piece in enumerate(pieces)}, merges=[]))
    backend.pre_tokenizer, backend.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    backend.add_special_tokens([AddedToken(text, normalized=False, special=True) for text in special])
    backend.save(str(tmp_path / "tokenizer.json"))
    template = "{% for m in messages %}<start_of_turn>{{ m['content'] }}<end_of_turn>{% endfor %}"
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"chat_template": template}))
    ours = from_folder(tmp_path, len(pieces))
    typed = "<div>a < b</div><unused17>\n" * 200 + "<unused6241>"
    for text in (typed, typed + "<", typed + "<unus"):
        ids = ours.apply_chat_template([Message("user", text)], False)
        assert [each for each in ids if each in ours.special] == [1, 2]
        assert ours.decode(ids) == f"<start_of_turn>{text}<end_of_turn>"


def test_templates_know_the_names_that_a_model_gives_its_own_tokens(tmp_path: Path) -> None:
    backend = made_backend("bytes", random.Random(1), [])
    backend.save(str(tmp_path / "tokenizer.json"))
    settings = {
        "chat_template": "{{ eot_token }}{{ messages[0]['content'] }}{{ image_token }}{{ add_bos_token }}{{ pad_token }}",
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eot_token": "<|eot|>",
        "extra_special_tokens": {"image_token": "<image>"},
        "add_bos_token": True,
        "pad_token": "!",
    }
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
    ours, theirs = from_folder(tmp_path, 300), AutoTokenizer.from_pretrained(tmp_path)
    turns = _turns(["Hi!"])
    assert ours.apply_chat_template(turns, False) == theirs.apply_chat_template(turns, return_dict=False)
    assert "!" not in controls(ours), "a letter, which nobody could type any more"


def test_roles_reach_the_template_also_where_a_control_token_is_spelled_like_one(tmp_path: Path) -> None:
    backend = made_backend("bytes", random.Random(1), [])
    backend.add_tokens([AddedToken(text, normalized=False, special=True) for text in ("user", "toolbox")])
    backend.save(str(tmp_path / "tokenizer.json"))
    template = "{% for m in messages %}{{ m.content if m.role == 'user' else '?' }}{% endfor %}"
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"chat_template": template}))
    ours = from_folder(tmp_path, 300)
    ids = ours.apply_chat_template([Message("user", "a user")], False)
    assert ours.decode(ids) == "a user"
    assert not set(ids) & set(ours.special)
