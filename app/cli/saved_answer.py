"""Stores the conversation of `draftlight chat`: continues an earlier one if requested, and saves the new answer."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from engine.chats import (
    CONTINUABLE,
    STATE_OF_FINISH,
    STATE_WORDS,
    ChatSettings,
    ChatStore,
    Conversation,
    Making,
    State,
    figures_of,
    given_ids,
)
from engine.rounds.metrics import Totals
from engine.types import Event, LoadFinished, Message, Request, RoundFinished, RunFailed, RunFinished, RunStarted
from engine.values.errors import DraftlightError


def newest_conversation(store: ChatStore) -> int:
    """Returns the id of the conversation changed last, comparisons left out. Raises DraftlightError if there is none."""
    found = [each for each in store.conversations() if not each.comparison]
    if not found:
        raise DraftlightError("There is no conversation yet that could be continued.")
    return max(found, key=lambda each: each.updated).id


def request_with(settings: ChatSettings, messages: Sequence[Message], **others: Any) -> Request:
    """Returns a request with the settings of a conversation, its system prompt, its messages and other fields."""
    system = (Message("system", settings.system),) if settings.system.strip() else ()
    return settings.request((*system, *messages), **others)


class SavedAnswer:
    """Stores one answer of a conversation from its beginning to its end.

    If storing fails at the end, such as on a full disk or a locked file, the answer is still printed, and the failure is
    reported.

    Attributes:
        request: the request for the engine, with a trace path at which the store finds the trace.
    """

    def __init__(self, store: ChatStore, settings: ChatSettings, conversation: Conversation | None, prompt: str) -> None:
        """Stores the prompt and the beginning of its answer.

        Args:
            conversation: the one to continue; None starts a new one.
            prompt: empty to continue the last answer, or to answer the last prompt.
        """
        self._store = store
        self._totals = Totals()
        self._started: RunStarted | None = None
        self._text = ""
        path = conversation.path if conversation is not None else []
        continued = path[-1] if path and path[-1].role == "assistant" and not prompt else None
        given: tuple[int, ...] = ()
        if continued is not None:
            path = path[:-1]
            if continued.state == "failed":  # it is regenerated
                continued = None
            elif continued.state not in CONTINUABLE:
                raise DraftlightError(
                    f"The last answer cannot be continued ({STATE_WORDS[continued.state]}). "
                    "Give a prompt to continue the conversation."
                )
            elif continued.trace is None:
                raise DraftlightError("The trace of the last answer is missing, so it cannot be continued. Give a prompt.")
            else:
                given = given_ids(continued.trace)
        if not path and not prompt:
            raise DraftlightError("The conversation is empty. Give a prompt.")
        options = settings.options.replace(max_tokens=settings.options.max_tokens + len(given))
        if continued is not None and continued.made is not None and options.seed is None:
            options = options.replace(seed=continued.made.settings.options.seed)  # as if it had never ended
        self._making = Making(settings=replace(settings, options=options))
        with store.together():
            number = store.create(settings) if conversation is None else conversation.about.id
            store.keep_settings(number, settings)
            messages = [Message(each.role, each.text) for each in path]
            parent = path[-1].id if path else None
            if prompt:
                parent = store.add_message(number, parent, "user", prompt)
                messages.append(Message("user", prompt))
            assert parent is not None
            stored = store.begin_answer(number, parent, self._making, None if continued is None else continued.id)
        self._message = stored.message
        self.request = request_with(
            self._making.settings,
            messages,
            trace_path=stored.trace_path,
            given=given,
            dropped=next((each.made.dropped for each in reversed(path) if each.made is not None), 0),
        )

    def handle(self, event: Event) -> None:
        """Follows the answer, and stores it when it has ended."""
        match event:
            case LoadFinished(model):
                self._making = replace(self._making, model=model.name)
            case RunStarted():
                self._started, self._text = event, event.given
                settings = replace(self._making.settings, options=event.options)
                self._making = replace(self._making, settings=settings, dropped=event.dropped)
            case RoundFinished(_, round):
                self._totals.add(round)
                self._text += round.text
            case RunFinished():
                self._store_answer(STATE_OF_FINISH[event.finish], event.text, event.trace_path, event.seconds_to_first_token)
            case RunFailed(_, message):
                self._making = replace(self._making, failure=message)
                self._store_answer("failed", self._text, None if self._started is None else self._started.trace_path, None)

    def _store_answer(self, state: State, text: str, trace: str | None, first_token: float | None) -> None:
        prompt_tokens = None if self._started is None else self._started.prompt_tokens
        made = replace(self._making, figures=figures_of(self._totals.summary(), prompt_tokens, first_token))
        try:
            self._store.finish_answer(self._message, state, text, made, trace)
        except DraftlightError as error:
            print(f"draftlight: The answer could not be saved. {error}", file=sys.stderr)
