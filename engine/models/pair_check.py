"""Compatibility check of a draft model and a target, with the reasons against a pair as sentences for users."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from engine.models.loaded import LoadedModel
from engine.models.tokenizer import Tokenizer
from engine.target.prompt_cache import make_prompt_cache, refusal
from engine.values.wording import noun

_RESERVED = re.compile(
    r"[<\[][|｜]?_?(?:reserved|unused|extra[_-]?id|dummy|place.?holder|special_\d|control_\d)[^<>\[\]]*[>\]]", re.IGNORECASE
)
"""Names of slots that models keep for later: Llama's <|reserved_special_token_7|>, Gemma's <unused7>, Phi's <|placeholder7|>,
Mistral's <SPECIAL_7>, T5's <extra_id_7>, ..."""


_MAX_NAMED = 4
"""Maximum number of control tokens that a message names."""


@dataclass(frozen=True)
class PairReport:
    """Result of `check_pair`; `reasons` are sentences, empty if the drafter can propose for the target."""

    usable: bool
    reasons: tuple[str, ...]


def check_pair(target: LoadedModel, drafter: LoadedModel) -> PairReport:
    """Compares what speculative decoding relies on: equal tokens for equal ids, and caches that can be rolled back.

    Widths may differ, and either side may lack tokens: an absent token has probability 0 there. Tokens that both have must have
    the same bytes, control tokens included; else the drafter would propose other text than it means, and most of it would be
    rejected. Reserved slots may differ in name: they were never trained, so they are not proposed.
    """
    reasons = [
        reason
        for reason in (vocabulary_reason(target, drafter.name, drafter.vocabulary), _head_reason(target, drafter))
        if reason
    ]
    for side, loaded in (("target", target), ("drafter", drafter)):
        if reason := cache_reason(loaded.model):
            reasons.append(f"The {side} {loaded.name} {reason}")
    return PairReport(not reasons, tuple(reasons))


def target_reason(model: LoadedModel) -> str | None:
    """Returns why the model cannot be a target, as a sentence; None if it can."""
    if model.target_ids is None:
        return None
    return (
        f"{model.name} can only be used as a drafter: its output covers only part of its target's tokens. Choose another target."
    )


def cache_reason(model: Any) -> str | None:
    """Returns why the model's cache cannot be rolled back, as the end of a sentence that names the model; None if it can."""
    reason = refusal(make_prompt_cache(model))
    return None if reason is None else f"cannot roll back rejected proposals: {reason}."


def vocabulary_reason(target: LoadedModel, name: str, vocabulary: Sequence[bytes | None]) -> str | None:
    """Returns why the vocabulary of a model called `name` prevents it from drafting, as a sentence; None if it does not."""
    pairs = zip(target.vocabulary, vocabulary, strict=False)
    differing = [
        index
        for index, (ours, theirs) in enumerate(pairs)
        if ours != theirs and ours is not None and theirs is not None and not _is_reserved(target, index, ours, theirs)
    ]
    if not differing:
        shared = any(ours is not None and ours == theirs for ours, theirs in zip(target.vocabulary, vocabulary, strict=False))
        return None if shared else f"{name} and {target.name} have no token in common."
    first = differing[0]
    kind = "control token" if first in target.tokenizer.special else "token"
    return (
        f"The vocabularies differ in {len(differing)} {noun(len(differing), 'entry', 'entries')}, first at {kind} {first}: "
        f"{_shown(target.vocabulary[first])} in {target.name}, {_shown(vocabulary[first])} in {name}."
    )


def template_warning(target: LoadedModel, name: str, tokenizer: Tokenizer) -> str:
    """Returns how the chat template of a model called `name` differs from the target's, in sentences; empty if it does not.

    The pair can still be used: the target's template writes the prompts of both, and the rules are exact whatever is
    proposed. The templates are only read, not run: a model that was not chosen yet must not be able to hang anything.
    """
    ours, theirs = target.tokenizer.chat_template, tokenizer.chat_template
    if ours is None or (theirs is not None and ours.split() == theirs.split()):
        return ""
    if theirs is None:
        difference = f"{name} has no chat template, so it may not know the form of the prompts."
    else:
        target_tokens, its_tokens = _template_tokens(target.tokenizer), _template_tokens(tokenizer)
        if target_tokens == its_tokens:
            return f"The chat templates of {target.name} and {name} differ in their words, not in their control tokens."
        difference = f"The chat templates differ: {target.name} uses {_listed(target_tokens)}, {name} uses {_listed(its_tokens)}."
    return f"{difference} Fewer of its proposals may be accepted; the text stays exact."


def _template_tokens(tokenizer: Tokenizer) -> list[str]:
    """Returns the control tokens that occur in the chat template, in its order."""
    template = tokenizer.chat_template or ""
    return sorted({token.text for token in tokenizer.special.values() if token.text in template}, key=template.index)


def _listed(marks: list[str]) -> str:
    ellipsis = ", …" if len(marks) > _MAX_NAMED else ""
    return ", ".join(map(repr, marks[:_MAX_NAMED])) + ellipsis if marks else "no control tokens"


def _is_reserved(target: LoadedModel, index: int, ours: bytes, theirs: bytes) -> bool:
    """Returns whether a differing token is harmless: one side has only reserved its id, and the target's prompts never use it."""
    tokenizer = target.tokenizer
    if index in target.eos_ids or index == tokenizer.bos_id or index in tokenizer.prefix:
        return False
    text = ours.decode("utf-8", "replace")
    if tokenizer.chat_template is not None and text in tokenizer.chat_template:
        return False
    unused = _RESERVED.fullmatch(text) or (index in tokenizer.special and _RESERVED.fullmatch(theirs.decode("utf-8", "replace")))
    return bool(unused)


def _head_reason(target: LoadedModel, drafter: LoadedModel) -> str | None:
    if drafter.target_ids is None:
        return None
    ids = cast(list[int], drafter.target_ids.tolist())
    outside = [token for token in ids if not 0 <= token < len(target.vocabulary)]
    if outside:
        return (
            f"The trimmed head of {drafter.name} contains token {outside[0]}, but {target.name} has only "
            f"{len(target.vocabulary)} {noun(len(target.vocabulary), 'token')}."
        )
    if len(set(ids)) != len(ids):
        return f"The trimmed head of {drafter.name} contains a token twice."
    return None


def _shown(token: bytes | None) -> str:
    return repr((token or b"").decode("utf-8", "backslashreplace"))
