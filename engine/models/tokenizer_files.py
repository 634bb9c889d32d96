"""Tokenizers from a model's files: the metadata of a GGUF file, or the `tokenizer.json` of an mlx-lm folder."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Regex, models, pre_tokenizers
from tokenizers import Tokenizer as Backend

from engine.errors import DraftlightError
from engine.models.tokenizer import Special, Tokenizer

_UNKNOWN, _CONTROL, _USER_DEFINED, _UNUSED = 2, 3, 4, 5
"""Token types of GGUF metadata (ggml, `llama_token_type`); 1 is an ordinary token."""

_NAMED = {
    "bos_token": "bos",
    "eos_token": "eos",
    "unk_token": "unknown",
    "sep_token": "seperator",
    "pad_token": "padding",
    "cls_token": "cls",
    "mask_token": "mask",
}
"""Names of transformers, which templates use, and of GGUF metadata, whose spelling of the separator is ggml's own."""

_BYTE_TOKEN = re.compile(r"<0x([0-9A-Fa-f]{2})>")
_BYTE_LEVEL = pre_tokenizers.ByteLevel(add_prefix_space=False)
_LLAMA3_WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_WORD_SPLITS = {
    "gpt-2": _BYTE_LEVEL,
    "smollm": pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), _BYTE_LEVEL]),
    "llama-bpe": pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_LLAMA3_WORDS), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    ),
}
"""How text is cut before merging, by the name in `tokenizer.ggml.pre` (llama.cpp, `llama-vocab.cpp`)."""
_WHOLE_WORDS_FIRST = {"llama-bpe"}
"""Vocabularies whose words are taken whole where the vocabulary has them, without merging."""
_BOS_FIRST = {"llama-bpe"}
"""Vocabularies whose texts begin with the token of the beginning where the file does not say (llama.cpp, `llama-vocab.cpp`)."""


def _byte_characters() -> dict[str, int]:
    """The byte behind each character of GPT-2's byte-level vocabularies (Radford et al. 2019, `encoder.py`)."""
    plain = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    shifted = [byte for byte in range(256) if byte not in plain]
    return {chr(byte): byte for byte in plain} | {chr(256 + index): byte for index, byte in enumerate(shifted)}


_BYTES = _byte_characters()


def _byte_level(token: str) -> bytes:
    """Bytes of a byte-level token; one with other characters can only have been added as text."""
    return bytes(_BYTES[char] for char in token) if all(char in _BYTES for char in token) else token.encode()


def _byte_fallback(token: str) -> bytes:
    """Bytes of a SentencePiece-like token: U+2581 is a space, `<0xNN>` a byte."""
    single = _BYTE_TOKEN.fullmatch(token)
    return bytes([int(single[1], 16)]) if single else token.replace("\u2581", " ").encode()


def from_gguf(metadata: Mapping[str, Any], width: int) -> Tokenizer:
    """The tokenizer in a GGUF file's metadata.

    Args:
        metadata: as `engine.models.gguf_llama.read_header` gives it.
        width: rows of the model's embedding; ids from the last token up to it are unknown.

    Raises:
        DraftlightError: something is missing, contradictory, or of a kind that is not supported; names it.
    """
    kind, pre = metadata.get("tokenizer.ggml.model"), metadata.get("tokenizer.ggml.pre")
    tokens, merges = metadata.get("tokenizer.ggml.tokens"), metadata.get("tokenizer.ggml.merges")
    if kind is None or not isinstance(tokens, list):
        raise DraftlightError("The file contains no tokenizer. Choose a GGUF file with a whole model.")
    if kind != "gpt2" or not isinstance(merges, list):
        raise DraftlightError(
            f"The file's tokenizer is of type {kind!r}; the only GGUF tokenizer type supported is byte-level BPE ('gpt2'). "
            "Use the model's mlx-lm folder instead."
        )
    if not isinstance(pre, str) or pre not in _WORD_SPLITS:
        raise DraftlightError(
            f"The file's pre-tokeniser {pre!r} is not supported ({', '.join(_WORD_SPLITS)} are). "
            "Use the model's mlx-lm folder instead."
        )
    types = metadata.get("tokenizer.ggml.token_type") or [1] * len(tokens)
    if not isinstance(types, list):
        raise DraftlightError(f"The file's tokenizer is damaged: its token types are {types!r}. Download the file again.")
    if len(types) != len(tokens) or len(tokens) > width or len(set(tokens)) != len(tokens):
        raise DraftlightError(
            f"The file's tokenizer is damaged: {len(set(tokens))} different tokens of {len(tokens)}, {len(types)} token types, "
            f"{width} embeddings. Download the file again."
        )
    bos, eos, turn_end = (metadata.get(f"tokenizer.ggml.{key}_token_id") for key in ("bos", "eos", "eot"))
    for end in (bos, eos, turn_end):
        if end is not None and not (isinstance(end, int) and 0 <= end < len(tokens)):
            raise DraftlightError(
                f"The file's begin or end token is {end}, but it has only {len(tokens)} tokens. Download the file again."
            )
    named = {name: metadata.get(f"tokenizer.ggml.{key}_token_id") for name, key in _NAMED.items()}
    ids = {token: index for index, token in enumerate(tokens) if types[index] != _UNUSED}
    special = [Special(index, token) for token, index in ids.items() if types[index] == _CONTROL]
    user_defined = [token for token, index in ids.items() if types[index] == _USER_DEFINED]
    vocabulary: list[bytes | None] = [None] * width
    for token, index in ids.items():
        vocabulary[index] = token.encode() if types[index] in (_CONTROL, _USER_DEFINED) else _byte_level(token)
    plain = _byte_level_backend({token: index for token, index in ids.items() if types[index] != _CONTROL}, merges, pre)
    full = _byte_level_backend(ids, merges, pre)
    for backend in (plain, full):
        backend.add_tokens([AddedToken(token, normalized=False) for token in user_defined])
    full.add_special_tokens([AddedToken(token.text, normalized=False, special=True) for token in special])
    return Tokenizer(
        plain,
        full,
        special,
        vocabulary,
        metadata.get("tokenizer.chat_template"),
        bos,
        eos,
        turn_end,
        {name: tokens[index] for name, index in named.items() if isinstance(index, int) and 0 <= index < len(tokens)},
        prefix=[bos] if bos is not None and metadata.get("tokenizer.ggml.add_bos_token", pre in _BOS_FIRST) else [],
    )


