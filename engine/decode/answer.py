"""Tokens and text of one answer: the committed tokens, the number that still fits, and the conditions that end the answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from engine.decode.text_stream import AnswerText, AnyTokenizer
from engine.types import DecodingOptions, Finish
from engine.values.errors import DraftlightError
from engine.values.wording import amount


class Appended(NamedTuple):
    """Tokens and text that one round adds to an answer.

    Attributes:
        kept: the emitted ids that count: all of them, or those up to the end of the answer.
        text: the text that the round adds.
        finish: why the answer ends here; None if it goes on.
    """

    kept: list[int]
    text: str
    finish: Finish | None


class Answer:
    """Prompt and answer as token ids, and the answer's text.

    Args:
        prompt: ids, chat template applied.
        given: number of the last prompt tokens that begin the answer.
        options: for its length limit and stop texts.
        context_length: maximum number of tokens that the model reads; None if unknown.
        continues: whether the answer's text continues that of the prompt.

    Attributes:
        tokens: prompt and committed tokens.
        text: the text so far, including the part that is held back for a possible stop text.

    Raises:
        ValueError: an empty prompt, or `stop` without a tokenizer.
        DraftlightError: the prompt does not fit into the context.
    """

    def __init__(
        self,
        prompt: Sequence[int],
        given: int,
        options: DecodingOptions,
        tokenizer: AnyTokenizer | None,
        eos_ids: frozenset[int],
        context_length: int | None,
        continues: bool,
    ) -> None:
        self.tokens = [int(token) for token in prompt]
        if not self.tokens:
            raise ValueError("prompt_tokens must hold at least one token")
        if options.stop and tokenizer is None:
            raise ValueError("stop needs a tokenizer: without one there is no text to look for it in")
        if context_length is not None and len(self.tokens) >= context_length:
            raise DraftlightError(
                f"The conversation is {amount(len(self.tokens), 'token')} long, but the model reads at most "
                f"{context_length:,}. "
                "Start a new chat or shorten the message."
            )
        self._eos_ids = eos_ids
        self._limit = len(self.tokens) - given + options.max_tokens  # of all tokens, prompt included
        self._context_length = context_length
        self.text = AnswerText(tokenizer, options.stop, eos_ids, continues)
        self.text.begin(self.tokens[len(self.tokens) - given :])

    @property
    def newest(self) -> int:
        """The newest committed token, which no pass has read yet."""
        return self.tokens[-1]

    @property
    def room(self) -> int:
        """Number of tokens that may still be emitted."""
        limit = self._limit if self._context_length is None else min(self._limit, self._context_length)
        return limit - len(self.tokens)

    def append(self, emitted: Sequence[int], is_stopped: bool) -> Appended:
        """Commits the tokens of a round up to the first that ends the answer. `is_stopped`: the user stopped the answer."""
        kept: list[int] = []
        text = ""
        finish: Finish | None = None
        for token in emitted:
            kept.append(token)
            released, stopped = self.text.push(token)
            text += released
            if token in self._eos_ids:
                finish = "eos"
            elif stopped:
                finish = "stop"
            if finish is not None:
                break
        self.tokens.extend(kept)
        finish = finish or self._limit_reached() or ("cancelled" if is_stopped else None)
        if finish not in (None, "stop"):
            text += self.text.finish()
        return Appended(kept, text, finish)

    def _limit_reached(self) -> Finish | None:
        if len(self.tokens) >= self._limit:
            return "length"
        full = self._context_length is not None and len(self.tokens) >= self._context_length
        return "context" if full else None
