"""Tokenizers from the metadata of GGUF files: byte-level and SentencePiece-like ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from engine.models.pieces import BYTE, CONTROL, NORMAL, UNUSED, USER_DEFINED, WORD_SPLITS, Pieces, WordSplit, byte_level_parts
from engine.models.tokenizer import Tokenizer, explained
from engine.values.errors import DraftlightError
from engine.values.wording import noun

NAMED = {
    "bos_token": "bos",
    "eos_token": "eos",
    "unk_token": "unknown",
    "sep_token": "seperator",
    "pad_token": "padding",
    "cls_token": "cls",
    "mask_token": "mask",
}
"""Token names of transformers, which templates use, by key; values are those of GGUF, with ggml's spelling of the separator."""

_ENDS = ("eos", "eot", "eom")
_KINDS = ("gpt2", "llama", "gemma4")
_BY_PLACE = ("gemma", "gemma2", "gemma3")
"""Architectures whose pieces merge in the order of their ids, regardless of their scores (transformers,
`gguf_tokenizer_mapping.py`)."""


def from_gguf(metadata: Mapping[str, Any], width: int) -> Tokenizer:
    """Returns the tokenizer in a GGUF file's metadata.

    Args:
        metadata: as `engine.files.gguf_header.read_header` returns it.
        width: rows of the model's embedding; ids between the last token and it have no token.

    Raises:
        DraftlightError: something is missing, contradictory or not supported; names it.
    """
    kind, tokens = metadata.get("tokenizer.ggml.model"), metadata.get("tokenizer.ggml.tokens")
    if kind is None or not isinstance(tokens, list) or not all(isinstance(token, str) for token in tokens):
        raise DraftlightError("The file contains no tokenizer. Choose a GGUF file with a whole model.")
    if kind not in _KINDS:
        raise DraftlightError(
            f"The file's tokenizer is of type {kind!r}; {', '.join(map(repr, _KINDS))} are supported. "
            "Use the model's mlx-lm folder instead."
        )
    types = metadata.get("tokenizer.ggml.token_type") or [NORMAL] * len(tokens)
    if not isinstance(types, list):
        raise DraftlightError(f"The file's tokenizer is damaged: its token types are {types!r}. Download the file again.")
    if len(types) == len(tokens) and not any(kind in (NORMAL, BYTE) for kind in types[width:]):
        tokens, types = tokens[:width], types[:width]  # text does not need these tokens, and the model has no embeddings for them
    different = len(set(tokens) - {""})
    if len(types) != len(tokens) or len(tokens) > width or 2 * different <= len(tokens):
        raise DraftlightError(
            f"The file's tokenizer is damaged: {different} {noun(different, 'different token')} of {len(tokens)}, "
            f"{len(types)} token types, "
            f"{width} embeddings. Download the file again."
        )
    ids = {key: metadata.get(f"tokenizer.ggml.{key}_token_id") for key in (*NAMED.values(), *_ENDS)}
    merges = [] if kind == "llama" else _merges(metadata)
    if different != len(tokens):
        types = _without_doubles(tokens, types, ids.values())
        known = {token for token, its_type in zip(tokens, types, strict=True) if its_type != UNUSED}
        merges = [(left, right) for left, right in merges if {left, right, left + right} <= known]
    for end in (ids["bos"], *(ids[key] for key in _ENDS)):
        if end is not None and not (isinstance(end, int) and 0 <= end < len(tokens)):
            raise DraftlightError(
                f"The file's begin or end token is {end}, but it has only {len(tokens)} "
                f"{noun(len(tokens), 'token')}. Download the file again."
            )
    if kind == "gpt2":
        split = _word_split(metadata.get("tokenizer.ggml.pre"))
        matched = (CONTROL, USER_DEFINED)
        ordinary = {token: index for index, token in enumerate(tokens) if types[index] not in (*matched, UNUSED)}
        added = {index: (token, types[index] == CONTROL) for index, token in enumerate(tokens) if types[index] in matched}
        with explained("The file's tokenizer is damaged", "Download the file again."):  # such as merges of unknown tokens
            parts = byte_level_parts(ordinary, added, merges, split, width)
    else:
        parts = _pieces(metadata, tokens, types, merges if kind == "gemma4" else None).parts(width, adds_bos=True)
    template, bos = metadata.get("tokenizer.chat_template"), ids["bos"]
    named = ((name, ids[key]) for name, key in NAMED.items())
    return Tokenizer(
        parts,
        template if isinstance(template, str) else None,
        bos,
        ids["eos"],
        more_eos_ids=[end for key in _ENDS if (end := ids[key]) is not None],
        named={name: tokens[index] for name, index in named if isinstance(index, int) and 0 <= index < len(tokens)},
        prefix=[bos] if bos is not None and metadata.get("tokenizer.ggml.add_bos_token", parts.adds_bos) else [],
    )


def _without_doubles(tokens: list[str], types: list[Any], named: Iterable[object]) -> list[Any]:
    """Returns the types, with empty tokens and all but one of equal tokens marked unused. Kept is a token that the file names,
    else a control token, else the first. Google's own files of Gemma 4 contain some duplicates."""
    names = set(map(repr, named))
    kept: dict[str, int] = {}
    for index in sorted(range(len(tokens)), key=lambda index: (repr(index) not in names, types[index] != CONTROL)):
        if types[index] != UNUSED:
            kept.setdefault(tokens[index], index)
    return [types[index] if token and kept.get(token) == index else UNUSED for index, token in enumerate(tokens)]


def _word_split(pre: object) -> WordSplit:
    if not isinstance(pre, str) or pre not in WORD_SPLITS:
        raise DraftlightError(
            f"The file's pre-tokeniser {pre!r} is not supported ({', '.join(WORD_SPLITS)} are). "
            "Use the model's mlx-lm folder instead."
        )
    return WORD_SPLITS[pre]


def _merges(metadata: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Returns the merges in order. A space may occur in a piece, but not at its start."""
    merges = metadata.get("tokenizer.ggml.merges")
    if not isinstance(merges, list):
        raise DraftlightError("The file's tokenizer is damaged: it has no merges. Download the file again.")
    found = []
    for merge in merges:
        cut = merge.find(" ", 1) if isinstance(merge, str) else -1
        if cut < 0 or cut == len(merge) - 1 or " " in merge[cut + 1 :]:
            raise DraftlightError(f"The file's tokenizer is damaged: {merge!r} is not a merge. Download the file again.")
        found.append((merge[:cut], merge[cut + 1 :]))
    return found


def _pieces(metadata: Mapping[str, Any], tokens: list[str], types: list[Any], merges: list[tuple[str, str]] | None) -> Pieces:
    scores = metadata.get("tokenizer.ggml.scores")
    if merges is not None:
        return Pieces(tokens, [0.0] * len(tokens), types, space_first=False, merges=merges)
    if metadata.get("general.architecture") in _BY_PLACE:
        scores = [-float(index) for index in range(len(tokens))]
    scores = scores[: len(tokens)] if isinstance(scores, list) else scores
    if not isinstance(scores, list) or len(scores) != len(tokens) or not all(isinstance(score, (int, float)) for score in scores):
        raise DraftlightError("The file's tokenizer is damaged: its tokens have no scores. Download the file again.")
    return Pieces(tokens, scores, types, space_first=bool(metadata.get("tokenizer.ggml.add_space_prefix", True)))