def _byte_level_backend(ids: dict[str, int], merges: list[str], pre: str) -> Backend:
    try:
        pairs = [(first, second) for first, second in (merge.split(" ") for merge in merges)]
        backend = Backend(models.BPE(vocab=ids, merges=pairs, ignore_merges=pre in _WHOLE_WORDS_FIRST))
    except Exception as error:  # tokenizers raises bare Exception for merges of unknown tokens
        raise DraftlightError(f"The file's tokenizer is damaged: {error}. Download the file again.") from error
    backend.pre_tokenizer = _WORD_SPLITS[pre]
    return backend


def from_folder(folder: Path, width: int) -> Tokenizer:
    """The tokenizer of an mlx-lm folder: `tokenizer.json`, `tokenizer_config.json`, and a chat template beside them.

    Args:
        width: width of the model's logits; ids from the last token up to it are unknown.

    Raises:
        DraftlightError: a file is missing, damaged, or describes a kind of tokenizer that is not supported.
    """
    path = folder / "tokenizer.json"
    if not path.is_file():
        raise DraftlightError(f"{folder} has no tokenizer.json. Convert the model again with its tokenizer.")
    try:
        described = json.loads(path.read_text(encoding="utf-8"))
        full = Backend.from_str(json.dumps(described))
        added = {token["id"]: token for token in described.get("added_tokens") or []}
        described["added_tokens"] = [token for token in added.values() if not token.get("special")]
        plain = Backend.from_str(json.dumps(described))
    except Exception as error:  # tokenizers raises bare Exception for what it cannot read
        raise DraftlightError(f"{path} cannot be read: {error}. Download or convert the model again.") from error
    for backend in (plain, full):
        backend.no_truncation()
        backend.no_padding()
    known = full.get_vocab(with_added_tokens=True)
    if max(known.values(), default=0) >= width:
        raise DraftlightError(
            f"{path} has token ids up to {max(known.values())}, but the model has only {width} tokens: they do not match."
        )
    decoder = json.dumps(described.get("decoder"))
    if '"ByteLevel"' not in decoder and '"ByteFallback"' not in decoder and '"Metaspace"' not in decoder:
        raise DraftlightError(f"{path} uses a decoder that is not supported (byte-level and SentencePiece-like decoders are).")
    to_bytes = _byte_level if '"ByteLevel"' in decoder else _byte_fallback
    vocabulary: list[bytes | None] = [None] * width
    for token, index in known.items():
        vocabulary[index] = token.encode() if index in added else to_bytes(token)
    special = [
        Special(index, token["content"], bool(token.get("lstrip")), bool(token.get("rstrip")))
        for index, token in added.items()
        if token.get("special")
    ]
    settings = read_json(folder / "tokenizer_config.json", required=False)
    if "added_tokens_decoder" not in settings:  # as older versions of transformers wrote it
        settings |= read_json(folder / "special_tokens_map.json", required=False)
    named = {name: text for name in _NAMED if (text := _token_text(settings.get(name)))}
    return Tokenizer(
        plain,
        full,
        special,
        vocabulary,
        _chat_template(folder, settings),
        known.get(named.get("bos_token", "")),
        known.get(named.get("eos_token", "")),
        named=named,
        prefix=_prefix(full),
    )


def _prefix(backend: Backend) -> list[int]:
    """What the tokenizer's post-processor puts before a text; what it puts behind one is no part of a text to go on with."""
    alone, whole = (backend.encode("a", add_special_tokens=added).ids for added in (False, True))
    places = range(len(whole) - len(alone) + 1)
    start = next((place for place in places if whole[place : place + len(alone)] == alone), 0)
    return list(whole[:start]) if alone else []


def read_json(path: Path, required: bool = True) -> dict[str, Any]:
    """The object in a JSON file. DraftlightError where it is damaged, no object, or missing though required."""
    if not required and not path.is_file():
        return {}
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise DraftlightError(f"{path.parent} has no {path.name}, so it is not a model folder.") from error
    except (OSError, ValueError) as error:
        raise DraftlightError(f"{path} cannot be read: {error}") from error
    if not isinstance(value, dict):
        raise DraftlightError(f"{path} is not a JSON object.")
    return value


def _token_text(entry: object) -> str:
    return str(entry.get("content", "")) if isinstance(entry, dict) else str(entry or "")


def _chat_template(folder: Path, settings: Mapping[str, Any]) -> str | None:
    """The template file if there is one, else the configured one; of several, the one named default."""
    if (folder / "chat_template.jinja").is_file():
        return (folder / "chat_template.jinja").read_text(encoding="utf-8")
    template = read_json(folder / "chat_template.json", required=False).get("chat_template") or settings.get("chat_template")
    if isinstance(template, list):
        named = {entry.get("name"): entry.get("template") for entry in template if isinstance(entry, dict)}
        template = named.get("default")
    return template if isinstance(template, str) else None
