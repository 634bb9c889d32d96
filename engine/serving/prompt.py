"""What a model reads for a conversation: the messages in its chat template, or a text as it stands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from engine.errors import DraftlightError
from engine.types import Message, Request, Thinking


def uses_template(target: Any, template: bool = True) -> bool:
    """Whether messages are written in the model's chat template. `template`: whether that is wanted where there is one."""
    return template and target.tokenizer.chat_template is not None


def prompt_ids(target: Any, messages: Sequence[Message], template: bool = True, thinking: Thinking = "auto") -> list[int]:
    """Token ids of a conversation. Without a template, those of the last message's text alone, which the model goes on with."""
    if uses_template(target, template):
        read = target.tokenizer.apply_chat_template(list(messages), add_generation_prompt=True, thinking=thinking)
    else:
        read = target.tokenizer.raw_prompt(messages[-1].content)
    return [int(token) for token in read]


def prompt_of(target: Any, request: Request) -> list[int]:
    """Token ids that a request has the model read. Raises DraftlightError where there are none, or too many."""
    if not request.messages:
        raise DraftlightError("There is nothing to answer: the conversation is empty.")
    prompt = prompt_ids(target, request.messages, request.template, request.thinking)
    if not prompt:
        raise DraftlightError("The prompt is empty. Type some text first.")
    if len(prompt) >= target.context_length:
        raise DraftlightError(
            f"The conversation is {len(prompt):,} tokens long, but {target.name} reads at most {target.context_length:,}. "
            "Start a new chat or shorten the message."
        )
    return prompt
