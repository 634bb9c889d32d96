"""How an answer that branches off another begins: with tokens that are decided already."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from engine.errors import DraftlightError
from engine.rounds.text_stream import AnswerText
from engine.types import DecodingOptions, Request


@dataclass(frozen=True, slots=True)
class Beginning:
    """The tokens an answer begins with, as ids, because text need not become the same tokens again.

    Attributes:
        text: what they add to the answer. An unfinished character at the end comes with the token that completes it.
    """

    ids: tuple[int, ...] = ()
    text: str = ""


def with_given_ids(target: Any, request: Request) -> Request:
    """A request whose answer begins with a text, with the tokens of that text."""
    if request.given or not request.given_text:
        return request
    ids = tuple(target.tokenizer.encode(request.given_text, allow_special=True))
    longest = request.options.max_tokens + len(ids)
    return replace(request, given=ids, options=request.options.replace(max_tokens=longest))


def beginning(target: Any, given: Sequence[int], options: DecodingOptions, prompt_tokens: int) -> Beginning:
    """The beginning of an answer with these ids. Raises DraftlightError where the answer cannot go on from there."""
    if not given:
        return Beginning()
    size = len(target.vocabulary)
    wrong = next((token for token in given if not 0 <= token < size), None)
    if wrong is not None:
        raise DraftlightError(f"The answer cannot begin with token {wrong}: {target.name} has tokens 0 to {size - 1}.")
    if any(token in target.eos_ids for token in given):
        raise DraftlightError("This token ends the answer, so nothing could follow it. Choose another.")
    if len(given) >= options.max_tokens:
        raise DraftlightError(
            f"The answer may have at most {options.max_tokens:,} tokens, and the branch already has {len(given):,}. "
            "Increase Max tokens, or branch earlier."
        )
    if prompt_tokens + len(given) >= target.context_length:
        raise DraftlightError(
            f"The answer already fills the context of {target.context_length:,} tokens of {target.name}. Branch earlier."
        )
    text = AnswerText(target.tokenizer, (), frozenset()).begin(given)
    if any(stop in text for stop in options.stop):
        raise DraftlightError("This token completes a stop sequence, which ends the answer. Choose another.")
    return Beginning(tuple(given), text)
