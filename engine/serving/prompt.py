"""Prompt of a conversation: the messages in the model's chat template, or raw text, as far as they fit.

Also counts the tokens of a prompt while the user is typing, on its own thread, so that the count does not wait for an answer.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from engine.files.logs import explain
from engine.types import Message, PromptCounted, Request, Thinking
from engine.values.errors import DraftlightError
from engine.values.wording import amount

ANSWER_SHARE = 4
"""When turns are dropped, an answer reserves its maximum length, but at most 1 / ANSWER_SHARE of the context."""


class ContextFull(DraftlightError):
    """Raised if a conversation is too long for the context. `may_drop`: whether it would fit without its oldest turns."""

    def __init__(self, message: str, may_drop: bool) -> None:
        super().__init__(message)
        self.may_drop = may_drop


@dataclass(frozen=True, slots=True)
class Prompt:
    """Token ids to read. `dropped`: number of the request's messages that are left out, oldest first, after the system
    prompt."""

    ids: list[int]
    dropped: int = 0


def uses_template(target: Any, template: bool = True) -> bool:
    """Returns whether messages are written in the model's chat template. `template`: whether to use it if there is one."""
    return template and target.tokenizer.chat_template is not None


def prompt_ids(target: Any, messages: Sequence[Message], template: bool = True, thinking: Thinking = "auto") -> list[int]:
    """Returns the token ids of a conversation; without a template, those of the last message's text, which the model
    continues."""
    if uses_template(target, template):
        asks = bool(messages) and messages[-1].role == "user"
        read = target.tokenizer.apply_chat_template(list(messages), add_generation_prompt=asks, thinking=thinking)
    else:
        read = target.tokenizer.raw_prompt(messages[-1].content)
    return [int(token) for token in read]


def prompt_of(target: Any, request: Request) -> Prompt:
    """Returns the prompt of a request. Raises DraftlightError if it is empty, and ContextFull if it is too long."""
    if not request.messages:
        raise DraftlightError("There is nothing to answer: the conversation is empty.")
    prompt = fitted(target, request)
    if not prompt.ids:
        raise DraftlightError("The prompt is empty. Type some text first.")
    given, limit = len(request.given), target.context_length
    if len(prompt.ids) + given < limit:
        return prompt
    starts = _turn_starts(target, request)
    shortest = len(_read(target, request, starts[-1])) if starts else len(prompt.ids)
    if not starts or shortest + given >= limit:
        subject = "The message and the answer so far are" if given else "The message alone is"
        raise ContextFull(
            f"{subject} {amount(shortest + given, 'token')} long, but {target.name} reads at most {limit:,}. Shorten "
            "the message, or choose "
            "a model with a larger context.",
            may_drop=False,
        )
    raise ContextFull(
        f"The conversation is {amount(len(prompt.ids) + given, 'token')} long, but {target.name} reads at most "
        f"{limit:,}. Leave out the "
        "oldest turns, shorten the message, or start a new chat.",
        may_drop=True,
    )


def fitted(target: Any, request: Request) -> Prompt:
    """Returns the prompt of a request, even if it is too long.

    If the request allows it, the oldest turns are dropped when the answer has no room left. Enough are dropped to leave another
    1 / ANSWER_SHARE of the context free, because each time the whole prompt must be read again.
    """

    @cache
    def length(dropped: int) -> int:
        """Returns the number of tokens without the `dropped` oldest messages."""
        return len(_read(target, request, dropped))

    starts = _turn_starts(target, request) if request.overflow == "drop" else ()
    given = len(request.given)
    share = target.context_length // ANSWER_SHARE
    limit = target.context_length - given - max(1, min(request.options.max_tokens - given, share))
    dropped = 0
    if starts and length(0) > limit:
        if request.dropped in starts and length(request.dropped) <= limit:
            dropped = request.dropped
        else:
            limits = (limit - share, limit)
            indices = (bisect_left(starts, True, key=lambda start: length(start) <= end) for end in limits)
            dropped = next((starts[index] for index in indices if index < len(starts)), starts[-1])
    return Prompt(_read(target, request, dropped), dropped)


def _opening(request: Request) -> int:
    """Returns the number of messages before the conversation: 1 with a system prompt, else 0."""
    return sum(message.role == "system" for message in request.messages[:1])


def _turn_starts(target: Any, request: Request) -> tuple[int, ...]:
    """Returns the numbers of messages that can be left out: all before a user message. Empty if only the last message is
    read."""
    if not uses_template(target, request.template):
        return ()
    messages = request.messages[_opening(request) :]
    return tuple(index for index, message in enumerate(messages) if index and message.role == "user")


def _read(target: Any, request: Request, dropped: int) -> list[int]:
    opening = _opening(request)
    messages = request.messages[:opening] + request.messages[opening + dropped :]
    return prompt_ids(target, messages, request.template, request.thinking)


@dataclass(frozen=True, slots=True)
class _Reader:
    """The properties of a target that determine a prompt's length. The target itself is used only on the engine thread."""

    name: str
    context_length: int
    tokenizer: Any


class PromptCounter:
    """Counts the tokens of prompts as the target would read them. Its thread starts with the first count and makes no MLX
    calls.

    Args:
        emit: called on that thread with the PromptCounted events.
    """

    def __init__(self, emit: Callable[[PromptCounted], None]) -> None:
        self._emit = emit
        self._reader: _Reader | None = None
        self._wake = threading.Condition()
        self._wanted: tuple[int, Request] | None = None
        self._closing = False
        self._thread: threading.Thread | None = None

    def use(self, target: Any) -> None:
        """Sets the target to count for."""
        self._reader = _Reader(target.name, target.context_length, target.tokenizer)

    def count(self, number: int, request: Request) -> None:
        """Starts a count for the event of this number; it replaces a pending count. No effect after `close`."""
        with self._wake:
            if self._closing:
                return
            self._wanted = (number, request)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="draftlight-counter", daemon=True)
                self._thread.start()
            self._wake.notify()

    def close(self) -> None:
        """Ends the thread after the current count."""
        with self._wake:
            self._closing = True
            self._wake.notify()

    def ended(self, timeout: float) -> bool:
        """Waits at most `timeout` seconds for the thread; returns whether it has ended."""
        if self._thread is not None:
            self._thread.join(timeout)
        return self._thread is None or not self._thread.is_alive()

    def _run(self) -> None:
        while True:
            with self._wake:
                self._wake.wait_for(lambda: self._closing or self._wanted is not None)
                if self._closing or self._wanted is None:
                    return
                (number, request), self._wanted = self._wanted, None
            self._emit(_counted(number, request, self._reader))


def _counted(number: int, request: Request, reader: _Reader | None) -> PromptCounted:
    nothing = PromptCounted(number, None, None)
    if reader is None or not request.messages:
        return nothing
    try:
        prompt = fitted(reader, request)
    except DraftlightError:  # an error of the template; reported when an answer is requested
        return nothing
    except BaseException as error:  # the thread must survive
        explain(error, "counting tokens")  # logged only
        return nothing
    return PromptCounted(number, len(prompt.ids) + len(request.given), reader.context_length, prompt.dropped)
