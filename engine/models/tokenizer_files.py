"""Tokenizers from the files of an mlx-lm folder. `engine.models.gguf_tokenizer` builds those of GGUF files."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tokenizers import AddedToken
from tokenizers import Tokenizer as Backend

from engine.files.foreign import content_of, json_of, placeholder_kind
from engine.files.model_folder import CONFIG, read_json
from engine.models.bare_tokenizers import read_bare_tokenizer
from engine.models.gguf_tokenizer import NAMED
from engine.models.pieces import SPACE, byte_fallback, byte_level
from engine.models.tokenizer import Special, Tokenizer, TokenizerParts, explained, secret_name
from engine.values.errors import DraftlightError
from engine.values.wording import noun


def from_folder(folder: Path, width: int, adapter: Path | None = None) -> Tokenizer:
    """Returns the tokenizer of an mlx-lm folder, from `tokenizer.json`, `tokenizer.model` or tiktoken ranks,
    `tokenizer_config.json`, and a chat template next to them.

    Args:
        width: width of the model's logits; ids between the last token and it have no token.
        adapter: folder of an adapter on the model; its files take precedence over those of `folder`.

    Raises:
        DraftlightError: a file is missing, damaged, or describes a kind of tokenizer that is not supported.
    """
    with explained(f"The tokenizer of {adapter or folder} cannot be used", "Download or convert the model again."):
        settings = _settings(folder)
        template, source = _chat_template(folder, settings), folder
        if adapter is not None:
            adapter_settings = _settings(adapter)
            template, settings = _chat_template(adapter, adapter_settings) or template, settings | adapter_settings
            source = adapter if any((adapter / name).is_file() for name in ("tokenizer.json", "tokenizer.model")) else folder
        return _from_files(source, width, settings, template, folder)


def _settings(folder: Path) -> dict[str, Any]:
    """Reads `tokenizer_config.json`, and `special_tokens_map.json` if the former describes no added tokens."""
    settings = read_json(folder / "tokenizer_config.json", required=False)
    if not settings.get("extra_special_tokens") and "additional_special_tokens" in settings:  # its name until transformers 5
        settings["extra_special_tokens"] = settings.pop("additional_special_tokens")
    if "added_tokens_decoder" not in settings:  # written by older versions of transformers
        settings |= read_json(folder / "special_tokens_map.json", required=False)
    return settings


def _from_files(folder: Path, width: int, settings: dict[str, Any], template: str | None, model: Path) -> Tokenizer:
    path = folder / "tokenizer.json"
    parts = _from_tokenizer_json(path, width, settings) if path.is_file() else _from_bare_files(folder, width, settings, model)
    named = {name: token.content for name, token in _named_tokens(settings).items()}
    bos = parts.ids.get(named.get("bos_token", ""))
    return Tokenizer(
        parts,
        template,
        bos,
        parts.ids.get(named.get("eos_token", "")),
        named=named,
        prefix=_prefix(parts.full, width) if path.is_file() else [bos] if parts.adds_bos and bos is not None else [],
    )


def _from_bare_files(folder: Path, width: int, settings: dict[str, Any], model: Path) -> TokenizerParts:
    model_type = read_json(model / CONFIG, required=False).get("model_type")
    added = read_json(folder / "added_tokens.json", required=False)
    return read_bare_tokenizer(folder, width, model_type, settings, added, _special_tokens(settings).keys())


def _from_tokenizer_json(path: Path, width: int, settings: Mapping[str, Any]) -> TokenizerParts:
    """Returns the tokenizer of `tokenizer.json` with the tokens that other files add to it."""
    with explained(f"{path} cannot be read", "Download or convert the model again."):
        described = _without_unused_tokens(json_of(content_of(path)), width)
        full = Backend.from_str(json.dumps(described))
        listed = _add_configured(full, settings, read_json(path.parent / "added_tokens.json", required=False), width)
        added = full.get_added_tokens_decoder()
        special = [
            Special(index, token.content, token.lstrip, token.rstrip)
            for index, token in added.items()
            if (token.special or token.content in listed) and len(token.content.strip()) > 1  # single characters are letters
        ]
        plain = Backend.from_str(json.dumps(_with_secret_names(described, added, special)))
    for backend in (plain, full):
        backend.no_truncation()
        backend.no_padding()
    known = full.get_vocab(with_added_tokens=True)
    if max(known.values(), default=0) >= width:
        raise DraftlightError(
            f"{path} has token ids up to {max(known.values())}, but the model has only {width} "
            f"{noun(width, 'token')}: they do not match."
        )
    decoder = json.dumps(described.get("decoder"))
    if '"ByteLevel"' not in decoder and '"ByteFallback"' not in decoder and '"Metaspace"' not in decoder:
        raise DraftlightError(f"{path} uses a decoder that is not supported (byte-level and SentencePiece-like decoders are).")
    to_bytes = byte_level if '"ByteLevel"' in decoder else byte_fallback
    vocabulary: list[bytes | None] = [None] * width
    for token, index in known.items():
        vocabulary[index] = token.encode() if index in added else to_bytes(token)
    leading_spaces = 0 if to_bytes is byte_level else _stripped_spaces(full)
    return TokenizerParts(plain, full, special, vocabulary, known, leading_spaces=leading_spaces)


def _add_configured(full: Backend, settings: Mapping[str, Any], unflagged_ids: Mapping[str, Any], width: int) -> set[str]:
    """Adds the tokens that files other than `tokenizer.json` describe, in the order and with the flags of transformers.

    Args:
        settings: as `_settings` reads them.
        unflagged_ids: content of `added_tokens.json`, used only if `tokenizer_config.json` describes no added tokens.
        width: width of the model's logits; tokens beyond it are omitted.

    Returns:
        Texts of control tokens, regardless of their flags: tokens that have a name or are listed as special, and tokens that
            only `added_tokens.json` lists, which has no flags.
    """
    existing = {token.content for token in full.get_added_tokens_decoder().values()}
    listed = _special_tokens(settings)
    is_special = _by_text([*_named_tokens(settings).values(), *map(_token, _values(settings.get("extra_special_tokens")))])
    described = settings.get("added_tokens_decoder")
    if isinstance(described, dict):
        entries = sorted((int(key), entry) for key, entry in described.items() if str(key).isdecimal())
        new, unflagged = _by_text(_token(entry) for _, entry in entries), set()
    else:
        unflagged = {text for text, index in unflagged_ids.items() if text not in existing and isinstance(index, int)}
        new = {
            text: AddedToken(text, normalized=text not in is_special, special=text in is_special)
            for text in sorted(unflagged, key=lambda text: unflagged_ids[text])
        }
    new |= {text: token for text, token in listed.items() if text not in existing and text not in new}
    for text, token in new.items():
        if full.token_to_id(text) is not None or full.get_vocab_size() < width:
            full.add_tokens([token])
    return unflagged.union(listed)


def _named_tokens(settings: Mapping[str, Any]) -> dict[str, AddedToken]:
    """Returns the tokens by name, including model-specific names such as `image_token`."""
    extra = settings.get("extra_special_tokens")
    names = [*NAMED, *(name for name in settings if name.endswith("_token") and name not in NAMED)]
    entries = {name: settings.get(name) for name in names} | (extra if isinstance(extra, dict) else {})
    return {name: token for name, entry in entries.items() if (token := _token(entry)) is not None}


def _special_tokens(settings: Mapping[str, Any]) -> dict[str, AddedToken]:
    """Returns the tokens that have a name or are listed as special, by their texts."""
    extra = settings.get("extra_special_tokens") or settings.get("additional_special_tokens")
    return _by_text([*_named_tokens(settings).values(), *map(_token, _values(extra))])


def _values(entry: object) -> Iterable[object]:
    """Returns the entries of a list, or the values of an object."""
    return entry.values() if isinstance(entry, dict) else entry if isinstance(entry, list) else ()


def _token(entry: object) -> AddedToken | None:
    """Parses an added token: either a text alone, which makes it special, or an object with flags. None for anything else."""
    described = {"content": entry, "special": True} if isinstance(entry, str) else entry
    if not isinstance(described, dict) or not isinstance(text := described.get("content"), str) or not text:
        return None
    flags = ("single_word", "lstrip", "rstrip", "normalized", "special")
    return AddedToken(text, **{flag: bool(described[flag]) for flag in flags if flag in described})


def _by_text(tokens: Iterable[AddedToken | None]) -> dict[str, AddedToken]:
    """Indexes tokens by their texts; the first of several with the same text wins."""
    by_text: dict[str, AddedToken] = {}
    for token in tokens:
        if token is not None:
            by_text.setdefault(token.content, token)
    return by_text


def _with_secret_names(described: dict[str, Any], added: Mapping[int, AddedToken], special: list[Special]) -> dict[str, Any]:
    """Returns the tokenizer with control tokens renamed to secret names, so that no text of a user becomes one."""
    names = {token.text: secret_name(token.id) for token in special}
    model = dict(described["model"])
    if isinstance(model.get("vocab"), dict):
        model["vocab"] = {names.get(text, text): index for text, index in model["vocab"].items()}
    elif isinstance(model.get("vocab"), list):
        model["vocab"] = [[names.get(text, text), score] for text, score in model["vocab"]]
    if model.get("unk_token") in names:
        model["unk_token"] = names[model["unk_token"]]
    if isinstance(model.get("merges"), list):
        pairs = [merge.split(" ", 1) if isinstance(merge, str) else merge for merge in model["merges"]]
        model["merges"] = [pair for pair in pairs if names.keys().isdisjoint((*pair, "".join(pair)))]
    tokens = [
        {
            "id": index,
            "content": names.get(token.content, token.content),
            "single_word": token.single_word and token.content not in names,
            **{flag: getattr(token, flag) for flag in ("lstrip", "rstrip", "normalized", "special")},
        }
        for index, token in sorted(added.items())
    ]
    return described | {"model": model, "added_tokens": tokens}


def _stripped_spaces(backend: Backend) -> int:
    """Returns the number of leading spaces that the decoder strips from a text."""
    decoded = backend.decoder.decode([f"{SPACE * 100}a"]) if backend.decoder is not None else "a"
    return 101 - len(decoded)


def _without_unused_tokens(described: dict[str, Any], width: int) -> dict[str, Any]:
    """Returns the contents of a `tokenizer.json` without tokens beyond the width of the model that no text needs.

    Some models have one more added token than embeddings, such as the soft image token of Gemma 3. Tokens that text needs
    stay: one of those beyond the width means that the tokenizer belongs to another model.
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
    """Returns the tokens that the post-processor puts before a text. Those after it are omitted: the text is to be continued."""
    alone, with_special = (backend.encode("a", add_special_tokens=added).ids for added in (False, True))
    offsets = range(len(with_special) - len(alone) + 1)
    start = next((offset for offset in offsets if with_special[offset : offset + len(alone)] == alone), 0)
    return [token for token in with_special[:start] if token < width] if alone else []


def _chat_template(folder: Path, settings: Mapping[str, Any]) -> str | None:
    """Returns the chat template: the template file if there is one, else the configured template (of several, the
    default); None if there is none."""
    if (folder / "chat_template.jinja").is_file():
        content = content_of(folder / "chat_template.jinja")
        if other := placeholder_kind(content):
            raise DraftlightError(f"{folder / 'chat_template.jinja'} {other}")
        return content.decode()
    template = read_json(folder / "chat_template.json", required=False).get("chat_template") or settings.get("chat_template")
    if isinstance(template, list):
        named = {entry.get("name"): entry.get("template") for entry in template if isinstance(entry, dict)}
        template = named.get("default")
    return template if isinstance(template, str) else None
