"""Tokenizers of folders without `tokenizer.json`: SentencePiece's `tokenizer.model`, and the ranks of tiktoken.

Neither file is complete. Added tokens are listed in `tokenizer_config.json` or `added_tokens.json`. The pre-tokenizer of a
tiktoken vocabulary is Python code, which is never run here, so only some model types are supported (`_WORD_SPLIT_BY_TYPE`).
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from engine.files.foreign import content_of, placeholder_kind
from engine.models.pieces import (
    CONTROL,
    NORMAL,
    UNKNOWN,
    UNUSED,
    USER_DEFINED,
    WORD_SPLITS,
    Pieces,
    byte_level_parts,
    in_characters,
)
from engine.models.tokenizer import TokenizerParts
from engine.values.errors import DraftlightError
from engine.values.wording import noun

_WORD_SPLIT_BY_TYPE: dict[str, tuple[str, list[str]]] = {
    "qwen": ("qwen2", ["<|endoftext|>", "<|im_start|>", "<|im_end|>", *(f"<|extra_{index}|>" for index in range(205))]),
    "llama": (
        "llama-bpe",
        [
            *("<|begin_of_text|>", "<|end_of_text|>", *(f"<|reserved_special_token_{index}|>" for index in range(4))),
            *("<|start_header_id|>", "<|end_header_id|>", "<|reserved_special_token_4|>", "<|eot_id|>"),
            *(f"<|reserved_special_token_{index}|>" for index in range(5, 251)),
        ],
    ),
    "glm4": ("glm4", []),
    "glm": ("glm4", []),
}
"""By `model_type`: name of the pre-tokenizer (a key of `WORD_SPLITS`), and the control tokens that follow the ranks if no
file names them: those of Qwen's `tokenization_qwen.py` and Llama 3's `tokenizer.py`."""
_ADDS_BOS_BY_DEFAULT = ("LlamaTokenizer", "GemmaTokenizer", "CodeLlamaTokenizer", "InternLM2Tokenizer")
"""Tokenizer classes of transformers that add the BOS token by default."""


def read_bare_tokenizer(
    folder: Path,
    width: int,
    model_type: object,
    settings: Mapping[str, Any],
    added: Mapping[str, Any],
    listed: Collection[str] = (),
) -> TokenizerParts:
    """Returns the folder's tokenizer.

    Args:
        width: width of the model's logits.
        model_type: as in config.json. settings, added: contents of `tokenizer_config.json` and `added_tokens.json`.
        listed: tokens that the settings name or list as special.

    Raises:
        DraftlightError: there is none, it is damaged, or its pre-tokenizer is not known.
    """
    path = next((path for path in (folder / "tokenizer.model", *sorted(folder.glob("[!.]*.tiktoken"))) if path.is_file()), None)
    path = path or next((path for path in sorted(folder.glob("tiktoken*.model")) if path.is_file()), None)
    if path is None:
        raise DraftlightError(f"{folder} has no tokenizer.json. Convert the model again with its tokenizer.")
    try:
        content = content_of(path)
    except OSError as error:
        raise DraftlightError(f"{path} cannot be read: {error.strerror or error}.") from error
    if other := placeholder_kind(content):
        raise DraftlightError(f"{path} {other}")
    added_tokens = {index: token for index, token in _added(settings, added, listed).items() if index < width}
    if (ranks := _ranks(content)) is not None:
        return _from_ranks(path, ranks, width, model_type, added_tokens)
    pieces = _with_listed(_extended(_from_model(path, content).cut_to(width), added_tokens), listed)
    if len(pieces.pieces) > width:
        raise DraftlightError(
            f"{path} has {len(pieces.pieces)} {noun(len(pieces.pieces), 'token')}, but the model has only {width} "
            f"{noun(width, 'token')}: they do not match."
        )
    name = str(settings.get("tokenizer_class", "LlamaTokenizer")).removesuffix("Fast")
    return pieces.parts(width, bool(settings.get("add_bos_token", name in _ADDS_BOS_BY_DEFAULT)))


def _added(settings: Mapping[str, Any], added: Mapping[str, Any], listed: Collection[str]) -> dict[int, tuple[str, bool]]:
    """Returns, by id, the text of each added token and whether it is a control token."""
    tokens = {index: (text, True) for text, index in added.items() if isinstance(index, int)}
    described = settings.get("added_tokens_decoder")
    for key, entry in (described if isinstance(described, dict) else {}).items():
        if str(key).isdigit() and isinstance(entry, dict) and isinstance(entry.get("content"), str):
            tokens[int(key)] = (entry["content"], bool(entry.get("special")) or entry["content"] in listed)
    return tokens


def _from_model(path: Path, content: bytes) -> Pieces:
    from sentencepiece import sentencepiece_model_pb2 as schema  # not needed by other models; parses, and runs nothing

    model: Any = schema.ModelProto()  # type: ignore[attr-defined]  # made when it is imported
    try:
        model.ParseFromString(content)
    except Exception as error:  # protobuf raises its own exception types
        raise DraftlightError(f"{path} is no SentencePiece model and no tiktoken file. Download the model again.") from error
    kinds = {model.trainer_spec.UNIGRAM: True, model.trainer_spec.BPE: False}
    if any(isinstance(piece.piece, bytes) for piece in model.pieces):  # a piece that is not valid UTF-8
        raise DraftlightError(f"{path} is damaged: a piece of it is no text. Download the model again.")
    if not model.pieces or model.trainer_spec.model_type not in kinds:
        raise DraftlightError(f"{path} is of a kind that is not supported (BPE and unigram are). Convert it to tokenizer.json.")
    return Pieces(
        [piece.piece for piece in model.pieces],
        [piece.score for piece in model.pieces],
        [piece.type for piece in model.pieces],
        unigram=kinds[model.trainer_spec.model_type],
        space_first=model.normalizer_spec.add_dummy_prefix,
        one_space=model.normalizer_spec.remove_extra_whitespaces,
        charsmap=model.normalizer_spec.precompiled_charsmap,
    )


def _extended(pieces: Pieces, added: Mapping[int, tuple[str, bool]]) -> Pieces:
    """Returns the pieces with the added tokens at their ids. Ids left between get unused placeholders."""
    count = max([len(pieces.pieces), *(index + 1 for index in added)])
    gap = count - len(pieces.pieces)
    texts = [*pieces.pieces, *(f"\U0010fffe{index}" for index in range(gap))]
    scores, kinds = [*pieces.scores, *[0.0] * gap], [*pieces.kinds, *[UNUSED] * gap]
    for index, (text, is_control) in added.items():
        texts[index] = text
        if is_control and kinds[index] != UNKNOWN:
            kinds[index] = CONTROL
        elif index >= len(pieces.pieces):
            kinds[index] = USER_DEFINED
    return replace(pieces, pieces=texts, scores=scores, kinds=kinds)


def _with_listed(pieces: Pieces, listed: Collection[str]) -> Pieces:
    """Marks pieces that are listed as special tokens as control tokens, except single characters."""
    kinds = [
        CONTROL if text in listed and kind in (NORMAL, USER_DEFINED) and len(text.strip()) > 1 else kind
        for text, kind in zip(pieces.pieces, pieces.kinds, strict=True)
    ]
    return replace(pieces, kinds=kinds)


def _ranks(content: bytes) -> dict[bytes, int] | None:
    """Parses a tiktoken file (a base64 token and its rank on each line) into ranks by token. None for any other file."""
    ranks: dict[bytes, int] = {}
    try:
        for line in content.split(b"\n"):
            if line.strip():
                token, rank = line.split()
                ranks[base64.b64decode(token, validate=True)] = int(rank)
    except (ValueError, binascii.Error):
        return None
    return ranks or None


def _from_ranks(
    path: Path, ranks: dict[bytes, int], width: int, model_type: object, added: dict[int, tuple[str, bool]]
) -> TokenizerParts:
    words = _WORD_SPLIT_BY_TYPE.get(model_type) if isinstance(model_type, str) else None
    if words is None:
        raise DraftlightError(
            f"{path} does not say how text is cut into words, and models of the type {model_type!r} keep that in Python code, "
            "which is never run here. Use a folder with tokenizer.json."
        )
    split, control = WORD_SPLITS[words[0]], words[1]
    first_added = max(ranks.values()) + 1
    added = added or {first_added + index: (text, True) for index, text in enumerate(control)}
    ids = {in_characters(token): rank for token, rank in ranks.items()}
    if sorted(ids.values()) != list(range(len(ids))) or max([first_added - 1, *added]) >= width:
        raise DraftlightError(
            f"{path} and the model do not match: {len(ids)} {noun(len(ids), 'rank')}, {width} "
            f"{noun(width, 'token')}. Download the model again."
        )
    return byte_level_parts(ids, added, _merges(ranks), split, width)


def _merges(ranks: dict[bytes, int]) -> list[tuple[str, str]]:
    """Returns the BPE merges: for each token, the two parts left after all merges of lower ranks are applied to its bytes."""
    merges = []
    for token, rank in sorted(ranks.items(), key=lambda entry: entry[1]):
        parts = [token[index : index + 1] for index in range(len(token))]
        while len(parts) > 2:
            part_ranks = [ranks.get(parts[left] + parts[left + 1], rank) for left in range(len(parts) - 1)]
            left = min(range(len(part_ranks)), key=part_ranks.__getitem__)
            if part_ranks[left] >= rank:
                break
            parts[left : left + 2] = [parts[left] + parts[left + 1]]
        if len(parts) == 2:
            merges.append((in_characters(parts[0]), in_characters(parts[1])))
    return merges
