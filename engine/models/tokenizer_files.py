"""Tokenizers from the files of an mlx-lm folder. Those of GGUF files are made by `engine.models.gguf_tokenizer`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer as Backend

from engine.errors import DraftlightError
from engine.files.foreign import content_of, json_of, stands_for_another
from engine.models import bare_tokenizers
from engine.models.gguf_tokenizer import NAMED
from engine.models.pieces import byte_fallback, byte_level
from engine.models.tokenizer import Special, Tokenizer, explained


def from_folder(folder: Path, width: int, adapter: Path | None = None) -> Tokenizer:
    """The tokenizer of an mlx-lm folder: `tokenizer.json`, `tokenizer.model` or ranks of tiktoken, `tokenizer_config.json`, and a
    chat template beside them.

    Args:
        width: width of the model's logits; ids from the last token up to it are unknown.
        adapter: folder of an adapter on the model, whose own files go before those of `folder`.

    Raises:
        DraftlightError: a file is missing, damaged, or describes a kind of tokenizer that is not supported.
    """
    with explained(f"The tokenizer of {adapter or folder} cannot be used", "Download or convert the model again."):
        settings = _settings(folder)
        template, described = _chat_template(folder, settings), folder
        if adapter is not None:
            own = _settings(adapter)
            template, settings = _chat_template(adapter, own) or template, settings | own
            described = adapter if any((adapter / name).is_file() for name in ("tokenizer.json", "tokenizer.model")) else folder
        return _from_files(described, width, settings, template, folder)


def _settings(folder: Path) -> dict[str, Any]:
    settings = read_json(folder / "tokenizer_config.json", required=False)
    if "added_tokens_decoder" not in settings:  # as older versions of transformers wrote it
        settings |= read_json(folder / "special_tokens_map.json", required=False)
    return settings


def _from_files(folder: Path, width: int, settings: dict[str, Any], template: str | None, model: Path) -> Tokenizer:
    path = folder / "tokenizer.json"
    found = _described(path, width) if path.is_file() else _bare(folder, width, settings, model)
    named = {name: text for name in NAMED if (text := _token_text(settings.get(name)))}
    bos = found.ids.get(named.get("bos_token", ""))
    return Tokenizer(
        found.plain,
        found.full,
        found.special,
        found.vocabulary,
        template,
        bos,
        found.ids.get(named.get("eos_token", "")),
        named=named,
        prefix=_prefix(found.full, width) if path.is_file() else [bos] if found.begins and bos is not None else [],
    )


def _bare(folder: Path, width: int, settings: dict[str, Any], model: Path) -> bare_tokenizers.Found:
    model_type = read_json(model / "config.json", required=False).get("model_type")
    added = read_json(folder / "added_tokens.json", required=False)
    return bare_tokenizers.find(folder, width, model_type, settings, added)


def _described(path: Path, width: int) -> bare_tokenizers.Found:
    """What `tokenizer.json` describes."""
    with explained(f"{path} cannot be read", "Download or convert the model again."):
        described = _within(json_of(content_of(path)), width)
        full = Backend.from_str(json.dumps(described))
        added = {token["id"]: token for token in described.get("added_tokens") or []}
        described["added_tokens"] = [token for token in added.values() if not token.get("special")]
        plain = Backend.from_str(json.dumps(described))
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
    to_bytes = byte_level if '"ByteLevel"' in decoder else byte_fallback
    vocabulary: list[bytes | None] = [None] * width
    for token, index in known.items():
        vocabulary[index] = token.encode() if index in added else to_bytes(token)
    special = [
        Special(index, token["content"], bool(token.get("lstrip")), bool(token.get("rstrip")))
        for index, token in added.items()
        if token.get("special")
    ]
    return bare_tokenizers.Found(plain, full, special, vocabulary, known, begins=False)


def _within(described: dict[str, Any], width: int) -> dict[str, Any]:
    """The contents of a `tokenizer.json` without tokens that a model of this width does not have and that no text needs.

    Some models have one more added token than embeddings, as Gemma 3 its soft token of images. What text is made of stays: if
    that is beyond the width, the tokenizer is another model's.
    """
    tokens = described.get("added_tokens") or []
    added = [token for token in tokens if token["id"] < width]
    beyond = {token["content"] for token in tokens} - {token["content"] for token in added}
    model = dict(described["model"])
    vocabulary = model.get("vocab")
    if isinstance(vocabulary, dict) and max(vocabulary.values(), default=0) >= width:
        merges = [tuple(merge.split(" ") if isinstance(merge, str) else merge) for merge in model.get("merges") or ()]
        needed = {text for merge in merges for text in (*merge, "".join(merge))}
        if merges:
            beyond |= {text for text, index in vocabulary.items() if index >= width and len(text) > 1}
        model["vocab"] = {
            text: index for text, index in vocabulary.items() if index < width or text not in beyond or text in needed
        }
    elif isinstance(vocabulary, list) and all(text in beyond for text, _ in vocabulary[width:]):
        model["vocab"] = vocabulary[:width]
    return described | {"added_tokens": added, "model": model}


def _prefix(backend: Backend, width: int) -> list[int]:
    """What the tokenizer's post-processor puts before a text; what it puts behind one is no part of a text to go on with."""
    alone, whole = (backend.encode("a", add_special_tokens=added).ids for added in (False, True))
    places = range(len(whole) - len(alone) + 1)
    start = next((place for place in places if whole[place : place + len(alone)] == alone), 0)
    return [token for token in whole[:start] if token < width] if alone else []


def read_json(path: Path, required: bool = True) -> dict[str, Any]:
    """The object in a JSON file. DraftlightError where it is damaged, no object, or missing though required."""
    if not required and not path.is_file():
        return {}
    try:
        value = json_of(content_of(path))
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
        content = content_of(folder / "chat_template.jinja")
        if other := stands_for_another(content):
            raise DraftlightError(f"{folder / 'chat_template.jinja'} {other}")
        return content.decode()
    template = read_json(folder / "chat_template.json", required=False).get("chat_template") or settings.get("chat_template")
    if isinstance(template, list):
        named = {entry.get("name"): entry.get("template") for entry in template if isinstance(entry, dict)}
        template = named.get("default")
    return template if isinstance(template, str) else None
